"""Connections: what a failure of PostgreSQL becomes, and what a pool survives."""

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from databases import address, create_database, database_of, drop_database
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier
from rows import add_chunk, add_project

from lastro.app import build
from lastro.config import Settings
from lastro.db import pool
from lastro.db.app_role import APP_ROLE
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.migrate import migrate
from lastro.db.pool import Database, connect
from lastro.errors import (
    Conflict,
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    SchemaOutOfDate,
    StatementTimeout,
)
from lastro.store import SelfCheck, add_vector_column, save_check

AT_ONCE_S = 5.0  # no waiting for a pool that never connects; a busy machine's patience
SECRET = "rosebud"


def opens(url: str) -> None:
    with Database(url):
        pass


def connects(url: str) -> None:
    with connect(url):
        pass


# --- no connection


@pytest.mark.parametrize("attempt", [opens, connects])
@pytest.mark.parametrize(
    "changes",
    [
        {"dbname": "no such database"},
        {"user": "nobody at all"},
        {"host": "/nowhere"},
        {"host": "127.0.0.1", "port": "1"},
    ],
)
def test_what_cannot_be_reached_is_an_error_with_a_remedy_at_once(
    server_url: str, attempt: Callable[[str], None], changes: dict[str, str]
) -> None:
    started = time.monotonic()
    with pytest.raises(DatabaseUnavailable, match="cannot be reached") as caught:
        attempt(address(server_url, **changes))
    assert "LASTRO_DATABASE_URL" in str(caught.value.remedy)
    assert time.monotonic() - started < AT_ONCE_S


@pytest.mark.parametrize("attempt", [opens, connects])
@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@host:port:1/db",
        f"host=h password={SECRET}' x",
        "nonsense",
        f"postgresql://u:{SECRET}@{'h' * 64}.example/db",  # no label of a host is so long
    ],
)
def test_an_address_that_is_not_understood_is_not_repeated(
    attempt: Callable[[str], None], url: str
) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        attempt(url)
    assert SECRET not in f"{caught.value.message} {caught.value.remedy}"


@pytest.fixture
def locked_role(cluster: str) -> Iterator[str]:
    """A role of ``cluster`` that must give a password."""
    with psycopg.connect(cluster, autocommit=True) as server:
        server.execute(f"CREATE ROLE locked LOGIN PASSWORD '{SECRET}'")
        row = server.execute("SHOW hba_file").fetchone()
        assert row is not None
        rules = Path(row[0])
        before = rules.read_text()
        rules.write_text(f"local all locked scram-sha-256\n{before}")
        server.execute("SELECT pg_reload_conf()")
        try:
            yield "locked"
        finally:
            rules.write_text(before)
            server.execute("SELECT pg_reload_conf()")
            server.execute("DROP ROLE locked")


def test_a_wrong_password_is_an_error_that_does_not_tell_the_password(
    cluster: str, locked_role: str
) -> None:
    right = address(cluster, user=locked_role, password=SECRET)
    psycopg.connect(right).close()
    wrong = address(cluster, user=locked_role, password=SECRET + "!")
    with pytest.raises(DatabaseUnavailable, match="password authentication failed") as caught:
        opens(wrong)
    assert SECRET not in f"{caught.value.message} {caught.value.remedy}"


def test_a_user_that_may_not_act_as_the_application_is_told_the_grant(
    cluster: str, private_url: str
) -> None:
    with psycopg.connect(cluster, autocommit=True) as server:
        server.execute("CREATE ROLE stranger LOGIN")
        try:
            with pytest.raises(DatabaseUnavailable, match="permission denied") as caught:
                opens(address(private_url, user="stranger"))
        finally:
            server.execute("DROP ROLE stranger")
    assert f"GRANT {APP_ROLE}" in str(caught.value.remedy)


def test_a_login_that_may_not_see_the_schema_is_told_the_grant(
    cluster: str, private_url: str, tmp_path: Path
) -> None:
    with psycopg.connect(cluster, autocommit=True) as server:
        server.execute("CREATE ROLE passer_by LOGIN")
        try:
            url = address(private_url, user="passer_by")
            with pytest.raises(DatabaseUnavailable, match="permission denied") as caught:
                build(Settings(home=tmp_path, database_url=url, embedder="deterministic"))
        finally:
            server.execute("DROP ROLE passer_by")
    assert f"GRANT {APP_ROLE}" in str(caught.value.remedy)


def test_text_is_text_whatever_encoding_the_user_s_environment_asks_for(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    with connect(server_url) as connection:
        assert connection.execute("SELECT 'né'::text").fetchone() == ("né",)


def test_a_server_that_never_saw_lastro_is_told_the_command(cluster: str) -> None:
    with pytest.raises(SchemaOutOfDate, match=APP_ROLE) as caught:
        opens(cluster)
    assert caught.value.remedy == "run `lastro init`"


def test_a_user_who_is_not_the_owner_is_told_the_setting_for_the_owner_s_address(
    cluster: str, private_url: str
) -> None:
    with psycopg.connect(cluster, autocommit=True) as server:
        server.execute(f"CREATE ROLE plain LOGIN IN ROLE {APP_ROLE}")
        try:
            with (
                pytest.raises(DatabaseUnavailable, match="permission denied") as caught,
                connect(address(private_url, user="plain")) as connection,
            ):
                add_vector_column(connection, 4)
        finally:
            server.execute("DROP ROLE plain")
    assert "LASTRO_ADMIN_DATABASE_URL" in str(caught.value.remedy)


# --- a server that goes away


@pytest.fixture
def private_url(cluster: str, private_server: EmbeddedPostgres) -> Iterator[str]:
    """A migrated database of the private server."""
    with psycopg.connect(cluster, autocommit=True) as server:
        create_database(server, "private")
    url = address(cluster, dbname="private")
    migrate(url)
    yield url
    private_server.start()
    with psycopg.connect(cluster, autocommit=True) as server:
        drop_database(server, "private")
        server.execute(f"DROP ROLE {APP_ROLE}")


def test_a_server_stopped_in_the_middle_is_an_error_of_the_transaction(
    private_url: str, private_server: EmbeddedPostgres
) -> None:
    def stop_between_two_statements(database: Database) -> None:
        with database.transaction() as connection:
            connection.execute("SELECT 1")
            private_server.stop()
            connection.execute("SELECT 1")

    with (
        Database(private_url) as database,
        pytest.raises(DatabaseUnavailable, match="cannot be reached"),
    ):
        stop_between_two_statements(database)


def test_a_pool_works_on_after_a_restart(
    private_url: str, private_server: EmbeddedPostgres
) -> None:
    with Database(private_url) as database:
        with database.transaction() as connection:
            connection.execute("SELECT 1")
        private_server.stop()
        private_server.start()
        with database.transaction() as connection:
            role = connection.execute("SELECT current_user::text").fetchone()
    assert role == (APP_ROLE,)


def test_a_connection_that_was_ended_a_moment_ago_is_replaced(
    owner_url: str, owner: psycopg.Connection
) -> None:
    with Database(owner_url, max_size=1) as database:
        with database.session() as connection:
            ended = connection.info.backend_pid
        owner.execute("SELECT pg_terminate_backend(%s, 5000)", [ended])
        with database.transaction() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(("trusted_s", "last"), [(60.0, "SELECT 7"), (0.0, "")])
def test_a_connection_that_worked_a_moment_ago_is_not_asked_whether_it_lives(
    owner_url: str,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    trusted_s: float,
    last: str,
) -> None:
    monkeypatch.setattr(pool, "TRUSTED_S", trusted_s)
    with Database(owner_url, max_size=1) as database:
        with database.session() as connection:
            connection.execute("SELECT 7")
        with database.session() as connection:
            row = owner.execute(
                "SELECT query FROM pg_stat_activity WHERE pid = %s", [connection.info.backend_pid]
            ).fetchone()
    assert row == (last,)  # the question is an empty statement


def test_a_process_with_many_open_files_uses_its_connections_again(owner_url: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2_048
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("so many files cannot be opened here")
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while stack.enter_context(Path("/dev/null").open()).fileno() < 1_100:
            pass
        with Database(owner_url, max_size=1, timeout_s=1.0) as database:
            for _ in range(2):
                with database.session() as connection:
                    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_while_the_server_is_away_a_pool_says_why_it_has_no_connection(
    private_url: str, private_server: EmbeddedPostgres
) -> None:
    with Database(private_url, timeout_s=0.2) as database:
        private_server.stop()
        with (
            pytest.raises(DatabaseUnavailable, match=r"cannot be reached: connection .*socket"),
            database.transaction(),
        ):
            pass


def test_a_pool_whose_connections_are_all_in_use_says_so(owner_url: str) -> None:
    with (
        Database(owner_url, max_size=1, timeout_s=1.0) as database,
        database.session(),
        pytest.raises(DatabaseUnavailable, match="all 1 connections"),
        database.session(),
    ):
        pass


# --- errors by what happened


def test_a_pool_that_was_closed_says_so(owner_url: str) -> None:
    database = Database(owner_url)
    with database:
        pass
    with pytest.raises(DatabaseUnavailable, match="are closed"), database.session():
        pass


def test_a_statement_beyond_its_time_is_stopped_and_the_connection_goes_on(
    owner_url: str,
) -> None:
    with Database(owner_url, max_size=1) as database:
        with (
            pytest.raises(StatementTimeout, match="statement timeout"),
            database.transaction(settings={"statement_timeout": "10ms"}) as connection,
        ):
            connection.execute("SELECT pg_sleep(5)")
        with database.transaction() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_lock_that_is_not_granted_in_time_asks_to_run_again(
    app_database: Database, owner: psycopg.Connection
) -> None:
    with owner.transaction():
        owner.execute("LOCK TABLE lastro.chunks")
        with (
            pytest.raises(DatabaseUnavailable) as caught,
            app_database.transaction(settings={"lock_timeout": "10ms"}) as connection,
        ):
            connection.execute("SELECT FROM lastro.chunks")
    assert caught.value.remedy == "run it again"


def test_of_two_transactions_in_a_deadlock_one_is_told_to_run_again(
    app_database: Database, owner: psycopg.Connection
) -> None:
    ids = [add_project(owner, slug) for slug in ("one", "two")]
    owner.execute(
        SQL("ALTER DATABASE {} SET deadlock_timeout = '20ms'").format(
            Identifier(database_of(app_database.url))
        )
    )
    both_hold_one = threading.Barrier(2)
    remedies: list[str | None] = []

    def rename(first: int, second: int) -> None:
        try:
            with app_database.transaction(projects=ids) as connection:
                connection.execute("UPDATE lastro.projects SET name = 'x' WHERE id = %s", [first])
                both_hold_one.wait()
                connection.execute("UPDATE lastro.projects SET name = 'x' WHERE id = %s", [second])
        except DatabaseUnavailable as error:
            remedies.append(error.remedy)

    threads = [threading.Thread(target=rename, args=pair) for pair in (ids, ids[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert remedies == ["run it again"]


def test_a_name_that_is_taken_is_a_conflict_in_our_words(
    app_database: Database, owner: psycopg.Connection
) -> None:
    add_project(owner, "alpha")
    with pytest.raises(Conflict) as caught, app_database.transaction() as connection:
        add_project(connection, "alpha")
    assert caught.value.message == "a project of this name exists already"


def test_any_other_unique_violation_is_a_conflict_too(
    app_database: Database, owner: psycopg.Connection
) -> None:
    project_id = add_project(owner, "alpha")
    with (
        pytest.raises(Conflict, match="lexeme_stats_pkey"),
        app_database.transaction(projects=[project_id]) as connection,
    ):
        connection.execute(
            "INSERT INTO lastro.lexeme_stats"
            " SELECT %s, 'en', 'word', df FROM unnest('{1,2}'::int[]) AS df",
            [project_id],
        )


def test_a_breach_of_a_check_is_invalid_input_in_our_words(app_database: Database) -> None:
    with (
        pytest.raises(InvalidInput, match="exactly one of a file, a session or an entry"),
        app_database.transaction(projects=[1]) as connection,
    ):
        add_chunk(connection, add_project(connection, "alpha"), session_id="also a session")


def test_a_note_about_a_project_that_was_erased_meanwhile_is_not_found(
    app_database: Database,
) -> None:
    check = SelfCheck(
        embedder="e", row_count=1, questions=0, agreement=None, lexical_mrr=None, trust=None
    )
    nobody = 7_000_000
    with (
        pytest.raises(NotFound, match="erased"),
        app_database.transaction(projects=[nobody]) as connection,
    ):
        save_check(connection, check, project_id=nobody)


@pytest.mark.parametrize(
    ("value", "reason"),
    [("a\0b", "NUL"), ("a\ud800b", "Unicode"), ("1e", "invalid input syntax")],
)
def test_a_value_that_postgresql_cannot_take_is_invalid_input(
    app_database: Database, value: str, reason: str
) -> None:
    with (
        pytest.raises(InvalidInput, match=reason),
        app_database.transaction() as connection,
    ):
        connection.execute("SELECT %s::text::bigint", [value])


def test_a_missing_table_is_a_schema_out_of_date(app_database: Database) -> None:
    with (
        pytest.raises(SchemaOutOfDate, match="from_the_future") as caught,
        app_database.transaction() as connection,
    ):
        connection.execute("SELECT FROM lastro.from_the_future")
    assert caught.value.remedy == "run `lastro init`"


# What the server says where either lacks; no disk is filled for it.
SHORTAGE = "DO $$ BEGIN RAISE EXCEPTION '{}' USING ERRCODE = 'disk_full'; END $$"


def test_a_full_disk_is_named_by_the_server_s_data_directory(
    app_database: Database, owner: psycopg.Connection
) -> None:
    shown = owner.execute("SHOW data_directory").fetchone()
    assert shown is not None
    said = SHORTAGE.format("could not extend file: No space left on device")
    with (
        pytest.raises(DatabaseUnavailable) as caught,
        app_database.transaction() as connection,
    ):
        connection.execute(said.encode())
    if conninfo_to_dict(app_database.url).get("host", "").startswith("/"):
        assert caught.value.message.startswith(f"the disk of {shown[0]} is full")
    assert "free some space there" in str(caught.value.remedy)


def test_too_little_shared_memory_is_not_taken_for_a_full_disk(owner_url: str) -> None:
    segment = 'could not resize shared memory segment "/PostgreSQL.7": No space left on device'
    with (
        pytest.raises(DatabaseUnavailable, match="too little shared memory") as caught,
        connect(owner_url) as connection,
    ):
        connection.execute(SHORTAGE.format(segment).encode())
    assert "--shm-size" in str(caught.value.remedy)


def test_a_misuse_of_the_driver_is_not_dressed_up(app_database: Database) -> None:
    with pytest.raises(psycopg.ProgrammingError), app_database.transaction() as connection:
        connection.execute("SELECT %s, %s", [1])


def test_an_error_of_the_caller_s_own_passes_and_undoes_the_transaction(
    app_database: Database, owner: psycopg.Connection
) -> None:
    with pytest.raises(KeyError), app_database.transaction() as connection:
        {}[add_project(connection, "alpha")]
    assert owner.execute("SELECT FROM lastro.projects").fetchall() == []


# --- the owner's connection


def test_the_owner_s_work_is_committed_at_the_end(
    owner_url: str, owner: psycopg.Connection
) -> None:
    with connect(owner_url) as connection:
        add_project(connection, "alpha")
        assert owner.execute("SELECT FROM lastro.projects").rowcount == 0
    assert owner.execute("SELECT FROM lastro.projects").rowcount == 1


def test_an_error_in_the_owner_s_work_is_ours_and_undoes_it(
    owner_url: str, owner: psycopg.Connection
) -> None:
    with pytest.raises(InvalidInput, match="division by zero"), connect(owner_url) as connection:
        connection.execute("SELECT 1 / %s", [add_project(connection, "alpha") * 0])
    assert owner.execute("SELECT FROM lastro.projects").rowcount == 0


def test_the_owner_s_work_is_not_cut_short_by_the_database_s_timeouts(
    owner_url: str, owner: psycopg.Connection
) -> None:
    owner.execute(
        SQL("ALTER DATABASE {} SET statement_timeout = '1ms'").format(
            Identifier(database_of(owner_url))
        )
    )
    with connect(owner_url) as connection:
        connection.execute("SELECT pg_sleep(0.05)")


# --- plans


@pytest.mark.parametrize("run", ["pool", "owner"])
def test_a_statement_is_prepared_where_it_asks_for_that_and_never_by_its_number_of_uses(
    app_database: Database, owner_url: str, run: str
) -> None:
    context = app_database.transaction() if run == "pool" else connect(owner_url)
    with context as connection:
        for number in range(20):
            connection.execute("SELECT %s::integer", [number])
        connection.execute("SELECT %s::bigint", [1], prepare=True)
        found = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert [text for (text,) in found if "set_config" not in text] == ["SELECT $1::bigint"]
