"""Work that may wait: its threads work behind others, and no other thread does."""

import os
import subprocess
import sys
import threading

import psycopg
import pytest

from lastro.db.pool import Database
from lastro.precedence import NICENESS, behind_others, let_follow, work_behind_others

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


def test_the_servers_process_follows_the_thread_that_it_works_for(owner_url: str) -> None:
    def work() -> list[int]:
        work_behind_others()
        with Database(owner_url) as database, database.session() as connection:
            return [os.getpriority(os.PRIO_PROCESS, connection.info.backend_pid)]

    with psycopg.connect(owner_url) as other:
        if let_follow(other.info.backend_pid, connection=other.fileno()) != rank():
            pytest.skip("a server whose processes this user may not rank")
        usual = os.getpriority(os.PRIO_PROCESS, other.info.backend_pid)
        assert in_a_thread(work) == [max(usual, rank(), NICENESS)]
        assert os.getpriority(os.PRIO_PROCESS, other.info.backend_pid) == usual


def test_a_process_that_is_no_servers_child_keeps_its_rank(server_url: str) -> None:
    def work() -> list[int]:
        work_behind_others()
        with psycopg.connect(server_url) as connection:
            let_follow(stranger.pid, connection=connection.fileno())
        return [os.getpriority(os.PRIO_PROCESS, stranger.pid)]

    with subprocess.Popen(["sleep", "60"]) as stranger:
        found = in_a_thread(work)
        stranger.kill()
    assert found == [rank()]
