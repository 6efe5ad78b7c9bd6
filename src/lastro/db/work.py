"""What a thread works for: it may be stopped from outside."""

import contextlib
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from lastro.errors import WorkStopped

# Cancelling is a connection of its own, to a server that may be in trouble.
CANCEL_TIMEOUT_S = 2.0


class Work:
    """One piece of work of this process, and the connections that it holds now.

    It has ``deadline_s`` seconds from now, or as long as it takes. May be stopped from another
    thread.
    """

    def __init__(self, *, deadline_s: float | None = None) -> None:
        self._deadline_s = deadline_s
        self._ends_at = None if deadline_s is None else time.monotonic() + deadline_s
        self._lock = threading.Lock()
        self._connections: set[Connection[TupleRow]] = set()
        self.was_stopped = False

    def stop(self) -> None:
        """Cancel the statements that run, and let no other begin."""
        with self._lock:
            self.was_stopped = True
            for connection in self._connections:
                # A server that is gone has stopped already.
                with contextlib.suppress(psycopg.Error):
                    connection.cancel_safe(timeout=CANCEL_TIMEOUT_S)

    def remaining_s(self) -> float | None:
        """Seconds left, above 0; None without a deadline. Errors: WorkStopped."""
        if self.was_stopped:
            raise WorkStopped("nobody waits for this work any more")
        if self._ends_at is None:
            return None
        left_s = self._ends_at - time.monotonic()
        if left_s <= 0:
            raise WorkStopped(
                f"it took longer than its {self._deadline_s:g} s and was given up",
                remedy="ask for less, or when the server is idle",
            )
        return left_s

    @contextmanager
    def holding(self, connection: Connection[TupleRow]) -> Generator[None]:
        """While a connection works for this. One that was cancelled is closed, not used again."""
        with self._lock:
            self._connections.add(connection)
        try:
            self.remaining_s()
            yield
        finally:
            with self._lock:
                self._connections.remove(connection)
                if self.was_stopped:
                    connection.close()


_current: ContextVar[Work | None] = ContextVar("lastro_work", default=None)


def current_work() -> Work | None:
    """What this thread, or task, works for; None where nothing could stop it."""
    return _current.get()


def require_wanted() -> None:
    """Between two looks of a wait without a connection. Errors: WorkStopped."""
    work = current_work()
    if work is not None:
        work.remaining_s()


@contextmanager
def working(work: Work) -> Generator[None]:
    """Whatever is done within, and in threads that take over this context, is for ``work``."""
    token = _current.set(work)
    try:
        yield
    finally:
        _current.reset(token)
