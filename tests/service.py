"""A real service on a real port, in a thread of the test, over the test's own database."""

import contextlib
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from socket import create_server
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
    """A service that listens at ``url``; ``settings`` are those of its app.

    ``metrics_url`` is where its metrics are: there too, or apart.
    """

    url: str
    settings: Settings
    metrics_url: str

    def client(
        self, key: str | None = None, *, headers: Mapping[str, str] | None = None
    ) -> httpx.Client:
        """A client that sends ``key`` with every request."""
        sent = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers={**sent, **(headers or {})}, timeout=60)


@contextlib.contextmanager
def running(
    settings: Settings,
    *,
    is_open: bool = False,
    metrics_apart: bool = False,
    http: Mapping[str, Any] | None = None,
) -> Generator[Service]:
    """Answers until the block ends, with ``metrics_apart`` at two ports."""
    with contextlib.ExitStack() as stack:
        places = range(2 if metrics_apart else 1)
        sockets = [stack.enter_context(create_server(("127.0.0.1", 0))) for _ in places]
        ports = [one.getsockname()[1] for one in sockets]
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        apart = {"metrics_port": ports[1]} if metrics_apart else {}
        limits = HttpSettings(**apart, **(http or {}))
        app = build(settings, connections=limits.connections)
        made = make_service(app, limits, is_open=is_open)
        server = uvicorn.Server(
            uvicorn.Config(made, log_config=None, access_log=False, timeout_graceful_shutdown=5)
        )
        thread = threading.Thread(target=server.run, args=(sockets,), name="service")
        thread.start()
        try:
            until = time.monotonic() + START_S
            while not server.started:
                assert thread.is_alive()
                assert time.monotonic() < until
                time.sleep(0.01)
            yield Service(url=urls[0], settings=settings, metrics_url=urls[-1])
        finally:
            server.should_exit = True
            thread.join()


def settings_of(url: str, home: Path, **others: Any) -> Settings:
    """Settings over a database of the tests' server."""
    return Settings(home=home, embedder="deterministic", database_url=url, **others)
