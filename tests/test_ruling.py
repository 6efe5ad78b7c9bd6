"""Rules at work: ``kb-rrf`` on real entries, what rules move, and what they may never show."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from rows import add_chunk

from lastro import store
from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.entities import upsert_entities
from lastro.entity import Entity
from lastro.errors import InvalidInput, NotFound
from lastro.golden import Answer, GoldenQuestion, golden_set
from lastro.leg_cache import cache_golden
from lastro.places import EntityPlace
from lastro.profiles import DEFAULT, KB_RRF, SHIPPED, Profile
from lastro.projects import project_id_of
from lastro.rules import MAX_RULES, Rule, RuleContext, RuleEntry, RuleMatch
from lastro.ruling import RuleBook
from lastro.search import Engine, SearchRequest, find, search
from lastro.types import EntityOrigin, Hit, Outcome
from lastro.writing import Writer

WEDDING = {"allow": {"occasion": ["wedding"]}}
WEDDING_FIRST = Rule(
    name="wedding-first",
    when=WEDDING,
    entry={"require": {"occasion": ["wedding"]}},
    weight=1,
    reason="made for weddings",
)
EVERY = Rule(name="every", weight=1, reason="whatever it is")
# Just what is embedded of "near": distance 0, rank 1 in both legs.
QUERY = "Silk\nA silk scarf."
NEAR = Entity(key="near", title="Silk", text="A silk scarf.", type="scarf")
FAR = Entity(
    key="far", title="Wool", text="A hat.", type="hat", attributes={"occasion": ["wedding"]}
)


class Shop:
    """A knowledge base that is asked with ``kb-rrf``."""

    def __init__(self, database: Database, owner_url: str) -> None:
        self.database = database
        self.owner_url = owner_url
        embedder = DeterministicEmbedder()
        self.engine = Engine(
            database=database, embedder=embedder, profiles=SHIPPED, languages=("en",)
        )

    def put(self, *entities: Entity, project: str = "shop") -> None:
        embedder = DeterministicEmbedder()
        pipeline = Pipeline(
            chunking=ChunkSettings(), languages=("en",), embedder=fingerprint(embedder)
        )
        writer = Writer(
            database=self.database, admin_url=self.owner_url, embedder=embedder, pipeline=pipeline
        )
        upsert_entities(self.database, entities, project=project, writer=writer)

    def rules(self, project: str = "shop") -> RuleBook:
        return RuleBook(database=self.database, project=project)

    def rule(self, *rules: Rule, project: str = "shop") -> None:
        self.rules(project).upsert(rules)

    def ask(self, query: str = QUERY, *, profile: Any = "kb-rrf", **request: Any) -> Outcome:
        asked = SearchRequest(query=query, k=50, profile=profile, explain=True, **request)
        return search(self.engine, asked, project="shop")

    def hits(self, query: str = QUERY, **request: Any) -> dict[str, Hit]:
        """Hits by key, best first."""
        hits = self.ask(query, **request).hits
        return {hit.origin.entity_key: hit for hit in hits if isinstance(hit.origin, EntityOrigin)}


@pytest.fixture
def shop(app_database: Database, owner_url: str) -> Shop:
    return Shop(app_database, owner_url)


def rules_of(hit: Hit) -> Any:
    assert hit.explain is not None
    return hit.explain["rules"]


def matched(hit: Hit) -> list[str]:
    return [one["name"] for one in rules_of(hit)["matched"]]


# --- kb-rrf on real entries


def test_a_score_is_the_sum_of_the_record(shop: Shop) -> None:
    half_a_year_ago = datetime.now(UTC) - timedelta(days=180)
    shop.put(replace(NEAR, rule_weight=0.25, effective_at=half_a_year_ago), FAR)
    shop.rule(Rule(name="scarves", entry={"types": ["scarf"]}, weight=0.5, reason="on sale"))
    found = shop.hits()
    # rank 1 by meaning and by words; two rules; one half-life old
    assert found["near"].score == pytest.approx(
        0.45 * 61 / 61 + 0.20 * 61 / 61 + 0.25 * (0.5 + 0.25) + 0.10 * 0.5, abs=1e-6
    )
    # rank 2 by meaning, no rank by words; no rule; no date
    assert found["far"].score == pytest.approx(0.45 * 61 / 62 + 0.20 * 0 + 0.25 * 0 + 0.10 * 0.5)


@pytest.mark.parametrize(
    ("days", "part"), [(None, 0.5), (0, 1.0), (360, 0.25), (-90, 1.0), (1_800, 0.5**10)]
)
def test_an_entry_is_as_fresh_as_its_date(shop: Shop, days: int | None, part: float) -> None:
    when = None if days is None else datetime.now(UTC) - timedelta(days=days)
    shop.put(replace(NEAR, effective_at=when))
    hit = shop.hits()["near"]
    assert hit.explain is not None
    assert hit.explain["parts"]["freshness"] == pytest.approx(part, abs=1e-6)
    assert hit.score == pytest.approx(0.45 + 0.20 + 0.10 * part, abs=1e-6)


def test_what_brings_no_evidence_is_shown_as_there_is_no_threshold(shop: Shop) -> None:
    shop.put(FAR)
    outcome = shop.ask("nothing of the kind")
    assert (len(outcome.hits), outcome.abstained) == (1, False)
    # rank 1 among one row by meaning: 0.45 + 0.10 · 0.5
    assert outcome.hits[0].score == pytest.approx(0.45 + 0.05)


@pytest.mark.parametrize(
    ("weights", "own", "part"),
    [((), 0.3, 0.3), ((0.4, 0.2), 0.1, 0.7), ((0.6, -0.5), 0.3, 0.4), ((-0.5,), 0.3, 0.0),
     ((0.4, 0.4), 0.5, 1.0), ((), 7.5, 1.0), ((), -1.0, 0.0)],
)  # fmt: skip
def test_weights_are_summed_and_then_clipped(
    shop: Shop, weights: tuple[float, ...], own: float, part: float
) -> None:
    shop.put(replace(NEAR, rule_weight=own))
    shop.rule(*(replace(EVERY, name=f"r{n}", weight=w) for n, w in enumerate(weights)))
    hit = shop.hits()["near"]
    assert hit.score == pytest.approx(0.45 + 0.20 + 0.25 * part + 0.10 * 0.5)
    assert rules_of(hit) == {
        "matched": [
            {"name": f"r{n}", "weight": w, "reason": "whatever it is"}
            for n, w in enumerate(weights)
        ],
        "own": pytest.approx(own),
        "sum": pytest.approx(own + sum(weights)),
        "part": pytest.approx(part),
    }


# --- what a rule moves


def test_a_rule_outranks_similarity(shop: Shop) -> None:
    shop.put(NEAR, FAR)
    assert list(shop.hits(filter=WEDDING)) == ["near", "far"]
    shop.rule(WEDDING_FIRST)
    found = shop.hits(filter=WEDDING)
    # 0.45 · 61/62 + 0.25 = 0.6927 against 0.45 + 0.20 = 0.65; both have 0.05 for no date
    assert list(found) == ["far", "near"]
    assert rules_of(found["far"])["matched"] == [
        {"name": "wedding-first", "weight": 1, "reason": "made for weddings"}
    ]
    assert matched(found["near"]) == []


def test_a_rule_is_not_for_a_search_that_asks_for_something_else(shop: Shop) -> None:
    shop.put(NEAR, FAR)
    shop.rule(WEDDING_FIRST)
    for said in (None, {}, {"allow": {"occasion": ["beach", "gala"]}}):
        assert not any(map(matched, shop.hits(filter=said).values()))


def test_every_chunk_of_an_entry_has_its_rules_and_it_is_asked_once(shop: Shop) -> None:
    seen: list[str] = []

    def counting(_context: RuleContext, entry: RuleEntry) -> RuleMatch:
        seen.append(entry.key)
        return RuleMatch(weight=0.5, reason="counted")

    text = "\n\n".join(f"## Part {n}\n\nA silk scarf of kind {n}." for n in range(4))
    shop.put(replace(NEAR, text=text))
    hits = shop.ask(rules=[counting]).hits
    assert len(hits) == 3
    assert {tuple(matched(hit)) for hit in hits} == {("counting",)}
    assert seen == ["near"]


def test_a_function_is_told_what_is_asked_and_what_the_entry_is(shop: Shop) -> None:
    seen: list[tuple[RuleContext, RuleEntry]] = []

    def watching(context: RuleContext, entry: RuleEntry) -> None:
        seen.append((context, entry))

    when = datetime(2026, 3, 1, tzinfo=UTC)
    shop.put(replace(FAR, rule_weight=0.25, effective_at=when))
    assert matched(shop.hits(filter=WEDDING, rules=[watching])["far"]) == []
    ((context, entry),) = seen
    assert (context.query, dict(context.filter)) == (QUERY, WEDDING)
    assert (entry.key, entry.type, dict(entry.attributes)) == (
        "far", "hat", {"occasion": ["wedding"]}
    )  # fmt: skip
    assert (entry.rule_weight, entry.effective_at) == (0.25, when)


def test_a_function_that_raises_ends_the_search_by_name(shop: Shop) -> None:
    def broken(_context: RuleContext, _entry: RuleEntry) -> RuleMatch | None:
        raise KeyError("grams")

    shop.put(NEAR)
    with pytest.raises(InvalidInput, match=r"rule 'broken' failed on the entry 'near': KeyError"):
        shop.ask(rules=[broken])
    assert list(shop.hits()) == ["near"]  # its connection works on


def test_files_are_asked_by_no_rule(shop: Shop, owner: psycopg.Connection) -> None:
    shop.put(NEAR)
    row = owner.execute("SELECT id FROM lastro.projects WHERE slug = 'shop'").fetchone()
    assert row is not None
    add_chunk(owner, row[0], "A silk scarf.")
    shop.rule(EVERY)
    said = {hit.origin.kind: rules_of(hit) for hit in shop.ask().hits}
    assert [one["name"] for one in said["entity"]["matched"]] == ["every"]
    assert said["file"] == {"matched": [], "own": 0.0, "sum": 0.0, "part": 0.0}


# --- what no rule may do


def test_a_rule_brings_back_nothing_that_a_filter_or_a_status_shut_out(shop: Shop) -> None:
    twin = {"title": NEAR.title, "text": NEAR.text, "type": "scarf", "rule_weight": 1.0}
    shop.put(
        FAR,
        Entity(key="forbidden", attributes={"avoid": ["pear"]}, **twin),
        Entity(key="draft", status="draft", **twin),
        Entity(key="archived", status="archived", **twin),
    )
    shop.put(Entity(key="foreign", **twin), project="another shop")
    shop.rule(EVERY)
    shop.rule(replace(EVERY, name="theirs"), project="another shop")
    seen: list[str] = []

    def watching(_context: RuleContext, entry: RuleEntry) -> RuleMatch:
        seen.append(entry.key)
        return RuleMatch(weight=1, reason="seen")

    outcome = shop.ask(filter={"forbid": {"avoid": ["pear"]}}, rules=[watching])
    assert [hit.origin.entity_key for hit in outcome.hits] == ["far"]  # pyright: ignore
    assert seen == ["far"]
    assert matched(outcome.hits[0]) == ["every", "watching"]
    assert outcome.explain is not None
    assert outcome.explain["candidates"] == 1
    assert "theirs" not in str(outcome)


def test_no_entry_that_is_hidden_changes_a_score(shop: Shop) -> None:
    shop.put(NEAR, FAR)
    shop.rule(WEDDING_FIRST, EVERY)

    def answer() -> Outcome:
        return replace(shop.ask(filter=WEDDING), took_ms=0.0)

    before = answer()
    shop.put(
        replace(FAR, key="draft", status="draft", rule_weight=1.0),
        replace(NEAR, key="archived", status="archived", rule_weight=1.0),
    )
    shop.put(replace(FAR, key="foreign"), project="another shop")
    assert answer() == before


# --- where rules count


@contextmanager
def statements() -> Iterator[list[str]]:
    """The text of each statement that any cursor executes meanwhile."""
    sent: list[str] = []
    plain = psycopg.Cursor.execute

    def noting(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(query if isinstance(query, str) else query.as_string(self))
        return plain(self, query, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", noting)
        yield sent


def test_a_profile_without_a_weight_for_rules_reads_none_and_no_attributes(shop: Shop) -> None:
    shop.put(NEAR, FAR)
    shop.rule(EVERY)

    def never(_context: RuleContext, _entry: RuleEntry) -> RuleMatch | None:
        raise AssertionError("it was asked")

    for profile in ("default", "adr-0080", replace(KB_RRF, rule_weight=0.0)):
        with statements() as sent:
            outcome = shop.ask(profile=profile, rules=[never])
        assert not [text for text in sent if "lastro.rules" in text or "attributes" in text]
        assert not any("rules" in (hit.explain or {}) for hit in outcome.hits)


@pytest.mark.parametrize(
    ("rules", "said", "read"),
    [([], None, 1), ([WEDDING_FIRST], None, 1), ([WEDDING_FIRST], WEDDING, 2), ([EVERY], None, 2)],
)
def test_attributes_are_read_in_one_statement_and_only_where_a_rule_applies(
    shop: Shop, rules: list[Rule], said: Any, read: int
) -> None:
    shop.put(NEAR, FAR)
    if rules:
        shop.rule(*rules)
    with statements() as plain:
        shop.ask(profile=replace(KB_RRF, rule_weight=0.0), filter=said)
    with statements() as ruled:
        shop.ask(profile=KB_RRF, filter=said)
    assert len(ruled) - len(plain) == read


def test_rules_that_take_too_long_are_left_out_and_it_is_said(
    shop: Shop, owner: psycopg.Connection
) -> None:
    shop.put(NEAR, FAR)
    shop.rule(EVERY)
    hasty = Shop(shop.database, shop.owner_url)
    hasty.engine = replace(shop.engine, statement_timeout_s=0.5)
    with owner.transaction():
        owner.execute("LOCK TABLE lastro.rules")
        outcome = hasty.ask()
    assert [(one.part, one.reason) for one in outcome.degraded] == [("rules", "statement_timeout")]
    assert [matched(hit) for hit in outcome.hits] == [[], []]


def test_candidates_before_any_threshold_have_their_rules(shop: Shop) -> None:
    shop.put(NEAR, FAR)
    shop.rule(WEDDING_FIRST)
    request = SearchRequest(query=QUERY, profile="kb-rrf", filter=WEDDING)
    found = find(shop.engine, request, project="shop")
    assert [(one.candidate.place, one.candidate.rule) for one in found.ranked] == [
        ("far", 1.0),
        ("near", 0.0),
    ]


@pytest.mark.parametrize("profile", [DEFAULT, KB_RRF])
def test_a_calibration_knows_what_rules_say_whatever_they_weigh_so_far(
    shop: Shop, profile: Profile
) -> None:
    shop.put(NEAR, FAR)
    shop.rule(replace(WEDDING_FIRST, when=None, weight=0.5))
    answers = (Answer(place=EntityPlace(entity="far"), grade=1),)
    question = GoldenQuestion(id="q", question=QUERY, language="en", answers=answers)
    (captured,) = cache_golden(
        shop.engine,
        golden_set("g", [question]),
        project="shop",
        profile=profile,
        progress=lambda _done: None,
    )
    assert captured.rule.tolist() == [0.5, 0.0]  # in the order of their keys: far, near


# --- kept


def test_a_rule_is_stored_over_the_one_of_its_name(shop: Shop) -> None:
    shop.put(NEAR)
    other = replace(EVERY, name="other")

    def counts(*rules: Rule) -> tuple[int, int, int]:
        report = shop.rules().upsert(rules)
        return report.rules.added, report.rules.changed, report.rules.unchanged

    assert counts(EVERY, WEDDING_FIRST) == (2, 0, 0)
    assert counts(WEDDING_FIRST, replace(EVERY, weight=0.5), other) == (1, 1, 1)
    assert counts() == (0, 0, 0)
    assert shop.rules().list() == [
        replace(EVERY, weight=0.5),
        other,
        WEDDING_FIRST,
    ]


def test_a_search_follows_a_rule_as_it_is_stored_now(shop: Shop) -> None:
    shop.put(NEAR)
    for weight in (0.25, 0.5):
        shop.rule(replace(EVERY, weight=weight))
        assert rules_of(shop.hits()["near"])["sum"] == weight
    assert shop.rules().remove(["every", "none"]) == ["every"]
    assert matched(shop.hits()["near"]) == []
    with pytest.raises(NotFound, match="has no rule 'every'"):
        shop.rules().remove(["every"])


def test_a_name_that_comes_twice_is_refused(shop: Shop) -> None:
    shop.put(NEAR)
    with pytest.raises(InvalidInput, match="comes twice"):
        shop.rule(EVERY, replace(EVERY, weight=0))
    assert shop.rules().list() == []


def test_more_rules_than_a_project_keeps_are_refused_all_together(shop: Shop) -> None:
    shop.put(NEAR)
    shop.rule(*(replace(EVERY, name=str(number)) for number in range(MAX_RULES)))
    with pytest.raises(InvalidInput, match="at most 200 rules"):
        shop.rule(EVERY)
    assert len(shop.rules().list()) == MAX_RULES


def test_two_imports_at_once_keep_no_more_rules_than_a_project_may_have(shop: Shop) -> None:
    # 150 and 100 of at most 200; the second import begins before the first one ends
    shop.put(NEAR)
    ours = [replace(EVERY, name=f"ours {number}") for number in range(150)]
    theirs = [replace(EVERY, name=f"theirs {number}") for number in range(100)]
    project_id = project_id_of(shop.database, "shop")
    with ThreadPoolExecutor(1) as pool:
        with shop.database.transaction(projects=[project_id]) as connection:
            store.wait_to_number(connection, project_id)
            store.save_rules(connection, ours, project_id=project_id)
            other = pool.submit(shop.rule, *theirs)
            wait([other], timeout=0.3)
        with pytest.raises(InvalidInput, match="at most 200 rules"):
            other.result()


def test_rules_belong_to_a_project_that_is_there(shop: Shop) -> None:
    with pytest.raises(NotFound):
        shop.rule(EVERY)
    shop.put(NEAR)
    shop.put(NEAR, project="another shop")
    shop.rule(EVERY, project="another shop")
    assert shop.rules().list() == []
    with pytest.raises(NotFound):
        shop.rules().remove(["every"])
