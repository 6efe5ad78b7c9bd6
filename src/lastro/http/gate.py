"""What each request passes before its route runs: its turn, its key, its size, its time.

A client that goes away takes its work with it.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import IO, Any
from urllib.parse import urlsplit

from fastapi.routing import APIRoute
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from lastro.app import App
from lastro.db.own_project import keeping_to
from lastro.db.work import Work, working
from lastro.errors import (
    Busy,
    Forbidden,
    InvalidInput,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthenticated,
)
from lastro.http.bodies import json_said, says_json
from lastro.http.paths import name_of
from lastro.http_settings import LONG_CONCURRENCY, LOOPBACK, SIGNED_CONCURRENCY, HttpSettings
from lastro.keys import Principal
from lastro.roles import Action, permits

# A turn is mostly over sooner.
TURN_RETRY_S = 1.0
# What of an import is kept in memory; the rest lies in a file without a name.
IN_MEMORY_BYTES = 1_048_576
# The most that GitHub delivers: 25 MB. Source: its documentation of webhook payloads.
SIGNED_BYTES = 25 * 1_048_576

_TRUTH = TypeAdapter(bool)
Inner = Callable[[Request], Coroutine[Any, Any, Response]]


class Turns:
    """So many at a time; some more wait, and what comes then is refused."""

    def __init__(self, at_a_time: int, *, waiting: int) -> None:
        self._free = asyncio.Semaphore(at_a_time)
        self._places = at_a_time + waiting
        self.taken = 0

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """One's turn. Errors: Busy."""
        if self.taken >= self._places:
            raise Busy(
                "the service has as much to do as it takes on",
                retry_after_s=TURN_RETRY_S,
                remedy="send the request again later",
            )
        self.taken += 1
        try:
            async with self._free:
                yield
        finally:
            self.taken -= 1


class Gate:
    """The gate of one process.

    ``is_open`` lets in every program of this machine, as an administrator of all.
    """

    def __init__(self, app: App, settings: HttpSettings, *, is_open: bool) -> None:
        self._keys = app.keys
        self.settings = settings
        self.is_open = is_open
        self.short = Turns(settings.concurrency, waiting=settings.waiting)
        self.signed = Turns(SIGNED_CONCURRENCY, waiting=settings.waiting)
        self.long = Turns(LONG_CONCURRENCY, waiting=settings.waiting)
        self._rate = MovingWindowRateLimiter(MemoryStorage())
        rate = settings.rate_per_minute
        self._allowance = RateLimitItemPerMinute(rate) if rate else None

    def route(
        self, action: Action, *, is_long: bool = False, may_wait: bool = False
    ) -> type[APIRoute]:
        """The class of routes behind this gate, for keys whose role permits ``action``.

        A long one has a file of lines for a body, at ``request.state.body``, and more time. One
        that ``may_wait`` has more time where its query says ``wait=true``.
        """
        enter = self._enter

        class GatedRoute(APIRoute):
            def get_route_handler(self) -> Inner:
                inner = super().get_route_handler()
                if self.body_field is not None:
                    inner = _with_json(inner)
                if not self.dependant.query_params:
                    inner = _without_parameters(inner)

                async def handle(request: Request) -> Response:
                    named = {name: name_of(part) for name, part in request.path_params.items()}
                    request.scope["path_params"] = named
                    takes_long = is_long or (may_wait and _is_waited_for(request))
                    return await enter(
                        request, inner, action=action, is_long=takes_long, is_import=is_long
                    )

                return handle

        return GatedRoute

    def signed_route(self) -> type[APIRoute]:
        """The class of routes that need no key, whose bodies say who sent them.

        They have turns of their own, so that strangers keep nobody from his, and a file for a
        body, at ``request.state.body``, which must come within the deadline of a request.
        """
        settings, turns = self.settings, self.signed

        class SignedRoute(APIRoute):
            def get_route_handler(self) -> Inner:
                inner = super().get_route_handler()

                async def handle(request: Request) -> Response:
                    async with turns.turn():
                        body = await _read(
                            request, max_bytes=SIGNED_BYTES, limit_s=settings.deadline_s
                        )
                        with body:
                            request.state.body = body
                            return await _while_wanted(
                                request, inner, Work(deadline_s=settings.deadline_s)
                            )

                return handle

        return SignedRoute

    async def _enter(
        self, request: Request, inner: Inner, *, action: Action, is_long: bool, is_import: bool
    ) -> Response:
        settings = self.settings
        if is_long:  # who may not be let in is not to take a place of those who are
            async with self.short.turn():
                await self._admit(request, action)
        async with (self.long if is_long else self.short).turn():
            if not is_long:
                await self._admit(request, action)
            limit_s = settings.long_deadline_s if is_long else settings.deadline_s
            body = await _read(
                request,
                max_bytes=settings.max_import_bytes if is_import else settings.max_body_bytes,
                limit_s=limit_s,
            )
            try:
                request.state.body = body
                if not is_import:
                    # Where Starlette keeps what it has read.
                    request._body = body.read()  # pyright: ignore
                with _for_its_project(request):
                    return await _while_wanted(request, inner, Work(deadline_s=limit_s))
            finally:
                body.close()

    async def _admit(self, request: Request, action: Action) -> None:
        """Let in who may do ``action`` here. Errors: Unauthenticated, Forbidden, NotFound."""
        request.state.is_open = self.is_open and _is_from_here(request)
        if request.state.is_open:
            return
        if self.is_open:
            raise Forbidden(
                "this service asks for no key, so it answers programs of this machine alone",
                remedy="ask it at http://127.0.0.1, or serve without --open and send a key",
            )
        principal = await run_in_threadpool(self._principal, request)
        request.state.principal = principal
        self._count(principal)
        project = request.path_params.get("project")
        if project is not None and project != principal.slug:
            raise NotFound(f"there is no project {project!r}", remedy="ask for that of your key")
        if not permits(principal.role, action):
            raise Forbidden(
                f"a key of the role {principal.role} may not do this",
                remedy="use a key of a higher role",
            )

    def _principal(self, request: Request) -> Principal:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            raise Unauthenticated(
                "the request has no key",
                remedy="send the header `Authorization: Bearer <key>`; "
                "an administrator of the project makes one",
            )
        return self._keys.authenticate(text.strip())

    def _count(self, principal: Principal) -> None:
        if self._allowance is None or self._rate.hit(self._allowance, principal.key_id):
            return
        window = self._rate.get_window_stats(self._allowance, principal.key_id)
        raise RateLimited(
            f"this key may ask {self._allowance.amount} times a minute",
            retry_after_s=max(1.0, window.reset_time - time.time()),
            remedy="ask more slowly",
        )


def _for_its_project(request: Request) -> AbstractContextManager[None]:
    """Keeps to the key's project: by its name there may be another one by now, or none."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return nullcontext() if principal is None else keeping_to(principal.project_id)


def _is_from_here(request: Request) -> bool:
    """Whether it was sent to this machine by its own name, and by no page from elsewhere.

    Any page can have a browser of this machine ask, also under a name that leads here; but what
    the browser says of page and name is true.
    """
    said = [f"//{request.headers.get('Host', '')}", *request.headers.getlist("Origin")]
    return all(_is_loopback(address) for address in said)


def _is_loopback(address: str) -> bool:
    try:
        return urlsplit(address).hostname in LOOPBACK
    except ValueError:
        return False


def _with_json(inner: Inner) -> Inner:
    """Read a body of JSON: FastAPI would keep the last of two names, which nobody meant."""

    async def handle(request: Request) -> Response:
        body = await request.body()
        if body and says_json(request):
            # Where Starlette keeps what it has read.
            request._json = json_said(body)  # pyright: ignore
        return await inner(request)

    return handle


def _without_parameters(inner: Inner) -> Inner:
    """Refuse whatever an address says behind ``?``: what is sent there was meant to be heard."""

    async def handle(request: Request) -> Response:
        name = next(iter(request.query_params), None)
        if name is not None:
            raise InvalidInput(f"{name}: no such parameter", remedy="see /openapi.json")
        return await inner(request)

    return handle


def _is_waited_for(request: Request) -> bool:
    """Whether the query says ``wait=true``, in any of the words that the route understands."""
    try:
        return _TRUTH.validate_python(request.query_params.get("wait", "false"))
    except ValidationError:
        return False  # refused by the route


async def _read(request: Request, *, max_bytes: int, limit_s: float) -> IO[bytes]:
    """The body, from its beginning.

    Errors: TooLarge, before all of it was read; InvalidInput where it does not come, or packed.
    """
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise InvalidInput(
            "a body with a Content-Encoding is not read", remedy="send it as it is, and not packed"
        )
    said = request.headers.get("Content-Length", "")
    if said.isdecimal() and int(said) > max_bytes:
        raise _too_large(max_bytes)
    body = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 - closed by who asked
    try:
        async with asyncio.timeout(limit_s):
            await _receive(request, body, max_bytes=max_bytes)
    except (TimeoutError, ClientDisconnect) as error:
        body.close()
        raise InvalidInput(
            f"the body did not come whole within {limit_s:g} s", remedy="send it again"
        ) from error
    except BaseException:
        body.close()
        raise
    body.seek(0)
    return body


async def _receive(request: Request, body: IO[bytes], *, max_bytes: int) -> None:
    count = 0
    async for part in request.stream():
        count += len(part)
        if count > max_bytes:
            raise _too_large(max_bytes)
        body.write(part)


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(
        f"the request's body is above {max_bytes} bytes", remedy="send it in several requests"
    )


async def _while_wanted(request: Request, inner: Inner, work: Work) -> Response:
    """Run ``inner`` as ``work``, which is stopped when its client goes away."""
    with working(work):
        watch = asyncio.create_task(_stop_when_gone(request.receive, work))
        try:
            return await inner(request)
        except asyncio.CancelledError:  # the service ends, and waited for it long enough
            work.stop()
            raise
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


async def _stop_when_gone(receive: Callable[[], Awaitable[Any]], work: Work) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    await run_in_threadpool(work.stop)
