"""Workers that are frozen, killed at any moment, and left by their database: longer runs."""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import killing
import pytest
from databases import address, scratch_database
from homes import open_folder, wait_until
from postgres import SPEEDY
from workers import Workers, Yard

from lastro.app import App, build
from lastro.config import Settings
from lastro.db.embedded import EmbeddedPostgres
from lastro.job import Job, JobError
from lastro.types import IndexRequest

_NO_ERROR = JobError(code="", message="")
KILLS = 40


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers() as started:
        yield started


@pytest.fixture
def yard(tmp_path: Path, owner_url: str) -> Iterator[Yard]:
    settings = Settings(
        home=tmp_path / "home", database_url=owner_url, embedder="deterministic", worker_lost_s=1.0
    )
    with build(settings) as app:
        yield Yard(folder=tmp_path, settings=settings, app=app)


def test_after_any_kills_of_its_workers_a_job_ends_in_the_index_of_a_fresh_run(
    yard: Yard, workers: Workers, server_url: str, template: str
) -> None:
    folder = yard.folder / killing.PROJECT
    killing.make_repository(folder, documents=60)
    dice = random.Random(6)
    for version in (*killing.VERSIONS, *killing.VERSIONS):
        job = _defer(yard.app, folder, version)
        for _ in range(KILLS // 4):
            worker = workers.start(yard.settings)
            time.sleep(dice.uniform(0.1, 1.5))
            worker.signal(signal.SIGKILL)
            worker.wait()
        last = workers.start(yard.settings)
        assert wait_until(lambda job=job: yard.job(job).state in {"done", "failed"}, 120.0)
        assert last.end() == 0
        if yard.job(job).state == "failed":  # begun too often: so it is told, and asked for again
            assert "its worker ended" in (yard.job(job).error or _NO_ERROR).message
            yard.app.jobs(killing.PROJECT).retry(job.id)
            assert workers.start(yard.settings, until="empty").wait() == 0
        with scratch_database(server_url, template=template) as name:
            fresh = Settings(
                home=yard.settings.home,
                database_url=address(server_url, dbname=name),
                embedder="deterministic",
            )
            with build(fresh) as app:
                app.index(_request(folder, version))
            assert fresh.database_url is not None
            expected = killing.state(fresh.database_url)
        assert yard.settings.database_url is not None
        assert killing.state(yard.settings.database_url) == expected


def _request(folder: Path, version: str) -> IndexRequest:
    return IndexRequest(path=folder, project=killing.PROJECT, ref=version)


def _defer(app: App, folder: Path, version: str) -> Job:
    return app.defer_index(_request(folder, version))


def test_a_worker_that_was_frozen_and_taken_for_dead_does_no_harm(yard: Yard, workers: Workers):
    job = yard.defer()
    with yard.turn_of():
        frozen = workers.start(yard.settings)
        assert yard.becomes(job, "running")
        frozen.signal(signal.SIGSTOP)
        other = workers.start(yard.settings)
        assert other.says(f"job {job.id} begins")
        frozen.signal(signal.SIGCONT)
    assert yard.becomes(job, "done")
    assert yard.indexed() == 2
    again = yard.defer()
    assert yard.becomes(again, "done")
    report = yard.job(again).report
    assert report is not None
    assert report["documents"] == {
        "added": 0, "changed": 0, "renamed": 0, "removed": 0, "unchanged": 2, "skipped": 0,
    }  # fmt: skip
    assert (frozen.end(), other.end()) == (0, 0)


def test_an_embedded_server_that_fell_is_started_again_and_one_that_was_stopped_is_not(
    workers: Workers,
):
    folder = open_folder()
    repository = Path(tempfile.mkdtemp(prefix="lastro-repository-"))
    settings = Settings(
        home=folder / "home", embedder="deterministic", worker_lost_s=1.0, idle_stop_s=60.0
    )
    server = EmbeddedPostgres(settings.home, settings=SPEEDY)
    server.start()
    worker = workers.start(settings)
    try:
        with build(settings) as app:
            assert wait_until(lambda: app.workers().live == 1)
        fallen = server.status().pid
        assert fallen is not None
        os.kill(fallen, signal.SIGKILL)
        assert wait_until(lambda: (server.status().pid or fallen) != fallen)
        with build(settings) as again:
            assert wait_until(lambda: again.workers().live == 1)
        server.stop()
        assert worker.says("the database was stopped"), worker.said
        time.sleep(0.5)
        assert not server.status().running
        with build(settings) as app:
            job = Yard(folder=repository, settings=settings, app=app).defer()
            assert wait_until(lambda: app.jobs("ships").get(job.id).state == "done")
        assert worker.end() == 0
    finally:
        server.stop()
        shutil.rmtree(folder)
        shutil.rmtree(repository)
