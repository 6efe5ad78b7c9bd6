"""The wall between projects, on its own: no query needs its WHERE to see its own project alone.

Every query that reads or writes rows of projects is run without its conditions on the project, as
the application's role for one project. What it returns, and what it leaves behind, must be the
same whether another project has rows or not, and that project's rows must stay as they are.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pytest
from databases import address, create_database, drop_database, scratch_database
from pgvector.psycopg import register_vector
from psycopg.sql import SQL, Identifier
from rows import (
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
    insert,
)
from test_queries import NAMES, OWNERS, PARAMETERS, SLOTS, SOME_ID, STAGED_BY, UTILITY, WIDTH
from test_row_level_security import TABLES

from lastro import store
from lastro.config import load_settings
from lastro.db.app_role import APP_ROLE
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.migrate import migrate
from lastro.db.pool import Database, connect
from lastro.doctor import require_walls
from lastro.errors import ConfigError
from lastro.http.serving import serve
from lastro.sql import load_queries
from lastro.store import ActiveEmbedder

OURS, THEIRS = 1, 2
ENTRY = UUID(int=8)
# Conditions on the project, with whatever they compare it; the setting and the policy remain.
CONDITION = re.compile(
    r"(?:\w+\.)?project_id (?:=|<>) (?:%\(project_id\)s(?:::bigint)?|\w+\.project_id)"
    r"|(?:\w+\.)?project_id = ANY \(%\(projects\)s::bigint\[\]\)"
)
# What finds the rows of this file, by file of queries where a name means several things.
FOUND: Mapping[str, Any] = {
    "place": "docs/a.md",
    "places": ["docs/a.md"],
    "shown_places": ["docs/a.md"],
    "source": "r",
    "digits": ["0000"],
    "version": 1,
    "erasure.name": "g",
    "golden.name": "g",
    "profiles.name": "default",
    "profiles.version": 2,
    "words.keys": ["k8s"],
    "entities.key": "",
    "sessions.after": 0,
}
# Their result is the next number of a sequence, which no rollback takes back.
NUMBERED = {"defer_job"}


class Query(NamedTuple):
    file: str
    name: str
    text: SQL
    parameters: Mapping[str, Any]
    writes: bool


def walled_queries() -> Iterator[Query]:
    """Each query over rows of projects, without its conditions on the project."""
    relations = "|".join([*TABLES, "searchable"])
    slots = {**SLOTS, "filter": SQL("scope = 'docs'")}
    for file, name in NAMES:
        if name in UTILITY or name in OWNERS or name in STAGED_BY:
            continue
        text = load_queries(file)[name].format(**slots).as_string()
        if re.search(rf"lastro\.(?:{relations})\b", text) is None:
            continue
        bare = CONDITION.sub("TRUE", text)
        wanted = set(re.findall(r"%\((\w+)\)[sb]", bare))
        parameters = {key: plausible(file, name, key) for key in wanted}
        writes = re.search(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) lastro\.", bare) is not None
        yield Query(file, name, SQL(bare), parameters, writes)


def plausible(file: str, name: str, key: str) -> Any:
    """A value of a parameter: one that finds a row here, else what any query is tried with."""
    for source, called in (
        (FOUND, f"{file}.{key}"), (PARAMETERS, f"{name}.{key}"), (FOUND, key), (PARAMETERS, key),
    ):  # fmt: skip
        if called in source:
            return source[called]
    raise KeyError(f"{file}.{name}: {key}")


QUERIES = list(walled_queries())


def fill(connection: psycopg.Connection, project_id: int) -> None:
    """A row in every table: the same keys in both projects, and other words."""
    words = f"words of {project_id} ballast"
    vector = str([1.0, float(project_id), *[0.0] * (WIDTH - 2)])
    add_document(connection, project_id, id=SOME_ID, source="r", place="docs/a.md", title=words,
                 state="incomplete")  # fmt: skip
    add_chunk(connection, project_id, words, document_id=SOME_ID, id=SOME_ID, embedding=vector,
              embedding_model="m", embedding_version="1")  # fmt: skip
    add_document(connection, project_id, scope="entity", id=ENTRY, place="k-1", title=words)
    add_chunk(connection, project_id, words, scope="entity", document_id=ENTRY, id=ENTRY)
    insert(connection, "sources", {"project_id": project_id, "name": "r", "root": "/r"})
    add_statistics(connection, project_id)
    add_profile(connection, project_id)
    add_golden_set(connection, project_id)
    add_run(connection, project_id)
    add_rule(connection, project_id)
    add_word(connection, project_id)
    add_gap(connection, project_id, f"what is missing in {project_id}", id=SOME_ID)
    add_usage(connection, project_id)
    add_session(connection, project_id)
    add_job(connection, project_id)
    add_key(connection, project_id)
    add_search(connection, project_id)


@pytest.fixture(scope="module")
def walled(server_url: str, template: str) -> Iterator[psycopg.Connection]:
    """The owner of two projects' rows; nothing that a test does is committed."""
    with (
        scratch_database(server_url, template=template) as name,
        connect(address(server_url, dbname=name)) as connection,
    ):
        store.add_vector_column(connection, WIDTH)
        for project_id in (OURS, THEIRS):
            assert add_project(connection, f"project {project_id}") == project_id
            fill(connection, project_id)
        other = ActiveEmbedder(id="n", version="1", dimension=WIDTH, fingerprint="other")
        store.begin_switch(connection, other)
        connection.commit()
        register_vector(connection)
        yield connection
        connection.rollback()


@contextmanager
def undone(connection: psycopg.Connection) -> Iterator[None]:
    with connection.transaction():
        yield
        raise psycopg.Rollback


STATE = SQL(" UNION ALL ").join(
    SQL("SELECT {}, project_id, to_jsonb(t)::text FROM {} AS t").format(
        table, Identifier("lastro", table)
    )
    for table in TABLES
)


class Seen(NamedTuple):
    """What a query returned, or the error that it met; then our rows, and theirs."""

    returned: object
    ours: list[tuple]
    theirs: list[tuple]


def seen(connection: psycopg.Connection, query: Query) -> Seen:
    """Run a query as the application for our project alone, look at what it did, and undo that."""
    with undone(connection):
        returned: object
        try:
            with connection.transaction():
                connection.execute(SQL("SET LOCAL ROLE {}").format(Identifier(APP_ROLE)))
                connection.execute(
                    "SELECT set_config('lastro.projects', %s, true)", [f"{{{OURS}}}"]
                )
                done = connection.execute(query.text, query.parameters)
                returned = sorted(map(repr, done)) if done.description else done.rowcount
                connection.execute("RESET ROLE")
        except psycopg.Error as error:
            returned = type(error).__name__
        rows = sorted(connection.execute(STATE).fetchall()) if query.writes else []
        return Seen(
            returned,
            [row for row in rows if row[1] == OURS],
            [row for row in rows if row[1] == THEIRS],
        )


def told_apart(connection: psycopg.Connection, queries: list[Query]) -> set[str]:
    """The queries that another project's rows make a difference to, or that change one of them."""
    rows = sorted(connection.execute(STATE).fetchall())
    theirs = [row for row in rows if row[1] == THEIRS]
    with_them = {query.name: seen(connection, query) for query in queries}
    with undone(connection):
        for table in reversed(TABLES):
            delete = SQL("DELETE FROM {} WHERE project_id = %s")
            connection.execute(delete.format(Identifier("lastro", table)), [THEIRS])
        without = {query.name: seen(connection, query) for query in queries}
    return {
        query.name
        for query in queries
        if (query.name not in NUMBERED and with_them[query.name][:2] != without[query.name][:2])
        or (query.writes and with_them[query.name].theirs != theirs)
    }


# --- every query without its WHERE


def test_what_a_query_sees_and_does_is_the_same_whether_another_project_has_rows(
    walled: psycopg.Connection,
) -> None:
    assert len(QUERIES) > 100
    assert told_apart(walled, QUERIES) == set()


@pytest.mark.parametrize("table", TABLES)
def test_without_its_policy_a_table_is_seen_to_have_none(
    walled: psycopg.Connection, table: str
) -> None:
    queries = [q for q in QUERIES if re.search(rf"lastro\.{table}\b", q.text.as_string())]
    with undone(walled):
        walled.execute(
            SQL("ALTER TABLE {} DISABLE ROW LEVEL SECURITY").format(Identifier("lastro", table))
        )
        assert told_apart(walled, queries)


def test_without_its_condition_the_view_of_searches_is_seen_to_have_none(
    walled: psycopg.Connection,
) -> None:
    queries = [query for query in QUERIES if "lastro.searchable" in query.text.as_string()]
    row = walled.execute("SELECT pg_get_viewdef('lastro.searchable'::regclass)").fetchone()
    assert row is not None
    without, condition, _ = row[0].partition(" AND (project_id = ANY")
    assert condition
    with undone(walled):
        walled.execute(f"CREATE OR REPLACE VIEW lastro.searchable AS {without})".encode())
        assert told_apart(walled, queries)


# --- the role that a service works as


@pytest.fixture(scope="module")
def private_walls(private_server: EmbeddedPostgres) -> Iterator[str]:
    """A migrated database of a server whose roles no other test uses now."""
    cluster = private_server.start()
    with psycopg.connect(cluster, autocommit=True) as server:
        create_database(server, "walls")
    url = address(cluster, dbname="walls")
    migrate(url)
    yield url
    with psycopg.connect(cluster, autocommit=True) as server:
        drop_database(server, "walls")
        server.execute(f"DROP ROLE {APP_ROLE}")


@contextmanager
def altered(url: str, statement: str, *, back: str) -> Iterator[Database]:
    """The application's connections after an administrator ran ``statement``."""
    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute(statement.encode())
        try:
            with Database(url) as database:
                yield database
        finally:
            administrator.execute(back.encode())


@pytest.mark.parametrize(
    ("statement", "back", "message"),
    [
        ("ALTER ROLE lastro_app SUPERUSER", "ALTER ROLE lastro_app NOSUPERUSER",
         "lastro_app is a superuser"),
        ("ALTER ROLE lastro_app BYPASSRLS", "ALTER ROLE lastro_app NOBYPASSRLS",
         "lastro_app bypasses row-level security"),
        ("ALTER TABLE lastro.words OWNER TO lastro_app",
         "ALTER TABLE lastro.words OWNER TO CURRENT_USER", "lastro_app owns "),
        ("CREATE ROLE keeper; ALTER TABLE lastro.words OWNER TO keeper; GRANT keeper TO lastro_app",
         "ALTER TABLE lastro.words OWNER TO CURRENT_USER; DROP ROLE keeper",
         "lastro_app has the rights of keeper, who owns tables"),
        ("ALTER TABLE lastro.gaps DISABLE ROW LEVEL SECURITY",
         "ALTER TABLE lastro.gaps ENABLE ROW LEVEL SECURITY", "without policy: gaps"),
    ],
    ids=["superuser", "bypass", "owner", "owner's rights", "no policy"],
)  # fmt: skip
def test_a_service_refuses_a_role_that_the_wall_does_not_hold(
    private_walls: str, statement: str, back: str, message: str
) -> None:
    with altered(private_walls, statement, back=back) as database:
        with pytest.raises(ConfigError, match=message) as caught:
            require_walls(database, embedded=False)
        assert caught.value.remedy


def test_serving_ends_before_it_listens_where_the_wall_does_not_hold(
    private_walls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path))
    monkeypatch.setenv("LASTRO_DATABASE_URL", private_walls)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    bypass = "ALTER ROLE lastro_app {}BYPASSRLS"
    with (
        altered(private_walls, bypass.format(""), back=bypass.format("NO")),
        pytest.raises(ConfigError, match="does not keep projects apart"),
    ):
        serve(load_settings(), is_open=True, say=lambda _text: None)


@pytest.mark.parametrize(("embedded", "warned"), [(True, []), (False, ["role"])])
def test_a_service_takes_the_role_that_migrations_made(
    private_walls: str, embedded: bool, warned: list[str]
) -> None:
    with Database(private_walls) as database:
        told = require_walls(database, embedded=embedded)
    # on a server of one's own a superuser's login is worth a warning
    assert [check.name for check in told] == warned
