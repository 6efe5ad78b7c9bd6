"""A project's turn: index runs, imports and erasing of one project follow each other."""

from collections.abc import Generator
from contextlib import contextmanager

from lastro import store
from lastro.db.pool import Database


@contextmanager
def turn(database: Database, project_id: int) -> Generator[bool]:
    """Wait until nobody else changes the project; yields whether the turn came at once.

    What was read before it may be out of date where it did not.
    """
    with database.reserved() as connection:
        at_once = store.lock_project(connection, project_id)
        try:
            yield at_once
        finally:
            store.unlock_project(connection, project_id)
