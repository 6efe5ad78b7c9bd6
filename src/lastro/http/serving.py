"""The processes of the service: started, watched, and ended in order."""

import gc
import os

import uvicorn

from lastro.app import build
from lastro.config import Settings, load_settings
from lastro.errors import ConfigError
from lastro.http.service import make_service
from lastro.http_settings import LOOPBACK

# Tells the processes that are started what their command was told.
_OPEN = "LASTRO_SERVE_OPEN"


def serve(settings: Settings, *, is_open: bool) -> None:
    """Answer requests until SIGTERM or SIGINT. Errors: those of ``lastro.app.build``, and
    ConfigError where the database does not keep projects apart.
    """
    http = settings.http
    if is_open and http.host not in LOOPBACK:
        raise ConfigError(
            f"--open lets everyone in, and {http.host} can be reached from elsewhere",
            remedy="listen on 127.0.0.1, or make a key with `lastro keys create`",
        )
    with build(settings) as app:  # what is wrong is said before anything listens
        app.require_walls()
    os.environ[_OPEN] = "1" if is_open else ""
    uvicorn.run(
        "lastro.http.serving:service",
        factory=True,
        host=http.host,
        port=http.port,
        workers=http.workers,
        timeout_graceful_shutdown=round(http.grace_s),
        access_log=False,
        server_header=False,
        log_level="warning",
    )


def service() -> object:
    """The service of one process, as uvicorn asks for it."""
    settings = load_settings()
    http = settings.http
    app = build(
        settings, connections=http.connections, statement_timeout_s=http.statement_timeout_s
    )
    made = make_service(app, http, is_open=bool(os.environ.get(_OPEN)))
    # What was loaded lives as long as the process: no search for garbage needs to look there.
    gc.collect()
    gc.freeze()
    return made
