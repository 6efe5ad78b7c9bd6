"""A circuit breaker: a server that is down is asked once in a while, not by every search."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from lastro.errors import ProviderError
from lastro.types import DegradedReason

# What costs the asker time; a server that answers, even with a refusal, may be asked again.
_OUTAGES: frozenset[DegradedReason] = frozenset({"embedder_unreachable", "embedder_timeout"})
T = TypeVar("T")


class Breaker:
    """Opens at an outage; after ``retry_after_s`` one caller asks again while the others do not.

    Shared by all threads of a process.
    """

    def __init__(
        self, *, retry_after_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._retry_after_s = retry_after_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failure: ProviderError | None = None
        self._retry_at = 0.0

    def call(self, ask: Callable[[], T]) -> T:
        """Return what ``ask`` does; while open, raise the outage's error without asking."""
        self._refuse_while_open()
        return self.watch(ask)

    def watch(self, ask: Callable[[], T]) -> T:
        """Ask even while open, and learn from it."""
        try:
            answer = ask()
        except ProviderError as error:
            self._learn(error if error.reason in _OUTAGES else None)
            raise
        self._learn(None)
        return answer

    def _refuse_while_open(self) -> None:
        with self._lock:
            if self._failure is None:
                return
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

    def _learn(self, failure: ProviderError | None) -> None:
        with self._lock:
            self._failure = failure
            if failure is not None:
                self._retry_at = self._clock() + self._retry_after_s
