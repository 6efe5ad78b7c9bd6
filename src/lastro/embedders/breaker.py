"""A circuit breaker: a server that is down is asked once in a while, not by every search."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from lastro.embedders.outage import OUTAGES, OutageNote
from lastro.errors import ProviderError

# What is found out sooner costs the next process less than a person notices.
COSTLY_S = 0.5
T = TypeVar("T")


class Breaker:
    """Opens at an outage; after ``retry_after_s`` one caller asks again while the others do not.

    Shared by all threads of a process; with a ``note``, an outage that took time to find out is
    known to other processes too.
    """

    def __init__(
        self,
        *,
        retry_after_s: float,
        clock: Callable[[], float] = time.monotonic,
        note: OutageNote | None = None,
    ) -> None:
        self._retry_after_s = retry_after_s
        self._clock = clock
        self._note = note
        self._lock = threading.Lock()
        self._failure: ProviderError | None = None
        self._retry_at = 0.0

    def call(self, ask: Callable[[], T]) -> T:
        """Return what ``ask`` does; while open, raise the outage's error without asking."""
        self._refuse_while_open()
        return self.watch(ask)

    def watch(self, ask: Callable[[], T]) -> T:
        """Ask even while open, and learn from it."""
        started = self._clock()
        try:
            answer = ask()
        except ProviderError as error:
            outage = error if error.reason in OUTAGES else None
            self._learn(outage, took_s=self._clock() - started)
            raise
        self._learn(None)
        return answer

    def outage(self) -> ProviderError | None:
        """What keeps callers from asking now; None where the next one asks."""
        with self._lock:
            return self._failure if self._retry_at > self._clock() else None

    def _refuse_while_open(self) -> None:
        with self._lock:
            if self._failure is None and not self._recall():
                return
            assert self._failure is not None
            wait_s = self._retry_at - self._clock()
            if wait_s <= 0:
                # Half open: this caller asks, and those that come meanwhile are refused.
                self._retry_at = self._clock() + self._retry_after_s
                return
            raise ProviderError(
                f"{self._failure.message}; asked again in {wait_s:.0f} s",
                reason=self._failure.reason,
                remedy=self._failure.remedy,
            )

    def _recall(self) -> bool:
        """Whether another process met an outage that still counts; it is then ours."""
        noted = self._note.read(longest_s=self._retry_after_s) if self._note else None
        if noted is None:
            return False
        self._failure, left_s = noted
        self._retry_at = self._clock() + left_s
        return True

    def _learn(self, failure: ProviderError | None, *, took_s: float = 0.0) -> None:
        with self._lock:
            self._failure = failure
            if failure is not None:
                self._retry_at = self._clock() + self._retry_after_s
        if self._note is None:
            return
        if failure is not None and took_s >= COSTLY_S:
            self._note.write(failure, lasts_s=self._retry_after_s)
        else:
            self._note.clear()
