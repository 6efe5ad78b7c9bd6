"""The locks of one test's database: the server is shared by every test that runs now."""

import time

import psycopg

OWN = """
    SELECT count(*) FROM pg_locks
    WHERE pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())
"""
WAITED_FOR = OWN + " AND NOT granted"
ADVISORY_HELD = OWN + " AND locktype = 'advisory' AND granted"
ADVISORY_WAITED_FOR = OWN + " AND locktype = 'advisory' AND NOT granted"
PATIENCE_S = 20.0


def count(connection: psycopg.Connection, locks: str) -> int:
    """How many of ``locks``, one of the queries above, there are now."""
    # Who works here is read anew within a transaction too.
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute(locks).fetchone()
    assert row is not None
    return row[0]


def wait_until(connection: psycopg.Connection, locks: str, *, there_are: int) -> None:
    """Return when there are so many of ``locks``; fail when that takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := count(connection, locks)) != there_are:
        assert time.monotonic() < deadline, f"{found} locks, and not {there_are}"
        time.sleep(0.01)


class Locked:
    """Searches of a database wait for as long as this holds its table."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url)
        self._onlooker = psycopg.connect(url, autocommit=True)

    def __enter__(self) -> "Locked":
        self._connection.execute("LOCK TABLE lastro.chunks IN ACCESS EXCLUSIVE MODE")
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.rollback()
        self._connection.close()
        self._onlooker.close()

    def waiting(self) -> int:
        """Statements that wait for it."""
        return self._onlooker.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()[0]

    def until_waiting(self, number: int) -> None:
        until = time.monotonic() + PATIENCE_S
        while self.waiting() != number:
            assert time.monotonic() < until, f"{self.waiting()} wait, not {number}"
            time.sleep(0.02)
