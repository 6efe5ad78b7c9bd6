"""Named queries: each is used, each is understood by PostgreSQL, and each finds its index."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
import pytest
from databases import address, scratch_database
from numpy.typing import NDArray
from pgvector import HalfVector
from plans import explained, indexes, nodes, plan_of, read_whole
from psycopg.sql import SQL, Composable, Identifier, Literal
from psycopg.types.json import Jsonb
from rows import add_chunk, add_project

import lastro
from lastro import legs, store
from lastro.db.pool import Database, connect
from lastro.entry_filter import parse_filter
from lastro.filters import HardFilter, Predicate, compile_filter
from lastro.legs import (
    EXACT_ROWS,
    HNSW_SETTINGS,
    MOST_EF_SEARCH,
    LexicalLeg,
    read_query,
    run_lexical_leg,
    run_vector_leg,
)
from lastro.profiles import DEFAULT
from lastro.sql import load_queries
from lastro.store import ActiveEmbedder
from lastro.types import LanguageStatistics

SOURCE = Path(lastro.__file__).parent
FILES = sorted(
    entry.name.removesuffix(".sql") for entry in files("lastro.sql").joinpath("queries").iterdir()
)
NAMES = [(file, name) for file in FILES for name in load_queries(file)]

# --- a project of a realistic size

WIDTH = 16
# One project above the row count where the vector leg goes through HNSW, in three languages; one
# in a single language; and one whose rows must never appear.
LARGE, ONE_LANGUAGE, FOREIGN = 1, 2, 3
ROWS = {LARGE: 6_000, ONE_LANGUAGE: 1_500, FOREIGN: 1_000}

FILL = """
INSERT INTO lastro.documents (
    project_id, id, kind, scope, source, place, language, content_hash, fingerprint, state
)
SELECT
    %(project)s, md5('d' || %(project)s || n)::uuid, 'file',
    CASE WHEN n %% 10 = 0 THEN 'adr' ELSE 'docs' END, 'repository',
    'docs/' || n %% 20 || '/' || n || '.md', 'en', 'hash', 'print', 'complete'
FROM generate_series(0, %(rows)s / 10 - 1) AS n;
"""
# Forty words a row: half are one of 3,000, half one of 50; about every 200th row holds "ballast".
FILL_CHUNKS = """
INSERT INTO lastro.chunks (
    project_id, id, document_id, ordinal, scope, source_path, heading_path, line_start, line_end,
    char_start, char_end, language, token_count, content,
    embedding_model, embedding_version, embedding
)
SELECT
    d.project_id, md5('c' || d.place || n)::uuid, d.id, n, d.scope, d.place, '{{}}', 1, 1, 0, 1,
    (%(languages)s::text[])[1 + n %% cardinality(%(languages)s::text[])], 40,
    (
        SELECT string_agg('w' || abs(hashint4(n * 61 + i + hashtext(d.place)))
            %% CASE WHEN i %% 2 = 0 THEN 3000 ELSE 50 END, ' ')
        FROM generate_series(1, 40) AS i
    ) || CASE WHEN abs(hashtext(d.place || n)) %% 200 = 0 THEN ' ballast' ELSE '' END,
    'm', '1',
    (
        SELECT array_agg(sin(hashint4(n * 61 + i + hashtext(d.place))))::real[]::halfvec
        FROM generate_series(1, {width}) AS i
    )
FROM lastro.documents AS d CROSS JOIN generate_series(0, 9) AS n
WHERE d.project_id = %(project)s;
"""


@pytest.fixture(scope="module")
def library_url(server_url: str, template: str) -> Iterator[str]:
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with connect(url) as connection:
            store.add_vector_column(connection, WIDTH)
            # Filled first and indexed afterwards: a fraction of the time.
            lexical_index = drop_index(connection, "chunks_search_vector_idx")
            for project, rows in ROWS.items():
                add_project(connection, str(project))
                languages = ["en"] if project == ONE_LANGUAGE else ["en", "pt", "zh"]
                fill = {"project": project, "rows": rows, "languages": languages}
                connection.execute(FILL.encode(), fill)
                connection.execute(SQL(FILL_CHUNKS).format(width=Literal(WIDTH)), fill)
                store.refresh_statistics(connection, project)
            connection.execute(lexical_index)
            store.add_vector_index(connection)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE) lastro.chunks, lastro.documents")
            # A switch to another embedder is under way, whose columns some queries name.
            other = ActiveEmbedder(id="n", version="1", dimension=WIDTH, fingerprint="other")
            store.begin_switch(connection, other)
            store.index_missing(connection)
        yield url


def drop_index(connection: psycopg.Connection, index: str) -> bytes:
    """Drop an index and return the statement that makes it again."""
    row = connection.execute(
        "SELECT pg_get_indexdef(('lastro.' || %s)::regclass)", [index]
    ).fetchone()
    assert row is not None
    connection.execute(SQL("DROP INDEX {}").format(Identifier("lastro", index)))
    return row[0].encode()


@pytest.fixture
def library(library_url: str) -> Iterator[Database]:
    with Database(library_url, max_size=1) as database:
        yield database


def query_vector() -> NDArray[np.float32]:
    vector = np.zeros(WIDTH, dtype=np.float32)
    vector[0] = 1.0
    return vector


HARD_FILTERS = {
    "no filter": {},
    "scope": {"scopes": ("adr",)},
    "both scopes": {"scopes": ("docs", "adr")},
    "path": {"path_prefix": "docs/7/"},
    "scope and path": {"scopes": ("docs",), "path_prefix": "docs/1"},
    "attributes": {"entries": parse_filter({"forbid": {"avoid": ["pear"]}})},
}


# --- the lexical leg


def lexical_leg(
    connection: psycopg.Connection,
    predicate: Predicate,
    query: str,
    *,
    project_id: int,
    languages: list[str],
) -> LexicalLeg:
    corpus = store.corpus(connection, project_id)
    read = read_query(
        connection,
        query,
        corpus=corpus,
        project_id=project_id,
        profile=DEFAULT,
        languages=languages,
    )
    return run_lexical_leg(
        connection,
        predicate,
        read,
        corpus=corpus,
        depth=DEFAULT.lexical_depth,
        embedding=query_vector(),
    )


@pytest.mark.parametrize("project_id", [LARGE, ONE_LANGUAGE])
@pytest.mark.parametrize("hard", HARD_FILTERS.values(), ids=list(HARD_FILTERS))
@pytest.mark.parametrize("query", ["ballast", "w2007", "ballast w11 w2007 w1500"])
def test_the_lexical_leg_reads_the_gin_index_and_not_the_table(
    library: Database, project_id: int, hard: dict[str, Any], query: str
) -> None:
    predicate = compile_filter(HardFilter(project_id=project_id, **hard))
    with (
        library.transaction(projects=[project_id], settings=HNSW_SETTINGS) as connection,
        explained(connection) as plans,
    ):
        lexical_leg(
            connection, predicate, query, project_id=project_id, languages=["en", "pt", "zh"]
        )
    legs = [plan for plan in plans if "chunks" in relations(plan)]
    assert legs
    for plan in legs:
        # Where a filter keeps fewer rows than match, reading those is the cheaper way.
        others = {"chunks_path_idx"} if "path_prefix" in hard else set()
        if "scopes" in hard and " " in query:
            others.add("chunks_published_idx")
        assert indexes(plan) & ({"chunks_search_vector_idx"} | others)
        assert read_whole(plan) == set()


def relations(plan: dict[str, Any]) -> set[str]:
    inner = [relations(child) for child in plan.get("Plans", [])]
    return set().union({plan.get("Relation Name", "")}, *inner)


def test_the_same_words_under_the_policy_would_not_use_the_gin_index(library: Database) -> None:
    # Why the view is there: @@ is not leakproof. When this fails the view can go.
    query = (
        "SELECT id FROM lastro.{} WHERE project_id = 1 AND status = 'published'"
        " AND search_vector @@ 'ballast'::tsquery"
    )
    with library.transaction(projects=[LARGE]) as connection:
        assert indexes(plan_of(connection, query.format("searchable"))) == {
            "chunks_search_vector_idx"
        }
        assert "chunks_search_vector_idx" not in indexes(
            plan_of(connection, query.format("chunks"))
        )


@pytest.mark.parametrize(
    ("hard", "expected"),
    [({}, ["ballast"]), ({"path_prefix": "docs/7/"}, ["ballast", "w11"])],
    ids=["no filter", "a filter that keeps a twentieth"],
)
def test_a_common_word_chooses_candidates_only_where_a_filter_keeps_few(
    library: Database, monkeypatch: pytest.MonkeyPatch, hard: dict[str, Any], expected: list[str]
) -> None:
    # ballast is in some 28 of 5,600 rows, w11 in about 1,900: only with the filter's share of a
    # twentieth do both fit
    monkeypatch.setattr(legs, "CANDIDATE_BUDGET", 400)
    with library.transaction(projects=[LARGE], settings=HNSW_SETTINGS) as connection:
        leg = lexical_leg(
            connection,
            compile_filter(HardFilter(project_id=LARGE, **hard)),
            "ballast w11",
            project_id=LARGE,
            languages=["en"],
        )
    assert leg.explain["candidates"] == expected


def test_a_lexical_leg_finds_rows_of_its_project_alone(library: Database) -> None:
    predicate = compile_filter(HardFilter(project_id=LARGE))
    with library.transaction(projects=[LARGE], settings=HNSW_SETTINGS) as connection:
        leg = lexical_leg(connection, predicate, "ballast", project_id=LARGE, languages=["en"])
        expected = connection.execute(
            "SELECT id FROM lastro.chunks WHERE project_id = %s AND content LIKE '%%ballast'",
            [LARGE],
        ).fetchall()
    assert {row.id for row in leg.rows} == {id_ for (id_,) in expected}


# --- the vector leg


def vector_leg_plan(library: Database, **hard: Any) -> tuple[str, dict[str, Any]]:
    predicate = compile_filter(HardFilter(project_id=LARGE, **hard))
    with (
        library.transaction(projects=[LARGE], settings=HNSW_SETTINGS) as connection,
        explained(connection) as plans,
    ):
        leg = run_vector_leg(
            connection,
            predicate,
            corpus=store.corpus(connection, LARGE),
            embedding=query_vector(),
            depth=200,
        )
    return leg.explain["plan"], plans[-1]


def test_a_small_project_is_to_the_index_as_a_filter_that_keeps_few(
    library: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastro.legs.exact_up_to", lambda _indexed, **_: 0)
    predicate = compile_filter(HardFilter(project_id=ONE_LANGUAGE))
    with library.transaction(projects=[ONE_LANGUAGE], settings=HNSW_SETTINGS) as connection:
        leg = run_vector_leg(
            connection,
            predicate,
            corpus=store.corpus(connection, ONE_LANGUAGE),
            embedding=query_vector(),
            depth=200,
        )
        sight = connection.execute("SELECT current_setting('hnsw.ef_search')").fetchone()
    # 1,500 of 8,500 rows: 200 of them are in sight among some 1,130, and 1,000 is the most
    assert (leg.explain["plan"], sight) == ("hnsw", (str(MOST_EF_SEARCH),))


def test_while_a_run_works_no_more_rows_are_in_sight(library: Database) -> None:
    assert _sight(library, unfinished=1) == _sight(library, unfinished=0)


def _sight(library: Database, *, unfinished: int) -> str:
    predicate = compile_filter(HardFilter(project_id=LARGE))
    with library.transaction(projects=[LARGE], settings=HNSW_SETTINGS) as connection:
        corpus = replace(store.corpus(connection, LARGE), unfinished=unfinished)
        leg = run_vector_leg(
            connection, predicate, corpus=corpus, embedding=query_vector(), depth=200
        )
        assert leg.explain["plan"] == "hnsw"
        row = connection.execute("SELECT current_setting('hnsw.ef_search')").fetchone()
    assert row is not None
    return row[0]


def test_an_index_that_a_former_release_built_keeps_more_in_sight(
    library: Database, library_url: str
) -> None:
    usual = _sight(library, unfinished=0)
    with psycopg.connect(library_url, autocommit=True) as owner:
        owner.execute("ALTER INDEX lastro.chunks_embedding_idx RESET (ef_construction)")
        former = _sight(library, unfinished=0)
        owner.execute("ALTER INDEX lastro.chunks_embedding_idx SET (ef_construction = 128)")
    # 6,000 of 8,500 rows: 200 of them are in sight among 283, and 500 among 708
    assert (usual, former) == ("283", "708")


@pytest.mark.parametrize("hard", [{}, {"scopes": ("docs",)}, {"scopes": ("docs", "adr")}])
def test_above_the_row_count_the_vector_leg_goes_through_hnsw(
    library: Database, hard: dict[str, Any]
) -> None:
    chosen, plan = vector_leg_plan(library, **hard)
    assert (chosen, indexes(plan)) == ("hnsw", {"chunks_embedding_idx"})


@pytest.mark.parametrize("hard", [{"scopes": ("adr",)}, {"path_prefix": "docs/7/"}])
def test_below_the_row_count_the_vector_leg_reads_every_row_that_is_kept(
    library: Database, hard: dict[str, Any]
) -> None:
    chosen, plan = vector_leg_plan(library, **hard)
    assert chosen == "exact"
    assert "chunks_embedding_idx" not in indexes(plan)


def test_directly_after_a_bulk_delete_the_nearest_rows_that_are_left_are_found(
    library: Database,
) -> None:
    # No VACUUM can come between: the rows are dead to this transaction alone, and in the index.
    predicate = compile_filter(HardFilter(project_id=LARGE))
    by_distance = (
        "SELECT id FROM (SELECT id, embedding <=> %s::halfvec AS distance FROM lastro.chunks"
        " WHERE project_id = %s OFFSET 0) AS d ORDER BY distance, id LIMIT 410"
    )
    vector = query_vector()
    with library.transaction(projects=[LARGE], settings=HNSW_SETTINGS) as connection:
        rows = connection.execute(by_distance, [HalfVector(vector), LARGE]).fetchall()
        nearest = [id_ for (id_,) in rows]
        connection.execute("DELETE FROM lastro.chunks WHERE id = ANY (%s)", [nearest[:400]])
        leg = run_vector_leg(
            connection,
            predicate,
            corpus=store.corpus(connection, LARGE),
            embedding=vector,
            depth=200,
        )
        found = [row.id for row in leg.rows]
        raise psycopg.Rollback
    assert leg.explain["plan"] == "hnsw"
    assert len(found) == 200
    assert len({*found[:10]} & {*nearest[400:]}) >= 9


@pytest.mark.parametrize("hard", [{}, {"path_prefix": "docs/7/"}], ids=["hnsw", "exact"])
def test_each_leg_gives_its_rows_what_the_other_would_have_given_them(
    library: Database, hard: dict[str, Any]
) -> None:
    predicate = compile_filter(HardFilter(project_id=LARGE, **hard))
    with library.transaction(projects=[LARGE], settings=HNSW_SETTINGS) as connection:
        lexical = lexical_leg(
            connection, predicate, "ballast w11", project_id=LARGE, languages=["en", "pt", "zh"]
        )
        vector = run_vector_leg(
            connection,
            predicate,
            corpus=store.corpus(connection, LARGE),
            embedding=query_vector(),
            depth=1_000,
            scoring=lexical.scoring,
        )
    by_words = {row.id: row for row in lexical.rows}
    both = [(row, by_words[row.id]) for row in vector.rows if row.id in by_words]
    assert len(both) >= 5
    for near, worded in both:
        assert (near.score, near.other) == pytest.approx((worded.other, worded.score))
    assert any(row.other is None for row in vector.rows)  # holds none of the words


def test_the_row_count_lies_between_the_projects_of_this_file() -> None:
    assert ROWS[ONE_LANGUAGE] < EXACT_ROWS < ROWS[LARGE] * 9 // 10


def test_a_path_prefix_is_found_through_its_index(library: Database) -> None:
    predicate = compile_filter(HardFilter(project_id=LARGE, path_prefix="docs/7/"))
    with (
        library.transaction(projects=[LARGE]) as connection,
        explained(connection) as plans,
    ):
        kept = store.count_up_to(connection, predicate, limit=10_000)
    # 600 documents, every twentieth in docs/7, ten chunks each
    assert kept == 300
    assert indexes(plans[-1]) == {"chunks_path_idx"}


def test_hits_are_read_by_key(library: Database) -> None:
    with (
        library.transaction(projects=[LARGE]) as connection,
        explained(connection) as plans,
    ):
        ids = [row[0] for row in connection.execute("SELECT id FROM lastro.chunks LIMIT 10")]
        plans.clear()
        assert len(store.fetch_hits(connection, ids, project_id=LARGE)) == len(ids)
    assert ["chunks_pkey" in indexes(plan) for plan in plans] == [True]


@pytest.mark.parametrize(
    ("page", "index"),
    [
        (store.session_states, "sessions_pkey"),
        (partial(store.entity_summaries, type_=None, status=None), "documents_place_key"),
        (store.stored_words, "words_pkey"),
    ],
    ids=["sessions", "entities", "words"],
)
def test_a_page_in_the_middle_of_a_list_is_read_in_the_order_of_an_index(
    library: Database, page: Callable[..., Any], index: str
) -> None:
    few = {"enable_seqscan": "off", "enable_bitmapscan": "off"}  # rows, here
    with (
        library.transaction(projects=[LARGE], settings=few) as connection,
        explained(connection) as plans,
    ):
        page(connection, LARGE, after="k", limit=51)
    [plan] = plans
    conditions = [n.get("Index Cond", "") for n in nodes(plan) if n.get("Index Name") == index]
    assert " > 'k'" in conditions[0]
    assert all(node["Node Type"] != "Sort" for node in nodes(plan))


def test_what_is_prepared_reads_no_large_table_whole_whatever_its_values(library: Database) -> None:
    with library.transaction(projects=[LARGE]) as connection:
        store.opening(connection, str(LARGE))
        store.corpus(connection, LARGE)
        store.ranking_numbers(connection, "default", project_id=LARGE)
        store.parse_query(connection, [(0, 0, "a")], project_id=LARGE, languages=["en"])
        store.fetch_hits(connection, [SOME_ID], project_id=LARGE)
        store.cached_embeddings(connection, [bytes(32)], fingerprint="one")
        prepared = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
        plans = [
            connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}").fetchone()
            for (text,) in prepared
        ]
    assert len(plans) == 6
    whole = {table for plan in plans if plan for table in read_whole(plan[0][0]["Plan"])}
    assert not whole & {"chunks", "documents", "lexeme_stats", "embedding_cache"}


# --- statistics, against a count in Python


def test_document_frequencies_are_those_of_a_count(library: Database) -> None:
    with library.transaction(projects=[ONE_LANGUAGE, FOREIGN]) as connection:
        contents = connection.execute(
            "SELECT content FROM lastro.chunks WHERE project_id = %s", [ONE_LANGUAGE]
        ).fetchall()
        store.refresh_statistics(connection, ONE_LANGUAGE)
        stored = connection.execute(
            "SELECT lexeme, df FROM lastro.lexeme_stats WHERE project_id = %s", [ONE_LANGUAGE]
        ).fetchall()
    counted: dict[str, int] = {}
    for (content,) in contents:
        for word in set(content.split()):
            counted[word] = counted.get(word, 0) + 1
    assert dict(stored) == counted


def test_statistics_count_published_rows_by_language(
    app_database: Database, owner_url: str
) -> None:
    with connect(owner_url) as connection:
        project_id = add_project(connection, "alpha")
        add_chunk(connection, project_id, "red red ink")
        add_chunk(connection, project_id, "ink")
        add_chunk(connection, project_id, "tinta azul", language="pt")
        add_chunk(connection, project_id, "ink draft", status="draft")
        add_chunk(connection, project_id, "ink archived", status="archived")
        add_chunk(connection, add_project(connection, "beta"), "ink")
    with app_database.transaction(projects=[project_id]) as connection:
        for _ in range(2):  # counted afresh, not added up
            store.refresh_statistics(connection, project_id)
        stored = connection.execute(
            "SELECT language, lexeme, df FROM lastro.lexeme_stats ORDER BY lexeme"
        )
        # ink: rows 1 and 2; azul and tint (Portuguese stems): row 3
        assert stored.fetchall() == [
            ("pt", "azul", 1),
            ("en", "ink", 2),
            ("en", "red", 1),
            ("pt", "tint", 1),
        ]
        assert store.corpus(connection, project_id).statistics == [
            LanguageStatistics(
                language="en", chunk_count=2, mean_length=(3 + 1) / 2, mean_lexemes=(2 + 1) / 2
            ),
            LanguageStatistics(language="pt", chunk_count=1, mean_length=2.0, mean_lexemes=2.0),
        ]


# --- the embedding cache


def test_cached_vectors_come_back_bit_for_bit_by_fingerprint_and_hash(
    app_database: Database,
) -> None:
    random = np.random.default_rng(7)
    vectors = {bytes([n]) * 32: random.normal(size=8).astype(np.float32) for n in range(5)}
    with app_database.transaction() as connection:
        store.cache_embeddings(connection, vectors, fingerprint="one")
        store.cache_embeddings(connection, {bytes(32): np.ones(8, np.float32)}, fingerprint="two")
        found = store.cached_embeddings(connection, [*vectors, b"unknown"], fingerprint="one")
    assert found.keys() == vectors.keys()
    assert all(np.array_equal(found[key], vectors[key]) for key in vectors)


def test_a_cached_vector_is_kept_as_it_was_first(app_database: Database) -> None:
    key = bytes(32)
    with app_database.transaction() as connection:
        for number in (1.0, 2.0):
            store.cache_embeddings(
                connection, {key: np.full(4, number, np.float32)}, fingerprint="one"
            )
        found = store.cached_embeddings(connection, [key], fingerprint="one")
    assert found[key].tolist() == [1.0] * 4


# --- every named query

# Not plannable statements: other tests run them.
UTILITY = {
    "add_vector_column", "add_vector_index", "analyze_chunks", "copy_rows", "create_database",
    "create_extension", "create_ledger", "create_scratch", "drop_abandoned", "drop_scratch",
    "drop_staged_rows", "own_database", "settle", "settle_database", "stage_rows", "vacuum_erased",
    "add_phase", "copy_events", "drop_staged_events", "stage_events", "add_next_columns",
    "drop_next_columns", "drop_next_index", "index_missing", "index_next", "lock_searches",
    "swap_vectors", "vacuum_switched", "validate_next",
}  # fmt: skip
OWNERS = {
    "forget_samples", "forget_switch", "record_migration", "record_switch", "set_active_embedder",
}  # fmt: skip
# What is understood only after the statement that stages rows for it.
STAGED_BY = {
    "insert_rows": "stage_rows",
    "ensure_sessions": "stage_events",
    "number_events": "stage_events",
    "insert_events": "stage_events",
    "refused_events": "stage_events",
}
SOME_ID = UUID(int=7)
OF_JOBS = (
    "begin_job", "cancel_job", "end_job", "hasten_job", "note_progress", "open_queue", "renew_job",
    "take_back",
)  # fmt: skip
OF_KEYS = ("find_key", "insert_key", "list_keys", "revoke_key", "rotate_key")
LOGGED = {
    "at": "2026-02-01T00:00:00Z", "id": str(SOME_ID), "query_hash": "00" * 16, "k": 10,
    "scopes": ["docs"], "filtered": False, "next_page": False, "hit_count": 1, "abstained": False,
    "degraded": [], "profile_name": "default", "profile_version": 1, "took_ms": 5.0,
}  # fmt: skip
PARAMETERS: dict[str, Any] = {
    "after": 1,
    "agreement": 1.5,
    "transaction": "3",
    "max_bytes": 4_000_000,
    "lexical_mrr": 0.9,
    "embedder": "print",
    "save_check.questions": 64,
    "row_count": 100,
    "trust": 1.0,
    "body": Jsonb({"name": "default"}),
    "least_rows": 20,
    "sample_rows": 256,
    "stored_profiles.version": 2,
    "adopt_profile.version": 2,
    "by_itself": True,
    "find_profile.version": 2,
    "adr_date": None,
    "asked_in": Jsonb({}),
    "digits": ["3f2a"],
    "hit_count": 1,
    "kept_limit": 5_001,
    "nearest_chunk": SOME_ID,
    "nearest_score": 0.2,
    "normalised": "what is missing",
    "query": "What is missing?",
    "since": datetime(2026, 1, 1, tzinfo=UTC),
    "budget": Decimal(5),
    "characters": [10],
    "costs": [Decimal("0.1")],
    "difference": Decimal("-0.1"),
    "durations_ms": [1.5],
    "month": date(2026, 11, 1),
    "most": Decimal("0.2"),
    "role": "document",
    "texts": [1],
    "tokens": [3],
    "list_gaps.status": "open",
    "set_gap_status.status": "dismissed",
    "adr_number": 1,
    "adr_status": "accepted",
    "adr_superseded_by": None,
    "after_document": SOME_ID,
    "indexed_types": ["chat.message"],
    "title_type": "session.title",
    "types": ["chat.message"],
    "session": "s-1",
    "sessions": ["s-1"],
    "until": 9,
    "find_event.id": "e-1",
    "after_ordinal": 0,
    "blank": [SOME_ID],
    "checksum": "0" * 64,
    "content_hash": "hash",
    "depth": 200,
    "dimension": WIDTH,
    "embedding": HalfVector(query_vector()),
    "embeddings": [str([1.0] * WIDTH)],
    "finished": True,
    "first_project": LARGE,
    "fingerprint": "print",
    "form_nos": [0],
    "forms": ["ballast"],
    "golden_hash": "0" * 64,
    "golden_name": "g",
    "hashes": [bytes(32)],
    "id": SOME_ID,
    "ids": [SOME_ID],
    "key": 1,
    "keys": ["k-1"],
    "entities_after.key": "",
    "find_entity.key": "k-1",
    "type": "faq",
    "kind": "file",
    "language": "en",
    "languages": ["en", "pt"],
    "limit": 100,
    "after_count": 1,
    "after_seen": datetime(2026, 1, 1, tzinfo=UTC),
    "before": 9,
    "entity_summaries.after": "k-1",
    "list_gaps.after": SOME_ID,
    "list_searches.before": SOME_ID,
    "before_at": datetime(2026, 3, 1, tzinfo=UTC),
    "slow_ms": 1.0,
    "only_degraded": False,
    "only_abstained": False,
    "new_key": bytes(32),
    "searches": Jsonb([LOGGED]),
    "session_states.after": "s-1",
    "stored_words.after": "a",
    "list_jobs.ids": [1],
    "list_jobs.states": ["queued"],
    "lost_s": 30.0,
    "in_s": 5.0,
    "kept_s": 86_400.0,
    "request": Jsonb({"path": "/r"}),
    "report": Jsonb({}),
    "error": Jsonb({"code": "NOT_FOUND", "message": "gone"}),
    "outcome": "done",
    "failures": 1,
    "done": 1,
    "total": 2,
    "queue": "lastro.index",
    "task": "lastro.index",
    "priority": 0,
    "lock": "project 1",
    "queueing_lock": "1 abc",
    "defer_job.kind": "index",
    "defer_job.key": "index /r",
    "waiting_job.key": "index /r",
    **{f"{name}.id": 1 for name in OF_JOBS},
    **{f"{name}.id": "0123456789ab" for name in OF_KEYS},
    "note_keys_used.ids": ["0123456789ab"],
    "insert_key.role": "viewer",
    "secret_hash": bytes(32),
    "label": "website",
    "expires_at": datetime(2027, 1, 1, tzinfo=UTC),
    "former_until": None,
    "membership": "MEMBER",
    "metadata": Jsonb({}),
    "model": "m",
    "name": "r",
    "number": 1,
    "place": "docs/a.md",
    "placed": True,
    "places": ["docs/7/107.md"],
    "project_id": LARGE,
    "prefix": "",
    "profile_name": "default",
    "projects": [LARGE],
    "questions": Jsonb([]),
    "ref": None,
    "revision": "abc",
    "root": "/r",
    "names": ["r"],
    "rules": Jsonb([{"name": "r", "weight": 0.5, "reason": "it suits"}]),
    "rows": Jsonb([{"id": str(SOME_ID)}]),
    "roots": ["/r"],
    "row_limit": 20_000,
    "scope": "docs",
    "shown_places": ["docs/a.md"],
    "skipped": Jsonb([]),
    "slug": "alpha",
    "source": "r",
    "space": 1,
    "starts": [str(SOME_ID)],
    "started_at": datetime(2026, 1, 1, tzinfo=UTC),
    "phase": "pre",
    "state": "complete",
    "status": "published",
    "table": "chunks",
    "title": "A",
    "version": "1",
    "word_nos": [0],
    # where the same name means another type
    "record_migration.version": 99,
    "golden_questions.version": 1,
    "keep_golden_questions.version": 1,
    "delete_golden_version.version": 1,
    "forget_embeddings.questions": 0,
    "set_active_embedder.id": "m",
    "record_switch.id": "m",
    "new": "print",
    "old": "other",
    "cache_embeddings.embeddings": [bytes(4 * WIDTH)],
}
SLOTS: dict[str, Composable] = {
    "coverage": SQL("ts_rank(search_vector, 'ballast'::tsquery)"),
    "length_ratio": SQL("length(search_vector) / 40.0"),
    "match": SQL("search_vector @@ 'ballast'::tsquery"),
    "columns": SQL("project_id, id, document_id, ordinal"),
    "cosine": SQL("1 - (embedding <=> %(embedding)s::halfvec)"),
    "embedding": SQL("embedding"),
    "fields": SQL("id, document_id"),
    "filter": SQL("project_id = %(project_id)s::bigint AND scope = 'docs'"),
    "gate": SQL("search_vector @@ 'ballast'::tsquery"),
    "lexical": SQL("ts_rank(search_vector, 'ballast'::tsquery)"),
    "order": SQL("document_id, ordinal"),
    "project_id": Literal(LARGE),
    "archived": Identifier("lastro", "chunks"),
    "matched": SQL("count(*) OVER ()"),
    "score": SQL("ts_rank(search_vector, 'ballast'::tsquery)"),
    "statement": Literal("SELECT search_vector FROM lastro.chunks"),
    "name": Identifier("scratch"),
    "table": Identifier("lastro", "projects"),
    "into": Identifier("lastro", "chunks"),
    "held": SQL("search_vector @@ 'ballast'::tsquery"),
}


@pytest.mark.parametrize(("file", "name"), [(f, n) for f, n in NAMES if n not in UTILITY])
def test_every_query_is_understood_as_the_role_that_runs_it(
    library: Database, library_url: str, file: str, name: str
) -> None:
    query = load_queries(file)[name]
    slots = set(re.findall(r"(?<![{%])\{(\w+)\}", query._obj))
    unknown = slots - SLOTS.keys()
    assert not unknown, f"say in SLOTS what stands for {unknown}"
    composed = query.format(**{slot: SLOTS[slot] for slot in slots})
    wanted = set(re.findall(r"%\((\w+)\)[sb]", composed.as_string()))
    missing = {key for key in wanted if key not in PARAMETERS and f"{name}.{key}" not in PARAMETERS}
    assert not missing, f"give a plausible value of {missing} in PARAMETERS"
    parameters = {key: PARAMETERS.get(f"{name}.{key}", PARAMETERS.get(key)) for key in wanted}
    if name in OWNERS:
        with connect(library_url) as connection:
            assert plan_of(connection, composed, parameters)
        return
    with library.transaction(projects=[LARGE]) as connection:
        if name in STAGED_BY:
            connection.execute(load_queries(file)[STAGED_BY[name]].format(**SLOTS))
        assert plan_of(connection, composed, parameters)


def test_only_known_statements_are_not_plannable() -> None:
    assert {name for _, name in NAMES if not plannable(name)} == UTILITY


def plannable(name: str) -> bool:
    (text,) = (load_queries(file)[name]._obj for file, known in NAMES if known == name)
    words = re.sub(r"--.*", "", text).split()
    return words[0] in {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}


def test_no_two_queries_have_one_name() -> None:
    names = [name for _, name in NAMES]
    assert sorted(names) == sorted(set(names))


def test_every_query_is_used_and_every_used_query_exists() -> None:
    used = {
        name for path in SOURCE.rglob("*.py") for name in used_queries(ast.parse(path.read_text()))
    }
    assert used == set(NAMES)


def test_each_file_of_queries_is_called_by_one_module_alone() -> None:
    callers = {
        (file, path.relative_to(SOURCE).as_posix())
        for path in SOURCE.rglob("*.py")
        for file, _ in used_queries(ast.parse(path.read_text()))
    }
    assert callers == {
        ("doctor", "store/doctor.py"),
        ("archive", "store/archive.py"),
        ("documents", "store/documents.py"),
        ("entities", "store/entities.py"),
        ("erasure", "store/erasure.py"),
        ("gaps", "store/gaps.py"),
        ("golden", "store/golden.py"),
        ("jobs", "store/jobs.py"),
        ("keys", "store/keys.py"),
        ("migrations", "db/migrate.py"),
        ("profiles", "store/profiles.py"),
        ("projects", "store/projects.py"),
        ("rules", "store/rules.py"),
        ("service", "store/service.py"),
        ("sessions", "store/sessions.py"),
        ("scratch", "db/scratch.py"),
        ("runs", "store/runs.py"),
        ("search", "store/search.py"),
        ("search_log", "store/search_log.py"),
        ("self_checks", "store/self_checks.py"),
        ("switch", "store/switch.py"),
        ("upgrade", "db/upgrade.py"),
        ("usage", "store/usage.py"),
        ("vectors", "store/vectors.py"),
        ("why", "store/why.py"),
        ("words", "store/words.py"),
    }


def used_queries(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """File and name of each query that a module names, in one of the three ways they are named.

    ``load_queries("file")["name"]``, ``queries = load_queries("file")`` then ``queries["name"]``,
    and ``_scalar(connection, "file", "name", ...)``; a name may be a variable of its function.
    """
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        known = {
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript):
                loaded = (
                    known.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
                )
                if isinstance(loaded, ast.Call) and is_call(loaded, "load_queries"):
                    for file in texts(loaded.args[0]):
                        for name in texts(node.slice, known):
                            yield file, name
            if isinstance(node, ast.Call) and is_call(node, "_scalar", arguments=3):
                yield from ((f, n) for f in texts(node.args[1]) for n in texts(node.args[2]))


def is_call(node: ast.Call, name: str, *, arguments: int = 1) -> bool:
    called = isinstance(node.func, ast.Name) and node.func.id == name
    return called and len(node.args) >= arguments


def texts(node: ast.expr, known: dict[str, ast.expr] | None = None) -> list[str]:
    """The texts that an expression can be; none for an argument of the function."""
    if isinstance(node, ast.Name):
        node = (known or {}).get(node.id, node)
    parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    constants = [part.value for part in parts if isinstance(part, ast.Constant)]
    return [constant for constant in constants if isinstance(constant, str)]
