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
from lastro.db.privileges import ServerUser, ensure_private_folder, run_as
from lastro.errors import ConfigError, DatabaseUnavailable

# 107 bytes on Linux, 103 on macOS (unix(7), unix(4)).
MAX_SOCKET_PATH_BYTES = 100
# A comma separates hosts in an address and folders in the setting; the rest is caution.
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+=@~-]+")
# The one short folder that two processes of one machine agree on: TMPDIR and XDG_RUNTIME_DIR
# differ between a login, cron and sudo, and the latter goes with the login.
SHORT_FOLDER = Path("/tmp")  # noqa: S108

BUILTIN_LOCALE_SINCE = 17  # PostgreSQL 17 release notes
START_LOG = "start.log"
LOG_TAIL_LINES = 8
OLDEST_LOG_S = 6 * 86_400.0
LARGEST_LOG_BYTES = 16 * 1024 * 1024


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
    for left_over in layout.server.glob("data.new-*"):  # a killed initdb's
        shutil.rmtree(left_over, ignore_errors=True)
    found = data_version(layout.data)
    if found == str(binaries.major):
        _drop_unreadable_lock(layout.data)
        return
    if found is not None:
        raise DatabaseUnavailable(
            f"the database in {layout.data} was made by PostgreSQL {found}, and the programs in "
            f"{binaries.folder} are PostgreSQL {binaries.major}",
            remedy=f"set LASTRO_POSTGRES_BIN to the bin folder of PostgreSQL {found}, or move "
            f"{layout.data} away and index again",
        )
    if layout.data.exists():
        raise ConfigError(f"{layout.data} is in the way: it is no database", remedy="move it away")
    _init_data(layout, binaries, user, timeout_s=timeout_s, durable=durable)


def _init_data(
    layout: pm.Layout, binaries: Binaries, user: ServerUser, *, timeout_s: float, durable: bool
) -> None:
    scratch = layout.server / f"data.new-{secrets.token_hex(4)}"
    command = [str(binaries.folder / "initdb"), "-D", str(scratch), "-U", pm.SUPERUSER]
    command += ["-E", "UTF8", "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=reject"]
    if binaries.major >= BUILTIN_LOCALE_SINCE:
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if not durable:
        command.append("--no-sync")
    try:
        result = run_as(user, command, timeout_s=timeout_s)
        if result.returncode == 0:
            scratch.rename(layout.data)
            return
        said = "\n".join((result.stdout + result.stderr).splitlines()[-LOG_TAIL_LINES:])
    except subprocess.TimeoutExpired:
        said = f"not finished after {timeout_s:g} s"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    raise DatabaseUnavailable(
        f"initdb could not make the database in {layout.data}:\n{said}",
        remedy="mend what initdb names (space on the disk, rights on the folder) and try again",
    )


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
    """Remove logs of a week ago, which today's server would append to, and overgrown ones."""
    for log in layout.log.glob("*.log"):
        found = log.lstat()
        if time.time() - found.st_mtime > OLDEST_LOG_S or found.st_size > LARGEST_LOG_BYTES:
            log.unlink()


def log_tail(layout: pm.Layout) -> str:
    """The last lines of the newest start's log, to be quoted in an error."""
    lines = _last_lines(layout.log / START_LOG)
    if any(str(layout.log) in line for line in lines):  # "future log output will appear in"
        logs = layout.log.glob("postgres-*.log")
        newest = max(logs, key=lambda log: log.stat().st_mtime, default=None)
        lines = [] if newest is None else _last_lines(newest)
    return "".join(f"\n  {line}" for line in lines)


def _last_lines(log: Path) -> list[str]:
    if not log.exists():
        return []
    return log.read_bytes()[-8192:].decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]
