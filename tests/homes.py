"""Homes of embedded servers for tests: folders, programs, and what runs in them."""

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from lastro.db.binaries import find_binaries

SOON_S = 30.0  # the patience a busy machine needs; nothing here takes a second of it


def open_folder() -> Path:
    """A folder that the server's user can pass through, as pytest's own tmp_path is not."""
    path = Path(tempfile.mkdtemp(prefix="lastro-embedded-"))
    path.chmod(0o711)
    return path


def wait_until(what: Callable[[], bool], limit_s: float = SOON_S) -> bool:
    deadline = time.monotonic() + limit_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def value(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
        return row[0] if row else None


def processes_of(home: Path) -> list[int]:
    """PIDs of all that has the path of ``home`` in its arguments: servers and watchers."""
    listing = subprocess.run(
        ["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in listing.stdout.splitlines()]
    return [int(line[0]) for line in lines if str(home) in " ".join(line[1:])]


def programs(folder: Path, **scripts: str) -> Path:
    """A folder of PostgreSQL's programs in which ``scripts`` stand in for some."""
    folder.mkdir(mode=0o755)
    for real in find_binaries(None).iterdir():
        if real.name in scripts:
            (folder / real.name).write_text("#!/bin/sh\n" + scripts[real.name])
            (folder / real.name).chmod(0o755)
        else:
            (folder / real.name).symlink_to(real)
    return folder
