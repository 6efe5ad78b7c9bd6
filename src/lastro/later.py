"""Work that nobody waits for, done soon by a thread of its own."""

import threading
from collections.abc import Callable
from contextvars import Context

# Within which it is done. A process that is killed loses what was asked for in this time.
LATER_S = 1.0


class Later:
    """One piece of work, done soon and once for all who asked for it meanwhile.

    May be used by several threads. ``work`` must raise nothing.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._working = threading.Lock()
        self._timer: threading.Timer | None = None

    def ask(self) -> None:
        """Have it done within ``LATER_S``."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(LATER_S, self.now)
                self._timer.daemon = True
                self._timer.start()

    def now(self) -> None:
        """Do it now, and not once more for those who asked before; one that is at it ends first.

        It is not the caller's work: his deadline does not end what is done for others too.
        """
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        with self._working:
            Context().run(self._work)
