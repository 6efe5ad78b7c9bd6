"""The switch to another embedder: nothing mixed, nothing lost, and searches go on."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from homes import wait_until
from numpy.typing import NDArray
from ollama_server import Script, free_port, ollama
from repositories import commit
from rows import add_chunk

from lastro import indexing, store, switching
from lastro import search as searching
from lastro.chunk_settings import ChunkSettings
from lastro.db.migrate import lock_schema
from lastro.db.pool import Database, connect, set_local
from lastro.documents import Pipeline, embedded_text
from lastro.embedders import Embedder, configured, fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.errors import (
    Conflict,
    Contention,
    DatabaseUnavailable,
    DimensionMismatch,
    EmbedderMismatch,
    InvalidInput,
    LastroError,
    NotFound,
    ProviderError,
)
from lastro.exporting import export_project
from lastro.profiles import DEFAULT
from lastro.search import Engine, SearchRequest, search
from lastro.sources.files import FilePatterns
from lastro.store import SelfCheck, UnembeddedChunk
from lastro.switching import SwitchReport
from lastro.types import IndexReport, IndexRequest, Outcome, Progress
from lastro.writing import Writer

PROJECT = "fleet"
SHIPS = ("barque", "brig", "cutter", "dhow", "galley", "ketch", "lugger", "sloop", "xebec", "yawl")
EVERYTHING = replace(DEFAULT, threshold=0.0)
LASTRO = Path(sys.executable).with_name("lastro")


class Spun(DeterministicEmbedder):
    """Vectors of a name's own and of any width; ``asked`` is what it was given."""

    def __init__(self, name: str, dimension: int, *, fails_after: int | None = None) -> None:
        super().__init__()
        self.id, self.dimension = name, dimension
        self.asked: list[str] = []
        self.fails_after = fails_after
        self.before: Callable[[], object] = lambda: None

    def embed(self, texts: Sequence[str], role: Any) -> NDArray[np.float32]:
        self.before()
        if self.fails_after is not None and len(self.asked) + len(texts) > self.fails_after:
            raise ProviderError("the spinner cannot be reached", reason="embedder_unreachable")
        self.asked += texts
        wide = super().embed([f"{self.id}: {text}" for text in texts], role)
        times = -(-self.dimension // wide.shape[1])
        cut = np.tile(wide, times)[:, : self.dimension]
        return (cut / np.linalg.norm(cut, axis=1, keepdims=True)).astype(np.float32)


A, B, C = ("a", 768), ("b", 1024), ("c", 768)


class Fleet:
    """A repository of ships, indexed, and what is done with it under one embedder or another."""

    def __init__(self, database: Database, url: str, folder: Path, owner: psycopg.Connection):
        self.database, self.url, self.folder, self.owner = database, url, folder, owner

    def pipeline(self, embedder: Embedder) -> Pipeline:
        return Pipeline(chunking=ChunkSettings(), languages=("en",), embedder=configured(embedder))

    def writer(self, embedder: Embedder) -> Writer:
        return Writer(
            database=self.database,
            admin_url=self.url,
            embedder=embedder,
            pipeline=self.pipeline(embedder),
        )

    def index(self, embedder: Embedder) -> IndexReport:
        return indexing.index(
            self.database,
            IndexRequest(path=str(self.folder), project=PROJECT),
            writer=self.writer(embedder),
            patterns=FilePatterns(),
            progress=lambda _done, _total: None,
        )

    def switch(
        self,
        old: Embedder | None,
        new: Embedder,
        *,
        progress: Progress | None = None,
        say: Callable[[str], None] | None = None,
        free_bytes: int | None = None,
    ) -> SwitchReport:
        return switching.switch(
            self.database,
            admin_url=self.url,
            old=old,
            new=new,
            pipeline=self.pipeline(old or new),
            free_bytes=free_bytes,
            progress=progress or (lambda _done, _total: None),
            say=say or (lambda _said: None),
        )

    def engine(self, embedder: Embedder) -> Engine:
        return Engine(
            database=self.database,
            embedder=embedder,
            profiles={"default": EVERYTHING},
            languages=("en",),
        )

    def ask(self, embedder: Embedder, ship: str) -> Outcome:
        """Ask for what is embedded of a ship's page, so that the right cosine is 1."""
        request = SearchRequest(query=text_of(ship), k=20)
        return search(self.engine(embedder), request, project=PROJECT)

    def wrong_rows(self, embedder: Embedder) -> list[str]:
        """Texts of rows that have not this embedder's own vector, its name and its version."""
        rows = self.owner.execute(
            "SELECT title, heading_text, context, content, embedding_model, embedding_version,"
            " embedding::text FROM lastro.chunks ORDER BY id"
        ).fetchall()
        wrong: list[str] = []
        for *parts, model, version, vector in rows:
            text = embedded_text(unembedded(*parts))
            expected = embedder.embed([text], "document")[0]
            made = np.array(json.loads(vector or "[0]"), dtype=np.float32)
            right = made.shape == expected.shape and np.allclose(made, expected, atol=2e-3)
            if not right or (model, version) != (embedder.id, embedder.version):
                wrong.append(text)
        return wrong


def unembedded(title: str, heading_text: str, context: str, content: str) -> UnembeddedChunk:
    from uuid import UUID

    return UnembeddedChunk(
        id=UUID(int=0), document_id=UUID(int=0), ordinal=0, place="", line_start=0, line_end=0,
        title=title, heading_text=heading_text, context=context, content=content,
    )  # fmt: skip


def page(ship: str) -> str:
    return f"# {ship}\n\nHow the {ship} is rigged.\n"


def text_of(ship: str) -> str:
    """What is embedded of a ship's one chunk: its title, then the passage."""
    return f"{ship}\n# {ship}\n\nHow the {ship} is rigged."


@pytest.fixture
def fleet(
    app_database: Database, owner_url: str, owner: psycopg.Connection, tmp_path: Path
) -> Fleet:
    folder = tmp_path / "fleet"
    commit(folder, {f"docs/{ship}.md": page(ship) for ship in SHIPS})
    return Fleet(app_database, owner_url, folder, owner)


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of two rows, so that a switch has several steps."""
    monkeypatch.setattr(switching, "BATCH_CHUNKS", 2)


def cosines(outcome: Outcome) -> list[float]:
    return [hit.vector_score for hit in outcome.hits if hit.vector_score is not None]


def answers(outcome: Outcome, ship: str) -> bool:
    """Whether the ship's own page is as near as only its own vector is, and no other one is."""
    near = [h for h in outcome.hits if h.vector_score is not None and h.vector_score > 0.9]
    return [hit.origin.source_path for hit in near] == [f"docs/{ship}.md"]


SCHEMA = (
    """
    SELECT attname, format_type(atttypid, atttypmod), attnotnull, attstorage, attgenerated
    FROM pg_attribute
    WHERE attrelid = 'lastro.chunks'::regclass AND attnum > 0 AND NOT attisdropped
    ORDER BY attname
    """,
    """
    SELECT conname, pg_get_constraintdef(oid), convalidated
    FROM pg_constraint WHERE conrelid = 'lastro.chunks'::regclass ORDER BY conname
    """,
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'chunks' ORDER BY indexname",
    "SELECT pg_get_viewdef('lastro.searchable'::regclass)",
    "SELECT relacl::text FROM pg_class WHERE oid = 'lastro.searchable'::regclass",
)


def schema_of(owner: psycopg.Connection) -> list[Any]:
    return [owner.execute(query.encode()).fetchall() for query in SCHEMA]


# --- what is there afterwards


def test_from_one_width_to_another_and_back_every_row_has_the_vector_that_is_searched(
    fleet: Fleet,
) -> None:
    a, b, c = Spun(*A), Spun(*B), Spun(*C)
    fleet.index(a)
    for old, new in ((a, b), (b, c)):
        report = fleet.switch(old, new)
        assert (report.before.id, report.active.id) == (old.id, new.id)
        assert (report.chunks, report.refused) == (len(SHIPS), ())
        assert fleet.wrong_rows(new) == []
        assert answers(fleet.ask(new, "dhow"), "dhow")


def test_the_schema_is_that_of_a_database_that_began_with_the_new_embedder(
    fleet: Fleet,
) -> None:
    a, c = Spun(*A), Spun(*C)
    fleet.index(a)
    before = schema_of(fleet.owner)
    fleet.switch(a, c)
    assert schema_of(fleet.owner) == before


def test_what_was_indexed_is_not_made_again_for_the_new_embedder(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    fleet.switch(a, b)
    asked = len(b.asked)
    report = fleet.index(b)
    assert (report.documents.unchanged, report.documents.changed) == (len(SHIPS), 0)
    assert len(b.asked) == asked


def test_going_back_asks_no_embedder(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    fleet.switch(a, b)
    again = Spun(*A)
    fleet.switch(b, again)
    assert again.asked == []
    assert fleet.wrong_rows(a) == []


def test_drafts_get_new_vectors_too(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    fleet.owner.execute("UPDATE lastro.chunks SET status = 'draft' WHERE source_path LIKE '%dhow%'")
    fleet.switch(a, b)
    assert fleet.wrong_rows(b) == []


def test_a_switch_to_the_embedder_that_is_searched_already_does_nothing(fleet: Fleet) -> None:
    a = Spun(*A)
    fleet.index(a)
    report = fleet.switch(a, Spun(*A))
    assert report.before == report.active
    assert report.chunks == 0


def test_without_a_vector_there_is_nothing_to_switch_from(fleet: Fleet) -> None:
    with pytest.raises(InvalidInput, match="no vectors yet"):
        fleet.switch(None, Spun(*A))


def test_a_width_that_no_index_holds_is_refused_before_anything_is_done(fleet: Fleet) -> None:
    a = Spun(*A)
    fleet.index(a)
    before = schema_of(fleet.owner)
    with pytest.raises(DimensionMismatch, match="4001 dimensions"):
        fleet.switch(a, Spun("wide", 4_001))
    assert schema_of(fleet.owner) == before


def test_without_room_on_the_disk_nothing_is_begun(fleet: Fleet) -> None:
    a = Spun(*A)
    fleet.index(a)
    with pytest.raises(DatabaseUnavailable, match=r"may take \d+ MiB of disk, and 1 MiB are free"):
        fleet.switch(a, Spun(*B), free_bytes=1000)
    assert switching.status(fleet.database, "a").switch is None


def test_measures_of_the_old_vectors_do_not_rank_the_new_ones(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B)
    more = {f"docs/boat{n}.md": f"# Boat {n}\n\nThe boat of number {n}.\n" for n in range(20)}
    commit(fleet.folder, more)
    fleet.index(a)
    (project_id,) = ids(fleet)
    with fleet.database.transaction(projects=[project_id]) as connection:
        body = {"name": "default", "version": 9, "calibrated": "self"}
        version = store.save_profile(connection, body, project_id=project_id, after=8)
        store.adopt_profile(
            connection, "default", version=version, project_id=project_id, by_itself=True
        )
        check = SelfCheck(
            embedder=fingerprint(a), row_count=30, questions=20, agreement=1.0, lexical_mrr=1.0,
            trust=0.5,
        )  # fmt: skip
        store.save_check(connection, check, project_id=project_id)
        before = store.ranking_numbers(connection, "default", project_id=project_id)
    fleet.switch(a, b)
    with fleet.database.transaction(projects=[project_id]) as connection:
        after = store.ranking_numbers(connection, "default", project_id=project_id)
    assert (before.body, before.looked_at) == (body | {"version": version}, True)
    assert (after.body, after.looked_at) == (None, False)
    # 30 rows: their pairs are measured again
    assert None not in (before.mean, after.mean)
    assert before.mean != after.mean


def ids(fleet: Fleet) -> list[int]:
    with fleet.database.transaction() as connection:
        return [project.id for project in store.all_projects(connection)]


# --- meanwhile


@pytest.mark.usefixtures("few_at_once")
def test_until_the_swap_the_old_vectors_are_searched(fleet: Fleet) -> None:
    a, c = Spun(*A), Spun(*C)
    fleet.index(a)
    seen: list[bool] = []

    def look(done: int, total: int) -> None:
        if done < total:
            seen.append(answers(fleet.ask(a, "ketch"), "ketch"))

    fleet.switch(a, c, progress=look)
    assert len(seen) >= 4
    assert all(seen)


@pytest.mark.usefixtures("few_at_once")
def test_what_is_indexed_meanwhile_has_a_new_vector_at_the_swap(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    steps: list[int] = []

    def grow(done: int, _total: int) -> None:
        gone = {2: "brig", 4: "dhow"}.get(len(steps))
        if gone is not None:
            new = f"# New {done}\n\nAnother.\n"
            commit(fleet.folder, {f"docs/new{done}.md": new, f"docs/{gone}.md": None})
            fleet.index(a)
        steps.append(done)

    fleet.switch(a, b, progress=grow)
    count = fleet.owner.execute("SELECT count(*) FROM lastro.chunks").fetchone()
    assert count == (len(SHIPS) - 2 + 2,)
    assert fleet.wrong_rows(b) == []


def test_the_new_embedder_may_neither_search_nor_write_before_the_swap(fleet: Fleet) -> None:
    a, c = Spun(*A), Spun(*C)
    fleet.index(a)
    refused: list[str] = []

    def look(_done: int, _total: int) -> None:
        for work in (lambda: fleet.ask(c, "sloop"), lambda: fleet.index(c)):
            with pytest.raises(EmbedderMismatch) as error:
                work()
            refused.append(error.value.remedy or "")

    fleet.switch(a, c, progress=look)
    assert refused
    assert {"lastro embedder switch c" in remedy for remedy in refused} == {True}


def test_an_export_meanwhile_holds_the_old_vectors_alone(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    lines: list[bytes] = []

    def export(_done: int, _total: int) -> None:
        lines.clear()
        export_project(fleet.database, PROJECT, lines.append, vectors=True)

    fleet.switch(a, b, progress=export)
    text = b"".join(lines)
    assert b'"dimension": 768' in lines[0]
    assert b"next" not in text.lower().replace(b"nextto", b"")


def test_searches_in_many_threads_meet_no_error_and_no_mixed_answer_until_the_swap(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switching, "BATCH_CHUNKS", 1)
    a, c = Spun(*A), Spun(*C)
    fleet.index(a)
    for ship in SHIPS:
        fleet.ask(a, ship)
    stop = threading.Event()
    wrong: list[str] = []
    counts = {"right": 0, "refused": 0}

    def ask(number: int) -> None:
        while not stop.is_set():
            ship = SHIPS[number % len(SHIPS)]
            number += 1
            try:
                outcome = fleet.ask(a, ship)
            except EmbedderMismatch:
                counts["refused"] += 1  # the swap is over
                return
            except LastroError as error:
                wrong.append(error.message)
                return
            if not answers(outcome, ship) or outcome.degraded:
                wrong.append(f"{ship}: {cosines(outcome)[:3]} {outcome.degraded}")
            counts["right"] += 1

    threads = [threading.Thread(target=ask, args=[n]) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        fleet.switch(a, c)
        assert wait_until(lambda: counts["refused"] == len(threads) or bool(wrong))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert counts["right"] > len(SHIPS)
    assert answers(fleet.ask(c, "yawl"), "yawl")


# --- the swap under a search, and under a writer


def test_a_search_whose_question_was_embedded_before_the_swap_is_refused(fleet: Fleet) -> None:
    a, c = Spun(*A), Spun(*C)
    fleet.index(a)
    slow = Spun(*A)
    slow.before = lambda: fleet.switch(a, c)
    request = SearchRequest(query="which of them has never been asked for")
    with pytest.raises(EmbedderMismatch, match=r"vectors of c .*but a "):
        search(fleet.engine(slow), request, project=PROJECT)


def all_but_swapped(
    fleet: Fleet, old: Embedder, new: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A switch that stopped just before its swap: an index build would wait for a snapshot."""

    def fail(*_arguments: Any) -> None:
        raise RuntimeError("not yet")

    with monkeypatch.context() as patch:
        patch.setattr(store, "lock_searches", fail)
        with pytest.raises(RuntimeError):
            fleet.switch(old, new)


def test_a_search_whose_snapshot_is_older_than_the_swap_is_done_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Old rows by an old snapshot, and a column that holds other vectors since: of one width.
    a, c = Spun(*A), Spun(*C)
    fleet.index(a)
    all_but_swapped(fleet, a, c, monkeypatch)
    resolve = searching.resolve
    snapshots: list[int] = []

    def swap_first(connection: Any, *arguments: Any, **named: Any) -> Any:
        if not snapshots:
            fleet.switch(a, c)
        snapshots.append(1)
        return resolve(connection, *arguments, **named)

    monkeypatch.setattr(searching, "resolve", swap_first)
    with pytest.raises(EmbedderMismatch):
        fleet.ask(a, "lugger")
    assert len(snapshots) == 2


def test_the_swap_waits_for_a_search_that_has_begun_to_read(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Spun(*A)
    fleet.index(a)
    for _ in range(8):  # by then its statements have a plan that serves any value
        fleet.ask(a, "xebec")
    legs = searching._legs

    def lock_briefly() -> None:
        with connect(fleet.url) as connection:
            set_local(connection, settings={"lock_timeout": "50ms"})
            store.lock_searches(connection)

    refused: list[type] = []

    def look(*arguments: Any, **named: Any) -> Any:
        with pytest.raises(Contention) as error:
            lock_briefly()
        refused.append(error.type)
        return legs(*arguments, **named)

    monkeypatch.setattr(searching, "_legs", look)
    assert answers(fleet.ask(a, "xebec"), "xebec")
    assert refused == [Contention]


@pytest.mark.parametrize("new", [B, C], ids=["another width", "the same width"])
def test_a_writer_that_began_before_the_swap_stores_nothing_after_it(
    fleet: Fleet, new: tuple[str, int]
) -> None:
    from test_schema import prepared_file

    a, other = Spun(*A), Spun(*new)
    fleet.index(a)
    (project_id,) = ids(fleet)
    late = fleet.writer(a)
    late.require_embedder()
    fleet.switch(a, other)
    late.write([prepared_file(project_id, path="docs/late.md")], project_id=project_id, stale=[])
    with pytest.raises(EmbedderMismatch, match=f"vectors of {other.id} .*but a "):
        late.settle()
    assert fleet.wrong_rows(other) == []


def test_an_index_run_that_waited_for_the_swap_is_refused(fleet: Fleet) -> None:
    a, c = Spun(*A), Spun(*C)
    fleet.index(a)
    ended: list[LastroError] = []

    def late_run() -> None:
        try:
            fleet.index(a)
        except LastroError as error:
            ended.append(error)

    thread = threading.Thread(target=late_run)

    def start_it(said: str) -> None:
        if said.startswith("swapping"):
            with fleet.database.reserved() as connection:
                store.lock_project(connection, ids(fleet)[0])
                thread.start()
                assert wait_until(lambda: waits(fleet))

    fleet.switch(a, c, say=start_it)
    thread.join()
    # it came before the swap, and was done; or after it, and was told
    assert all(isinstance(error, EmbedderMismatch) for error in ended)
    assert fleet.wrong_rows(c) == []


def waits(fleet: Fleet) -> bool:
    row = fleet.owner.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    ).fetchone()
    return row is not None and row[0] > 0


# --- interrupted


@pytest.mark.usefixtures("few_at_once")
def test_a_switch_whose_embedder_dies_stops_with_one_message_and_goes_on_later(
    fleet: Fleet,
) -> None:
    a, b = Spun(*A), Spun(*B, fails_after=5)
    fleet.index(a)
    with pytest.raises(ProviderError, match=r"cannot be reached; 4 of 10 rows") as stopped:
        fleet.switch(a, b)
    assert "switch b` again" in (stopped.value.remedy or "")
    found = switching.status(fleet.database, "a")
    assert found.active is not None
    assert found.switch is not None
    assert found.active.id == "a"
    assert (found.switch.to.id, found.switch.done, found.switch.total) == ("b", 4, 10)
    assert not found.switch.running
    assert answers(fleet.ask(a, "cutter"), "cutter")
    well = Spun(*B)
    fleet.switch(a, well)
    assert len(well.asked) == 6
    assert fleet.wrong_rows(well) == []


@pytest.mark.parametrize(
    "step", ["index_missing", "index_next", "lock_searches", "swap_vectors", "vacuum_switched"]
)
def test_a_switch_that_fails_at_any_step_is_finished_by_the_next_call(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    with monkeypatch.context() as patch:

        def fail(*_arguments: Any, **_named: Any) -> None:
            raise RuntimeError("the power is out")

        patch.setattr(store, step, fail)
        with pytest.raises(RuntimeError):
            fleet.switch(a, b)
    swapped = step == "vacuum_switched"
    assert answers(fleet.ask(b if swapped else a, "brig"), "brig")
    again = Spun(*B)
    fleet.switch(a, again)
    assert len(again.asked) == (len(SHIPS) if step == "index_missing" else 0)
    assert fleet.wrong_rows(b) == []
    assert switching.status(fleet.database, "b").switch is None


def test_what_an_interrupted_index_build_left_is_built_again(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    with connect(fleet.url) as connection:
        lock_schema(connection)
        own = store.ActiveEmbedder(
            id="b", version=b.version, dimension=b.dimension, fingerprint=fingerprint(b)
        )
        store.begin_switch(connection, own)
    fleet.owner.execute(
        "CREATE INDEX chunks_next_embedding_idx ON lastro.chunks USING hnsw"
        " (next_embedding halfvec_cosine_ops) WHERE status = 'published'"
    )
    fleet.owner.execute(
        "UPDATE pg_index SET indisvalid = false"
        " WHERE indexrelid = 'lastro.chunks_next_embedding_idx'::regclass"
    )
    fleet.switch(a, b)
    valid = fleet.owner.execute(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = 'lastro.chunks_embedding_idx'::regclass"
    )
    assert valid.fetchone() == (True,)
    assert answers(fleet.ask(b, "galley"), "galley")


@pytest.mark.usefixtures("few_at_once")
def test_a_switch_can_be_given_up_and_leaves_nothing_behind(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B, fails_after=5)
    fleet.index(a)
    before = schema_of(fleet.owner)
    with pytest.raises(ProviderError):
        fleet.switch(a, b)
    assert switching.abandon(fleet.database, fleet.url).id == "b"
    assert schema_of(fleet.owner) == before
    assert fleet.wrong_rows(a) == []
    with pytest.raises(NotFound, match="no switch"):
        switching.abandon(fleet.database, fleet.url)


@pytest.mark.usefixtures("few_at_once")
def test_a_switch_to_a_third_embedder_waits_for_the_one_that_is_under_way(fleet: Fleet) -> None:
    a = Spun(*A)
    fleet.index(a)
    with pytest.raises(ProviderError):
        fleet.switch(a, Spun(*B, fails_after=5))
    with pytest.raises(Conflict, match=r"a switch to b .* is under way") as refused:
        fleet.switch(a, Spun(*C))
    assert "--abandon" in (refused.value.remedy or "")


def test_of_two_processes_one_works_on_a_switch(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    seen: list[bool] = []

    def second(_done: int, _total: int) -> None:
        for work in (
            lambda: fleet.switch(a, b),
            lambda: switching.abandon(fleet.database, fleet.url),
        ):
            with pytest.raises(Conflict, match="another process"):
                work()
        state = switching.status(fleet.database, "a").switch
        seen.append(state is not None and state.running)

    fleet.switch(a, b, progress=second)
    assert seen
    assert all(seen)


def test_a_text_that_the_new_embedder_refuses_is_named_and_its_page_incomplete(
    fleet: Fleet,
) -> None:
    a = Spun(*A)
    fleet.index(a)

    class Fussy(Spun):
        def embed(self, texts: Sequence[str], role: Any) -> NDArray[np.float32]:
            if any("dhow" in text for text in texts):
                raise ProviderError("it is too long", reason="embedder_refused")
            return super().embed(texts, role)

    fussy = Fussy(*B)
    report = fleet.switch(a, fussy)
    assert [note.path for note in report.refused] == ["docs/dhow.md"]
    assert "it is too long" in report.refused[0].reason
    states = fleet.owner.execute(
        "SELECT place FROM lastro.documents WHERE state = 'incomplete'"
    ).fetchall()
    assert states == [("docs/dhow.md",)]
    outcome = fleet.ask(fussy, "sloop")
    assert [d.reason for d in outcome.degraded] == ["vectors_missing"]


def test_a_page_that_lacked_a_vector_is_complete_when_the_new_embedder_makes_it(
    fleet: Fleet,
) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    fleet.owner.execute(
        "UPDATE lastro.chunks SET embedding = NULL, embedding_model = NULL,"
        " embedding_version = NULL WHERE source_path = 'docs/yawl.md'"
    )
    fleet.owner.execute(
        "UPDATE lastro.documents SET state = 'incomplete' WHERE place = 'docs/yawl.md'"
    )
    fleet.switch(a, b)
    assert fleet.wrong_rows(b) == []
    assert fleet.ask(b, "yawl").degraded == ()


def test_a_blank_text_has_no_vector_and_holds_up_no_swap(fleet: Fleet) -> None:
    a, b = Spun(*A), Spun(*B)
    fleet.index(a)
    add_chunk(fleet.owner, ids(fleet)[0], "\u200b")
    report = fleet.switch(a, b)
    assert report.refused == ()
    found = fleet.owner.execute("SELECT count(*), count(embedding) FROM lastro.chunks").fetchone()
    assert found == (len(SHIPS) + 1, len(SHIPS))


# --- commands


class Yard:
    """A repository and a server of three models, for commands."""

    def __init__(self, folder: Path, url: str, stack: ExitStack) -> None:
        self.folder, self.url, self.stack = folder, url, stack
        self.host = f"127.0.0.1:{free_port()}"
        self.model = "m-a"

    def serve(self, **script: Any) -> Script:
        made = Script(
            models={"m-a": "1" * 64, "m-b": "2" * 64, "m-c": "3" * 64},
            widths={"m-a": 768, "m-b": 1024, "m-c": 768},
            **script,
        )
        self.host = self.stack.enter_context(ollama(made))
        return made

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **kept,
            "LASTRO_HOME": str(self.folder.parent / "home"),
            "LASTRO_DATABASE_URL": self.url,
            "LASTRO_EMBEDDER": f"ollama:{self.model}",
            "LASTRO_PROJECT": PROJECT,
            "LASTRO_OLLAMA_BATCH_TEXTS": "2",
            "OLLAMA_HOST": self.host,
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [LASTRO, *words],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=90)
        return process.returncode, out, err

    def json(self, *words: str) -> Any:
        code, out, err = self.run(*words, "--format", "json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture
def yard(owner_url: str, tmp_path: Path) -> Iterator[Yard]:
    folder = tmp_path / "yard"
    commit(folder, {f"docs/{ship}.md": page(ship) for ship in SHIPS})
    with ExitStack() as stack:
        yield Yard(folder, owner_url, stack)


def test_a_command_that_is_killed_half_way_is_finished_by_the_same_command(yard: Yard) -> None:
    script = yard.serve()
    yard.json("index", ".")
    assert yard.json("embedder")["switch"] is None
    script.delay_per_text_s = 0.3
    process = yard.start("embedder", "switch", "ollama:m-b")
    before = len(script.inputs)
    assert wait_until(lambda: len(script.inputs) > before + 4 or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    found = yard.json("embedder", "status")
    assert (found["configured"], found["active"]["id"]) == ("ollama:m-a", "ollama:m-a")
    assert found["switch"]["to"] == {
        "id": "ollama:m-b", "version": "2" * 12, "dimension": 1024
    }  # fmt: skip
    assert found["switch"]["running"] is False
    script.delay_per_text_s = 0.0
    hits = yard.json("search", "how the ketch is rigged")
    assert hits["vectorAvailable"] is True
    code, out, err = yard.run("embedder", "switch", "ollama:m-b")
    assert code == 0, err
    assert "set LASTRO_EMBEDDER=ollama:m-b now" in out
    code, _, err = yard.run("search", "how the ketch is rigged")
    assert code == 3
    assert "ollama:m-b" in err
    assert "lastro embedder switch ollama:m-a" in err
    yard.model = "m-b"
    assert yard.json("search", "how the ketch is rigged")["vectorAvailable"] is True
    assert yard.json("index", ".")["documents"]["unchanged"] == len(SHIPS)


def test_a_server_that_is_down_stops_the_command_with_one_message(yard: Yard) -> None:
    script = yard.serve()
    yard.json("index", ".")
    up, yard.host = yard.host, f"127.0.0.1:{free_port()}"
    code, _, err = yard.run("embedder", "switch", "ollama:m-c")
    assert code == 1
    assert err.count("cannot be reached") == 1
    assert yard.json("search", "ketch")["degraded"][0]["reason"] == "embedder_unreachable"
    yard.host = up
    asked = len(script.requests)
    said = yard.json("embedder", "switch", "ollama:m-c")
    assert said["active"]["id"] == "ollama:m-c"
    assert len(script.requests) > asked


def test_a_switch_names_an_embedder_or_gives_one_up(yard: Yard) -> None:
    yard.serve()
    for words in (("embedder", "switch"), ("embedder", "switch", "x", "--abandon")):
        assert yard.run(*words)[0] == 2
    assert yard.run("embedder", "switch", "--abandon")[0] == 4
