"""Work that may wait: threads that leave the processors to whoever answers somebody.

Not for a process that answers requests itself: a thread of it that is behind others may hold what
its other threads wait for.
"""

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

# A tenth of a processor where others want it all the while, and all of it where none does.
# Source: the command nice(1), and the weights of niceness 0 and 10 in Linux, 1024 and 110.
NICENESS = 10


def work_behind_others() -> None:
    """Let this thread, and those that it starts from now on, work behind those of usual rank.

    It holds for good. Linux ranks threads; elsewhere nothing is done.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(_rank(), NICENESS))


@contextmanager
def behind_others() -> Generator[None]:
    """Let this thread do the work of the block behind others.

    Afterwards it has its own rank again where the system lets it, which is root's right.
    """
    before = _rank()
    work_behind_others()
    try:
        yield
    finally:
        if _rank() != before:
            with suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), before)


def _rank() -> int:
    """The niceness of this thread; 0 where threads have none."""
    if sys.platform != "linux":
        return 0
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
