"""Every request has an id, and is told of in the log: never with its content or its key."""

import logging
import re
import time
import uuid

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger("lastro.http")
HEADER = "X-Request-Id"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def request_id_of(request: Request) -> str:
    """The id under which the log has a request."""
    return request.state.request_id


class Observed:
    """Tells the log, and the client, what became of each request."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        request_id = _id_of(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        began = time.perf_counter()
        status = 500

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", []),
                    (HEADER.lower().encode(), request_id.encode()),
                ]
            await send(message)

        try:
            await self._inner(scope, receive, told)
        finally:
            LOG.info(
                "request",
                extra={
                    "requestId": request_id,
                    "method": scope["method"],
                    "route": _route_of(scope),
                    "status": status,
                    "tookMs": round((time.perf_counter() - began) * 1000, 1),
                },
            )


def _id_of(scope: Scope) -> str:
    """The client's own id where it is one, else a new one."""
    for name, value in scope["headers"]:
        if name == HEADER.lower().encode():
            said = value.decode("latin-1")
            return said if _ID.fullmatch(said) else uuid.uuid4().hex
    return uuid.uuid4().hex


def _route_of(scope: Scope) -> str:
    """The route's template: a path holds names, and names are content."""
    route = scope.get("route")
    return getattr(route, "path", "none")
