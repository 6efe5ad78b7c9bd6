"""Which questions are one gap, and what people write of gaps."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.entry_filter import parse_filter
from lastro.errors import InvalidInput
from lastro.gap import (
    canonical_filter,
    gap_id,
    id_digits,
    is_answered,
    is_gap,
    normalised_query,
    parts_of,
)
from lastro.types import (
    Degraded,
    DegradedReason,
    EntityOrigin,
    Hit,
    Outcome,
    ProfileRef,
)

# --- the question


@pytest.mark.parametrize(
    ("asked", "normalised"),
    [
        ("Why HNSW?", "why hnsw"),
        ("  why \t HNSW\n", "why hnsw"),
        ("WHY HNSW ?!…", "why hnsw"),
        ("why hnsw ( ? )", "why hnsw"),
        ("¿Por qué HNSW?", "¿por qué hnsw"),
        ("cafe\u0301", "café"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("为什么用 HNSW？", "为什么用 hnsw"),
        ("备份保留多久？！", "备份保留多久"),
        ("कैसे।", "कैसे"),
        ("لماذا؟", "لماذا"),
        ("ինչու՞", "ինչու"),
        ("what is C#?", "what is c#"),
        ("what is C?", "what is c"),
        ("where is src/", "where is src/"),
        ("why 50%", "why 50%"),
        ("a\0b", "a b"),
        ("???", "???"),
        ("？！", "？！"),
    ],
)
def test_a_question_is_normalised(asked: str, normalised: str) -> None:
    assert normalised_query(asked) == normalised


# Characters whose folding and composition do not commute, ends and blanks of many scripts.
TEXTS = st.text() | st.text(
    st.sampled_from(
        "aAß ẞİıſΣςϊΐᾳᾼ\u0345\u0301\u0308\u0323ﬀǰ가각?？!。।؟՞…\"'»)]#%/_\u2003\u200b\x1c\0\ud83d"
    )
)


@given(TEXTS)
def test_what_is_normalised_stays_as_it_is(text: str) -> None:
    once = normalised_query(text)
    assert normalised_query(once) == once


@given(TEXTS, st.sampled_from(["?", " ", "？", " !", "。\n", "…", "\t"]))
def test_a_mark_or_blank_at_the_end_makes_no_other_question(text: str, ending: str) -> None:
    plain = normalised_query(text)
    if any(character.isalnum() for character in plain):
        assert normalised_query(text + ending) == plain


def test_a_page_of_marks_is_normalised_at_once() -> None:
    text = "?" * 100_000 + "a"
    assert normalised_query(text) == text


# --- what it is asked in

SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"scopes": ["docs", "adr"]}, {"scopes": ["adr", "docs", "adr"]}),
    ({"scopes": ["docs", "adr", "session", "entity"]}, {}),
    ({"path_prefix": "docs/adr/"}, {"path_prefix": "./docs/adr/"}),
    ({"entries": {}}, {"entries": {"status": "published"}}),
    ({"entries": {"types": "dress"}}, {"entries": {"types": ["dress", "dress"]}}),
    (
        {"entries": {"allow": {"b": [2, "x"], "a": [True]}}},
        {"entries": {"allow": {"a": True, "b": ["x", 2.0]}}},
    ),
    ({"entries": {"equals": {"a": 1e23}}}, {"entries": {"equals": {"a": 10**23}}}),
    (
        {"entries": {"range": {"d": {"lt": "2026-02-01", "gte": "2026-01-01"}}}},
        {"entries": {"range": {"d": {"gte": "2026-01-01T02:00+02:00", "lt": "2026-02-01T00:00Z"}}}},
    ),
]  # fmt: skip
OTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"scopes": ["adr"]}, {}),
    ({"path_prefix": "docs/"}, {"path_prefix": "docs"}),
    ({"entries": {"allow": {"a": 1}}}, {"entries": {"allow": {"a": True}}}),
    ({"entries": {"allow": {"a": 1}}}, {"entries": {"allow": {"a": "1"}}}),
    ({"entries": {"allow": {"a": 1}}}, {"entries": {"forbid": {"a": 1}}}),
    ({"entries": {"range": {"a": {"lt": 1}}}}, {"entries": {"range": {"a": {"lte": 1}}}}),
]


def asked_in(
    *,
    scopes: list[str] | None = None,
    path_prefix: str | None = None,
    entries: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return canonical_filter(scopes, path_prefix=path_prefix, entries=entries)


@pytest.mark.parametrize(("one", "another"), SAME)
def test_the_same_restriction_is_the_same_however_it_is_written(
    one: dict[str, Any], another: dict[str, Any]
) -> None:
    assert json.dumps(asked_in(**one)) == json.dumps(asked_in(**another))


@pytest.mark.parametrize(("one", "another"), OTHER)
def test_another_restriction_is_another_gap(one: dict[str, Any], another: dict[str, Any]) -> None:
    assert gap_id("why", asked_in(**one)) != gap_id("why", asked_in(**another))


VALUES = st.integers(-3, 3) | st.floats(-3, 3) | st.booleans() | st.text(max_size=2)
STORABLE = VALUES.filter(lambda v: not isinstance(v, str) or json.dumps(v).isascii())
KEYS = st.sampled_from(["size", "tone", "größe"])
LISTS = st.sampled_from(["a", 1, 2.0, True]) | st.lists(
    st.integers(-3, 3) | st.floats(-3, 3) | st.booleans() | st.sampled_from(["x", "é", "红"]),
    min_size=1,
    max_size=4,
)
CLAUSES = st.dictionaries(KEYS, LISTS, min_size=1)
NUMBERS = st.dictionaries(
    st.sampled_from(["gte", "gt", "lte", "lt"]), st.integers(-9, 9) | st.floats(-9, 9), min_size=1
)
MOMENTS = st.dictionaries(
    st.sampled_from(["gte", "lt"]),
    st.sampled_from(["0001-01-01T00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-03",
                     "2026-02-03T04:05:06.7Z", "2026-02-03 04:05-03:00"]),
    min_size=1,
)  # fmt: skip
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "status": st.just("published"),
        "types": st.lists(st.sampled_from(["dress", "care"]), min_size=1),
        "require": CLAUSES,
        "allow": CLAUSES,
        "forbid": CLAUSES,
        "equals": CLAUSES,
        "range": st.dictionaries(KEYS, NUMBERS | MOMENTS, min_size=1),
    },
)
SCOPE_LISTS = st.none() | st.lists(
    st.sampled_from(["docs", "adr", "session", "entity"]), min_size=1
)


@given(SCOPE_LISTS, st.none() | st.just("docs/"), st.none() | FILTERS)
def test_a_canonical_filter_stays_as_it_is_and_asks_the_same(
    scopes: list[str] | None, prefix: str | None, entries: dict[str, Any] | None
) -> None:
    once = canonical_filter(scopes, path_prefix=prefix, entries=entries)
    again_scopes, again_prefix, again_entries = parts_of(json.loads(json.dumps(once)))
    assert json.dumps(
        canonical_filter(again_scopes, path_prefix=again_prefix, entries=again_entries)
    ) == json.dumps(once)
    assert as_sets(parse_filter(again_entries)) == as_sets(parse_filter(entries))


def as_sets(parsed: Any) -> Any:
    """A filter without what the order and the repetition of its lists say: nothing."""
    if parsed is None:
        return None
    return (
        None if parsed.types is None else frozenset(parsed.types),
        {(c.kind, c.key, frozenset((type(v) is bool, v) for v in c.values))
         for c in parsed.contains},
        {(r.key, frozenset(r.bounds)) for r in parsed.ranges},
    )  # fmt: skip


# --- when


def outcome(*reasons: DegradedReason, hits: int = 0, abstained: bool = False) -> Outcome:
    hit = Hit(
        chunk_id="c", content="text", score=1.0, vector_score=None, lexical_score=None,
        scope="entity", origin=EntityOrigin(entity_key="k", entity_type="t"),
    )  # fmt: skip
    return Outcome(
        hits=(hit,) * hits,
        vector_available=True,
        degraded=tuple(Degraded(part="p", reason=reason, detail="") for reason in reasons),
        profile=ProfileRef(name="default", version=1, calibrated=False),
        abstained=abstained,
        took_ms=1.0,
    )


@pytest.mark.parametrize("abstained", [False, True])
def test_a_whole_search_without_a_hit_is_a_gap(abstained: bool) -> None:
    assert is_gap(outcome(abstained=abstained))
    assert is_gap(outcome("lexical_no_terms", abstained=abstained))
    assert not is_gap(outcome(hits=1))


@pytest.mark.parametrize(
    "reason", ["embedder_unreachable", "vectors_missing", "index_incomplete", "lexical_sampled",
               "statement_timeout"],
)  # fmt: skip
def test_a_search_that_lacked_a_part_is_none(reason: DegradedReason) -> None:
    assert not is_gap(outcome(reason))
    assert not is_gap(outcome("lexical_no_terms", reason))


def test_a_hit_of_a_sample_is_an_answer_and_one_without_the_embedder_is_not() -> None:
    assert is_answered(outcome(hits=1))
    assert is_answered(outcome("lexical_sampled", hits=1))
    assert not is_answered(outcome("embedder_timeout", hits=1))
    assert not is_answered(outcome())


# --- what people write

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


def test_the_digits_of_an_id_are_written_with_or_without_dashes() -> None:
    assert id_digits("1C2F0D4E-77") == id_digits("1c2f0d4e77") == "1c2f0d4e77"
    for written in ("1c2", "", "what", "1c2f%", "0" * 33):
        with pytest.raises(InvalidInput, match="no gap's id"):
            id_digits(written)
