"""The log of searches: what a row says, what it never says, and that no search waits for it."""

import hmac
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import homes
import locks
import psycopg
import pytest
from databases import address, scratch_database
from plans import explained, indexes, nodes
from prometheus_client.parser import text_string_to_metric_families
from rows import add_project, add_search
from service import running, settings_of

from lastro import search_log, store
from lastro.app import App, build
from lastro.cli import main
from lastro.config import Settings, load_settings
from lastro.db.pool import Database, connect
from lastro.db.work import Work, working
from lastro.entity import Entity
from lastro.errors import ConfigError, DatabaseUnavailable, InvalidInput, NotFound
from lastro.logged_search import SearchPlace
from lastro.search import SearchRequest
from lastro.search_log import SearchesLater, SearchLog, prune
from lastro.types import LOG_QUERIES, Degraded, LogQueries, Outcome, ProfileRef
from lastro.worker import WorkerOptions, run_worker


@pytest.fixture(autouse=True)
def _written_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written by the clock, but where a test sets it."""
    monkeypatch.setattr("lastro.later.LATER_S", 600.0)


ASKED = SearchRequest(query="When is low tide?")
ANSWERED = Outcome(
    hits=(),
    vector_available=True,
    degraded=(),
    profile=ProfileRef(name="default", version=2, calibrated=True),
    abstained=True,
    took_ms=12.5,
)
OURS, THEIRS = 1, 2


@pytest.fixture
def settings(owner_url: str, tmp_path: Path) -> Settings:
    return settings_of(owner_url, tmp_path / "home")


@pytest.fixture
def open_app(settings: Settings) -> Callable[..., App]:
    """An app with some settings, over the database of this test."""
    return lambda **some: build(replace(settings, **some))


@pytest.fixture(scope="module")
def database(server_url: str, template: str) -> Iterator[str]:
    """A database with two projects for all tests, each of which finds its log empty."""
    with scratch_database(server_url, template=template) as name:
        with connect(address(server_url, dbname=name)) as owner:
            assert [add_project(owner, slug) for slug in ("harbour", "rival")] == [OURS, THEIRS]
        yield name


@pytest.fixture(autouse=True)
def _empty_log(owner: psycopg.Connection) -> Iterator[None]:
    yield
    owner.execute("GRANT INSERT ON lastro.search_log TO lastro_app")
    owner.execute("DELETE FROM lastro.search_log")
    owner.execute("DELETE FROM lastro.search_log_keys")


def stock(app: App, project: str = "harbour") -> None:
    """An entry that a question can find."""
    tide = Entity(key="tide", title="Tides", text="Low tide is at noon.", type="fact")
    app.entities(project).upsert([tide])


def rows(owner: psycopg.Connection, project_id: int = OURS) -> list[dict[str, Any]]:
    found = owner.execute(
        "SELECT to_jsonb(l) FROM lastro.search_log AS l WHERE project_id = %s ORDER BY at, id",
        [project_id],
    )
    return [row for (row,) in found]


def count(owner: psycopg.Connection) -> int:
    return len(rows(owner)) + len(rows(owner, THEIRS))


def recorder(
    database: Database, *, queries: LogQueries = "hash", kept_days: int = 30
) -> tuple[SearchesLater, list[int]]:
    """A log's writer, and what it tells of dropped rows."""
    dropped: list[int] = []
    made = SearchesLater(database, queries=queries, kept_days=kept_days, masked=str)
    made.dropped = dropped.append
    return made, dropped


# --- what a row says


def test_a_search_that_was_answered_is_a_row_with_how_it_was_asked_and_how_it_went(
    open_app: Callable[..., App],
) -> None:
    before = datetime.now(UTC)
    with open_app(log_queries="text") as app:
        stock(app)
        outcome = app.search(
            SearchRequest(query="When is low tide?", k=3, scopes=["entity", "docs"]),
            project="harbour",
        )
        [logged] = app.searches("harbour").list()
    assert before <= logged.at <= datetime.now(UTC)
    assert (logged.query, logged.k, logged.scopes) == ("When is low tide?", 3, ["docs", "entity"])
    assert (logged.hit_count, logged.abstained, logged.degraded) == (1, False, [])
    assert (logged.filtered, logged.next_page) == (False, False)
    assert logged.profile == f"default@{outcome.profile.version}"
    assert logged.took_ms == outcome.took_ms


def test_a_row_says_what_the_outcome_was_honest_about(
    app_database: Database, owner: psycopg.Connection
) -> None:
    log, _ = recorder(app_database)
    less = [Degraded(part="vector", reason=reason, detail="d") for reason in
            ("vectors_missing", "embedder_timeout", "vectors_missing")]  # fmt: skip
    log.add(ASKED, replace(ANSWERED, degraded=tuple(less)), project_id=OURS)
    log.add(replace(ASKED, cursor="c", path_prefix="docs/"), ANSWERED, project_id=OURS)
    log.flush()
    first, second = rows(owner)
    assert first["degraded"] == ["embedder_timeout", "vectors_missing"]
    assert (first["abstained"], first["hit_count"]) == (True, 0)
    assert (first["filtered"], first["next_page"], first["scopes"]) == (False, False, None)
    assert (second["filtered"], second["next_page"]) == (True, True)


def test_by_default_equal_questions_can_be_counted_and_none_can_be_read(
    open_app: Callable[..., App], owner: psycopg.Connection
) -> None:
    with open_app() as app:
        stock(app)
        for query in ("When is low tide?", "  when is LOW tide", "when is high tide"):
            app.search(SearchRequest(query=query), project="harbour")
        log = app.searches("harbour").list()
    hashes = [search.query_hash for search in log]
    assert hashes[1] == hashes[2] != hashes[0]
    assert "tide" not in json.dumps(rows(owner))


def test_a_hash_is_that_of_the_normal_form_under_the_projects_own_key(
    app_database: Database, owner: psycopg.Connection
) -> None:
    log, _ = recorder(app_database)
    for project_id in (OURS, THEIRS):
        log.add(ASKED, ANSWERED, project_id=project_id)
    log.flush()
    keys = dict(owner.execute("SELECT project_id, key FROM lastro.search_log_keys").fetchall())
    assert keys[OURS] != keys[THEIRS]
    for project_id, key in keys.items():
        [row] = rows(owner, project_id)
        # a bytea as JSON begins with \x; half of the 64 digits
        assert (
            row["query_hash"][2:] == hmac.new(key, b"when is low tide", "sha256").hexdigest()[:32]
        )


def test_a_key_is_made_once_whoever_comes_first(
    app_database: Database, owner: psycopg.Connection
) -> None:
    logs = [recorder(app_database)[0] for _ in range(4)]
    for log in logs:
        log.add(ASKED, ANSWERED, project_id=OURS)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(SearchesLater.flush, logs))
    assert len(rows(owner)) == 4
    assert len({row["query_hash"] for row in rows(owner)}) == 1


def test_with_off_a_row_says_nothing_of_its_question(
    app_database: Database, owner: psycopg.Connection
) -> None:
    log, _ = recorder(app_database, queries="off")
    log.add(ASKED, ANSWERED, project_id=OURS)
    log.flush()
    [row] = rows(owner)
    assert (row["query"], row["query_hash"]) == (None, None)
    assert row["took_ms"] == 12.5
    assert owner.execute("SELECT count(*) FROM lastro.search_log_keys").fetchone() == (0,)


def test_text_and_hash_count_the_same_question_as_one(
    app_database: Database, owner: psycopg.Connection
) -> None:
    for queries in ("hash", "text"):
        log, _ = recorder(app_database, queries=queries)
        log.add(ASKED, ANSWERED, project_id=OURS)
        log.flush()
    assert [row["query"] for row in rows(owner)] == [None, "When is low tide?"]
    assert len({row["query_hash"] for row in rows(owner)}) == 1


def test_a_secret_in_a_question_is_masked(
    open_app: Callable[..., App], owner: psycopg.Connection
) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with open_app(log_queries="text") as app:
        stock(app)
        app.search(SearchRequest(query=f"why is {secret} refused"), project="harbour")
    [row] = rows(owner)
    assert secret not in json.dumps(row)
    assert row["query"].startswith("why is [masked:")


@pytest.mark.parametrize("queries", LOG_QUERIES)
def test_no_value_of_a_filter_or_a_path_is_kept(
    app_database: Database, owner: psycopg.Connection, queries: LogQueries
) -> None:
    log, _ = recorder(app_database, queries=queries)
    narrowed = replace(ASKED, filter={"types": ["quarzubix"]}, path_prefix="docs/quarzubix/")
    log.add(narrowed, ANSWERED, project_id=OURS)
    log.flush()
    [row] = rows(owner)
    assert row["filtered"] is True
    assert "quarzubix" not in json.dumps(row)


def test_a_question_is_kept_without_what_no_database_holds(
    app_database: Database, owner: psycopg.Connection
) -> None:
    log, dropped = recorder(app_database, queries="text")
    log.add(replace(ASKED, query="low\0tide \ud800?"), ANSWERED, project_id=OURS)
    log.flush()
    assert ([row["query"] for row in rows(owner)], dropped) == (["low tide ?"], [])


def test_only_searches_that_somebody_asks_and_that_were_answered_are_rows(
    open_app: Callable[..., App], owner: psycopg.Connection
) -> None:
    with open_app() as app:
        stock(app)
        with pytest.raises(InvalidInput):
            app.search(SearchRequest(query="  "), project="harbour")
        with pytest.raises(NotFound):
            app.search(ASKED, project="nowhere")
        app.why(ASKED, expect="tide", project="harbour")
        missed = app.search(SearchRequest(query="bicycles?"), project="harbour")
        assert missed.gap_id is not None
        app.gaps("harbour").resolve()
        assert len(app.searches("harbour").list()) == 1
    assert count(owner) == 1


# --- nobody waits, and what that costs


def test_a_row_is_written_soon_without_being_asked_for(
    app_database: Database, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastro.later.LATER_S", 0.05)
    log, _ = recorder(app_database)
    log.add(ASKED, ANSWERED, project_id=OURS)
    assert homes.wait_until(lambda: count(owner) == 1)
    log.flush()  # its thread ends before the pool does


def test_an_orderly_end_writes_what_waits(
    open_app: Callable[..., App], owner: psycopg.Connection
) -> None:
    with open_app() as app:
        stock(app)
        for _ in range(3):
            app.search(ASKED, project="harbour")
    assert count(owner) == 3


def test_no_search_waits_for_a_log_that_cannot_be_written(
    open_app: Callable[..., App], owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_log, "WRITING", {})  # it waits as long as the lock is held
    monkeypatch.setattr("lastro.later.LATER_S", 0.05)
    with open_app() as app:
        stock(app)
        with ThreadPoolExecutor(1) as elsewhere, owner.transaction():
            owner.execute("LOCK TABLE lastro.search_log")
            app.search(ASKED, project="harbour")
            locks.wait_until(owner, locks.WAITED_FOR, there_are=1)
            searches = elsewhere.submit(
                lambda: [app.search(ASKED, project="harbour") for _ in range(2)]
            )
            assert all(one.hits for one in searches.result(timeout=30))
        assert len(app.searches("harbour").list()) == 3


def test_what_cannot_be_written_is_dropped_and_told(
    open_app: Callable[..., App], owner: psycopg.Connection
) -> None:
    dropped: list[int] = []
    owner.execute("REVOKE INSERT ON lastro.search_log FROM lastro_app")
    with open_app() as app:
        app.observe(lambda _stage, _took_s: None, dropped=dropped.append)
        stock(app)
        assert app.search(ASKED, project="harbour").hits
        assert app.searches("harbour").list() == []
    assert sum(dropped) == 1


@pytest.mark.parametrize(
    ("bound", "most"), [("MOST_WAITING", 2), ("MOST_WAITING_CHARS", 2 * len(ASKED.query))]
)
def test_beyond_the_bounds_rows_are_dropped_and_told(
    app_database: Database,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    most: int,
) -> None:
    monkeypatch.setattr(search_log, bound, most)
    log, dropped = recorder(app_database)
    for _ in range(2):
        for _ in range(3):
            log.add(ASKED, ANSWERED, project_id=OURS)
        log.flush()  # then there is place again
    assert (count(owner), sum(dropped)) == (4, 2)


def test_from_many_threads_each_search_is_one_row(
    app_database: Database, owner: psycopg.Connection
) -> None:
    log, dropped = recorder(app_database)

    def ask(_: int) -> None:
        for _ in range(50):
            log.add(ASKED, ANSWERED, project_id=OURS)
        log.flush()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask, range(8)))
    assert (count(owner), dropped) == (8 * 50, [])


def test_who_goes_away_while_he_looks_takes_no_row_with_him(
    app_database: Database, owner: psycopg.Connection
) -> None:
    log, dropped = recorder(app_database)
    log.add(ASKED, ANSWERED, project_id=OURS)
    gone = Work()
    gone.stop()
    with working(gone):
        log.flush()
    assert (count(owner), dropped) == (1, [])


def test_with_a_server_that_is_away_only_one_batch_is_tried(
    app_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def refuse(_connection: object, _searches: object, *, project_id: int) -> None:
        tried.append(project_id)
        raise DatabaseUnavailable("it is away")

    monkeypatch.setattr(store, "record_searches", refuse)
    log, dropped = recorder(app_database)
    for project_id in (OURS, THEIRS, THEIRS):
        log.add(ASKED, ANSWERED, project_id=project_id)
    log.flush()
    assert (tried, sum(dropped)) == ([OURS], 3)


# --- how long


def test_rows_that_are_older_go_with_the_first_batch_of_any_project(
    app_database: Database, owner: psycopg.Connection
) -> None:
    now = datetime.now(UTC)
    for project_id in (OURS, THEIRS):
        add_search(owner, project_id, at=now - timedelta(days=31))
    young = add_search(owner, THEIRS, at=now - timedelta(days=29))
    log, _ = recorder(app_database)
    log.add(ASKED, ANSWERED, project_id=OURS)
    log.flush()
    assert [UUID(row["id"]) for row in rows(owner, THEIRS)] == [young]
    assert [row["took_ms"] for row in rows(owner)] == [12.5]


def test_one_batch_deletes_a_bounded_number_and_the_next_goes_on(
    app_database: Database,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_log, "MOST_PRUNED", 2)
    for _ in range(5):
        add_search(owner, OURS, at=datetime.now(UTC) - timedelta(days=31))
    log, _ = recorder(app_database)
    left = []
    for added in range(1, 5):
        log.add(ASKED, ANSWERED, project_id=OURS)
        log.flush()
        left.append(count(owner) - added)
    assert left == [3, 1, 0, 0]


def test_between_two_looks_an_hour_passes(
    app_database: Database, owner: psycopg.Connection
) -> None:
    log, _ = recorder(app_database)
    for _ in range(2):
        log.add(ASKED, ANSWERED, project_id=OURS)
        log.flush()
        add_search(owner, OURS, at=datetime.now(UTC) - timedelta(days=31))
    assert count(owner) == 4  # the first look found none, and the second is not due


def test_with_no_days_no_row_is_written_and_those_that_are_there_go(
    open_app: Callable[..., App], owner: psycopg.Connection
) -> None:
    with open_app() as app:
        stock(app)
        app.search(ASKED, project="harbour")
    assert count(owner) == 1
    with open_app(search_log_days=0) as app:
        app.search(ASKED, project="harbour")
    assert count(owner) == 0


def test_a_worker_forgets_old_searches_of_every_project(
    settings: Settings, owner: psycopg.Connection
) -> None:
    for project_id in (OURS, THEIRS):
        add_search(owner, project_id, at=datetime.now(UTC) - timedelta(days=8))
    run_worker(replace(settings, search_log_days=7), WorkerOptions(until="empty"))
    assert count(owner) == 0


def test_only_what_is_older_is_pruned(app_database: Database, owner: psycopg.Connection) -> None:
    add_search(owner, OURS, at=datetime.now(UTC) - timedelta(days=2))
    assert prune(app_database, kept_days=3)
    assert count(owner) == 1
    assert prune(app_database, kept_days=1)
    assert count(owner) == 0


def test_that_some_may_be_left_is_told(
    app_database: Database, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_log, "MOST_PRUNED", 1)
    for days in (3, 2):
        add_search(owner, OURS, at=datetime.now(UTC) - timedelta(days=days))
    assert not prune(app_database, kept_days=1)
    assert count(owner) == 1


# --- erased


def test_a_search_that_waits_when_its_project_is_erased_is_never_written(
    open_app: Callable[..., App], owner: psycopg.Connection
) -> None:
    with open_app(log_queries="text") as app, open_app() as other:
        stock(app, "doomed")
        app.search(ASKED, project="doomed")
        other.erase_project("doomed")
    for table in ("search_log", "search_log_keys"):
        assert owner.execute(f"SELECT count(*) FROM lastro.{table}".encode()).fetchone() == (0,)


# --- looking


@pytest.fixture
def log(app_database: Database) -> SearchLog:
    return SearchLog(database=app_database, project="harbour")


def test_the_newest_come_first_and_parts_can_be_asked_for(
    log: SearchLog, owner: psycopg.Connection
) -> None:
    def on(day: int, **columns: Any) -> str:
        return str(add_search(owner, OURS, at=datetime(2026, 11, day, tzinfo=UTC), **columns))

    quick, slow = on(1, took_ms=499.0), on(2, took_ms=500.0)
    degraded, abstained = on(3, degraded=["embedder_timeout"]), on(4, abstained=True)
    add_search(owner, THEIRS, took_ms=900.0)

    def ids(**parts: Any) -> list[str]:
        return [search.id for search in log.list(**parts)]

    assert ids() == [abstained, degraded, slow, quick]
    assert ids(slow_ms=500) == [slow]
    assert ids(degraded=True) == [degraded]
    assert ids(abstained=True) == [abstained]
    assert ids(since=datetime(2026, 11, 3, tzinfo=UTC)) == [abstained, degraded]
    assert ids(limit=1) == [abstained]
    assert ids(degraded=True, abstained=True) == []


def test_searches_of_one_moment_have_their_place_too(
    log: SearchLog, owner: psycopg.Connection
) -> None:
    ids = sorted(add_search(owner, OURS) for _ in range(3))
    pages, place = [], None
    for _ in range(4):
        page = log.list(before=place, limit=1)
        pages += [UUID(search.id) for search in page]
        place = SearchPlace(at=page[0].at, id=UUID(page[0].id)) if page else place
    assert pages == ids[::-1]


def test_a_page_is_read_in_the_order_of_the_key_and_old_rows_are_found_by_it(
    app_database: Database,
) -> None:
    few = {"enable_seqscan": "off", "enable_bitmapscan": "off"}  # rows, here
    place = SearchPlace(at=datetime(2026, 11, 1, tzinfo=UTC), id=UUID(int=7))
    with (
        app_database.transaction(projects=[OURS], settings=few) as connection,
        explained(connection) as plans,
    ):
        store.list_searches(connection, OURS, before=place, limit=2)
        store.prune_searches(connection, [OURS], kept_s=1.0, limit=2)
    page, pruned = plans
    assert [node["Node Type"] for node in nodes(page)] == ["Limit", "Index Scan"]
    assert [indexes(plan) for plan in plans] == [{"search_log_pkey"}] * 2
    conditions = [node.get("Index Cond", "") for node in nodes(pruned)]
    assert any(" at < " in f" {condition.replace('(', '')}" for condition in conditions)


@pytest.mark.parametrize("asked", [{"limit": 0}, {"slow_ms": -1.0}, {"slow_ms": float("nan")}])
def test_what_no_search_could_be_is_refused(log: SearchLog, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        log.list(**asked)


def test_a_project_that_is_not_there_is_not_found(log: SearchLog) -> None:
    with pytest.raises(NotFound):
        replace(log, project="nowhere").list()


@pytest.fixture
def cli(
    owner_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")

    def run(*words: str) -> str:
        assert main(["searches", "--project", "harbour", *words]) == 0
        return capsys.readouterr().out

    return run


def test_the_command_shows_what_is_known_of_a_search(
    cli: Callable[..., str], owner: psycopg.Connection
) -> None:
    assert cli() == "no search\n"
    add_search(owner, OURS, took_ms=31.4, degraded=["vectors_missing"], scopes=["docs", "adr"],
               query_hash=bytes(range(16)))  # fmt: skip
    add_search(owner, OURS, at="2026-02-02 00:00+00", query="low\ntide?", hit_count=0,
               abstained=True, filtered=True, next_page=True)  # fmt: skip
    lines = cli().splitlines()
    assert [line.partition("  ")[2] for line in lines[::3]] == [
        "0 hits in 5 ms, abstained",
        "1 hit in 31 ms, vectors_missing",
    ]
    assert [line.strip() for line in (*lines[1:3], *lines[4:6])] == [
        "low\\ntide?",
        "k 10, filtered, a further page, profile default@1",
        "question 000102030405",
        "k 10, in docs, adr, profile default@1",
    ]


def test_the_command_takes_the_same_parts_and_prints_json(
    cli: Callable[..., str], owner: psycopg.Connection
) -> None:
    add_search(owner, OURS, took_ms=500.0, degraded=["vectors_missing"], abstained=True)
    asked = ("--slow", "500", "--degraded", "--abstained", "--since", "2026-01-31")
    [told] = json.loads(cli(*asked, "--format", "json"))["searches"]
    assert (told["tookMs"], told["query"], told["queryHash"]) == (500.0, None, "01" * 16)
    assert json.loads(cli("--slow", "501", "--format", "json")) == {"searches": []}


def test_over_http_searches_are_listed_and_what_was_dropped_is_counted(
    settings: Settings, open_app: Callable[..., App], owner: psycopg.Connection
) -> None:
    with open_app() as app:
        stock(app)
        key = app.keys.create("harbour", role="maintainer").key
    at = "/api/projects/harbour/rag"
    with running(settings) as service, service.client(key) as client:
        for query in ("low tide", "bicycles?"):
            assert client.post(f"{at}/search", json={"query": query}).status_code == 200
        found = client.get(f"{at}/searches", params={"slowMs": 0}).json()["searches"]
        abstained = client.get(f"{at}/searches", params={"abstained": True, "limit": 1}).json()
        assert client.get(f"{at}/searches", params={"slowMs": "nan"}).status_code == 400
        owner.execute("REVOKE INSERT ON lastro.search_log FROM lastro_app")
        client.post(f"{at}/search", json={"query": "low tide"})
        assert len(client.get(f"{at}/searches").json()["searches"]) == 2
        metrics = text_string_to_metric_families(client.get("/metrics").text)
        samples = {one.name: one.value for family in metrics for one in family.samples}
    assert [search["hitCount"] for search in found] == [0, 1]
    assert abstained["searches"] == [one for one in found if one["abstained"]]
    assert samples["lastro_search_log_dropped_total"] == 1


# --- settings


def test_settings_are_read_from_both_places(tmp_path: Path) -> None:
    (tmp_path / "lastro.toml").write_text('log_queries = "text"\nsearch_log_days = 7\n')
    read = load_settings({"LASTRO_SEARCH_LOG_DAYS": "0"}, folder=tmp_path)
    assert (read.log_queries, read.search_log_days) == ("text", 0)
    assert (Settings(home=tmp_path).log_queries, Settings(home=tmp_path).search_log_days) == (
        "hash",
        30,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log_queries", '"yes"'), ("log_queries", "true"), ("search_log_days", "-1"),
        ("search_log_days", "1.5"), ("search_log_days", "true"), ("search_log_days", "36501"),
    ],
)  # fmt: skip
def test_a_setting_that_says_nothing_is_refused_by_its_name(
    tmp_path: Path, name: str, value: str
) -> None:
    (tmp_path / "lastro.toml").write_text(f"{name} = {value}\n")
    with pytest.raises(ConfigError, match=name):
        load_settings({}, folder=tmp_path)
