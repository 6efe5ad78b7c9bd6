"""Gaps: which searches are counted as questions without an answer, and what is told of them."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from threading import Barrier

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from repositories import write
from rows import add_project

from lastro import store
from lastro.app import App
from lastro.config import load_settings
from lastro.db.pool import Database
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.entity import Entity
from lastro.errors import Conflict, InvalidInput, NotFound, ProviderError
from lastro.gap import Gap, gap_id
from lastro.golden import dump_golden
from lastro.profiles import SHIPPED
from lastro.projects import project_id_of
from lastro.runs import GoldenRequest
from lastro.search import SearchRequest
from lastro.types import EntityOrigin, FileOrigin, IndexRequest, Outcome

FILES = {
    "docs/kiln.md": "# Kiln\n\nThe kiln is fired on Fridays, at a thousand degrees.\n",
    "docs/adr/0001-clay.md": "# 1. Clay from the river\n\nWe dig our clay by the river.\n",
}
UNASKED = "who repairs the bicycles of the neighbours"
ANSWER = "# Bicycles\n\nAnna repairs the bicycles of the neighbours, on Mondays.\n"

# In the form of a provider's keys, and put together here so that no scanner takes it for one.
SECRETS = ["AKIA" + "Q3EGRZT5YVKJ7X2M", "AKIA" + "J7X2MQ3EGRZT5YVK"]


class Dead(DeterministicEmbedder):
    """An embedder whose provider cannot be reached."""

    def embed(self, texts, role):
        raise ProviderError("nobody answers", reason="embedder_unreachable")


class Pottery:
    """An indexed project whose searches are counted."""

    def __init__(self, app: App, folder: Path) -> None:
        self.app = app
        self.folder = folder

    def ask(self, query: str, **more) -> Outcome:
        return self.app.search(SearchRequest(query=query, **more), project="pottery")

    def index(self, **files: str) -> None:
        write(self.folder, {f"docs/{name}.md": text for name, text in files.items()})
        self.app.index(IndexRequest(path=self.folder, project="pottery", worktree=True))

    def keep(self, key: str, text: str, **more) -> None:
        entry = Entity(key=key, title=key, text=text, type="glaze", **more)
        self.app.entities("pottery").upsert([entry])

    @property
    def gaps(self):
        return self.app.gaps("pottery")

    @property
    def gap(self) -> Gap:
        """The only one."""
        [gap] = self.gaps.list()
        return gap

    def counts(self) -> dict[str, int]:
        return {gap.query: gap.hit_count for gap in self.gaps.list()}


@pytest.fixture
def pottery(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner_url: str) -> Iterator[Pottery]:
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    write(tmp_path / "pottery", FILES)
    app = App(
        load_settings(),
        database=Database(owner_url, max_size=4),
        admin_url=owner_url,
        embedder=DeterministicEmbedder(),
        profiles=dict(SHIPPED),
    )
    with app:
        made = Pottery(app, tmp_path / "pottery")
        made.index()
        yield made


def switched_off(pottery: Pottery) -> None:
    """From now on the embedder's provider cannot be reached."""
    pottery.app.engine = replace(pottery.app.engine, embedder=Dead())


# --- what is counted


def test_a_question_that_nothing_answers_is_counted(pottery: Pottery) -> None:
    first, second = pottery.ask(UNASKED), pottery.ask(f"  {UNASKED.upper()} ?")
    assert first.hits == second.hits == ()
    assert first.gap_id == second.gap_id == pottery.gap.id
    gap = pottery.gap
    assert (gap.query, gap.filter, gap.hit_count, gap.status) == (UNASKED, {}, 2, "open")
    assert gap.first_seen < gap.last_seen


def test_a_question_that_is_answered_is_none(pottery: Pottery) -> None:
    outcome = pottery.ask("when is the kiln fired")
    assert outcome.hits
    assert outcome.gap_id is None
    assert pottery.counts() == {}


def test_what_a_question_is_asked_in_makes_another_gap(pottery: Pottery) -> None:
    asked = [
        {},
        {"scopes": ["adr"]},
        {"path_prefix": "docs/adr/"},
        {"filter": {"types": ["glaze"]}},
        {"filter": {"types": ["glaze"], "forbid": {"food_safe": [False]}}},
    ]
    for more in asked:
        pottery.ask(UNASKED, **more)
    assert sorted(json.dumps(gap.filter, sort_keys=True) for gap in pottery.gaps.list()) == [
        '{"forbid": {"food_safe": [false]}, "types": ["glaze"]}',
        '{"pathPrefix": "docs/adr/"}',
        '{"scopes": ["adr"]}',
        '{"types": ["glaze"]}',
        "{}",
    ]
    pottery.ask(UNASKED, scopes=["adr", "adr"])
    counts = {json.dumps(gap.filter): gap.hit_count for gap in pottery.gaps.list()}
    assert counts['{"scopes": ["adr"]}'] == 2


def test_a_question_of_stop_words_is_counted(pottery: Pottery) -> None:
    outcome = pottery.ask("how is it that it is")
    assert [part.reason for part in outcome.degraded] == ["lexical_no_terms"]
    assert outcome.gap_id is not None


def test_a_search_without_the_embedder_counts_nothing(pottery: Pottery) -> None:
    switched_off(pottery)
    outcome = pottery.ask(UNASKED)
    assert [part.reason for part in outcome.degraded] == ["embedder_unreachable"]
    assert (outcome.hits, outcome.gap_id) == ((), None)
    assert pottery.counts() == {}


def test_a_search_during_an_index_run_counts_nothing(
    pottery: Pottery, owner: psycopg.Connection
) -> None:
    owner.execute("UPDATE lastro.sources SET run_started_at = now()")
    assert pottery.ask(UNASKED).gap_id is None
    assert pottery.counts() == {}


def test_a_question_that_is_not_to_be_recorded_is_not(pottery: Pottery) -> None:
    assert pottery.ask(UNASKED, record_gap=False).gap_id is None
    assert pottery.counts() == {}


def test_a_question_longer_than_any_key_is_counted(pottery: Pottery) -> None:
    query = " ".join(f"bicycle{n}" for n in range(7_000))
    for _ in range(2):
        assert pottery.ask(query).gap_id is not None
    assert pottery.counts() == {query: 2}


def test_a_search_that_is_refused_counts_nothing(pottery: Pottery) -> None:
    with pytest.raises(InvalidInput):
        pottery.ask("  ")
    assert pottery.counts() == {}


def test_evaluations_calibrations_and_why_count_nothing(pottery: Pottery, tmp_path: Path) -> None:
    question = {"question": UNASKED, "language": "en", "answers": [{"path": "docs/kiln.md"}]}
    golden = tmp_path / "asked.jsonl"
    golden.write_text(json.dumps(question))
    app = pottery.app
    app.golden_runs("pottery").run(GoldenRequest(golden=str(golden)), progress=lambda *_: None)
    app.why(SearchRequest(query=UNASKED), expect="docs/kiln.md", project="pottery")
    app.calibrator("pottery").self_calibrate()
    pottery.ask(UNASKED)
    assert pottery.counts() == {UNASKED: 1}


def test_counting_is_exact_whoever_counts_beside(pottery: Pottery, owner_url: str) -> None:
    # 16 threads of 200 misses each, and nothing but the misses: 3,200
    threads, misses = 16, 200
    project_id = project_id_of(pottery.app.database, "pottery")
    id_ = gap_id("x", {})
    ready = Barrier(threads)

    def miss(database: Database) -> None:
        ready.wait()
        for _ in range(misses):
            with database.transaction(projects=[project_id]) as connection:
                store.record_gap(
                    connection, id_, project_id=project_id, query="X?", normalised="x",
                    asked_in={}, nearest=None,
                )  # fmt: skip

    with Database(owner_url, max_size=threads) as database, ThreadPoolExecutor(threads) as pool:
        list(pool.map(miss, [database] * threads))
    assert pottery.counts() == {"X?": threads * misses}


def test_searches_beside_each_other_are_all_counted(pottery: Pottery) -> None:
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda n: pottery.ask(f"{UNASKED}{'?' * n}"), range(80)))
    assert {outcome.gap_id for outcome in outcomes} == {pottery.gap.id}
    assert pottery.gap.hit_count == 80


def test_the_example_in_python_runs(pottery: Pottery, capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parent.parent / "docs" / "how-to" / "answer-the-gaps.md"
    example = re.search(r"^    from lastro import.*?(?=^\S)", page.read_text("utf-8"), re.M | re.S)
    assert example is not None
    exec(dedent(example[0].replace("handbook", "pottery")))
    assert capsys.readouterr().out == "1 how long are backups kept? True\n"


# --- a server that takes no note


def test_a_read_only_server_still_answers_and_says_that_nothing_was_recorded(
    pottery: Pottery, owner: psycopg.Connection, owner_url: str
) -> None:
    pottery.ask(UNASKED, record_gap=False)  # its vector is in the cache
    owner.execute(
        SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(
            Identifier(owner.info.dbname)
        )
    )
    with Database(owner_url) as reading:
        pottery.app.database = reading
        pottery.app.engine = replace(pottery.app.engine, database=reading)
        outcome = pottery.ask(UNASKED)
    assert outcome.abstained
    assert outcome.gap_id is None
    [said] = outcome.degraded
    assert (said.part, said.reason) == ("gap", "gap_not_recorded")
    assert "read-only" in said.detail


def test_a_role_that_may_not_write_gaps_is_told_by_the_outcome(
    pottery: Pottery, owner: psycopg.Connection
) -> None:
    owner.execute("REVOKE INSERT ON lastro.gaps FROM lastro_app")
    [said] = pottery.ask(UNASKED).degraded
    assert (said.reason, "permission denied" in said.detail) == ("gap_not_recorded", True)


def test_a_gap_that_somebody_holds_is_not_waited_for_long(
    pottery: Pottery, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastro.recording.RECORDING", {"statement_timeout": "50ms"})
    pottery.ask(UNASKED)
    with owner.transaction():
        owner.execute("SELECT FROM lastro.gaps FOR UPDATE")
        outcome = pottery.ask(UNASKED)
    assert [part.reason for part in outcome.degraded] == ["gap_not_recorded"]
    assert pottery.gap.hit_count == 1


# --- the nearest passage


def test_the_nearest_passage_is_the_best_below_the_threshold(pottery: Pottery) -> None:
    outcome = pottery.ask("river bicycles of the neighbours", explain=True)
    assert outcome.abstained
    everything = pottery.ask("river bicycles of the neighbours", profile="kb-rrf", k=1)
    nearest = pottery.gap.nearest
    assert nearest is not None
    assert isinstance(nearest.origin, FileOrigin)
    assert nearest.origin.source_path == "docs/adr/0001-clay.md"
    assert nearest.origin == everything.hits[0].origin
    assert 0 < nearest.score < 1


def test_nothing_is_near_where_nothing_was_found(pottery: Pottery) -> None:
    pottery.ask(UNASKED, path_prefix="docs/nowhere/")
    assert pottery.gap.nearest is None


def test_the_nearest_passage_is_one_that_the_filter_keeps(pottery: Pottery) -> None:
    pottery.keep("celadon", "a", attributes={"food_safe": True})
    pottery.keep("lead white", UNASKED, attributes={"food_safe": False})
    # Abstains whatever the cosine: nothing can have so much evidence.
    silent = replace(SHIPPED["default"], threshold=2.0)
    pottery.ask(UNASKED, profile=silent, filter={"forbid": {"food_safe": [False]}})
    assert nearest_key(pottery) != "lead white"
    pottery.ask(UNASKED, profile=silent, scopes=["entity"])
    assert {nearest_key_of(gap) for gap in pottery.gaps.list()} >= {"lead white"}


@pytest.mark.parametrize("status", ["draft", "archived"])
def test_a_passage_that_nobody_may_see_is_never_nearest(pottery: Pottery, status: str) -> None:
    silent = replace(SHIPPED["default"], threshold=2.0)
    pottery.keep("celadon", "A green glaze.")
    pottery.ask(UNASKED, profile=silent, scopes=["entity"])
    before = pottery.gap.nearest
    pottery.keep("lead white", UNASKED, status=status)
    pottery.ask(UNASKED, profile=silent, scopes=["entity"])
    assert pottery.gap.nearest == before
    assert nearest_key(pottery) == "celadon"


def nearest_key(pottery: Pottery) -> str | None:
    return nearest_key_of(pottery.gap)


def nearest_key_of(gap: Gap) -> str | None:
    if gap.nearest is None or not isinstance(gap.nearest.origin, EntityOrigin):
        return None
    return gap.nearest.origin.entity_key


@pytest.fixture
def near(pottery: Pottery) -> Pottery:
    """A gap whose nearest passage is the entry ``celadon``."""
    pottery.keep("celadon", UNASKED, attributes={"food_safe": True})
    silent = replace(SHIPPED["default"], threshold=2.0)
    pottery.ask(
        UNASKED,
        profile=silent,
        filter={"types": ["glaze"], "forbid": {"food_safe": [False]}},
    )
    assert nearest_key(pottery) == "celadon"
    return pottery


@pytest.mark.parametrize("status", ["draft", "archived"])
def test_a_passage_that_became_a_draft_is_no_longer_shown_as_nearest(
    near: Pottery, status: str
) -> None:
    near.keep("celadon", UNASKED, attributes={"food_safe": True}, status=status)
    assert near.gap.nearest is None


def test_a_passage_that_the_filter_forbids_now_is_no_longer_shown_as_nearest(
    near: Pottery,
) -> None:
    near.keep("celadon", UNASKED, attributes={"food_safe": False})
    assert near.gap.nearest is None


def test_a_passage_that_is_gone_is_no_longer_shown_as_nearest(near: Pottery) -> None:
    near.app.entities("pottery").remove(["celadon"])
    assert near.gap.nearest is None


def test_the_row_of_a_gap_holds_no_text_of_its_nearest_passage(
    near: Pottery, owner: psycopg.Connection
) -> None:
    [(row,)] = owner.execute("SELECT to_jsonb(g)::text FROM lastro.gaps AS g").fetchall()
    assert "celadon" not in row
    assert UNASKED in row


def test_a_document_that_is_erased_is_forgotten_as_nearest(
    pottery: Pottery, owner: psycopg.Connection
) -> None:
    pottery.ask("river bicycles of the neighbours")
    assert pottery.gap.nearest is not None
    pottery.app.erase_documents(["docs/adr/0001-clay.md"], project="pottery")
    assert owner.execute("SELECT nearest_chunk FROM lastro.gaps").fetchall() == [(None,)]
    assert pottery.gap.nearest is None


def test_an_erased_project_leaves_none_of_its_gaps(
    pottery: Pottery, owner: psycopg.Connection
) -> None:
    pottery.ask(UNASKED)
    assert pottery.app.erase_project("pottery").gaps == 1
    assert owner.execute("SELECT count(*) FROM lastro.gaps").fetchall() == [(0,)]


def test_gaps_of_another_project_are_not_seen(pottery: Pottery, owner: psycopg.Connection) -> None:
    add_project(owner, "elsewhere")
    outcome = pottery.ask(UNASKED)
    other = pottery.app.gaps("elsewhere")
    assert other.list() == []
    assert outcome.gap_id is not None
    for act in (other.dismiss, other.reopen, other.resolve):
        with pytest.raises(NotFound):
            act([outcome.gap_id])
    assert pottery.gap.status == "open"


# --- looking


def test_those_asked_most_often_come_first(pottery: Pottery) -> None:
    for query, times in (("once", 1), ("thrice", 3), ("twice", 2), ("once more", 1)):
        for _ in range(times):
            pottery.ask(f"{query} upon a bicycle")
    assert [gap.query.partition(" upon")[0] for gap in pottery.gaps.list()] == [
        "thrice", "twice", "once more", "once",
    ]  # fmt: skip
    assert len(pottery.gaps.list(limit=3)) == 3


def test_gaps_are_listed_by_status_and_since_when_they_were_missed(
    pottery: Pottery, owner: psycopg.Connection
) -> None:
    old, new = pottery.ask("an old bicycle"), pottery.ask("a new bicycle")
    assert old.gap_id is not None
    owner.execute(
        "UPDATE lastro.gaps SET first_seen = '2026-01-01Z', last_seen = '2026-01-02Z'"
        " WHERE id = %s",
        [old.gap_id],
    )
    since = datetime.now(UTC) - timedelta(hours=1)
    assert [gap.id for gap in pottery.gaps.list(since=since)] == [new.gap_id]
    pottery.gaps.dismiss([old.gap_id])
    assert [gap.id for gap in pottery.gaps.list(status="open")] == [new.gap_id]
    assert [gap.id for gap in pottery.gaps.list(status="dismissed")] == [old.gap_id]


def test_a_limit_of_nothing_is_refused(pottery: Pottery) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        pottery.gaps.list(limit=0)


# --- what becomes of them


def test_a_dismissed_gap_stays_so_and_counts_on(pottery: Pottery) -> None:
    outcome = pottery.ask(UNASKED)
    assert outcome.gap_id is not None
    done = pottery.gaps.dismiss([outcome.gap_id[:8], "ffff"])
    assert (done.dismissed, done.unknown) == ((outcome.gap_id,), ("ffff",))
    pottery.ask(UNASKED)
    assert (pottery.gap.status, pottery.gap.hit_count) == ("dismissed", 2)


@pytest.mark.parametrize("status", ["dismissed", "resolved", "open"])
def test_a_gap_that_is_reopened_waits_for_an_answer_however_often(
    pottery: Pottery, owner: psycopg.Connection, status: str
) -> None:
    outcome = pottery.ask(UNASKED)
    assert outcome.gap_id is not None
    owner.execute("UPDATE lastro.gaps SET status = %s", [status])
    for _ in range(2):
        done = pottery.gaps.reopen([outcome.gap_id[:8], "ffff"])
        assert (done.reopened, done.accepted, done.unknown) == ((outcome.gap_id,), (), ("ffff",))
        assert (pottery.gap.status, pottery.gap.hit_count) == ("open", 1)


def test_an_accepted_gap_is_not_reopened(pottery: Pottery) -> None:
    outcome = pottery.ask(UNASKED)
    assert outcome.gap_id is not None
    pottery.gaps.accept(outcome.gap_id, unanswerable=True)
    done = pottery.gaps.reopen([outcome.gap_id])
    assert (done.reopened, done.accepted) == ((), (outcome.gap_id,))
    assert pottery.gap.status == "accepted"


def test_digits_of_several_gaps_dismiss_none(pottery: Pottery, owner: psycopg.Connection) -> None:
    pottery.ask(UNASKED)
    pottery.ask("another bicycle")
    owner.execute("UPDATE lastro.gaps SET id = overlay(id::text PLACING 'abcd' FROM 1)::uuid")
    with pytest.raises(InvalidInput, match="several gaps begin with ABCD"):
        pottery.gaps.dismiss(["ABCD"])
    assert {gap.status for gap in pottery.gaps.list()} == {"open"}


def test_what_is_answered_now_is_resolved_and_the_rest_remains(pottery: Pottery) -> None:
    answered, unanswered = pottery.ask(UNASKED), pottery.ask("what does a violin cost")
    pottery.index(bicycles=ANSWER)
    done = pottery.gaps.resolve()
    assert (done.resolved, done.remaining, dict(done.degraded)) == ((answered.gap_id,), 1, {})
    assert {gap.id: gap.status for gap in pottery.gaps.list()} == {
        answered.gap_id: "resolved",
        unanswered.gap_id: "open",
    }
    assert pottery.counts() == {UNASKED: 1, "what does a violin cost": 1}  # asked again, not missed


def test_a_gap_is_asked_again_in_its_own_filter(pottery: Pottery) -> None:
    pottery.ask(UNASKED, scopes=["adr"])
    pottery.ask(UNASKED, filter={"types": ["glaze"]})
    pottery.index(bicycles=ANSWER)
    assert pottery.gaps.resolve().resolved == ()
    pottery.keep("repairs", ANSWER)
    assert pottery.gaps.resolve().remaining == 1


def test_a_gap_is_asked_again_under_the_profile_that_is_named(pottery: Pottery) -> None:
    pottery.ask("river bicycles of the neighbours")
    assert pottery.gaps.resolve().resolved == ()
    assert len(pottery.gaps.resolve(profile="kb-rrf").resolved) == 1  # it has no threshold


def test_a_resolved_gap_that_misses_again_is_open_again(pottery: Pottery) -> None:
    pottery.ask(UNASKED)
    pottery.index(bicycles=ANSWER)
    pottery.gaps.resolve()
    pottery.index(bicycles="# Bicycles\n\nNothing to say.\n")
    pottery.ask(UNASKED)
    assert (pottery.gap.status, pottery.gap.hit_count) == ("open", 2)


def test_a_search_that_lacks_a_part_closes_nothing(
    pottery: Pottery, owner: psycopg.Connection
) -> None:
    pottery.ask(UNASKED)
    pottery.index(bicycles=ANSWER)
    owner.execute("DELETE FROM lastro.embedding_cache")
    switched_off(pottery)
    done = pottery.gaps.resolve()
    assert (done.resolved, done.remaining) == ((), 1)
    assert dict(done.degraded) == {"embedder_unreachable": 1}


@pytest.mark.parametrize("status", ["dismissed", "accepted"])
def test_what_a_person_decided_is_not_asked_again(pottery: Pottery, status: str) -> None:
    outcome = pottery.ask(UNASKED)
    assert outcome.gap_id is not None
    if status == "dismissed":
        pottery.gaps.dismiss([outcome.gap_id])
    else:
        pottery.gaps.accept(outcome.gap_id, ["docs/bicycles.md"])
    pottery.index(bicycles=ANSWER)
    assert pottery.gaps.resolve([outcome.gap_id]).resolved == ()
    assert pottery.gap.status == status


@pytest.mark.parametrize("change", ["hit_count = hit_count + 1", "status = 'dismissed'"])
def test_a_gap_that_changes_while_it_is_asked_again_is_not_closed(
    pottery: Pottery, owner: psycopg.Connection, change: str
) -> None:
    pottery.ask(UNASKED)
    project_id = project_id_of(pottery.app.database, "pottery")
    with pottery.app.database.transaction(projects=[project_id]) as connection:
        [row] = store.list_gaps(connection, project_id)
        owner.execute(f"UPDATE lastro.gaps SET {change}".encode())
        assert not store.resolve_gap(connection, row, project_id=project_id)
    assert pottery.gap.status != "resolved"


def test_no_id_at_all_closes_nothing(pottery: Pottery) -> None:
    pottery.ask(UNASKED)
    pottery.index(bicycles=ANSWER)
    with pytest.raises(NotFound):
        pottery.gaps.resolve([])
    assert pottery.gap.status == "open"


# --- golden questions


def accepted_lines(pottery: Pottery, golden: str = "gaps") -> list[dict]:
    exported = dump_golden(pottery.app.golden_sets("pottery").get(golden))
    return [json.loads(line) for line in exported.splitlines()]


def test_an_accepted_gap_is_a_golden_question_in_its_filter(pottery: Pottery) -> None:
    outcome = pottery.ask(
        f"{UNASKED}?", scopes=["entity"], filter={"allow": {"b": 1.0, "a": ["x"]}}
    )
    assert outcome.gap_id is not None
    pottery.keep("repairs", "Anna does.")
    done = pottery.gaps.accept(outcome.gap_id, ["repairs"], grade=2)
    [line] = accepted_lines(pottery)
    assert line.pop("id")
    assert line == {
        "question": f"{UNASKED}?",
        "language": "en",
        "filter": {"scopes": ["entity"], "allow": {"a": ["x"], "b": [1]}},
        "answers": [{"entity": "repairs", "grade": 2}],
    }
    assert (done.golden, done.version, done.not_indexed) == ("gaps", 1, ())
    assert pottery.gap.status == "accepted"
    golden = pottery.app.golden_sets("pottery").get(f"gaps@{done.content_hash}")
    assert golden.content_hash == done.content_hash


def test_each_acceptance_is_a_version_of_the_set(pottery: Pottery) -> None:
    first, second = pottery.ask(UNASKED), pottery.ask("什么时候修自行车？")
    assert first.gap_id is not None
    assert second.gap_id is not None
    pottery.gaps.accept(first.gap_id, ["docs/kiln.md#kiln", "docs/later.md"], golden="hard")
    done = pottery.gaps.accept(second.gap_id, unanswerable=True, golden="hard")
    assert done.version == 2
    lines = {line["language"]: line for line in accepted_lines(pottery, "hard")}
    assert lines["en"]["answers"] == [
        {"path": "docs/kiln.md", "heading": "kiln"}, {"path": "docs/later.md"},
    ]  # fmt: skip
    assert lines["zh"]["unanswerable"] is True


def test_a_place_where_nothing_is_indexed_is_told(pottery: Pottery) -> None:
    outcome = pottery.ask(UNASKED)
    assert outcome.gap_id is not None
    done = pottery.gaps.accept(outcome.gap_id, ["docs/kiln.md", "docs/later.md"])
    assert done.not_indexed == ("docs/later.md",)


def test_an_accepted_gap_stays_so_and_counts_on(pottery: Pottery) -> None:
    outcome = pottery.ask(UNASKED)
    assert outcome.gap_id is not None
    pottery.gaps.accept(outcome.gap_id, unanswerable=True)
    pottery.ask(UNASKED)
    assert (pottery.gap.status, pottery.gap.hit_count) == ("accepted", 2)


def test_a_question_that_the_set_asks_already_is_a_conflict(pottery: Pottery) -> None:
    outcome = pottery.ask(UNASKED)
    assert outcome.gap_id is not None
    pottery.gaps.accept(outcome.gap_id, unanswerable=True)
    with pytest.raises(Conflict, match="asks this already"):
        pottery.gaps.accept(outcome.gap_id, ["docs/kiln.md"])
    assert len(accepted_lines(pottery)) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "answered at a place or unanswerable"),
        ({"places": ["docs/kiln.md"], "unanswerable": True}, "answered at a place or unanswerable"),
        ({"places": ["docs/kiln.md"], "grade": 0}, "grade must be a whole number"),
        ({"places": ["/etc/kiln"]}, "is absolute"),
        ({"unanswerable": True, "language": "english"}, "no ISO 639-1 code"),
        ({"unanswerable": True, "golden": "a@b"}, "cannot name a golden set"),
    ],
)
def test_what_is_no_question_is_not_accepted(pottery: Pottery, more: dict, said: str) -> None:
    outcome = pottery.ask(UNASKED)
    assert outcome.gap_id is not None
    with pytest.raises(InvalidInput, match=said):
        pottery.gaps.accept(outcome.gap_id, **more)
    assert pottery.gap.status == "open"
    assert pottery.app.golden_sets("pottery").list() == []


# --- what is kept of a question


def test_a_secret_in_a_question_is_masked_before_it_is_kept(
    pottery: Pottery, owner_url: str
) -> None:
    first, second = (f"bicycles of {secret}" for secret in SECRETS)
    told = [pottery.ask(question).gap_id for question in (first, second)]
    [gap] = pottery.gaps.list()
    assert told == [gap.id, gap.id]
    assert gap.query.startswith("bicycles of [masked:")
    assert gap.hit_count == 2
    with psycopg.connect(owner_url) as connection:
        kept = str(connection.execute("SELECT * FROM lastro.gaps").fetchall())
    assert not any(secret[-20:].casefold() in kept.casefold() for secret in SECRETS)


def test_a_question_without_its_secret_is_asked_again_as_it_is_kept(pottery: Pottery) -> None:
    pottery.ask(f"{UNASKED} {SECRETS[0]}")
    pottery.index(bicycles=ANSWER)
    assert pottery.gaps.resolve().remaining == 0


def test_where_nothing_of_a_question_is_kept_no_gap_is_recorded(pottery: Pottery) -> None:
    pottery.app.settings = replace(pottery.app.settings, log_queries="off")
    outcome = pottery.ask(UNASKED)
    assert (outcome.gap_id, outcome.abstained, outcome.degraded) == (None, True, ())
    assert pottery.gaps.list() == []
