"""The test-suite's own PostgreSQL: one embedded server for a whole run, shared by its workers.

``conftest.py`` calls ``begin_run()`` in ``pytest_configure`` (before pytest-xdist starts its
workers, which inherit the run's name) and ``end_run()`` in ``pytest_unconfigure``.
"""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lastro.db.embedded import EmbeddedPostgres

DATABASE_VARIABLE = "LASTRO_TEST_DATABASE_URL"
RUN_VARIABLE = "LASTRO_TEST_RUN"
FOLDER_PREFIX = "lastro-test-"
# Longer than any stretch of tests that need no database; after a killed run it stops the server.
IDLE_S = 600.0
LEFT_OVER_AFTER_S = 3_600.0
SPEEDY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextmanager
def own_server() -> Iterator[EmbeddedPostgres]:
    """A server beside that of the run, not started; gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="lastro-private-"))
    folder.chmod(0o711)  # the server's user passes through
    server = EmbeddedPostgres(folder / "home", settings=SPEEDY)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def begin_run() -> None:
    """Name this run, unless it is a worker's that has the name already."""
    if RUN_VARIABLE not in os.environ:
        os.environ[RUN_VARIABLE] = f"{uuid.uuid4().hex}-{os.getpid()}"
        _remove_left_overs()


def end_run() -> None:
    """Stop the server and remove its folder, in the process that began the run alone."""
    run = os.environ.get(RUN_VARIABLE, "")
    if run.endswith(f"-{os.getpid()}"):
        del os.environ[RUN_VARIABLE]
        if _home(run).exists():
            _server(_home(run)).stop()
            shutil.rmtree(_home(run))


def test_server() -> str:
    """The owner's address of the run's server; whoever asks first starts it.

    ``LASTRO_TEST_DATABASE_URL`` names another server, whose user must be allowed to make
    databases and roles; then nothing is started.
    """
    given = os.environ.get(DATABASE_VARIABLE)
    if given:
        return given
    return _server(_home(os.environ[RUN_VARIABLE])).start()


test_server.__test__ = False  # its name begins as a test's


def _home(run: str) -> Path:
    # Not pytest's tmp_path: that is closed to the user that the server runs as under root.
    return Path(tempfile.gettempdir()) / f"{FOLDER_PREFIX}{run}"


def _server(home: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(home, idle_s=IDLE_S, settings=SPEEDY)


def _remove_left_overs() -> None:
    """Remove the folders of killed runs, whose servers have stopped for being idle."""
    for lock in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*/postgres.lock"):
        found = lock.lstat()
        old = time.time() - found.st_mtime > LEFT_OVER_AFTER_S
        if found.st_uid == os.geteuid() and old and not _server(lock.parent).status().running:
            shutil.rmtree(lock.parent, ignore_errors=True)
