"""The embedded server's data directory, its socket's folder and its log files."""

import hashlib
import os
import re
import secrets
import shutil
import subprocess
import time
from pathlib import Path

from lastro.db import postmaster as pm
from lastro.db.binaries import Binaries
from lastro.db.privileges import ServerUser, ensure_private_folder, run_as, without_libpq
from lastro.errors import ConfigError, DatabaseUnavailable

# 107 bytes on Linux, 103 on macOS (unix(7), unix(4)).
MAX_SOCKET_PATH_BYTES = 100
# A comma separates hosts in an address and folders in the setting; the rest is caution.
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+=@~-]+")
# The one short folder that two processes of one machine agree on: TMPDIR and XDG_RUNTIME_DIR
# differ between a login, cron and sudo, and the latter goes with the login.
SHORT_FOLDER = Path("/tmp")  # noqa: S108

BUILTIN_LOCALE_SINCE = 17  # PostgreSQL 17 release notes
INITDB_SETS_SINCE = 16  # PostgreSQL 16 release notes
START_LOG = "start.log"
LOG_TAIL_LINES = 8
HANDED_OVER = "redirecting log output"  # SysLogger_Start in syslogger.c
CRASHED = "was terminated by signal"  # LogChildExit in postmaster.c
OLDEST_LOG_S = 6 * 86_400.0


def prepare_folders(layout: pm.Layout, user: ServerUser) -> None:
    """Make the server's private folders. Errors: ConfigError when another's are in the way."""
    ensure_private_folder(layout.server, user)
    ensure_private_folder(layout.log, user)


def data_version(data: Path) -> str | None:
    """The major version that made ``data``; None where there is no data directory."""
    try:
        return (data / "PG_VERSION").read_text().strip()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def ensure_data(
    layout: pm.Layout, binaries: Binaries, user: ServerUser, *, timeout_s: float, durable: bool
) -> None:
    """Make the data directory if it is absent, whole or not at all; refuse one we cannot serve.

    Errors: DatabaseUnavailable when it is another major version's or initdb fails.
    """
    finish_swap(layout)
    for left_over in layout.server.glob("data.new-*"):  # a killed initdb's or upgrade's
        shutil.rmtree(left_over, ignore_errors=True)
    found = data_version(layout.data)
    if found == str(binaries.major):
        _drop_unreadable_lock(layout.data)
        return
    if found is not None:
        raise _other_version(layout, found, binaries)
    if layout.data.exists():
        raise ConfigError(f"{layout.data} is in the way: it is no database", remedy="move it away")
    scratch = layout.server / f"data.new-{secrets.token_hex(4)}"
    init_data(scratch, binaries, user, timeout_s=timeout_s, durable=durable)
    scratch.rename(layout.data)


def _other_version(layout: pm.Layout, found: str, binaries: Binaries) -> DatabaseUnavailable:
    other = f"set LASTRO_POSTGRES_BIN to the bin folder of PostgreSQL {found}"
    is_older = found.isdecimal() and int(found) < binaries.major
    return DatabaseUnavailable(
        f"the database in {layout.data} was made by PostgreSQL {found}, and the programs in "
        f"{binaries.folder} are PostgreSQL {binaries.major}",
        remedy=f"run `lastro db upgrade`, or {other}" if is_older else other,
    )


def init_data(
    target: Path, binaries: Binaries, user: ServerUser, *, timeout_s: float, durable: bool
) -> None:
    """Make a data directory at ``target``, or nothing. Errors: DatabaseUnavailable."""
    command = [str(binaries.folder / "initdb"), "-D", str(target), "-U", pm.SUPERUSER]
    command += ["-E", "UTF8", "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=reject"]
    if binaries.major >= BUILTIN_LOCALE_SINCE:
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if binaries.major >= INITDB_SETS_SINCE:
        command += ["--set", "dynamic_shared_memory_type=mmap"]  # initdb runs a server too
    if not durable:
        command.append("--no-sync")
    try:
        result = run_as(user, command, timeout_s=timeout_s)
        if result.returncode == 0:
            return
        said = "\n".join((result.stdout + result.stderr).splitlines()[-LOG_TAIL_LINES:])
    except subprocess.TimeoutExpired:
        said = f"not finished after {timeout_s:g} s"
    shutil.rmtree(target, ignore_errors=True)
    raise DatabaseUnavailable(
        f"initdb could not make the database in {target}:\n{said}",
        remedy="mend what initdb names (space on the disk, rights on the folder) and try again",
    )


def server_environment(data: Path) -> dict[str, str]:
    """A server's environment, told which PID a killed server left in the lock file of ``data``.

    PostgreSQL takes a lock file for its own when the PID in it is that of its grandparent as
    this variable gives it (``CreateLockFile`` in miscinit.c; made for restarts after a crash
    where PIDs repeat). A stranger who has that PID by now then does not stop the start, and
    the file's other guard stays: the memory block of a server that still lives.
    """
    stale = pm.read_postmaster(data)
    named = {} if stale is None else {"PG_GRANDPARENT_PID": str(stale.pid)}
    return {**without_libpq(), **named}


def upgraded_folder(layout: pm.Layout) -> Path:
    """Where a whole and verified upgrade waits for its place; from then on it is the database."""
    return layout.server / "data.upgraded"


def finish_swap(layout: pm.Layout) -> None:
    """Put a verified upgrade in its place, also where an earlier process was killed at it.

    The caller holds the lock, and no server runs. Two renames cannot be one, so each state
    between them leads here: the old data goes only when the new is where the old was.
    """
    upgraded, old = upgraded_folder(layout), layout.server / "data.old"
    if upgraded.exists():
        if layout.data.exists():
            shutil.rmtree(old, ignore_errors=True)
            layout.data.rename(old)
        upgraded.rename(layout.data)
        sync_folder(layout.server)
    if layout.data.exists():
        shutil.rmtree(old, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` outlast a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop_unreadable_lock(data: Path) -> None:
    """Remove a lock file that a full disk or a power cut left empty: no server would start.

    Nothing is lost: such a file names neither a process nor its memory.
    """
    if pm.read_postmaster(data) is None:
        (data / "postmaster.pid").unlink(missing_ok=True)


def socket_folder(layout: pm.Layout, user: ServerUser) -> Path:
    """The folder of the socket: the server's own, or a short private one where that is too long.

    Errors: ConfigError when another user's folder is in the way.
    """
    socket_path = layout.server / f".s.PGSQL.{pm.PORT}"
    short_enough = len(os.fsencode(socket_path)) <= MAX_SOCKET_PATH_BYTES
    if short_enough and PLAIN_PATH.fullmatch(str(layout.server)):
        return layout.server
    digest = hashlib.sha256(os.fsencode(layout.server)).hexdigest()[:16]
    folder = SHORT_FOLDER / f"lastro-{user.uid}-{digest}"
    ensure_private_folder(folder, user)
    return folder


def drop_socket_lock(folder: Path) -> None:
    """Remove what a killed server left; the folder is its own, and the caller holds the lock."""
    (folder / f".s.PGSQL.{pm.PORT}.lock").unlink(missing_ok=True)


def prune_logs(layout: pm.Layout) -> None:
    """Remove logs of a week ago, which today's server would append to; cut overgrown ones."""
    for log in layout.log.glob("*.log"):
        if time.time() - log.lstat().st_mtime > OLDEST_LOG_S:
            log.unlink()
    pm.bound_logs(layout.log)


def _current_log(layout: pm.Layout) -> Path | None:
    """Where the newest start wrote last: in its own file until it goes on in the weekday's."""
    start = layout.log / START_LOG
    if start.exists() and not any(HANDED_OVER in line for line in last_lines(start)):
        return start
    logs = layout.log.glob("postgres-*.log")
    return max(logs, key=lambda log: log.stat().st_mtime_ns, default=None)


def log_tail(layout: pm.Layout) -> str:
    """The last lines of what the newest start left, to be quoted in an error."""
    log = _current_log(layout)
    lines = [] if log is None else last_lines(log)
    return "".join(f"\n  {line}" for line in lines)


def crash_line(layout: pm.Layout) -> str:
    """What the log says of the process that crashed last, to be quoted; or nothing."""
    log = _current_log(layout)
    lines = [] if log is None else last_lines(log, limit=50)
    return next((f"\n  {line}" for line in reversed(lines) if CRASHED in line), "")


def last_lines(log: Path, *, limit: int = LOG_TAIL_LINES) -> list[str]:
    """The end of ``log``; nothing where there is none."""
    if not log.exists():
        return []
    return log.read_bytes()[-8192:].decode(errors="replace").splitlines()[-limit:]
