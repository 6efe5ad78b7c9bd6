"""What may happen to a project, in any order, and the index that is right after it.

For tests and ``soak``: a repository that is edited and rewritten, sessions that grow, entries that
come and go, and indexers that are killed between.
"""

import random
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import killing
import psycopg
from repositories import commit, git

from lastro import indexing, sessions
from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.entities import delete_entities, upsert_entities
from lastro.entity import Entity
from lastro.errors import NotFound
from lastro.event import Event
from lastro.json_lines import ReadLine
from lastro.sources.files import FilePatterns
from lastro.types import IndexRequest
from lastro.writing import Writer

PROJECT = killing.PROJECT
# Stays through every history: a commit without a document is no index.
ROOT = "docs/root.md"
NAMES = ("docs/a.md", "docs/b.md", "docs/adr/0001-c.md", "docs/d/e.md", "docs/ação.md")
SESSIONS = ("s1", "s2")
KEYS = ("k1", "k2", "k3")
# Long enough that a document has several chunks and a killed run several transactions.
SECTIONS = 4

# Of a history; some are lost on what is not there.
STEPS = 10

Step = Callable[["Project"], None]


@dataclass
class Index:
    """A database that a project is indexed in, and the connections to it."""

    url: str
    database: Database

    def empty(self) -> "Index":
        """As it was made, but for what is of no project."""
        with psycopg.connect(self.url) as connection:
            connection.execute("DELETE FROM lastro.projects")
            connection.execute("ALTER TABLE lastro.projects ALTER COLUMN id RESTART")
        return self

    def index_files(self, folder: Path, *, rebuild: bool = False) -> None:
        indexing.index(
            self.database,
            IndexRequest(path=folder, project=PROJECT, rebuild=rebuild),
            writer=self._writer(),
            patterns=FilePatterns(),
            progress=lambda _done, _total: None,
        )

    def index_sessions(self) -> None:
        try:
            sessions.index(self.database, project=PROJECT, writer=self._writer())
        except NotFound:  # nothing was indexed or said yet
            return

    def add_events(self, events: Iterable[Event]) -> None:
        read = [ReadLine(number, event) for number, event in enumerate(events, start=1)]
        report = sessions.append_events(self.database, read, project=PROJECT)
        assert report.events.refused == ()

    def upsert(self, entries: Sequence[Entity]) -> None:
        if entries:
            upsert_entities(self.database, entries, project=PROJECT, writer=self._writer())

    def delete(self, key: str) -> None:
        delete_entities(self.database, [key], project=PROJECT)

    def _writer(self) -> Writer:
        embedder = DeterministicEmbedder()
        return Writer(
            database=self.database,
            admin_url=self.url,
            embedder=embedder,
            pipeline=Pipeline(
                chunking=ChunkSettings(), languages=("en",), embedder=fingerprint(embedder)
            ),
        )


@dataclass
class Project:
    """A repository, and what was said and kept beside it, in an index."""

    index: Index
    folder: Path
    indexers: killing.Indexers
    events: dict[tuple[str, int], Event] = field(default_factory=dict[tuple[str, int], Event])
    entries: dict[str, Entity] = field(default_factory=dict[str, Entity])
    kills: int = 0

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.commit({ROOT: "# Root\n\nIt stays.\n"})

    def commit(self, changes: dict[str, str | bytes | None]) -> None:
        commit(self.folder, changes)

    def present(self) -> list[str]:
        return sorted(name for name in NAMES if (self.folder / name).exists())

    def bring_up_to_date(self) -> None:
        self.index.index_files(self.folder)
        self.index.index_sessions()

    def index_afresh(self, index: Index) -> None:
        """The same commit, events and entries in an empty database."""
        index.index_files(self.folder)
        index.add_events([self.events[key] for key in sorted(self.events)])
        index.index_sessions()
        index.upsert([self.entries[key] for key in sorted(self.entries)])


# --- what may happen


def write(name: str, version: int) -> Step:
    """A file comes, or changes."""
    return lambda project: project.commit({name: text_of(name, version)})


def delete(place: int) -> Step:
    def step(project: Project) -> None:
        if there := project.present():
            project.commit({there[place % len(there)]: None})

    return step


def rename(place: int, name: str) -> Step:
    """A file moves, over another where there is one."""

    def step(project: Project) -> None:
        if there := project.present():
            old = there[place % len(there)]
            if old != name:
                text = (project.folder / old).read_bytes()
                project.commit({old: None})
                project.commit({name: text})

    return step


def rewrite(how: str) -> Step:
    """History becomes another one: the last commit is gone, changed, or all of it is one."""

    def step(project: Project) -> None:
        folder = project.folder
        if how == "reset" and int(git(folder, "rev-list", "--count", "HEAD")) > 1:
            git(folder, "reset", "--quiet", "--hard", "HEAD~1")
        elif how == "amend":
            git(folder, "commit", "--quiet", "--amend", "--allow-empty", "--message", "again")
        else:
            git(folder, "checkout", "--quiet", "--orphan", f"line{time.monotonic_ns()}")
            project.commit({})

    return step


def index(what: str) -> Step:
    """A run that comes to its end; which of them is left to the history."""

    def step(project: Project) -> None:
        if what == "sessions":
            project.index.index_sessions()
        else:
            project.index.index_files(project.folder, rebuild=what == "rebuild")

    return step


def kill(part: float) -> Step:
    """A run is killed somewhere in it."""

    def step(project: Project) -> None:
        indexer = project.indexers.start(project.index.url, project.folder, "HEAD")
        time.sleep(0.15 * part)
        if indexer.is_running():
            project.kills += 1
            indexer.kill()
        indexer.wait()

    return step


def say(session: str, numbers: Sequence[int]) -> Step:
    """Events come to a session, also such that were there and such that come late."""

    def step(project: Project) -> None:
        events = [event_of(session, number) for number in numbers]
        project.index.add_events(events)
        project.events |= {(session, number): event_of(session, number) for number in numbers}

    return step


def keep(key: str, version: int) -> Step:
    """An entry comes, or changes."""

    def step(project: Project) -> None:
        entry = entry_of(key, version)
        project.index.upsert([entry])
        project.entries[key] = entry

    return step


def drop(key: str) -> Step:
    def step(project: Project) -> None:
        if project.entries.pop(key, None) is not None:
            project.index.delete(key)

    return step


def drawn(dice: random.Random) -> tuple[str, Step]:
    """One thing that happens, and what it is called.

    What takes runs between two changes to go wrong comes often: a file that was indexed and
    changes, an event that comes late to a session that was indexed.
    """
    name, version, place = dice.choice(NAMES), dice.randint(1, 4), dice.randint(0, 4)
    session, key = dice.choice((*SESSIONS, SESSIONS[0])), dice.choice(KEYS)
    numbers = sorted(dice.sample(range(13), dice.randint(1, 4)))
    how, run = dice.choice(("reset", "amend", "orphan")), dice.choice(("files", "files", "rebuild"))
    part = dice.random()
    steps = {
        f"write {name} {version}": (3, write(name, version)),
        f"delete file {place}": (2, delete(place)),
        f"rename file {place} to {name}": (1, rename(place, name)),
        f"{how} history": (1, rewrite(how)),
        f"index {run}": (3, index(run)),
        "index sessions": (3, index("sessions")),
        f"kill a run at {part:.2f}": (1, kill(part)),
        f"say {numbers} in {session}": (4, say(session, numbers)),
        f"keep {key} {version}": (2, keep(key, version)),
        f"drop {key}": (1, drop(key)),
    }
    called = dice.choices(list(steps), weights=[weight for weight, _ in steps.values()])[0]
    return called, steps[called][1]


# --- what is in it


def text_of(name: str, version: int) -> str:
    """Sections of which the first is that of every version."""
    parts = [
        f"## Part {part}\n\n{name} part{part}" + (f" version{version}" if part else "") + "\n"
        for part in range(SECTIONS)
    ]
    front = "---\nstatus: accepted\n---\n" if "adr" in name else ""
    return f"{front}# {name}\n\n" + "\n".join(parts)


def event_of(session: str, number: int) -> Event:
    """An event by its number; every third one is no message."""
    kind = ("chat.message", "agent.response", "tool.call")[number % 3]
    return Event(
        session=session,
        id=f"e{number}",
        seq=number,
        type=kind,
        content=f"{session} says word{number}. " * (1 + number % 4),
    )


def entry_of(key: str, version: int) -> Entity:
    return Entity(
        key=key,
        title=f"Entry {key}",
        text=text_of(key, version),
        type="note",
        status="draft" if version == 4 else "published",
    )


def live(project: Project, *, seed: int, beside: Index) -> None:
    """Let a history happen, bring the index up to date, and compare it with a fresh one."""
    dice = random.Random(seed)
    history = [drawn(dice) for _ in range(STEPS)]
    for _, step in history:
        step(project)
    project.bring_up_to_date()
    project.index_afresh(beside)
    told = "\n".join(called for called, _ in history)
    assert killing.state(project.index.url) == killing.state(beside.url), f"seed {seed}:\n{told}"
