"""Batches that are stored while the next are embedded: what is waited for, and what is said."""

import contextlib
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

import locks
import numpy as np
import psycopg
import pytest
from repositories import write as write_files
from rows import add_chunk

from lastro import indexing
from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import FileIdentity, Pipeline, Prepared, prepare_file
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedders.protocol import Role
from lastro.errors import Conflict, ProviderError
from lastro.indexing import index
from lastro.sources.files import FilePatterns
from lastro.store import ensure_project
from lastro.types import IndexRequest
from lastro.writing import Writer

PIPELINE = Pipeline(chunking=ChunkSettings(), languages=("en",), embedder="any")
PATIENCE_S = 20.0
# What a mistaken wait would have let happen by then.
MOMENT_S = 0.3
HELD = """
    INSERT INTO lastro.documents (
        project_id, id, kind, scope, source, place, language, content_hash, fingerprint, state
    ) VALUES (%s, %s, 'file', 'docs', %s, %s, 'en', 'hash', 'print', 'complete')
"""


@pytest.fixture
def project_id(app_database: Database) -> int:
    with app_database.transaction() as connection:
        return ensure_project(connection, "alpha").id


@pytest.fixture
def writer(app_database: Database, owner_url: str, embedder: DeterministicEmbedder) -> Writer:
    return make_writer(app_database, owner_url, embedder)


def make_writer(database: Database, admin_url: str, embedder: DeterministicEmbedder) -> Writer:
    return Writer(database=database, admin_url=admin_url, embedder=embedder, pipeline=PIPELINE)


def page(project_id: int, name: str) -> Prepared:
    identity = FileIdentity(
        project_id=project_id,
        source="repository",
        path=f"docs/{name}.md",
        scope="docs",
        revision=None,
        content_hash="hash",
    )
    return prepare_file(f"# A page\n\nIt is called {name}.\n", identity, PIPELINE)


def hold(connection: psycopg.Connection, project_id: int, id_: UUID, place: str) -> None:
    """Insert a document, so that who brings the same one waits for the end of the transaction."""
    connection.execute(HELD, [project_id, id_, "repository", place])


@contextlib.contextmanager
def held(url: str, project_id: int, document: Prepared) -> Iterator[None]:
    """Whoever stores ``document`` meanwhile waits."""
    with psycopg.connect(url) as connection:
        hold(connection, project_id, document.document.id, document.document.place)
        yield
        connection.rollback()


def stored(connection: psycopg.Connection) -> list[str]:
    rows = connection.execute("SELECT place FROM lastro.documents ORDER BY place").fetchall()
    return [place for (place,) in rows]


def test_the_next_batch_is_embedded_while_one_is_stored(
    writer: Writer, project_id: int, owner: psycopg.Connection, owner_url: str
) -> None:
    first, second = page(project_id, "first"), page(project_id, "second")
    with ThreadPoolExecutor(1) as threads, held(owner_url, project_id, first):
        for number, prepared in enumerate((first, second), start=1):
            write = partial(writer.write, [prepared], project_id=project_id, stale=())
            threads.submit(write).result(PATIENCE_S)
            assert writer.embedded == number
        locks.wait_until(owner, locks.WAITED_FOR, there_are=1)
        assert "docs/first.md" not in stored(owner)
    writer.settle()
    assert stored(owner) == ["docs/first.md", "docs/second.md"]


def test_a_batch_that_could_not_be_stored_is_an_error_of_settling(
    writer: Writer, project_id: int
) -> None:
    writer.write([page(project_id, "first")], project_id=project_id, stale=())
    writer.settle()
    writer.write([page(project_id, "first")], project_id=project_id, stale=())
    with pytest.raises(Conflict):
        writer.settle()
    writer.settle()  # said once


def test_a_batch_that_could_not_be_stored_is_an_error_of_a_later_one(
    writer: Writer, project_id: int, owner: psycopg.Connection
) -> None:
    writer.write([page(project_id, "first")], project_id=project_id, stale=())
    writer.settle()
    writer.write([page(project_id, "first")], project_id=project_id, stale=())
    writer.write([page(project_id, "second")], project_id=project_id, stale=())
    with pytest.raises(Conflict):
        writer.write([page(project_id, "third")], project_id=project_id, stale=())
    writer.settle()
    assert stored(owner) == ["docs/first.md", "docs/second.md"]


def test_settling_waits_for_every_batch_though_the_first_one_failed(
    writer: Writer, project_id: int, owner: psycopg.Connection, owner_url: str
) -> None:
    second = page(project_id, "second")
    writer.write([page(project_id, "first")], project_id=project_id, stale=())
    writer.settle()
    with ThreadPoolExecutor(1) as threads:
        with held(owner_url, project_id, second):
            writer.write([page(project_id, "first")], project_id=project_id, stale=())
            writer.write([second], project_id=project_id, stale=())
            settling = threads.submit(writer.settle)
            locks.wait_until(owner, locks.WAITED_FOR, there_are=1)
            time.sleep(MOMENT_S)
            assert not settling.done()
        with pytest.raises(Conflict):
            settling.result(PATIENCE_S)
    assert stored(owner) == ["docs/first.md", "docs/second.md"]


def test_a_wait_that_is_interrupted_forgets_no_batch(
    writer: Writer, project_id: int, owner: psycopg.Connection, owner_url: str
) -> None:
    first, second = page(project_id, "first"), page(project_id, "second")
    with ThreadPoolExecutor(1) as threads:
        with held(owner_url, project_id, first):
            writer.write([first], project_id=project_id, stale=())
            writer.write([second], project_id=project_id, stale=())
            locks.wait_until(owner, locks.WAITED_FOR, there_are=1)
            with pytest.raises(KeyboardInterrupt), interrupted_in(MOMENT_S):
                writer.write([page(project_id, "third")], project_id=project_id, stale=())
            settling = threads.submit(writer.settle)
            time.sleep(MOMENT_S)
            assert not settling.done()
        settling.result(PATIENCE_S)
    assert stored(owner) == ["docs/first.md", "docs/second.md"]


@contextlib.contextmanager
def interrupted_in(seconds: float) -> Iterator[None]:
    """As by Ctrl-C."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_deadlock_of_a_batch_is_tried_again_in_the_background(
    writer: Writer, project_id: int, owner: psycopg.Connection, owner_url: str
) -> None:
    batch = [page(project_id, "first"), page(project_id, "second")]
    low, high = sorted((item.document for item in batch), key=lambda document: document.id)
    with psycopg.connect(owner_url) as other:
        other.execute("SET deadlock_timeout = '30s'")  # the batch finds out, and gives way
        hold(other, project_id, high.id, high.place)
        writer.write(batch, project_id=project_id, stale=())
        locks.wait_until(owner, locks.WAITED_FOR, there_are=1)
        hold(other, project_id, low.id, low.place)
        other.rollback()
    writer.settle()
    assert stored(owner) == ["docs/first.md", "docs/second.md"]


def test_the_first_vector_comes_while_a_batch_without_one_is_stored(
    app_database: Database,
    owner_url: str,
    owner: psycopg.Connection,
    project_id: int,
    embedder: DeterministicEmbedder,
) -> None:
    without = make_writer(app_database, owner_url, Dead())
    writer = make_writer(app_database, owner_url, embedder)
    first, second = page(project_id, "first"), page(project_id, "second")
    with ThreadPoolExecutor(1) as threads:
        with psycopg.connect(owner_url) as other:
            # Its chunk's id: the batch has begun to write into the table of the vectors.
            add_chunk(other, project_id, id=first.chunks[0].id)
            without.write([first], project_id=project_id, stale=())
            locks.wait_until(owner, locks.WAITED_FOR, there_are=1)
            column = threads.submit(writer.write, [second], project_id=project_id, stale=())
            locks.wait_until(owner, locks.WAITED_FOR, there_are=2)
            other.rollback()
        column.result(PATIENCE_S)
    without.settle()
    writer.settle()
    vectors = owner.execute(
        "SELECT source_path, embedding IS NOT NULL FROM lastro.chunks ORDER BY 1"
    ).fetchall()
    assert vectors == [("docs/first.md", False), ("docs/second.md", True)]


class Dead(DeterministicEmbedder):
    """An embedder whose provider cannot be reached."""

    def embed(self, texts, role: Role) -> np.ndarray:
        raise ProviderError("nobody answers", reason="embedder_unreachable")


def test_a_run_that_fails_keeps_its_turn_until_nothing_is_stored_any_more(
    app_database, owner, owner_url, writer, project_id, tmp_path, monkeypatch
) -> None:
    class Stopped(Exception):
        pass

    def stop(done: int, _total: int) -> None:
        if done:
            raise Stopped

    monkeypatch.setattr(indexing, "BATCH_CHUNKS", 1)
    write_files(tmp_path / "notes", {"docs/a.md": "# A\n\nOne.\n", "docs/b.md": "# B\n\nTwo.\n"})
    request = IndexRequest(path=tmp_path / "notes", project="alpha", worktree=True)
    with ThreadPoolExecutor(1) as threads:
        with psycopg.connect(owner_url) as other:
            # the same place: the run waits for it
            other.execute(HELD, [project_id, UUID(int=7), "notes", "docs/a.md"])
            run = threads.submit(
                index,
                app_database,
                request,
                writer=writer,
                patterns=FilePatterns(),
                progress=stop,
            )
            locks.wait_until(owner, locks.WAITED_FOR, there_are=1)
            time.sleep(MOMENT_S)
            assert (run.done(), locks.count(owner, locks.ADVISORY_HELD)) == (False, 1)
            other.rollback()
        with pytest.raises(Stopped):
            run.result(PATIENCE_S)
    assert stored(owner) == ["docs/a.md"]
