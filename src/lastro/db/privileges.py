"""Which user the embedded server runs as, and which folders that user can reach.

PostgreSQL refuses to run as root. No user is ever made for it, and no folder that was there
before is opened to anybody: what the server cannot reach is an error that names the folder.
"""

import contextlib
import os
import pwd
import secrets
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lastro.errors import ConfigError

# In this order; both are made by the system's own packages, never by us.
USERS_TO_DROP_TO = ("postgres", "nobody")

# The shell is the one program that any user can run; `cd` fails exactly where the server would,
# and knows of access lists that the mode bits do not show.
FIRST_CLOSED_FOLDER = (
    'for folder; do cd -- "$folder" 2>/dev/null || { echo "$folder"; exit; }; done'
)

DETACH = 'exec "$@" </dev/null >"$0" 2>&1 & echo $!'


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUser:
    """The system user of the server; ``dropped`` when it is not the caller."""

    name: str
    uid: int
    gid: int
    dropped: bool


def choose_user(server_folder: Path) -> ServerUser:
    """Oneself; for root the owner of the existing ``server_folder``, else postgres or nobody.

    Errors: ConfigError when root has nobody to drop to.
    """
    if os.geteuid() != 0:
        return _user(os.geteuid(), os.getegid(), dropped=False)
    try:
        owner = server_folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        owner = None
    if owner is not None and owner.st_uid != 0:
        return _user(owner.st_uid, owner.st_gid, dropped=True)
    for name in USERS_TO_DROP_TO:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid, dropped=True)
    raise ConfigError(
        "PostgreSQL refuses to run as root, and this system has neither a user "
        f"{' nor a user '.join(USERS_TO_DROP_TO)}",
        remedy="run lastro as an ordinary user, or set LASTRO_DATABASE_URL to a running server",
    )


def _user(uid: int, gid: int, *, dropped: bool) -> ServerUser:
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container's arbitrary user has no entry, and needs none
        name = f"uid {uid}"
    return ServerUser(name=name, uid=uid, gid=gid, dropped=dropped)


def run_as(
    user: ServerUser,
    command: Sequence[str],
    *,
    timeout_s: float | None = None,
    input_text: str | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run ``command`` as ``user``, away from the terminal, and return what it printed.

    Errors: OSError when it cannot be executed, subprocess.TimeoutExpired.
    """
    return subprocess.run(
        command,
        input=input_text or "",
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=timeout_s,
        cwd="/",
        env=without_libpq(),
        umask=0o077,
        user=user.uid if user.dropped else None,
        group=user.gid if user.dropped else None,
        extra_groups=[] if user.dropped else None,
    )


def open_as(
    user: ServerUser,
    command: Sequence[str],
    *,
    stdin: int | IO[bytes] | None = None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    new_session: bool = False,
) -> "subprocess.Popen[bytes]":
    """Start ``command`` as ``user``, a child of ours. Errors: OSError."""
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd="/",
        env=without_libpq() if environment is None else environment,
        umask=0o077,
        start_new_session=new_session,
        user=user.uid if user.dropped else None,
        group=user.gid if user.dropped else None,
        extra_groups=[] if user.dropped else None,
    )


def without_libpq() -> dict[str, str]:
    """Our environment without what PostgreSQL's programs obey, and without Git's credential.

    The server outlives the command, and another user can look into it.
    """
    others = ("PG", "LASTRO_GIT_")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)}


def spawn_detached(
    user: ServerUser | None,
    command: Sequence[str],
    *,
    output: Path,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Start ``command`` as ``user`` (None: oneself), on its own, and return its PID.

    It has its own session, no descriptor of ours, and no parent that would have to await it: the
    shell between us ends at once. What it prints replaces the content of ``output``.

    Errors: ConfigError when this user cannot be changed to.
    """
    drop = user if user is not None and user.dropped else None
    try:
        shell = subprocess.run(
            ["/bin/sh", "-c", DETACH, str(output), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
            cwd="/",
            env=environment,
            umask=0o077,
            start_new_session=True,
            user=drop.uid if drop else None,
            group=drop.gid if drop else None,
            extra_groups=[] if drop else None,
        )
    except PermissionError as error:
        raise _cannot_become(user) from error
    return int(shell.stdout)


def _cannot_become(user: ServerUser | None) -> ConfigError:
    return ConfigError(
        f"this process may not become the user {user.name if user else 'itself'}, and "
        "PostgreSQL refuses to run as root",
        remedy="run lastro as an ordinary user, or set LASTRO_DATABASE_URL to a running server",
    )


def make_home(home: Path, user: ServerUser) -> None:
    """Make ``home`` if it is absent, private to oneself and the server's user.

    Errors: ConfigError when it is no folder, cannot be made or written, or lies where ``user``
    cannot reach it.
    """
    missing = [folder for folder in (home, *home.parents) if not os.path.lexists(folder)]
    if missing:
        ensure_reachable(missing[-1].parent, user)
    try:
        for folder in reversed(missing):
            _make_private(folder, user)
        is_folder = stat.S_ISDIR(home.stat().st_mode)
    except OSError as error:
        raise ConfigError(
            f"the folder {home} for Lastro's data cannot be made or entered: {error.strerror}",
            remedy="set LASTRO_HOME to a folder that you may write",
        ) from error
    if not is_folder:
        raise ConfigError(
            f"LASTRO_HOME is {home}, which is not a folder", remedy="set LASTRO_HOME to a folder"
        )
    if not os.access(home, os.W_OK | os.X_OK):
        raise ConfigError(
            f"the folder {home} for Lastro's data cannot be written by this user",
            remedy="set LASTRO_HOME to a folder that you may write",
        )


def _make_private(folder: Path, user: ServerUser) -> None:
    # Renamed when it is as it shall be: another process may use it from the moment it is there.
    scratch = folder.with_name(f".{folder.name[:32]}-{secrets.token_hex(4)}")
    scratch.mkdir(mode=0o700)
    try:
        if user.dropped:
            # Root's group is of no use here; the server's may pass through, and not look around.
            os.chown(scratch, 0, user.gid)
            scratch.chmod(0o710)
        scratch.rename(folder)
    except OSError:
        scratch.rmdir()
        if not folder.is_dir():
            raise


def ensure_reachable(home: Path, user: ServerUser) -> None:
    """Refuse a ``home`` that ``user`` cannot reach, naming the folder that stops it.

    Errors: ConfigError.
    """
    if not user.dropped:
        return
    folders = [str(folder) for folder in (*reversed(home.parents), home)]
    try:
        shell = ["/bin/sh", "-c", FIRST_CLOSED_FOLDER, "sh", *folders]
        closed = run_as(user, shell, timeout_s=10.0).stdout.rstrip("\n")
    except PermissionError as error:
        raise _cannot_become(user) from error
    if closed:
        raise ConfigError(
            f"the database runs as the user {user.name}, because PostgreSQL refuses root, and "
            f"{user.name} cannot enter {closed}, so it cannot reach its data in {home}",
            remedy="set LASTRO_HOME to a folder that it can reach, such as /var/lib/lastro",
        )


def ensure_private_folder(folder: Path, user: ServerUser) -> None:
    """Make ``folder`` if it is absent, for ``user`` alone (and root).

    Errors: ConfigError when what is there is no folder, a link, another user's, or open to others.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"{folder} is in the way: it is not a folder", remedy=f"remove {folder}")
    if user.dropped and found.st_uid == 0:
        os.chown(folder, user.uid, user.gid)
        found = folder.lstat()
    if found.st_uid != user.uid:
        raise ConfigError(
            f"the folder {folder} belongs to another user (uid {found.st_uid}) than the "
            f"database's, {user.name}",
            remedy="run as that user, or set LASTRO_HOME to a folder of your own",
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"the folder {folder} is open to other users, who could then use the database",
            remedy=f"chmod 700 {folder}",
        )
