"""The service of one process: its routes, their documentation, and how errors are told."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import anyio.to_thread
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from lastro.app import App
from lastro.errors import InvalidInput, LastroError, NotFound
from lastro.http.administration import add_administration_routes
from lastro.http.answers import fails_inside, refusal
from lastro.http.asking import showed_key
from lastro.http.bodies import not_understood
from lastro.http.entities import add_entity_routes
from lastro.http.gaps import add_gap_routes
from lastro.http.gate import Gate
from lastro.http.health import WithMetrics, add_health_routes
from lastro.http.jobs import add_job_routes
from lastro.http.keeping import add_keeping_routes
from lastro.http.metrics import Metrics
from lastro.http.observing import LOG, Observed, errors_told, note_error, request_id_of
from lastro.http.paths import WithSlashes, name_of
from lastro.http.reindexing import add_reindex_route
from lastro.http.routes import ERROR, Routes
from lastro.http.schemas import Schema
from lastro.http.search_log import add_search_log_route
from lastro.http.searching import add_search_routes
from lastro.http.sessions import add_session_routes
from lastro.http.webhooks import add_webhook_route
from lastro.http_settings import HttpSettings

# Threads for what looks after requests: keys, and clients that went away.
SPARE_THREADS = 4
# Of an embedded server that crashed; a look takes milliseconds.
KEEP_UP_EVERY_S = 5.0


def make_service(app: App, settings: HttpSettings, *, is_open: bool) -> Any:
    """An ASGI application over ``app``, which it opens when it starts and closes when it ends."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = settings.turns + SPARE_THREADS
        with errors_told("the service fails"), app:
            keeper = asyncio.create_task(_keep_database_up(app))
            try:
                yield
            finally:
                keeper.cancel()
                metrics.forget()

    gate = Gate(app, settings, is_open=is_open)
    metrics = Metrics(app, gate)
    app.observe(metrics.stage, dropped=metrics.dropped)
    service = FastAPI(
        title="Lastro",
        summary="Retrieval you can cite.",
        version=version("lastro"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    definitions: dict[str, Schema] = {"Error": ERROR}
    # Its own router: one that is included is searched twice for each request.
    routes = Routes(router=service.router, gate=gate, definitions=definitions)
    add_search_routes(routes, app, max_query_chars=settings.max_query_chars)
    add_search_log_route(routes, app)
    add_reindex_route(routes, app)
    add_session_routes(routes, app)
    add_entity_routes(routes, app)
    add_gap_routes(routes, app)
    add_keeping_routes(routes, app)
    add_job_routes(routes, app)
    add_administration_routes(routes, app)
    add_webhook_route(service.router, app, routes.gate)
    add_health_routes(service, app, definitions)
    _tell_errors(service)
    _document(service, definitions)
    observed = Observed(WithSlashes(service), metrics)
    return WithMetrics(observed, metrics, port=settings.metrics_port)


async def _keep_database_up(app: App) -> None:
    """Look after an embedded server for as long as the service runs."""
    while app.settings.database_url is None:
        await asyncio.sleep(KEEP_UP_EVERY_S)
        try:
            await run_in_threadpool(app.keep_database_up)
        except LastroError:  # the next request says what it is
            continue
        except Exception:  # noqa: BLE001 - the log has it, and the next look may go well
            LOG.exception("fault")


def _tell_errors(service: FastAPI) -> None:
    @service.exception_handler(LastroError)
    async def _(request: Request, error: LastroError) -> Response:
        return _refused(request, error)

    @service.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> Response:
        return _refused(request, not_understood(error.errors()[0]))

    @service.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        said = _refused(request, _of_http(request, error))
        said.status_code = error.status_code
        said.headers.update(error.headers or {})
        return said

    @service.exception_handler(Exception)
    async def _(request: Request, _error: Exception) -> Response:
        fault = LastroError("the service failed", remedy="its log has the place, under this id")
        return _refused(request, fault)


def _refused(request: Request, error: LastroError) -> Response:
    is_told = showed_key(request) or not fails_inside(error)
    note_error(request, error, is_told=is_told)
    return refusal(error, request_id=request_id_of(request), is_told=is_told)


def _of_http(request: Request, error: HTTPException) -> LastroError:
    """What Starlette says of a path or method that leads nowhere."""
    path = name_of(request.scope["path"])
    if error.status_code == 404:
        return NotFound(f"nothing is at {path!r}", remedy="see /openapi.json")
    if error.status_code == 405:
        methods = (error.headers or {}).get("Allow", "")
        return InvalidInput(
            f"{request.method} is nothing that {path!r} does", remedy=f"use {methods}"
        )
    return InvalidInput(f"{request.method} {path!r}: {error.detail}", remedy="see /openapi.json")


def _leave_out_422(document: dict[str, Any]) -> None:
    """What FastAPI would answer to what it does not understand; here that is 400."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(name, None)


def _document(service: FastAPI, definitions: dict[str, Schema]) -> None:
    """Add the shapes of answers, and how a key is sent, to /openapi.json."""
    made = service.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        _leave_out_422(document)
        components = document.setdefault("components", {})
        components.setdefault("schemas", {}).update(definitions)
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        return document

    service.openapi = openapi
