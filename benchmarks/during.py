"""What a search costs while its project is indexed again, or its embedder is switched.

A client asks at a fixed pace in a process of its own: idle, during ``lastro index --rebuild`` of
pages that all have changed, and during ``lastro embedder switch``, swap included. This is done with
an embedder that costs nothing, where the database has the work, and with one that keeps every
processor busy. Every answer is judged: ``benchmarks/mixing.py``.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.asking import Asked, Client
from benchmarks.drawn_pages import SEED, pages
from benchmarks.indexing import commit_all, home, lastro_command
from benchmarks.mixing import Judge, Judged, Spaces
from benchmarks.report import markdown_table
from lastro import store
from lastro.app import build, owner_url
from lastro.config import Settings, load_settings
from lastro.db.scratch import settle
from lastro.embedders import build_embedder

CHUNKS = 10_000
PER_SECOND = 5.0
IDLE_S = 60.0
PROJECT = "during"
CHEAP, COSTLY = "deterministic", "use-m3"
# Source: the targets of the release.
RATIO_FLOOR = 2.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The answers given while something went on; ``idle`` is what they are compared with.

    ``before`` is the embedder that was searched when it began.
    """

    name: str
    before: str
    took_s: float
    asked: Sequence[Asked]
    judged: Judged
    idle: "Window | None" = None

    def percentile_ms(self, percent: float) -> float:
        """The time that ``percent`` of the answers took at most, by nearest rank."""
        took = [one.took_ms for one in self.asked]
        return float(np.percentile(took, percent, method="inverted_cdf"))

    @property
    def ratio(self) -> float | None:
        """The p95 beside that of the idle window."""
        return None if self.idle is None else self.percentile_ms(95) / self.idle.percentile_ms(95)


def measure_during(
    *, chunks: int, say: Say, idle_s: float = IDLE_S, per_second: float = PER_SECOND
) -> list[Window]:
    """Every window, in the order in which they were measured, in a home of its own."""
    with tempfile.TemporaryDirectory(prefix="lastro-bench-") as folder:
        Path(folder).chmod(0o755)
        with home(Path(folder) / "during-home", embedder=CHEAP) as environment:
            run = _Run(
                environment=environment,
                folder=Path(folder) / "pages",
                chunks=chunks,
                per_second=per_second,
                say=say,
            )
            return _windows(run, idle_s)


def _windows(run: "_Run", idle_s: float) -> list[Window]:
    def rest(name: str) -> Window:
        run.settle()
        return run.watch(name, lambda: time.sleep(idle_s))

    run.say(f"loading {run.chunks:,} chunks")
    run.write_pages()
    run.index()
    run.learn()
    first = rest(f"idle, {CHEAP}")
    run.write_pages()
    cheap = run.watch(f"index --rebuild, {CHEAP}", run.index, idle=first)
    there = run.watch(f"switch to {COSTLY}", run.switch, idle=first)
    second = rest(f"idle, {COSTLY}")
    run.write_pages()
    costly = run.watch(f"index --rebuild, {COSTLY}", run.index, idle=second)
    back = run.watch(f"switch to {CHEAP}", run.switch, idle=second)
    last = rest(f"idle again, {CHEAP}")
    return [first, cheap, there, second, costly, back, last]


class _Run:
    """One project, which of its editions is committed, and whose vectors are searched."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        folder: Path,
        chunks: int,
        per_second: float,
        say: Say,
    ) -> None:
        self.chunks = chunks
        self.say = say
        self._environment = dict(environment)
        self._folder = folder
        self._per_second = per_second
        self._edition = 0
        self._windows = 0
        self._spaces: dict[str, Spaces] = {CHEAP: {}, COSTLY: {}}
        cache = Path(environment["LASTRO_HOME"]) / "cache"
        self._embedders = {name: build_embedder(name, cache_dir=cache) for name in self._spaces}

    @property
    def _embedder(self) -> str:
        return self._environment["LASTRO_EMBEDDER"]

    @property
    def _settings(self) -> Settings:
        return load_settings(self._environment)

    def write_pages(self) -> None:
        """Commit the next edition of every page."""
        self._edition += 1
        for path, text in pages(self.chunks, edition=self._edition):
            page = self._folder / path
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
        commit_all(self._folder)

    def index(self) -> None:
        """Make every document again from the commit that there is."""
        words = ("index", str(self._folder), "--project", PROJECT, "--rebuild")
        lastro_command(words, self._environment)

    def switch(self) -> None:
        """Switch to the other embedder."""
        (other,) = {CHEAP, COSTLY} - {self._embedder}
        lastro_command(("embedder", "switch", other), self._environment)
        self._environment["LASTRO_EMBEDDER"] = other

    def settle(self) -> None:
        """Bring the database to where autovacuum would, which an idle search then is faster for."""
        settle(owner_url(self._settings))

    def watch(self, name: str, work: Callable[[], None], *, idle: Window | None = None) -> Window:
        """Ask while ``work`` goes on, and judge the answers."""
        self._windows += 1
        embedders = [self._embedder]
        if work == self.switch:
            embedders = sorted(self._spaces, key=lambda one: one != self._embedder)
        client = Client(
            self._environment,
            embedders=embedders,
            project=PROJECT,
            chunks=self.chunks,
            per_second=self._per_second,
            seed=SEED + self._windows,
        )
        self.say(name)
        with client:
            client.begin()
            started = time.monotonic()
            work()
            took_s = time.monotonic() - started
            asked = client.end()
        self.learn()
        judge = Judge(spaces=self._spaces, embedders=self._embedders)
        judged = judge.all(asked)
        window = Window(
            name=name,
            before=embedders[0],
            took_s=took_s,
            asked=asked,
            judged=judged,
            idle=idle,
        )
        self.say(window_row(window))
        for fault in judged.faults[:5]:
            self.say(f"  {fault}")
        return window

    def learn(self) -> None:
        """Read the vectors that are searched now, to judge answers by them."""
        with build(self._settings) as app:
            with app.database.transaction() as connection:
                project_id = store.find_project(connection, PROJECT).id
            with app.database.transaction(projects=[project_id]) as connection:
                rows = connection.execute("SELECT content, embedding FROM lastro.chunks").fetchall()
        if len(rows) != self.chunks:
            raise SystemExit(f"{len(rows)} chunks were stored of {self.chunks}")
        space = self._spaces[self._embedder]
        space.update({str(content): _vector(embedding) for content, embedding in rows})


def _vector(embedding: Any) -> NDArray[np.float32]:
    return np.asarray(embedding.to_numpy(), dtype=np.float32)


# --- shown


def window_row(window: Window) -> str:
    """A window in a line, to look on."""
    return " | ".join(_cells(window))


def during_table(windows: Sequence[Window]) -> str:
    """A row for each window."""
    header = (
        "while",
        "it took, s",
        "answers",
        "p50, ms",
        "p95, ms",
        "p99, ms",
        f"p95 to idle, ≤ {RATIO_FLOOR:g}",
        "errors",
        "mixed",
    )
    return markdown_table(header, [_cells(window) for window in windows])


def swap_notes(windows: Sequence[Window]) -> str:
    """Whose the answers were during the switches."""
    return "\n".join(
        f"- {window.name}: {window.judged.by_embedder[window.before]:,} answers with the vectors "
        f"before it, {len(window.asked) - window.judged.by_embedder[window.before]:,} with those "
        f"after it; {window.judged.refused} of these were refused first by a process that was set "
        "to the embedder before it"
        for window in windows
        if window.judged.refused
    )


def missed(windows: Sequence[Window]) -> list[str]:
    """What is not as it should be."""
    said: list[str] = []
    for window in windows:
        if window.ratio is not None and window.ratio > RATIO_FLOOR:
            said.append(f"{window.name}: p95 {window.ratio:.2f} times idle, floor {RATIO_FLOOR:g}")
        if window.judged.faults:
            said.append(f"{window.name}: {window.judged.faults[0]}")
    return said


def _cells(window: Window) -> list[str]:
    ratio = window.ratio
    marked = "" if ratio is None else f"{ratio:.2f}{_mark(ratio > RATIO_FLOOR)}"
    errors, mixed = window.judged.errors, window.judged.mixed
    return [
        window.name,
        f"{window.took_s:.0f}",
        f"{len(window.asked):,}",
        *(f"{window.percentile_ms(percent):.1f}" for percent in (50, 95, 99)),
        marked,
        f"{errors}{_mark(errors > 0)}",
        f"{mixed}{_mark(mixed > 0)}",
    ]


def _mark(is_missed: bool) -> str:  # noqa: FBT001
    return " **missed**" if is_missed else ""
