"""Routes of the knowledge base: its entries, drafts to editors alone."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from lastro.app import App
from lastro.entity import (
    Entity,
    EntityReport,
    EntityStatus,
    EntitySummary,
    entity_json,
    parse_entity,
)
from lastro.errors import Forbidden, InvalidInput
from lastro.http.answers import answer
from lastro.http.asking import may
from lastro.http.bodies import json_body, lines_body, lines_of, object_of
from lastro.http.pages import Page, Strict
from lastro.http.routes import Routes
from lastro.http.schemas import Schema, line_of, page_of, schema_of

AT = "/api/projects/{project}/entities"
TAGS = ("entities",)
EXAMPLE = {
    "key": "valve-7",
    "title": "Valve 7",
    "text": "Valve 7 is closed at night.",
    "type": "part",
    "status": "published",
    "attributes": {"hall": 2},
}
# What an entry's line may leave out.
OPTIONAL = ("status", "attributes", "rule_weight", "effective_at")


class EntityPage(Page):
    """Which page of the entries, of one type or status where named."""

    type: str | None = None
    status: EntityStatus | None = None


def add_entity_routes(routes: Routes, app: App) -> None:
    """Entries listed, read, stored and removed."""
    _add_reading(routes, app)
    _add_writing(routes, app)


def _add_reading(routes: Routes, app: App) -> None:
    def list_entities(
        project: str, request: Request, page: Annotated[EntityPage, Query()]
    ) -> Response:
        """The entries without their texts, by key; a viewer is shown published ones."""
        after = page.after_one("entities", str)
        found = app.entities(project).list(
            type_=page.type,
            status=_shown_status(request, page.status),
            after=after,
            limit=page.looked_at,
        )
        return page.answer("entities", found, place=lambda entity: [entity.key])

    def get_entity(project: str, entity: str, request: Request) -> Response:
        """An entry whole; a viewer is shown published ones."""
        kept = app.entities(project)
        found = kept.get(entity, published_only=not _sees_all(request))
        return answer(entity_json(found))

    entry = line_of(Entity, routes.definitions, optional=OPTIONAL[2:])
    summary = schema_of(EntitySummary, routes.definitions)
    routes.add(
        "GET",
        AT,
        list_entities,
        action="read_entries",
        answers={200: page_of("entities", summary)},
        tags=TAGS,
    )
    routes.add(
        "GET",
        f"{AT}/{{entity}}",
        get_entity,
        action="read_entries",
        answers={200: entry},
        tags=TAGS,
    )


def _add_writing(routes: Routes, app: App) -> None:
    def put_entity(project: str, entity: str, request: Request) -> Response:
        """Store an entry over what is there of its key; it can be searched when this answers."""
        said = {"key": entity, **object_of(request)}
        if said["key"] != entity:
            raise InvalidInput(
                f"the entry's key is {said['key']!r}, and its address names {entity!r}",
                remedy="leave the key out",
            )
        return answer(app.entities(project).upsert([parse_entity(said)]))

    def delete_entity(project: str, entity: str) -> Response:
        """Delete an entry."""
        app.entities(project).remove([entity])
        return Response(status_code=204)

    def import_entities(
        project: str, request: Request, asked: Annotated[Strict, Query()]
    ) -> Response:
        """Store the entries of lines of JSON; they can be searched when this answers.

        The report lists the lines that were refused. With `strict` one such line refuses all.
        """
        return answer(app.entities(project).import_lines(lines_of(request), strict=asked.strict))

    given = _given(routes.definitions["EntityLine"])
    without_key = {name: value for name, value in EXAMPLE.items() if name != "key"}
    routes.add(
        "PUT",
        f"{AT}/{{entity}}",
        put_entity,
        action="change_entries",
        body=json_body(given, [without_key]),
        is_long=True,
        answers={200: EntityReport},
        tags=TAGS,
    )
    routes.add(
        "DELETE",
        f"{AT}/{{entity}}",
        delete_entity,
        action="change_entries",
        is_long=True,
        answers={204: None},
        tags=TAGS,
    )
    routes.add(
        "POST",
        f"{AT}/import",
        import_entities,
        action="change_entries",
        body=lines_body([EXAMPLE, {**EXAMPLE, "key": "valve-8", "title": "Valve 8"}]),
        is_long=True,
        answers={200: EntityReport},
        tags=TAGS,
    )


def _given(line: Schema) -> Schema:
    """An entry as it is put: its key is in the address, and what is null is left out."""
    may_be_null = {
        name: {"anyOf": [line["properties"][name], {"type": "null"}]} for name in OPTIONAL[:3]
    }
    moment = {"effective_at": {"type": ["string", "null"]}}
    return {
        "type": "object",
        "properties": {**line["properties"], **may_be_null, **moment},
        "required": ["title", "text", "type"],
        "additionalProperties": False,
    }


def _sees_all(request: Request) -> bool:
    return may(request, "change_entries")


def _shown_status(request: Request, asked: EntityStatus | None) -> EntityStatus | None:
    """The status that is listed. Errors: Forbidden for a viewer who asks for another."""
    if _sees_all(request):
        return asked
    if asked not in {None, "published"}:
        raise Forbidden(
            f"a viewer's key is not shown entries that are {asked}",
            remedy="use the key of an editor",
        )
    return "published"
