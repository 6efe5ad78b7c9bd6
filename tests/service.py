"""A real service on a real port, in a thread of the test, over the test's own database."""

import contextlib
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from lastro.app import build
from lastro.config import Settings
from lastro.http.service import make_service
from lastro.http_settings import HttpSettings

START_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that listens at ``url``; ``settings`` are those of its app."""

    url: str
    settings: Settings

    def client(
        self, key: str | None = None, *, headers: Mapping[str, str] | None = None
    ) -> httpx.Client:
        """A client that sends ``key`` with every request."""
        sent = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers={**sent, **(headers or {})}, timeout=60)


@contextlib.contextmanager
def running(
    settings: Settings, *, is_open: bool = False, http: Mapping[str, Any] | None = None
) -> Generator[Service]:
    """Answers until the block ends."""
    limits = HttpSettings(**(http or {}))
    app = build(settings, connections=limits.connections)
    made = make_service(app, limits, is_open=is_open)
    server = uvicorn.Server(
        uvicorn.Config(made, port=0, log_config=None, access_log=False, timeout_graceful_shutdown=5)
    )
    thread = threading.Thread(target=server.run, name="service")
    thread.start()
    try:
        until = time.monotonic() + START_S
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < until
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Service(url=f"http://127.0.0.1:{port}", settings=settings)
    finally:
        server.should_exit = True
        thread.join()


def settings_of(url: str, home: Path, **others: Any) -> Settings:
    """Settings over a database of the tests' server."""
    return Settings(home=home, embedder="deterministic", database_url=url, **others)
