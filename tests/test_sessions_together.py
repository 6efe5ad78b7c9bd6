"""Writers of one event log at once, and one that is killed: threads and real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from logs import INDEXED, LOGGED, OpenApp, app_maker, event, state

from lastro.app import App
from lastro.event import Event, event_json

WRITERS = 8


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner_url: str) -> OpenApp:
    return app_maker(monkeypatch, tmp_path / "home", owner_url)


@pytest.fixture
def app(open_app: OpenApp) -> Iterator[App]:
    with open_app(max_size=WRITERS) as made:
        yield made


def test_threads_that_append_without_numbers_lose_and_double_none(
    app: App, owner: psycopg.Connection
) -> None:
    each = 10

    def write(writer: int) -> None:
        for n in range(each):
            said = event(None, f"note {n}", id=f"{writer}-{n}")
            assert app.sessions().append([said, said]).events.added == 1

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(write, range(WRITERS)))
    found = [(one.seq, one.id) for one in app.sessions().events("talk")]
    assert [seq for seq, _ in found] == list(range(1, WRITERS * each + 1))
    assert sorted(id_ for _, id_ in found) == sorted(
        f"{writer}-{n}" for writer in range(WRITERS) for n in range(each)
    )
    for writer in range(WRITERS):  # what one writer said stays in its order
        own = [id_ for _, id_ in found if id_.startswith(f"{writer}-")]
        assert own == [f"{writer}-{n}" for n in range(each)]


def test_threads_that_bring_the_same_events_in_opposite_orders_store_each_once(app: App) -> None:
    said = [event(n, f"note {n}", session=f"s{n % 5}", id=f"e{n}") for n in range(60)]

    def write(writer: int) -> int:
        return app.sessions().append(said if writer % 2 else said[::-1]).events.added

    with ThreadPoolExecutor(WRITERS) as threads:
        assert sum(threads.map(write, range(WRITERS))) == len(said)
    assert sum(one.events for one in app.sessions().list()) == len(said)


def test_of_two_writers_of_one_number_one_is_refused(app: App) -> None:
    def write(writer: int) -> int:
        said = event(1, f"by {writer}", id=f"w{writer}")
        return len(app.sessions().append([said]).events.refused)

    with ThreadPoolExecutor(WRITERS) as threads:
        assert sum(threads.map(write, range(WRITERS))) == WRITERS - 1


# --- processes

# It has loaded everything before it divides: most of a short life would be the loading of modules.
WRITE = """
import os, sys
from logs import importer
url, file, batch, writers = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
children = []
for _ in range(writers - 1):
    child = os.fork()
    if not child:
        children = []
        break
    children.append(child)
importer(url, file, batch=batch)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def lines(*events: Event) -> str:
    return "".join(json.dumps(event_json(one)) + "\n" for one in events)


def start(url: str, file: Path, *, batch: int, writers: int = 1) -> "subprocess.Popen[bytes]":
    tests = str(Path(__file__).parent)
    path = os.pathsep.join([tests, *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", WRITE, url, str(file), str(batch), str(writers)],
        env={**os.environ, "PYTHONPATH": path},
    )


def conversation(total: int) -> list[Event]:
    types = ("chat.message", "agent.response", "tool.call")
    return [
        event(n, f"The crane number {n}.", session=f"s{n % 3}", type=types[n % 3 if n % 5 else 0])
        for n in range(total)
    ]


def fresh(app: App, owner: psycopg.Connection, said: list[Event]) -> list[list[Any]]:
    """What one import of all would store."""
    app.sessions().remove(["s0", "s1", "s2"])
    app.sessions().import_lines(lines(*said).encode().splitlines())
    return state(owner, INDEXED + LOGGED)


def test_eight_processes_that_import_the_same_file_end_equal_to_one(
    app: App, owner_url: str, owner: psycopg.Connection, tmp_path: Path
) -> None:
    said = conversation(40)
    (tmp_path / "said.jsonl").write_text(lines(*said))
    file = tmp_path / "said.jsonl"
    assert start(owner_url, file, batch=15, writers=WRITERS).wait(timeout=120) == 0
    together = state(owner, INDEXED + LOGGED)
    assert together == fresh(app, owner, said)


@pytest.mark.parametrize("stored", [1, 60])
def test_an_import_that_was_killed_and_made_again_equals_one_import(
    app: App, owner_url: str, owner: psycopg.Connection, tmp_path: Path, stored: int
) -> None:
    said = conversation(90)
    (tmp_path / "said.jsonl").write_text(lines(*said))
    writer = start(owner_url, tmp_path / "said.jsonl", batch=6)
    deadline = time.monotonic() + 60
    while count(owner) < stored:
        assert time.monotonic() < deadline
        assert writer.poll() is None
        time.sleep(0.005)
    os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    assert count(owner) < len(said)
    report = app.sessions().import_lines(lines(*said).encode().splitlines())
    assert report.events is not None
    assert report.events.unchanged >= stored
    again = state(owner, INDEXED + LOGGED)
    assert again == fresh(app, owner, said)


def count(owner: psycopg.Connection) -> int:
    row = owner.execute("SELECT count(*) FROM lastro.events").fetchone()
    assert row is not None
    return row[0]
