"""What is asked of a service without a key: is it alive, is it ready, what has it counted."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lastro.app import App
from lastro.http.answers import JSON, answer
from lastro.http.metrics import MEDIA_TYPE, Metrics
from lastro.http.observing import LOG
from lastro.http.schemas import Schema, schema_of
from lastro.readiness import Finding, Readiness, ReasonedCheck, told
from lastro.types import Check
from lastro.wire import to_json

# Probes that come meanwhile are told the same.
KEPT_S = 2.0
# Longer than a look may take: then something hangs that no check waits for.
LONGEST_S = 5.0
METRICS_PATH = "/metrics"


class Probe:
    """The readiness of a process, looked at by one of those who ask at a time.

    Anyone may ask, so what was found is told in words of a closed list, and in full to the log.
    """

    def __init__(self, look: Callable[[], Sequence[ReasonedCheck]]) -> None:
        self._look = look
        self._logged: list[Finding] = []
        self._known: Readiness | None = None
        self._known_until = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def readiness(self) -> Readiness:
        """As it was at most so many seconds ago."""
        if self._known is None or time.monotonic() >= self._known_until:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._renew())
            try:
                await asyncio.wait_for(asyncio.shield(self._looking), LONGEST_S)
            except TimeoutError:
                return self._told((_late(),))
        assert self._known is not None
        return self._known

    async def _renew(self) -> None:
        self._known = self._told(await run_in_threadpool(self._look))
        self._known_until = time.monotonic() + KEPT_S

    def _told(self, seen: Sequence[ReasonedCheck]) -> Readiness:
        said = told(seen)
        found = [one for one in said.checks if one.status != "ok"]
        if found != self._logged:  # once, however often it is asked and whatever the words
            level = logging.WARNING if found else logging.INFO
            checks = to_json([one.check for one in seen if one.check.status != "ok"])
            LOG.log(level, "readiness", extra={"status": said.status, "checks": checks})
            self._logged = found
        return said


def _late() -> ReasonedCheck:
    detail = f"nothing was found out within {LONGEST_S:g} s"
    remedy = "see whether the database and the embedder answer: `lastro doctor`"
    check = Check(name="database", status="fail", detail=detail, remedy=remedy)
    return ReasonedCheck(check=check, reason="look_late")


def add_health_routes(service: FastAPI, app: App, definitions: dict[str, Schema]) -> None:
    """``/healthz`` and ``/readyz``."""
    probe = Probe(app.readiness)
    shape = {"content": {JSON: {"schema": schema_of(Readiness, definitions)}}}
    alive = {
        "type": "object",
        "properties": {"status": {"enum": ["ok"]}},
        "required": ["status"],
    }

    async def healthz() -> Response:
        """The process answers; nothing else is looked at."""
        return answer({"status": "ok"})

    async def readyz() -> Response:
        """Whether a search would be answered now."""
        found = await probe.readiness()
        return answer(found, status=503 if found.status == "notReady" else 200)

    service.add_api_route(
        "/healthz",
        healthz,
        response_class=Response,
        responses={200: {"description": "It lives.", "content": {JSON: {"schema": alive}}}},
    )
    service.add_api_route(
        "/readyz",
        readyz,
        response_class=Response,
        responses={
            200: {"description": "Ready, or degraded.", **shape},
            503: {"description": "Not ready.", **shape},
        },
    )
    for path, probed in (("/healthz", healthz), ("/readyz", readyz)):
        # Some probes want the status alone.
        service.add_api_route(
            path, probed, methods=["HEAD"], response_class=Response, include_in_schema=False
        )


class WithMetrics:
    """Answers ``/metrics``: beside all else, or alone on a port of its own."""

    def __init__(self, inner: ASGIApp, metrics: Metrics, *, port: int) -> None:
        self._inner = inner
        self._metrics = metrics
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or not self._is_here(scope):
            await self._inner(scope, receive, send)
            return
        if scope["path"] != METRICS_PATH or scope["method"] not in ("GET", "HEAD"):
            await Response(status_code=404)(scope, receive, send)
            return
        said = await run_in_threadpool(self._metrics.exposition)
        await Response(said, media_type=MEDIA_TYPE)(scope, receive, send)

    def _is_here(self, scope: Scope) -> bool:
        if self._port == 0:
            return scope["path"] == METRICS_PATH
        return scope["server"] is not None and scope["server"][1] == self._port
