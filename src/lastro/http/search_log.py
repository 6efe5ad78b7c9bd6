"""The route of the log of searches."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from lastro.app import App
from lastro.http.pages import Page
from lastro.http.routes import Routes
from lastro.http.schemas import page_of, schema_of
from lastro.logged_search import LoggedSearch, SearchPlace
from lastro.moments import parse_since
from lastro.paging import not_a_cursor


class SearchPage(Page):
    """Which page of the searches: those answered since a time, slow, degraded or abstained."""

    since: str | None = None
    slow_ms: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    degraded: bool = False
    abstained: bool = False


def add_search_log_route(routes: Routes, app: App) -> None:
    """``/rag/searches`` of a project."""

    def list_searches(project: str, page: Annotated[SearchPage, Query()]) -> Response:
        """Searches that were answered, the newest first; a new one is there within a second.

        `slowMs` asks for those that took as long or longer.
        """
        since = None if page.since is None else parse_since(page.since, now=datetime.now(UTC))
        found = app.searches(project).list(
            since=since,
            slow_ms=page.slow_ms,
            degraded=page.degraded,
            abstained=page.abstained,
            before=_before(page),
            limit=page.looked_at,
        )
        return page.answer("searches", found, place=_place)

    listed = page_of("searches", schema_of(LoggedSearch, routes.definitions))
    routes.add(
        "GET",
        "/api/projects/{project}/rag/searches",
        list_searches,
        action="read_searches",
        answers={200: listed},
    )


def _place(search: LoggedSearch) -> list[str | int]:
    return [search.at.isoformat(), search.id]


def _before(page: Page) -> SearchPlace | None:
    """The search behind which the page begins. Errors: InvalidInput."""
    place = page.after("searches", str, str)
    if place is None:
        return None
    at, id_ = place
    try:
        return SearchPlace(at=datetime.fromisoformat(at), id=UUID(id_))
    except ValueError as error:
        raise not_a_cursor() from error
