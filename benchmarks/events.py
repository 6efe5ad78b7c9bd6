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
from pathlib import Path
from typing import Any

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
            few = _measured(count // 10, "few", environment)
            many = _measured(count, "many", environment)
            again = _measured(count // 10, "few", environment)
    return [
        Figure(name=f"{count:,} events stored, events/s", value=many["rate"], floor=RATE_FLOOR),
        Figure(name="CPU of the client for each, µs", value=many["cpu_us"], digits=1),
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


def _measured(count: int, project: str, environment: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.events", str(count), project],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"storing events failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def _store(app: App, count: int, project: str) -> dict[str, Any]:
    started, cpu = time.perf_counter(), time.process_time()
    report = app.sessions(project).append_lines(_lines(count))
    took_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
    assert report.events.added + report.events.unchanged == count, report
    return {
        "rate": count / took_s,
        "cpu_us": cpu_s / count * 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _lines(count: int) -> Iterator[bytes]:
    """Events session by session, as a file would hold them; their making is timed with the rest."""
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
    count, project = int(sys.argv[1]), sys.argv[2]
    os.environ.setdefault("LASTRO_EMBEDDER", "deterministic")
    with build(load_settings()) as app:
        print(json.dumps(_store(app, count, project)))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
