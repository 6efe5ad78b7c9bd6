"""Databases of the tests' server: a migrated template for the run, and clones of it."""

import contextlib
import itertools
import os
from collections.abc import Iterator

import psycopg
from postgres import RUN_VARIABLE
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from lastro.db.migrate import migrate

# Any fixed number: one worker makes the template, the others wait and find it.
TEMPLATE_LOCK = 4_110_002
_numbers = itertools.count(1)


def address(server_url: str, **changes: str) -> str:
    """``server_url`` with other connection parameters, such as dbname or user."""
    return make_conninfo(server_url, **changes)


def template_name() -> str:
    """The migrated template of this run."""
    return f"lastro_test_{os.environ[RUN_VARIABLE][:8]}"


def ensure_template(server_url: str) -> str:
    """Make the run's template where no other worker has, and return its name."""
    name = template_name()
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [TEMPLATE_LOCK])
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [name])
        if found.fetchone() is None:
            unfinished = f"{name}_unfinished"
            drop_database(connection, unfinished)
            connection.execute(SQL("CREATE DATABASE {}").format(Identifier(unfinished)))
            migrate(address(server_url, dbname=unfinished))
            connection.execute(
                SQL("ALTER DATABASE {} RENAME TO {}").format(
                    Identifier(unfinished), Identifier(name)
                )
            )
    return name


def drop_template(server_url: str) -> None:
    """Drop the run's template, on a server that outlives the run."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        drop_database(connection, template_name())


@contextlib.contextmanager
def scratch_database(server_url: str, *, template: str = "template0") -> Iterator[str]:
    """The name of a new database of this process, dropped at the end."""
    name = f"{template_name()}_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        create_database(connection, name, template=template)
    try:
        yield name
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            drop_database(connection, name)


def create_database(
    connection: psycopg.Connection, name: str, *, template: str = "template0"
) -> None:
    connection.execute(
        # Copied as files: a third quicker than page by page, and dropped in half the time.
        SQL("CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8' STRATEGY FILE_COPY").format(
            Identifier(name), Identifier(template)
        )
    )


def drop_database(connection: psycopg.Connection, name: str) -> None:
    connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))


def database_of(url: str) -> str:
    """The database that an address names."""
    return str(conninfo_to_dict(url)["dbname"])
