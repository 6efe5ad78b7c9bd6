"""Real Git repositories for tests, independent of the user's configuration."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "dev",
    "GIT_AUTHOR_EMAIL": "dev@example.org",
    "GIT_COMMITTER_NAME": "dev",
    "GIT_COMMITTER_EMAIL": "dev@example.org",
}


def git(folder: Path, *arguments: str) -> str:
    """Run git in ``folder`` and return what it prints."""
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env={**os.environ, **_ENVIRONMENT},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def write(folder: Path, files: Mapping[str, str | bytes | None]) -> None:
    """Write files below ``folder``; None deletes one."""
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)


def commit(folder: Path, files: Mapping[str, str | bytes | None], *, message: str = "step") -> str:
    """Write and commit files, making the repository at the first call; returns the commit id."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    write(folder, files)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")
