"""How a route is added: its action, its body, and every answer that it may give."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from fastapi import APIRouter
from starlette.responses import Response

from lastro.http.answers import JSON
from lastro.http.gate import Gate
from lastro.http.schemas import PLACE, Schema, schema_of
from lastro.roles import NEEDED, Action

ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "remedy": {"type": "string"},
                "requestId": {"type": "string"},
            },
            "required": ["code", "message", "requestId"],
        }
    },
    "required": ["error"],
}
# What any gated route may answer beside its own: see lastro.errors.STATUS.
REFUSALS: Mapping[int, str] = {
    400: "The request is not understood, or outside what is allowed.",
    401: "No key, or none that holds.",
    402: "The project's budget would be passed.",
    403: "The key's role may not do this.",
    404: "There is no such thing, or it is not yours to see.",
    409: "It contradicts what is there.",
    413: "The body is larger than the service reads.",
    429: "Too much at once; `Retry-After` says when to come again.",
    500: "A fault of the service; its log has it under the request's id.",
    502: "An embedder or a remote repository does not answer.",
    503: "The database is unavailable, or the request's time is over.",
}


def error_answer(description: str) -> dict[str, Any]:
    """An error as the documentation of a route names it."""
    return {
        "description": description,
        "content": {JSON: {"schema": {"$ref": f"{PLACE}Error"}}},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Adds gated routes to ``router``; shapes of answers are collected in ``definitions``."""

    router: APIRouter
    gate: Gate
    definitions: dict[str, Schema]

    def add(
        self,
        method: str,
        path: str,
        endpoint: Callable[..., Response],
        *,
        action: Action,
        answers: Mapping[int, object],
        body: Mapping[str, Any] | None = None,
        is_long: bool = False,
        may_wait: bool = False,
        tags: Sequence[str] = (),
    ) -> None:
        """A route of which ``answers`` are the values that it gives, by status.

        A value is a type that ``wire`` writes, a schema, or None where nothing is sent. ``body``
        documents one that the endpoint reads itself; see ``bodies``.
        """
        said: dict[str, Any] = {"security": [{"key": []}], "x-role": NEEDED[action]}
        if body is not None:
            said["requestBody"] = dict(body)
        self.router.add_api_route(
            path,
            endpoint,
            methods=[method],
            status_code=min(answers),
            response_class=Response,
            responses={
                **{status: self._answer(value) for status, value in answers.items()},
                **{status: error_answer(text) for status, text in REFUSALS.items()},
            },
            route_class_override=self.gate.route(action, is_long=is_long, may_wait=may_wait),
            openapi_extra=said,
            tags=list(tags),
        )

    def _answer(self, value: object) -> dict[str, Any]:
        if value is None:
            return {"description": "Done; nothing is sent."}
        schema = cast("Schema", value) if isinstance(value, dict) else self._schema(value)
        return {"description": "Done.", "content": {JSON: {"schema": schema}}}

    def _schema(self, kind: object) -> Schema:
        return schema_of(kind, self.definitions)
