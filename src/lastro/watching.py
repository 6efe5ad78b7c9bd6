"""A place watched: it is indexed when it has moved, and again where that did not go well.

What is looked at is where the ref stands, or how the files lie, and not what happened to them: no
event can be missed, come late or come twice. Rebases, packed refs and a repository that is deleted
and made anew are only other answers to the same question.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from lastro.errors import LastroError
from lastro.types import IndexReport

# Looking costs a process of git or a walk over the files: at most this part of the time.
MAX_LOOKING = 1 / 20
# A state must last so long before it is indexed: a rebase or a save of many files is one change.
SETTLE_S = 0.5
# What never comes to rest is indexed all the same.
MAX_SETTLE_S = 10.0
# Between two tries of what failed, or left texts without a vector.
RETRY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a place is looked at and tried again; in seconds."""

    interval_s: float = 2.0
    settle_s: float = SETTLE_S
    retry_s: float = RETRY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What came of a look: a run's report or why it failed, or why nothing can be seen.

    ``lost`` is True where the place itself cannot be looked at, ``back`` where it can be again and
    is as it was indexed.
    """

    report: IndexReport | None = None
    error: LastroError | None = None
    lost: bool = False
    back: bool = False


def watch(
    look: Callable[[], str],
    run: Callable[[], IndexReport],
    *,
    pace: Pace,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Watched]:
    """Run now and whenever ``look`` sees another state; yields what came of it, and never ends.

    A run that failed or left texts without a vector is tried again when the state moves, or after
    ``retry_s``. A place that is lost is said once, and indexed when it is there again, or said to
    be back where nothing moved. One that moves back after such a run is indexed again: some of
    what the run saw may be stored.
    """
    done: str | None = None
    tried: tuple[str, float] | None = None
    trouble: str | None = None
    while True:
        started, pause_s = clock(), pace.interval_s
        try:
            state = look()
            pause_s = max(pause_s, (clock() - started) / MAX_LOOKING)
            if tried is not None and state != tried[0]:
                state = _settled(state, look, pace=pace, wait=wait, clock=clock)
        except LastroError as error:
            if error.message != trouble:
                trouble = error.message
                yield Watched(error=error, lost=True)
        else:
            was_lost, trouble = trouble is not None, None
            waits = tried is not None and tried[0] == state and clock() < tried[1] + pace.retry_s
            if state != done and not waits:
                ran = _ran(run)
                is_whole = ran.report is not None and ran.report.embedding.reason is None
                done, tried = state if is_whole else None, (state, clock())
                yield ran
            elif was_lost and state == done:
                yield Watched(back=True)
        wait(pause_s)


def _settled(
    state: str,
    look: Callable[[], str],
    *,
    pace: Pace,
    wait: Callable[[float], None],
    clock: Callable[[], float],
) -> str:
    """The state that lasts; the one seen last where none does."""
    ends = clock() + MAX_SETTLE_S
    while True:
        wait(pace.settle_s)
        again = look()
        if again == state or clock() > ends:
            return again
        state = again


def _ran(run: Callable[[], IndexReport]) -> Watched:
    try:
        return Watched(report=run())
    except LastroError as error:
        return Watched(error=error)


def run_for_all(wish: Path, run: Callable[[], None], *, settle_s: float = SETTLE_S) -> bool:
    """Run for everyone who wishes it meanwhile; returns False where another process will.

    ``wish`` is a file that stands for the wish, its lock beside it. A wish that comes while a run
    is on is met by the next, so the last run begins after the last wish.
    """
    wish.touch()
    while wish.exists():
        lock = FileLock(wish.with_suffix(".lock"), blocking=False)
        try:
            with lock:
                while wish.exists():
                    time.sleep(settle_s)
                    wish.unlink(missing_ok=True)
                    run()
        except Timeout:
            return False
    return True
