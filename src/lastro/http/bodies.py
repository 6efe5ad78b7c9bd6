"""Bodies that an endpoint reads itself: lines of JSON, arrays of them, and those of long routes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from lastro.errors import InvalidInput
from lastro.http.answers import JSON
from lastro.http.schemas import Schema
from lastro.http.shapes import Body
from lastro.json_lines import decoded, json_object, json_of, lines_of_array

LINES = "application/x-ndjson"
# What FastAPI puts before the name of a field.
_PLACES = frozenset({"body", "query", "path"})
B = TypeVar("B", bound=Body)
# A line that says nothing is listed in the answer, whatever it is.
_ANY_LINES: Schema = {"description": "Lines of JSON, in UTF-8."}


def lines_of(request: Request) -> IO[bytes]:
    """The lines of a body, which may be larger than memory."""
    body: IO[bytes] = request.state.body
    body.seek(0)
    return body


def items_of(request: Request) -> Iterable[bytes]:
    """The lines of a body, or the items of its array where it says to be JSON.

    Errors: InvalidInput.
    """
    body = lines_of(request)
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return lines_of_array(body.read()) if kind == JSON else body


def object_of(request: Request) -> dict[str, Any]:
    """The JSON object that a body says. Errors: InvalidInput."""
    return json_object(lines_of(request).read())


def read_as(kind: type[B], request: Request) -> B:
    """The body as ``kind``; an empty one says nothing. Errors: InvalidInput."""
    said = json_said(lines_of(request).read() or b"{}")
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        raise not_understood(error.errors()[0]) from error


def json_said(body: bytes) -> object:
    """What a body of JSON says; a name that stands twice in one object is refused.

    Errors: InvalidInput.
    """
    try:
        return json_of(decoded(body))
    except InvalidInput as error:
        raise InvalidInput(
            f"the body: {error.message}", remedy="send JSON in UTF-8; see /openapi.json"
        ) from error


def says_json(request: Request) -> bool:
    """Whether a body says to be JSON, by one of the names that are read as it."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


def not_understood(first: Mapping[str, Any]) -> InvalidInput:
    """What pydantic found first, and where in what was sent."""
    where, *rest = first["loc"] or [""]
    place = ".".join(str(part) for part in (rest if where in _PLACES else first["loc"]))
    said = str(first["msg"])
    if not place and first["type"] == "missing":
        return InvalidInput("the request has no body", remedy="see /openapi.json")
    if not place and isinstance(first["input"], bytes):  # it was not even read as JSON
        return InvalidInput(
            "the body is not said to be JSON",
            remedy=f"send the header `Content-Type: {JSON}` with it",
        )
    return InvalidInput(f"{place}: {said}" if place else said, remedy="see /openapi.json")


def json_body(schema: Schema, examples: Sequence[object], *, required: bool = True) -> Schema:
    """How a body of JSON is documented."""
    return {"required": required, "content": {JSON: _content(schema, examples)}}


def lines_body(examples: Sequence[Mapping[str, Any]]) -> Schema:
    """How a body of lines of JSON is documented, by one example that has these lines."""
    lines = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in examples)
    return {"required": True, "content": {LINES: _content(dict(_ANY_LINES), [lines])}}


def items_body(item: Schema, examples: Sequence[Mapping[str, Any]]) -> Schema:
    """How a body is documented that is an array, or lines of its items."""
    array = {JSON: _content({"type": "array", "items": item}, [list(examples)])}
    lines = lines_body(examples)
    return {**lines, "content": {**array, **lines["content"]}}


def _content(schema: Schema, examples: Sequence[object]) -> Schema:
    return {
        "schema": schema,
        "examples": {f"example{at}": {"value": one} for at, one in enumerate(examples, start=1)},
    }
