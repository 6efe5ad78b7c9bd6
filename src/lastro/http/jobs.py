"""Routes of jobs: what workers do for the project, and to maintainers where."""

from dataclasses import replace
from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from lastro.app import App
from lastro.http.answers import answer
from lastro.http.asking import UNTOLD, may
from lastro.http.pages import Page
from lastro.http.remedies import remedy_in_http
from lastro.http.routes import Routes
from lastro.http.schemas import may_be_untold, page_of, schema_of
from lastro.job import Job, JobError, JobState
from lastro.wire import to_json

AT = "/api/projects/{project}/jobs"
TAGS = ("jobs",)
# A bigint.
JobId = Annotated[int, Path(ge=1, lt=2**63)]


class JobPage(Page):
    """Which page of the jobs, in one of these states where any is named."""

    state: list[JobState] | None = None


def add_job_routes(routes: Routes, app: App) -> None:
    """Jobs listed, read, cancelled and tried again."""

    def list_jobs(project: str, request: Request, page: Annotated[JobPage, Query()]) -> Response:
        """The project's jobs, the newest first; a maintainer is told what each was asked."""
        before = page.after_one("jobs", int)
        found = app.jobs(project).list(states=page.state, before=before, limit=page.looked_at)
        return page.answer(
            "jobs", found, place=lambda job: [job.id], told=lambda job: _shown(request, job)
        )

    def get_job(project: str, job: JobId, request: Request) -> Response:
        """A job as it stands; a maintainer is told what it was asked."""
        return answer(_shown(request, app.jobs(project).get(job)))

    def cancel_job(project: str, job: JobId, request: Request) -> Response:
        """Cancel a job that waits; one that runs stops at its next file or batch."""
        return answer(_shown(request, app.jobs(project).cancel(job)))

    def retry_job(project: str, job: JobId, request: Request) -> Response:
        """Do again what a job did that is over; the answer is the new job."""
        return answer(_shown(request, app.jobs(project).retry(job)), status=202)

    one = schema_of(Job, routes.definitions)
    may_be_untold(routes.definitions["Job"], "request")
    listed = page_of("jobs", one)
    routes.add("GET", AT, list_jobs, action="list_jobs", answers={200: listed}, tags=TAGS)
    at = f"{AT}/{{job}}"
    routes.add("GET", at, get_job, action="list_jobs", answers={200: one}, tags=TAGS)
    for verb, endpoint, status in (("cancel", cancel_job, 200), ("retry", retry_job, 202)):
        routes.add(
            "POST",
            f"{at}/{verb}",
            endpoint,
            action="cancel_jobs",
            answers={status: one},
            tags=TAGS,
        )


def _shown(request: Request, job: Job) -> object:
    """The job, to others than maintainers without the folders and addresses that it names."""
    error = job.error
    if may(request, "cancel_jobs"):
        if error is None or error.remedy is None:
            return job
        return replace(job, error=replace(error, remedy=remedy_in_http(error.remedy)))
    error = error and JobError(code=error.code, message=UNTOLD)
    return {**to_json(replace(job, error=error)), "request": None}
