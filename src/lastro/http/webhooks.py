"""What forges tell: a repository moved, so whoever follows it is to look."""

import json
import time
from collections.abc import Iterator
from typing import IO
from urllib.parse import parse_qs

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from lastro.app import App
from lastro.errors import InvalidInput, NotFound, Unauthenticated
from lastro.http.answers import JSON, answer
from lastro.http.gate import Gate
from lastro.http.routes import REFUSALS, error_answer
from lastro.push import is_signed, read_push

_EVENTS = ("X-GitHub-Event", "X-Gitea-Event", "X-Forgejo-Event")
_FORM = "application/x-www-form-urlencoded"
_PART_BYTES = 1_048_576
_ACCEPTED = {
    "description": "Heard. It says nothing of what follows the repository.",
    "content": {
        JSON: {
            "schema": {
                "type": "object",
                "properties": {"accepted": {"const": True}},
                "required": ["accepted"],
            }
        }
    },
}


def add_webhook_route(router: APIRouter, app: App, gate: Gate) -> None:
    """``/webhooks/git``, which needs no key but a signature."""
    secret = gate.settings.webhook_secret

    def webhook(request: Request) -> Response:
        """Tell that a repository moved, signed as GitHub, GitLab, Gitea and Forgejo do."""
        if not secret.strip():
            raise NotFound("no webhook is set up here", remedy="set LASTRO_HTTP_WEBHOOK_SECRET")
        body: IO[bytes] = request.state.body
        if not is_signed(request.headers, _parts(body), secret=secret, now_s=time.time()):
            raise Unauthenticated(
                "the signature is missing or wrong",
                remedy="give the forge the secret that is set as webhook_secret",
            )
        body.seek(0)
        said = _read(body.read(), request.headers.get("Content-Type", ""))
        if any(request.headers.get(name) == "ping" for name in _EVENTS):
            return answer({"accepted": True})
        push = read_push(said)
        if push is not None:
            app.defer_pushed(push)
        return answer({"accepted": True}, status=202)

    refused = {status: REFUSALS[status] for status in (400, 401, 404, 413, 429, 503)}
    router.add_api_route(
        "/webhooks/git",
        webhook,
        methods=["POST"],
        status_code=202,
        response_class=Response,
        responses={
            200: _ACCEPTED,
            202: _ACCEPTED,
            **{status: error_answer(text) for status, text in refused.items()},
        },
        route_class_override=gate.signed_route(),
        openapi_extra={
            "requestBody": {
                "content": {kind: {"schema": {"type": "object"}} for kind in (JSON, _FORM)}
            }
        },
    )


def _parts(body: IO[bytes]) -> Iterator[bytes]:
    while part := body.read(_PART_BYTES):
        yield part


def _read(body: bytes, content_type: str) -> object:
    """What was delivered: JSON, or a form that holds it. Errors: InvalidInput."""
    try:
        text = body.decode()
        if content_type.partition(";")[0].strip().lower() == _FORM:
            text = parse_qs(text, strict_parsing=True)["payload"][0]
        return json.loads(text)
    except (ValueError, KeyError, RecursionError) as error:
        raise InvalidInput("the delivery is no JSON", remedy="send what the forge sends") from error
