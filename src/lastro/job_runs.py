"""What a job of each kind does, and what becomes of it where it fails, is stopped or left short."""

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from lastro import store
from lastro.app import App
from lastro.db.own_project import keeping_to
from lastro.db.work import Work, working
from lastro.error_place import place_of
from lastro.errors import EmbedderMismatch, LastroError
from lastro.job import (
    MOST_STARTS,
    PROBE_INTERVAL_S,
    JobError,
    JobKind,
    RetryPolicy,
    embedding_json,
    error_of,
    index_report_json,
    is_transient,
    read_index_request,
    read_reindex_request,
    require_known,
)
from lastro.jobs import defer, known_kind
from lastro.store import BegunJob, Project
from lastro.types import EmbeddingCounts, IndexReport
from lastro.wire import to_json

# Progress is written so often at most.
NOTE_S = 1.0
# Between two looks whether a job is to stop, where it does not look itself.
LISTEN_S = 0.5
Outcome = Literal["done", "partial", "failed", "gone"]


class Stopped(Exception):
    """Somebody asked for the end of a run; it ended between two batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A job that is not over: when it is tried again, and after how many failures."""

    in_s: float
    failures: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a job did; ``missing`` where its embedder was away and it is to be tried again."""

    outcome: Literal["done", "partial"]
    report: Mapping[str, Any]
    missing: EmbeddingCounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One attempt at a job that a worker has fetched.

    ``stop`` raises Stopped once the attempt is to end; it is asked between files and batches, and
    by a thread of its own where these are long in coming. ``say`` hears where a fault lies that
    nobody expected.
    """

    app: App
    id: int
    project: Project
    stop: Callable[[], None]
    say: Callable[[str], None] = lambda _text: None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    probe_interval_s: float = PROBE_INTERVAL_S

    def attempt(self) -> Outcome | Again:
        """Do it, and say what became of it.

        Errors: Stopped; EmbedderMismatch, where no job that needs an embedder can be done here.
        """
        with self.app.database.transaction(projects=[self.project.id]) as connection:
            begun = store.begin_job(connection, self.id, project_id=self.project.id)
        if begun is None:
            return "gone"
        if begun.starts > MOST_STARTS:
            return self._give_up(_deadly(begun.starts - 1), failures=begun.failures)
        work = Work()
        try:
            with self._heard_by(work), working(work), keeping_to(self.project.id):
                done = self._work(begun)
        except Stopped:
            self._end(failures=begun.failures)
            raise
        except EmbedderMismatch as error:  # another worker's settings may be right
            self._end(failures=begun.failures, error=error_of(error))
            raise
        except LastroError as error:
            if work.was_stopped:
                self._end(failures=begun.failures)
                raise Stopped from error
            return self._failed(error, failures=begun.failures + 1)
        except Exception as error:  # noqa: BLE001 - a bug ends its job, and no other
            self.say(f"job {self.id} met what should not have happened: {place_of(error)}")
            return self._give_up(error_of(error), failures=begun.failures)
        if done.missing is not None:
            return self._await_embedder(done, done.missing, failures=begun.failures)
        self._end(failures=begun.failures, outcome=done.outcome, report=done.report)
        return done.outcome

    @contextmanager
    def _heard_by(self, work: Work) -> Generator[None]:
        """Stop what waits for its turn, for a server or for one long statement, too."""
        ended = threading.Event()

        def listen() -> None:
            while not ended.wait(LISTEN_S):
                try:
                    self.stop()
                except Stopped:
                    work.stop()
                    return

        listener = threading.Thread(target=listen, name=f"listening for job {self.id}", daemon=True)
        listener.start()
        try:
            yield
        finally:
            ended.set()
            listener.join()

    def _work(self, begun: BegunJob) -> Done:
        match known_kind(begun.kind):
            case "index":
                index = read_index_request(begun.request, project=self.project.slug)
                return self._indexed(self.app.index(index, progress=self._progress()))
            case "reindex":
                again = read_reindex_request(begun.request, project=self.project.slug)
                return self._indexed(self.app.reindex(again, progress=self._progress()))
            case "repair":
                require_known(begun.request, frozenset())
                return self._repair()
            case "gaps":
                require_known(begun.request, frozenset())
                return self._gaps()
            case "statistics":
                require_known(begun.request, frozenset())
                self.app.refresh_statistics(self.project.slug)
                return Done(outcome="done", report={})

    def _indexed(self, report: IndexReport) -> Done:
        if not report.embedding.available:
            self._defer("repair", in_s=self.probe_interval_s)
        counts = report.documents
        if counts.added or counts.changed or counts.renamed or counts.removed:
            self._resolve_gaps()
        is_whole = not counts.skipped and report.embedding.reason is None
        return Done(outcome="done" if is_whole else "partial", report=index_report_json(report))

    def _repair(self) -> Done:
        made = self.app.repair(self.project.slug, progress=self._progress()).embedding
        if made.embedded:
            self._resolve_gaps()
        return Done(
            outcome="done" if made.reason is None else "partial",
            report={"embedding": embedding_json(made)},
            missing=None if made.available else made,
        )

    def _gaps(self) -> Done:
        progress = self._progress()
        resolved = self.app.gaps(self.project.slug).resolve(progress=progress)
        return Done(
            outcome="partial" if resolved.degraded else "done",
            report={
                "resolved": len(resolved.resolved),
                "remaining": resolved.remaining,
                "degraded": dict(resolved.degraded),
            },
        )

    def _resolve_gaps(self) -> None:
        """Ask open questions again, now that there are other texts to answer them."""
        with self.app.database.transaction(projects=[self.project.id]) as connection:
            open_gaps = store.count_open_gaps(connection, self.project.id)
        if open_gaps:
            self._defer("gaps")

    def _defer(self, kind: JobKind, *, in_s: float | None = None) -> None:
        defer(self.app.database, self.project.id, kind, {}, in_s=in_s)

    def _await_embedder(self, done: Done, missing: EmbeddingCounts, *, failures: int) -> Again:
        """Ask again later whether the embedder is back: that is no failure of the job."""
        error = JobError(
            code="PROVIDER_ERROR",
            message=f"the embedder is not there ({missing.reason}); {missing.skipped} texts or "
            "more have no vector",
            remedy="`lastro doctor` says what is wrong; the rest comes by itself",
        )
        self._end(failures=failures, report=done.report, error=error)
        return Again(in_s=self.probe_interval_s, failures=failures, why=error.message)

    def _failed(self, error: LastroError, *, failures: int) -> Outcome | Again:
        pause_s = self.retry.pause_s(failures) if is_transient(error) else None
        if pause_s is None:
            return self._give_up(error_of(error), failures=failures)
        told = error_of(error)
        # Where the database is away: what it is not told now, the next attempt will tell.
        with contextlib.suppress(LastroError):
            self._end(failures=failures, error=told)
        return Again(in_s=pause_s, failures=failures, why=told.message)

    def _give_up(self, error: JobError, *, failures: int) -> Outcome:
        self._end(failures=failures, error=error)
        return "failed"

    def _end(
        self,
        *,
        failures: int,
        outcome: Literal["done", "partial"] | None = None,
        report: Mapping[str, Any] | None = None,
        error: JobError | None = None,
    ) -> None:
        with self.app.database.transaction(projects=[self.project.id]) as connection:
            store.end_job(
                connection,
                self.id,
                project_id=self.project.id,
                failures=failures,
                outcome=outcome,
                report=report,
                error=None if error is None else to_json(error),
            )

    def _progress(self) -> "NotedProgress":
        return NotedProgress(run=self)


@dataclass(slots=True)
class NotedProgress:
    """Asks whether to stop, and writes down how far the work is, once a second at most."""

    run: JobRun
    noted_at: float = field(default_factory=time.monotonic)

    def __call__(self, done: int, total: int) -> None:
        """Work done, and all there is to do. Errors: Stopped."""
        run = self.run
        run.stop()
        if time.monotonic() - self.noted_at < NOTE_S:
            return
        with run.app.database.transaction(projects=[run.project.id]) as connection:
            store.note_progress(
                connection, run.id, project_id=run.project.id, done=done, total=total
            )
        self.noted_at = time.monotonic()


def _deadly(times: int) -> JobError:
    return JobError(
        code="INTERNAL",
        message=f"its worker ended {times} times while this job ran",
        remedy="see what ended the worker (memory?), then `lastro jobs retry`",
    )
