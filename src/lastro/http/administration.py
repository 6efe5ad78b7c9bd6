"""Routes of projects, what they cost, and the keys that open them."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from lastro.app import App
from lastro.erasing import Erased
from lastro.errors import InvalidInput
from lastro.http.answers import answer
from lastro.http.asking import principal_of
from lastro.http.observing import LOG
from lastro.http.pages import Asked, Page
from lastro.http.routes import Routes
from lastro.http.schemas import page_of, schema_of
from lastro.http.shapes import KeyBody, RotateBody
from lastro.key import ApiKey, NewKey, RotatedKey
from lastro.moments import parse_since
from lastro.types import ProjectSummary
from lastro.usage import Usage

AT = "/api/projects"


class Confirmed(Asked):
    """That the project that goes is the one that is meant."""

    confirm: str = ""


class Since(Asked):
    """From when on; by default this month."""

    since: str | None = None


def add_administration_routes(routes: Routes, app: App) -> None:
    """Projects listed and erased, usage, keys."""
    _add_projects(routes, app)
    _add_keys(routes, app)


def _add_projects(routes: Routes, app: App) -> None:
    def list_projects(request: Request, page: Annotated[Page, Query()]) -> Response:
        """The project of the key; every project where the service is open."""
        principal = principal_of(request)
        whole = app.projects(None if principal is None else principal.slug)
        return page.cut("projects", whole, place=lambda project: [project.slug], kinds=[str])

    def get_project(project: str) -> Response:
        """A project with its counts."""
        return answer(app.projects(project)[0])

    def erase_project(project: str, asked: Annotated[Confirmed, Query()]) -> Response:
        """Erase the project for good, with its keys; `confirm` repeats its name."""
        if asked.confirm != project:
            raise InvalidInput(
                f"erasing {project!r} is not confirmed",
                remedy=f"repeat its name: ?confirm={project}",
            )
        erased = app.erase_project(project)
        if not erased.vacuumed:
            LOG.warning("not vacuumed", extra={"why": erased.not_vacuumed})
        return answer(erased)

    def get_usage(project: str, asked: Annotated[Since, Query()]) -> Response:
        """What embedding cost the project since a time, by default this month."""
        since = None if asked.since is None else parse_since(asked.since, now=datetime.now(UTC))
        return answer(app.usage(since=since, project=project))

    summary = schema_of(ProjectSummary, routes.definitions)
    tags = ("projects",)
    at = f"{AT}/{{project}}"
    listed = page_of("projects", summary)
    routes.add("GET", AT, list_projects, action="list_projects", answers={200: listed}, tags=tags)
    routes.add("GET", at, get_project, action="list_projects", answers={200: summary}, tags=tags)
    routes.add(
        "DELETE",
        at,
        erase_project,
        action="erase_project",
        is_long=True,
        answers={200: Erased},
        tags=tags,
    )
    routes.add(
        "GET", f"{at}/usage", get_usage, action="read_usage", answers={200: Usage}, tags=tags
    )


def _add_keys(routes: Routes, app: App) -> None:
    def create_key(project: str, body: KeyBody) -> Response:
        """Make a key. The answer is the only place where it is ever told."""
        made = app.keys.create(
            project, role=body.role, expires_at=body.expires_at, label=body.label
        )
        return answer(made, status=201)

    def list_keys(project: str, page: Annotated[Page, Query()]) -> Response:
        """The project's keys in any state, without their secrets, the newest first."""
        whole = app.keys.list(project)
        return page.cut("keys", whole, place=_key_place, kinds=[str, str], reverse=True)

    def revoke_key(project: str, key: str) -> Response:
        """Refuse a key from the next request on."""
        return answer(app.keys.revoke(project, key))

    def rotate_key(project: str, key: str, body: RotateBody) -> Response:
        """Give a key another secret, told here alone.

        The former secret is taken until `formerUntil`, or no more.
        """
        rotated = app.keys.rotate(
            project, key, former_until=body.former_until, expires_at=body.expires_at
        )
        return answer(rotated)

    at = f"{AT}/{{project}}/keys"
    kept = schema_of(ApiKey, routes.definitions)
    for method, path, endpoint, answers in (
        ("POST", at, create_key, {201: NewKey}),
        ("GET", at, list_keys, {200: page_of("keys", kept)}),
        ("DELETE", f"{at}/{{key}}", revoke_key, {200: kept}),
        ("POST", f"{at}/{{key}}/rotate", rotate_key, {200: RotatedKey}),
    ):
        routes.add(method, path, endpoint, action="manage_keys", answers=answers, tags=("keys",))


def _key_place(key: ApiKey) -> list[str]:
    return [key.created_at.astimezone(UTC).isoformat(timespec="microseconds"), key.id]
