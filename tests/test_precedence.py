"""Work that may wait: its threads work behind others, and no other thread does."""

import os
import sys
import threading

import pytest

from lastro.precedence import NICENESS, behind_others, work_behind_others

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux ranks threads")


def rank() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def in_a_thread(work) -> list[int]:
    said: list[int] = []
    thread = threading.Thread(target=lambda: said.extend(work()))
    thread.start()
    thread.join()
    return said


def test_a_thread_and_those_that_it_starts_work_behind_others() -> None:
    def work() -> list[int]:
        work_behind_others()
        return [rank(), *in_a_thread(lambda: [rank()])]

    behind = max(rank(), NICENESS)
    assert in_a_thread(work) == [behind, behind]


def test_other_threads_keep_their_rank() -> None:
    before = rank()
    in_a_thread(lambda: [work_behind_others() or 0])
    assert rank() == before


def test_a_thread_that_is_further_behind_stays_there() -> None:
    def work() -> list[int]:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        work_behind_others()
        return [rank()]

    assert in_a_thread(work) == [19]


def test_after_the_block_a_thread_has_its_rank_again_where_it_may() -> None:
    def work() -> list[int]:
        with behind_others():
            inside = rank()
        return [inside, rank()]

    before, behind = rank(), max(rank(), NICENESS)
    may = os.geteuid() == 0
    assert in_a_thread(work) == [behind, before if may else behind]
