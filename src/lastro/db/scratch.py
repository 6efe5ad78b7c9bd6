"""Scratch databases: made beside the real one for one piece of work, and not left behind.

Whoever makes one stays connected to it. One that nobody is connected to belongs to a process that
was killed, and whoever makes the next one drops it.
"""

import secrets
from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg import Connection, errors
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg.sql import Identifier

from lastro.db.migrate import migrate
from lastro.db.pool import CONNECT_TIMEOUT_S, connect
from lastro.db.translation import translated
from lastro.errors import DatabaseUnavailable
from lastro.sql import load_queries

PREFIX = "lastro_scratch"


@contextmanager
def scratch_database(url: str) -> Generator[str]:
    """The owner's address of a new, migrated database on the server of ``url``; dropped at the end.

    Errors: DatabaseUnavailable where the user of ``url`` may not create databases.
    """
    with _owner(url) as connection:
        _drop_abandoned(connection)
        name = _create(connection)
    own = make_conninfo(url, dbname=name)
    try:
        with translated(), psycopg.connect(own, connect_timeout=CONNECT_TIMEOUT_S):
            migrate(own)
            yield own
    finally:
        with _owner(url) as connection:
            connection.execute(
                load_queries("scratch")["drop_scratch"].format(name=Identifier(name))
            )


def settle(url: str) -> None:
    """Bring a database that was just loaded to where autovacuum would bring it."""
    with _owner(url) as connection:
        connection.execute(load_queries("scratch")["settle"])


@contextmanager
def _owner(url: str) -> Generator[Connection[TupleRow]]:
    """A connection of the owner whose statements stand alone, as CREATE DATABASE wants it."""
    with connect(url) as connection:
        connection.autocommit = True
        yield connection


def _drop_abandoned(connection: Connection[TupleRow]) -> None:
    queries = load_queries("scratch")
    for (name,) in connection.execute(queries["abandoned_scratch"]).fetchall():
        try:
            connection.execute(queries["drop_abandoned"].format(name=Identifier(name)))
        except errors.ObjectInUse:
            continue  # somebody looks into it


def _create(connection: Connection[TupleRow]) -> str:
    queries = load_queries("scratch")
    now = connection.execute(queries["server_second"]).fetchone()
    assert now is not None
    name = f"{PREFIX}_{now[0]}_{secrets.token_hex(6)}"
    try:
        connection.execute(queries["create_scratch"].format(name=Identifier(name)))
    except errors.InsufficientPrivilege as error:
        raise DatabaseUnavailable(
            "this database user may not make the scratch database that this needs",
            remedy="an administrator must run: ALTER ROLE this_user CREATEDB; or name another "
            "user in LASTRO_ADMIN_DATABASE_URL",
        ) from error
    return name
