"""Work that a worker does later: what a job is, its states, and when it is tried again. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from lastro.error_place import place_of
from lastro.errors import Contention, DatabaseUnavailable, InvalidInput, LastroError, RemoteError
from lastro.types import (
    DEFAULT_REF,
    OPTIONAL,
    EmbeddingCounts,
    IndexReport,
    IndexRequest,
    ReindexRequest,
)

JobKind = Literal["index", "reindex", "repair", "gaps", "statistics"]
KINDS: tuple[JobKind, ...] = get_args(JobKind)
# waiting: for its time; stalled: its worker is gone, and another will take it up.
JobState = Literal[
    "queued", "waiting", "running", "stopping", "stalled", "done", "partial", "failed", "cancelled"
]
STATES: tuple[JobState, ...] = get_args(JobState)
OVER: frozenset[JobState] = frozenset({"done", "partial", "failed", "cancelled"})

# A worker that has been silent for so long counts as dead; it says something three times as often.
WORKER_LOST_S = 30.0
BEATS_PER_LOSS = 3
# Between two questions whether an embedder is back: a minute late is early for a repair.
PROBE_INTERVAL_S = 60.0
LISTED_JOBS = 50
# Jobs of one project run one after the other. One that waits may hold up those of a lower priority
# and no other, so what waits long stands below, and each failure lowers a job by one.
PRIORITIES: Mapping[JobKind, int] = {
    "index": 0,
    "reindex": 0,
    "statistics": -20,
    "gaps": -20,
    "repair": -40,
}
# A job that was begun so often, and never ended, takes its worker down.
MOST_STARTS = 5
# Of the way to a fault that nobody expected: who called, and where it was.
KEPT_FRAMES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Pauses double from the first to the longest; after ``failures`` of them it is given up."""

    first_pause_s: float = 5.0
    longest_pause_s: float = 300.0
    failures: int = 8

    def pause_s(self, failures: int) -> float | None:
        """Seconds to wait after so many failures, counted from 1; None where it is given up."""
        if failures > self.failures:
            return None
        return min(self.longest_pause_s, self.first_pause_s * 2 ** (failures - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """Work done, and all there is to do where that is known."""

    done: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """What the last attempt failed with."""

    code: str
    message: str
    remedy: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it stands; times are None where there was no such moment, or will be none.

    ``attempts`` counts those that ended, ``error`` is that of the last one that failed, and
    ``report`` counts what was done.
    """

    id: int
    project: str
    kind: str
    state: JobState
    request: Mapping[str, Any]
    progress: JobProgress | None
    attempts: int
    deferred_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    next_attempt_at: datetime | None
    report: Mapping[str, Any] | None
    error: JobError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """How many workers are alive, and when one was last heard of that did not end in order."""

    live: int
    last_seen: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A job that waits, and who is there to run it."""

    job: Job
    workers: Workers


def read_states(asked: Sequence[str] | None) -> list[JobState] | None:
    """The states called so, None for all. Errors: InvalidInput for one that no job is ever in."""
    unknown = [state for state in asked or () if state not in STATES]
    if unknown:
        raise InvalidInput(
            f"no job is ever {unknown[0]!r}; the states are {', '.join(STATES)}",
            remedy="name one of them",
        )
    return None if asked is None else [state for state in STATES if state in asked]


def queue_of(kind: str) -> str:
    """The queue of a kind: a worker takes from those that it knows, and leaves others alone."""
    return f"lastro.{kind}"


def lock_of(project_id: int) -> str:
    """What one running job of a project holds."""
    return f"project {project_id}"


def key_of(kind: JobKind, request: Mapping[str, Any]) -> str:
    """What makes two triggers one job: the kind, and the place that is indexed."""
    place = {"index": "path", "reindex": "source"}.get(kind)
    named = request.get(place) if place else None
    return kind if named is None else f"{kind} {named}"


def queueing_lock_of(project_id: int, key: str) -> str:
    """A key as the queue holds it, which is no place for a path."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{project_id} {digest[:32]}"


def index_request_json(request: IndexRequest) -> dict[str, Any]:
    """What an index job keeps of a request; its project is the job's."""
    return {
        "path": str(request.path),
        "ref": request.ref,
        "worktree": request.worktree,
        "rebuild": request.rebuild,
    }


def read_index_request(said: Mapping[str, Any], *, project: str) -> IndexRequest:
    """The request that a job keeps. Errors: InvalidInput for one of another release."""
    known = {"path": str, "ref": str, "worktree": bool, "rebuild": bool}
    require_known(said, frozenset(known))
    if not all(isinstance(said.get(name), kind) for name, kind in known.items()):
        raise InvalidInput(
            f"this job's request is not understood: {json.dumps(dict(said))}",
            remedy="give the command again",
        )
    return IndexRequest(**said, project=project)


def reindex_request_json(request: ReindexRequest) -> dict[str, Any]:
    """What a reindex job keeps of a request: what was named; its project is the job's."""
    said = {
        "scopes": list(request.scopes),
        "ref": request.ref,
        "rebuild": request.rebuild,
        "source": request.source,
    }
    return {name: value for name, value in said.items() if value}


def read_reindex_request(said: Mapping[str, Any], *, project: str) -> ReindexRequest:
    """The request that a job keeps. Errors: InvalidInput for one of another release."""
    require_known(said, frozenset({"scopes", "ref", "rebuild", "source"}))
    return ReindexRequest(
        project=project,
        scopes=tuple(said.get("scopes", ())),
        ref=said.get("ref"),
        rebuild=said.get("rebuild", False),
        source=said.get("source"),
    )


def require_known(said: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse a request with a part that this release would leave out. Errors: InvalidInput."""
    unknown = sorted(set(said) - known)
    if unknown:
        raise InvalidInput(
            f"this job asks for what this release does not know ({', '.join(unknown)})",
            remedy="run a worker of the release that deferred it, then `lastro jobs retry`",
        )


def merged(queued: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a job that waits is to do when it is asked for again: the last word, and all of both."""
    both: dict[str, Any] = {"ref": queued["ref"]} if "ref" in queued else {}
    both |= asked
    if queued.get("rebuild"):
        both["rebuild"] = True
    if asked.get("scopes"):
        # Without a scope, all of them were asked for.
        both["scopes"] = sorted({*asked["scopes"], *queued["scopes"]}) if "scopes" in queued else []
    return {name: value for name, value in both.items() if name != "scopes" or value}


def is_transient(error: LastroError) -> bool:
    """Whether the same work may succeed later as it is."""
    return isinstance(error, Contention | DatabaseUnavailable | RemoteError)


def error_of(error: BaseException) -> JobError:
    """An error as a job keeps it: our own words.

    Another's may quote a text: of it stay its kind and its place.
    """
    if isinstance(error, LastroError):
        return JobError(code=error.code, message=error.message, remedy=error.remedy)
    return JobError(
        code=LastroError.code,
        message=f"this should not have happened: {place_of(error, frames=KEPT_FRAMES)}",
        remedy="run the command without --background to see more, and report it",
    )


def index_report_json(report: IndexReport) -> dict[str, Any]:
    """An index report as a job keeps it: counts, and no list of files."""
    counts = report.documents
    return {
        "revision": report.revision,
        "documents": {
            "added": counts.added,
            "changed": counts.changed,
            "renamed": counts.renamed,
            "removed": counts.removed,
            "unchanged": counts.unchanged,
            "skipped": len(counts.skipped),
        },
        "chunks": report.chunks,
        "embedding": embedding_json(report.embedding),
        "tookMs": report.took_ms,
    }


def embedding_json(counts: EmbeddingCounts) -> dict[str, Any]:
    """Vectors made and left out."""
    return {
        "available": counts.available,
        "embedded": counts.embedded,
        "skipped": counts.skipped,
        "reason": counts.reason,
    }


def summary(kind: str, request: Mapping[str, Any]) -> str:
    """What a job does, in a few words."""
    place = str(request.get("path" if kind == "index" else "source", ""))
    ref = "" if request.get("ref", DEFAULT_REF) == DEFAULT_REF else f"at {request['ref']}"
    flags = [name for name in ("worktree", "rebuild") if request.get(name)]
    return " ".join(word for word in (kind, place, ref, *flags, *request.get("scopes", ())) if word)
