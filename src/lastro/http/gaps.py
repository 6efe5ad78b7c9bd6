"""Routes of questions that found nothing: listed, dismissed, reopened, asked again, accepted."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from lastro.app import App
from lastro.gap import Gap, GapPlace, GapStatus
from lastro.gaps import Accepted, Dismissed, Reopened, Resolved
from lastro.http.answers import answer
from lastro.http.bodies import json_body, read_as
from lastro.http.pages import Page
from lastro.http.routes import Routes
from lastro.http.schemas import page_of, schema_of
from lastro.http.shapes import AcceptBody, GapsBody, ResolveBody, shape_of
from lastro.moments import parse_since
from lastro.paging import not_a_cursor

AT = "/api/projects/{project}/gaps"
TAGS = ("gaps",)


class GapPage(Page):
    """Which page of the gaps, of one status or missed since a time where named."""

    status: GapStatus | None = None
    since: str | None = None


def add_gap_routes(routes: Routes, app: App) -> None:
    """Gaps listed and decided on."""

    def list_gaps(project: str, page: Annotated[GapPage, Query()]) -> Response:
        """Gaps, those asked most often first, then the latest.

        One that is asked again between two pages moves towards the first.
        """
        since = None if page.since is None else parse_since(page.since, now=datetime.now(UTC))
        found = app.gaps(project).list(
            status=page.status, since=since, after=_after(page), limit=page.looked_at
        )
        return page.answer("gaps", found, place=_place)

    def dismiss_gaps(project: str, body: GapsBody) -> Response:
        """Close gaps that need no answer; `unknown` are those that no gap is called."""
        return answer(app.gaps(project).dismiss(body.ids))

    def reopen_gaps(project: str, body: GapsBody) -> Response:
        """Let gaps wait for an answer again; those stay `accepted` that a golden set asks."""
        return answer(app.gaps(project).reopen(body.ids))

    def resolve_gaps(project: str, request: Request) -> Response:
        """Ask gaps again, all open ones where none is named, and close those answered now."""
        body = read_as(ResolveBody, request)
        return answer(app.gaps(project).resolve(body.ids, profile=body.profile))

    def accept_gap(project: str, gap: str, body: AcceptBody) -> Response:
        """Make a gap a question of a golden set, answered at `places` or `unanswerable`."""
        return answer(
            app.gaps(project).accept(
                gap,
                body.places,
                unanswerable=body.unanswerable,
                grade=body.grade,
                golden=body.golden,
                language=body.language,
            )
        )

    listed = page_of("gaps", schema_of(Gap, routes.definitions))
    routes.add("GET", AT, list_gaps, action="list_gaps", answers={200: listed}, tags=TAGS)
    routes.add(
        "POST",
        f"{AT}/dismiss",
        dismiss_gaps,
        action="decide_gaps",
        answers={200: Dismissed},
        tags=TAGS,
    )
    routes.add(
        "POST",
        f"{AT}/reopen",
        reopen_gaps,
        action="decide_gaps",
        answers={200: Reopened},
        tags=TAGS,
    )
    routes.add(
        "POST",
        f"{AT}/resolve",
        resolve_gaps,
        action="decide_gaps",
        body=json_body(*shape_of(ResolveBody), required=False),
        is_long=True,
        answers={200: Resolved},
        tags=TAGS,
    )
    routes.add(
        "POST",
        f"{AT}/{{gap}}/accept",
        accept_gap,
        action="decide_gaps",
        answers={200: Accepted},
        tags=TAGS,
    )


def _place(gap: Gap) -> list[str | int]:
    return [gap.hit_count, gap.last_seen.isoformat(), gap.id]


def _after(page: Page) -> GapPlace | None:
    """The gap behind which the page begins. Errors: InvalidInput."""
    place = page.after("gaps", int, str, str)
    if place is None:
        return None
    count, seen, id_ = place
    try:
        return GapPlace(hit_count=count, last_seen=datetime.fromisoformat(seen), id=UUID(id_))
    except ValueError as error:
        raise not_a_cursor() from error
