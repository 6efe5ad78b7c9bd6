"""How much memory the machine or its container has, and what of it the embedded server may use."""

import os
from contextlib import suppress
from pathlib import Path

# Where Linux says what a container may use: control groups, version 2 and 1.
CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
MEGABYTE = 1024 * 1024
# The pages that searches read should stay in the server: with 100,000 sections (a vector index of
# 130 MB) 1 GB instead of PostgreSQL's usual 128 MB took a sixth of its time. What is not used is
# not taken.
LEAST_BUFFERS_MB, MOST_BUFFERS_MB = 128, 1024
BUFFERS_SHARE = 1 / 8


def memory_bytes(*, limits: tuple[Path, ...] = CGROUP_LIMITS) -> int | None:
    """Memory that the machine has, or less where a container may use less; None if unknown."""
    found: list[int] = []
    with suppress(AttributeError, OSError, ValueError):  # a system that does not say
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for limit in limits:
        try:
            text = limit.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():  # else "max"
            found.append(int(text))
    return min(found, default=None)


def shared_buffers_mb(memory: int | None) -> int:
    """What the server's page cache may hold, of ``memory`` in bytes; pure."""
    if memory is None:
        return LEAST_BUFFERS_MB
    share = int(memory * BUFFERS_SHARE) // MEGABYTE
    return min(max(share, LEAST_BUFFERS_MB), MOST_BUFFERS_MB)
