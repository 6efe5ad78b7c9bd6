"""Rules: what they mean, what they refuse, and that they agree with the filters of a search."""

import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import psycopg
import pytest
from databases import address, scratch_database
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.sql import SQL
from psycopg.types.json import Jsonb
from rows import add_chunk, add_project

from lastro.entry_filter import parse_filter
from lastro.entry_matching import Held, matcher_of
from lastro.errors import InvalidFilter, InvalidInput
from lastro.filters import HardFilter, compile_filter
from lastro.profiles import KB_RRF
from lastro.ranking import Candidate, fuse, rule_part
from lastro.rules import (
    MAX_NAME_CHARS,
    MAX_REASON_CHARS,
    SHOWN_ERROR_CHARS,
    Matched,
    Rule,
    RuleContext,
    RuleEntry,
    RuleMatch,
    Ruling,
    applies,
    compile_rule,
    parse_rule,
    read_rules,
    rule_json,
    rule_on,
    ruling_json,
)

PAGES = Path(__file__).parent.parent / "docs" / "reference"
WEDDING = {"require": {"occasion": ["wedding"]}}


def a_rule(**fields: Any) -> Rule:
    return Rule(**{"name": "r", "weight": 0.5, "reason": "it suits", **fields})


def an_entry(type_: str = "dress", *, own: float = 0.0, **attributes: Any) -> RuleEntry:
    return RuleEntry(key="k", type=type_, attributes=attributes, rule_weight=own, effective_at=None)


def asked(query: str = "a dress", **said: Any) -> RuleContext:
    return RuleContext(query=query, filter=said)


def tables(page: str, *, after: str) -> Iterator[list[list[str]]]:
    """The tables of a page behind a heading, a list of cells for each line, the header first."""
    text = (PAGES / page).read_text(encoding="utf-8").partition(after)[2]
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        rows = [row.strip("|").split(" | ") for row in table.splitlines()]
        yield [[cell.strip().strip("`") for cell in row] for row in rows if "---" not in row[0]]


# --- the page


def when_cells() -> Iterator[tuple[Any, dict[str, Any], str]]:
    for header, *rows in tables("rules.md", after="## What `when` says"):
        if header[0] == "filter":
            for said, *answers in rows:
                known = None if said == "none" else json.loads(said)
                for when, answer in zip(header[1:], answers, strict=True):
                    yield known, json.loads(when), answer


def test_the_tables_of_the_page_are_read_whole() -> None:
    assert len(list(when_cells())) == 12 * 4 + 8 * 3


@pytest.mark.parametrize(("said", "when", "answer"), list(when_cells()))
def test_the_page_says_which_searches_a_rule_is_for(
    said: Any, when: dict[str, Any], answer: str
) -> None:
    assert answer in {"yes", "no"}
    assert applies(compile_rule(a_rule(when=when)), parse_filter(said)) == (answer == "yes")


@pytest.mark.parametrize("said", [None, {"allow": {"occasion": "wedding"}}])
def test_a_rule_that_asks_for_nothing_is_for_every_search(said: Any) -> None:
    for when in (None, {}):
        assert applies(compile_rule(a_rule(when=when)), parse_filter(said))


def test_the_page_says_how_weights_add_up() -> None:
    header, *rows = next(tables("rules.md", after="## How weights add up"))
    assert (header[0], len(rows)) == ("weights that match", 7)
    for weights, own, total, part in rows:
        numbers = [] if weights == "none" else [float(one) for one in weights.split(",")]
        rules = [compile_rule(a_rule(weight=one)) for one in numbers]
        said = ruling_json(rule_on(an_entry(own=float(own)), rules, context=asked()))
        assert (said["sum"], said["part"]) == (
            pytest.approx(float(total)),
            pytest.approx(float(part)),
        )


def test_the_example_of_kb_rrf_can_be_followed_by_hand() -> None:
    text = (PAGES / "profiles-and-scores.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^    (first|second) +=.* = (0\.\d{4})$", text, re.M))
    first = a_candidate(1, vector_rank=1, lexical_rank=2)
    second = a_candidate(2, vector_rank=2, rule=0.6 + 0.2, age_days=360.0)
    scores = [one.score for one in fuse([first, second], KB_RRF, legs=("vector", "lexical"))]
    assert [f"{score:.4f}" for score in scores] == [told["first"], told["second"]]


def a_candidate(number: int, **fields: Any) -> Candidate:
    plain = {"place": "k", "ordinal": 0, "char_start": 0, "char_end": 1}
    scores = {"vector_score": None, "lexical_score": None}
    id_ = UUID(int=number)
    return Candidate(**{"id": id_, "document_id": id_, **plain, **scores, **fields})


def test_the_example_lines_of_the_page_are_rules() -> None:
    text = (PAGES / "rules.md").read_text(encoding="utf-8")
    read = read_rules(line.encode() for line in re.findall(r"^    (\{.*\})$", text, re.M))
    assert read.refused == ()
    assert [rule.name for rule in read.items] == [
        "wedding-first",
        "clearance",
        "no-velvet-in-summer",
    ]


def test_the_function_of_the_page_is_a_rule() -> None:
    text = (PAGES / "rules.md").read_text(encoding="utf-8")
    (example_,) = re.findall(r"^    from lastro import.*?(?=^\S)", text, re.M | re.S)
    scope: dict[str, Any] = {}
    exec(re.sub(r"^    ", "", example_, flags=re.M), scope)
    (function,) = scope["request"].rules
    said = rule_on(an_entry(in_stock=True), [], [function], context=asked("for tomorrow"))
    assert said.matched == [Matched(name="short_notice", weight=0.3, reason="in stock")]
    assert rule_on(an_entry(), [], [function], context=asked("for tomorrow")).matched == []


# --- what an entry must be: the same in Python as in SQL


def filter_cells() -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    for header, *rows in tables("filters.md", after="## Truth tables"):
        for value, *answers in rows:
            attributes = {} if value == "missing" else {header[0]: json.loads(value)}
            for said, answer in zip(header[1:], answers, strict=True):
                yield attributes, json.loads(said), answer


@pytest.mark.parametrize(("attributes", "said", "answer"), list(filter_cells()))
def test_an_entry_is_let_through_as_the_page_of_filters_says(
    attributes: dict[str, Any], said: dict[str, Any], answer: str
) -> None:
    entries = parse_filter(said)
    assert entries is not None
    assert matcher_of(entries)(Held("dress", attributes)) == (answer == "yes")


NUMBERS = (0, -0.0, 1, 1.0, 2.5, -3, 0.1, 10**18, 1e18, 10**23, 1e23, 2**53, 2**53 + 1, 1e300)
TEXTS = ("red", "blue", "Red", "", "1", "true", "é", "e\u0301", "红")
MOMENTS = (
    "2026-03-01", "2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00Z", "2026-02-30", "0001-01-01",
    "9999-12-31T23:59:59.999999-14:00", "2026-03-01 10:00",
)  # fmt: skip
KEYS = ("colour", "size", "due")
VALUES = (*TEXTS, *NUMBERS, True, False, *MOMENTS)


def drawn_attributes(dice: random.Random) -> dict[str, Any]:
    def value() -> Any:
        kind = dice.random()
        if kind < 0.1:
            return None
        return dice.choice(VALUES) if kind < 0.6 else dice.choices(VALUES, k=dice.randint(0, 3))

    return {key: value() for key in dice.sample(KEYS, k=dice.randint(0, 3))}


def drawn_filter(dice: random.Random) -> dict[str, Any]:
    def bounds() -> dict[str, Any]:
        ends = NUMBERS if dice.random() < 0.5 else [m for m in MOMENTS if m != "2026-02-30"]
        return {
            operator: dice.choice(ends)
            for operator in dice.sample(["gte", "gt", "lte", "lt"], k=dice.choice([1, 1, 2]))
        }

    said: dict[str, Any] = {}
    for part in dice.sample(["types", "require", "allow", "forbid", "equals", "range"], k=2):
        if part == "types":
            said[part] = dice.sample(["dress", "shoe", "hat"], k=dice.choice([1, 2]))
        elif part == "range":
            said[part] = {dice.choice(KEYS): bounds()}
        else:
            said[part] = {dice.choice(KEYS): dice.choices(VALUES, k=dice.choice([1, 1, 2]))}
    return said


def test_a_filter_keeps_the_same_entries_in_python_as_in_the_database(
    server_url: str, template: str
) -> None:
    dice = random.Random(5)
    with (
        scratch_database(server_url, template=template) as name,
        psycopg.connect(address(server_url, dbname=name)) as owner,
    ):
        project = add_project(owner, "shop")
        owner.execute("SELECT set_config('lastro.projects', %s, true)", [f"{{{project}}}"])
        for _ in range(300):
            add_chunk(
                owner,
                project,
                scope="entity",
                entity_type=dice.choice(["dress", "shoe"]),
                attributes=Jsonb(drawn_attributes(dice)),
            )
        # as a search reads them, not as they were written
        rows = owner.execute("SELECT id, entity_type, attributes FROM lastro.searchable").fetchall()
        kept: list[int] = []
        for _ in range(300):
            said = drawn_filter(dice)
            entries = parse_filter(said)
            assert entries is not None
            predicate = compile_filter(HardFilter(project_id=project, entries=entries))
            is_met_by = matcher_of(entries)
            query = SQL("SELECT id FROM lastro.searchable WHERE {}").format(predicate.condition)
            found = {row[0] for row in owner.execute(query, predicate.parameters)}
            assert found == {
                id_ for id_, type_, attributes in rows if is_met_by(Held(type_, attributes))
            }, said
            kept.append(len(found))
    # neither all nor nothing, most of the time
    assert sum(0 < count < len(rows) for count in kept) > 150


# --- what is refused


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ([], "it is no JSON object"),
        ({"name": "r", "weight": 1}, "there is no reason"),
        ({"name": "r", "reason": "x"}, "there is no weight"),
        ({"weight": 1, "reason": "x"}, "there is no name"),
        ({"name": "r", "weight": 1, "reason": "x", "If": {}}, "unknown field 'If'"),
        ({"name": " ", "weight": 1, "reason": "x"}, "a rule's name is no text, or blank"),
        ({"name": 7, "weight": 1, "reason": "x"}, "a rule's name is no text, or blank"),
        ({"name": "a\0", "weight": 1, "reason": "x"}, "a rule's name has a character"),
        ({"name": "n" * (MAX_NAME_CHARS + 1), "weight": 1, "reason": "x"}, "longer than 200"),
        ({"name": "r", "weight": 1, "reason": ""}, "rule 'r': reason is no text, or blank"),
        (
            {"name": "r", "weight": 1, "reason": "x" * (MAX_REASON_CHARS + 1)},
            "rule 'r': reason is longer than 1,000 characters",
        ),
        ({"name": "r", "weight": "1", "reason": "x"}, "rule 'r': weight is no number"),
        ({"name": "r", "weight": True, "reason": "x"}, "rule 'r': weight is no number"),
        ({"name": "r", "weight": 1e7, "reason": "x"}, "no number from -1,000,000 to 1,000,000"),
        ({"name": "r", "weight": float("nan"), "reason": "x"}, "rule 'r': weight is no number"),
        (
            {"name": "r", "weight": 1, "reason": "x", "when": {"allow": {"a": []}}},
            "rule 'r': when: allow.a: an empty list matches nothing",
        ),
        (
            {"name": "r", "weight": 1, "reason": "x", "entry": {"types": ["t" * 20_000]}},
            "rule 'r': entry is longer than 20,000 characters of JSON",
        ),
        (
            {"name": "r", "weight": 1, "reason": "x", "entry": ["dress"]},
            "rule 'r': entry: the filter is no JSON object",
        ),
        (
            {"name": "r", "weight": 1, "reason": "x", "entry": {"status": "draft"}},
            "rule 'r': entry: status: a search finds published entries only",
        ),
    ],
)
def test_what_is_no_rule_is_refused(said: Any, fault: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_rule(said)
    assert fault in caught.value.message


def test_a_condition_that_is_no_filter_is_an_invalid_filter() -> None:
    with pytest.raises(InvalidFilter):
        a_rule(when={"allow": {}})


def test_bad_lines_are_told_by_number_and_reason_and_the_others_are_read() -> None:
    good = json.dumps(rule_json(a_rule()))
    read = read_rules(line.encode() for line in ["", good, "{", good, '{"name": "x"}'])
    assert [rule.name for rule in read.items] == ["r"]
    assert [(line.line, line.key, line.reason) for line in read.refused] == [
        (
            3,
            None,
            "it is not JSON: Expecting property name enclosed in double quotes, at character 2",
        ),
        (4, "r", "the name 'r' came before, in line 2"),
        (5, "x", "there is no weight"),
    ]


conditions = st.none() | st.fixed_dictionaries(
    {}, optional={"types": st.just(["dress"]), "allow": st.just({"occasion": ["wedding", 1]})}
)


@given(
    name=st.text(min_size=1, max_size=20).filter(str.strip),
    weight=st.floats(-1e6, 1e6) | st.integers(-10, 10),
    when=conditions,
    entry=conditions,
)
@example(name="规则", weight=-0.0, when={}, entry=None)
def test_a_rule_is_the_same_after_its_line(name: str, weight: float, when: Any, entry: Any) -> None:
    if "\0" in name:
        return
    rule = a_rule(name=name, weight=weight, when=when, entry=entry)
    assert parse_rule(json.loads(json.dumps(rule_json(rule)))) == rule


def test_a_rule_may_be_made_of_any_mapping_and_sequence() -> None:
    when = MappingProxyType({"allow": MappingProxyType({"occasion": ("wedding",)})})
    assert rule_json(a_rule(when=when))["when"] == {"allow": {"occasion": ["wedding"]}}


# --- what rules say of an entry


def test_a_rule_matches_the_entries_that_it_names() -> None:
    rules = [compile_rule(a_rule(entry=WEDDING)), compile_rule(a_rule(name="all"))]
    said = rule_on(an_entry(occasion=["wedding", "beach"]), rules, context=asked())
    assert [one.name for one in said.matched] == ["r", "all"]
    said = rule_on(an_entry(occasion=["beach"]), rules, context=asked())
    assert [one.name for one in said.matched] == ["all"]


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, -0.1, 1e6, -1e6, 1e-9]), max_size=8))
def test_the_sum_does_not_depend_on_the_order_of_rules(weights: list[float]) -> None:
    def total(numbers: list[float]) -> float:
        matched = [Matched(name="r", weight=one, reason="x") for one in numbers]
        return Ruling(matched=matched, own=0.1).total

    assert total(weights) == total(weights[::-1]) == total(sorted(weights))


@given(st.floats(-1e7, 1e7))
def test_the_part_lies_between_nothing_and_all(total: float) -> None:
    assert rule_part(total) == (total if 0 <= total <= 1 else 0.0 if total < 0 else 1.0)


# --- functions


def heavy(_context: RuleContext, entry: RuleEntry) -> RuleMatch | None:
    return RuleMatch(weight=0.2, reason="heavy") if entry.attributes.get("grams", 0) > 500 else None


def broken(_context: RuleContext, _entry: RuleEntry) -> RuleMatch | None:
    raise ZeroDivisionError("by nought")


def absent_minded(_context: RuleContext, _entry: RuleEntry) -> Any:
    return 0.5


def immoderate(_context: RuleContext, _entry: RuleEntry) -> RuleMatch:
    return RuleMatch(weight=float("inf"), reason="so much")


def test_functions_are_asked_after_the_rules_that_are_kept() -> None:
    said = rule_on(an_entry(grams=900), [compile_rule(a_rule())], [heavy], context=asked())
    assert [one.name for one in said.matched] == ["r", "heavy"]
    assert said.total == pytest.approx(0.5 + 0.2)
    assert rule_on(an_entry(grams=100), [], [heavy], context=asked()) == Ruling(matched=[])


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (broken, "rule 'broken' failed on the entry 'k': ZeroDivisionError: by nought"),
        (absent_minded, "rule 'absent_minded' returned float for the entry 'k'"),
        (immoderate, "rule 'immoderate' failed on the entry 'k': InvalidInput: a rule's weight"),
    ],
)
def test_a_function_that_fails_is_named(function: Any, fault: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        rule_on(an_entry(), [], [function], context=asked())
    assert fault in caught.value.message
    assert caught.value.remedy


def test_a_function_whose_error_is_a_page_is_told_in_a_line() -> None:
    def wordy(_context: RuleContext, _entry: RuleEntry) -> None:
        raise ValueError("no such season\n" * 1_000)

    with pytest.raises(InvalidInput) as caught:
        rule_on(an_entry(), [], [wordy], context=asked())
    assert len(caught.value.message) < 2 * SHOWN_ERROR_CHARS
    assert "\n" not in caught.value.message


class Seasonal:
    """A rule that remembers something."""

    def __init__(self, season: str) -> None:
        self.season = season

    def __call__(self, context: RuleContext, _entry: RuleEntry) -> RuleMatch | None:
        is_asked: Mapping[str, Any] = context.filter.get("equals", {})
        found = is_asked.get("season") == self.season
        return RuleMatch(weight=1, reason=f"for {self.season}") if found else None


def test_an_object_that_can_be_called_is_named_by_its_class() -> None:
    said = rule_on(an_entry(), [], [Seasonal("winter")], context=asked(equals={"season": "winter"}))
    assert said.matched == [Matched(name="Seasonal", weight=1, reason="for winter")]
