"""What the service answers: results and errors in the contract's JSON."""

import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from lastro.errors import STATUS, LastroError
from lastro.http.asking import UNTOLD_FAULT
from lastro.http.remedies import remedy_in_http
from lastro.wire import error_json, to_json

JSON = "application/json"
# The first status that says that a service fails. Source: RFC 9110, section 15.6.
FAILS_INSIDE = 500


def answer(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A result as JSON."""
    return Response(_dumped(to_json(value)), status, headers, JSON)


def refusal(error: LastroError, *, request_id: str, is_told: bool = True) -> Response:
    """An error as JSON, under the id that the log has it under; without ``is_told`` its code."""
    shape = error_json(error)
    if not is_told:
        shape["error"] = {"code": error.code, **UNTOLD_FAULT}
    elif error.remedy is not None:
        shape["error"]["remedy"] = remedy_in_http(error.remedy)
    shape["error"]["requestId"] = request_id
    return Response(_dumped(shape), STATUS[error.code][0], headers_of(error), JSON)


def fails_inside(error: LastroError) -> bool:
    """Whether the service failed, and refused nothing: the words then name hosts and folders."""
    return STATUS[error.code][0] >= FAILS_INSIDE


def headers_of(error: LastroError) -> dict[str, str]:
    """What a client is told beside an error: how to be let in, or when to come again."""
    match error.code:
        case "UNAUTHENTICATED":
            return {"WWW-Authenticate": 'Bearer realm="lastro"'}
        case "RATE_LIMITED" | "DATABASE_UNAVAILABLE":
            return {"Retry-After": str(math.ceil(getattr(error, "retry_after_s", 1)))}
        case _:
            return {}


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
