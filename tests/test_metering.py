"""What embedding costs: each call counted, priced, and refused before it passes a budget."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from homes import value, wait_until
from hypothesis import given
from hypothesis import strategies as st
from ollama_server import DIGEST, Script, free_port, ollama
from repositories import commit
from rows import add_project, add_usage, this_month

from lastro import store
from lastro.app import App, build
from lastro.cli import main
from lastro.config import Settings, load_settings
from lastro.errors import (
    EXIT_DONE,
    BudgetExceeded,
    ConfigError,
    DatabaseUnavailable,
    InvalidInput,
    LastroError,
    NotFound,
    ProviderError,
    exit_code,
)
from lastro.metering import Account, ProjectMeter, UsageLater
from lastro.metering_settings import MeteringSettings, most_tokens
from lastro.ollama_settings import OllamaSettings
from lastro.search import SearchRequest
from lastro.store import UsedCall
from lastro.types import IndexRequest
from lastro.usage import UsageLine

MODEL = "ollama:nomic-embed-text"
# A token costs a millionth of this, so that sums are whole numbers of tokens.
ONE_A_TOKEN = MeteringSettings(price_per_million_tokens=1_000_000.0)
WORDS = ("amber", "basalt", "chert")
PATIENT = OllamaSettings(query_timeout_s=20.0, document_timeout_s=20.0, retry_after_s=60.0)


class Quarry:
    """A repository of three short documents, a database, and perhaps a server."""

    def __init__(self, folder: Path, url: str, stack: ExitStack) -> None:
        self.folder, self.url, self.stack = folder, url, stack
        self.settings = Settings(
            home=folder.parent / "home",
            database_url=url,
            embedder=MODEL,
            ollama_host=f"127.0.0.1:{free_port()}",
            ollama=PATIENT,
            project="quarry",
        )

    def serve(self, script: Script) -> Script:
        host = self.stack.enter_context(ollama(script))
        self.settings = replace(self.settings, ollama_host=host)
        return script

    def app(self, metering: MeteringSettings | None = None, **changes: Any) -> App:
        settings = replace(self.settings, metering=metering or MeteringSettings(), **changes)
        return self.stack.enter_context(build(settings))

    def index(self, app: App):
        return app.index(IndexRequest(path=self.folder))


@pytest.fixture
def quarry(owner_url: str, tmp_path: Path) -> Iterator[Quarry]:
    folder = tmp_path / "quarry"
    commit(folder, {f"docs/{word}.md": f"# {word}\n\nOf {word}.\n" for word in WORDS})
    with ExitStack() as stack:
        yield Quarry(folder, owner_url, stack)


def lines(app: App, role: str) -> list[UsageLine]:
    return [line for line in app.usage().usage if line.role == role]


# --- what is counted


def test_every_request_to_a_server_is_counted_as_the_server_counts_it(quarry: Quarry) -> None:
    script = quarry.serve(Script())
    app = quarry.app()
    quarry.index(app)
    (line,) = lines(app, "document")
    asked = [request["input"] for request in script.requests]
    assert (line.project, line.embedder, line.version) == ("quarry", MODEL, DIGEST[:12])
    assert line.calls == len(asked)
    assert line.texts == sum(map(len, asked))
    assert line.characters == sum(len(text) for texts in asked for text in texts)
    # the server says a token for every four characters of a text
    assert line.tokens == sum(len(text) // 4 for texts in asked for text in texts)
    assert (line.uncounted, line.cost) == (0, None)
    assert line.duration_ms > 0


def test_a_search_is_one_call_and_the_same_one_again_is_none(quarry: Quarry) -> None:
    quarry.serve(Script())
    app = quarry.app()
    quarry.index(app)
    for _ in range(2):
        app.search(SearchRequest(query="what is chert made of"))
    (line,) = lines(app, "query")
    assert (line.calls, line.texts) == (1, 1)


def test_an_offline_embedder_is_counted_without_tokens_and_cost(quarry: Quarry) -> None:
    app = quarry.app(ONE_A_TOKEN, embedder="deterministic")
    quarry.index(app)
    (line,) = lines(app, "document")
    assert (line.texts, line.tokens, line.uncounted, line.cost) == (3, None, line.calls, None)
    assert app.usage().spent == ()


def test_a_server_that_is_down_was_not_called(quarry: Quarry) -> None:
    app = quarry.app(ONE_A_TOKEN)
    quarry.index(app)
    assert app.usage().usage == ()


def test_a_request_that_a_server_refuses_is_counted_and_costs_nothing(quarry: Quarry) -> None:
    quarry.serve(Script(refuse="basalt"))
    app = quarry.app(ONE_A_TOKEN)
    quarry.index(app)
    (line,) = lines(app, "document")
    assert line.uncounted is not None
    assert line.uncounted > 0
    assert line.cost == line.tokens


def test_a_server_that_counts_no_tokens_is_charged_the_most_there_can_be(quarry: Quarry) -> None:
    quarry.serve(Script())
    app = quarry.app(ONE_A_TOKEN)
    quarry.index(app)
    silent = quarry.serve(Script(counts_tokens=False))
    app.search(SearchRequest(query="what is chert made of"))
    other = quarry.app(ONE_A_TOKEN)
    before = {line.role: line.cost for line in other.usage().usage}
    other.search(SearchRequest(query="slate"))
    (line,) = lines(other, "query")
    (asked,) = silent.inputs
    assert line.cost == (before.get("query") or 0) + most_tokens(asked)
    assert line.uncounted == 1


def test_texts_of_no_project_and_of_erased_ones_stay_in_sums_without_a_name(
    quarry: Quarry, owner: psycopg.Connection
) -> None:
    add_usage(owner, add_project(owner, "gone"))
    add_usage(owner, add_project(owner, "stays"))
    app = quarry.app(embedder="deterministic")
    app.erase_project("gone")
    since = datetime(2026, 11, 1, tzinfo=UTC)
    found = {line.project: line for line in app.usage(since=since).usage}
    assert found.keys() == {None, "stays"}
    assert (found[None].calls, found[None].texts, found[None].tokens) == (1, 2, 5)
    assert found[None].cost == 0.5
    assert [spent.project for spent in app.usage(since=since).spent] == ["stays"]


def test_a_project_s_usage_is_its_own_and_an_unknown_one_is_not_found(
    quarry: Quarry, owner: psycopg.Connection
) -> None:
    for name in ("ours", "theirs"):
        add_usage(owner, add_project(owner, name))
    app = quarry.app(embedder="deterministic")
    assert [line.project for line in app.usage(project="ours").usage] == ["ours"]
    with pytest.raises(NotFound):
        app.usage(project="nobody's")


def test_a_question_is_written_when_the_program_ends(
    quarry: Quarry, owner: psycopg.Connection
) -> None:
    with build(replace(quarry.settings, embedder="deterministic")) as app:
        quarry.index(app)
        app.search(SearchRequest(query="what is chert made of"))
    found = owner.execute("SELECT count(*) FROM lastro.embedding_usage WHERE role = 'query'")
    assert found.fetchone() == (1,)


def test_a_question_is_written_soon_while_the_program_goes_on(
    quarry: Quarry, owner: psycopg.Connection
) -> None:
    app = quarry.app(embedder="deterministic")
    quarry.index(app)
    app.search(SearchRequest(query="what is chert made of"))
    asked = "SELECT count(*) = 1 FROM lastro.embedding_usage WHERE role = 'query'"
    assert wait_until(lambda: bool(value(quarry.url, asked)))


def test_questions_of_a_project_that_was_erased_meanwhile_keep_no_others_from_being_written(
    quarry: Quarry, owner: psycopg.Connection
) -> None:
    app = quarry.app(embedder="deterministic")
    later = UsageLater(app.database)
    call = UsedCall(texts=1, characters=9, tokens=None, duration_ms=1.0, cost=None)
    for project_id in (add_project(owner, "gone"), add_project(owner, "stays")):
        later.add(Account(project_id, "e", "1", "query"), [call])
    owner.execute("DELETE FROM lastro.projects WHERE slug = 'gone'")
    later.flush()
    assert [line.project for line in app.usage().usage] == ["stays"]


# --- what it costs


@pytest.mark.parametrize(
    ("settings", "cost"),
    [
        ({}, "0"),
        ({"price_per_million_tokens": 0.02}, "0.0004"),  # 20,000 · 0.02 / 1,000,000
        ({"price_per_million_characters": 0.5}, "0.04"),  # 80,000 · 0.5 / 1,000,000
    ],
)
def test_a_call_costs_what_its_tokens_or_characters_do(
    settings: dict[str, float], cost: str
) -> None:
    prices = MeteringSettings(**settings)
    assert prices.cost(characters=80_000, tokens=20_000) == Decimal(cost)
    assert prices.has_price is bool(settings)


@given(st.text(max_size=40))
def test_a_text_has_at_most_a_token_for_each_byte(text: str) -> None:
    assert most_tokens(text) > len(text.encode("utf-8", "surrogatepass"))


def test_a_project_s_own_budget_comes_before_that_of_all() -> None:
    settings = MeteringSettings(monthly_budget=1.0, monthly_budgets={"rich": 10})
    assert [settings.budget_of(name) for name in ("rich", "poor")] == [10, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"price_per_million_tokens": -1.0},
        {"price_per_million_characters": float("inf")},
        {"monthly_budget": float("nan")},
        {"monthly_budgets": {"a": "5"}},
        {"monthly_budgets": "a=5"},
    ],
)
def test_what_is_no_price_and_no_budget_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        MeteringSettings(**wrong)


def test_prices_and_budgets_are_read_from_the_file_and_from_the_environment(
    tmp_path: Path,
) -> None:
    (tmp_path / "lastro.toml").write_text(
        "[metering]\nprice_per_million_tokens = 0.5\nmonthly_budget = 20\n"
        "[metering.monthly_budgets]\nquarry = 5\n"
    )
    environment = {"LASTRO_METERING_PRICE_PER_MILLION_TOKENS": "0.02"}
    metering = load_settings(environment, folder=tmp_path).metering
    assert metering == MeteringSettings(
        price_per_million_tokens=0.02, monthly_budget=20, monthly_budgets={"quarry": 5}
    )
    with pytest.raises(ConfigError, match="LASTRO_METERING_MONTHLY_BUDGET must be a number"):
        load_settings({"LASTRO_METERING_MONTHLY_BUDGET": "much"}, folder=tmp_path)


# --- budgets


def test_a_budget_stops_a_paid_embedder_before_it_is_passed(quarry: Quarry) -> None:
    script = quarry.serve(Script())
    # the shortest probe, of six letters and four marks, could cost ten
    report = quarry.index(quarry.app(replace(ONE_A_TOKEN, monthly_budget=9.0)))
    assert report.embedding.reason == "embedder_budget"
    assert (report.embedding.embedded, report.embedding.skipped) == (0, 3)
    assert script.requests == []


def test_what_is_spent_never_passes_the_budget_and_the_rest_is_embedded_later(
    quarry: Quarry,
) -> None:
    script = quarry.serve(Script())
    # the six probes of a batch and one round of them together, then not the documents
    poor = quarry.app(replace(ONE_A_TOKEN, monthly_budget=150.0))
    quarry.index(poor)
    (spent,) = poor.usage().spent
    assert 0 < spent.spent <= 150
    assert spent.budget == 150
    assert spent.spent == sum(len(text) // 4 for text in script.inputs)
    rich = quarry.app(replace(ONE_A_TOKEN, monthly_budgets={"quarry": 5_000}))
    assert quarry.index(rich).embedding.skipped == 0
    assert rich.coverage().scopes[0].with_vectors == 3


def test_over_the_budget_the_words_answer_and_the_outcome_says_so(quarry: Quarry) -> None:
    quarry.serve(Script())
    quarry.index(quarry.app())
    app = quarry.app(replace(ONE_A_TOKEN, monthly_budget=0.0))
    outcome = app.search(SearchRequest(query="of basalt"))
    assert [hit.origin.source_path for hit in outcome.hits][:1] == ["docs/basalt.md"]
    assert not outcome.vector_available
    (said,) = outcome.degraded
    assert said.reason == "embedder_budget"
    assert "'quarry'" in said.detail


def test_a_provider_that_costs_nothing_is_never_stopped(quarry: Quarry) -> None:
    quarry.serve(Script())
    report = quarry.index(quarry.app(MeteringSettings(monthly_budget=0.0)))
    assert report.embedding.skipped == 0


def test_an_embedder_of_this_machine_is_never_stopped(quarry: Quarry) -> None:
    app = quarry.app(replace(ONE_A_TOKEN, monthly_budget=0.0), embedder="deterministic")
    assert quarry.index(app).embedding.skipped == 0


def test_many_at_once_do_not_pass_a_budget_together(
    quarry: Quarry, owner: psycopg.Connection
) -> None:
    project_id = add_project(owner, "shared")
    # each call may cost 5 · 1 + 4 marks = 9 tokens at most and costs 1: 12 calls of 20 fit
    prices = replace(ONE_A_TOKEN, monthly_budget=20.0)
    app = quarry.app(prices)
    made: list[int] = []

    def call(number: int) -> None:
        meter = ProjectMeter(
            database=app.database, embedder=app.embedder, role="document", project_id=project_id
        )
        try:
            with meter(["coral"]) as one:
                made.append(number)
                one.tokens = 1
        except BudgetExceeded:
            return
        meter.finish()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(call, range(40)))
    (spent,) = app.usage(project="shared").spent
    # never more than 20 together, and while 9 are left there is room for another
    assert len(made) == spent.spent <= 20
    assert spent.spent >= 12 or len(made) < 40


def test_what_a_killed_process_had_reserved_stays_spent(
    quarry: Quarry, owner: psycopg.Connection
) -> None:
    project_id = add_project(owner, "shared")
    app = quarry.app(ONE_A_TOKEN)
    meter = ProjectMeter(
        database=app.database, embedder=app.embedder, role="document", project_id=project_id
    )
    with meter(["coral"]) as one:
        one.tokens = 1
    # never finished, as after kill -9
    (spent,) = app.usage(project="shared").spent
    assert spent.spent == most_tokens("coral") == 9


def one_call(app: App, project_id: int) -> ProjectMeter:
    """A meter that reserved 9 tokens, 5 letters and 4 marks, for a call that cost 1."""
    meter = ProjectMeter(
        database=app.database, embedder=app.embedder, role="document", project_id=project_id
    )
    with meter(["coral"]) as one:
        one.tokens = 1
    return meter


def charged(app: App) -> tuple[float, int]:
    """What the project spent, and the calls that are recorded."""
    found = app.usage(project="shared")
    return found.spent[0].spent, sum(line.calls for line in found.usage)


def test_a_transaction_that_is_undone_takes_no_counts_with_it(
    quarry: Quarry, owner: psycopg.Connection
) -> None:
    app = quarry.app(ONE_A_TOKEN)
    meter = one_call(app, add_project(owner, "shared"))
    with pytest.raises(LastroError), meter.transaction() as connection:
        connection.execute("SELECT 1 / 0")
    assert charged(app) == (9, 0)
    meter.finish()
    assert charged(app) == (1, 1)


def test_a_server_that_loses_a_commit_loses_no_counts(
    quarry: Quarry, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = quarry.app(ONE_A_TOKEN)
    meter = one_call(app, add_project(owner, "shared"))
    settle = store.settle_spend

    def settle_and_die(connection: psycopg.Connection, project_id: int, **said: Any) -> None:
        settle(connection, project_id, **said)
        owner.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])

    with monkeypatch.context() as patch:
        patch.setattr(store, "settle_spend", settle_and_die)
        with pytest.raises(DatabaseUnavailable):
            meter.finish()
    meter.finish()
    assert charged(app) == (1, 1)


def finish_without_an_answer(meter: ProjectMeter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit what the meter counted, and lose the server's word that it did."""
    commit_it = psycopg.Connection.commit

    def lose_the_answer(connection: psycopg.Connection) -> None:
        commit_it(connection)
        raise psycopg.OperationalError("the line is dead")

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "commit", lose_the_answer)
        with pytest.raises(DatabaseUnavailable):
            meter.finish()


def test_a_commit_whose_answer_is_lost_is_not_written_twice(
    quarry: Quarry, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = quarry.app(ONE_A_TOKEN)
    project_id = add_project(owner, "shared")
    one_call(app, project_id)  # its 9 stay reserved
    meter = one_call(app, project_id)
    finish_without_an_answer(meter, monkeypatch)
    meter.finish()
    assert charged(app) == (9 + 1, 1)


def test_the_end_of_a_commit_in_doubt_is_waited_for_outside_a_transaction(
    quarry: Quarry, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = quarry.app(ONE_A_TOKEN)
    meter = one_call(app, add_project(owner, "shared"))
    finish_without_an_answer(meter, monkeypatch)
    fates = iter(["in progress", "in progress", "committed"])
    open_ones: list[tuple[int]] = []

    def look(_pause_s: float) -> None:
        open_ones.extend(
            owner.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND state = 'idle in transaction'"
            )
        )

    monkeypatch.setattr(store, "transaction_fate", lambda *_: next(fates))
    monkeypatch.setattr("lastro.metering.time.sleep", look)
    meter.finish()
    assert set(open_ones) == {(0,)}
    assert charged(app) == (1, 1)


def test_a_budget_that_is_passed_is_an_error_of_its_own(
    quarry: Quarry, owner: psycopg.Connection
) -> None:
    project_id = add_project(owner, "shared")
    app = quarry.app(replace(ONE_A_TOKEN, monthly_budget=2.0))
    meter = ProjectMeter(
        database=app.database, embedder=app.embedder, role="document", project_id=project_id
    )
    with (
        pytest.raises(BudgetExceeded, match=r"'shared'.* is 2\.0; 0 are spent") as refused,
        meter(["coral"]),
    ):
        raise AssertionError("the call was made")
    assert (refused.value.code, refused.value.reason) == ("BUDGET_EXCEEDED", "embedder_budget")
    assert exit_code(refused.value) == 1
    assert "monthly_budget" in (refused.value.remedy or "")
    assert isinstance(refused.value, ProviderError)


# --- the command


def test_the_command_shows_usage_for_people_and_for_programs(
    quarry: Quarry,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_usage(owner, add_project(owner, "ours"))
    monkeypatch.chdir(quarry.folder)
    monkeypatch.setenv("LASTRO_HOME", str(quarry.settings.home))
    monkeypatch.setenv("LASTRO_DATABASE_URL", quarry.url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    month = this_month()
    assert main(["usage", "--since", str(month), "--format", "json"]) == EXIT_DONE
    said = json.loads(capsys.readouterr().out)
    (line,) = said["usage"]
    assert (line["project"], line["tokens"], line["cost"]) == ("ours", 5, 0.5)
    assert said["spent"] == [
        {"project": "ours", "month": f"{month:%Y-%m}", "spent": 0.5, "budget": None}
    ]
    assert main(["usage", "--since", str(month)]) == EXIT_DONE
    assert "ours" in capsys.readouterr().out
    assert main(["usage", "--since", "soon"]) == 2
