"""Connections: the pool, the one place that sets per-transaction settings, error translation."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import psycopg
from pgvector.psycopg import register_vector
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from lastro.errors import (
    Conflict,
    DatabaseUnavailable,
    InvalidInput,
    LastroError,
    SchemaOutOfDate,
)

APP_ROLE = "lastro_app"
CONNECT_TIMEOUT_S = 10
POOL_TIMEOUT_S = 30.0
POOL_MAX_SIZE = 10

# Constraint -> what its breach means to a caller.
_CONSTRAINTS: Mapping[str, str] = {
    "projects_slug_key": "a project of this name exists already",
    "projects_slug_form": "a project's name must have 1 to 200 characters",
    "chunks_origin": "a chunk must come from exactly one of a file, a session or an entry",
}


class Database:
    """A pool of connections that work as the application's role, under row-level security.

    Closing it ends every connection; use it as a context manager.
    """

    def __init__(self, url: str, *, max_size: int = POOL_MAX_SIZE) -> None:
        self.url = url
        self._pool = ConnectionPool(
            _check_url(url),
            min_size=0,
            max_size=max_size,
            open=False,
            timeout=POOL_TIMEOUT_S,
            kwargs={"autocommit": True, "connect_timeout": CONNECT_TIMEOUT_S},
            configure=_configure,
            check=ConnectionPool.check_connection,
        )

    def __enter__(self) -> "Database":
        self._pool.open()
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.close()

    @contextmanager
    def transaction(
        self, *, projects: Sequence[int] = (), settings: Mapping[str, str] | None = None
    ) -> Generator[Connection[TupleRow]]:
        """One transaction that sees only ``projects``, with ``settings`` for its length.

        Errors: DatabaseUnavailable, SchemaOutOfDate, Conflict or InvalidInput, by SQLSTATE.
        """
        with translated(), self._pool.connection() as connection, connection.transaction():
            set_local(connection, projects=projects, settings=settings or {})
            yield connection

    @contextmanager
    def session(self) -> Generator[Connection[TupleRow]]:
        """A connection outside any transaction, for a lock that spans several."""
        with translated(), self._pool.connection() as connection:
            yield connection


def set_local(
    connection: Connection[TupleRow], *, projects: Sequence[int], settings: Mapping[str, str]
) -> None:
    """Set the visible projects and other settings until the transaction ends, in one round trip."""
    values = {"lastro.projects": "{" + ",".join(map(str, projects)) + "}", **settings}
    connection.execute(
        "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS s(name, value)",
        [list(values), list(values.values())],
    )


@contextmanager
def connect(url: str) -> Generator[Connection[TupleRow]]:
    """One plain connection as the user of ``url``, for migrations and other owner's work.

    Errors: DatabaseUnavailable.
    """
    with translated():
        connection = psycopg.connect(
            _check_url(url), connect_timeout=CONNECT_TIMEOUT_S, prepare_threshold=None
        )
    with connection:
        yield connection


def _check_url(url: str) -> str:
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise DatabaseUnavailable(
            "the database address is not understood",
            remedy="write LASTRO_DATABASE_URL as postgresql://user@host:port/database",
        ) from error
    return url


def _configure(connection: Connection[TupleRow]) -> None:
    # A generic plan ignores partial indexes: never prepare, always plan with the values.
    connection.prepare_threshold = None
    connection.execute(f"SET ROLE {APP_ROLE}")
    register_vector(connection)


@contextmanager
def translated() -> Generator[None]:
    """Turn psycopg's errors into Lastro's, by SQLSTATE and constraint name."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise translate(error) from error


def translate(error: psycopg.Error | PoolTimeout) -> LastroError:
    """The error of ours that ``error`` means."""
    if not isinstance(error, psycopg.Error) or isinstance(error, PoolTimeout):
        return _unreachable(error)
    state = error.sqlstate or ""
    constraint = error.diag.constraint_name or ""
    if constraint in _CONSTRAINTS:
        kind = Conflict if state == "23505" else InvalidInput
        return kind(_CONSTRAINTS[constraint])
    if state in {"3F000", "42P01", "42703", "42883"}:
        return SchemaOutOfDate(
            f"this database lacks a part of Lastro's schema ({_first_line(error)})",
            remedy="run `lastro init`",
        )
    if state in {"42501", "22023"} and "role" in str(error):
        return DatabaseUnavailable(
            f"this database user may not act as the role {APP_ROLE} ({_first_line(error)})",
            remedy=f"run `lastro init` as the owner, then GRANT {APP_ROLE} TO this user",
        )
    if not state or state[:2] in {"08", "28", "3D", "53", "57", "58"}:
        return _unreachable(error)
    return DatabaseUnavailable(f"PostgreSQL refused: {_first_line(error)} (SQLSTATE {state})")


def _unreachable(error: Exception) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"PostgreSQL cannot be reached: {_first_line(error)}",
        remedy="check `lastro db status`, or the address in LASTRO_DATABASE_URL",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
