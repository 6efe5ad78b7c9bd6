"""What storing events costs, timed apart from indexing: their rate, and memory that stays flat."""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from benchmarks.indexing import home
from benchmarks.report import Figure
from lastro.app import App, build
from lastro.config import load_settings

EVENTS = 1_000_000
EVENTS_OF_A_SESSION = 1_000
# Of a day's work with an agent: of ten events three are said, and the others are tools at work.
TYPES = ("chat.message", "agent.response", "agent.response", *("tool.call", "tool.result") * 3,
         "agent.status")  # fmt: skip
WORDS_OF_AN_EVENT = 60
# Source: the targets of the release. A tenth of the events may take this share of the memory less.
RATE_FLOOR, FLAT_MEMORY = 10_000, 1.1

Say = Callable[[str], None]


def measure_events(*, count: int, say: Say) -> list[Figure]:
    """Figures of a process of its own for each number of events, in a home of its own."""
    with tempfile.TemporaryDirectory(prefix="lastro-bench-") as folder:
        Path(folder).chmod(0o755)
        with home(Path(folder) / "events-home", embedder="deterministic") as environment:
            say(f"storing {count // 10:,} events, then {count:,}, then the first again")
            lines = Path(folder) / "events.jsonl"
            _write_lines(lines, count)
            few = _measured(count // 10, "few", lines, environment)
            many = _measured(count, "many", lines, environment)
            again = _measured(count // 10, "few", lines, environment)
    return [
        Figure(name=f"{count:,} events stored, events/s", value=many["rate"], floor=RATE_FLOOR),
        Figure(name="CPU of the client for each, µs", value=many["cpu_us"], digits=1),
        Figure(name="CPU of the server for each, µs", value=many["server_us"], digits=1),
        Figure(
            name=f"{count // 10:,} events again, of which none is new, events/s",
            value=again["rate"],
        ),
        Figure(name="memory at its peak, MB", value=many["peak_mb"]),
        Figure(
            name=f"memory beside that of {count // 10:,} events",
            value=many["peak_mb"] / few["peak_mb"],
            floor=FLAT_MEMORY,
            at_least=False,
            digits=2,
        ),
    ]


def _measured(count: int, project: str, lines: Path, environment: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.events", str(count), project, str(lines)],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"storing events failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def _store(app: App, lines: Path, *, count: int, project: str) -> dict[str, Any]:
    """Store the first events of a file; what it took of time, of both processes and of memory."""
    with lines.open("rb") as every:
        started, cpu, server = time.perf_counter(), time.process_time(), _server_s(app)
        report = app.sessions(project).append_lines(islice(every, count))
        took_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
        server_s = _server_s(app) - server
    assert report.events.added + report.events.unchanged == count, report
    return {
        "rate": count / took_s,
        "cpu_us": cpu_s / count * 1e6,
        "server_us": server_s / count * 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _server_s(app: App) -> float:
    """CPU seconds of the embedded server, all its processes together."""
    with app.database.session() as connection:
        backend = psutil.Process(connection.info.backend_pid)
    postmaster = backend.parent()
    assert postmaster is not None
    ended = postmaster.cpu_times()
    living = [process.cpu_times() for process in (postmaster, *postmaster.children())]
    return (
        sum(times.user + times.system for times in living)
        + ended.children_user
        + ended.children_system
    )


def _write_lines(path: Path, count: int) -> None:
    with path.open("wb") as file:
        file.writelines(line + b"\n" for line in _lines(count))
    path.chmod(0o644)


def _lines(count: int) -> Iterator[bytes]:
    """Events session by session, as a file would hold them."""
    draw = random.Random(7)  # noqa: S311
    words = [f"word{number}" for number in range(5_000)]
    texts = [" ".join(draw.choices(words, k=WORDS_OF_AN_EVENT)) for _ in range(1_000)]
    for number in range(count):
        session, seq = divmod(number, EVENTS_OF_A_SESSION)
        said: dict[str, Any] = {
            "session": f"session-{session}",
            "id": f"event-{number}",
            "seq": seq,
            "type": TYPES[number % len(TYPES)],
            "actor": "agent",
            "content": texts[number % 997],
            "time": f"2026-05-04T09:{seq // 60 % 60:02}:{seq % 60:02}+00:00",
        }
        if said["type"].startswith("tool"):
            said["payload"] = {"tool": "grep", "arguments": [number, texts[number % 991]]}
        yield json.dumps(said).encode()


def main() -> int:
    """Store events and print what it took, in JSON."""
    count, project, lines = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    os.environ.setdefault("LASTRO_EMBEDDER", "deterministic")
    with build(load_settings()) as app:
        print(json.dumps(_store(app, lines, count=count, project=project)))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
