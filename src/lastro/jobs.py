"""Jobs of a project: deferred, listed, waited for, cancelled; ``worker.py`` runs them."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastro import store
from lastro.db.pool import Database, retried
from lastro.errors import Conflict, InvalidInput, NotFound
from lastro.job import (
    KINDS,
    LISTED_JOBS,
    OVER,
    WORKER_LOST_S,
    Job,
    JobError,
    JobKind,
    JobProgress,
    Workers,
    index_request_json,
    key_of,
    merged,
    read_states,
)
from lastro.paging import check_limit, is_bigint
from lastro.projects import folder_slug, project_named, project_of_place, project_to_index
from lastro.sources.addresses import Address
from lastro.sources.listing import check_request, find_place, locate
from lastro.store import AppConnection, JobRow, Project
from lastro.types import IndexRequest

# Of a job that is waited for.
POLL_S = 0.25
# Others that defer the same job at the same moment: the second look finds theirs.
DEFER_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBoard:
    """The jobs of one project.

    ``lost_s`` is how long a worker may be silent before it counts as gone.
    Errors of every method: NotFound for the project, and for an id that is no job of it.
    """

    database: Database
    project: str
    lost_s: float = WORKER_LOST_S

    def defer(
        self,
        kind: JobKind,
        request: Mapping[str, Any] | None = None,
        *,
        in_s: float | None = None,
    ) -> Job:
        """Have a worker do this, in so many seconds or as soon as it can.

        What waits already is the same job: it is due at the earlier time, and does what was asked
        last (and rebuilds where either asked for that).
        """
        tenant = project_named(self.database, self.project)
        id_ = defer(self.database, tenant.id, kind, request or {}, in_s=in_s)
        return self._get(tenant, id_)

    def list(
        self,
        *,
        states: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = LISTED_JOBS,
    ) -> list[Job]:
        """The newest first, those older than ``before``. Errors: InvalidInput."""
        tenant = project_named(self.database, self.project)
        return listed(
            self.database,
            [tenant],
            lost_s=self.lost_s,
            states=states,
            before=before,
            limit=limit,
        )

    def get(self, id_: int) -> Job:
        """One job as it stands."""
        return self._get(project_named(self.database, self.project), id_)

    def cancel(self, id_: int) -> Job:
        """Cancel a job that waits; one that runs stops at its next file or batch.

        Errors: Conflict where it is over.
        """
        tenant = project_named(self.database, self.project)
        job = self._get(tenant, id_)
        with self.database.transaction(projects=[tenant.id]) as connection:
            if job.state == "stalled":  # nobody is there who could stop it
                store.take_back(connection, lost_s=self.lost_s, id_=id_)
            if not store.cancel_job(connection, id_, project_id=tenant.id):
                raise Conflict(
                    f"job {id_} is over ({self._get(tenant, id_).state})",
                    remedy="see `lastro jobs`",
                )
        return self._get(tenant, id_)

    def retry(self, id_: int) -> Job:
        """Defer again what a job did that is over; returns the new job.

        Errors: Conflict where it is not over, InvalidInput for a kind of another release.
        """
        tenant = project_named(self.database, self.project)
        job = self._get(tenant, id_)
        if job.state not in OVER:
            raise Conflict(
                f"job {id_} is not over: it is {job.state}",
                remedy=f"wait for it, or `lastro jobs cancel {id_}` first",
            )
        return self._get(tenant, defer(self.database, tenant.id, known_kind(job.kind), job.request))

    def wait(self, id_: int, *, timeout_s: float | None = None) -> Job:
        """Return the job once it is over, or as it is after ``timeout_s``."""
        tenant = project_named(self.database, self.project)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            job = self._get(tenant, id_)
            if job.state in OVER or (deadline is not None and time.monotonic() >= deadline):
                return job
            time.sleep(POLL_S)

    def _get(self, tenant: Project, id_: int) -> Job:
        asked = [id_] if is_bigint(id_) else []
        found = listed(self.database, [tenant], lost_s=self.lost_s, ids=asked)
        if not found:
            raise NotFound(
                f"the project {tenant.slug!r} has no job {id_}", remedy="see `lastro jobs`"
            )
        return found[0]


def workers(database: Database, *, lost_s: float = WORKER_LOST_S) -> Workers:
    """How many workers are alive: they work for every project of the database."""
    with database.transaction() as connection:
        return store.worker_facts(connection, lost_s=lost_s)


def list_everywhere(
    database: Database,
    *,
    lost_s: float = WORKER_LOST_S,
    states: Sequence[str] | None = None,
    limit: int | None = LISTED_JOBS,
) -> list[Job]:
    """Jobs of every project, the newest first. Errors: InvalidInput."""
    with database.transaction() as connection:
        tenants = store.all_projects(connection)
    return listed(database, tenants, lost_s=lost_s, states=states, limit=limit)


def defer_index(database: Database, request: IndexRequest, *, lost_s: float) -> Job:
    """Have a worker index a place at its ref's head, which is found when it runs; or repair.

    The project is created where it is missing. Errors: those of ``lastro.indexing.index`` that
    show without reading the source.
    """
    check_request(request)
    place = find_place(request.path)
    if request.repair:
        slug = request.project or project_of_place(database, place)
        return JobBoard(database=database, project=slug, lost_s=lost_s).defer("repair")
    place = locate(place, worktree=request.worktree)
    at, name = (
        (place.url, place.name) if isinstance(place, Address) else (str(place), folder_slug(place))
    )
    slug = request.project or project_to_index(database, at, name=name)
    with database.transaction() as connection:
        store.ensure_project(connection, slug)
    asked = {**index_request_json(request), "path": at}
    return JobBoard(database=database, project=slug, lost_s=lost_s).defer("index", asked)


def defer(
    database: Database,
    project_id: int,
    kind: JobKind,
    request: Mapping[str, Any],
    *,
    in_s: float | None = None,
) -> int:
    """Queue a job, or ask for the one again that waits; returns its id. Errors: as a project's."""
    key = key_of(kind, request)

    def once() -> int:
        with database.transaction(projects=[project_id]) as connection:
            return _defer(connection, project_id, kind, key, request, in_s=in_s)

    for _attempt in range(1, DEFER_ATTEMPTS):
        try:
            return retried(once)
        except Conflict:
            continue
    return retried(once)


def _defer(
    connection: AppConnection,
    project_id: int,
    kind: JobKind,
    key: str,
    request: Mapping[str, Any],
    *,
    in_s: float | None,
) -> int:
    waiting = store.waiting_job(connection, key, project_id=project_id)
    if waiting is None:
        return store.defer_job(connection, kind, key, request, project_id=project_id, in_s=in_s)
    id_, queued = waiting
    store.renew_job(connection, id_, merged(queued, request), project_id=project_id, in_s=in_s)
    return id_


def listed(
    database: Database,
    tenants: Sequence[Project],
    *,
    lost_s: float,
    ids: Sequence[int] | None = None,
    states: Sequence[str] | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> list[Job]:
    """Jobs of the named projects, the newest first, older than ``before``. Errors: InvalidInput."""
    check_limit(limit, of="job")
    asked = read_states(states)
    names = {tenant.id: tenant.slug for tenant in tenants}
    with database.transaction(projects=list(names)) as connection:
        rows = store.list_jobs(
            connection,
            list(names),
            lost_s=lost_s,
            ids=ids,
            states=asked,
            before=before,
            limit=limit,
        )
    return list(_told(rows, names))


def _told(rows: Sequence[JobRow], names: Mapping[int, str]) -> Iterator[Job]:
    for row in rows:
        yield Job(
            id=row.id,
            project=names[row.project_id],
            kind=row.kind,
            state=row.state,
            request=row.request,
            progress=None if row.done is None else JobProgress(done=row.done, total=row.total),
            attempts=row.attempts,
            deferred_at=row.deferred_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            next_attempt_at=row.next_attempt_at,
            report=row.report,
            error=None if row.error is None else JobError(**row.error),
        )


def known_kind(kind: str) -> JobKind:
    """The kind called so. Errors: InvalidInput for one of another release."""
    for known in KINDS:
        if known == kind:
            return known
    raise InvalidInput(
        f"this release knows no job of the kind {kind!r}", remedy="use the release that deferred it"
    )
