"""Migrations: one schema whoever makes it, and a clear stop where it cannot be made."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import locks
import psycopg
import pytest
from databases import address, create_database, database_of, drop_database
from psycopg.sql import SQL, Identifier, Literal
from rows import add_chunk, add_project

from lastro.db.binaries import find_binaries
from lastro.db.migrate import (
    ADMINISTRATOR_RUNS,
    SchemaState,
    lock_schema,
    migrate,
    require_current,
    schema_state,
)
from lastro.db.pool import Database, connect
from lastro.errors import DatabaseUnavailable, SchemaOutOfDate
from lastro.sql import Migration, Phase, load_migrations, phase_of
from lastro.store import add_vector_column

STEPS = load_migrations()
EXTENSION_CONTROL_PATH_SINCE = 180_000
SOON_S = 20.0

# One line of addresses, a tab between them: as many processes migrate, starting at one moment.
MIGRATE_TOGETHER = """
import os, sys, traceback
from lastro.db.migrate import migrate
for line in sys.stdin:
    gate, opened = os.pipe()
    children = []
    for url in line.rstrip().split("\\t"):
        child = os.fork()
        if child == 0:
            os.close(opened)
            os.read(gate, 1)  # until the parent opens it for all
            try:
                answer = str(migrate(url))
            except BaseException:
                answer = "failed"
                traceback.print_exc()
            os.write(1, (answer + " ").encode())
            os._exit(0)
        children.append(child)
    os.close(opened)
    for child in children:
        os.waitpid(child, 0)
    os.close(gate)
    os.write(1, b"\\n")
"""


def extra(version: int, text: str, *, phase: Phase = "pre") -> Migration:
    return Migration(version, f"extra_{version}", text, f"{version:064}", phase)


MigrateTogether = Callable[[Sequence[str]], list[str]]


@pytest.fixture(scope="module")
def migrate_together() -> Iterator[MigrateTogether]:
    """Steps that each of as many processes as addresses applied, in rising order."""
    command = [sys.executable, "-c", MIGRATE_TOGETHER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def together(urls: Sequence[str]) -> list[str]:
            stdin.write("\t".join(urls) + "\n")
            stdin.flush()
            return sorted(stdout.readline().split())

        yield together
        stdin.close()


def program(name: str, *arguments: str) -> str:
    """Output of one of PostgreSQL's programs."""
    command = [str(find_binaries(None) / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def schema_of(url: str) -> str:
    """Everything that pg_dump knows of a database but its rows."""
    dump = program("pg_dump", "--schema-only", "--dbname", url)
    # A random token, against rogue dumps, since the security release of August 2025.
    return "\n".join(line for line in dump.splitlines() if "restrict " not in line)


def run(url: str, *statements: str) -> list[tuple]:
    """The rows of the last of ``statements``, each its own transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = [connection.execute(statement.encode()) for statement in statements]
        return found[-1].fetchall() if found and found[-1].description else []


@pytest.fixture
def empty_url(new_database: Callable[..., str]) -> str:
    return new_database()


# --- one schema


def test_an_empty_database_gets_every_step(empty_url: str) -> None:
    assert migrate(empty_url) == len(STEPS)
    assert run(empty_url, "SELECT version, checksum FROM lastro.migrations ORDER BY version") == [
        (step.version, step.checksum) for step in STEPS
    ]


def test_a_second_migration_changes_nothing(owner_url: str) -> None:
    before = schema_of(owner_url)
    assert migrate(owner_url) == 0
    assert schema_of(owner_url) == before


def test_a_schema_migrated_step_by_step_equals_a_fresh_one(
    new_database: Callable[..., str], owner_url: str
) -> None:
    url = new_database()
    later = (*STEPS, extra(len(STEPS) + 1, "CREATE TABLE lastro.later (id bigint)"))
    for count in range(1, len(later) + 1):
        assert migrate(url, steps=later[:count]) == 1
    migrate(owner_url, steps=later)
    assert schema_of(url) == schema_of(owner_url)


def test_a_step_after_the_vector_column_equals_a_fresh_schema_with_the_column(
    new_database: Callable[..., str], owner_url: str
) -> None:
    early = new_database()
    for count in range(1, len(STEPS) + 1):
        migrate(early, steps=STEPS[:count])
        if count == 1:
            with connect(early) as connection:
                add_vector_column(connection, 8)
    with connect(owner_url) as connection:
        add_vector_column(connection, 8)
    assert schema_of(early) == schema_of(owner_url)


def test_steps_are_applied_all_or_none(empty_url: str) -> None:
    broken = extra(len(STEPS) + 1, "CREATE TABLE lastro.half (id bigint); SELECT 1 / 0")
    with pytest.raises(Exception, match="division by zero"):
        migrate(empty_url, steps=(*STEPS, broken))
    assert run(empty_url, "SELECT FROM pg_namespace WHERE nspname = 'lastro'") == []


def test_a_restored_dump_holds_the_same_schema_and_lexical_vectors(
    new_database: Callable[..., str], owner_url: str, tmp_path: Path
) -> None:
    words = "SELECT content, search_vector::text FROM lastro.chunks"
    with connect(owner_url) as connection:
        add_vector_column(connection, 4)
        add_chunk(connection, add_project(connection, "alpha"), "decisões de fila", language="pt")
    copy = new_database()
    file = str(tmp_path / "dump")
    program("pg_dump", "--format=custom", f"--file={file}", "--dbname", owner_url)
    program("pg_restore", "--exit-on-error", "--dbname", copy, file)
    assert schema_of(copy) == schema_of(owner_url)
    assert run(copy, words) == run(owner_url, words) == [("decisões de fila", "'decisõ':1 'fil':3")]
    assert migrate(copy) == 0


# --- a schema that is not ours


def test_a_changed_step_is_refused(owner_url: str) -> None:
    changed = (replace(STEPS[0], checksum="0" * 64), *STEPS[1:])
    with pytest.raises(SchemaOutOfDate, match=r"0001 .*checksum differs") as caught:
        migrate(owner_url, steps=changed)
    assert "release that made this database" in str(caught.value.remedy)


def test_a_missing_step_in_between_is_refused(owner_url: str) -> None:
    first = len(STEPS) + 1
    steps = (*STEPS, extra(first, "SELECT 1"), extra(first + 1, "SELECT 1"))
    migrate(owner_url, steps=steps)
    run(owner_url, f"DELETE FROM lastro.migrations WHERE version = {first}")
    with pytest.raises(SchemaOutOfDate, match=f"migration {first:04} of this database"):
        migrate(owner_url, steps=steps)


def test_a_newer_schema_is_refused_with_the_remedy(owner_url: str) -> None:
    migrate(owner_url, steps=(*STEPS, extra(len(STEPS) + 1, "SELECT 1", phase="post")))
    with pytest.raises(SchemaOutOfDate, match="newer than this release") as caught:
        migrate(owner_url)
    assert "install the newer release" in str(caught.value.remedy)


def test_a_program_refuses_an_empty_database_and_names_the_command(empty_url: str) -> None:
    with pytest.raises(SchemaOutOfDate) as caught, connect(empty_url) as connection:
        require_current(connection)
    assert "lastro init" in str(caught.value.remedy)


def test_the_application_s_role_can_tell_that_the_schema_is_current(app_database: Database) -> None:
    with app_database.session() as connection:
        require_current(connection)


# --- phases

LAST = len(STEPS)
ADDS = extra(LAST + 1, "CREATE TABLE lastro.later (id bigint)")
DROPS = extra(LAST + 2, "DROP TABLE lastro.later", phase="post")
NEXT = extra(LAST + 3, "CREATE TABLE lastro.last (id bigint)")


def current(url: str) -> SchemaState:
    """The state of a schema that this program can work with."""
    with connect(url) as connection:
        require_current(connection)
        return schema_state(connection)


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("-- What it is for.\n-- phase: post\nSELECT 1", "post"),
        ("-- phase: pre\nSELECT 1", "pre"),
        ("SELECT 1 -- phase: post", "pre"),  # no line of its own
    ],
)
def test_a_step_says_in_a_line_when_it_may_run(text: str, phase: Phase) -> None:
    assert phase_of(text) == phase


@pytest.mark.parametrize("text", ["-- phase: after", "-- phase:", "-- phase: pre\n-- phase: post"])
def test_a_step_that_says_it_wrongly_is_refused(text: str) -> None:
    with pytest.raises(AssertionError, match="phase"):
        phase_of(text)


def test_what_the_former_release_cannot_work_beside_waits_with_all_that_comes_after(
    owner_url: str,
) -> None:
    newer = (*STEPS, ADDS, DROPS, NEXT)
    assert migrate(owner_url, steps=newer, finish=False) == 1
    assert current(owner_url) == SchemaState(at=LAST + 1, known=LAST, waiting=0)
    assert migrate(owner_url, steps=newer, finish=False) == 0
    assert migrate(owner_url, steps=newer) == 2
    with pytest.raises(SchemaOutOfDate, match=f"step {LAST + 3}, newer"):
        current(owner_url)


def test_nothing_waits_in_a_database_that_nobody_serves(empty_url: str) -> None:
    newer = (*STEPS, ADDS, DROPS)
    assert migrate(empty_url, steps=newer, finish=False) == LAST + 2


def test_the_newer_release_works_while_its_last_steps_wait(
    owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = (*STEPS, ADDS, DROPS)
    migrate(owner_url, steps=newer, finish=False)
    monkeypatch.setattr("lastro.db.migrate.load_migrations", lambda: newer)
    assert current(owner_url) == SchemaState(at=LAST + 1, known=LAST + 2, waiting=1)


def test_a_newer_release_whose_first_steps_are_missing_does_not_work(
    owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastro.db.migrate.load_migrations", lambda: (*STEPS, ADDS, DROPS))
    with pytest.raises(SchemaOutOfDate, match="not the one this release"):
        current(owner_url)


def test_a_ledger_without_phases_gets_them_with_the_next_step(owner_url: str) -> None:
    fresh = schema_of(owner_url)
    run(owner_url, "ALTER TABLE lastro.migrations DROP COLUMN phase")
    assert current(owner_url).at == LAST
    migrate(owner_url, steps=(*STEPS, extra(LAST + 1, "SELECT 1")))
    assert schema_of(owner_url) == fresh


def test_who_waits_for_a_table_lets_others_pass_meanwhile(owner_url: str) -> None:
    alters = extra(LAST + 1, "ALTER TABLE lastro.gaps ADD COLUMN later text")
    with ThreadPoolExecutor(1) as thread, psycopg.connect(owner_url) as reader:
        reader.execute("SELECT FROM lastro.gaps")
        altered = thread.submit(migrate, owner_url, steps=(*STEPS, alters), lock_wait_s=0.1)
        with psycopg.connect(owner_url, autocommit=True) as watch:
            locks.wait_until(watch, locks.WAITED_FOR, there_are=1)
            # Behind a waiting ALTER TABLE; it gives up its place in time.
            watch.execute("SET statement_timeout = '15s'; SELECT FROM lastro.gaps")
        assert not altered.done()
        reader.rollback()
        assert altered.result(SOON_S) == 1


# --- several at once


def test_forty_processes_on_an_empty_database_leave_one_schema(
    empty_url: str, owner_url: str, migrate_together: MigrateTogether
) -> None:
    assert migrate_together([empty_url] * 40) == ["0"] * 39 + [str(len(STEPS))]
    assert schema_of(empty_url) == schema_of(owner_url)


def test_two_databases_migrated_at_once_share_one_new_role_in_each_of_five_rounds(
    cluster: str, migrate_together: MigrateTogether
) -> None:
    with psycopg.connect(cluster, autocommit=True) as server:
        for _ in range(5):
            urls = []
            for name in ("ours", "theirs"):
                create_database(server, name)
                urls.append(address(cluster, dbname=name))
            assert migrate_together(urls * 4) == ["0"] * 6 + [str(len(STEPS))] * 2
            forget(server, "ours", "theirs")


@pytest.fixture
def queue(empty_url: str) -> Iterator["Queue"]:
    """Migrations of ``empty_url`` waiting in the order they came, until ``open``."""
    with (
        ThreadPoolExecutor() as threads,
        psycopg.connect(empty_url) as gate,
        psycopg.connect(empty_url, autocommit=True) as watch,
    ):
        lock_schema(gate)
        yield Queue(empty_url, threads, gate=gate, watch=watch)


class Queue:
    def __init__(
        self,
        url: str,
        threads: ThreadPoolExecutor,
        *,
        gate: psycopg.Connection,
        watch: psycopg.Connection,
    ) -> None:
        self.url, self.threads, self.gate, self.watch = url, threads, gate, watch
        self.waiting = 0

    def add(self, steps: Sequence[Migration]) -> Future[int]:
        future = self.threads.submit(migrate, self.url, steps=steps)
        self.waiting += 1
        locks.wait_until(self.watch, locks.ADVISORY_WAITED_FOR, there_are=self.waiting)
        return future

    def open(self) -> None:
        self.gate.rollback()


def test_a_newer_release_that_waited_for_an_older_one_applies_the_rest(queue: Queue) -> None:
    newer = (*STEPS, extra(len(STEPS) + 1, "CREATE TABLE lastro.later (id bigint)"))
    older_did, newer_did = queue.add(STEPS), queue.add(newer)
    queue.open()
    assert (older_did.result(SOON_S), newer_did.result(SOON_S)) == (len(STEPS), 1)


def test_waiting_outlasts_the_database_s_own_timeouts_and_isolation(
    queue: Queue, empty_url: str
) -> None:
    name = database_of(empty_url)
    for setting, value in {
        "statement_timeout": "1ms",
        "lock_timeout": "1ms",
        "default_transaction_isolation": "serializable",
    }.items():
        queue.watch.execute(
            SQL("ALTER DATABASE {} SET {} = {}").format(
                Identifier(name), Identifier(setting), Literal(value)
            )
        )
    first, second = queue.add(STEPS), queue.add(STEPS)
    queue.open()
    assert (first.result(SOON_S), second.result(SOON_S)) == (len(STEPS), 0)


# --- a role with fewer rights, on a server that never saw Lastro


# Both need quotes, as the statements in a remedy must have them.
ROLE, DATABASE = 'Ana "A" Lima', "Base de Ana"
ANA, BASE = '"Ana ""A"" Lima"', '"Base de Ana"'


@pytest.fixture
def ana(cluster: str) -> Iterator[str]:
    """Address of an empty database as a plain login role."""
    with psycopg.connect(cluster, autocommit=True) as server:
        create_database(server, DATABASE)
        server.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(ROLE)))
        try:
            yield address(cluster, dbname=DATABASE, user=ROLE)
        finally:
            forget(server, DATABASE)
            server.execute(SQL("DROP ROLE {}").format(Identifier(ROLE)))


@pytest.fixture
def admin(cluster: str, ana: str) -> str:
    """Address of the same database as the server's administrator."""
    return address(cluster, dbname=DATABASE)


def forget(server: psycopg.Connection, *databases: str) -> None:
    for name in databases:
        drop_database(server, name)
    server.execute("DROP ROLE IF EXISTS lastro_app")


def created_in(url: str) -> list[tuple]:
    return run(
        url,
        "SELECT nspname FROM pg_namespace WHERE nspname = 'lastro'"
        " UNION ALL SELECT extname FROM pg_extension WHERE extname = 'vector'"
        " UNION ALL SELECT rolname FROM pg_roles WHERE rolname = 'lastro_app'",
    )


EXTENSION = "CREATE EXTENSION IF NOT EXISTS vector;"
CREATE = f"GRANT CREATE ON DATABASE {BASE} TO {ANA};"
APP = "CREATE ROLE lastro_app NOLOGIN;"
HOLD_BACK = "ALTER ROLE lastro_app NOSUPERUSER NOBYPASSRLS;"
MEMBER = f"GRANT lastro_app TO {ANA};"


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        pytest.param([], [EXTENSION, CREATE, APP, MEMBER], id="no right"),
        pytest.param([CREATE], [EXTENSION, APP, MEMBER], id="may create schemas"),
        pytest.param([APP], [EXTENSION, CREATE, MEMBER], id="role is there"),
        pytest.param([APP, MEMBER], [EXTENSION, CREATE], id="member"),
        pytest.param([CREATE, APP, MEMBER], [EXTENSION], id="extension alone"),
        pytest.param([EXTENSION, APP, MEMBER], [CREATE], id="schema alone"),
        pytest.param([CREATE, f"ALTER ROLE {ANA} CREATEROLE"], [EXTENSION], id="makes roles"),
        pytest.param(
            [EXTENSION, CREATE, APP, f"ALTER ROLE {ANA} CREATEROLE"], [MEMBER], id="another's role"
        ),
        pytest.param(
            [EXTENSION, CREATE, "CREATE ROLE lastro_app BYPASSRLS", MEMBER],
            [HOLD_BACK],
            id="role passes policies",
        ),
    ],
)
def test_missing_rights_stop_before_anything_is_created_with_statements_that_cure_it(
    ana: str, admin: str, given: list[str], asked: list[str]
) -> None:
    run(admin, *given)
    before = created_in(admin)
    with pytest.raises(DatabaseUnavailable, match="nothing was created") as caught:
        migrate(ana)
    assert created_in(admin) == before
    assert caught.value.remedy == f"{ADMINISTRATOR_RUNS} {' '.join(asked)}"
    run(admin, caught.value.remedy.removeprefix(ADMINISTRATOR_RUNS))
    assert migrate(ana) == len(STEPS)
    with Database(ana) as database, database.transaction() as connection:
        require_current(connection)


def test_an_owner_without_power_makes_the_same_walls(ana: str, admin: str) -> None:
    run(admin, EXTENSION, CREATE, APP, MEMBER)
    migrate(ana)
    with connect(ana) as connection:
        add_vector_column(connection, 4)
        ids = [add_project(connection, slug) for slug in ("ours", "theirs")]
        for project_id in ids:
            add_chunk(connection, project_id)
    with Database(ana) as database, database.transaction(projects=ids[:1]) as connection:
        for relation in ("chunks", "searchable"):
            seen = connection.execute(f"SELECT project_id FROM lastro.{relation}".encode())
            assert seen.fetchall() == [(ids[0],)]


def test_a_role_with_every_right_needs_no_administrator(
    ana: str, admin: str, extensions: Path
) -> None:
    control = extensions / "extension" / "vector.control"
    control.write_text(control.read_text() + "trusted = true\n")
    run(admin, CREATE, f"ALTER ROLE {ANA} CREATEROLE")
    look_for_extensions_in(admin, extensions)
    assert migrate(ana) == len(STEPS)


def test_a_server_without_pgvector_is_told_what_to_install(admin: str) -> None:
    look_for_extensions_in(admin, Path("/nowhere"))
    with pytest.raises(DatabaseUnavailable, match="pgvector is not installed") as caught:
        migrate(admin)
    assert "install pgvector 0.8 or newer" in str(caught.value.remedy)
    assert created_in(admin) == []


def test_a_pgvector_too_old_is_refused_before_anything_is_created(
    admin: str, extensions: Path
) -> None:
    folder = extensions / "extension"
    (script,) = folder.glob("vector--[0-9].[0-9].[0-9].sql")
    script.rename(folder / "vector--0.7.4.sql")
    control = folder / "vector.control"
    control.write_text(control.read_text() + "default_version = '0.7.4'\n")
    look_for_extensions_in(admin, extensions)
    with pytest.raises(DatabaseUnavailable, match=r"pgvector 0\.7\.4 is too old"):
        migrate(admin)
    assert created_in(admin) == []


@pytest.fixture
def extensions() -> Iterator[Path]:
    """A copy of pgvector's control file and scripts, for a test to change."""
    folder = Path(tempfile.mkdtemp(prefix="lastro-extensions-"))
    folder.chmod(0o755)
    shipped = find_binaries(None).parent / "share" / "postgresql" / "extension"
    (folder / "extension").mkdir(mode=0o755)
    for file in shipped.glob("vector*"):
        (folder / "extension" / file.name).write_bytes(file.read_bytes())
    yield folder
    shutil.rmtree(folder)


def look_for_extensions_in(admin: str, folder: Path) -> None:
    """What is not in ``folder`` is not installed, as far as this database can tell."""
    with psycopg.connect(admin, autocommit=True) as connection:
        if connection.info.server_version < EXTENSION_CONTROL_PATH_SINCE:
            pytest.skip("extension_control_path came with PostgreSQL 18")
        connection.execute(
            SQL("ALTER DATABASE {} SET extension_control_path = {}").format(
                Identifier(DATABASE), Literal(str(folder))
            )
        )


def test_a_database_in_another_encoding_is_refused(cluster: str) -> None:
    with psycopg.connect(cluster, autocommit=True) as server:
        server.execute(
            "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'"
            " LOCALE_PROVIDER libc LOCALE 'C'"
        )
        try:
            with pytest.raises(DatabaseUnavailable, match="encoding LATIN1") as caught:
                migrate(address(cluster, dbname="latin"))
        finally:
            drop_database(server, "latin")
    assert caught.value.remedy == "CREATE DATABASE latin ENCODING 'UTF8' TEMPLATE template0;"
