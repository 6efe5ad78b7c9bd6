"""What the tables themselves hold and refuse, whatever a program sends."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import psycopg
import pytest
from databases import address, scratch_database
from procrastinate.schema import SchemaManager
from psycopg import errors
from rows import (
    ORIGINS,
    add_chunk,
    add_document,
    add_gap,
    add_golden_set,
    add_job,
    add_key,
    add_profile,
    add_project,
    add_rule,
    add_run,
    add_search,
    add_session,
    add_statistics,
    add_usage,
    add_word,
)

from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database, connect
from lastro.db.translation import CONSTRAINTS
from lastro.documents import FileIdentity, Pipeline, Prepared, prepare_file
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.errors import EmbedderMismatch
from lastro.sql import load_migrations
from lastro.store import add_vector_column, ensure_project, set_embeddings, vector_dimension
from lastro.writing import Writer

UNIT = "[1,0,0,0]"


@pytest.fixture(scope="module")
def schema_url(server_url: str, template: str) -> Iterator[str]:
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with connect(url) as connection:
            add_vector_column(connection, 4)
        yield url


@pytest.fixture
def schema(schema_url: str) -> Iterator[psycopg.Connection]:
    """The owner's connection to a schema with its vector column; nothing is committed."""
    with psycopg.connect(schema_url) as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def project(schema: psycopg.Connection) -> int:
    return add_project(schema, "alpha")


def value(connection: psycopg.Connection, query: str, *parameters: object) -> Any:
    row = connection.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return row[0]


# --- origin

ORIGIN_VALUES = {
    "source_path": "docs/a.md",
    "session_id": "s",
    "entity_key": "k",
    "event_id": "e",
    "entity_type": "faq",
    "heading_path": "{A}",
    "anchor": "a",
    "line_start": "1",
    "line_end": "1",
}
FILE = {"source_path", "heading_path", "line_start", "line_end"}
NEEDED = {
    "docs": FILE,
    "adr": FILE,
    "session": {"session_id", "event_id"},
    "entity": {"entity_key", "entity_type"},
}
OPTIONAL = {"docs": {"anchor"}, "adr": {"anchor"}, "session": set(), "entity": set()}

# Whether the table takes a chunk of that scope with those origin columns; it is not kept.
TAKES = """
CREATE FUNCTION pg_temp.takes(project bigint, document uuid, scope text, o jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    breached text;
BEGIN
    INSERT INTO lastro.chunks (
        project_id, id, document_id, ordinal, char_start, char_end, content, language, token_count,
        scope, source_path, session_id, entity_key, event_id, entity_type, heading_path, anchor,
        line_start, line_end
    )
    VALUES (
        project, gen_random_uuid(), document, 0, 0, 1, 'x', 'en', 1, scope, o->>'source_path',
        o->>'session_id', o->>'entity_key', o->>'event_id', o->>'entity_type',
        (o->>'heading_path')::text[], o->>'anchor', (o->>'line_start')::int, (o->>'line_end')::int
    );
    RAISE SQLSTATE 'LA001';
EXCEPTION
    WHEN SQLSTATE 'LA001' THEN RETURN true;
    WHEN check_violation THEN
        GET STACKED DIAGNOSTICS breached = CONSTRAINT_NAME;
        ASSERT breached = 'chunks_origin';
        RETURN false;
END
$$
"""


def test_the_table_takes_exactly_the_origins_that_belong_to_a_scope(
    schema: psycopg.Connection, project: int
) -> None:
    document = add_document(schema, project)
    schema.execute(TAKES.encode())
    taken = schema.execute(
        """
        WITH RECURSIVE origins (o, rest) AS (
            SELECT '{}'::jsonb, %(values)s::jsonb
            UNION ALL
            SELECT n.o, origins.rest - k.key
            FROM origins
            CROSS JOIN LATERAL (
                SELECT key, value FROM jsonb_each(origins.rest) ORDER BY key LIMIT 1
            ) AS k
            CROSS JOIN LATERAL (
                VALUES (origins.o), (origins.o || jsonb_build_object(k.key, k.value))
            ) AS n (o)
        )
        SELECT s.scope, ARRAY(SELECT jsonb_object_keys(o))
        FROM origins CROSS JOIN unnest(%(scopes)s::text[]) AS s (scope)
        WHERE rest = '{}' AND pg_temp.takes(%(project)s, %(document)s, s.scope, o)
        """,
        {
            "values": psycopg.types.json.Jsonb(ORIGIN_VALUES),
            "scopes": [*NEEDED, "other"],
            "project": project,
            "document": document,
        },
    ).fetchall()
    # 2 (file scopes) x 2 (with and without an anchor) + 1 session + 1 entity
    assert len(taken) == 6
    subsets = itertools.chain.from_iterable(
        itertools.combinations(ORIGIN_VALUES, size) for size in range(len(ORIGIN_VALUES) + 1)
    )
    expected = {
        (scope, frozenset(subset))
        for subset in subsets
        for scope in NEEDED
        if NEEDED[scope] <= set(subset) <= NEEDED[scope] | OPTIONAL[scope]
    }
    assert {(scope, frozenset(keys)) for scope, keys in taken} == expected


@pytest.mark.parametrize(
    ("scope", "column", "wrong"),
    [
        *(("docs", "source_path", blank) for blank in ("", None)),
        ("session", "session_id", ""),
        ("session", "event_id", ""),
        ("entity", "entity_key", ""),
        ("entity", "entity_type", ""),
        ("docs", "line_start", 0),
        ("docs", "line_start", 3),  # after line_end, which is 2
        ("adr", "line_end", 0),
    ],
)
def test_an_origin_with_a_senseless_value_is_refused(
    schema: psycopg.Connection, project: int, scope: str, column: str, wrong: object
) -> None:
    with pytest.raises(errors.CheckViolation, match="chunks_origin"):
        add_chunk(schema, project, scope=scope, **{column: wrong})


@pytest.mark.parametrize("scope", ORIGINS)
def test_every_scope_has_a_chunk_that_is_taken(
    schema: psycopg.Connection, project: int, scope: str
) -> None:
    add_chunk(schema, project, scope=scope)
    assert value(schema, "SELECT scope FROM lastro.chunks") == scope


# --- other checks


@pytest.mark.parametrize("language", ["", "e", "eng", "EN", "é!", "en\n", "en-US"])
def test_a_language_that_is_no_iso_code_is_refused(
    schema: psycopg.Connection, project: int, language: str
) -> None:
    with pytest.raises(errors.CheckViolation, match="chunks_language"):
        add_chunk(schema, project, language=language)


@pytest.mark.parametrize("status", ["", "Published", "deleted"])
def test_an_unknown_status_is_refused(
    schema: psycopg.Connection, project: int, status: str
) -> None:
    with pytest.raises(errors.CheckViolation, match="chunks_status"):
        add_chunk(schema, project, status=status)


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (1, 1), (2, 1)])
def test_an_empty_or_reversed_range_is_refused(
    schema: psycopg.Connection, project: int, start: int, end: int
) -> None:
    with pytest.raises(errors.CheckViolation, match="chunks_range"):
        add_chunk(schema, project, char_start=start, char_end=end)


@pytest.mark.parametrize(
    ("scope", "columns"),
    [
        ("docs", {"kind": "session", "source": None}),
        ("docs", {"kind": "entity", "source": None}),
        ("docs", {"source": None}),
        ("session", {"source": "repository"}),
        ("session", {"scope": "docs"}),
        ("entity", {"scope": "adr"}),
    ],
)
def test_a_document_of_a_kind_outside_its_scopes_is_refused(
    schema: psycopg.Connection, project: int, scope: str, columns: dict[str, Any]
) -> None:
    place = {"scope": scope, **columns}
    with pytest.raises(errors.CheckViolation, match="documents_scope"):
        add_document(
            schema,
            project,
            **{"kind": {"docs": "file"}.get(scope, scope), "source": "repository"} | place,
        )


@pytest.mark.parametrize("slug", ["", "x" * 201])
def test_a_project_needs_a_name_of_1_to_200_characters(
    schema: psycopg.Connection, slug: str
) -> None:
    with pytest.raises(errors.CheckViolation, match="projects_slug_form"):
        add_project(schema, slug)


def test_every_constraint_that_an_error_is_made_of_exists(schema: psycopg.Connection) -> None:
    found = schema.execute("SELECT conname FROM pg_constraint").fetchall()
    assert set(CONSTRAINTS) <= {name for (name,) in found}


# --- documents


def test_two_sources_of_a_project_may_hold_the_same_path(
    schema: psycopg.Connection, project: int
) -> None:
    add_document(schema, project, place="README.md", source="one")
    add_document(schema, project, place="README.md", source="two")
    assert value(schema, "SELECT count(*) FROM lastro.documents") == 2


@pytest.mark.parametrize("scope", ["docs", "session", "entity"])
def test_a_place_holds_one_document(schema: psycopg.Connection, project: int, scope: str) -> None:
    add_document(schema, project, scope=scope, place="here")
    with pytest.raises(errors.UniqueViolation, match="documents_place_key"):
        add_document(schema, project, scope=scope, place="here")


def test_deleting_a_document_deletes_its_chunks_alone(
    schema: psycopg.Connection, project: int
) -> None:
    gone, kept = add_document(schema, project), add_document(schema, project)
    add_chunk(schema, project, document_id=gone, ordinal=0)
    add_chunk(schema, project, document_id=gone, ordinal=1)
    stays = add_chunk(schema, project, document_id=kept)
    schema.execute("DELETE FROM lastro.documents WHERE id = %s", [gone])
    assert schema.execute("SELECT id FROM lastro.chunks").fetchall() == [(stays,)]


def test_deleting_a_project_deletes_every_row_of_it(
    schema: psycopg.Connection, project: int
) -> None:
    other = add_project(schema, "other")
    for owner in (project, other):
        add_chunk(schema, owner)
        schema.execute(
            "INSERT INTO lastro.sources (project_id, name, root) VALUES (%s, 'r', '/r')", [owner]
        )
        add_statistics(schema, owner)
        add_golden_set(schema, owner)
        add_run(schema, owner)
        add_gap(schema, owner)
        add_session(schema, owner)
        add_job(schema, owner)
        add_key(schema, owner)
        add_rule(schema, owner)
        add_word(schema, owner)
        add_usage(schema, owner)
        add_profile(schema, owner)
        add_search(schema, owner)
    schema.execute("DELETE FROM lastro.projects WHERE id = %s", [project])
    for table in tables_with_a_project(schema):
        owners = schema.execute(f"SELECT DISTINCT project_id FROM lastro.{table}".encode())
        assert (table, owners.fetchall()) == (table, [(other,)])


def tables_with_a_project(connection: psycopg.Connection) -> list[str]:
    found = connection.execute(
        "SELECT c.relname FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid"
        " WHERE a.attname = 'project_id' AND c.relkind = 'r'"
        " AND c.relnamespace = 'lastro'::regnamespace ORDER BY 1"
    )
    return [name for (name,) in found]


# --- lexical vector


def test_title_and_headings_weigh_a_and_text_d(schema: psycopg.Connection, project: int) -> None:
    add_chunk(schema, project, "ballast", title="reserve", heading_text="currency")
    assert value(schema, "SELECT search_vector::text FROM lastro.chunks") == (
        "'ballast':3 'currenc':2A 'reserv':1A"
    )


def test_an_update_of_the_text_moves_its_lexical_vector(
    schema: psycopg.Connection, project: int
) -> None:
    add_chunk(schema, project, "before")
    schema.execute("UPDATE lastro.chunks SET content = 'after', language = 'pt'")
    assert value(schema, "SELECT search_vector::text FROM lastro.chunks") == "'after':1"


def test_a_run_of_chinese_is_no_lexeme_and_parts_the_words_beside_it(
    schema: psycopg.Connection, project: int
) -> None:
    add_chunk(schema, project, "TiDB\u96c6\u7fa4 Backup\u5907\u4efd", language="zh")
    assert value(schema, "SELECT tsvector_to_array(search_vector) FROM lastro.chunks") == [
        "backup",
        "tidb",
    ]


@pytest.mark.parametrize(
    ("language", "word", "lexeme"),
    [
        ("en", "queues", "queue"),
        ("pt", "filas", "fil"),
        ("de", "Schlangen", "schlang"),
        ("zh", "queues", "queue"),
        ("xx", "queues", "queues"),  # no configuration: simple
    ],
)
def test_a_word_is_stemmed_in_the_language_of_its_row(
    schema: psycopg.Connection, language: str, word: str, lexeme: str
) -> None:
    assert value(
        schema, "SELECT tsvector_to_array(lastro.text_vector(%s, %s))", language, word
    ) == [lexeme]


def test_a_function_earlier_on_the_search_path_is_not_called(
    schema: psycopg.Connection, project: int
) -> None:
    schema.execute(
        """
        CREATE SCHEMA hostile;
        CREATE FUNCTION hostile.to_tsvector(regconfig, text) RETURNS tsvector
        LANGUAGE sql IMMUTABLE AS $$ SELECT 'stolen'::tsvector $$;
        CREATE FUNCTION hostile.setweight(tsvector, "char") RETURNS tsvector
        LANGUAGE sql IMMUTABLE AS $$ SELECT 'stolen'::tsvector $$;
        SET LOCAL search_path = hostile, pg_catalog;
        """
    )
    add_chunk(schema, project, "mine")
    assert value(schema, "SELECT search_vector::text FROM lastro.chunks") == "'mine':1"


# --- vectors


@pytest.mark.parametrize("given", list(itertools.product([True, False], repeat=3)))
def test_vector_model_and_version_are_there_together_or_not_at_all(
    schema: psycopg.Connection, project: int, given: tuple[bool, bool, bool]
) -> None:
    columns = {
        name: text if there else None
        for name, text, there in zip(
            ("embedding", "embedding_model", "embedding_version"),
            (UNIT, "model", "1"),
            given,
            strict=True,
        )
    }
    if len(set(given)) == 1:
        add_chunk(schema, project, **columns)
    else:
        with pytest.raises(errors.CheckViolation, match="chunks_embedding"):
            add_chunk(schema, project, **columns)


def test_before_the_first_vector_a_model_without_a_version_is_refused(
    owner: psycopg.Connection,
) -> None:
    project_id = add_project(owner, "alpha")
    with pytest.raises(errors.CheckViolation, match="chunks_embedding"):
        add_chunk(owner, project_id, embedding_model="model")


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param("[0,0,0,0]", id="zero"),
        pytest.param("[1e-9,0,0,0]", id="rounds to zero"),
        pytest.param("[NaN,0,0,0]", id="not a number"),
        pytest.param("[Infinity,0,0,0]", id="infinite"),
        pytest.param("[1e6,0,0,0]", id="beyond half precision"),
        pytest.param("[1,0,0]", id="too short"),
        pytest.param("[1,0,0,0,0]", id="too long"),
    ],
)
def test_a_vector_without_a_cosine_never_reaches_the_table(
    schema: psycopg.Connection, project: int, vector: str
) -> None:
    with pytest.raises((errors.DataError, errors.CheckViolation)):
        add_chunk(schema, project, embedding=vector, embedding_model="model", embedding_version="1")


def test_the_view_changes_by_the_vector_alone(
    schema: psycopg.Connection, owner: psycopg.Connection
) -> None:
    definition = "SELECT pg_get_viewdef('lastro.searchable'::regclass)"
    with_vector = value(schema, definition)
    assert with_vector.count("embedding_model,\n    embedding\n") == 1
    assert with_vector.replace("embedding_model,\n    embedding\n", "embedding_model\n") == value(
        owner, definition
    )


def test_the_view_that_searches_read_has_no_content(schema: psycopg.Connection) -> None:
    columns = schema.execute("SELECT * FROM lastro.searchable").description
    assert columns is not None
    assert not {"content", "context", "title", "heading_text"} & {c.name for c in columns}


def test_writers_that_bring_the_first_vector_at_once_leave_one_column(
    app_database: Database, owner_url: str, embedder: DeterministicEmbedder
) -> None:
    with app_database.transaction() as connection:
        project_id = ensure_project(connection, "alpha").id
    together = Barrier(4)

    def write(number: int) -> None:
        prepared = prepared_file(project_id, path=f"docs/{number}.md")
        together.wait()
        own = writer(app_database, owner_url, embedder)
        own.write([prepared], project_id=project_id, stale=())
        own.settle()

    with ThreadPoolExecutor() as threads:
        list(threads.map(write, range(4)))
    with app_database.transaction(projects=[project_id]) as connection:
        assert vector_dimension(connection) == embedder.dimension
        found = connection.execute("SELECT count(*), count(embedding) FROM lastro.chunks")
        assert found.fetchone() == (4, 4)


def test_another_embedder_s_first_vector_is_refused_once_there_is_one(
    app_database: Database, owner_url: str, embedder: DeterministicEmbedder
) -> None:
    with app_database.transaction() as connection:
        project_id = ensure_project(connection, "alpha").id
    late = writer(app_database, owner_url, Narrow())  # began before there was any vector
    first = writer(app_database, owner_url, embedder)
    first.write([prepared_file(project_id, path="docs/1.md")], project_id=project_id, stale=())
    first.settle()
    with pytest.raises(EmbedderMismatch, match="deterministic"):
        late.write([prepared_file(project_id, path="docs/2.md")], project_id=project_id, stale=())


class Narrow(DeterministicEmbedder):
    """The same words in other vectors, of two dimensions."""

    id = "narrow"
    dimension = 2

    def embed(self, texts, role):
        return np.tile(np.array([1.0, 0.0], dtype=np.float32), (len(texts), 1))


def writer(database: Database, admin_url: str, embedder: DeterministicEmbedder) -> Writer:
    return Writer(
        database=database,
        admin_url=admin_url,
        embedder=embedder,
        pipeline=Pipeline(chunking=ChunkSettings(), languages=("en",), embedder="any"),
    )


def prepared_file(project_id: int, *, path: str) -> Prepared:
    identity = FileIdentity(
        project_id=project_id,
        source="repository",
        path=path,
        scope="docs",
        revision=None,
        content_hash="hash",
    )
    pipeline = Pipeline(chunking=ChunkSettings(), languages=("en",), embedder="any")
    return prepare_file(f"# A page\n\nIts path is {path}.\n", identity, pipeline)


def test_the_words_of_a_batch_are_in_their_index_when_it_is_stored(
    app_database: Database, owner_url: str, owner: psycopg.Connection
) -> None:
    with app_database.transaction() as connection:
        project_id = ensure_project(connection, "alpha").id
    batch = [prepared_file(project_id, path=f"docs/{number}.md") for number in range(20)]
    own = writer(app_database, owner_url, DeterministicEmbedder())
    own.write(batch, project_id=project_id, stale=[])
    own.settle()
    # Row by row they took four times as long: they wait for each other, but for no later batch.
    options = "SELECT reloptions FROM pg_class WHERE relname = 'chunks_search_vector_idx'"
    assert value(owner, options) == ["fastupdate=on"]
    assert pages_of_waiting_words(owner) == 0


def test_the_words_of_rows_that_got_their_vector_later_are_in_their_index(
    app_database: Database, owner_url: str, owner: psycopg.Connection
) -> None:
    with app_database.transaction() as connection:
        project_id = ensure_project(connection, "alpha").id
    own = writer(app_database, owner_url, DeterministicEmbedder())
    prepared = prepared_file(project_id, path="docs/a.md")
    own.write([prepared], project_id=project_id, stale=[])
    own.settle()
    vector = np.ones(own.embedder.dimension, dtype=np.float32)
    with app_database.transaction(projects=[project_id]) as connection:
        done = [(chunk.id, vector) for chunk in prepared.chunks]
        set_embeddings(connection, done, project_id=project_id, model="a", version="1")
    assert pages_of_waiting_words(owner) == 0


def pages_of_waiting_words(owner: psycopg.Connection) -> int:
    return value(owner, "SELECT gin_clean_pending_list('lastro.chunks_search_vector_idx')")


# --- what Citus asks for


def test_every_key_begins_with_the_project(schema: psycopg.Connection) -> None:
    keys = schema.execute(
        """
        SELECT c.conname, a.attname
        FROM pg_constraint AS c
        JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.connamespace = 'lastro'::regnamespace AND c.contype IN ('p', 'u', 'f')
            AND c.conrelid IN (
                SELECT attrelid FROM pg_attribute WHERE attname = 'project_id'
            )
        """
    ).fetchall()
    assert {column for _, column in keys} == {"project_id"}


def test_there_is_no_trigger_but_those_of_foreign_keys_and_of_the_queue(
    schema: psycopg.Connection,
) -> None:
    own = schema.execute(
        "SELECT DISTINCT c.relnamespace::regnamespace::text FROM pg_trigger AS t"
        " JOIN pg_class AS c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal"
    ).fetchall()
    assert own == [("lastro_jobs",)]


def test_the_queue_is_as_the_installed_release_of_procrastinate_makes_it() -> None:
    shipped = SchemaManager.get_schema()
    (step,) = (step for step in load_migrations() if step.name == "jobs")
    assert shipped in step.text


def test_whatever_the_search_path_the_queues_functions_find_its_tables(
    schema: psycopg.Connection,
) -> None:
    found = schema.execute(
        "SELECT DISTINCT proconfig FROM pg_proc WHERE pronamespace = 'lastro_jobs'::regnamespace"
    ).fetchall()
    assert found == [(["search_path=lastro_jobs, pg_catalog, pg_temp"],)]


def test_no_extension_but_pgvector_is_needed(schema: psycopg.Connection) -> None:
    found = schema.execute("SELECT extname FROM pg_extension ORDER BY extname").fetchall()
    assert found == [("plpgsql",), ("vector",)]


# --- steps

# Those of the first release, before which nothing served.
WITHOUT_PHASE = 20


def test_every_later_step_says_whether_the_former_release_may_serve_beside_it() -> None:
    later = load_migrations()[WITHOUT_PHASE:]
    assert [step.name for step in later if "\n-- phase: " not in f"\n{step.text}"] == []
