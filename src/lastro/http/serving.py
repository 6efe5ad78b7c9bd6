"""The processes of the service: started, watched, and ended in order."""

import gc
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from socket import AF_INET, AF_INET6, create_server, socket
from types import FrameType

import uvicorn
from uvicorn.supervisors import Multiprocess

from lastro.app import build
from lastro.config import Settings, load_settings
from lastro.errors import EXIT_FAILED, ConfigError
from lastro.http.health import METRICS_PATH
from lastro.http.logs import set_up_log
from lastro.http.metrics import FOLDER_VARIABLE
from lastro.http.observing import errors_told
from lastro.http.service import make_service
from lastro.http_settings import LOG_FORMS, LOOPBACK, HttpSettings

# Tells the processes that are started what their command was told.
_OPEN = "LASTRO_SERVE_OPEN"
_ENDING = (signal.SIGTERM, signal.SIGINT)
# As a shell tells of a process that a signal ended.
_EXIT_KILLED = 130
# Until a process is gone that was killed; then nothing writes any more.
_KILLED_S = 2.0


def serve(settings: Settings, *, is_open: bool, say: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM or SIGINT; a second one ends at once, whatever runs.

    ``say`` hears where it listens, once it does: who connects from then on is answered.
    Errors: those of ``lastro.app.build``; ConfigError, also where the database does not keep
    projects apart.
    """
    http = settings.http
    if is_open and http.host not in LOOPBACK:
        raise ConfigError(
            f"--open lets everyone in, and {http.host} can be reached from elsewhere",
            remedy="listen on 127.0.0.1, or make a key with `lastro keys create`",
        )
    with build(settings) as app:  # what is wrong is said before anything listens
        app.require_walls()
    with _listening(http) as sockets:
        say(f"listening on {_place_of(sockets[0])}")
        if http.metrics_port:
            say(f"metrics on {_place_of(sockets[1])}{METRICS_PATH}")
        os.environ[_OPEN] = "1" if is_open else ""
        set_up_log(http.log)
        _run(http, sockets)


def _run(http: HttpSettings, sockets: list[socket]) -> None:
    """Answer at ``sockets`` until it is told to end. Errors: ConfigError where nothing starts."""
    config = uvicorn.Config(
        "lastro.http.serving:service",
        factory=True,
        workers=http.workers,
        timeout_graceful_shutdown=round(http.grace_s),
        access_log=False,
        server_header=False,
        log_config=None,
    )
    if http.workers > 1:
        with _counted_together() as folder:
            _Several(config, sockets, folder).run()
        return
    alone = _Alone(config)
    alone.run(sockets)
    if not alone.started:
        raise ConfigError("the service does not start", remedy="see its log")


def service() -> object:
    """The service of one process, as uvicorn asks for it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return _made()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    set_up_log(LOG_FORMS[0])  # for settings that cannot be read
    try:
        with errors_told("a process of the service does not start"):
            return _made()
    except Exception as error:
        # Python would write it out with its values.
        raise SystemExit(EXIT_FAILED) from error


def _end_with(parent: BaseProcess) -> None:
    """End in order where the process is gone that watches this one: nothing else would end it."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _made() -> object:
    settings = load_settings()
    http = settings.http
    set_up_log(http.log)
    app = build(
        settings, connections=http.connections, statement_timeout_s=http.statement_timeout_s
    )
    made = make_service(app, http, is_open=bool(os.environ.get(_OPEN)))
    # What was loaded lives as long as the process: no search for garbage needs to look there.
    gc.collect()
    gc.freeze()
    return made


class _Alone(uvicorn.Server):
    """The one process of a service."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's
        """End in order; the second time at once. What ended in order is no failure."""
        if self.should_exit:
            os._exit(_EXIT_KILLED)
        self.should_exit = True


class _Several(Multiprocess):
    """Watches the processes of a service, which count in ``folder``, and ends them."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket], folder: str) -> None:
        super().__init__(config, sockets)
        self._folder = folder
        self._is_told = False
        for number in _ENDING:
            signal.signal(number, self._end)

    def run(self) -> None:
        """Until it is told to end. Errors: ConfigError where a process does not start."""
        super().run()
        if not self._is_told:
            raise ConfigError("the processes of the service do not start", remedy="see its log")

    def terminate_all(self) -> None:
        """Tell the processes to end; from here on nobody is let in."""
        super().terminate_all()
        for one in self.sockets:
            one.close()

    def _end(self, number: int, _frame: FrameType | None) -> None:
        if self._is_told:
            for process in self.processes:
                process.process.kill()
            for process in self.processes:
                process.process.join(_KILLED_S)
            shutil.rmtree(self._folder, ignore_errors=True)
            os._exit(_EXIT_KILLED)
        self._is_told = True
        self.signal_queue.append(number)


@contextmanager
def _listening(http: HttpSettings) -> Generator[list[socket]]:
    """The sockets of the service, and of its metrics where they have a port of their own."""
    ports = [http.port] + ([http.metrics_port] if http.metrics_port else [])
    sockets: list[socket] = []
    try:
        sockets.extend(_bound(http.host, port) for port in ports)
        yield sockets
    finally:
        for one in sockets:
            one.close()


def _bound(host: str, port: int) -> socket:
    try:
        bound = create_server((host, port), family=AF_INET6 if ":" in host else AF_INET)
    except OSError as error:
        # Python adds its own words; and what is wrong with a name has no number of the system's.
        cause = str(error.strerror).partition(" (while")[0]
        raise ConfigError(
            f"the service cannot listen on {host}, port {port}: {cause}",
            remedy="stop what listens there, or set another host or port",
        ) from error
    bound.set_inheritable(True)
    return bound


def _place_of(listening: socket) -> str:
    host, port = listening.getsockname()[:2]
    return url_of(host, port)


def url_of(host: str, port: int) -> str:
    """The address of a place, as a browser is told it: one of IPv6 stands in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _counted_together() -> Generator[str]:
    """A folder in which the processes of the service count, and from which any adds up."""
    folder = tempfile.mkdtemp(prefix="lastro-metrics-")
    os.environ[FOLDER_VARIABLE] = folder
    try:
        yield folder
    finally:
        del os.environ[FOLDER_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)
