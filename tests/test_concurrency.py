"""Runs beside runs and searches, and runs that are killed: real processes, one database."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import killing
import numpy as np
import psycopg
import pytest
from databases import address, database_of, scratch_database
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Identifier
from rows import add_project

from lastro import store
from lastro.db import pool
from lastro.db.pool import CONTENTION_ATTEMPTS, Database, retried
from lastro.errors import Contention, NotFound
from lastro.golden_lines import parse_golden
from lastro.golden_sets import GoldenSets
from lastro.rules import Rule
from lastro.ruling import RuleBook
from lastro.vocabulary import WordList

DOCUMENTS = 10
KILLS = 8


@pytest.fixture(scope="module")
def indexers() -> Iterator[killing.Indexers]:
    with killing.Indexers() as made:
        yield made


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed") / "repository"
    killing.make_repository(folder, documents=DOCUMENTS)
    return folder


@pytest.fixture(scope="module")
def fresh(server_url: str, template: str, repository: Path) -> dict[str, list[list[tuple]]]:
    """What a database holds that only ever saw one version."""
    made: dict[str, list[list[tuple]]] = {}
    for version in killing.VERSIONS:
        with scratch_database(server_url, template=template) as name:
            url = address(server_url, dbname=name)
            killing.index(url, repository, version)
            made[version] = killing.state(url)
    return made


# --- killed


def test_after_a_killed_run_the_next_ends_equal_to_a_fresh_index_and_no_search_saw_half(
    owner_url: str,
    repository: Path,
    fresh: dict[str, list[list[tuple]]],
    indexers: killing.Indexers,
) -> None:
    killing.index(owner_url, repository, killing.VERSIONS[0])
    onlooker = killing.Onlooker(owner_url, DOCUMENTS)
    unfinished = 0
    for version, was_done in killing.kill_often(
        owner_url, repository, onlooker, indexers=indexers, kills=KILLS, seed=8
    ):
        assert killing.state(owner_url) == fresh[version]
        unfinished += not was_done
    assert (onlooker.failures, onlooker.halves) == ([], [])
    # the points were points of a run, and somebody looked
    assert unfinished >= KILLS // 5
    assert onlooker.searches >= KILLS


def test_a_first_run_that_was_killed_leaves_nothing_that_the_next_does_not_mend(
    owner_url: str,
    repository: Path,
    fresh: dict[str, list[list[tuple]]],
    indexers: killing.Indexers,
) -> None:
    process = indexers.start(owner_url, repository, "aleph")
    chunks = "SELECT count(*) FROM lastro.chunks"
    with psycopg.connect(owner_url, autocommit=True) as connection:
        while not connection.execute(chunks).fetchone()[0]:
            assert process.is_running()
        process.kill()
    assert process.wait() == -signal.SIGKILL
    killing.index(owner_url, repository, "aleph")
    assert killing.state(owner_url) == fresh["aleph"]


# --- what the onlooker calls half


@pytest.mark.parametrize(
    ("seen", "fault"),
    [
        ([], "nothing of it"),
        (["aleph", "aleph", "", "aleph"], None),
        (["aleph", "aleph", ""], "3 of 4 sections"),
        (["aleph", "beth", "", "aleph"], "versions ['aleph', 'beth']"),
    ],
)
def test_half_a_document_is_told_from_a_whole_one(seen: list[str], fault: str | None) -> None:
    assert killing.half(seen) == fault


# --- beside each other


def test_eight_processes_on_one_project_end_equal_to_one(
    owner_url: str,
    repository: Path,
    fresh: dict[str, list[list[tuple]]],
    indexers: killing.Indexers,
) -> None:
    processes = [indexers.start(owner_url, repository, "aleph") for _ in range(8)]
    assert [process.wait() for process in processes] == [0] * 8
    assert killing.state(owner_url) == fresh["aleph"]


def test_runs_of_two_versions_at_once_leave_one_of_them_whole(
    owner_url: str,
    repository: Path,
    fresh: dict[str, list[list[tuple]]],
    indexers: killing.Indexers,
) -> None:
    killing.index(owner_url, repository, "aleph")
    onlooker = killing.Onlooker(owner_url, DOCUMENTS)
    with onlooker.looking(seed=3):
        both = [indexers.start(owner_url, repository, version) for version in killing.VERSIONS]
        assert [process.wait() for process in both] == [0, 0]
    assert killing.state(owner_url) in list(fresh.values())
    assert (onlooker.failures, onlooker.halves) == ([], [])


def test_a_run_does_not_wait_for_another_project(
    app_database: Database,
    owner: psycopg.Connection,
    owner_url: str,
    repository: Path,
    indexers: killing.Indexers,
) -> None:
    other = add_project(owner, "other")
    with app_database.session() as connection:
        store.lock_project(connection, other)
        assert indexers.start(owner_url, repository, "aleph").wait() == 0


def test_eight_processes_on_eight_projects_lose_no_document(
    owner_url: str, repository: Path, indexers: killing.Indexers
) -> None:
    processes = [
        indexers.start(owner_url, repository, "aleph", project=f"project-{n}") for n in range(8)
    ]
    assert [process.wait() for process in processes] == [0] * 8
    with psycopg.connect(owner_url) as connection:
        counts = connection.execute(
            "SELECT count(DISTINCT d.id), count(c.id) FROM lastro.documents AS d"
            " JOIN lastro.chunks AS c ON c.document_id = d.id GROUP BY d.project_id"
        ).fetchall()
    # ten notes and the one of this version, four sections each
    assert counts == [(DOCUMENTS + 1, (DOCUMENTS + 1) * killing.SECTIONS)] * 8


def test_a_run_that_waited_while_its_project_was_erased_says_so(
    app_database: Database, owner: psycopg.Connection
) -> None:
    project_id = add_project(owner, "alpha")
    owner.execute("DELETE FROM lastro.projects")
    with (
        pytest.raises(NotFound, match="was erased"),
        app_database.transaction(projects=[project_id]) as connection,
    ):
        store.save_source(
            connection,
            project_id=project_id,
            name="r",
            root="/r",
            kind="repository",
            ref=None,
            revision=None,
            skipped=(),
            finished=False,
        )


# --- a snapshot


def test_statements_of_a_snapshot_see_the_rows_of_its_first_moment(
    app_database: Database, owner: psycopg.Connection
) -> None:
    count = "SELECT count(*) FROM lastro.projects"
    for snapshot, seen in ((True, 0), (False, 1)):
        owner.execute("DELETE FROM lastro.projects")
        with app_database.transaction(snapshot=snapshot) as connection:
            connection.execute(count)
            add_project(owner, "alpha")
            assert connection.execute(count).fetchone() == (seen,)


# --- crosswise


def test_vectors_cached_at_once_in_opposite_orders_do_not_wait_crosswise(
    app_database: Database,
) -> None:
    keys = [bytes([n]) * 32 for n in range(200)]

    def cache(order: int) -> None:
        vectors = {key: np.ones(4, np.float32) for key in keys[::order]}
        with app_database.transaction() as connection:
            store.cache_embeddings(connection, vectors, fingerprint="print")

    with ThreadPoolExecutor(4) as threads:
        for _ in range(10):
            list(threads.map(cache, [1, -1, 1, -1]))
            with app_database.transaction() as connection:
                assert len(store.cached_embeddings(connection, keys, fingerprint="print")) == 200
                connection.execute("DELETE FROM lastro.embedding_cache")


def test_a_deadlock_is_tried_again_and_nothing_is_lost(
    app_database: Database, owner: psycopg.Connection
) -> None:
    ids = [add_project(owner, slug) for slug in ("alpha", "beta")]
    meeting = threading.Barrier(2, timeout=20)
    tries: list[int] = []

    def rename(order: list[int]) -> None:
        def work() -> None:
            tries.append(order[0])
            with app_database.transaction(projects=ids) as connection:
                for position, id_ in enumerate(order):
                    connection.execute(
                        "UPDATE lastro.projects SET name = name || '+' WHERE id = %s", [id_]
                    )
                    if position == 0 and len(tries) <= 2:
                        meeting.wait()  # now each holds what the other wants

        retried(work)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(rename, [ids, ids[::-1]]))
    names = owner.execute("SELECT name FROM lastro.projects ORDER BY 1").fetchall()
    assert names == [("alpha++",), ("beta++",)]
    assert len(tries) == 3


def test_what_is_always_in_the_way_is_an_error_after_some_tries() -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        raise Contention("in the way")

    with pytest.raises(Contention):
        retried(work)
    assert len(tries) == CONTENTION_ATTEMPTS


def _import_words(database: Database) -> object:
    line = b'{"synonyms": ["gangway", "gangplank"]}'
    return WordList(database=database, project="alpha").import_lines([line])


def _import_golden(database: Database) -> object:
    text = '{"id": "q1", "question": "How long is it?", "language": "en", "unanswerable": true}\n'
    return GoldenSets(database=database, project="alpha").add(parse_golden(text, name="quays"))


@pytest.mark.parametrize(
    ("table", "write"),
    [
        ("words", _import_words),
        ("words", lambda database: WordList(database=database, project="alpha").remove(["pier"])),
        ("rules", lambda database: RuleBook(database=database, project="alpha").remove(["near"])),
        ("golden_sets", _import_golden),
    ],
)
def test_a_writer_that_met_another_is_tried_again(
    app_database: Database,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    write: Callable[[Database], object],
) -> None:
    add_project(owner, "alpha")
    WordList(database=app_database, project="alpha").import_lines([b'{"protect": "pier"}'])
    rule = Rule(name="near", weight=0.5, reason="r")
    RuleBook(database=app_database, project="alpha").upsert([rule])
    owner.execute(
        SQL("ALTER DATABASE {} SET lock_timeout = '20ms'").format(
            Identifier(database_of(app_database.url))
        )
    )
    # The other one ends where the writer, having given up once, would pause.
    pause = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _s: owner.execute("ROLLBACK"))
    monkeypatch.setattr(pool, "time", pause)
    with Database(app_database.url) as impatient:
        owner.execute("BEGIN")
        owner.execute(f"LOCK TABLE lastro.{table} IN SHARE MODE")
        write(impatient)
    assert owner.info.transaction_status == TransactionStatus.IDLE
