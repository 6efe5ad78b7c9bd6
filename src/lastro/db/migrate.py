"""Forward-only migrations: plain files, checksummed, applied under one advisory lock."""

from collections.abc import Sequence

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from lastro.db.pool import connect, translated
from lastro.errors import DatabaseUnavailable, SchemaOutOfDate
from lastro.sql import Migration, load_migrations, load_queries

# Arbitrary, fixed: every process of every release takes the same lock.
_LOCK = 7_125_901_304
MIN_SERVER_VERSION = 150_000
MIN_VECTOR_VERSION = (0, 8)


def migrate(url: str) -> int:
    """Bring the schema at ``url`` up to this program's; returns the number of steps applied.

    Any number of processes may call it at once: one works, the others wait and find it done.
    Errors: SchemaOutOfDate where the schema is newer or was altered, DatabaseUnavailable where
    the role lacks rights, with the statements for an administrator; nothing is then created.
    """
    with connect(url) as connection, translated():
        connection.autocommit = True
        _require_server(connection)
        applied = _applied(connection)
        if _pending(applied):
            connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
            try:
                pending = _pending(_applied(connection))
                if pending:
                    _apply(connection, pending, first=not applied)
                return len(pending)
            finally:
                connection.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])
    return 0


def require_current(connection: Connection[TupleRow]) -> None:
    """Refuse a database whose schema is not exactly this program's.

    Errors: SchemaOutOfDate.
    """
    if _pending(_applied(connection)):
        raise SchemaOutOfDate(
            "this database's schema is not the one this release of Lastro works with",
            remedy="run `lastro init`, as the owner of the tables (LASTRO_ADMIN_DATABASE_URL)",
        )


def _applied(connection: Connection[TupleRow]) -> list[tuple[int, str]]:
    queries = load_queries("migrations")
    exists = connection.execute(queries["migrations_exist"]).fetchone()
    if exists is None or not exists[0]:
        return []
    return [(row[0], row[1]) for row in connection.execute(queries["applied_migrations"])]


def _pending(applied: Sequence[tuple[int, str]]) -> list[Migration]:
    known = load_migrations()
    if len(applied) > len(known):
        raise SchemaOutOfDate(
            f"this database's schema is at step {len(applied)}, newer than this release of "
            f"Lastro, which knows {len(known)}",
            remedy="install the newer release that migrated it",
        )
    for (version, checksum), migration in zip(applied, known, strict=False):
        if (version, checksum) != (migration.version, migration.checksum):
            raise SchemaOutOfDate(
                f"migration {migration.version:04} of this database is not the one this release "
                "carries (its checksum differs)",
                remedy="install the release that made this database, or index into a new one",
            )
    return list(known[len(applied) :])


def _apply(connection: Connection[TupleRow], steps: Sequence[Migration], *, first: bool) -> None:
    queries = load_queries("migrations")
    with connection.transaction():
        if first:
            _prepare(connection)
        for step in steps:
            connection.execute(step.text.encode())
            connection.execute(
                queries["record_migration"],
                {"version": step.version, "name": step.name, "checksum": step.checksum},
            )


def _prepare(connection: Connection[TupleRow]) -> None:
    """Check the rights that the first migration needs, then make the schema's own ledger."""
    queries = load_queries("migrations")
    row = connection.execute(queries["missing_rights"]).fetchone()
    assert row is not None
    database, role, can_create, vector_version, has_role, can_create_role, is_member = row
    _require_vector(vector_version)
    missing: list[str] = []
    if vector_version is None:
        try:
            with connection.transaction():
                connection.execute(queries["create_extension"])
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported) as error:
            if isinstance(error, psycopg.errors.FeatureNotSupported):
                raise DatabaseUnavailable(
                    "the extension pgvector is not installed on this PostgreSQL server",
                    remedy="install pgvector 0.8 or newer on the server (for Debian the package "
                    "postgresql-<version>-pgvector), then run `lastro init` again",
                ) from error
            missing.append("CREATE EXTENSION IF NOT EXISTS vector;")
    if not can_create:
        missing.append(f'GRANT CREATE ON DATABASE "{database}" TO "{role}";')
    if not has_role and not can_create_role:
        missing.append("CREATE ROLE lastro_app NOLOGIN;")
    if not (has_role and is_member) and not can_create_role:
        missing.append(f'GRANT lastro_app TO "{role}";')
    if missing:
        raise DatabaseUnavailable(
            f'the role "{role}" may not prepare the database "{database}"; nothing was created',
            remedy="an administrator must run, in this database: " + " ".join(missing),
        )
    connection.execute(queries["create_ledger"])


def _require_server(connection: Connection[TupleRow]) -> None:
    version = connection.info.server_version
    if version < MIN_SERVER_VERSION:
        raise DatabaseUnavailable(
            f"PostgreSQL {version // 10_000} is too old: Lastro needs 15 or newer",
            remedy="upgrade the server, or unset LASTRO_DATABASE_URL to use the embedded one",
        )


def _require_vector(version: str | None) -> None:
    if version is None:
        return
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < MIN_VECTOR_VERSION:
        raise DatabaseUnavailable(
            f"pgvector {version} is too old: Lastro needs 0.8 or newer",
            remedy="an administrator must install it and run ALTER EXTENSION vector UPDATE;",
        )
