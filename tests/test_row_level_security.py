"""The second wall: what the application's role sees and writes when a query forgets its WHERE."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest
from databases import address, database_of, scratch_database
from psycopg import errors
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
)

from lastro.db.app_role import APP_ROLE
from lastro.db.pool import Database, connect
from lastro.errors import InvalidInput, SchemaOutOfDate
from lastro.store import add_vector_column

TABLES = (
    "sources",
    "documents",
    "embedding_usage",
    "embedding_spend",
    "chunks",
    "lexeme_stats",
    "corpus_stats",
    "golden_sets",
    "profiles",
    "profile_adoptions",
    "rules",
    "words",
    "gaps",
    "sessions",
    "events",
    "jobs",
    "api_keys",
    "search_log",
    "search_log_keys",
    "self_checks",
    "vector_scale",
    "evaluation_runs",
)
OURS, THEIRS = 1, 2


@pytest.fixture(scope="module")
def walled_url(server_url: str, template: str) -> Iterator[str]:
    """Two projects with a row in every table; tests commit nothing."""
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with connect(url) as connection:
            add_vector_column(connection, 4)
            for project_id in (OURS, THEIRS):
                assert add_project(connection, f"project {project_id}") == project_id
                fill(connection, project_id)
        yield url


def fill(connection: psycopg.Connection, project_id: int) -> None:
    add_chunk(connection, project_id, "words", embedding="[1,0,0,0]", embedding_model="m",
              embedding_version="1")  # fmt: skip
    connection.execute(
        "INSERT INTO lastro.sources (project_id, name, root) VALUES (%s, 'r', '/r')", [project_id]
    )
    add_statistics(connection, project_id)
    add_profile(connection, project_id)
    add_golden_set(connection, project_id)
    add_run(connection, project_id)
    add_rule(connection, project_id)
    add_word(connection, project_id)
    add_gap(connection, project_id)
    add_usage(connection, project_id)
    add_session(connection, project_id)
    add_job(connection, project_id)
    add_key(connection, project_id)
    add_search(connection, project_id)


@pytest.fixture
def app(walled_url: str) -> Iterator[psycopg.Connection]:
    """The application's role, which no setting tells yet what it may see; nothing is committed."""
    with psycopg.connect(walled_url) as connection:
        connection.execute(f"SET ROLE {APP_ROLE}")
        yield connection
        connection.rollback()


def show(connection: psycopg.Connection, projects: str) -> None:
    connection.execute("SELECT set_config('lastro.projects', %s, true)", [projects])


def owners(connection: psycopg.Connection, relation: str) -> list[int]:
    found = connection.execute(
        SQL("SELECT DISTINCT project_id FROM {} ORDER BY 1").format(Identifier("lastro", relation))
    )
    return [project_id for (project_id,) in found]


# --- reading


@pytest.mark.parametrize("relation", [*TABLES, "searchable"])
@pytest.mark.parametrize(
    ("projects", "seen"),
    [
        (None, []),
        ("", []),
        ("{}", []),
        ("{1}", [1]),
        ("{2}", [2]),
        ("{1,2}", [1, 2]),
        ("{3}", []),
        ("{NULL}", []),
    ],
)
def test_without_a_where_only_the_projects_of_the_setting_are_seen(
    app: psycopg.Connection, relation: str, projects: str | None, seen: list[int]
) -> None:
    if projects is not None:
        show(app, projects)
    assert owners(app, relation) == seen


def test_a_setting_that_is_no_list_shows_an_error_and_no_row(app: psycopg.Connection) -> None:
    show(app, "1")
    with pytest.raises(errors.InvalidTextRepresentation):
        owners(app, "chunks")


@pytest.mark.parametrize("relation", [*TABLES, "searchable"])
def test_row_security_cannot_be_switched_off_by_a_setting(
    app: psycopg.Connection, relation: str
) -> None:
    show(app, "{1}")
    app.execute("SET LOCAL row_security = off")
    if relation == "searchable":
        assert owners(app, relation) == [OURS]
        return
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        owners(app, relation)


@pytest.mark.parametrize("relation", TABLES)
def test_the_owner_sees_every_row(walled_url: str, relation: str) -> None:
    with psycopg.connect(walled_url) as connection:
        assert owners(connection, relation) == [OURS, THEIRS]


def test_the_names_of_projects_are_for_every_request(app: psycopg.Connection) -> None:
    assert app.execute("SELECT id FROM lastro.projects ORDER BY id").fetchall() == [(1,), (2,)]


def test_every_table_with_a_project_has_a_policy(walled_url: str) -> None:
    with psycopg.connect(walled_url) as connection:
        found = connection.execute(
            """
            SELECT c.relname, c.relrowsecurity, count(p.oid) > 0
            FROM pg_class AS c
            JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'project_id'
            LEFT JOIN pg_policy AS p ON p.polrelid = c.oid
            WHERE c.relnamespace = 'lastro'::regnamespace AND c.relkind IN ('r', 'p')
            GROUP BY c.oid ORDER BY c.relname
            """
        ).fetchall()
    assert found == [(name, True, True) for name in sorted(TABLES)]


# --- writing


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lastro.sources (project_id, name, root) VALUES (2, 'new', '/new')",
        "UPDATE lastro.sources SET project_id = 2",
        "UPDATE lastro.lexeme_stats SET project_id = 2, lexeme = 'new'",
        "UPDATE lastro.corpus_stats SET project_id = 2, language = 'pt'",
        "UPDATE lastro.documents SET project_id = 2, id = gen_random_uuid()",
        "UPDATE lastro.chunks SET project_id = 2, id = gen_random_uuid()",
        "UPDATE lastro.projects SET id = DEFAULT",
    ],
)
def test_a_row_cannot_be_put_into_a_project_that_is_not_visible(
    app: psycopg.Connection, statement: str
) -> None:
    show(app, "{1}")
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        app.execute(statement.encode())


@pytest.mark.parametrize("add", [add_document, add_chunk, add_statistics])
def test_nothing_can_be_written_into_another_project(
    app: psycopg.Connection, add: Callable[..., object]
) -> None:
    show(app, "{1}")
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        add(app, THEIRS)


@pytest.mark.parametrize("relation", TABLES)
def test_what_is_not_visible_is_neither_changed_nor_deleted(
    app: psycopg.Connection, relation: str
) -> None:
    show(app, "{1}")
    table = Identifier("lastro", relation)
    changed = app.execute(SQL("UPDATE {} SET project_id = project_id").format(table))
    assert changed.rowcount == 1
    deleted = app.execute(SQL("DELETE FROM {}").format(table))
    assert deleted.rowcount == 1


def test_a_project_that_is_not_visible_cannot_be_deleted_with_its_rows(
    app: psycopg.Connection,
) -> None:
    show(app, "{1}")
    assert app.execute("DELETE FROM lastro.projects").rowcount == 1
    assert app.execute("UPDATE lastro.projects SET name = 'mine'").rowcount == 0
    app.execute("RESET ROLE")
    assert owners(app, "chunks") == [THEIRS]


def test_the_application_makes_projects_of_its_own(app: psycopg.Connection) -> None:
    project_id = add_project(app, "new")
    show(app, f"{{{project_id}}}")
    add_chunk(app, project_id)
    assert owners(app, "searchable") == [project_id]


# --- what the role may never do

FORBIDDEN = [
    "CREATE TABLE lastro.mine (id bigint)",
    "CREATE FUNCTION lastro.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "ALTER FUNCTION lastro.text_vector STABLE",
    "CREATE OR REPLACE VIEW lastro.searchable AS SELECT * FROM lastro.chunks",
    "CREATE SCHEMA mine",
    "CREATE TABLE public.mine (id bigint)",
    "DROP POLICY chunks_project ON lastro.chunks",
    "ALTER POLICY chunks_project ON lastro.chunks USING (true)",
    "CREATE POLICY mine ON lastro.chunks USING (true)",
    "ALTER TABLE lastro.chunks DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE lastro.chunks ADD COLUMN mine text",
    "CREATE RULE mine AS ON INSERT TO lastro.chunks DO INSTEAD NOTHING",
    "CREATE INDEX mine ON lastro.chunks (id)",
    "TRUNCATE lastro.chunks CASCADE",
    "DROP TABLE lastro.chunks CASCADE",
    "DROP SCHEMA lastro CASCADE",
    "ALTER VIEW lastro.searchable OWNER TO lastro_app",
    "UPDATE lastro.searchable SET project_id = 1",
    "DELETE FROM lastro.searchable",
    "DELETE FROM lastro.migrations",
    "INSERT INTO lastro.migrations VALUES (2, 'mine', 'mine')",
    "INSERT INTO lastro.active_embedder VALUES (true, 'mine', '1', 4, 'f')",
    "UPDATE lastro.active_embedder SET id = 'mine'",
    "ALTER ROLE lastro_app BYPASSRLS",
    "ALTER ROLE lastro_app SUPERUSER",
    "CREATE ROLE mine",
    "SET session_replication_role = replica",
    "COPY lastro.chunks TO PROGRAM 'cat'",
    "COPY lastro.chunks TO '/nowhere/file'",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_application_s_role_may_not(app: psycopg.Connection, statement: str) -> None:
    show(app, "{1}")
    with pytest.raises(errors.InsufficientPrivilege):
        app.execute(statement.encode())


def test_the_application_s_role_passes_no_right_on(app: psycopg.Connection) -> None:
    query = "SELECT relacl::text FROM pg_class WHERE oid = 'lastro.chunks'::regclass"
    before = app.execute(query.encode()).fetchone()
    app.execute("GRANT SELECT ON lastro.chunks TO PUBLIC")  # a warning: nothing was granted
    assert app.execute(query.encode()).fetchone() == before


def test_the_role_has_no_power_of_its_own(app: psycopg.Connection) -> None:
    found = app.execute(
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication, rolcanlogin,"
        " EXISTS (SELECT FROM pg_auth_members WHERE member = r.oid)"
        " FROM pg_roles AS r WHERE rolname = %s",
        [APP_ROLE],
    )
    assert found.fetchone() == (False,) * 7


def test_the_role_owns_nothing(app: psycopg.Connection) -> None:
    found = app.execute(
        "SELECT classid::regclass, objid FROM pg_shdepend"
        " WHERE refobjid = %s::regrole AND deptype = 'o'",
        [APP_ROLE],
    )
    assert found.fetchall() == []


# --- through the pool


@pytest.fixture
def pool(walled_url: str) -> Iterator[Database]:
    """One connection, so that a transaction meets what the one before left behind."""
    with Database(walled_url, max_size=1) as database:
        yield database


def settings_of(connection: psycopg.Connection) -> tuple[str, str, str]:
    row = connection.execute(
        "SELECT coalesce(current_setting('lastro.projects', true), ''),"
        " current_setting('statement_timeout'), current_user::text"
    ).fetchone()
    assert row is not None
    return row


def test_a_transaction_works_as_the_application_s_role_with_its_settings(pool: Database) -> None:
    with pool.transaction(projects=[1, 2], settings={"statement_timeout": "7s"}) as connection:
        assert settings_of(connection) == ("{1,2}", "7s", APP_ROLE)


@pytest.mark.parametrize("fails", [False, True])
def test_no_setting_outlives_its_transaction(pool: Database, fails: bool) -> None:
    with (
        suppress(InvalidInput),
        pool.transaction(projects=[1], settings={"statement_timeout": "7s"}) as connection,
    ):
        assert owners(connection, "chunks") == [OURS]
        if fails:
            connection.execute("SELECT 1 / 0")
    with pool.session() as connection:
        assert settings_of(connection) == ("", "0", APP_ROLE)
        assert owners(connection, "chunks") == []
    with pool.transaction() as connection:
        assert owners(connection, "searchable") == []


# --- search paths


def test_a_database_s_own_search_path_does_not_decide_what_is_called(owner_url: str) -> None:
    with psycopg.connect(owner_url, autocommit=True) as connection:
        connection.execute(
            """
            CREATE SCHEMA hostile;
            GRANT USAGE ON SCHEMA hostile TO PUBLIC;
            CREATE FUNCTION hostile.set_config(text, text, boolean) RETURNS text
            LANGUAGE sql AS $$ SELECT pg_catalog.set_config('lastro.projects', '{1,2}', $3) $$
            """
        )
        connection.execute(
            SQL("ALTER DATABASE {} SET search_path = hostile, pg_catalog").format(
                Identifier(database_of(owner_url))
            )
        )
    with Database(owner_url) as database, database.transaction(projects=[1]) as connection:
        assert settings_of(connection)[0] == "{1}"


def test_pgvector_is_found_in_whatever_schema_it_lives(owner_url: str) -> None:
    with psycopg.connect(owner_url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "My Extensions"')
        connection.execute('GRANT USAGE ON SCHEMA "My Extensions" TO PUBLIC')
        connection.execute('ALTER EXTENSION vector SET SCHEMA "My Extensions"')
    with connect(owner_url) as connection:
        add_vector_column(connection, 4)
    with Database(owner_url) as database, database.transaction() as connection:
        found = connection.execute("SELECT '[1,0]'::halfvec <=> '[0,1]'::halfvec")
        assert found.fetchone() == (1.0,)


def test_a_database_without_pgvector_is_out_of_date(new_database: Callable[..., str]) -> None:
    with pytest.raises(SchemaOutOfDate, match="pgvector"), Database(new_database()):
        pass
