"""An indexer that is killed at random points, and searches that look on: for tests and ``soak``.

Every document has SECTIONS sections of one version. Whoever sees fewer of them, or two versions,
saw half a document.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
from repositories import commit, git

from lastro import indexing
from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.profiles import DEFAULT
from lastro.search import Engine, SearchRequest, search
from lastro.sources.files import FilePatterns
from lastro.types import IndexReport, IndexRequest, Progress
from lastro.writing import Writer

SECTIONS = 4
# Few enough that a small repository takes many transactions, each a point to be killed at.
BATCH_CHUNKS = 2 * SECTIONS
VERSIONS = ("aleph", "beth")
PROJECT = "killed"
# Every candidate is a hit.
EVERYTHING = replace(DEFAULT, threshold=0.0)

# Everything that an index run stores, but when it did.
STATE = (
    "SELECT to_jsonb(d) - 'indexed_at' FROM lastro.documents AS d ORDER BY d.id",
    "SELECT to_jsonb(c) - 'embedding', c.embedding::text FROM lastro.chunks AS c ORDER BY c.id",
    "SELECT to_jsonb(s) FROM lastro.lexeme_stats AS s ORDER BY language, lexeme",
    "SELECT to_jsonb(s) - 'refreshed_at' FROM lastro.corpus_stats AS s ORDER BY language",
    "SELECT to_jsonb(s) - 'refreshed_at' FROM lastro.vector_scale AS s",
    "SELECT to_jsonb(s) - 'indexed_at' FROM lastro.sources AS s ORDER BY name",
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'lastro' ORDER BY 1",
)


def make_repository(folder: Path, *, documents: int) -> None:
    """Two commits, tagged as VERSIONS: half of the documents change, one comes and one goes."""
    for version in VERSIONS:
        files: dict[str, str | bytes | None] = {
            f"docs/note{n}.md": _note(n, VERSIONS[0] if n % 2 else version)
            for n in range(documents)
        }
        files[f"docs/only-{version}.md"] = _note(documents, version)
        for other in VERSIONS:
            if other != version and (folder / f"docs/only-{other}.md").exists():
                files[f"docs/only-{other}.md"] = None
        commit(folder, files)
        git(folder, "tag", version)


def _note(number: int, version: str) -> str:
    """Four sections, of which the third is the same in every version."""
    parts = [
        f"## Part {part}\n\nword{number} part{part}" + ("" if part == 2 else f" {version}") + "\n"
        for part in range(SECTIONS)
    ]
    return f"# Note {number}\n\n" + "\n".join(parts)


def index(
    url: str, folder: Path, version: str, *, project: str = PROJECT, **options: Any
) -> IndexReport:
    """Index one version in this process."""
    embedder = DeterministicEmbedder()
    with Database(url, max_size=4) as database:
        writer = Writer(
            database=database,
            admin_url=url,
            embedder=embedder,
            pipeline=Pipeline(
                chunking=ChunkSettings(), languages=("en",), embedder=fingerprint(embedder)
            ),
        )
        nothing: Progress = lambda _done, _total: None  # noqa: E731
        return indexing.index(
            database,
            IndexRequest(path=str(folder), project=project, ref=version, **options),
            writer=writer,
            patterns=FilePatterns(),
            progress=nothing,
        )


def _index_in_steps(url: str, folder: Path, version: str, project: str) -> None:
    indexing.BATCH_CHUNKS = BATCH_CHUNKS
    index(url, folder, version, project=project)


class Indexer:
    """A process that indexes one version, in many transactions; forked by ``Indexers``."""

    def __init__(self, server: "Indexers", pid: int) -> None:
        self._server = server
        self.pid = pid

    def is_running(self) -> bool:
        return self._server.ask("poll", self.pid) is None

    def kill(self) -> None:
        """As ``kill -9`` does, to one that ``is_running``: another's number may be taken again."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """The exit code; negative where a signal ended it."""
        return self._server.ask("wait", self.pid)


class Indexers:
    """Starts processes at once: it has loaded everything, and forks.

    Without it most of a killed process's life would be the loading of modules.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Indexers":
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate(timeout=60)

    def start(self, url: str, folder: Path, version: str, *, project: str = PROJECT) -> Indexer:
        return Indexer(self, self.ask("start", url, str(folder), version, project))

    def ask(self, *words: Any) -> Any:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        print(json.dumps(words), file=to, flush=True)
        return json.loads(back.readline())


def serve() -> None:
    """Fork an indexer for each line that asks for one, and say how they ended."""
    ended: dict[int, int] = {}
    for line in sys.stdin:
        word, *rest = json.loads(line)
        if word == "start":
            pid = os.fork()
            if pid == 0:
                _run_and_exit(*rest)
            print(pid, flush=True)
            continue
        pid = rest[0]
        if pid not in ended:
            done, status = os.waitpid(pid, os.WNOHANG if word == "poll" else 0)
            if done:
                ended[pid] = os.waitstatus_to_exitcode(status)
        print(json.dumps(ended.get(pid)), flush=True)


def _run_and_exit(url: str, folder: str, version: str, project: str) -> None:
    code = 1
    try:
        _index_in_steps(url, Path(folder), version, project)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def state(url: str) -> list[list[tuple]]:
    """Everything that was stored."""
    with psycopg.connect(url) as connection:
        return [connection.execute(query.encode()).fetchall() for query in STATE]


@dataclass
class Onlooker:
    """Searches one document after the other, and notes each that was not whole."""

    url: str
    documents: int
    searches: int = 0
    halves: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    @contextmanager
    def looking(self, *, seed: int) -> Iterator[None]:
        """Search in a thread until the block ends."""
        stop = threading.Event()
        thread = threading.Thread(target=self._look, args=(stop, random.Random(seed)))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _look(self, stop: threading.Event, dice: random.Random) -> None:
        with Database(self.url, max_size=2) as database:
            engine = Engine(
                database=database,
                embedder=DeterministicEmbedder(),
                profiles={DEFAULT.name: DEFAULT},
                languages=("en",),
            )
            while not stop.is_set():
                try:
                    self.look_at(engine, dice.randrange(self.documents))
                except BaseException as error:  # noqa: BLE001 - told by the test, in its thread
                    self.failures.append(error)
                    return

    def look_at(self, engine: Engine, number: int) -> None:
        """Search for all sections of a document."""
        request = SearchRequest(
            query=f"word{number}", k=100, max_per_document=100, profile=EVERYTHING
        )
        outcome = search(engine, request, project=PROJECT)
        seen = [hit.content for hit in outcome.hits if f"word{number} " in hit.content]
        self.searches += 1
        fault = half(seen)
        if fault:
            self.halves.append(f"note {number}: {fault}")


def half(sections: Sequence[str]) -> str | None:
    """Why the sections seen are not one whole document; None where they are, or are none."""
    if not sections:
        return "nothing of it"
    versions = {version for text in sections for version in VERSIONS if version in text}
    if len(versions) != 1:
        return f"versions {sorted(versions)}"
    if len(sections) != SECTIONS:
        return f"{len(sections)} of {SECTIONS} sections"
    return None


def kill_often(
    url: str, folder: Path, onlooker: Onlooker, *, indexers: Indexers, kills: int, seed: int
) -> Iterator[tuple[str, bool]]:
    """Kill an indexer at a random point, run another to its end, and again.

    Yields after each kill which version was being indexed, and whether the killed run had come
    to its end before. The first version is in the index.
    """
    dice = random.Random(seed)
    longest_s = _time_of_a_run(url, folder, indexers)
    for turn in range(kills):
        version = VERSIONS[(turn + 1) % 2]
        with onlooker.looking(seed=seed + turn):
            indexer = indexers.start(url, folder, version)
            time.sleep(dice.uniform(0, longest_s))
            was_done = not indexer.is_running()
            if not was_done:
                indexer.kill()
            indexer.wait()
            index(url, folder, version)
        yield version, was_done


def _time_of_a_run(url: str, folder: Path, indexers: Indexers) -> float:
    """How long a whole run takes; what is stored is as before."""
    started = time.perf_counter()
    assert indexers.start(url, folder, VERSIONS[1]).wait() == 0
    took_s = time.perf_counter() - started
    index(url, folder, VERSIONS[0])
    return took_s


if __name__ == "__main__":
    serve()
