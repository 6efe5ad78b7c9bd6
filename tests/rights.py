"""Rights to files that root would not feel: tests give root's away for a while."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IS_ROOT = os.geteuid() == 0
NOBODY = 65534


@contextmanager
def open_folder_of_rights() -> Iterator[Path]:
    """A folder that another user may enter; afterwards root is root again."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    try:
        yield root
    finally:
        if IS_ROOT:
            os.seteuid(0)
        for folder, folders, names in os.walk(root):
            for place in (Path(folder) / name for name in (*folders, *names)):
                if not place.is_symlink():
                    place.chmod(0o755)
        shutil.rmtree(root)


def drop_rights() -> None:
    """Be nobody from now on, where this is root."""
    if IS_ROOT:
        os.seteuid(NOBODY)
