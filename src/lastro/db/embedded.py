"""The embedded PostgreSQL: made, started and stopped by whoever needs it, shared by all.

Many processes may ask at once: everything happens under one file lock in the home folder. The
server belongs to none of them. It outlives the command that started it, holds none of its
descriptors, and is stopped by a watcher (``postmaster.py``) when nobody used it for a while.

Who may connect: the socket lies in a folder that only the server's user and root can enter, and
is itself closed to others, so whoever reaches it may do everything anyway (it could read the
files). ``trust`` behind these two walls asks for no password; no TCP port is opened.
"""

import contextlib
import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lastro.db import postmaster as pm
from lastro.db.binaries import usable_binaries
from lastro.db.cluster import (
    START_LOG,
    crash_line,
    data_version,
    drop_socket_lock,
    ensure_data,
    finish_swap,
    log_tail,
    prepare_folders,
    prune_logs,
    server_environment,
    socket_folder,
    upgraded_folder,
)
from lastro.db.disk import NO_SPACE, disk_full, is_full
from lastro.db.memory import memory_bytes, shared_buffers_mb
from lastro.db.privileges import (
    choose_user,
    ensure_reachable,
    make_home,
    spawn_detached,
)
from lastro.db.reaching import Wait, answers, owner_url, vectors_crash
from lastro.db.upgrade import Site, Upgrade, upgrade
from lastro.errors import ConfigError, DatabaseUnavailable, NotFound

START_TIMEOUT_S = 120.0  # crash recovery replays up to max_wal_size (1 GB) of log
LONGEST_LOCK_POLL_S, LONGEST_POLL_S = 0.02, 0.1
LOG_FLUSH_S = 0.2  # the process that writes the log outlives its server by as much
# What a server says while processes of its killed predecessor still hold the memory.
STILL_ATTACHED = "pre-existing shared memory block"

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(pm.PORT),
    "unix_socket_permissions": "0700",
    # Docker gives /dev/shm 64 MB, on which a parallel index build fails.
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "100",
    # Compiling a query costs more than our queries take.
    "jit": "off",
    # One file for each weekday, overwritten a week later; what is left over goes at a start.
    "logging_collector": "on",
    "log_filename": "postgres-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    "log_checkpoints": "off",
    # No text of a document in a log: a refused statement is told to the client alone, since its
    # message quotes values. What the server says of itself is of the level "log".
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_line_prefix": "%m [%p] ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedStatus:
    """The embedded server at one moment; ``url`` is the owner's, while it runs."""

    running: bool
    pid: int | None
    version: str | None
    data_dir: Path
    socket_dir: Path | None
    url: str | None


class EmbeddedPostgres:
    """The server whose data is in ``home``; constructing it touches nothing.

    ``idle_s`` without a client stops it (None: never; the last process that asked for the server
    decides). ``settings`` are further server settings, for tests.
    """

    def __init__(
        self,
        home: Path,
        *,
        binaries: Path | None = None,
        idle_s: float | None = pm.IDLE_S,
        start_timeout_s: float = START_TIMEOUT_S,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._layout = pm.Layout(Path(os.path.realpath(home.expanduser())))
        self._binaries = binaries
        self._idle_s = idle_s
        self._start_timeout_s = start_timeout_s
        self._settings = {**SETTINGS, **(settings or {})}

    def start(self) -> str:
        """Make, start and await the server as far as it takes, and return the owner's address.

        A running server is a few milliseconds' work. For ``idle_s`` from here it is not stopped
        for being idle.

        Errors: ConfigError for an unusable home, DatabaseUnavailable when there is no server.
        """
        make_home(self._layout.home, choose_user(self._layout.server))
        with self._locked() as lock:
            try:
                pm.record_start(lock, self._idle_s)
                server = self._served(time.monotonic() + self._start_timeout_s)
                pm.record_start(lock, self._idle_s)  # it may have taken longer than that
            except (OSError, subprocess.SubprocessError) as error:
                if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                    raise disk_full(self._layout.server, f": {error}") from error
                raise DatabaseUnavailable(
                    f"the embedded database in {self._layout.server} cannot be started: {error}",
                    remedy="mend what the message names (space, rights) and try again",
                ) from error
            return owner_url(server)

    def stop(self) -> bool:
        """Stop the server if it runs; True if it did.

        Errors: DatabaseUnavailable when it does not stop.
        """
        if self._recorded() is None and not self._layout.lock.exists():
            return False
        with self._locked():
            server = pm.read_postmaster(self._layout.data)
            if server is None or not pm.serves(server.pid, self._layout.data):
                return False
            self._stop(server)
            return True

    def status(self) -> EmbeddedStatus:
        """Look at the server without starting, stopping or waiting for anything."""
        server = self._recorded()
        version = data_version(self._layout.data)
        running = server is not None and pm.serves(server.pid, self._layout.data)
        if server is not None and running and server.socket_path:
            with contextlib.suppress(pm.Refused, OSError):
                version, _ = pm.ask(server.socket_path, pm.MAINTENANCE_DATABASE)
        return EmbeddedStatus(
            running=running,
            pid=server.pid if server and running else None,
            version=version,
            data_dir=self._layout.data,
            socket_dir=server.socket_dir if server and running else None,
            url=owner_url(server) if server and running and server.socket_dir else None,
        )

    def is_stopped(self) -> bool:
        """Whether no server runs and none fell: its end was in order, or there never was one."""
        return self._recorded() is None

    def upgrade(
        self, *, old_programs: Path | None = None, say: Callable[[str], None] = lambda _step: None
    ) -> Upgrade:
        """Copy the data of an older PostgreSQL into a database of this one; see ``upgrade.py``.

        ``old_programs`` is the ``bin`` folder of the older one where the package lacks it; ``say``
        is told each step. No server runs afterwards. Errors: NotFound without a database,
        DatabaseUnavailable while it is in use and where the upgrade fails, with the old data kept.
        """
        layout = self._layout
        self._recorded()
        if data_version(layout.data) is None and not upgraded_folder(layout).exists():
            raise NotFound(
                f"there is no embedded database in {layout.server}",
                remedy="nothing needs an upgrade: the next command makes it",
            )
        user = choose_user(layout.server)
        ensure_reachable(layout.home, user)
        with self._locked():
            new = usable_binaries(self._binaries, layout.home, user)
            if data_version(layout.data) != str(new.major):
                self._end_unused()
                finish_swap(layout)
            site = Site(
                layout=layout,
                user=user,
                settings=self._settings,
                start_timeout_s=self._start_timeout_s,
            )
            return upgrade(site, new=new, old_programs=old_programs, say=say)

    def _end_unused(self) -> None:
        """Stop the server unless it has clients. Errors: DatabaseUnavailable where it has."""
        server = self._recorded()
        if server is None or not pm.serves(server.pid, self._layout.data):
            return
        clients = "unknown"
        with contextlib.suppress(pm.Refused, OSError):  # full, starting, stopping
            query, database = pm.ACTIVITY_QUERY, pm.MAINTENANCE_DATABASE
            _, found = pm.ask(server.socket_path or "", database, query)
            clients = (found or clients).partition(" ")[0]
        if clients != "0":
            raise DatabaseUnavailable(
                f"the database in {self._layout.data} is in use (clients: {clients}); "
                "nothing was changed",
                remedy="end the commands and programs that use it, then run it again",
            )
        self._stop(server)

    def _recorded(self) -> pm.Postmaster | None:
        try:
            return pm.read_postmaster(self._layout.data)
        except PermissionError as error:
            raise DatabaseUnavailable(
                f"the database in {self._layout.server} belongs to another user",
                remedy="run as that user or as root, or set LASTRO_HOME to a folder of your own",
            ) from error

    @contextlib.contextmanager
    def _locked(self) -> Generator[int]:
        """Hold the lock of this home; the descriptor is yielded."""
        try:
            lock = pm.open_lock(self._layout.lock)
        except OSError as error:
            raise ConfigError(
                f"the lock {self._layout.lock} cannot be opened: {error.strerror}",
                remedy="run as the user who made it, or set LASTRO_HOME to a folder of your own",
            ) from error
        try:
            deadline = time.monotonic() + self._start_timeout_s + pm.STOP_TIMEOUT_S
            waits = Wait("another process starts, stops or upgrades the database; waiting for it")
            while not pm.try_lock(lock):
                if time.monotonic() > deadline:
                    raise DatabaseUnavailable(
                        f"another process holds {self._layout.lock} and does not finish "
                        "starting, stopping or upgrading the database",
                        remedy="end that process (fuser shows it) and run the command again",
                    )
                waits.pause(LONGEST_LOCK_POLL_S)
            yield lock
        finally:
            os.close(lock)

    def _served(self, deadline: float) -> pm.Postmaster:
        server = self._running(deadline)
        if server is None:
            return self._launch(deadline)
        pm.bound_logs(self._layout.log)  # where nothing watches, commands do
        self._ensure_watched()
        return server

    def _running(self, deadline: float) -> pm.Postmaster | None:
        """The server that answers already, or soon will; None when one must be started."""
        server = self._recorded()
        if server is None:
            return None
        with contextlib.suppress(OSError):
            if server.ready and server.socket_path and answers(server.socket_path):
                return server
        if not pm.serves(server.pid, self._layout.data):
            return None
        if server.ready and not (server.socket_path and Path(server.socket_path).exists()):
            self._stop(server)  # somebody cleaned the socket away: nobody can reach it any more
            return None
        return self._await_ready(server.pid, deadline)

    def _launch(self, deadline: float) -> pm.Postmaster:
        """Start the server and await it; the caller holds the lock and knows that none runs."""
        layout = self._layout
        user = choose_user(layout.server)
        ensure_reachable(layout.home, user)
        prepare_folders(layout, user)
        sockets = socket_folder(layout, user)
        drop_socket_lock(sockets)
        binaries = usable_binaries(self._binaries, layout.home, user)
        fast = self._settings.get("fsync") == "off"
        ensure_data(layout, binaries, user, timeout_s=self._start_timeout_s, durable=not fast)
        prune_logs(layout)
        self._ensure_watched()
        settings = {
            "shared_buffers": f"{shared_buffers_mb(memory_bytes())}MB",
            **self._settings,
            "unix_socket_directories": str(sockets),
            "log_directory": str(layout.log),
        }
        command = [str(binaries.folder / "postgres"), "-D", str(layout.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        while True:
            pid = spawn_detached(
                user,
                command,
                output=layout.log / START_LOG,
                environment=server_environment(layout.data),
            )
            try:
                server = self._await_ready(pid, deadline)
            except DatabaseUnavailable:
                if STILL_ATTACHED not in log_tail(layout) or time.monotonic() > deadline:
                    raise
                time.sleep(LONGEST_POLL_S)
                continue
            self._require_vectors(server)
            return server

    def _await_ready(self, pid: int, deadline: float) -> pm.Postmaster:
        waits = Wait(
            f"the database in {self._layout.data} is not ready yet: after a crash it replays its "
            f"log first; waiting up to {self._start_timeout_s:g} s"
        )
        while True:
            server = self._recorded()
            if server is not None and server.pid == pid and server.ready and server.socket_path:
                with contextlib.suppress(OSError):
                    if answers(server.socket_path):
                        return server
            if not pm.alive(pid):
                raise self._ended()
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(
                    f"PostgreSQL in {self._layout.data} is still starting after "
                    f"{self._start_timeout_s:g} s{log_tail(self._layout)}",
                    remedy=f"it goes on by itself: see {self._layout.log} and try again later",
                )
            waits.pause(LONGEST_POLL_S)

    def _ended(self) -> DatabaseUnavailable:
        time.sleep(LOG_FLUSH_S)
        said = log_tail(self._layout)
        if NO_SPACE in said or is_full(self._layout.server):
            return disk_full(self._layout.server, said)
        return DatabaseUnavailable(
            f"PostgreSQL in {self._layout.data} ended while it was starting{said}",
            remedy=f"mend what the log names ({self._layout.log}) and start it again",
        )

    def _require_vectors(self, server: pm.Postmaster) -> None:
        """Stop a server that dies of a vector. Errors: DatabaseUnavailable, quoting its log."""
        if not vectors_crash(server.socket_path or ""):
            return
        self._stop(server)  # then its log is whole
        raise DatabaseUnavailable(
            "the extension pgvector crashes on this processor, which may lack AVX2"
            f"{crash_line(self._layout)}",
            remedy="use a machine with AVX2, or set LASTRO_POSTGRES_BIN to a PostgreSQL whose "
            "pgvector was built for this one, or LASTRO_DATABASE_URL to a server",
        )

    def _stop(self, server: pm.Postmaster) -> None:
        try:
            stopped = pm.stop_server(server.pid, self._layout.data)
        except PermissionError as error:
            raise DatabaseUnavailable(
                f"the database's process {server.pid} belongs to another user",
                remedy="stop it as that user or as root",
            ) from error
        if not stopped:
            raise DatabaseUnavailable(
                f"PostgreSQL (process {server.pid}) does not stop within {pm.STOP_TIMEOUT_S:g} s"
                f"{log_tail(self._layout)}",
                remedy=f"see {self._layout.log}; it may be writing a large checkpoint: wait",
            )

    def _ensure_watched(self) -> None:
        """Start the watcher unless one lives; before the server, so that no kill comes between."""
        if self._idle_s is None:
            return
        watched = pm.open_lock(self._layout.watch)
        try:
            if not pm.try_lock(watched):
                return
        finally:
            os.close(watched)
        watcher = [sys.executable, "-I", "-S", pm.__file__, str(self._layout.home)]
        spawn_detached(None, watcher, output=Path(os.devnull))
