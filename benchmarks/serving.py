"""What the HTTP service answers with 100,000 rows: requests a second, and whose processor it takes.

The service, PostgreSQL and those who ask share the machine. The questions' vectors are in the
embedding cache. Those who ask are a process of their own, over connections that stay open, as of
an application; the time it takes them is told beside.
"""

import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks.report import Figure
from benchmarks.scale import PROJECT, QUESTIONS, SET, Given, load
from lastro.app import App, owner_url
from lastro.beir import load_passages, load_questions
from lastro.db.pool import Database
from lastro.db.scratch import scratch_database, settle
from lastro.embedders import fingerprint
from lastro.keys import KeyRing
from lastro.writing import Writer

CLIENTS, WORKERS = 16, 2
WARM_S, MEASURED_S = 10.0, 60.0
START_S = 60.0
PORT = 18_437
# Source: the targets of the release.
RATE_FLOOR, CPU_FLOOR_MS, TAIL_FLOOR = 150.0, 4.0, 10.0

# What stands in an answer that lacks nothing.
NOTHING_SAID = b'"degraded":[]'

Say = Callable[[str], None]


def measure_serving(app: App, data: Path, *, say: Say) -> list[Figure]:
    """Load the set into a scratch database, serve it, and ask."""
    passages = load_passages(data / SET)
    questions = [question.text for question in load_questions(data / SET)][:QUESTIONS]
    embedder = Given(app.embedder, app.database)
    with scratch_database(owner_url(app.settings)) as url, Database(url) as database:
        pipeline = replace(app.writer().pipeline, embedder=fingerprint(embedder))
        writer = Writer(database=database, admin_url=url, embedder=embedder, pipeline=pipeline)
        say(f"preparing {len(passages):,} rows")
        load(writer, passages, project=PROJECT, say=say)
        settle(url)
        key = KeyRing(database).create(PROJECT, role="viewer").key
        environment = {"LASTRO_HOME": str(app.settings.home), "LASTRO_DATABASE_URL": url}
        with _served(environment) as service:
            say(f"asking for {MEASURED_S:.0f} s with {CLIENTS} clients")
            _ask(questions, key, seconds=WARM_S)
            before = _cpu_s(service), _postgres_s()
            asked = _ask(questions, key, seconds=MEASURED_S)
            after = _cpu_s(service), _postgres_s()
    service_ms, postgres_ms = (
        (late - early) / len(asked.took_ms) * 1000
        for early, late in zip(before, after, strict=True)
    )
    return _figures(asked, service_ms=service_ms, postgres_ms=postgres_ms)


def _figures(asked: "Asked", *, service_ms: float, postgres_ms: float) -> list[Figure]:
    took = asked.took_ms
    hundredths = statistics.quantiles(took, n=100)
    p50, p95, p99 = hundredths[49], hundredths[94], hundredths[98]
    return [
        Figure(
            name=f"requests/s, {CLIENTS} clients", value=len(took) / MEASURED_S, floor=RATE_FLOOR
        ),
        Figure(name="answers that were none", value=asked.failed, floor=0, at_least=False),
        *(
            Figure(name=f"answers that said `{reason}`", value=count)
            for reason, count in sorted(asked.degraded.items())
        ),
        Figure(
            name="CPU of the service for each request, ms",
            value=service_ms,
            floor=CPU_FLOOR_MS,
            at_least=False,
            digits=1,
        ),
        Figure(name="CPU of PostgreSQL for each request, ms", value=postgres_ms, digits=1),
        Figure(name="CPU of those who ask for each request, ms", value=asked.cpu_ms, digits=1),
        Figure(name="p50, ms", value=p50, digits=1),
        Figure(name="p95, ms", value=p95, digits=1),
        Figure(name="p99, ms", value=p99, digits=1),
        Figure(name="p99 to p50", value=p99 / p50, floor=TAIL_FLOOR, at_least=False, digits=1),
    ]


# --- the service


@contextmanager
def _served(environment: Mapping[str, str]) -> Generator[psutil.Process]:
    command = [str(Path(sys.executable).with_name("lastro")), "serve"]
    options = ["--port", str(PORT), "--workers", str(WORKERS)]
    process = subprocess.Popen([*command, *options], env={**os.environ, **environment})
    try:
        until = time.monotonic() + START_S
        while not _answers():
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit("the service did not start")
            time.sleep(0.1)
        time.sleep(1)  # for the other workers
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _answers() -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def _cpu_s(process: psutil.Process) -> float:
    return sum(_used_s(one) for one in [process, *process.children(recursive=True)])


def _postgres_s() -> float:
    """Of every PostgreSQL of the machine that still runs: the pool's connections stay."""
    found = [one for one in psutil.process_iter(["name"]) if one.info["name"] == "postgres"]
    return sum(map(_used_s, found))


def _used_s(process: psutil.Process) -> float:
    """Of a process, 0 once it is gone."""
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return used.user + used.system


# --- those who ask


@dataclass(kw_only=True)
class Asked:
    """What the answers took, how many were none, and what asking itself took.

    ``degraded`` counts answers by what they said that they lacked: none by itself is a failure,
    since one of a common word says that not all of its rows were scored.
    """

    took_ms: list[float] = field(default_factory=list[float])
    failed: int = 0
    degraded: Counter[str] = field(default_factory=Counter[str])
    cpu_ms: float = 0.0


def _ask(questions: Sequence[str], key: str, *, seconds: float) -> Asked:
    """Have a process ask with all clients at once."""
    said = json.dumps({"questions": list(questions), "key": key, "seconds": seconds})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.serving"],
        input=said,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"asking failed: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    return Asked(**{**said, "degraded": Counter(said["degraded"])})


def _ask_here(asked: Mapping[str, Any]) -> Asked:
    total = Asked()
    until = time.monotonic() + asked["seconds"]
    cpu = time.process_time()
    lock = threading.Lock()

    def client(number: int) -> None:
        mine = Asked()
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        questions = asked["questions"]
        turn = number * len(questions) // CLIENTS
        while time.monotonic() < until:
            body = json.dumps({"query": questions[turn % len(questions)]})
            began = time.perf_counter()
            connection.request(
                "POST",
                f"/api/projects/{PROJECT}/rag/search",
                body,
                {"Authorization": f"Bearer {asked['key']}", "Content-Type": "application/json"},
            )
            reply = connection.getresponse()
            answer = reply.read()
            mine.took_ms.append((time.perf_counter() - began) * 1000)
            if reply.status != http.client.OK:
                mine.failed += 1
            elif NOTHING_SAID not in answer:
                mine.degraded.update(one["reason"] for one in json.loads(answer)["degraded"])
            turn += 1
        with lock:
            total.took_ms += mine.took_ms
            total.failed += mine.failed
            total.degraded += mine.degraded

    threads = [threading.Thread(target=client, args=[number]) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total.cpu_ms = (time.process_time() - cpu) / max(1, len(total.took_ms)) * 1000
    return total


def main() -> int:
    """Ask as told on stdin, and print what came of it."""
    print(json.dumps(vars(_ask_here(json.load(sys.stdin)))))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
