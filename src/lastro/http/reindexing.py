"""The route that indexes a project again."""

from typing import Annotated
from urllib.parse import quote

from fastapi import Query
from starlette.responses import Response

from lastro.app import App
from lastro.http.answers import answer
from lastro.http.pages import Asked
from lastro.http.routes import Routes
from lastro.http.shapes import ReindexBody
from lastro.job import Deferred
from lastro.types import IndexReport, ReindexRequest


class Waiting(Asked):
    """Whether the answer is waited for."""

    wait: bool = False


def add_reindex_route(routes: Routes, app: App) -> None:
    """``/rag/reindex`` of a project."""

    def reindex(project: str, body: ReindexBody, asked: Annotated[Waiting, Query()]) -> Response:
        """Index what the project has again; `wait=true` does it now, and answers its report."""
        request = ReindexRequest(
            project=project, scopes=tuple(body.scopes or ()), ref=body.ref, rebuild=body.rebuild
        )
        if asked.wait:
            return answer(app.reindex(request))
        deferred = Deferred(job=app.defer_reindex(request), workers=app.workers())
        place = f"/api/projects/{quote(project, safe='')}/jobs/{deferred.job.id}"
        return answer(deferred, status=202, headers={"Location": place})

    routes.add(
        "POST",
        "/api/projects/{project}/rag/reindex",
        reindex,
        action="reindex",
        answers={202: Deferred, 200: IndexReport},
        may_wait=True,
    )
