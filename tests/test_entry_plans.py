"""Which indexes a search with a filter over entries uses, at both ends of what a filter keeps."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
import pytest
from databases import address, scratch_database
from numpy.typing import NDArray
from plans import Plan, explained, indexes, nodes, read_whole
from rows import add_project

from lastro import store
from lastro.db.app_role import APP_ROLE
from lastro.db.pool import AppConnection, Database, connect
from lastro.embedders import Role, fingerprint
from lastro.embedders.protocol import NO_PREFIXES
from lastro.entry_filter import parse_filter
from lastro.filters import HardFilter, compile_filter
from lastro.legs import EXACT_ROWS, HNSW_SETTINGS, SAMPLED_ROWS, run_vector_leg
from lastro.profiles import SHIPPED
from lastro.search import Engine, SearchRequest, search
from lastro.store import ActiveEmbedder

SHOP, WIDTH = 1, 8
ROWS = 8_000
# A thousandth, and all but a thousandth.
RARE = ROWS // 1_000

FILL_DOCUMENTS = """
INSERT INTO lastro.documents (
    project_id, id, kind, scope, place, title, language, content_hash, fingerprint, state
)
SELECT %(project)s, md5('d' || n)::uuid, 'entity', 'entity', 'k' || n, 'An entry', 'en', 'hash',
    'print', 'complete'
FROM generate_series(0, %(rows)s - 1) AS n;
"""
# Twenty words a row: half are one of 2,000, half one of 40; every 200th row holds "ballast".
FILL_CHUNKS = f"""
INSERT INTO lastro.chunks (
    project_id, id, document_id, ordinal, scope, entity_key, entity_type, attributes,
    char_start, char_end, language, token_count, content,
    embedding_model, embedding_version, embedding
)
SELECT
    %(project)s, md5('c' || n)::uuid, md5('d' || n)::uuid, 0, 'entity', 'k' || n,
    CASE WHEN n %% 1000 = 0 THEN 'rare' ELSE 'usual' END,
    jsonb_build_object(
        'tags', CASE WHEN n %% 1000 = 0 THEN '["rare", "any"]'::jsonb ELSE '["any"]'::jsonb END,
        'level', CASE WHEN n %% 1000 = 0 THEN 'top' ELSE 'ground' END,
        'number', n
    ),
    0, 1, 'en', 20,
    (
        SELECT string_agg('w' || abs(hashint4(n * 61 + i))
            %% CASE WHEN i %% 2 = 0 THEN 2000 ELSE 40 END, ' ')
        FROM generate_series(1, 20) AS i
    ) || CASE WHEN n %% 200 = 0 THEN ' ballast' ELSE '' END,
    'small', '1',
    (
        SELECT array_agg(sin(hashint4(n * 61 + i)))::real[]::halfvec
        FROM generate_series(1, {WIDTH}) AS i
    )
FROM generate_series(0, %(rows)s - 1) AS n;
"""


class Small:
    """Vectors of few dimensions, the same for every text."""

    id, version, dimension, max_chars = "small", "1", WIDTH, 1_000
    prefixes: Mapping[Role, str] = NO_PREFIXES

    def embed(self, texts: Any, role: Role) -> NDArray[np.float32]:
        return np.tile(np.eye(WIDTH, dtype=np.float32)[0], (len(texts), 1))


class Explained(Database):
    """A database that notes how PostgreSQL would do each statement that is sent to it."""

    plans: list[Plan]

    @contextmanager
    def session(self) -> Generator[AppConnection]:
        with super().session() as connection, explained(connection) as plans:
            yield connection
            self.plans += plans


@pytest.fixture(scope="module")
def shop_url(server_url: str, template: str) -> Iterator[str]:
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with connect(url) as connection:
            store.add_vector_column(connection, WIDTH)
            own = ActiveEmbedder(
                id="small", version="1", dimension=WIDTH, fingerprint=fingerprint(Small())
            )
            store.set_active_embedder(connection, own)
            assert add_project(connection, "shop") == SHOP
            for fill in (FILL_DOCUMENTS, FILL_CHUNKS):
                connection.execute(fill.encode(), {"project": SHOP, "rows": ROWS})
            store.refresh_statistics(connection, SHOP)
            store.add_vector_index(connection)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE) lastro.chunks, lastro.documents")
        yield url


def searched(url: str, filter_: Mapping[str, Any]) -> tuple[dict[str, Any], list[Plan]]:
    """What a search with a filter explains, and the plans that read chunks."""
    with Explained(url, max_size=1) as database:
        database.plans = []
        engine = Engine(database=database, embedder=Small(), profiles=SHIPPED, languages=("en",))
        request = SearchRequest(query="ballast w11", filter=filter_, explain=True)
        outcome = search(engine, request, project="shop")
    assert outcome.explain is not None
    reading = [
        plan
        for plan in database.plans
        if any(node.get("Relation Name") == "chunks" for node in nodes(plan))
    ]
    assert len(reading) >= 3  # both legs and the hits
    return outcome.explain, reading


RARE_FILTERS = {
    "require": ({"require": {"tags": "rare"}}, "chunks_attributes_idx"),
    "equals": ({"equals": {"level": ["top", "none"]}}, "chunks_attributes_idx"),
    "types": ({"types": ["rare"]}, "chunks_entity_type_idx"),
    "with others": (
        {"require": {"tags": ["any", "rare"]}, "forbid": {"level": "ground"}, "allow": {"x": 1}},
        "chunks_attributes_idx",
    ),
}


@pytest.mark.parametrize(("said", "index"), RARE_FILTERS.values(), ids=list(RARE_FILTERS))
def test_what_a_rare_value_keeps_is_found_by_its_index_and_nothing_is_read_whole(
    shop_url: str, said: dict[str, Any], index: str
) -> None:
    told, plans = searched(shop_url, said)
    assert (told["vector"], told["candidates"]) == ({"plan": "exact", "found": RARE}, RARE)
    assert [read_whole(plan) for plan in plans] == [set()] * len(plans)
    used = set().union(*map(indexes, plans))
    assert index in used
    assert "chunks_embedding_idx" not in used


BROAD_FILTERS: dict[str, dict[str, Any]] = {
    "forbid": {"forbid": {"tags": "rare"}},
    "require": {"require": {"tags": "any"}},
    "equals": {"equals": {"level": "ground"}},
    "types": {"types": ["usual", "new"]},
    "range": {"range": {"number": {"gte": RARE}}},
}


@pytest.mark.parametrize("said", BROAD_FILTERS.values(), ids=list(BROAD_FILTERS))
def test_where_a_filter_keeps_nearly_all_both_legs_go_through_the_indexes_of_published_rows(
    shop_url: str, said: dict[str, Any]
) -> None:
    told, plans = searched(shop_url, said)
    assert told["vector"]["plan"] == "hnsw"
    assert [read_whole(plan) for plan in plans] == [set()] * len(plans)
    used = {name for plan in plans for name in indexes(plan) if name.startswith("chunks_")}
    assert used == {"chunks_pkey", "chunks_search_vector_idx", "chunks_embedding_idx"}


def test_directly_after_the_nearest_entries_were_deleted_a_filter_still_gets_its_ten(
    shop_url: str,
) -> None:
    # No VACUUM can come between: the rows are dead to this transaction alone, and in the index.
    hard = HardFilter(project_id=SHOP, entries=parse_filter({"forbid": {"tags": "rare"}}))
    predicate, (vector,) = compile_filter(hard), Small().embed([""], "query")
    with (
        Database(shop_url) as database,
        database.transaction(projects=[SHOP], settings=HNSW_SETTINGS) as connection,
    ):
        near = store.vector_leg(connection, predicate, embedding=vector, depth=410, exact=True)
        gone = [row.document_id for row in near[:400]]
        store.delete_documents(connection, gone, project_id=SHOP)
        corpus = store.corpus(connection, SHOP)
        leg = run_vector_leg(connection, predicate, corpus=corpus, embedding=vector, depth=100)
        raise psycopg.Rollback
    assert leg.explain == {"plan": "hnsw", "found": 100}
    found = {row.id for row in leg.rows[:10]}
    assert len(found & {row.id for row in near[400:]}) >= 9


def test_it_is_seen_as_the_application_under_row_level_security(shop_url: str) -> None:
    with Database(shop_url) as database, database.transaction(projects=[SHOP]) as connection:
        row = connection.execute(
            "SELECT current_user, row_security_active('lastro.chunks')"
        ).fetchone()
    assert row == (APP_ROLE, True)


def test_a_sample_takes_published_rows_of_the_project_alone(shop_url: str) -> None:
    predicate = compile_filter(HardFilter(project_id=SHOP, scopes=("entity",)))
    with Database(shop_url) as database, database.transaction(projects=[SHOP]) as connection:
        connection.execute("UPDATE lastro.chunks SET status = 'draft' WHERE entity_type = 'usual'")
        assert store.kept_of_sample(connection, predicate, limit=SAMPLED_ROWS) == (RARE, RARE)
        raise psycopg.Rollback


def test_the_rows_of_this_file_are_too_many_to_be_read_one_by_one() -> None:
    assert ROWS * 9 // 10 > EXACT_ROWS > RARE


def test_attributes_stay_in_the_row_that_a_filter_reads(owner: psycopg.Connection) -> None:
    storage = owner.execute(
        "SELECT attstorage FROM pg_attribute"
        " WHERE attrelid = 'lastro.chunks'::regclass AND attname = 'attributes'"
    ).fetchone()
    assert storage is not None
    assert storage[0] in ("m", b"m")


@pytest.mark.parametrize(("limit", "plan"), [(RARE, "exact"), (RARE - 1, "exact"), (2, "hnsw")])
def test_where_a_sample_was_wrong_exact_search_stops_and_the_index_answers(
    shop_url: str, monkeypatch: pytest.MonkeyPatch, limit: int, plan: str
) -> None:
    monkeypatch.setattr("lastro.legs.exact_up_to", lambda _indexed, **_: limit)
    monkeypatch.setattr("lastro.legs.SAMPLED_ROWS", 0)  # of none, none is too many
    told, _ = searched(shop_url, {"types": ["rare"]})
    assert told["vector"] == {"plan": plan, "found": RARE}
