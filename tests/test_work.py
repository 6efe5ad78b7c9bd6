"""Work that is stopped from outside gives back what it holds."""

import threading
import time
from collections.abc import Iterator

import pytest

from lastro.db.pool import Database
from lastro.db.work import Work, working
from lastro.errors import StatementTimeout, WorkStopped
from lastro.turns import turn

LONG_S = 30
SLEEP = f"SELECT pg_sleep({LONG_S})"


@pytest.fixture(name="pool")
def _pool(owner_url: str) -> Iterator[Database]:
    with Database(owner_url) as pool:
        yield pool


def test_a_statement_ends_when_its_work_is_stopped(pool: Database) -> None:
    work = Work()
    threading.Timer(0.2, work.stop).start()
    began = time.monotonic()
    with working(work), pytest.raises(StatementTimeout), pool.transaction() as connection:
        connection.execute(SLEEP)
    assert time.monotonic() - began < LONG_S / 3


def test_stopped_work_gets_no_further_connection(pool: Database) -> None:
    work = Work()
    work.stop()
    with working(work), pytest.raises(WorkStopped), pool.session():
        pass


def test_a_connection_that_was_cancelled_serves_nobody_else(pool: Database) -> None:
    work = Work()
    with working(work), pool.session() as connection:
        cancelled = connection.info.backend_pid
        work.stop()
    with pool.session() as connection:
        assert connection.info.backend_pid != cancelled


def test_a_statement_ends_at_the_deadline_of_its_work(pool: Database) -> None:
    began = time.monotonic()
    with (
        working(Work(deadline_s=0.3)),
        pytest.raises(StatementTimeout),
        pool.transaction() as connection,
    ):
        connection.execute(SLEEP)
    assert time.monotonic() - began < LONG_S / 3


@pytest.mark.parametrize(("asked", "least_ms"), [("250ms", 250), ("900000ms", 60_000)])
def test_the_earlier_of_a_statements_limit_and_the_deadline_holds(
    pool: Database, asked: str, least_ms: int
) -> None:
    with (
        working(Work(deadline_s=60)),
        pool.transaction(settings={"statement_timeout": asked}) as connection,
    ):
        told = connection.execute(
            "SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout'"
        ).fetchone()[0]
    assert least_ms - 1000 < told <= least_ms


def test_after_its_deadline_work_gets_no_connection(pool: Database) -> None:
    with working(Work(deadline_s=0.01)):
        time.sleep(0.02)
        with pytest.raises(WorkStopped, match=r"longer than its 0\.01 s"), pool.session():
            pass


def test_what_is_no_work_of_anyone_runs_as_long_as_it_takes(pool: Database) -> None:
    with pool.transaction() as connection:
        told = connection.execute("SHOW statement_timeout").fetchone()[0]
    assert told == "0"


def test_who_waits_for_a_project_waits_no_longer_than_the_deadline(pool: Database) -> None:
    with turn(pool, 1):
        began = time.monotonic()
        with working(Work(deadline_s=0.3)), pytest.raises(StatementTimeout), turn(pool, 1):
            pass
    assert time.monotonic() - began < LONG_S / 3
