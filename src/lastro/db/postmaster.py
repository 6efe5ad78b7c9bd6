"""The running embedded server, seen from outside, and the watcher that stops it when it is idle.

``embedded.py`` imports this file; the watcher runs it by its path (``python -I -S postmaster.py
HOME``). It therefore uses the standard library alone and imports nothing of Lastro: a
process that stays for a quarter of an hour should cost a few megabytes and no import of numpy.
"""

import contextlib
import fcntl
import math
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SUPERUSER = "lastro"
DATABASE = "lastro"
# The watcher asks from another database than the one whose sessions it counts.
MAINTENANCE_DATABASE = "postgres"
PORT = 5432  # only names the socket; no port is opened

# SQLSTATE codes, PostgreSQL manual, appendix A.
CANNOT_CONNECT_NOW = "57P03"
TOO_MANY_CONNECTIONS = "53300"
NO_SUCH_DATABASE = "3D000"

PROTOCOL_3_0 = 196608  # PostgreSQL manual, "Message Formats", StartupMessage
IDLE_S = 900.0  # unless another time is set; what docs/reference/settings.md promises
STOP_TIMEOUT_S = 60.0  # pg_ctl's own; a checkpoint of max_wal_size comes before the end
LONGEST_POLL_S = 60.0
SHORTEST_POLL_S = 0.05
POLLS_PER_IDLE_TIME = 10
# Eight files of the server's log at most: one for each weekday and the start's.
LARGEST_LOG_BYTES, KEPT_LOG_BYTES = 8 * 1024 * 1024, 256 * 1024

# Our own looks at the server, here and in ``status``: they are no use of it.
APPLICATION = "lastro launcher"
# Connected clients, then sessions ever opened: a command between two looks is seen by the second.
# A backend that still signs on has no name yet, and may be one of our own looks.
ACTIVITY_QUERY = (
    "SELECT (SELECT count(*) FROM pg_stat_activity"
    " WHERE backend_type IN ('client backend', 'walsender')"
    " AND state IS DISTINCT FROM 'starting'"
    " AND application_name IS DISTINCT FROM 'lastro launcher')"
    " || ' ' || (SELECT coalesce(sum(sessions), 0) FROM pg_stat_database"
    " WHERE datname <> 'postgres')"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the embedded database keeps its things below ``home``."""

    home: Path

    @property
    def lock(self) -> Path:
        """Held around every start and stop; says when the last start was asked for (its time of
        change), and after how many idle seconds the server is to stop (its content, or nothing).
        """
        return self.home / "postgres.lock"

    @property
    def watch(self) -> Path:
        """Held by the watcher as long as it lives; takes its last words, should it fail."""
        return self.home / "postgres.watch"

    @property
    def server(self) -> Path:
        """The server's own folder, closed to everybody but its user (and root)."""
        return self.home / "postgres"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.server / "data"

    @property
    def log(self) -> Path:
        """The folder of the server's log files."""
        return self.server / "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """What ``postmaster.pid`` says of a server, which may be long dead."""

    pid: int
    started: str
    socket_dir: Path | None
    port: int
    ready: bool

    @property
    def socket_path(self) -> str | None:
        """Path of the server's socket, or None while it has none."""
        if self.socket_dir is None:
            return None
        return str(self.socket_dir / f".s.PGSQL.{self.port}")


class Refused(Exception):
    """The server answered with an error, told by its SQLSTATE."""

    def __init__(self, message: str, *, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


def read_postmaster(data: Path) -> Postmaster | None:
    """The record of the server that uses, or last used, ``data``; None where there is none."""
    try:
        text = os.fsdecode((data / "postmaster.pid").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    lines = [*text.split("\n"), *[""] * 8]
    if not lines[0].strip().lstrip("-").isdigit():
        return None
    return Postmaster(
        pid=abs(int(lines[0])),
        started=lines[2].strip(),
        port=int(lines[3]) if lines[3].strip().isdigit() else PORT,
        socket_dir=Path(lines[4]) if lines[4] else None,
        ready=lines[7].strip() == "ready",
    )


def serves(pid: int, data: Path) -> bool:
    """Whether process ``pid`` is a living PostgreSQL server on ``data``.

    A PID may have passed to a stranger, so the arguments are compared, which everybody may read
    (the working directory would say more, and is hidden from root in most containers).
    """
    arguments = _arguments_of(pid)
    if not arguments or b"postgres" not in arguments[0].rpartition(b"/")[2]:
        return False
    wanted = os.path.realpath(os.fsencode(data))
    return any(os.path.realpath(word) == wanted for word in arguments[1:] if word[:1] == b"/")


def alive(pid: int) -> bool:
    """Whether process ``pid`` still runs; one that ended and waits to be reaped does not.

    Its arguments would not tell: they read as empty for the moment in which it becomes another
    program (``exec``).
    """
    if Path("/proc/self/stat").exists():
        try:
            status = Path(f"/proc/{pid}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        state = status.rpartition(b")")[2].split()[0]  # the name before may hold anything
    else:  # macOS has no /proc
        state = _told_of(pid, "state=")
    return state[:1] not in (b"", b"Z", b"X")


def _arguments_of(pid: int) -> list[bytes]:
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []
    program, _, rest = _told_of(pid, "command=").partition(b" -D ")
    return [program, rest.partition(b" -c ")[0]] if rest else []


def _told_of(pid: int, column: str) -> bytes:
    """What ``ps`` says of a process, for systems without /proc; empty for an unknown one."""
    listing = subprocess.run(
        ["ps", "-ww", "-o", column, "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return listing.stdout.strip()


def open_lock(path: Path) -> int:
    """A descriptor of ``path``, made if absent; links are not followed, children inherit none."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int) -> bool:
    """Take the lock if it is free; it goes with the descriptor or with the process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Give the lock back and keep the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def record_start(lock: int, idle_s: float | None) -> None:
    """Tell the watcher that the server is in use from now, and when to stop it (None: never)."""
    text = b"" if idle_s is None else repr(float(idle_s)).encode()
    os.pwrite(lock, text, 0)
    os.ftruncate(lock, len(text))
    os.utime(lock)


def _recorded_idle_s(lock: int) -> float:
    try:
        return float(os.pread(lock, 64, 0))
    except ValueError:
        return math.inf


def ask(
    socket_path: str, database: str, query: str = "", *, timeout_s: float = 5.0
) -> tuple[str, str | None]:
    """Connect, run ``query`` if there is one; the server's version and the first value.

    Speaks the few messages of the frontend protocol that this takes, so that neither the watcher
    nor the quick look before every command has to load a driver.

    Errors: ``Refused`` with the server's SQLSTATE; OSError where nobody listens.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        connection.connect(socket_path)
        options = ("user", SUPERUSER, "database", database, "application_name", APPLICATION)
        body = struct.pack("!i", PROTOCOL_3_0) + b"\0".join(o.encode() for o in options) + b"\0\0"
        connection.sendall(struct.pack("!i", len(body) + 4) + body)
        with connection.makefile("rb") as stream:
            version = _read_until_ready(stream.read).get("version", "")
            value = None
            if query:
                text = query.encode() + b"\0"
                connection.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)
                value = _read_until_ready(stream.read).get("value")
            connection.sendall(b"X\0\0\0\4")
        return version, value


def _read_until_ready(read: Callable[[int], bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    while True:
        head = read(5)
        if len(head) < 5:
            raise ConnectionResetError("the server closed the connection")
        kind, length = head[:1], struct.unpack("!i", head[1:])[0] - 4
        body = read(length)
        if kind == b"E":
            fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0")}
            raise Refused(fields.get(b"M", ""), sqlstate=fields.get(b"C", ""))
        if kind == b"S" and body.startswith(b"server_version\0"):
            found["version"] = body.split(b"\0")[1].decode()
        elif kind == b"D":
            size = struct.unpack("!i", body[2:6])[0]
            found["value"] = body[6 : 6 + size].decode()
        elif kind == b"R" and body[:4] != b"\0\0\0\0":
            raise Refused("the server asks for a password", sqlstate="28000")
        elif kind == b"Z":
            return found


def stop_server(pid: int, data: Path, *, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """End the server's connections, let it write its checkpoint, and wait until it is gone.

    A server that takes no clients (it recovers from a crash, or hangs) has nothing to write and is
    ended at once: the next start replays its log. Asked to shut down early in a recovery it can
    wait for ever for a checkpoint that nobody is left to write.

    The caller holds the lock. False when the server is still there after ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    fast, immediate = signal.SIGINT, signal.SIGQUIT  # PostgreSQL manual, "Shutting Down"
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, fast if _takes_clients(data) else immediate)
    while serves(pid, data) or _is_ending(pid):
        if time.monotonic() > deadline:
            return False
        wait_for_exit(pid, 0.01)
    return True


def _is_ending(pid: int) -> bool:
    """Whether a process has given up its arguments, with its memory, and is there still."""
    return alive(pid) and not any(_arguments_of(pid))


def _takes_clients(data: Path) -> bool:
    server = read_postmaster(data)
    if server is None or not server.socket_path:
        return False
    try:
        ask(server.socket_path, MAINTENANCE_DATABASE)
    except Refused as refusal:
        return refusal.sqlstate != CANNOT_CONNECT_NOW
    except OSError:
        return False
    return True


def wait_for_exit(pid: int, timeout_s: float) -> None:
    """Sleep for ``timeout_s``, less where the system can say that ``pid`` has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, forbidden, or gone already
        time.sleep(min(timeout_s, 1.0))
        return
    try:
        poll = select.poll()  # select() refuses descriptors above 1,023
        poll.register(descriptor, select.POLLIN)
        poll.poll(timeout_s * 1000)
    finally:
        os.close(descriptor)


def bound_logs(folder: Path) -> None:
    """Cut each overgrown log down to its end; its writer, which appends, goes on after that."""
    for log in folder.glob("*.log"):
        with contextlib.suppress(OSError):  # removed, rotated, or another user's
            if log.lstat().st_size > LARGEST_LOG_BYTES:
                with log.open("r+b") as old, log.open("ab") as new:
                    old.seek(-KEPT_LOG_BYTES, os.SEEK_END)
                    end = old.read().partition(b"\n")[2]
                    old.truncate(0)
                    new.write(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pulse:
    """One look at the server: two equal looks without clients mean that nothing happened."""

    postmaster: Postmaster
    started_ns: int
    sessions: str
    busy: bool


def _look(layout: Layout, lock: int) -> _Pulse | None:
    """One look at the server; None where none runs."""
    postmaster = read_postmaster(layout.data)
    if postmaster is None or not serves(postmaster.pid, layout.data):
        return None
    clients, sessions = "unknown", ""
    with contextlib.suppress(Refused, OSError):  # full, starting, stopping: not idle
        if postmaster.ready and postmaster.socket_path:
            _, value = ask(postmaster.socket_path, MAINTENANCE_DATABASE, ACTIVITY_QUERY)
            clients, _, sessions = (value or clients).partition(" ")
    return _Pulse(
        postmaster=postmaster,
        started_ns=os.fstat(lock).st_mtime_ns,
        sessions=sessions,
        busy=clients != "0",
    )


def watch(layout: Layout) -> None:
    """Stop whichever server runs on ``layout`` once it had no client for its idle time.

    Every start changes the lock file's time under the lock, and the last look before the stop is
    taken under the lock too: whoever was given an address has the idle time to use it, and
    whoever asks during the stop waits for its end and starts the server again.

    The watcher gives up its own lock only while it holds the other one and no server runs, so a
    start that finds it taken can rely on being watched.
    """
    lock, watched = open_lock(layout.lock), open_lock(layout.watch)
    if not try_lock(watched):
        return
    os.ftruncate(watched, 0)
    os.dup2(watched, sys.stderr.fileno())
    _become_owner_of(layout.data)
    last: _Pulse | None = None
    quiet_since = time.monotonic()
    while True:
        pulse = _look(layout, lock)
        if pulse is None:
            # Held: somebody is starting one just now. Free: there will be none.
            if try_lock(lock):
                if _look(layout, lock) is None:
                    unlock(watched)
                    return
                unlock(lock)
            time.sleep(SHORTEST_POLL_S)
            continue
        bound_logs(layout.log)
        idle_s = _recorded_idle_s(lock)
        if pulse.busy or pulse != last:
            last, quiet_since = pulse, time.monotonic()
        elif time.monotonic() - quiet_since >= idle_s and try_lock(lock):
            if _look(layout, lock) == last:
                stop_server(pulse.postmaster.pid, layout.data)
            unlock(lock)
            continue
        poll_s = min(max(idle_s / POLLS_PER_IDLE_TIME, SHORTEST_POLL_S), LONGEST_POLL_S)
        wait_for_exit(pulse.postmaster.pid, poll_s)


def _become_owner_of(data: Path) -> None:
    """As root, go on as the server's user: it may do all that is left to do, and no more."""
    owner = data.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)


if __name__ == "__main__":
    watch(Layout(Path(sys.argv[1])))
