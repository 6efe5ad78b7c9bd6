"""A folder that is watched: when it is indexed, tried again, and how the watch ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repositories import commit, git, write

from lastro.errors import Conflict, InvalidInput, LastroError, NotFound
from lastro.sources.files import FilePatterns
from lastro.sources.git import head_of
from lastro.sources.listing import require_folder
from lastro.sources.worktree import worktree_state
from lastro.types import DocumentCounts, EmbeddingCounts, IndexReport
from lastro.watching import MAX_SETTLE_S, Pace, Watched, run_for_all, watch

PACE = Pace(interval_s=2.0, settle_s=0.5, retry_s=60.0)
WHOLE = IndexReport(
    project="p",
    revision=None,
    documents=DocumentCounts(),
    chunks=0,
    embedding=EmbeddingCounts(available=True, embedded=0, skipped=0, reason=None),
    took_ms=1.0,
)
LACKING = replace(
    WHOLE,
    embedding=EmbeddingCounts(
        available=False, embedded=0, skipped=2, reason="embedder_unreachable"
    ),
)


class Over(Exception):
    """The test's time is over."""


@dataclass
class World:
    """A place whose state follows a script by the clock, and a clock that only waiting moves."""

    states: Callable[[float], str]
    results: Callable[[int], IndexReport]
    until_s: float
    now: float = 0.0
    looks: int = 0
    runs: list[tuple[float, str]] = field(default_factory=list)
    seen: list[Watched] = field(default_factory=list)

    def look(self) -> str:
        self.looks += 1
        return self.states(self.now)

    def run(self) -> IndexReport:
        self.runs.append((self.now, self.states(self.now)))
        return self.results(len(self.runs))

    def wait(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        if self.now > self.until_s:
            raise Over

    def watched(self) -> "World":
        try:
            for one in watch(
                self.look, self.run, pace=PACE, wait=self.wait, clock=lambda: self.now
            ):
                self.seen.append(one)
        except Over:
            pass
        return self


def steps(*moves: tuple[float, str]) -> Callable[[float], str]:
    """The state by the clock: each from its moment on."""
    return lambda now: [state for moment, state in moves if moment <= now][-1]


def always(report: IndexReport) -> Callable[[int], IndexReport]:
    return lambda _: report


def test_a_place_is_indexed_at_once_and_then_only_when_it_moved() -> None:
    world = World(steps((0, "a"), (31, "b")), always(WHOLE), until_s=100).watched()
    assert [state for _, state in world.runs] == ["a", "b"]
    assert world.runs[0][0] == 0


def test_what_moves_many_times_in_a_second_is_indexed_once() -> None:
    """Looked at every 2 s: the first of these states is seen at 10 s, and lasts until 10.2 s."""
    moves = steps((0, "a"), (9.9, "b"), (10.2, "c"), (10.7, "d"))
    world = World(moves, always(WHOLE), until_s=60).watched()
    assert [state for _, state in world.runs] == ["a", "d"]


def test_what_never_comes_to_rest_is_indexed_all_the_same() -> None:
    world = World(lambda now: f"{now:.1f}", always(WHOLE), until_s=60).watched()
    pauses = [two - one for (one, _), (two, _) in zip(world.runs, world.runs[1:], strict=False)]
    assert 3 <= len(world.runs) <= 60 / MAX_SETTLE_S + 1
    assert all(pause >= MAX_SETTLE_S for pause in pauses)


def test_a_run_that_failed_is_tried_again_after_its_pause_and_not_before() -> None:
    def result(number: int) -> IndexReport:
        if number < 3:
            raise Conflict("somebody else is there")
        return WHOLE

    world = World(steps((0, "a")), result, until_s=500).watched()
    assert [moment for moment, _ in world.runs] == [0, 60, 120]
    assert [one.error is None for one in world.seen] == [False, False, True]


def test_a_run_that_failed_is_tried_again_at_once_when_the_place_moved() -> None:
    def result(number: int) -> IndexReport:
        if number == 1:
            raise Conflict("somebody else is there")
        return WHOLE

    world = World(steps((0, "a"), (5, "b")), result, until_s=50).watched()
    assert [state for _, state in world.runs] == ["a", "b"]


def test_a_run_that_left_texts_without_a_vector_is_tried_again() -> None:
    world = World(
        steps((0, "a")), lambda number: LACKING if number < 3 else WHOLE, until_s=500
    ).watched()
    assert [moment for moment, _ in world.runs] == [0, 60, 120]


def test_a_place_that_is_lost_is_said_once_and_indexed_when_it_is_back() -> None:
    def states(now: float) -> str:
        if 10 <= now < 40:
            raise NotFound("no such folder")
        return "a" if now < 10 else "b"

    world = World(states, always(WHOLE), until_s=100).watched()
    assert [one.lost for one in world.seen] == [False, True, False]
    assert [state for _, state in world.runs] == ["a", "b"]


def test_a_place_that_is_back_as_it_was_indexed_is_said_to_be() -> None:
    def states(now: float) -> str:
        if 10 <= now < 40:
            raise NotFound("no such folder")
        return "a"

    world = World(states, always(WHOLE), until_s=100).watched()
    assert [(one.lost, one.back) for one in world.seen] == [
        (False, False), (True, False), (False, True),
    ]  # fmt: skip
    assert [state for _, state in world.runs] == ["a"]


@pytest.mark.parametrize("second", ["fails", "lacks vectors"])
def test_a_place_that_moved_back_is_indexed_again_where_a_run_came_between(second: str) -> None:
    """A run that failed, or left vectors out, had stored some of what it saw."""

    def result(number: int) -> IndexReport:
        if number == 2 and second == "fails":
            raise Conflict("somebody else is there")
        return LACKING if number == 2 else WHOLE

    moves = steps((0, "a"), (10, "b"), (20, "a"))
    world = World(moves, result, until_s=50).watched()
    assert [state for _, state in world.runs] == ["a", "b", "a"]


def test_looking_takes_no_more_than_a_twentieth_of_the_time() -> None:
    world = World(steps((0, "a")), always(WHOLE), until_s=1_000)
    slow = world.look

    def look() -> str:
        world.now += 5.0
        return slow()

    world.look = look  # pyright: ignore[reportAttributeAccessIssue]
    world.watched()
    assert world.looks * 5.0 <= 1_000 / 20 + 2 * 5.0


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0.1, 200), st.sampled_from("abc")), max_size=8))
def test_whatever_moved_and_when_the_last_run_sees_the_last_state(
    moves: list[tuple[float, str]],
) -> None:
    ordered = [(0.0, "a"), *sorted(moves, key=lambda move: move[0])]
    world = World(steps(*ordered), always(WHOLE), until_s=240).watched()
    assert world.runs[-1][1] == ordered[-1][1]


# --- what is looked at


def test_the_ref_is_seen_through_rebases_packed_refs_and_a_repository_made_anew(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "r"
    first = commit(folder, {"docs/a.md": "# A\n"})
    second = commit(folder, {"docs/b.md": "# B\n"})
    assert head_of(folder) == second
    git(folder, "pack-refs", "--all")
    git(folder, "gc", "--quiet")
    assert head_of(folder) == second
    git(folder, "checkout", "--quiet", "-b", "side", first)
    commit(folder, {"docs/c.md": "# C\n"})
    git(folder, "rebase", "--quiet", "main")
    assert head_of(folder, ref="side") == head_of(folder) != second
    git(folder, "worktree", "add", "--quiet", str(tmp_path / "linked"), "main")
    assert head_of(tmp_path / "linked") == second
    shutil.rmtree(folder / ".git")
    with pytest.raises(NotFound):
        head_of(folder)
    assert commit(folder, {}) == head_of(folder)


def test_files_as_they_lie_are_seen_by_name_size_and_time_and_nothing_else(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"docs/a.md": "# A\n", "src/x.py": "x = 1\n"})

    def state() -> str:
        return worktree_state(tmp_path, patterns=FilePatterns())

    states = [state()]
    for change in (
        {"docs/a.md": "# A, longer\n"},
        {"docs/b.md": "# B\n"},
        {"docs/b.md": None},
        {".lastroignore": "docs/a.md\n", "docs/c.md": "# C\n"},
    ):
        write(tmp_path, change)
        states.append(state())
    assert len(set(states)) == 4  # the third change takes the second back
    assert states[3] == states[1]
    write(tmp_path, {"src/x.py": "x = 2\n"})
    assert state() == states[-1]


def test_a_file_rewritten_in_place_is_seen_by_its_time(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "# A\n"})
    before = worktree_state(tmp_path, patterns=FilePatterns())
    os.utime(tmp_path / "docs/a.md", ns=(1, 1))
    assert worktree_state(tmp_path, patterns=FilePatterns()) != before


def test_a_remote_repository_is_not_watched() -> None:
    with pytest.raises(InvalidInput, match="remote repository"):
        require_folder("https://example.org/docs.git")


# --- one run for all who ask


def test_wishes_that_come_while_a_run_is_on_are_met_by_one_more(tmp_path: Path) -> None:
    wish = tmp_path / "wish"
    entered, leave = threading.Event(), threading.Event()
    runs: list[float] = []

    def run() -> None:
        runs.append(time.monotonic())
        entered.set()
        assert leave.wait(30)

    first = threading.Thread(target=run_for_all, args=(wish, run), kwargs={"settle_s": 0.0})
    first.start()
    assert entered.wait(30)
    assert [run_for_all(wish, run, settle_s=0.0) for _ in range(20)] == [False] * 20
    leave.set()
    first.join(30)
    assert len(runs) == 2
    assert not wish.exists()


def test_the_wish_of_a_process_that_was_killed_is_met_by_the_next(tmp_path: Path) -> None:
    wish = tmp_path / "wish"
    program = (
        "import sys, time; from pathlib import Path; from lastro.watching import run_for_all\n"
        "def run(): print('in', flush=True); time.sleep(60)\n"
        "run_for_all(Path(sys.argv[1]), run, settle_s=0.0)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(wish)], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "in\n"
        assert run_for_all(wish, lambda: None, settle_s=0.0) is False
        killed.kill()
    runs: list[int] = []
    assert run_for_all(wish, lambda: runs.append(1), settle_s=0.0) is True
    assert runs == [1]


def test_a_run_that_fails_ends_the_wish_and_lets_go_of_the_lock(tmp_path: Path) -> None:
    def run() -> None:
        raise LastroError("no")

    with pytest.raises(LastroError):
        run_for_all(tmp_path / "wish", run, settle_s=0.0)
    assert run_for_all(tmp_path / "wish", lambda: None, settle_s=0.0) is True


# --- the command


class Watching:
    """A process that watches; its lines are read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()


@pytest.fixture
def environment(tmp_path: Path, owner_url: str) -> dict[str, str]:
    return {
        **os.environ,
        "LASTRO_HOME": str(tmp_path / "home"),
        "LASTRO_DATABASE_URL": owner_url,
        "LASTRO_EMBEDDER": "deterministic",
    }


# What is started in a background that hears no Ctrl-C would pass that on.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from lastro.cli import main
raise SystemExit(main())
"""


@pytest.fixture
def watcher(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Watching]]:
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> Watching:
        command = [sys.executable, "-c", PROGRAM, "watch", str(tmp_path / "r"), "--interval", "0.1"]
        process = subprocess.Popen(
            [*command, *words],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return Watching(process)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def paths(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT place FROM lastro.documents ORDER BY place").fetchall()
    return [str(row[0]) for row in rows]


def test_a_watch_follows_commits_survives_a_lost_repository_and_ends_cleanly(
    tmp_path: Path, owner_url: str, watcher: Callable[..., Watching]
) -> None:
    folder = tmp_path / "r"
    head = commit(folder, {"docs/a.md": "# A\n\nalpha\n"})
    watching = watcher("--format", "json")
    assert f"indexed r at {head[:10]}: 1 added" in watching.line()
    head = commit(folder, {"docs/b.md": "# B\n\nbeta\n", "docs/a.md": None})
    assert f"at {head[:10]}: 1 added, 1 removed" in watching.line()
    assert paths(owner_url) == ["docs/b.md"]
    (folder / ".git").rename(tmp_path / "away")
    assert "cannot look" in watching.line()
    assert paths(owner_url) == ["docs/b.md"]
    (tmp_path / "away").rename(folder / ".git")
    head = commit(folder, {"docs/c.md": "# C\n\ngamma\n"})
    assert f"at {head[:10]}: 1 added" in watching.line()
    watching.process.send_signal(signal.SIGTERM)
    out, err = watching.process.communicate(timeout=30)
    assert watching.process.returncode == 0
    assert err.rstrip().endswith("ended")
    assert [json.loads(line)["revision"] for line in out.splitlines()][-1] == head


def test_a_watch_of_files_follows_what_is_saved(
    tmp_path: Path, owner_url: str, watcher: Callable[..., Watching]
) -> None:
    write(tmp_path / "r", {"docs/a.md": "# A\n\nalpha\n"})
    watching = watcher("--worktree")
    assert "indexed r: 1 added" in watching.line()
    write(tmp_path / "r", {"docs/a.md": "# A\n\nalpha and more\n"})
    assert "indexed r: 1 changed" in watching.line()
    assert paths(owner_url) == ["docs/a.md"]
    watching.process.send_signal(signal.SIGINT)
    assert watching.process.wait(timeout=30) == 0
