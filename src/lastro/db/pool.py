"""Connections: the pool, and the one place that sets per-transaction settings."""

import math
import selectors
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from pgvector.psycopg import register_vector
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.sql import SQL
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from lastro.db.addresses import is_address
from lastro.db.app_role import APP_ROLE
from lastro.db.translation import BE_OWNER, translated
from lastro.db.work import Work, current_work
from lastro.errors import Contention, DatabaseUnavailable, SchemaOutOfDate
from lastro.precedence import let_follow, niceness

AppConnection = Connection[TupleRow]
# Said each time: a server may have another default.
_READ_COMMITTED, _REPEATABLE_READ = SQL("READ COMMITTED"), SQL("REPEATABLE READ")
T = TypeVar("T")

# A setting of a transaction, in "250ms"; what stands here alone knows the form.
STATEMENT_TIMEOUT = "statement_timeout"
# Enough for a server far away; who waits longer waits for one that is not there.
CONNECT_TIMEOUT_S = 10
# As long as a statement of a search may take: by then a connection is free, or none will be.
POOL_TIMEOUT_S = 30.0
# Who waits so long for a connection asks once whether the server is there at all.
PATIENCE_S = 1.0
# A connection that cannot be made is given up after this; the next one who needs it begins anew.
# The pool waits twice as long from try to try, and would find a server back only minutes later.
RECONNECT_S = 3.0
# A tenth of PostgreSQL's usual max_connections, so that several processes fit beside each other.
POOL_MAX_SIZE = 10
# A connection that worked so lately is used again without asking the server whether it lives.
TRUSTED_S = 1.0
# A deadlock undoes one of its transactions and lets the other go on: mostly the second try works.
CONTENTION_ATTEMPTS = 5
CONTENTION_PAUSE_S = 0.05

# A generic plan ignores partial indexes, so a statement is planned with its values however often it
# is used. Prepared are only look-ups by key, which say so themselves (``prepare=True``). Under
# SQL_ASCII, the server's or the environment's, every text would come as bytes.
_CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "client_encoding": "UTF8",
    "connect_timeout": CONNECT_TIMEOUT_S,
    "prepare_threshold": sys.maxsize,
}
# The schema of pgvector's types and operators, and nothing else but PostgreSQL's own.
_FIND_VECTOR = """
    SELECT set_config('search_path', quote_ident(n.nspname) || ', pg_temp', false)
    FROM pg_catalog.pg_extension AS e
    JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector'
"""


class _Following(Connection[TupleRow]):
    """A connection that knows when it last did its work, and behind whom its server works."""

    used_at = -math.inf
    niceness = 0

    def follow(self) -> None:
        """Let the server's own process work behind others where this thread does."""
        if niceness() != self.niceness:
            self.niceness = let_follow(self.info.backend_pid, connection=self.fileno())


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUse:
    """Connections of a pool: all, those that work or are being made, and who waits for one."""

    size: int
    in_use: int
    waiting: int
    most: int


class Database:
    """A pool of connections that work as the application's role, under row-level security.

    Closing it ends every connection; use it as a context manager.
    """

    def __init__(
        self, url: str, *, max_size: int = POOL_MAX_SIZE, timeout_s: float = POOL_TIMEOUT_S
    ) -> None:
        self.url = url
        self._pool = ConnectionPool(
            _check_url(url),
            connection_class=_Following,
            min_size=0,
            max_size=max_size,
            open=False,
            timeout=timeout_s,
            reconnect_timeout=RECONNECT_S,
            kwargs=_CONNECTION,
            configure=_configure,
            check=_check,
        )

    def __enter__(self) -> "Database":
        """Open the pool. Errors: DatabaseUnavailable, SchemaOutOfDate, without waiting."""
        self._try_connection()
        self._pool.open()
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.close()

    @contextmanager
    def transaction(
        self,
        *,
        projects: Sequence[int] = (),
        settings: Mapping[str, str] | None = None,
        snapshot: bool = False,
    ) -> Generator[AppConnection]:
        """One transaction that sees only ``projects``, with ``settings`` for its length.

        With ``snapshot`` all its statements see the same rows: those of its first moment.
        Errors: DatabaseUnavailable, SchemaOutOfDate, Conflict or InvalidInput, by SQLSTATE;
        Contention, upon which ``retried`` runs the whole of it again.
        """
        local = _within_deadline({**(settings or {}), **_visible(projects)})
        begin = _begin(tuple(local.items()), snapshot=snapshot)
        with self.session() as connection:
            try:
                connection.execute(begin)
                yield connection
            except psycopg.Rollback:  # as within psycopg's own: undone, and no error
                connection.rollback()
            except BaseException:
                # A connection that was lost has nothing to undo.
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
            else:
                connection.commit()

    @contextmanager
    def session(self) -> Generator[AppConnection]:
        """A connection outside any transaction. Errors: as ``transaction``."""
        work = current_work()
        connection = self._lent(work)
        try:
            connection.follow()
            with (
                translated(url=self.url),
                nullcontext() if work is None else work.holding(connection),
            ):
                yield connection
            connection.used_at = time.monotonic()
        finally:
            self._pool.putconn(connection)

    def _lent(self, work: Work | None) -> _Following:
        """A connection of the pool, which waits for one and does not say why it has none."""
        limit_s = self._pool.timeout
        left_s = None if work is None else work.remaining_s()
        limit_s = limit_s if left_s is None else min(limit_s, left_s)
        first_s = min(PATIENCE_S, limit_s)
        try:
            return self._pool.getconn(first_s)
        except PoolClosed as error:
            raise DatabaseUnavailable(
                "the connections of this process are closed", remedy="open the database again"
            ) from error
        except PoolTimeout:
            self._try_connection()
        try:
            return self._pool.getconn(max(limit_s - first_s, 0.001))
        except PoolTimeout as error:
            if work is not None:
                work.remaining_s()
            raise DatabaseUnavailable(
                f"all {self._pool.max_size} connections of this process stayed in use for "
                f"{limit_s:g} s",
                remedy="try again when it has less to do",
            ) from error

    def use(self) -> PoolUse:
        """How many connections there are now, and who uses or awaits them."""
        found = self._pool.get_stats()
        size = found["pool_size"]
        return PoolUse(
            size=size,
            in_use=max(size - found["pool_available"], 0),
            waiting=found["requests_waiting"],
            most=self._pool.max_size,
        )

    @contextmanager
    def reserved(self) -> Generator[AppConnection]:
        """A connection beside the pool, for a lock that is held or waited for as long as a run.

        Taken from the pool, as many runs as it has connections would wait for each other's.
        """
        work = current_work()
        with (
            translated(url=self.url),
            _Following.connect(self.url, **_CONNECTION) as connection,
            nullcontext() if work is None else work.holding(connection),
        ):
            connection.follow()
            _configure(connection)
            left_s = None if work is None else work.remaining_s()
            if left_s is not None:
                limit = f"{math.ceil(left_s * 1000)}ms"
                connection.execute(f"SELECT set_config('{STATEMENT_TIMEOUT}', %s, false)", [limit])
            yield connection

    def _try_connection(self) -> None:
        """Connect once outside the pool, which waits and retries but does not say why."""
        with translated(url=self.url), psycopg.connect(self.url, **_CONNECTION) as connection:
            _configure(connection)


def retried(work: Callable[[], T]) -> T:
    """Do ``work``, a whole transaction, again where another was in its way; a few times at most.

    Errors: Contention where that never ends.
    """
    for attempt in range(1, CONTENTION_ATTEMPTS):
        try:
            return work()
        except Contention:
            time.sleep(attempt * CONTENTION_PAUSE_S)
    return work()


@contextmanager
def savepoint(connection: AppConnection) -> Generator[None]:
    """A step of a transaction that may fail alone: it is undone, and the transaction goes on.

    Errors: as ``Database.transaction``, StatementTimeout among them.
    """
    with translated(), connection.transaction():
        yield


def _visible(projects: Sequence[int]) -> dict[str, str]:
    """The setting that makes the rows of ``projects`` visible, and no others."""
    return {"lastro.projects": "{" + ",".join(map(str, projects)) + "}"}


@lru_cache(maxsize=256)
def _begin(settings: tuple[tuple[str, str], ...], *, snapshot: bool) -> SQL:
    """What begins a transaction with ``settings``, in one round trip."""
    calls = [SQL("set_config({}, {}, true)").format(*setting) for setting in settings]
    level = _REPEATABLE_READ if snapshot else _READ_COMMITTED
    begin = SQL("BEGIN ISOLATION LEVEL {}; SELECT {}").format(level, SQL(", ").join(calls))
    return SQL(cast("LiteralString", begin.as_string(None)))


def _within_deadline(settings: Mapping[str, str]) -> Mapping[str, str]:
    """``settings``, with a statement's limit that ends no later than the work it is for."""
    work = current_work()
    left_s = None if work is None else work.remaining_s()
    if left_s is None:
        return settings
    left_ms = math.ceil(left_s * 10) * 100  # few different ones: each is a statement of its own
    said_ms = settings.get(STATEMENT_TIMEOUT, "").removesuffix("ms")
    least_ms = min(left_ms, int(said_ms)) if said_ms else left_ms
    return {**settings, STATEMENT_TIMEOUT: f"{least_ms}ms"}


def set_local(
    connection: AppConnection,
    *,
    projects: Sequence[int] | None = None,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Set the visible projects and other settings until the transaction ends, in one round trip."""
    values = dict(settings or {})
    if projects is not None:
        values |= _visible(projects)
    connection.execute(
        "SELECT set_config(s.name, s.value, true)"
        " FROM unnest(%s::text[], %s::text[]) AS s (name, value)",
        [list(values), list(values.values())],
        prepare=True,
    )


@contextmanager
def connect(url: str, *, right_remedy: str = BE_OWNER) -> Generator[AppConnection]:
    """One plain connection as the user of ``url``, for migrations and other owner's work.

    It waits as long as that takes, and commits at the end; ``right_remedy`` cures a missing right.
    Errors: as ``Database.transaction``.
    """
    with (
        translated(right_remedy, url=_check_url(url)),
        _Following.connect(url, **_CONNECTION) as connection,
    ):
        connection.follow()
        connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        connection.execute(_FIND_VECTOR)
        connection.autocommit = False
        yield connection


def _check(connection: AppConnection) -> None:
    """Ask the server whether it is still there, unless it was lately and has said nothing since.

    A server that ends closes its connections, which shows without asking. Errors: psycopg's.
    """
    is_fresh = (
        isinstance(connection, _Following) and time.monotonic() - connection.used_at < TRUSTED_S
    )
    if not is_fresh or _has_news(connection):
        ConnectionPool.check_connection(connection)


def _has_news(connection: AppConnection) -> bool:
    with selectors.DefaultSelector() as selector:  # select() refuses descriptors above 1,023
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def _check_url(url: str) -> str:
    if not is_address(url):
        raise DatabaseUnavailable(
            "the database address is not understood",
            remedy="write LASTRO_DATABASE_URL as postgresql://user@host:port/database",
        )
    return url


def _configure(connection: AppConnection) -> None:
    """Become the application's role, and find pgvector whatever the user's search path.

    Times are read in UTC: elsewhere the first and last of them are in a year that Python lacks.
    """
    connection.execute(
        f"SET ROLE {APP_ROLE}; SET search_path = pg_catalog, pg_temp; SET timezone = 'UTC'"
    )
    if connection.execute(_FIND_VECTOR).fetchone() is None:
        raise SchemaOutOfDate(
            "the extension pgvector is not in this database", remedy="run `lastro init`"
        )
    register_vector(connection)
