"""The two legs: when the vector leg reads every row, and what it does without an index."""

import numpy as np
import psycopg
import pytest
from rows import add_chunk, add_project

from lastro import legs, store
from lastro.db.pool import Database, connect
from lastro.filters import HardFilter, compile_filter
from lastro.legs import (
    EF_SEARCH,
    EXACT_ROWS,
    FORMER_EF_SEARCH,
    MOST_EF_SEARCH,
    MOST_EXACT_ROWS,
    exact_up_to,
    in_sight,
    is_former,
    run_vector_leg,
)

WIDTH = 4
LIMIT = 2


@pytest.mark.parametrize(
    ("indexed", "depth", "limit"),
    [
        (0, 100, EXACT_ROWS),  # no index, or not counted yet
        (-1, 100, EXACT_ROWS),
        (60_000, 100, EXACT_ROWS),  # √(4 · 100 · 60,000) = 4,898
        (90_000, 100, 6_000),  # √(4 · 100 · 90,000)
        (90_000, 25, EXACT_ROWS),  # half of it
        (360_000, 100, 12_000),
        (10_000_000, 100, MOST_EXACT_ROWS),  # 63,245
    ],
)
def test_the_more_rows_are_indexed_the_more_kept_ones_are_read_whole(
    indexed: int, depth: int, limit: int
) -> None:
    assert exact_up_to(indexed, depth=depth, reads=4) == limit


@pytest.mark.parametrize(
    ("kept", "sight"),
    [
        (100_000, EF_SEARCH),
        (80_000, EF_SEARCH),  # a quarter more is not worth a statement
        (50_000, 2 * EF_SEARCH),
        (10_000, MOST_EF_SEARCH),  # 4,000 were needed
        (0, MOST_EF_SEARCH),
        (200_000, EF_SEARCH),  # a count that is older than the rows
    ],
)
def test_as_many_rows_in_sight_pass_a_filter_as_without_one(kept: float, sight: int) -> None:
    assert in_sight(kept, of=100_000) == sight


def test_of_an_index_that_a_former_release_built_more_are_in_sight() -> None:
    built = {None: True, 64: True, 127: True, 128: False, 400: False}
    assert {number: is_former(number) for number in built} == built
    assert in_sight(100_000, of=100_000, enough=FORMER_EF_SEARCH) == FORMER_EF_SEARCH
    assert in_sight(60_000, of=100_000, enough=FORMER_EF_SEARCH) == 833  # 500 of .6


def test_where_nothing_was_counted_yet_the_index_keeps_most_in_sight() -> None:
    assert in_sight(5_001, of=0) == MOST_EF_SEARCH


@pytest.fixture
def project_id(owner: psycopg.Connection, owner_url: str) -> int:
    with connect(owner_url) as connection:
        store.add_vector_column(connection, WIDTH)
    return add_project(owner, "alpha")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legs, "EXACT_ROWS", LIMIT)


def add_rows(owner: psycopg.Connection, project_id: int, *, count: int) -> None:
    for number in range(count):
        vector = {
            "embedding_model": "m",
            "embedding_version": "1",
            "embedding": f"[1,{number},0,0]",
        }
        add_chunk(owner, project_id, scope="docs", **vector)


def vector_leg(database: Database, project_id: int) -> legs.VectorLeg:
    predicate = compile_filter(HardFilter(project_id=project_id))
    vector = np.eye(WIDTH, dtype=np.float32)[0]
    with database.transaction(projects=[project_id], settings=legs.HNSW_SETTINGS) as connection:
        return run_vector_leg(
            connection,
            predicate,
            corpus=store.corpus(connection, project_id),
            embedding=vector,
            depth=10,
        )


def count_rows(database: Database, project_id: int) -> None:
    with database.transaction(projects=[project_id]) as connection:
        store.refresh_statistics(connection, project_id)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("rows", "plan"), [(LIMIT, "exact"), (LIMIT + 1, "hnsw")])
def test_before_the_first_statistics_the_rows_are_counted(
    app_database: Database, owner: psycopg.Connection, project_id: int, rows: int, plan: str
) -> None:
    add_rows(owner, project_id, count=rows)
    assert vector_leg(app_database, project_id).explain == {"plan": plan, "found": rows}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("is_working", "plan"), [(True, "hnsw"), (False, "exact")])
def test_while_a_run_works_the_rows_are_counted_and_not_remembered(
    app_database: Database, owner: psycopg.Connection, project_id: int, is_working: bool, plan: str
) -> None:
    add_rows(owner, project_id, count=1)
    count_rows(app_database, project_id)
    add_rows(owner, project_id, count=LIMIT)
    with app_database.transaction(projects=[project_id]) as connection:
        store.save_source(
            connection,
            project_id=project_id,
            name="repository",
            kind="repository",
            root="/repository",
            ref=None,
            revision=None,
            skipped=(),
            finished=not is_working,
        )
    assert vector_leg(app_database, project_id).explain["plan"] == plan


@pytest.mark.usefixtures("few")
def test_without_an_index_a_row_without_a_vector_is_still_no_near_one(
    app_database: Database, owner: psycopg.Connection, project_id: int
) -> None:
    add_rows(owner, project_id, count=2)
    for _ in range(3):
        add_chunk(owner, project_id)
    leg = vector_leg(app_database, project_id)
    assert leg.explain["plan"] == "hnsw"
    assert [row.score for row in leg.rows] == pytest.approx([1.0, 0.5**0.5], abs=1e-3)
