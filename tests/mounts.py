"""A mount namespace of a test's own: file systems that are small, and that nobody else sees."""

import os
import shutil
import subprocess
import sys

import pytest


def _may_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    tried = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


can_mount = pytest.mark.skipif(
    not _may_mount(), reason="a file system of its own cannot be mounted"
)


def in_namespace(mounts: str, script: str, *arguments: str) -> str:
    """What ``script`` prints where ``mounts`` were made first, which nobody else sees."""
    command = [sys.executable, "-c", script, *arguments]
    shell = ["unshare", "--mount", "sh", "-ec", f'{mounts}; exec "$@"', "sh", *command]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
