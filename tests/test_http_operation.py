"""Operation of the service: readiness, metrics, and a log without content."""

import asyncio
import io
import json
import logging
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import psycopg
import pytest
import uvicorn
from databases import address, scratch_database
from homes import wait_until
from ollama_server import Script, ollama
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.parser import text_string_to_metric_families
from repositories import commit
from service import Service, running, settings_of
from uvicorn.lifespan.on import LifespanOn

from lastro.app import App, build, prepare_database
from lastro.config import Settings
from lastro.db import migrate
from lastro.errors import (
    EXIT_FAILED,
    REFUSALS,
    Busy,
    ConfigError,
    Contention,
    DatabaseUnavailable,
    InvalidInput,
    LastroError,
    NotFound,
    ProviderError,
    WorkStopped,
    refusal_reason,
)
from lastro.http import health, metrics, serving
from lastro.http.answers import refusal
from lastro.http.logs import set_up_log
from lastro.http.metrics import Metrics
from lastro.http.service import make_service
from lastro.http_settings import HttpSettings
from lastro.ollama_settings import OllamaSettings
from lastro.readiness import ReasonedCheck
from lastro.sql import load_migrations
from lastro.types import Check, IndexRequest

SEARCH = "/api/projects/harbour/rag/search"
PAGES = {
    "docs/crane.md": "# Crane\n\nThe crane lifts at dawn.\n",
    "docs/quay.md": "# Quay\n\nThe quay is swept at noon.\n",
}
METRICS_PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"


@dataclass(frozen=True)
class Harbour:
    """A database with the project ``harbour``, and the home beside it."""

    url: str
    home: Path

    @property
    def settings(self) -> Settings:
        return settings_of(self.url, self.home)


@pytest.fixture(scope="module", name="harbour")
def _harbour(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harbour]:
    with scratch_database(server_url, template=template) as name:
        made = Harbour(address(server_url, dbname=name), tmp_path_factory.mktemp("ops") / "home")
        prepare_database(made.settings)
        commit(made.home.parent / "harbour", PAGES)
        with build(made.settings) as app:
            app.index(IndexRequest(path=made.home.parent / "harbour", project="harbour"))
        yield made


@pytest.fixture(scope="module", name="service")
def _service(harbour: Harbour) -> Iterator[Service]:
    with running(harbour.settings) as service:
        yield service


@pytest.fixture(autouse=True)
def _unkept_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "KEPT_S", 0.0)


def key_of(service: Service) -> str:
    with build(service.settings) as app:
        return app.keys.create("harbour", role="viewer").key


def figures(service: Service) -> dict[str, float]:
    """Every sample by its name and labels."""
    with service.client() as client:
        text = client.get("/metrics").text
    return {
        one.name + "".join(f" {value}" for _, value in sorted(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """What the service writes to stderr as JSON; afterwards the log is as it was."""
    names = (
        "",
        "lastro.http",
        "uvicorn",
        "uvicorn.error",
        "uvicorn.access",
        "psycopg.pool",
        "asyncio",
    )
    loggers = [logging.getLogger(name) for name in names]
    before = [(one.level, one.handlers[:], one.filters[:], one.propagate) for one in loggers]
    written = io.StringIO()
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("sys.stderr", written)
            set_up_log("json")
            yield written
    finally:
        for logger, (level, handlers, filters, propagate) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.handlers[:], logger.filters[:], logger.propagate = handlers, filters, propagate


@pytest.fixture(name="log")
def _log() -> Iterator[io.StringIO]:
    with logged() as written:
        yield written


# --- readiness


def test_a_service_that_answers_whole_is_ready(service: Service) -> None:
    with service.client() as client:
        reply = client.get("/readyz")
    assert reply.status_code == 200
    said = reply.json()
    assert said["status"] == "ready"
    assert [(one["name"], one["status"]) for one in said["checks"]] == [
        ("database", "ok"),
        ("schema", "ok"),
        ("vectors of", "ok"),
    ]


def test_a_database_of_another_embedder_is_not_ready(harbour: Harbour) -> None:
    other = replace(harbour.settings, embedder="use-m3")
    with running(other) as service, service.client() as client:
        reply = client.get("/readyz")
        assert client.get("/healthz").status_code == 200
    assert (reply.status_code, reply.json()["status"]) == (503, "notReady")
    failed = [one for one in reply.json()["checks"] if one["status"] == "fail"]
    assert failed == [{"name": "vectors of", "status": "fail", "reason": "embedder_mismatch"}]


def test_a_schema_of_another_release_is_not_ready(harbour: Harbour, template: str) -> None:
    with scratch_database(harbour.url, template=template) as name:
        url = address(harbour.url, dbname=name)
        with running(settings_of(url, harbour.home)) as service, service.client() as client:
            assert client.get("/readyz").status_code == 200
            with psycopg.connect(url) as connection:
                connection.execute("UPDATE lastro.migrations SET checksum = 'x' WHERE version = 1")
            reply = client.get("/readyz")
    assert (reply.status_code, reply.json()["status"]) == (503, "notReady")
    assert [(one["name"], one.get("reason")) for one in reply.json()["checks"]] == [
        ("database", None),
        ("schema", "schema_out_of_date"),
    ]


LAST = "(SELECT max(version) FROM lastro.migrations)"
AHEAD = f"INSERT INTO lastro.migrations VALUES ({LAST} + 1, 'next', 'x', now(), 'pre')"
BEHIND = f"DELETE FROM lastro.migrations WHERE version = {LAST}"


@pytest.mark.parametrize(
    ("change", "reason"), [(AHEAD, "schema_ahead"), (BEHIND, "migrations_wait")]
)
def test_an_upgrade_that_was_begun_leaves_both_releases_ready(
    harbour: Harbour,
    template: str,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    reason: str,
) -> None:
    known = load_migrations()
    post = replace(known[-1], phase="post")
    monkeypatch.setattr(migrate, "load_migrations", lambda: [*known[:-1], post])
    with scratch_database(harbour.url, template=template) as name:
        url = address(harbour.url, dbname=name)
        with running(settings_of(url, harbour.home)) as service, service.client() as client:
            with psycopg.connect(url) as connection:
                connection.execute(change.encode())
            reply = client.get("/readyz")
    assert (reply.status_code, reply.json()["status"]) == (200, "ready")
    found = {one["name"]: one for one in reply.json()["checks"]}
    assert found["schema"] == {"name": "schema", "status": "ok", "reason": reason}


def test_a_hanging_embedder_is_degraded_and_is_not_paid_for_a_look(
    harbour: Harbour, template: str, tmp_path: Path
) -> None:
    with scratch_database(harbour.url, template=template) as name:
        script = Script()
        with ollama(script) as host:
            settings = replace(
                settings_of(address(harbour.url, dbname=name), tmp_path / "home"),
                embedder="ollama:nomic-embed-text",
                ollama_host=host,
                ollama=OllamaSettings(query_timeout_s=0.3),
            )
            prepare_database(settings)
            commit(tmp_path / "harbour", PAGES)
            with build(settings) as app:
                app.index(IndexRequest(path=tmp_path / "harbour", project="harbour"))
            paid = len(script.requests)
            with running(settings) as service, service.client() as client:
                alive = client.get("/readyz")
                script.delay_s = 60.0  # until the test is over
                dead = client.get("/readyz")
                looks = script.looks
                again = client.get("/readyz")
    assert [one.json()["status"] for one in (alive, dead, again)] == [
        "ready",
        "degraded",
        "degraded",
    ]
    assert {one.status_code for one in (alive, dead, again)} == {200}
    assert len(script.requests) == paid
    assert script.looks == looks  # known to be away, it is left alone


def test_probes_that_come_together_cost_one_look(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, asked = [], []
    look, readiness = App.readiness, health.Probe.readiness

    def counted(app: App) -> object:
        assert wait_until(lambda: len(asked) == 5)  # nobody is told before all have asked
        looks.append(app)
        return look(app)

    async def noted(probe: health.Probe) -> object:
        asked.append(probe)
        return await readiness(probe)

    monkeypatch.setattr(health, "KEPT_S", 60.0)
    monkeypatch.setattr(health, "LONGEST_S", 60.0)
    monkeypatch.setattr(App, "readiness", counted)
    monkeypatch.setattr(health.Probe, "readiness", noted)
    with running(harbour.settings) as service, ThreadPoolExecutor(5) as probes:
        replies = probes.map(lambda _: httpx.get(f"{service.url}/readyz", timeout=60), range(5))
        assert [reply.status_code for reply in replies] == [200] * 5
    assert len(looks) == 1


@dataclass(frozen=True)
class Shut:
    """What a service says while its database takes no connection, to one with a made-up key."""

    database: str
    figures: dict[str, float]
    ready: httpx.Response
    refused: httpx.Response
    log: list[dict[str, object]]
    recovers: bool


@pytest.fixture(scope="module", name="shut")
def _shut(harbour: Harbour, template: str) -> Shut:
    made_up = f"lastro_1_{'0' * 12}_{'x' * 43}"
    with logged() as log, scratch_database(harbour.url, template=template) as name:
        settings = settings_of(address(harbour.url, dbname=name), harbour.home)
        with running(settings) as service, service.client(made_up) as client:
            with shut_down(harbour.url, name):
                refused = client.post(SEARCH, json={"query": "crane"})
                ready = [client.get("/readyz") for _ in range(2)][-1]
                found = figures(service)
            recovers = wait_until(lambda: client.get("/readyz").status_code == 200)
        return Shut(name, found, ready, refused, lines(log), recovers)


@contextmanager
def shut_down(server_url: str, name: str) -> Iterator[None]:
    """The database ``name`` takes no connection until the block ends."""
    with psycopg.connect(server_url, autocommit=True) as owner:
        owner.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        try:
            yield
        finally:
            owner.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_a_service_without_its_database_is_not_ready_until_that_is_back(shut: Shut) -> None:
    assert shut.ready.status_code == 503
    assert shut.ready.json() == {
        "status": "notReady",
        "checks": [{"name": "database", "status": "fail", "reason": "database_unavailable"}],
    }
    assert shut.recovers


def test_a_stranger_is_told_a_code_and_the_log_an_address(shut: Shut) -> None:
    error = shut.refused.json()["error"]
    assert (shut.refused.status_code, error["code"]) == (503, "DATABASE_UNAVAILABLE")
    assert int(shut.refused.headers["Retry-After"]) >= 1
    assert shut.database not in shut.refused.text
    [told] = [one for one in shut.log if one.get("requestId") == error["requestId"]]
    assert shut.database in str(told["detail"])


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("at 10.0.0.7", remedy="ask 10.0.0.7"),
        ProviderError("at 10.0.0.7", reason="embedder_timeout", remedy="ask 10.0.0.7"),
    ],
)
def test_of_an_error_that_is_not_told_there_is_the_code_alone(error: LastroError) -> None:
    reply = refusal(error, request_id="mine-9", is_told=False)
    assert json.loads(bytes(reply.body))["error"]["code"] == error.code
    assert b"10.0.0.7" not in reply.body


def test_what_keeps_a_service_from_being_ready_is_told_to_the_log(shut: Shut) -> None:
    told = [one for one in shut.log if one["message"] == "readiness"]
    assert shut.database in str(told[0]["checks"])
    assert (told[-1]["status"], told[-1]["checks"]) == ("ready", [])


def test_the_log_is_told_once_whatever_the_words(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "KEPT_S", 0.0)
    away, busy = (
        ReasonedCheck(
            check=Check(name="database", status="fail", detail=why), reason="database_unavailable"
        )
        for why in ("it is away", "all connections are in use")
    )
    there = ReasonedCheck(check=Check(name="database", status="ok", detail="PostgreSQL answers"))
    looks = iter([away, busy, there, there, busy])
    probe = health.Probe(lambda: [next(looks)])

    async def ask() -> None:
        for _ in range(5):
            await probe.readiness()

    asyncio.run(ask())
    assert [one["status"] for one in lines(log)] == ["notReady", "ready", "notReady"]


# --- metrics


def test_requests_stages_and_refusals_are_counted_by_route(harbour: Harbour) -> None:
    with running(harbour.settings) as service:
        with service.client(key_of(service)) as client:
            assert client.post(SEARCH, json={"query": "crane"}).status_code == 200
            assert client.post(SEARCH, json={"query": "zebra"}).json()["hits"] == []
            assert client.post(SEARCH, json={"query": ""}).status_code == 400
        with service.client() as client:
            assert client.post(SEARCH, json={"query": "crane"}).status_code == 401
            assert client.get("/nix/crane").status_code == 404
        found = figures(service)
    route = "/api/projects/{project}/rag/search"
    requests = "lastro_http_requests_total"
    assert found[f"{requests} POST {route} 200"] == 2
    assert found[f"{requests} POST {route} 400"] == 1
    assert found[f"{requests} POST {route} 401"] == 1
    assert found[f"{requests} GET none 404"] == 1
    assert found[f"lastro_http_request_seconds_count POST {route}"] == 4
    assert found["lastro_http_refused_total key"] == 1
    stages = ("open", "embed", "lexical", "vector", "join", "fuse", "fetch")
    assert {
        stage: found[f"lastro_search_seconds_count {stage}"] for stage in stages
    } == dict.fromkeys(stages, 2)
    assert found["lastro_gaps_total"] == 1
    assert found["lastro_open_gaps"] == 1
    assert found["lastro_database_up"] == 1
    assert 0 <= found["lastro_index_age_seconds"] < 600
    # 16 turns, 2 long and 2 signed ones, 4 beside
    assert found["lastro_pool_connections most"] == 24
    assert found["lastro_http_turns short"] == 0


def test_the_reference_names_every_metric_with_its_labels_and_no_other(service: Service) -> None:
    with service.client(key_of(service)) as client:
        client.post(SEARCH, json={"query": "crane"})
        text = client.get("/metrics").text
    page = METRICS_PAGE.read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(lastro_\w+)`", page, re.M))
    there = {
        one for one in re.findall(r"^# TYPE (\w+) ", text, re.M) if not one.endswith("_created")
    }
    assert there == documented


def test_the_reference_names_every_reason_of_a_refusal_and_no_other() -> None:
    [row] = re.findall(r"^\| `lastro_http_refused_total` .*$", METRICS_PAGE.read_text(), re.M)
    assert set(re.findall(r"`(\w+)`", row.split("|")[3])) == {*REFUSALS.values()}


def test_a_refusal_is_counted_by_the_nearest_class_of_its_error() -> None:
    errors = (Busy("", retry_after_s=1), WorkStopped(""), Contention(""), NotFound(""))
    assert [refusal_reason(error) for error in errors] == ["turns", "deadline", "database", None]


def test_no_label_holds_a_name_a_question_or_a_key(service: Service) -> None:
    key = key_of(service)
    with service.client(key) as client:
        client.post(SEARCH, json={"query": "swept at noon"})
        client.get("/api/projects/harbour/rag/coverage")
        text = client.get("/metrics").text
    words = ("harbour", "swept", key, key.rpartition("_")[2])
    assert [word for word in words if word in text] == []


def test_without_a_database_the_counts_are_still_told(shut: Shut) -> None:
    assert shut.figures["lastro_database_up"] == 0
    assert "lastro_open_gaps" not in shut.figures
    assert shut.figures["lastro_pool_connections most"] == 24


def test_metrics_may_have_a_port_of_their_own(harbour: Harbour) -> None:
    with running(harbour.settings, metrics_apart=True) as service:
        statuses = {
            (url == service.url, path): httpx.get(url + path, timeout=60).status_code
            for url in (service.url, service.metrics_url)
            for path in ("/metrics", "/healthz")
        }
    assert statuses == {
        (True, "/healthz"): 200,
        (True, "/metrics"): 404,
        (False, "/healthz"): 404,
        (False, "/metrics"): 200,
    }


def test_scrapers_that_come_together_ask_the_database_once(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, scraped = [], []
    backlog, exposition = App.backlog, Metrics.exposition

    def counted(app: App) -> object:
        asked.append(app)
        assert wait_until(lambda: len(scraped) == 2)
        return backlog(app)

    def noted(metrics: Metrics) -> bytes:
        scraped.append(metrics)
        return exposition(metrics)

    monkeypatch.setattr(App, "backlog", counted)
    monkeypatch.setattr(Metrics, "exposition", noted)
    with running(harbour.settings) as service, ThreadPoolExecutor(2) as scrapers:
        replies = scrapers.map(lambda _: httpx.get(f"{service.url}/metrics", timeout=60), range(2))
        assert all("lastro_database_up 1.0" in reply.text for reply in replies)
    assert len(asked) == 1


def test_the_file_of_a_dead_process_may_vanish_under_a_scraper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gauge_livesum_999999999.db").touch()  # above the highest number of a process
    remove = os.remove

    def after_another(file: str) -> None:
        remove(file)
        remove(file)

    monkeypatch.setattr("prometheus_client.multiprocess.os.remove", after_another)
    assert metrics.counted_in(tmp_path) == b""


def test_the_file_of_a_process_that_begins_is_read_once_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / f"counter_{os.getpid()}.db"
    begun.touch()
    clock = SimpleNamespace(sleep=lambda _s: MmapedDict(str(begun)).close())
    monkeypatch.setattr(metrics, "time", clock)
    assert metrics.counted_in(tmp_path) == b""


# --- the log


def lines(log: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_request_is_a_line_of_the_log_without_its_question_or_its_key(
    harbour: Harbour, log: io.StringIO
) -> None:
    with build(harbour.settings) as app:
        made = app.keys.create("harbour", role="viewer")
    key, key_id = made.key, made.id
    with (
        running(harbour.settings) as service,
        service.client(key, headers={"X-Request-Id": "mine-7"}) as client,
    ):
        assert client.post(SEARCH, json={"query": "swept at noon"}).status_code == 200
    [said] = [one for one in lines(log) if one["message"] == "request"]
    took_ms = said.pop("tookMs")
    assert isinstance(took_ms, float)
    assert said.pop("at")
    assert said == {
        "level": "INFO",
        "logger": "lastro.http",
        "message": "request",
        "requestId": "mine-7",
        "method": "POST",
        "route": "/api/projects/{project}/rag/search",
        "status": 200,
        "project": "harbour",
        "keyId": key_id,
    }
    secret = key.rpartition("_")[2]
    assert [word for word in ("swept", "quay", secret, key) if word in log.getvalue()] == []


def test_a_fault_is_told_by_its_place_and_not_by_its_values(
    harbour: Harbour, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("the crane lifts at dawn")

    monkeypatch.setattr(App, "search", broken)
    with running(harbour.settings) as service, service.client(key_of(service)) as client:
        reply = client.post(SEARCH, json={"query": "crane"}, headers={"X-Request-Id": "mine-8"})
    assert reply.status_code == 500
    assert (reply.json()["error"]["code"], reply.json()["error"]["requestId"]) == (
        "INTERNAL",
        "mine-8",
    )
    [fault] = [one for one in lines(log) if one["message"] == "fault"]
    assert fault["requestId"] == "mine-8"
    assert "ValueError at " in str(fault["exc_info"])
    assert "test_http_operation.py" in str(fault["exc_info"])
    assert "crane" not in log.getvalue()


def test_an_error_that_nobody_waited_for_is_told_by_its_place(log: io.StringIO) -> None:
    try:
        int("the crane lifts at dawn")
    except ValueError as error:
        logging.getLogger("asyncio").exception("lost: %r", error)  # noqa: TRY401 - as asyncio does
    [said] = lines(log)
    assert "ValueError at test_http_operation.py" in str(said["exc_info"])
    assert "crane" not in log.getvalue()


SECRET = "postgresql://clerk:hunter2@db.example/lastro"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError(SECRET), {}),
        (
            DatabaseUnavailable("db.example cannot be reached"),
            {
                "code": "DATABASE_UNAVAILABLE",
                "detail": "db.example cannot be reached",
            },
        ),
    ],
)
def test_a_start_that_fails_is_told_by_its_place_and_in_no_traceback(
    harbour: Harbour,
    log: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    said: dict[str, str],
) -> None:
    def broken(_: App) -> App:
        raise error

    monkeypatch.setattr(App, "__enter__", broken)
    service = make_service(build(harbour.settings), HttpSettings(), is_open=True)
    lifespan = LifespanOn(uvicorn.Config(service, log_config=None))
    asyncio.run(lifespan.startup())
    assert lifespan.should_exit
    [ours] = [one for one in lines(log) if one["logger"] == "lastro.http"]
    assert {key: ours[key] for key in ("code", "detail") if key in ours} == said
    assert f"{type(error).__name__} at " in str(ours["exc_info"])
    assert "test_http_operation.py" in str(ours["exc_info"])
    assert "hunter2" not in log.getvalue()
    assert "Traceback" not in log.getvalue()


def test_a_process_of_several_that_does_not_start_writes_no_traceback(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path))
    monkeypatch.setenv("LASTRO_DATABASE_URL", "postgresql://clerk:hunter2@127.0.0.1:1/lastro")
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    watching = SimpleNamespace(join=threading.Event().wait)  # it lives on
    monkeypatch.setattr("multiprocessing.parent_process", lambda: watching)
    monkeypatch.setattr("sys.stderr", log)  # where a process sets up its log
    with pytest.raises(SystemExit) as ended:
        serving.service()
    assert ended.value.code == EXIT_FAILED
    [told] = lines(log)
    assert (told["code"], told["logger"]) == ("DATABASE_UNAVAILABLE", "lastro.http")
    assert "127.0.0.1" in str(told["detail"])
    assert "hunter2" not in log.getvalue()


@pytest.mark.parametrize("said", [("lost: %s",), ("%s",), ()])
def test_an_error_within_a_line_of_the_server_is_left_out(
    log: io.StringIO, said: tuple[str, ...]
) -> None:
    error = ValueError(SECRET)
    logging.getLogger("uvicorn.error").error(*said, error)
    assert lines(log)[0]["logger"] == "uvicorn.error"
    assert "hunter2" not in log.getvalue()


def test_the_server_has_no_line_of_its_own_for_a_request(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    uvicorn.Config("a:service", access_log=False, log_config=None)
    monkeypatch.setattr("sys.stderr", log)
    set_up_log("json")  # as a process does once its server is set up
    assert not logging.getLogger("uvicorn.access").hasHandlers()


def test_a_line_of_the_server_has_no_second_form_for_a_terminal(log: io.StringIO) -> None:
    extra = {"color_message": "began \x1b[36m%d\x1b[0m", "status": 200}
    logging.getLogger("uvicorn.error").info("began %d", 7, extra=extra)
    [told] = lines(log)
    assert told.keys() == {"level", "logger", "message", "at", "status"}


def test_lines_for_people_hold_what_those_for_programs_do(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", log)
    set_up_log("text")
    logging.getLogger("lastro.http").info("request", extra={"status": 200, "route": "/a/{b}"})
    assert log.getvalue().endswith(" INFO request status=200 route=/a/{b}\n")


@pytest.mark.parametrize("host", ["", " "])
def test_a_blank_host_is_refused_and_is_not_every_address(host: str) -> None:
    with pytest.raises(InvalidInput, match="host is blank"):
        HttpSettings(host=host)


def test_a_host_that_is_no_address_is_told_in_words(harbour: Harbour) -> None:
    settings = replace(harbour.settings, http=HttpSettings(host="no.invalid"))
    with pytest.raises(ConfigError, match=r"cannot listen on no\.invalid, port 8080: ") as refused:
        serving.serve(settings, is_open=False, say=print)
    assert "Unknown error" not in refused.value.message
    assert "host" in str(refused.value.remedy)


def test_no_value_writes_a_line_of_its_own_or_a_colour(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", log)
    set_up_log("text")
    forged = "a\n2026 INFO request status=200\r\x1b[31m\u2028\x85"
    logging.getLogger("lastro.http").info("re\x1bquest\r", extra={"project": forged, "status": 404})
    said = r'project="a\n2026 INFO request status=200\r\u001b[31m\u2028\u0085" status=404'
    assert log.getvalue().endswith(rf" INFO re\u001bquest\r {said}" + "\n")
    assert len(log.getvalue().splitlines()) == 1


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_name_in_an_address_writes_no_line_of_its_own(
    harbour: Harbour, log: io.StringIO, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr("sys.stderr", log)
    set_up_log(form)
    with running(harbour.settings, is_open=True) as service, service.client() as client:
        client.get("/api/projects/a%0A2026%20INFO%20request%20status=200%0D%1B%5B31m/rag/coverage")
    said = [line for line in log.getvalue().splitlines() if "status=200" in line]
    assert len(said) == 1
    assert "404" in said[0]
    assert said[0].isprintable()


def test_the_route_of_a_name_with_a_slash_is_its_template(service: Service) -> None:
    with service.client(key_of(service)) as client:
        assert client.get("/api/projects/a%2Fb/rag/coverage").status_code == 404
    route = "/api/projects/{project}/rag/coverage"
    assert figures(service)[f"lastro_http_requests_total GET {route} 404"] == 1
