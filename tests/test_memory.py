"""How much memory the embedded server may take."""

import os
from pathlib import Path

import pytest

from lastro.db.memory import MEGABYTE, memory_bytes, shared_buffers_mb

PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("memory_mb", "buffers_mb"),
    [(512, 128), (2_048, 256), (8_192, 1_024), (65_536, 1_024)],
)
def test_the_server_keeps_an_eighth_of_the_memory_within_bounds(
    memory_mb: int, buffers_mb: int
) -> None:
    assert shared_buffers_mb(memory_mb * MEGABYTE) == buffers_mb


def test_where_the_memory_is_unknown_the_server_keeps_the_least() -> None:
    assert shared_buffers_mb(None) == 128


@pytest.mark.parametrize(
    ("text", "expected"), [("268435456\n", 268_435_456), ("max\n", PHYSICAL), (None, PHYSICAL)]
)
def test_a_container_may_use_less_than_its_machine_has(
    tmp_path: Path, text: str | None, expected: int
) -> None:
    limit = tmp_path / "memory.max"
    if text is not None:
        limit.write_text(text)
    assert memory_bytes(limits=(limit,)) == expected
