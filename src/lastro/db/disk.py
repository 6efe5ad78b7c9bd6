"""A full disk below the database: seen, and told by the folder that has to be made room in."""

import shutil
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from lastro.errors import DatabaseUnavailable

NO_SPACE = "No space left on device"  # strerror(ENOSPC), which the server quotes
# PostgreSQL writes its log in files of this size, and stops when it cannot make the next one.
LOG_SEGMENT_BYTES = 16 * 2**20


def disk_full(place: Path | None, said: str) -> DatabaseUnavailable:
    """The error of a full disk; ``said`` is what was heard of it, ``place`` the folder on it."""
    where = "the server's disk" if place is None else f"the disk of {place}"
    return DatabaseUnavailable(
        f"{where} is full; nothing that was stored is lost{said}",
        remedy="free some space there and run the command again"
        if place is None
        else f"free some space there (`df {place}` shows it) and run the command again",
    )


def is_full(place: Path) -> bool:
    """Whether a server whose data is in ``place`` cannot go on for want of room."""
    try:
        return shutil.disk_usage(place).free < LOG_SEGMENT_BYTES
    except OSError:
        return False


def folder_of(url: str) -> Path | None:
    """The data directory of the server at ``url``, where it is this machine's and may be known.

    A server writes it into the second line of its socket's lock file.
    """
    parameters = conninfo_to_dict(url)
    host = str(parameters.get("host") or "")
    if not host.startswith("/"):
        return None
    try:
        lock = Path(host) / f".s.PGSQL.{parameters.get('port') or 5432}.lock"
        return Path(lock.read_text(errors="replace").splitlines()[1])
    except PermissionError:
        return None
    except (OSError, IndexError):
        return Path(host) if Path(host).is_dir() else None
