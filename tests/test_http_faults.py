"""The service as a process of its own: it ends in order, and outlives its database."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import create_server

import httpx
import pytest
from databases import address, scratch_database
from homes import open_folder, wait_until
from locks import Locked
from ollama_server import Script, ollama
from postgres import SPEEDY
from repositories import commit
from service import Service, running, settings_of

from lastro.app import build, prepare_database
from lastro.config import Settings
from lastro.db.embedded import EmbeddedPostgres
from lastro.errors import ConfigError
from lastro.http.serving import serve, url_of
from lastro.http_settings import HttpSettings
from lastro.ollama_settings import OllamaSettings
from lastro.types import IndexRequest

SEARCH = "/api/projects/pier/rag/search"
ASKED = {"query": "lamp"}
PAGES = {"docs/lamp.md": "# Lamp\n\nThe lamp burns all night.\n"}
PROGRAM = "from lastro.cli import main; raise SystemExit(main())"


@dataclass(frozen=True)
class Pier:
    """A database with the project ``pier``, and the home beside it."""

    url: str
    home: Path


def prepared(settings: Settings) -> None:
    commit(settings.home.parent / "pier", PAGES)
    prepare_database(settings)
    with build(settings) as app:
        app.index(IndexRequest(path=settings.home.parent / "pier", project="pier"))


@pytest.fixture(scope="module", name="pier")
def _pier(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pier]:
    with made_pier(server_url, template, tmp_path_factory.mktemp("pier")) as made:
        yield made


@contextmanager
def made_pier(server_url: str, template: str, folder: Path) -> Iterator[Pier]:
    with scratch_database(server_url, template=template) as name:
        made = Pier(address(server_url, dbname=name), folder / "home")
        prepared(settings_of(made.url, made.home))
        yield made


@dataclass(frozen=True)
class Served:
    """``lastro serve`` as a process: ``log`` is its stderr, ``temporary`` where it may write."""

    process: "subprocess.Popen[bytes]"
    url: str
    log: Path
    temporary: Path

    def get(self, path: str) -> int:
        return httpx.get(self.url + path, timeout=10).status_code

    def answers(self) -> bool:
        try:
            return self.get("/healthz") == 200
        except httpx.HTTPError:
            return False


def listening(log: Path) -> str:
    """Where the service says that it listens; empty before it does."""
    said = re.search(r"^listening on (http://\S+)$", log.read_text(), re.M)
    return said[1] if said else ""


@contextmanager
def served(pier: Pier, folder: Path, **http: object) -> Generator[Served]:
    """Runs until the block ends; then it is killed where it has not ended itself."""
    log, temporary = folder / "log", folder / "temporary"
    temporary.mkdir()
    environment = {
        **os.environ,
        "LASTRO_HOME": str(pier.home),
        "LASTRO_DATABASE_URL": pier.url,
        "LASTRO_EMBEDDER": "deterministic",
        "TMPDIR": str(temporary),
        **{f"LASTRO_HTTP_{key}".upper(): str(value) for key, value in http.items()},
    }
    command = [sys.executable, "-c", PROGRAM, "serve", "--open", "--port", "0"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, cwd=folder, env=environment, stderr=errors) as process,
    ):
        try:
            assert wait_until(lambda: bool(listening(log))), log.read_text()
            one = Served(process, listening(log), log, temporary)
            assert wait_until(one.answers), log.read_text()
            yield one
        finally:
            process.kill()


# --- ending


def test_told_to_end_it_lets_a_request_end_and_is_no_failure(pier: Pier, tmp_path: Path) -> None:
    ends_in_order(pier, tmp_path, workers=1)


def ends_in_order(pier: Pier, tmp_path: Path, *, workers: int) -> None:
    with served(pier, tmp_path, workers=workers) as one:
        replies: list[int] = []

        def ask() -> None:
            replies.append(httpx.post(one.url + SEARCH, json=ASKED, timeout=30).status_code)

        thread = threading.Thread(target=ask)
        with Locked(pier.url) as locked:
            thread.start()
            locked.until_waiting(1)
            one.process.send_signal(signal.SIGTERM)
            assert wait_until(lambda: not one.answers())
        thread.join()
        assert one.process.wait(timeout=30) == 0, one.log.read_text()
        assert [*one.temporary.iterdir()] == []
    assert replies == [200]


def test_told_twice_it_ends_at_once(pier: Pier, tmp_path: Path) -> None:
    ends_at_once(pier, tmp_path, workers=1)


def ends_at_once(pier: Pier, tmp_path: Path, *, workers: int) -> None:
    with served(pier, tmp_path, workers=workers, grace_s=60) as one:
        thread = threading.Thread(target=_ask_in_vain, args=(one.url + SEARCH,))
        with Locked(pier.url) as locked:
            thread.start()
            locked.until_waiting(1)
            one.process.send_signal(signal.SIGTERM)
            assert wait_until(lambda: not one.answers())
            one.process.send_signal(signal.SIGTERM)
            assert one.process.wait(timeout=30) == 130  # long before grace_s
            thread.join()
        assert [*one.temporary.iterdir()] == []


def _ask_in_vain(url: str) -> None:
    try:
        httpx.post(url, json=ASKED, timeout=60)
    except httpx.HTTPError:
        return


def test_nobody_is_told_that_it_listens_where_another_does(pier: Pier) -> None:
    said: list[str] = []
    with create_server(("127.0.0.1", 0)) as taken:
        http = HttpSettings(port=taken.getsockname()[1])
        settings = replace(settings_of(pier.url, pier.home), http=http)
        with pytest.raises(ConfigError, match=f"port {http.port}: Address already in use$"):
            serve(settings, is_open=True, say=said.append)
    assert said == []


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert url_of("::1", 8080) == "http://[::1]:8080"
    assert url_of("127.0.0.1", 8080) == "http://127.0.0.1:8080"


# --- faults under load


@dataclass
class Load:
    """Clients that ask one question after the other, and what they were answered."""

    url: str
    statuses: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self, clients: int) -> Iterator["Load"]:
        threads = [threading.Thread(target=self._ask) for _ in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _ask(self) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as client:
            while not self._stop.is_set():
                self._note(client.post(SEARCH, json=ASKED))

    def _note(self, reply: httpx.Response) -> None:
        self.statuses.append(reply.status_code)
        said = reply.json()
        if reply.status_code == 200:
            found = [hit["origin"]["sourcePath"] for hit in said["hits"]]
            if found != ["docs/lamp.md"]:
                self.wrong.append(f"{found} {said['degraded']}")
        elif said["error"]["code"] not in ("DATABASE_UNAVAILABLE", "RATE_LIMITED"):
            self.wrong.append(str(said))

    def recovers(self) -> bool:
        """Whether answers come again, from now on."""
        seen = len(self.statuses)
        return wait_until(lambda: 200 in self.statuses[seen:])


def test_a_database_that_is_killed_and_comes_back_is_found_again() -> None:
    folder = open_folder()
    server = EmbeddedPostgres(folder / "server", idle_s=120.0, settings=SPEEDY)
    try:
        settings = settings_of(server.start(), folder / "home")
        prepared(settings)
        with (
            running(settings, is_open=True) as service,
            Load(service.url).running(4) as load,
        ):
            assert load.recovers()
            pid = server.status().pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            assert wait_until(lambda: 503 in load.statuses)
            server.start()
            assert load.recovers()
        assert load.wrong == []
        assert set(load.statuses) <= {200, 429, 503}
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_while_an_embedder_hangs_others_are_answered(
    pier: Pier, template: str, tmp_path: Path
) -> None:
    script = Script()
    with ollama(script) as host, scratch_database(pier.url, template=template) as name:
        settings = replace(
            settings_of(address(pier.url, dbname=name), tmp_path / "home"),
            embedder="ollama:nomic-embed-text",
            ollama_host=host,
            ollama=OllamaSettings(query_timeout_s=1.0),
        )
        prepared(settings)
        script.delay_s = 60.0
        limits = {"concurrency": 2, "waiting": 30}
        with running(settings, is_open=True, http=limits) as service:
            replies, took_s = _asked_together(service, clients=12)
            with service.client() as client:
                began = time.monotonic()
                assert client.get("/healthz").status_code == 200
                assert client.post(SEARCH, json={"query": "night"}).status_code == 200
                took_s.append(time.monotonic() - began)
    # 12 clients, 8 connections: words alone answer, and say so.
    assert [reply.status_code for reply in replies] == [200] * 12
    reasons = {one["reason"] for reply in replies for one in reply.json()["degraded"]}
    assert reasons == {"embedder_timeout"}
    assert max(took_s) < 20


def _asked_together(service: Service, *, clients: int) -> tuple[list[httpx.Response], list[float]]:
    replies: list[httpx.Response] = []
    took_s: list[float] = []

    def ask(number: int) -> None:
        with service.client() as client:
            began = time.monotonic()
            replies.append(client.post(SEARCH, json={"query": f"lamp {number}"}))
            took_s.append(time.monotonic() - began)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies, took_s
