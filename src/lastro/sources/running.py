"""Git as a program over local objects: how it is called, and what its refusals mean."""

import os
import subprocess
from pathlib import Path

from lastro.errors import ConfigError, InvalidInput, NotFound

WORKTREE_REMEDY = "add --worktree to read the files as they lie"
# A credential for remote repositories is no business of a process that reads local objects.
CREDENTIAL_VARIABLES = "LASTRO_GIT_"
# Where the user's settings of git lie is theirs to say; what they set on one command line is not.
_SETTINGS_FILES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")


class GitFailed(InvalidInput):
    """Git refused; the message is git's own first line."""

    def __init__(self, root: Path, stderr: bytes) -> None:
        lines = stderr.decode("utf-8", "replace").splitlines()
        said = next((line for line in lines if line.startswith("fatal:")), "".join(lines[:1]))
        super().__init__(
            f"git could not read {root}: {said.removeprefix('fatal: ') or 'it ended early'}",
            remedy="run `git fsck` there, or clone the repository again",
        )


def run_git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git prints, run in ``folder``. Errors: GitFailed, NotFound, ConfigError."""
    try:
        done = subprocess.run(
            git_command(folder, *arguments),
            env=local_environment(),
            input=stdin,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise no_git() from error
    if done.returncode == 0:
        return done.stdout
    if b"not a git repository" in done.stderr:
        raise NotFound(f"{folder} is not in a Git repository", remedy=WORKTREE_REMEDY)
    if b"dubious ownership" in done.stderr or b"unsafe repository" in done.stderr:
        raise _foreign_owner(folder, done.stderr)
    raise GitFailed(folder, done.stderr)


def git_command(folder: Path, *arguments: str) -> list[str]:
    """The command line of git in ``folder``."""
    # A folder that was named outright may belong to someone else (root over a user's checkout):
    # none of the commands here runs anything that the repository configures.
    safe = f"safe.directory={folder.as_posix()}"
    return ["git", "--no-pager", "--no-optional-locks", "-c", safe, "-C", str(folder), *arguments]


def local_environment() -> dict[str, str]:
    """Environment for git without what would redirect it, its network or its language."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _SETTINGS_FILES or not name.startswith(("GIT_", CREDENTIAL_VARIABLES))
    }
    return kept | {
        "LC_ALL": "C",
        "LANGUAGE": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        # Replaced objects would put other text under a commit's name.
        "GIT_NO_REPLACE_OBJECTS": "1",
        # A partial clone must not fetch: the variable for git >= 2.45, no protocol for the others.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
    }


def no_git() -> ConfigError:
    """There is no git."""
    return ConfigError(
        "the program git is not on PATH", remedy=f"install git, or {WORKTREE_REMEDY}"
    )


def _foreign_owner(folder: Path, stderr: bytes) -> ConfigError:
    parts = stderr.decode("utf-8", "replace").split("'")
    root = parts[1] if len(parts) > 1 else str(folder)
    return ConfigError(
        f"the repository {root} belongs to another user",
        remedy=f"give its top folder, {root}, or run as its owner; with git older than 2.38, "
        f"run: git config --global --add safe.directory '{root}'",
    )
