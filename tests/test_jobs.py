"""Jobs on a real database: deferred, run, tried again, cancelled, and nobody else's to see."""

import asyncio
import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

import psycopg
import pytest
from databases import address, scratch_database
from procrastinate.worker import Worker
from repositories import commit

from lastro import store
from lastro.app import App, build
from lastro.config import Settings
from lastro.errors import Conflict, EmbedderMismatch, InvalidInput, NotFound
from lastro.job import KINDS, MOST_STARTS, Job, JobKind, RetryPolicy, index_request_json
from lastro.job_runs import Again, JobRun, Stopped
from lastro.jobs import known_kind
from lastro.projects import project_named
from lastro.search import SearchRequest
from lastro.types import IndexRequest
from lastro.worker import WorkerOptions, run_worker

EMPTY = WorkerOptions(until="empty")
SHIPS = {
    "docs/anchor.md": "# Anchor\n\nThe anchor holds the ship.\n",
    "docs/bilge.md": "# Bilge\n\nThe bilge is pumped dry.\n",
}


@dataclass
class Yard:
    """A repository that is the project ``ships``, and an app over its database."""

    folder: Path
    settings: Settings
    app: App

    def defer(self, **options) -> Job:
        request = IndexRequest(path=self.folder, project="ships", **options)
        return self.app.defer_index(request)

    def work(self) -> None:
        """Run what is due, as a worker does."""
        run_worker(self.settings, EMPTY)

    def job(self, id_: int) -> Job:
        return self.app.jobs("ships").get(id_)

    def attempt(self, job: Job, *, stop=lambda: None, failures: int = 2):
        """One attempt at a job, without a queue."""
        run = JobRun(
            app=self.app,
            id=job.id,
            project=project_named(self.app.database, job.project),
            stop=stop,
            retry=RetryPolicy(first_pause_s=5.0, failures=failures),
        )
        return run.attempt()


@pytest.fixture(scope="module")
def url(server_url: str, template: str) -> Iterator[str]:
    with scratch_database(server_url, template=template) as name:
        yield address(server_url, dbname=name)


@pytest.fixture
def owner(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def yard(tmp_path: Path, url: str, owner: psycopg.Connection) -> Iterator[Yard]:
    folder = tmp_path / "ships"
    commit(folder, SHIPS)
    settings = Settings(home=tmp_path / "home", database_url=url, embedder="deterministic")
    with build(settings) as app:
        yield Yard(folder=folder, settings=settings, app=app)
    owner.execute("GRANT INSERT ON lastro.documents TO lastro_app")
    owner.execute("TRUNCATE lastro.projects, lastro_jobs.procrastinate_jobs CASCADE")


# --- deferring


def test_without_a_worker_a_job_stays_queued_and_nobody_is_said_to_work(yard: Yard):
    job = yard.defer()
    assert (job.state, job.kind, job.project) == ("queued", "index", "ships")
    assert job.started_at is None
    assert yard.app.workers().live == 0


def test_a_worker_does_what_was_deferred_and_counts_it(yard: Yard):
    job = yard.defer()
    yard.work()
    done = yard.job(job.id)
    assert (done.state, done.attempts, done.error) == ("done", 1, None)
    assert done.report is not None
    assert done.report["documents"]["added"] == 2
    assert yard.app.search(SearchRequest(query="anchor"), project="ships").hits


def test_an_ended_worker_is_not_counted_as_alive(yard: Yard):
    yard.work()
    assert yard.app.workers().live == 0


def test_a_place_waits_once_however_often_it_is_asked_for(yard: Yard):
    first = yard.defer()
    inside = yard.app.defer_index(IndexRequest(path=yard.folder / "docs", project="ships"))
    assert inside.id == first.id
    assert [job.id for job in yard.app.jobs("ships").list()] == [first.id]


def test_a_rebuild_that_was_asked_for_is_not_lost_to_a_later_trigger(yard: Yard):
    yard.defer(rebuild=True)
    assert yard.defer().request["rebuild"] is True


def test_what_is_indexed_is_the_head_when_the_job_runs(yard: Yard):
    job = yard.defer()
    head = commit(yard.folder, {"docs/capstan.md": "# Capstan\n\nIt turns.\n"})
    yard.work()
    done = yard.job(job.id)
    assert done.report is not None
    assert done.report["revision"] == head
    assert yard.app.coverage("ships").behind == 0


def test_a_trigger_after_a_run_began_is_a_job_of_its_own(yard: Yard):
    first = yard.defer()
    seen: list[int] = []

    def trigger_once() -> None:
        if not seen:
            seen.append(yard.defer().id)

    # The queue has handed it out, as a worker's fetch does.
    _fetch(yard, first.id)
    assert yard.attempt(yard.job(first.id), stop=trigger_once) == "done"
    assert seen != [first.id]


def _fetch(yard: Yard, id_: int) -> None:
    with psycopg.connect(yard.app.database.url) as connection:
        connection.execute(
            "UPDATE lastro_jobs.procrastinate_jobs SET status = 'doing' WHERE id = %s", [id_]
        )


@pytest.mark.parametrize("options", [{"repair": True, "rebuild": True}])
def test_options_that_exclude_each_other_are_refused_before_anything_is_queued(yard: Yard, options):
    with pytest.raises(InvalidInput):
        yard.defer(**options)
    assert yard.app.all_jobs() == []


def test_a_folder_that_is_no_repository_is_refused_before_anything_is_queued(
    yard: Yard, tmp_path: Path
):
    with pytest.raises(NotFound):
        yard.app.defer_index(IndexRequest(path=tmp_path))
    assert yard.app.all_jobs() == []


def test_a_repair_of_a_project_that_is_not_there_is_not_found(yard: Yard):
    with pytest.raises(NotFound, match="no project"):
        yard.app.defer_index(IndexRequest(path=yard.folder, project="wrecks", repair=True))


def test_statistics_are_counted_again_by_a_worker(yard: Yard, owner: psycopg.Connection):
    yard.app.index(IndexRequest(path=yard.folder, project="ships"))
    owner.execute("UPDATE lastro.lexeme_stats SET df = 99")
    yard.app.jobs("ships").defer("statistics")
    yard.work()
    assert owner.execute("SELECT max(df) FROM lastro.lexeme_stats").fetchone() != (99,)


def test_open_gaps_are_asked_again_after_an_index_run_that_changed_something(yard: Yard):
    yard.app.index(IndexRequest(path=yard.folder, project="ships"))
    asked = yard.app.search(SearchRequest(query="davit"), project="ships")
    assert asked.gap_id is not None
    commit(yard.folder, {"docs/davit.md": "# Davit\n\nThe davit lowers the boat.\n"})
    yard.defer()
    yard.work()
    assert [job.kind for job in yard.app.jobs("ships").list()] == ["gaps", "index"]
    assert [gap.status for gap in yard.app.gaps("ships").list()] == ["resolved"]
    yard.defer()
    yard.work()  # nothing has changed, and nothing is asked
    assert [job.kind for job in yard.app.jobs("ships").list()] == ["index", "gaps", "index"]


def test_the_example_of_the_page_runs(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    page = Path(__file__).parent.parent / "docs" / "how-to" / "run-a-worker.md"
    example = re.search(r"^    from lastro import.*?(?=^\S)", page.read_text("utf-8"), re.M | re.S)
    assert example is not None
    monkeypatch.setenv("LASTRO_HOME", str(yard.settings.home))
    monkeypatch.setenv("LASTRO_DATABASE_URL", yard.app.database.url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    exec(dedent(example[0]), {"folder": yard.folder})
    assert capsys.readouterr().out == "queued 0\n"


# --- failing


def test_what_cannot_succeed_is_not_tried_again_and_says_why(yard: Yard):
    job = yard.defer()
    shutil.rmtree(yard.folder)
    yard.work()
    failed = yard.job(job.id)
    assert (failed.state, failed.attempts, failed.next_attempt_at) == ("failed", 1, None)
    assert failed.error is not None
    assert failed.error.code == "NOT_FOUND"
    assert str(yard.folder) in failed.error.message
    assert failed.error.remedy


def test_what_may_pass_is_tried_again_with_growing_pauses_and_a_limit(
    yard: Yard, owner: psycopg.Connection
):
    job = yard.defer()
    owner.execute("REVOKE INSERT ON lastro.documents FROM lastro_app")
    ended = [yard.attempt(job) for _ in range(3)]
    assert [type(end) for end in ended] == [Again, Again, str]
    assert [end.in_s for end in ended if isinstance(end, Again)] == [5.0, 10.0]
    assert ended[-1] == "failed"
    told = yard.job(job.id).error
    assert told is not None
    assert told.code == "DATABASE_UNAVAILABLE"


def test_a_job_that_is_tried_again_waits_and_then_succeeds(yard: Yard, owner: psycopg.Connection):
    job = yard.defer()
    owner.execute("REVOKE INSERT ON lastro.documents FROM lastro_app")
    yard.work()
    waiting = yard.job(job.id)
    assert (waiting.state, waiting.attempts) == ("waiting", 1)
    assert waiting.next_attempt_at is not None
    assert waiting.error is not None
    owner.execute("GRANT INSERT ON lastro.documents TO lastro_app")
    assert yard.defer().id == job.id  # asked for again, it waits no longer
    yard.work()
    assert (yard.job(job.id).state, yard.job(job.id).error) == ("done", None)


SWITCH = "UPDATE lastro.active_embedder SET id = 'ollama:other', fingerprint = 'other'"


@contextmanager
def switched_back_later(owner: psycopg.Connection) -> Iterator[None]:
    """The other tests of this module share the database."""
    before = owner.execute("SELECT id, fingerprint FROM lastro.active_embedder").fetchone()
    assert before is not None
    try:
        yield
    finally:
        owner.execute("UPDATE lastro.active_embedder SET id = %s, fingerprint = %s", before)


def test_a_worker_of_another_embedder_takes_no_job(yard: Yard, owner: psycopg.Connection):
    yard.app.index(IndexRequest(path=yard.folder, project="ships"))
    job = yard.defer()
    with switched_back_later(owner):
        owner.execute(SWITCH)
        with pytest.raises(EmbedderMismatch, match="ollama:other"):
            yard.work()
    assert (yard.job(job.id).state, yard.job(job.id).attempts) == ("queued", 0)


def test_a_worker_whose_embedder_was_switched_away_ends_and_leaves_its_job_to_another(
    yard: Yard, owner: psycopg.Connection
):
    yard.app.index(IndexRequest(path=yard.folder, project="ships"))
    job = yard.defer()

    def switch_when_it_begins(said: str) -> None:
        if "begins" in said:
            owner.execute(SWITCH)

    with switched_back_later(owner), pytest.raises(EmbedderMismatch):
        run_worker(yard.settings, EMPTY, say=switch_when_it_begins)
    left = yard.job(job.id)
    assert left.state == "queued"
    assert left.error is not None
    assert left.error.code == "EMBEDDER_MISMATCH"


def test_a_job_that_cannot_even_begin_is_tried_again_with_growing_pauses(
    yard: Yard, owner: psycopg.Connection
):
    job = yard.defer()
    owner.execute("REVOKE UPDATE ON lastro.jobs FROM lastro_app")
    try:
        yard.work()
        first = owner.execute(PAUSE).fetchone()
        owner.execute("UPDATE lastro_jobs.procrastinate_jobs SET scheduled_at = now()")
        yard.work()
        second = owner.execute(PAUSE).fetchone()
    finally:
        owner.execute("GRANT UPDATE ON lastro.jobs TO lastro_app")
    assert first is not None
    assert second is not None
    assert (round(first[0]), round(second[0])) == (5, 10)
    assert yard.job(job.id).state == "waiting"


# Seconds between the end of the last attempt and the next one.
PAUSE = """
    SELECT extract(epoch FROM q.scheduled_at - max(e.at))::float8
    FROM lastro_jobs.procrastinate_jobs AS q
    JOIN lastro_jobs.procrastinate_events AS e ON e.job_id = q.id
    WHERE e.type = 'deferred_for_retry' GROUP BY q.scheduled_at
"""


def test_a_job_that_waits_for_its_time_holds_up_no_other_of_its_project(
    yard: Yard, tmp_path: Path, owner: psycopg.Connection
):
    waits = yard.defer()
    owner.execute("REVOKE INSERT ON lastro.documents FROM lastro_app")
    yard.work()
    owner.execute("GRANT INSERT ON lastro.documents TO lastro_app")
    commit(tmp_path / "docks", {"docs/quay.md": "# Quay\n\nA quay.\n"})
    other = yard.app.defer_index(IndexRequest(path=tmp_path / "docks", project="ships"))
    yard.work()
    assert (yard.job(waits.id).state, yard.job(other.id).state) == ("waiting", "done")


def test_a_job_that_takes_its_worker_down_each_time_is_given_up(
    yard: Yard, owner: psycopg.Connection
):
    job = yard.defer()
    owner.execute("UPDATE lastro.jobs SET starts = %s", [MOST_STARTS])
    yard.work()
    failed = yard.job(job.id)
    assert failed.state == "failed"
    assert failed.error is not None
    assert f"ended {MOST_STARTS} times" in failed.error.message


def test_a_kind_of_a_later_release_is_left_alone(yard: Yard, owner: psycopg.Connection):
    job = yard.defer()
    owner.execute("UPDATE lastro.jobs SET kind = 'translate'")
    owner.execute(
        "UPDATE lastro_jobs.procrastinate_jobs"
        " SET queue_name = 'lastro.translate', task_name = 'lastro.translate'"
    )
    yard.work()
    assert (yard.job(job.id).kind, yard.job(job.id).state) == ("translate", "queued")
    yard.app.jobs("ships").cancel(job.id)
    with pytest.raises(InvalidInput, match="'translate'"):
        yard.app.jobs("ships").retry(job.id)


def test_a_request_of_a_later_release_fails_with_what_to_do(yard: Yard, owner: psycopg.Connection):
    job = yard.defer()
    owner.execute("UPDATE lastro.jobs SET request = request || '{\"depth\": 2}'")
    yard.work()
    told = yard.job(job.id).error
    assert told is not None
    assert "(depth)" in told.message
    assert "of the release that deferred it" in (told.remedy or "")


# --- stopping


def test_a_job_that_waits_is_cancelled_at_once_and_never_runs(yard: Yard):
    job = yard.defer()
    assert yard.app.jobs("ships").cancel(job.id).state == "cancelled"
    yard.work()
    assert yard.job(job.id).started_at is None
    with pytest.raises(Conflict, match="is over"):
        yard.app.jobs("ships").cancel(job.id)


def test_a_run_that_is_stopped_leaves_nothing_half_and_the_next_one_completes_it(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("lastro.indexing.BATCH_CHUNKS", 1)
    monkeypatch.setattr("lastro.job_runs.LISTEN_S", 60.0)  # between files alone
    job = yard.defer()
    files: list[int] = []

    def stop() -> None:
        files.append(1)
        if len(files) == 2:  # the first file is stored
            raise Stopped

    with pytest.raises(Stopped):
        yard.attempt(job, stop=stop)
    assert yard.app.coverage("ships").scopes[0].indexed == 1
    assert yard.attempt(job) == "done"
    assert yard.app.coverage("ships").scopes[0].indexed == 2


def test_what_is_over_is_tried_again_as_a_new_job(yard: Yard):
    job = yard.defer(rebuild=True)
    with pytest.raises(Conflict, match="is not over"):
        yard.app.jobs("ships").retry(job.id)
    yard.work()
    again = yard.app.jobs("ships").retry(job.id)
    assert (again.id > job.id, again.state, again.request) == (True, "queued", job.request)


# --- faults that nobody expected


def test_a_fault_in_the_work_is_told_by_its_place_alone(yard: Yard, monkeypatch):
    monkeypatch.setattr(App, "index", _fail)
    job, said = yard.defer(), []
    run_worker(yard.settings, EMPTY, say=said.append)
    told = yard.job(job.id).error
    assert told is not None
    line = f"test_jobs.py:{_fail.__code__.co_firstlineno + 1} _fail"
    assert (told.code, line in told.message, QUOTED in told.message) == ("INTERNAL", True, False)
    (heard,) = [one for one in said if "should not have happened" in one]
    assert (line in heard, QUOTED in heard) == (True, False)


def test_a_fault_before_the_work_ends_its_job_and_is_told(yard: Yard, monkeypatch):
    monkeypatch.setattr("lastro.job_runs.store.begin_job", _fail)
    job, said = yard.defer(), []
    assert run_worker(yard.settings, EMPTY, say=said.append) == {"failed": 1}
    assert yard.job(job.id).state == "failed"
    assert any("test_jobs.py:" in one and QUOTED not in one for one in said)


def test_a_fault_in_looking_after_jobs_costs_one_round_of_it(yard: Yard, monkeypatch):
    rounds: list[float] = []
    later = threading.Event()
    take_back = store.take_back

    def fail_once(connection, *, lost_s: float) -> list[int]:
        rounds.append(lost_s)
        if len(rounds) == 2:
            _fail()
        if len(rounds) > 2:
            later.set()
        return take_back(connection, lost_s=lost_s)

    monkeypatch.setattr("lastro.worker.store.take_back", fail_once)
    monkeypatch.setattr("lastro.worker.BEATS_PER_LOSS", 300)  # ten rounds a second
    monkeypatch.setattr(JobRun, "attempt", lambda _: "done" if later.wait(60) else "failed")
    yard.defer()
    said: list[str] = []
    assert run_worker(yard.settings, EMPTY, say=said.append) == {"done": 1}
    (heard,) = [one for one in said if "looking after jobs" in one]
    assert ("test_jobs.py:" in heard, QUOTED in heard) == (True, False)


def test_what_the_event_loop_reports_is_said_in_one_line(yard: Yard, monkeypatch):
    run = Worker.run

    async def fail_beside(worker: Worker) -> None:
        asyncio.get_running_loop().call_soon(_fail)
        await run(worker)

    monkeypatch.setattr(Worker, "run", fail_beside)
    said: list[str] = []
    run_worker(yard.settings, EMPTY, say=said.append)
    (heard,) = [one for one in said if "nobody waited for" in one]
    assert ("test_jobs.py:" in heard, QUOTED in heard) == (True, False)


QUOTED = "a sentence of a document"


def _fail(*_args: object, **_options: object) -> None:
    raise KeyError(QUOTED)


# --- whose jobs they are


def test_a_job_of_another_project_is_as_unknown_as_none(yard: Yard, tmp_path: Path):
    commit(tmp_path / "docks", {"docs/quay.md": "# Quay\n\nA quay.\n"})
    theirs = yard.app.defer_index(IndexRequest(path=tmp_path / "docks", project="docks"))
    ours = yard.defer()
    board = yard.app.jobs("ships")
    assert [job.id for job in board.list()] == [ours.id]
    said = []
    for id_ in (theirs.id, 10**12):
        for ask in (board.get, board.cancel, board.retry, board.wait):
            with pytest.raises(NotFound) as caught:
                ask(id_)
            said.append(caught.value.message.replace(str(id_), "ID"))
    assert set(said) == {"the project 'ships' has no job ID"}
    assert yard.app.jobs("docks").get(theirs.id).state == "queued"
    assert {job.project for job in yard.app.all_jobs()} == {"ships", "docks"}


def test_the_queue_names_no_place_and_an_erased_project_leaves_nothing_in_it(
    yard: Yard, owner: psycopg.Connection
):
    yard.defer()
    yard.work()
    yard.defer()
    queue = "SELECT to_jsonb(q) FROM lastro_jobs.procrastinate_jobs AS q"
    assert "ships" not in json.dumps(owner.execute(queue).fetchall())
    yard.app.erase_project("ships")
    assert owner.execute(queue).fetchall() == []
    assert owner.execute("SELECT * FROM lastro_jobs.procrastinate_events").fetchall() == []


def test_a_job_whose_project_was_erased_ends_quietly(yard: Yard, owner: psycopg.Connection):
    yard.defer()
    owner.execute("DELETE FROM lastro.projects")  # while a worker had just fetched it
    assert run_worker(yard.settings, EMPTY) == {"gone": 1}


def test_the_state_asked_for_is_the_only_one_listed(yard: Yard):
    job = yard.defer()
    board = yard.app.jobs("ships")
    assert [found.id for found in board.list(states=["queued"])] == [job.id]
    assert board.list(states=["done"]) == []
    with pytest.raises(InvalidInput, match="the states are"):
        board.list(states=["asleep"])


def test_jobs_that_were_over_long_ago_are_forgotten(yard: Yard, owner: psycopg.Connection):
    yard.defer()
    yard.work()
    owner.execute("UPDATE lastro_jobs.procrastinate_events SET at = now() - interval '31 days'")
    kept = yard.defer()
    yard.work()
    assert [job.id for job in yard.app.jobs("ships").list()] == [kept.id]


def test_a_worker_without_a_job_at_a_time_is_refused(yard: Yard):
    with pytest.raises(InvalidInput, match="one job or more"):
        run_worker(yard.settings, replace(EMPTY, concurrency=0))


def test_one_job_is_run_and_no_other(yard: Yard, tmp_path: Path):
    commit(tmp_path / "docks", {"docs/quay.md": "# Quay\n\nA quay.\n"})
    yard.app.defer_index(IndexRequest(path=tmp_path / "docks", project="docks"))
    yard.defer()
    assert run_worker(yard.settings, WorkerOptions(until="one")) == {"done": 1}
    assert sorted(job.state for job in yard.app.all_jobs()) == ["done", "queued"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_leaves_alone_what_came_by_its_project_s_name_meanwhile(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: JobKind
):
    yard.app.index(IndexRequest(path=yard.folder, project="ships"))
    request = index_request_json(IndexRequest(path=yard.folder)) if kind == "index" else {}
    job = yard.app.jobs("ships").defer(kind, request)
    commit(tmp_path / "other", {"docs/canal.md": "# Canal\n\nThe canal has a lock.\n"})

    def make_anew() -> None:
        yard.app.erase_project("ships")
        yard.app.index(IndexRequest(path=tmp_path / "other", project="ships"))

    def made_anew(named: str) -> JobKind:
        Context().run(make_anew)  # by somebody else
        return known_kind(named)

    monkeypatch.setattr("lastro.job_runs.known_kind", made_anew)
    assert yard.attempt(job) == "failed"
    (left,) = yard.app.projects()
    assert left.documents == 1
