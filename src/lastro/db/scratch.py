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
from lastro.db.pool import connect
from lastro.errors import DatabaseUnavailable
from lastro.sql import load_queries

# Arbitrary, fixed: makers of scratch databases beside one database take turns.
SCRATCH_LOCK = 7_125_901_305
PREFIX = "lastro_scratch_"


@contextmanager
def scratch_database(url: str) -> Generator[str]:
    """The owner's address of a new, migrated database on the server of ``url``; dropped at the end.

    Errors: DatabaseUnavailable where the user of ``url`` may not create databases.
    """
    name = PREFIX + secrets.token_hex(8)
    own = make_conninfo(url, dbname=name)
    with _making(url) as connection:
        _drop_abandoned(connection)
        _create(connection, name)
        guard = psycopg.connect(own, autocommit=True)
    try:
        with guard:
            migrate(own)
            yield own
    finally:
        guard.close()
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


@contextmanager
def _making(url: str) -> Generator[Connection[TupleRow]]:
    """The turn of this process; it ends with the connection."""
    with _owner(url) as connection:
        connection.execute(load_queries("scratch")["lock_scratch"], {"key": SCRATCH_LOCK})
        yield connection


def _drop_abandoned(connection: Connection[TupleRow]) -> None:
    queries = load_queries("scratch")
    for (name,) in connection.execute(queries["abandoned_scratch"]).fetchall():
        try:
            connection.execute(queries["drop_abandoned"].format(name=Identifier(name)))
        except errors.ObjectInUse:
            continue  # its maker, beside another database of this server, has just connected


def _create(connection: Connection[TupleRow], name: str) -> None:
    try:
        connection.execute(load_queries("scratch")["create_scratch"].format(name=Identifier(name)))
    except errors.InsufficientPrivilege as error:
        raise DatabaseUnavailable(
            "this database user may not make the scratch database that an evaluation needs",
            remedy="an administrator must run: ALTER ROLE this_user CREATEDB; or name a user that "
            "may in LASTRO_ADMIN_DATABASE_URL",
        ) from error
