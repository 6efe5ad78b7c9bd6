"""Jobs of projects, and the rows of the queue behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.job import (
    PRIORITIES,
    JobKind,
    JobState,
    Workers,
    lock_of,
    queue_of,
    queueing_lock_of,
)
from lastro.sql import load_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job with all that is known of it."""

    project_id: int
    id: int
    kind: str
    request: dict[str, Any]
    done: int | None
    total: int | None
    report: dict[str, Any] | None
    error: dict[str, str] | None
    deferred_at: datetime
    attempts: int
    started_at: datetime | None
    finished_at: datetime | None
    next_attempt_at: datetime | None
    state: JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunJob:
    """What a fetched job is to do, how often it was begun without an end, and failed."""

    kind: str
    request: dict[str, Any]
    starts: int
    failures: int


def defer_job(
    connection: AppConnection,
    kind: JobKind,
    key: str,
    request: Mapping[str, Any],
    *,
    project_id: int,
    in_s: float | None,
) -> int:
    """Queue a job; returns its id. Errors: Conflict where one of its key waits already."""
    row = connection.execute(
        load_queries("jobs")["defer_job"],
        {
            "queue": queue_of(kind),
            "task": queue_of(kind),
            "priority": PRIORITIES[kind],
            "lock": lock_of(project_id),
            "queueing_lock": queueing_lock_of(project_id, key),
            "project_id": project_id,
            "in_s": in_s,
            "kind": kind,
            "key": key,
            "request": Jsonb(dict(request)),
        },
    ).fetchone()
    assert row is not None
    return int(row[0])


def waiting_job(
    connection: AppConnection, key: str, *, project_id: int
) -> tuple[int, dict[str, Any]] | None:
    """Id and request of the job of a key that waits, held until the transaction ends."""
    row = connection.execute(
        load_queries("jobs")["waiting_job"], {"project_id": project_id, "key": key}
    ).fetchone()
    return None if row is None else (int(row[0]), row[1])


def renew_job(
    connection: AppConnection,
    id_: int,
    request: Mapping[str, Any],
    *,
    project_id: int,
    in_s: float | None,
) -> None:
    """Ask for a job that waits again; it is due then, where it was due later."""
    queries = load_queries("jobs")
    key = {"project_id": project_id, "id": id_}
    connection.execute(queries["renew_job"], {**key, "request": Jsonb(dict(request))})
    connection.execute(queries["hasten_job"], {"id": id_, "in_s": in_s})


def begin_job(connection: AppConnection, id_: int, *, project_id: int) -> BegunJob | None:
    """Note that a fetched job begins; None where its project was erased."""
    queries = load_queries("jobs")
    with connection.cursor(row_factory=class_row(BegunJob)) as cursor:
        begun = cursor.execute(
            queries["begin_job"], {"project_id": project_id, "id": id_}
        ).fetchone()
    connection.execute(queries["open_queue"], {"id": id_})
    return begun


def note_progress(
    connection: AppConnection, id_: int, *, project_id: int, done: int, total: int | None
) -> None:
    """Say how far a running job is."""
    connection.execute(
        load_queries("jobs")["note_progress"],
        {"project_id": project_id, "id": id_, "done": done, "total": total},
    )


def end_job(
    connection: AppConnection,
    id_: int,
    *,
    project_id: int,
    failures: int = 0,
    outcome: str | None = None,
    report: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> None:
    """Say what became of a job, or of an attempt that will be followed by another."""
    connection.execute(
        load_queries("jobs")["end_job"],
        {
            "project_id": project_id,
            "id": id_,
            "failures": failures,
            "outcome": outcome,
            "report": None if report is None else Jsonb(dict(report)),
            "error": None if error is None else Jsonb(dict(error)),
        },
    )


def list_jobs(
    connection: AppConnection,
    projects: Sequence[int],
    *,
    lost_s: float,
    ids: Sequence[int] | None = None,
    states: Sequence[JobState] | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> list[JobRow]:
    """Jobs of visible projects, the newest first; those older than ``before``."""
    with connection.cursor(row_factory=class_row(JobRow)) as cursor:
        return cursor.execute(
            load_queries("jobs")["list_jobs"],
            {
                "projects": list(projects),
                "lost_s": lost_s,
                "ids": None if ids is None else list(ids),
                "states": None if states is None else list(states),
                "before": before,
                "limit": limit,
            },
        ).fetchall()


def cancel_job(connection: AppConnection, id_: int, *, project_id: int) -> bool:
    """Cancel a job that waits, or ask one that runs to stop; False where it is over."""
    row = connection.execute(
        load_queries("jobs")["cancel_job"], {"project_id": project_id, "id": id_}
    ).fetchone()
    return row is not None and row[0] is not None


def take_back(connection: AppConnection, *, lost_s: float, id_: int | None = None) -> list[int]:
    """Let jobs of workers that are gone wait again; returns their ids."""
    rows = connection.execute(load_queries("jobs")["take_back"], {"id": id_, "lost_s": lost_s})
    return [int(row[0]) for row in rows]


def worker_facts(connection: AppConnection, *, lost_s: float) -> Workers:
    """How many workers there are, for every project."""
    with connection.cursor(row_factory=class_row(Workers)) as cursor:
        found = cursor.execute(load_queries("jobs")["worker_facts"], {"lost_s": lost_s}).fetchone()
    assert found is not None
    return found


def forget_queue(connection: AppConnection, project_id: int) -> None:
    """Take a project's jobs out of the queue, but for one that runs."""
    connection.execute(load_queries("jobs")["forget_queue"], {"project_id": project_id})


def prune_jobs(connection: AppConnection, projects: Sequence[int], *, kept_s: float) -> None:
    """Forget jobs that have been over for so long, of visible projects."""
    queries = load_queries("jobs")
    connection.execute(queries["prune_queue"], {"kept_s": kept_s})
    connection.execute(queries["prune_jobs"], {"projects": list(projects)})
