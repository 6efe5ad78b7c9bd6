"""The process that runs jobs: procrastinate's worker over an ``App``, for as long as it is wanted.

It outlives the database: when a server goes away, the worker looks for it until it is back. An
embedded one that was stopped stays stopped until some command starts it.
"""

import asyncio
import logging
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, cast

import psycopg
from procrastinate import App as Queue
from procrastinate import JobContext, PsycopgConnector
from procrastinate.exceptions import ConnectorException, JobAborted
from procrastinate.jobs import Job as QueuedJob
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from procrastinate.worker import Worker

from lastro import store
from lastro.app import App, build, embedded
from lastro.config import Settings
from lastro.db.app_role import APP_ROLE
from lastro.db.pool import CONNECT_TIMEOUT_S
from lastro.db.translation import translated
from lastro.embedding import require_same
from lastro.error_place import place_of
from lastro.errors import DatabaseUnavailable, EmbedderMismatch, InvalidInput, LastroError
from lastro.job import BEATS_PER_LOSS, KINDS, PRIORITIES, JobKind, RetryPolicy, queue_of
from lastro.job_runs import Again, JobRun, Stopped
from lastro.precedence import work_behind_others
from lastro.projects import all_project_ids
from lastro.search_log import prune
from lastro.store import Project

# A job that was being run when the worker is to end has so long to come to its own end; then it is
# given back between two batches. Service managers wait 10 s and more before they kill.
GRACE_S = 5.0
# Between two looks for jobs that are due by now. New ones are told at once.
POLL_S = 5.0
# Pauses between two looks for a database that went away, growing.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
# What waits so long for a connection to the queue waits for a server that is gone.
PATIENCE_S = 5.0
# Jobs that are over are remembered for a month.
KEPT_S = 30 * 86_400.0
PRUNE_EVERY_S = 3_600.0
EXIT_KILLED = 130

Until = Literal["stopped", "empty", "one"]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker works; the defaults are those of ``lastro worker``.

    ``until`` it is stopped, no job is due, or it has run one.
    """

    concurrency: int = 1
    until: Until = "stopped"
    grace_s: float = GRACE_S
    patience_s: float = PATIENCE_S
    poll_s: float = POLL_S
    retry: RetryPolicy = field(default_factory=RetryPolicy)


def run_worker(
    settings: Settings, options: WorkerOptions, *, say: Say = lambda _text: None
) -> Mapping[str, int]:
    """Run jobs until told to end, by SIGTERM or SIGINT; returns how many ended how.

    Only the main thread hears signals. A second one ends the process at once; its jobs are taken
    up again by another worker.
    Errors: InvalidInput; those of ``lastro.app.build`` when it starts, and what no waiting cures,
    as EmbedderMismatch: its jobs are left to others.
    """
    if options.concurrency < 1:
        raise InvalidInput("a worker runs one job or more at a time", remedy="use 1 or more")
    for name in ("procrastinate", "asyncio", "psycopg"):  # what they mean is said by us
        logging.getLogger(name).addHandler(logging.NullHandler())
    with (
        asyncio.Runner() as runner,
        # These work for nobody who waits. Who starts a database that crashed is not among them.
        ThreadPoolExecutor(
            options.concurrency, thread_name_prefix="behind", initializer=work_behind_others
        ) as behind,
    ):
        # A thread for each job, and some for what looks after them.
        threads = ThreadPoolExecutor(options.concurrency + 2, thread_name_prefix="job")
        runner.get_loop().set_default_executor(threads)
        service = _Service(settings=settings, options=options, behind=behind, say=say)
        runner.get_loop().set_exception_handler(service.tell_of_loop)
        runner.run(service.run())
    if service.fault is not None:
        raise service.fault
    return dict(service.counts)


class _TryAgain(Exception):
    """A job that goes back to the queue, for a time and with a priority."""

    def __init__(self, *, in_s: float, priority: int) -> None:
        super().__init__()
        self.in_s, self.priority = in_s, priority


class _Failed(Exception):
    """A job that is given up."""


class _Decided(BaseRetryStrategy):
    """Whether a job goes back to the queue is decided where it ran."""

    def get_retry_decision(
        self,
        *,
        exception: BaseException,
        job: QueuedJob,  # noqa: ARG002 - procrastinate's signature
    ) -> RetryDecision | None:
        if not isinstance(exception, _TryAgain):
            return None
        at = datetime.now(UTC) + timedelta(seconds=exception.in_s)
        return RetryDecision(retry_at=at, priority=exception.priority)


@dataclass(slots=True, kw_only=True)
class _Service:
    settings: Settings
    options: WorkerOptions
    behind: ThreadPoolExecutor
    say: Say
    counts: Counter[str] = field(default_factory=Counter[str])
    fault: LastroError | None = None
    _giving_back: threading.Event = field(default_factory=threading.Event)
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _worker: Worker | None = None
    _has_begun: bool = False
    _pruned_at: float | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> None:
        """Work in rounds: one ends where the database went away, or there is nothing to do.

        Errors: what no waiting cures.
        """
        self._loop = asyncio.get_running_loop()
        self._hear_signals()
        pause_s = FIRST_PAUSE_S
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                if self._has_begun:
                    await self._await_stopped_server()
                if await self._round() and self.options.until != "stopped":
                    return
            except DatabaseUnavailable as error:
                if not self._has_begun:
                    raise
                self.say(f"{error.message}; looking for it again")
            if time.monotonic() - began > LONGEST_PAUSE_S:
                pause_s = FIRST_PAUSE_S
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def tell_of_loop(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Say what asyncio reports, without its values: an error that nobody waited for."""
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.say(f"an error that nobody waited for: {place_of(error)}")
        else:  # one of its own sentences, that a task was left behind for one
            self.say(f"the event loop says: {context.get('message')}")

    def _hear_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)

    def _end(self) -> None:
        if self._ending.is_set():
            os._exit(EXIT_KILLED)
        self._ending.set()
        self.say("ending: jobs that run end first, or are given back")
        asyncio.get_running_loop().call_later(self.options.grace_s, self._giving_back.set)
        if self._worker is not None:
            self._worker.stop()

    def _leave(self, error: LastroError) -> None:
        """End because of what no waiting cures, and let others have what is queued."""
        self.fault = error
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._end_once)

    def _end_once(self) -> None:
        if not self._ending.is_set():
            self._end()

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return

    async def _await_stopped_server(self) -> None:
        """Wait while the embedded server is one that somebody stopped; a crashed one is started."""
        if self.settings.database_url is not None:
            return
        server, is_said = embedded(self.settings), False
        while server.is_stopped() and not self._ending.is_set():
            if not is_said:
                self.say("the database was stopped; waiting until a command starts it")
                is_said = True
            await self._pause(FIRST_PAUSE_S)

    async def _round(self) -> bool:
        """Open everything and work; True where the round came to its own end.

        Errors: DatabaseUnavailable; others are for whoever runs the worker.
        """
        if self._ending.is_set():
            return True
        with await asyncio.to_thread(build, self.settings) as app, translated(url=app.database.url):
            try:
                return await self._serve(app)
            except ConnectorException as error:
                if isinstance(error.__cause__, psycopg.Error):
                    raise error.__cause__ from error
                raise DatabaseUnavailable(f"the queue cannot be read: {error}") from error

    async def _serve(self, app: App) -> bool:
        queue = self._queue(app)
        async with queue.open_async():
            await asyncio.to_thread(_require_embedder, app)
            await asyncio.to_thread(self._keep_house, app)
            self._has_begun = True
            keeper = asyncio.create_task(self._keep_keeping_house(app))
            try:
                return await self._work(queue)
            finally:
                keeper.cancel()

    async def _work(self, queue: Queue) -> bool:
        until = self.options.until
        while True:
            before = self.counts.total()
            worker = self._make_worker(queue, wait=until == "stopped")
            self._worker = worker
            try:
                if not self._ending.is_set():
                    await worker.run()
            finally:
                self._worker = None
            if self._ending.is_set() or until == "one":
                return True
            if until == "stopped":  # it ended because of the database, without an error
                return False
            if self.counts.total() == before:
                return True

    def _make_worker(self, queue: Queue, *, wait: bool) -> Worker:
        lost_s = self.settings.worker_lost_s
        return Worker(
            app=queue,
            queues=[queue_of(kind) for kind in KINDS],
            name="lastro",
            concurrency=1 if self.options.until == "one" else self.options.concurrency,
            wait=wait,
            fetch_job_polling_interval=self.options.poll_s,
            abort_job_polling_interval=self.options.poll_s,
            update_heartbeat_interval=lost_s / BEATS_PER_LOSS,
            stalled_worker_timeout=lost_s,
            install_signal_handlers=False,
        )

    def _queue(self, app: App) -> Queue:
        """The queue of the app's database, with a task for each kind of job."""
        connector = PsycopgConnector(
            conninfo=app.database.url,
            configure=_configure,
            min_size=0,  # opened, it waits for nobody
            max_size=self.options.concurrency + 3,
            timeout=self.options.patience_s,
            kwargs={"connect_timeout": CONNECT_TIMEOUT_S, "client_encoding": "UTF8"},
        )
        queue = Queue(connector=connector)
        for kind in KINDS:
            queue.task(
                name=queue_of(kind), queue=queue_of(kind), pass_context=True, retry=_Decided()
            )(self._task(app, kind))
        return queue

    def _task(self, app: App, kind: JobKind) -> Callable[..., None]:
        def task(context: JobContext, *, project_id: int) -> None:
            try:
                attempt = partial(self._attempt, app, context, kind, project_id=project_id)
                self.behind.submit(attempt).result()
            finally:
                worker = self._worker
                if self.options.until == "one" and worker is not None:
                    worker.stop()

        return task

    def _attempt(self, app: App, context: JobContext, kind: JobKind, *, project_id: int) -> None:
        """Run a fetched job, and let the queue know what became of it, in its own errors."""
        id_ = context.job.id
        assert id_ is not None
        try:
            project = _project(app, project_id)
            if project is None:
                self._conclude(context, kind, "gone")
                return
            run = JobRun(
                app=app,
                id=id_,
                project=project,
                stop=lambda: self._stop_if_asked(context),
                say=self.say,
                retry=self.options.retry,
                probe_interval_s=self.settings.probe_interval_s,
            )
            self.say(f"job {id_} begins: {kind} of {project.slug}")
            ended = run.attempt()
        except Stopped as stopped:
            self.counts["stopped"] += 1
            if context.should_abort():
                self.say(f"job {id_} is cancelled")
                raise JobAborted from stopped
            self.say(f"job {id_} is given back")
            raise _TryAgain(in_s=0.0, priority=PRIORITIES[kind]) from stopped
        except EmbedderMismatch as error:
            self.say(f"job {id_} is given back: {error.message}")
            self._leave(error)
            raise _TryAgain(in_s=0.0, priority=PRIORITIES[kind]) from error
        except LastroError as error:  # not even what became of it can be stored
            self.say(f"job {id_}: {error.message}")
            retry, attempts = self.options.retry, context.job.attempts
            pause_s = retry.pause_s(attempts + 1) or retry.longest_pause_s
            raise _TryAgain(in_s=pause_s, priority=PRIORITIES[kind] - 1) from error
        except Exception as error:
            self.say(f"job {id_} met what should not have happened: {place_of(error)}")
            self.counts["failed"] += 1
            raise _Failed from error
        self._conclude(context, kind, ended)

    def _conclude(self, context: JobContext, kind: JobKind, ended: str | Again) -> None:
        id_ = context.job.id
        if isinstance(ended, Again):
            self.counts["again"] += 1
            self.say(f"job {id_} waits {ended.in_s:g} s: {ended.why}")
            if context.should_abort():  # the queue would take a job that waits for a failed one
                raise JobAborted
            raise _TryAgain(in_s=ended.in_s, priority=PRIORITIES[kind] - ended.failures)
        self.counts[ended] += 1
        self.say(f"job {id_} is over: {ended}")
        if ended == "failed":
            raise _Failed

    def _stop_if_asked(self, context: JobContext) -> None:
        if self._giving_back.is_set() or context.should_abort():
            raise Stopped

    async def _keep_keeping_house(self, app: App) -> None:
        """Whatever one round of it met, the next one comes."""
        interval_s = self.settings.worker_lost_s / BEATS_PER_LOSS
        while True:
            await asyncio.sleep(interval_s)
            try:
                await asyncio.to_thread(self._keep_house, app)
            except DatabaseUnavailable:
                continue  # the worker itself will notice that its database is gone
            except Exception as error:  # noqa: BLE001 - a bug costs one round
                why = error.message if isinstance(error, LastroError) else place_of(error)
                self.say(f"looking after jobs failed, and is tried in {interval_s:g} s: {why}")

    def _keep_house(self, app: App) -> None:
        """Take up jobs of dead workers, and forget jobs and searches of long ago."""
        with app.database.transaction() as connection:
            taken = store.take_back(connection, lost_s=self.settings.worker_lost_s)
        for id_ in taken:
            self.say(f"job {id_} lost its worker, and waits for another")
        now = time.monotonic()
        if self._pruned_at is None or now - self._pruned_at > PRUNE_EVERY_S:
            projects = all_project_ids(app.database)
            with app.database.transaction(projects=projects) as connection:
                store.prune_jobs(connection, projects, kept_s=KEPT_S)
            is_done = prune(app.database, kept_days=self.settings.search_log_days)
            self._pruned_at = now if is_done else None


def _require_embedder(app: App) -> None:
    """Errors: EmbedderMismatch, before any job is taken from those who can do it."""
    with app.database.transaction() as connection:
        active = store.active_embedder(connection)
    if active is not None:
        require_same(active, app.embedder)


def _project(app: App, project_id: int) -> Project | None:
    with app.database.transaction() as connection:
        known = store.all_projects(connection)
    return next((project for project in known if project.id == project_id), None)


async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Become the application's role, and find the queue's tables, which it names without schema."""
    await cast("Any", connection).execute(
        f"SET ROLE {APP_ROLE}; SET search_path = lastro_jobs, pg_catalog, pg_temp;"
        " SET timezone = 'UTC'"
    )
    await connection.commit()
