"""Every request has an id, is counted, and is told of in the log: never its content or its key."""

import logging
import re
import time
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lastro.errors import LastroError, refusal_reason
from lastro.http.metrics import Metrics
from lastro.http.paths import name_of
from lastro.types import Outcome

LOG = logging.getLogger("lastro.http")
HEADER = "X-Request-Id"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Methods that are counted by their name; a client may make up any other.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def request_id_of(request: Request) -> str:
    """The id under which the log has a request."""
    return request.state.request_id


def note_error(request: Request, error: LastroError, *, is_told: bool) -> None:
    """Have the log and the counts told why a request was refused.

    Where the client ``is_told`` no more than the error's code, the log has its words.
    """
    request.state.error = error
    if not is_told:
        request.state.untold = error.message


def note_outcome(request: Request, outcome: Outcome) -> None:
    """Have the log and the counts told what a search said of itself."""
    request.state.outcome = outcome


@contextmanager
def errors_told(what: str) -> Generator[None]:
    """Tell the log of an error that ends a process: one of ours in its words, others by place."""
    try:
        yield
    except Exception as error:
        ours = isinstance(error, LastroError)
        told = {"code": error.code, "detail": error.message} if ours else {}
        LOG.exception(what, extra=told)
        raise


class Observed:
    """Tells the log, the counts, and the client what became of each request."""

    def __init__(self, inner: ASGIApp, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = _id_of(scope)
        began = time.perf_counter()
        status = 0

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", []),
                    (HEADER.lower().encode(), state["request_id"].encode()),
                    # JSON holds what documents say, and no browser is to take that for a page.
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        try:
            await self._inner(scope, receive, told)
        except Exception:
            LOG.exception("fault", extra={"requestId": state["request_id"]})
        finally:
            self._tell(scope, state, status=status, took_s=time.perf_counter() - began)

    def _tell(self, scope: Scope, state: Mapping[str, Any], *, status: int, took_s: float) -> None:
        route, method = _route_of(scope), scope["method"]
        told = {
            "requestId": state["request_id"],
            "method": method,
            "route": route,
            # 0: its client went away before the answer.
            "status": status,
            "tookMs": round(took_s * 1000, 1),
            **_whose(scope, state),
        }
        error, outcome = state.get("error"), state.get("outcome")
        if error is not None:
            told["code"] = error.code
            if "untold" in state:
                told["detail"] = state["untold"]
            reason = refusal_reason(error)
            if reason is not None:
                self._metrics.refused(reason)
        if outcome is not None:
            degraded = [one.reason for one in outcome.degraded]
            self._metrics.searched(degraded=degraded, is_gap=outcome.gap_id is not None)
            if degraded:
                told["degraded"] = degraded
        LOG.info("request", extra=told)
        self._metrics.answered(
            route=route,
            method=method if method in _METHODS else "other",
            status=status,
            took_s=took_s,
        )


def _whose(scope: Scope, state: Mapping[str, Any]) -> dict[str, str]:
    """Whose request it was: a key's, or that of an open service for a project."""
    principal = state.get("principal")
    if principal is not None:
        return {"keyId": principal.key_id, "project": principal.slug}
    project = scope.get("path_params", {}).get("project") if state.get("is_open") else None
    return {} if project is None else {"project": name_of(project)}


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
