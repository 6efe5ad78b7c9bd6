"""Forward-only migrations: plain files, checksummed, applied under one advisory lock.

A ``pre`` step is safe while the former release serves, a ``post`` step is not: it, and all that
comes after it, waits until a migration is told to finish; see docs/adr/0041.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import psycopg
from psycopg import Connection, IsolationLevel
from psycopg.rows import TupleRow, class_row

from lastro.db.app_role import APP_ROLE
from lastro.db.pool import connect, set_local
from lastro.errors import Contention, DatabaseUnavailable, SchemaOutOfDate
from lastro.sql import Migration, Phase, load_migrations, load_queries

# Arbitrary, fixed: every process of every release takes the same lock.
SCHEMA_LOCK = 7_125_901_304
# What stands before the statements in a remedy.
ADMINISTRATOR_RUNS = "an administrator must run, in this database:"
# Who waits to alter a table stops all that come for it after him, so he waits for a moment only,
# lets them pass for another, and tries again: for two minutes in all.
LOCK_WAIT_S, LOCK_ATTEMPTS = 2.0, 30
MIN_SERVER_VERSION = 150_000
MIN_VECTOR_VERSION = (0, 8)


@dataclass(frozen=True, slots=True)
class _Applied:
    """A step that the ledger holds, which this program may not know."""

    version: int
    checksum: str
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """The step that a schema is at, the last one that this program knows, and how many steps of
    its own wait until the former release is gone.
    """

    at: int
    known: int
    waiting: int


def migrate(
    url: str,
    *,
    steps: Sequence[Migration] | None = None,
    finish: bool = True,
    lock_wait_s: float = LOCK_WAIT_S,
) -> int:
    """Bring the schema at ``url`` up to ``steps``; returns the number of steps applied.

    ``steps`` are this program's where none are given. Without ``finish`` it stops before the first
    ``post`` step, except on an empty database, which nobody serves. Any number of processes may
    call it at once: one works, the others wait and find it done. All or nothing is applied. A
    table that is in use is waited for in turns of ``lock_wait_s``, between which others pass.
    Errors: SchemaOutOfDate where the schema is newer or was altered, DatabaseUnavailable where
    the role lacks rights, with the statements for an administrator; nothing is then created.
    Contention where a table stays in use.
    """
    known = load_migrations() if steps is None else steps
    for _ in range(1, LOCK_ATTEMPTS):
        try:
            return _migrate(url, known, finish=finish, lock_wait_s=lock_wait_s)
        except Contention:
            time.sleep(lock_wait_s)
    return _migrate(url, known, finish=finish, lock_wait_s=lock_wait_s)


def _migrate(url: str, known: Sequence[Migration], *, finish: bool, lock_wait_s: float) -> int:
    with connect(url) as connection:
        _require_server(connection)
        if not _pending(_applied(connection), known, finish=finish):
            return 0
        connection.rollback()
        # Whatever the database's default: after the wait, what others did must be seen.
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        with connection.transaction():
            lock_schema(connection)
            applied = _applied(connection)
            pending = _pending(applied, known, finish=finish)
            if pending and not applied:
                _prepare(connection)
            if pending:
                set_local(connection, settings={"lock_timeout": f"{round(lock_wait_s * 1000)}ms"})
                connection.execute(load_queries("migrations")["add_phase"])
            for step in pending:
                _apply(connection, step)
        return len(pending)


def lock_schema(connection: Connection[TupleRow]) -> None:
    """Wait until no other process changes the schema; held until the transaction ends."""
    connection.execute(load_queries("migrations")["lock_schema"], {"key": SCHEMA_LOCK})


def require_current(connection: Connection[TupleRow]) -> SchemaState:
    """How far the schema is; refuse a database whose schema this program cannot work with.

    Its own ``post`` steps may wait, and a newer release's ``pre`` steps may be there already.
    Errors: SchemaOutOfDate.
    """
    known, applied = load_migrations(), _applied(connection)
    if _pending(applied, known, finish=False):
        raise SchemaOutOfDate(
            "this database's schema is not the one this release of Lastro works with",
            remedy="run `lastro init`, as the owner of the tables (LASTRO_ADMIN_DATABASE_URL)",
        )
    return _state(applied, known)


def schema_state(connection: Connection[TupleRow]) -> SchemaState:
    """How far the schema is. Errors: SchemaOutOfDate where it is not one of this program's."""
    return _state(_applied(connection), load_migrations())


def _state(applied: Sequence[_Applied], known: Sequence[Migration]) -> SchemaState:
    waiting = len(_pending(applied, known, finish=True))
    return SchemaState(at=len(applied), known=len(known), waiting=waiting)


def _applied(connection: Connection[TupleRow]) -> list[_Applied]:
    queries = load_queries("migrations")
    exists = connection.execute(queries["migrations_exist"]).fetchone()
    if exists is None or not exists[0]:
        return []
    return [_Applied(*row) for row in connection.execute(queries["applied_migrations"])]


def _pending(
    applied: Sequence[_Applied], known: Sequence[Migration], *, finish: bool
) -> Sequence[Migration]:
    """The steps to apply, in order. Errors: SchemaOutOfDate where this program cannot go on."""
    if any(step.phase == "post" for step in applied[len(known) :]):
        raise SchemaOutOfDate(
            f"this database's schema is at step {len(applied)}, newer than this release of "
            f"Lastro, which knows {len(known)}",
            remedy="install the newer release that migrated it",
        )
    for step, migration in zip(applied, known, strict=False):
        if (step.version, step.checksum) != (migration.version, migration.checksum):
            raise SchemaOutOfDate(
                f"migration {migration.version:04} of this database is not the one this release "
                "carries (its checksum differs)",
                remedy="install the release that made this database, or index into a new one",
            )
    pending = known[len(applied) :]
    if finish or not applied:
        return pending
    return list(takewhile(lambda step: step.phase == "pre", pending))


def _apply(connection: Connection[TupleRow], step: Migration) -> None:
    connection.execute(step.text.encode())
    connection.execute(
        load_queries("migrations")["record_migration"],
        {
            "version": step.version,
            "name": step.name,
            "checksum": step.checksum,
            "phase": step.phase,
        },
    )


def _prepare(connection: Connection[TupleRow]) -> None:
    """Check the rights that the first migration needs, then make the schema's own ledger."""
    queries = load_queries("migrations")
    # PostgreSQL 16 tells being a member from being allowed to SET ROLE; before, they were one.
    membership = "SET" if connection.info.server_version >= 160_000 else "MEMBER"
    with connection.cursor(row_factory=class_row(_Rights)) as cursor:
        rights = cursor.execute(queries["rights"], {"membership": membership}).fetchone()
    assert rights is not None
    if rights.encoding != "UTF8":
        raise DatabaseUnavailable(
            f"the database {rights.database} has the encoding {rights.encoding}; Lastro needs UTF8",
            remedy=f"CREATE DATABASE {rights.database} ENCODING 'UTF8' TEMPLATE template0;",
        )
    missing = [] if _create_extension(connection) else ["CREATE EXTENSION IF NOT EXISTS vector;"]
    missing += _missing_rights(rights)
    if missing:
        raise DatabaseUnavailable(
            f"the role {rights.role} may not prepare the database {rights.database}; "
            "nothing was created",
            remedy=f"{ADMINISTRATOR_RUNS} {' '.join(missing)}",
        )
    connection.execute(queries["create_ledger"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rights:
    """What a role may do in its database, and what is known of the application's role."""

    database: str
    role: str
    encoding: str
    may_create_schema: bool
    may_create_roles: bool
    app_role_exists: bool
    app_role_is_held_back: bool
    may_grant_app_role: bool
    may_act_as_app_role: bool


def _missing_rights(rights: _Rights) -> list[str]:
    """The statements that give ``rights`` what it lacks, for an administrator."""
    missing: list[str] = []
    if not rights.may_create_schema:
        missing.append(f"GRANT CREATE ON DATABASE {rights.database} TO {rights.role};")
    if not rights.app_role_exists:
        if rights.may_create_roles:
            return missing
        missing.append(f"CREATE ROLE {APP_ROLE} NOLOGIN;")
    elif not rights.app_role_is_held_back:
        missing.append(f"ALTER ROLE {APP_ROLE} NOSUPERUSER NOBYPASSRLS;")
    if not (rights.may_act_as_app_role or rights.may_grant_app_role):
        missing.append(f"GRANT {APP_ROLE} TO {rights.role};")
    return missing


def _create_extension(connection: Connection[TupleRow]) -> bool:
    """Whether pgvector is there now, because it was or because this role may create it."""
    queries = load_queries("migrations")
    try:
        with connection.transaction():
            connection.execute(queries["create_extension"])
    except psycopg.errors.InsufficientPrivilege:
        return False
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        raise DatabaseUnavailable(
            "the extension pgvector is not installed on this PostgreSQL server",
            remedy="install pgvector 0.8 or newer on the server (for Debian the package "
            "postgresql-<version>-pgvector), then run `lastro init` again",
        ) from error
    row = connection.execute(queries["vector_version"]).fetchone()
    assert row is not None
    _require_vector(row[0])
    return True


def _require_server(connection: Connection[TupleRow]) -> None:
    version = connection.info.server_version
    if version < MIN_SERVER_VERSION:
        raise DatabaseUnavailable(
            f"PostgreSQL {version // 10_000} is too old: Lastro needs 15 or newer",
            remedy="upgrade the server, or unset LASTRO_DATABASE_URL to use the embedded one",
        )


def _require_vector(version: str) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < MIN_VECTOR_VERSION:
        raise DatabaseUnavailable(
            f"pgvector {version} is too old: Lastro needs 0.8 or newer",
            remedy="an administrator must install it and run ALTER EXTENSION vector UPDATE;",
        )
