"""Workers as processes: killed, frozen, ended and side by side, and databases that go away."""

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from databases import address, create_database, drop_database, scratch_database
from homes import wait_until
from ollama_server import Script, ollama
from workers import Workers, Yard

from lastro.app import build
from lastro.config import Settings
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.migrate import migrate
from lastro.ollama_settings import OllamaSettings
from lastro.precedence import NICENESS
from lastro.types import IndexRequest


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers() as started:
        yield started


@pytest.fixture(scope="module")
def url(server_url: str, template: str) -> Iterator[str]:
    with scratch_database(server_url, template=template) as name:
        yield address(server_url, dbname=name)


@pytest.fixture
def yard(tmp_path: Path, url: str) -> Iterator[Yard]:
    settings = Settings(
        home=tmp_path / "home", database_url=url, embedder="deterministic", worker_lost_s=1.0
    )
    with build(settings) as app:
        yield Yard(folder=tmp_path, settings=settings, app=app)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "TRUNCATE lastro.projects, lastro_jobs.procrastinate_jobs,"
            " lastro_jobs.procrastinate_workers CASCADE"
        )


def test_a_worker_is_told_of_a_job_and_ends_when_it_is_asked_to(yard: Yard, workers: Workers):
    worker = workers.start(yard.settings, poll_s=600.0)
    assert wait_until(lambda: yard.app.workers().live == 1)
    job = yard.defer()
    assert yard.becomes(job, "done")
    assert worker.end() == 0
    assert yard.app.workers().live == 0


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ranks threads")
def test_a_job_works_behind_others_and_the_worker_does_not(yard: Yard, workers: Workers):
    worker = workers.start(yard.settings)
    job = yard.defer()
    with yard.turn_of():
        assert yard.becomes(job, "running")
        # The job is said to run a moment before its thread steps back.
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert wait_until(lambda: max(own, NICENESS) in _ranks(worker.pid).values())
        assert _ranks(worker.pid)[worker.pid] == own
    assert yard.becomes(job, "done")


def _ranks(pid: int) -> dict[int, int]:
    """How nice each thread of a process is that is alive."""
    ranks: dict[int, int] = {}
    for entry in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            ranks[int(entry.name)] = os.getpriority(os.PRIO_PROCESS, int(entry.name))
    return ranks


def test_two_workers_run_each_job_once(yard: Yard, workers: Workers):
    jobs = [yard.defer(f"ship{number}") for number in range(4)]
    # Neither counts as lost while a loaded machine has no time for it.
    settings = replace(yard.settings, worker_lost_s=60.0)
    both = [workers.start(settings, until="empty", concurrency=2) for _ in range(2)]
    assert [worker.wait() for worker in both] == [0, 0]
    begun = [line for worker in both for line in worker.said if " begins" in line]
    assert sorted(re.findall(r"job (\d+) begins", "\n".join(begun))) == sorted(
        str(job.id) for job in jobs
    )
    assert {yard.job(job).state for job in jobs} == {"done"}


def test_a_job_whose_worker_is_killed_is_taken_up_by_another(yard: Yard, workers: Workers):
    job = yard.defer()
    with yard.turn_of():
        killed = workers.start(yard.settings)
        assert yard.becomes(job, "running")
        killed.signal(signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
        assert yard.becomes(job, "stalled")
        other = workers.start(yard.settings)
        assert other.says(f"job {job.id} begins")
    assert yard.becomes(job, "done")
    assert (yard.job(job).attempts, yard.indexed()) == (2, 2)
    assert other.end() == 0


def test_a_job_that_runs_is_cancelled_before_its_next_file(yard: Yard, workers: Workers):
    job = yard.defer()
    with yard.turn_of():
        worker = workers.start(yard.settings)
        assert yard.becomes(job, "running")
        assert yard.app.jobs("ships").cancel(job.id).state == "stopping"
    assert yard.becomes(job, "cancelled")
    assert yard.indexed() == 0
    assert worker.end() == 0


def test_a_worker_that_is_ended_gives_its_job_back(yard: Yard, workers: Workers):
    job = yard.defer()
    with yard.turn_of():
        worker = workers.start(yard.settings)
        assert yard.becomes(job, "running")
        worker.signal(signal.SIGTERM)
        assert worker.says("ending")
        time.sleep(0.2)  # its grace is half of that
    assert worker.wait() == 0
    assert worker.says(f"job {job.id} is given back")
    assert (yard.job(job).state, yard.job(job).error, yard.indexed()) == ("queued", None, 0)
    assert workers.start(yard.settings, until="empty").wait() == 0
    assert yard.job(job).state == "done"


def test_a_second_signal_ends_a_worker_at_once(yard: Yard, workers: Workers):
    job = yard.defer()
    with yard.turn_of():
        worker = workers.start(yard.settings)
        assert yard.becomes(job, "running")
        worker.signal(signal.SIGINT)
        assert worker.says("ending")
        worker.signal(signal.SIGINT)
        assert worker.wait() == 130
    assert yard.becomes(job, "stalled")
    assert yard.app.jobs("ships").cancel(job.id).state == "cancelled"


# --- an embedder that is down


def test_a_dead_embedder_is_asked_once_an_interval_and_the_backlog_drains_by_itself(
    tmp_path: Path, owner_url: str, workers: Workers
):
    script = Script(gone=True)
    with ollama(script) as host, ExitStack() as stack:
        settings = Settings(
            home=tmp_path / "home",
            database_url=owner_url,
            embedder="ollama:nomic-embed-text",
            ollama_host=host,
            ollama=OllamaSettings(retry_after_s=0.01),
            probe_interval_s=0.5,
        )
        app = stack.enter_context(build(settings))
        yard = Yard(folder=tmp_path, settings=settings, app=app)
        job = yard.defer()
        worker = workers.start(settings)
        assert yard.becomes(job, "partial")
        board = yard.app.jobs("ships")
        [repair] = [found for found in board.list() if found.kind == "repair"]
        asked_before, began = script.looks, time.monotonic()
        assert wait_until(lambda: board.get(repair.id).attempts >= 3)
        took_s = time.monotonic() - began
        probes = script.looks - asked_before
        waiting = board.get(repair.id)
        assert 1 <= probes <= took_s / settings.probe_interval_s + 1
        assert script.requests == []  # it was asked for itself alone, and sent no text
        assert waiting.error is not None
        assert "the embedder is not there" in waiting.error.message
        assert len(board.list()) == 2  # one repair waits, however often it asked
        script.gone = False
        assert yard.becomes(repair, "done")
        assert worker.end() == 0
        scopes = app.coverage("ships").scopes
    assert [(scope.with_vectors, scope.incomplete) for scope in scopes] == [(2, 0)]


# --- a database that goes away


def test_a_server_that_restarts_needs_no_other_worker(
    private_server: EmbeddedPostgres, cluster: str, tmp_path: Path, workers: Workers
):
    name = "worker_restart"
    with psycopg.connect(cluster, autocommit=True) as connection:
        create_database(connection, name)
    here = address(cluster, dbname=name)
    migrate(here)
    settings = Settings(
        home=tmp_path / "home", database_url=here, embedder="deterministic", worker_lost_s=1.0
    )
    worker = workers.start(settings)
    with build(settings) as app:
        assert wait_until(lambda: app.workers().live == 1)
    private_server.stop()
    private_server.start()
    with build(settings) as app:
        yard = Yard(folder=tmp_path, settings=settings, app=app)
        job = yard.defer()
        assert yard.becomes(job, "done")
        assert worker.end() == 0
    with psycopg.connect(cluster, autocommit=True) as connection:
        drop_database(connection, name)


def test_a_job_that_waits_for_its_turn_hears_that_it_is_cancelled(yard: Yard, workers: Workers):
    job = yard.defer()
    with yard.turn_of():
        worker = workers.start(yard.settings)
        assert yard.becomes(job, "running")
        yard.app.jobs("ships").cancel(job.id)
        assert yard.becomes(job, "cancelled")
        assert worker.end() == 0


def test_a_job_that_waits_for_a_server_of_git_hears_that_it_is_cancelled(
    yard: Yard, workers: Workers
):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        request = IndexRequest(path=f"http://127.0.0.1:{port}/ships.git", project="ships")
        job = yard.app.defer_index(request)
        worker = workers.start(yard.settings)
        with silent.accept()[0]:
            yard.app.jobs("ships").cancel(job.id)
            assert yard.becomes(job, "cancelled")
            assert worker.end() == 0
