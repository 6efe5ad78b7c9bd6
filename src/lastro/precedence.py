"""Work that may wait: threads that leave the processors to whoever answers somebody.

Not for a process that answers requests itself: a thread of it that is behind others may hold what
its other threads wait for.
"""

import os
import socket
import struct
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

# A tenth of a processor where others want it all the while, and all of it where none does.
# Source: the command nice(1), and the weights of niceness 0 and 10 in Linux, 1024 and 110.
NICENESS = 10


def work_behind_others() -> None:
    """Let this thread, and those that it starts from now on, work behind those of usual rank.

    It holds for good. Linux ranks threads; elsewhere nothing is done.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(niceness(), NICENESS))


@contextmanager
def behind_others() -> Generator[None]:
    """Let this thread do the work of the block behind others.

    Afterwards it has its own rank again where the system lets it, which is root's right.
    """
    before = niceness()
    work_behind_others()
    try:
        yield
    finally:
        if niceness() != before:
            with suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), before)


def let_follow(pid: int, *, connection: int) -> int:
    """Let a server's process have this thread's niceness: it does the thread's work.

    ``pid`` is what the server calls its process behind the socket ``connection``. It is asked only
    of a process of this machine, a child of the one that listens there; where the system does not
    allow it, as for a server of another user, all stays as it is. Returns the niceness that the
    process has now, this thread's where it is none of this machine.
    """
    with suppress(OSError):
        if _parent(pid) == _listener(connection):
            with suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, pid, niceness())
            return os.getpriority(os.PRIO_PROCESS, pid)
    return niceness()


def _listener(connection: int) -> int | None:
    """The process that listens on the Unix socket at the other end; None for other sockets."""
    with socket.socket(fileno=os.dup(connection)) as end:
        if end.family != socket.AF_UNIX:
            return None
        told = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", told)[0])


def _parent(pid: int) -> int:
    """Errors: OSError where there is no such process."""
    # The name before it, in parentheses, may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(fields.rpartition(")")[2].split()[1])


def niceness() -> int:
    """The niceness of this thread; 0 where threads have none."""
    if sys.platform != "linux":
        return 0
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
