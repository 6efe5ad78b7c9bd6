"""The first words with an embedded server: waiting for it, its answer, its first vector."""

import contextlib
import logging
import os
import time
from urllib.parse import quote

from lastro.db import postmaster as pm
from lastro.errors import DatabaseUnavailable

logger = logging.getLogger(__name__)

FIRST_POLL_S = 0.005
SAY_AFTER_S = 3.0  # a start takes a tenth of that; whoever waits longer is told why
# Both take milliseconds on an idle machine; a minute is for one that is swapping.
CREATE_TIMEOUT_S, PROBE_TIMEOUT_S = 60.0, 60.0
# The packaged vector.so is compiled for AVX2 outside its dispatched functions too: on an older
# processor the first vector kills the server. Nothing of this stays; 64 numbers fill every loop.
VECTOR_PROBE = """
    BEGIN;
    CREATE EXTENSION IF NOT EXISTS vector;
    SELECT (v <=> v)::text || (v::vector <-> v::vector)::text || l2_norm(v)::text
    FROM (SELECT array_fill(0.5::real, '{64}')::vector::halfvec AS v) AS sample;
    ROLLBACK
"""


def answers(socket_path: str) -> bool:
    """Whether the server takes our connections, making our database if it is absent.

    Errors: OSError where nobody listens, DatabaseUnavailable for any other refusal.
    """
    try:
        pm.ask(socket_path, pm.DATABASE)
    except pm.Refused as refusal:
        if refusal.sqlstate == pm.CANNOT_CONNECT_NOW:
            return False
        if refusal.sqlstate == pm.NO_SUCH_DATABASE:
            query = f"CREATE DATABASE {pm.DATABASE}"
            pm.ask(socket_path, pm.MAINTENANCE_DATABASE, query, timeout_s=CREATE_TIMEOUT_S)
        elif refusal.sqlstate != pm.TOO_MANY_CONNECTIONS:
            raise DatabaseUnavailable(
                f"the embedded PostgreSQL at {socket_path} refuses its owner: {refusal}",
                remedy="run lastro db stop, then the command again",
            ) from refusal
    return True


def vectors_crash(socket_path: str) -> bool:
    """Whether the server dies of a vector. A refusal is another's to explain: migrations."""
    with contextlib.suppress(pm.Refused, TimeoutError):
        try:
            pm.ask(socket_path, pm.DATABASE, VECTOR_PROBE, timeout_s=PROBE_TIMEOUT_S)
        except ConnectionError:
            return True
    return False


def owner_url(server: pm.Postmaster) -> str:
    """The address of the embedded database for its owner."""
    folder = quote(os.fsencode(server.socket_dir or ""), safe="/")
    return f"postgresql://{pm.SUPERUSER}@/{pm.DATABASE}?host={folder}&port={server.port}"


class Wait:
    """Pauses that grow, and one line on what is waited for once it takes long."""

    def __init__(self, what: str) -> None:
        self._what: str | None = what
        self._began = time.monotonic()
        self._pause_s = FIRST_POLL_S

    def pause(self, longest_s: float) -> None:
        """Sleep a little longer than the last time, at most ``longest_s``."""
        if self._what is not None and time.monotonic() - self._began > SAY_AFTER_S:
            logger.warning("%s", self._what)
            self._what = None
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 1.5, longest_s)
