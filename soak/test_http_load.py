"""The service for long: several processes, a worker of them killed, and flat memory under load.

LASTRO_SOAK_HTTP_S says for how many seconds; half an hour where it says nothing.
"""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest
from homes import open_folder, wait_until
from ollama_server import free_port
from test_http_faults import (
    ASKED,
    SEARCH,
    Load,
    Pier,
    ends_at_once,
    ends_in_order,
    made_pier,
    prepared,
    served,
)

from lastro.config import Settings
from lastro.db.embedded import EmbeddedPostgres
from lastro.http_settings import HttpSettings

LOAD_S = float(os.environ.get("LASTRO_SOAK_HTTP_S", "1800"))
CLIENTS = 8
# What a process may grow by between the first tenth and the end: caches that fill, not a leak.
MOST_GROWTH = 1.2


@pytest.fixture(scope="module", name="pier")
def _pier(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pier]:
    with made_pier(server_url, template, tmp_path_factory.mktemp("pier")) as made:
        yield made


def test_several_processes_let_a_request_end(pier: Pier, tmp_path: Path) -> None:
    ends_in_order(pier, tmp_path, workers=2)


def test_several_processes_told_twice_end_at_once(pier: Pier, tmp_path: Path) -> None:
    ends_at_once(pier, tmp_path, workers=2)


def test_processes_are_counted_together_on_a_port_of_its_own(pier: Pier, tmp_path: Path) -> None:
    port = free_port()
    with served(pier, tmp_path, workers=2, metrics_port=port) as one:
        for _ in range(20):  # each its own connection, so that both processes answer some
            assert httpx.post(one.url + SEARCH, json=ASKED, timeout=30).status_code == 200
        assert one.get("/metrics") == 404
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=10).status_code == 404
    counted = 'route="/api/projects/{project}/rag/search",status="200"} 20.0'
    assert counted in text


def test_two_processes_answer_from_the_embedded_database_and_end_in_order(tmp_path: Path) -> None:
    folder = open_folder()
    settings = Settings(home=folder / "home", embedder="deterministic")
    prepared(settings)
    try:
        with served(Pier("", settings.home), tmp_path, workers=2) as one:

            def both_answered() -> bool:
                assert _answer(one.url) == 200
                text = httpx.get(f"{one.url}/metrics", timeout=30).text
                return f'connections{{state="most"}} {2 * HttpSettings().connections}.0' in text

            assert wait_until(both_answered)  # a process counts its connections once it answered
            one.process.send_signal(signal.SIGTERM)
            assert one.process.wait(timeout=60) == 0, one.log.read_text()
            assert [*one.temporary.iterdir()] == []
    finally:
        EmbeddedPostgres(settings.home, idle_s=0).stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_process_that_is_killed_is_replaced_and_another_answers_meanwhile(
    pier: Pier, tmp_path: Path
) -> None:
    with served(pier, tmp_path, workers=2) as one:
        assert wait_until(lambda: len(_processes(one.process.pid)) == 2)
        killed, left = _processes(one.process.pid)
        os.kill(killed, signal.SIGKILL)
        assert wait_until(lambda: _answer(one.url) == 200)
        assert wait_until(lambda: {*_processes(one.process.pid)} - {killed} > {left})
        assert wait_until(lambda: _answer(one.url) == 200)


def test_processes_whose_watcher_was_killed_end_too(pier: Pier, tmp_path: Path) -> None:
    with served(pier, tmp_path, workers=2) as one:
        one.process.kill()
        assert wait_until(lambda: not one.answers())


@pytest.mark.timeout(LOAD_S + 300)
def test_under_load_memory_is_flat_and_nothing_fails(pier: Pier, tmp_path: Path) -> None:
    with served(pier, tmp_path, workers=1) as one, Load(one.url).running(CLIENTS) as load:
        process, stopped = psutil.Process(one.process.pid), threading.Event()
        stopped.wait(LOAD_S / 10)
        early = process.memory_info().rss
        stopped.wait(LOAD_S * 9 / 10)
        late = process.memory_info().rss
    print(f"{len(load.statuses)} searches, {early / 2**20:.0f} to {late / 2**20:.0f} MiB")
    assert load.wrong == []
    assert set(load.statuses) == {200}
    assert late <= early * MOST_GROWTH


def _answer(url: str) -> int:
    try:
        return httpx.post(url + SEARCH, json=ASKED, timeout=10).status_code
    except httpx.HTTPError:
        return 0


def _processes(parent: int) -> list[int]:
    """Those that answer: of multiprocessing's others the command line says what they are."""
    found: list[int] = []
    for one in psutil.Process(parent).children():
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile, or was and is not buried yet
            if "spawn_main" in " ".join(one.cmdline()):
                found.append(one.pid)
    return found
