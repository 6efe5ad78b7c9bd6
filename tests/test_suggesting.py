"""Drafts of questions: what is asked of a heading, a link and a record, and where they point."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.golden import Answer, GoldenQuestion
from lastro.places import FilePlace, Passage
from lastro.suggesting import suggest_questions


def passage(*headings: str, **columns: Any) -> Passage:
    """A chunk of docs/sea.md, called as its first heading."""
    values: dict[str, Any] = {
        "path": "docs/sea.md",
        "is_adr": False,
        "title": headings[0] if headings else "sea",
        "language": "en",
        "heading_path": headings,
        "anchor": headings[-1].lower().replace(" ", "-") if headings else None,
        "content": None,
        **columns,
    }
    return Passage(**values)


def record(title: str, **columns: Any) -> Passage:
    return passage(title, path="docs/adr/0007-sails.md", is_adr=True, **columns)


def suggest(*passages: Passage, limit: int = 100, seed: int = 0) -> tuple[GoldenQuestion, ...]:
    return suggest_questions(passages, limit=limit, seed=seed)


def asked(*passages: Passage) -> set[str]:
    return {draft.question for draft in suggest(*passages)}


# --- headings


@pytest.mark.parametrize(
    ("language", "headings", "question"),
    [
        ("en", ("Tide tables",), "What should I know about “Tide tables”?"),
        ("en", ("Sea", "Tide tables"), "What does “Sea” say about “Tide tables”?"),
        ("en", ("Sea", "Read the tide tables"), "How do I read the tide tables?"),
        ("en", ("Sea", "Check it"), "Sea: how do I check it?"),
        ("en", ("Sea", "Why is it salty?"), "Why is it salty?"),
        ("en", ("Sea", "3.1. Read the tide tables"), "How do I read the tide tables?"),
        ("en", ("Sea", "HTTP moorings"), "What does “Sea” say about “HTTP moorings”?"),
        ("en", ("Sea { #sea }", "Springs { #springs }"), "What does “Sea” say about “Springs”?"),
        ("pt", ("Mar", "Ler a tábua de marés"), "Como faço para ler a tábua de marés?"),
        ("pt", ("Mar", "Tábua de marés"), "O que “Mar” diz sobre “Tábua de marés”?"),
        ("zh", ("海洋", "查看潮汐表的数据与说明"), "海洋：如何查看潮汐表的数据与说明？"),
        ("zh", ("海洋", "潮汐表"), "“海洋”中关于“潮汐表”是怎么说的？"),
        ("zh", ("海洋", "启动前的检查"), "“海洋”中关于“启动前的检查”是怎么说的？"),
        ("de", ("Meer", "Gezeiten"), "Meer: Gezeiten?"),
    ],
)
def test_a_heading_is_asked_as_a_question_in_its_language(
    language: str, headings: tuple[str, ...], question: str
):
    (draft,) = suggest(passage(*headings, language=language))
    assert (draft.question, draft.language) == (question, language)
    assert draft.answers == (Answer(place=FilePlace(path="docs/sea.md", heading=headings)),)


@pytest.mark.parametrize(
    "headings",
    [
        (),
        ("Sea", "Introduction"),
        ("Sea", "See also"),
        ("Mar", "Introdução"),
        ("海洋", "简介"),
        ("Sea", "1.2.3"),
        ("Sea", "abc"),
        ("Sea", "海"),
        ("Sea", "x" * 101),
        ("Sea", "https://sea.example/tides"),
    ],
)
def test_a_heading_that_says_nothing_alone_is_not_asked(headings: tuple[str, ...]):
    assert suggest(passage(*headings)) == ()


def test_a_wording_that_two_pages_share_has_both_as_answers():
    (draft,) = suggest(
        passage("Sea", "Tide tables"), passage("Sea", "Tide tables", path="docs/old/sea.md")
    )
    assert [answer.place.path for answer in draft.answers] == ["docs/old/sea.md", "docs/sea.md"]


def test_chunks_of_one_section_are_asked_once():
    assert len(suggest(passage("Sea", "Tides"), passage("Sea", "Tides"))) == 1


# --- records


@pytest.mark.parametrize(
    "title",
    ["7. Sails are of canvas", "ADR-0007: Sails are of canvas", "ADR 7 Sails are of canvas"],
)
def test_a_record_is_asked_by_its_title_without_its_number(title: str):
    (draft,) = suggest(record(title), passage(title, "Decision", **of_record(title)))
    assert draft.question == "What was decided about “Sails are of canvas”, and why?"
    assert draft.answers == (Answer(place=FilePlace(path="docs/adr/0007-sails.md")),)


def of_record(title: str) -> dict[str, Any]:
    return {"path": "docs/adr/0007-sails.md", "is_adr": True, "title": title}


def test_a_record_whose_title_is_a_question_is_asked_so():
    assert asked(record("7. Which cloth for sails?")) == {"Which cloth for sails?"}


# --- links


def linked(content: str, **columns: Any) -> Passage:
    """A page whose heading is not asked, with links in its text."""
    return passage("Overview", path="docs/guide/index.md", content=content, **columns)


PILOTS = passage("Pilots", "Boarding", path="docs/guide/pilots.md")


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("pilots.md", FilePlace(path="docs/guide/pilots.md")),
        ("./pilots.md", FilePlace(path="docs/guide/pilots.md")),
        ("../guide/pilots.md", FilePlace(path="docs/guide/pilots.md")),
        ("pilots.md#boarding", FilePlace(path="docs/guide/pilots.md", heading=("boarding",))),
        ("%70ilots.md", FilePlace(path="docs/guide/pilots.md")),
    ],
)
def test_a_link_is_asked_by_its_text_and_points_to_its_target(target: str, place: FilePlace):
    drafts = suggest(linked(f"See [how the bar is crossed]({target})."), PILOTS)
    asked_by_link = [draft for draft in drafts if "bar" in draft.question]
    assert [draft.question for draft in asked_by_link] == [
        "Where can I read about how the bar is crossed?"
    ]
    assert asked_by_link[0].answers == (Answer(place=place),)


@pytest.mark.parametrize(
    "content",
    [
        "[how the bar is crossed](https://pilots.example/bar)",
        "[how the bar is crossed](/pilots.md)",
        "[how the bar is crossed](../../../pilots.md)",
        "[how the bar is crossed](gone.md)",
        "[how the bar is crossed](pilots.md#landing)",
        "[how the bar is crossed](#boarding)",
        "![how the bar is crossed](pilots.md)",
        "`[how the bar is crossed](pilots.md)`",
        "```\n[how the bar is crossed](pilots.md)\n```",
        "[here](pilots.md)",
        "[this page](pilots.md)",
        "[their work on the bar](pilots.md)",
        "[record 7](pilots.md)",
        "[guide](pilots.md)",
        "[guide/pilots.md](pilots.md)",
        "[Boarding](pilots.md#boarding)",
        "[pilots](pilots.md)",
    ],
)
def test_a_link_that_leads_elsewhere_or_says_nothing_new_is_not_asked(content: str):
    assert asked(linked(content), PILOTS) == asked(PILOTS)


def test_a_link_is_asked_in_the_language_of_the_page_that_holds_it():
    drafts = suggest(linked("[como se passa a barra](pilots.md)", language="pt"), PILOTS)
    (draft,) = (draft for draft in drafts if draft.language == "pt")
    assert draft.question == "Onde posso ler sobre como se passa a barra?"


# --- the choice

PAGES = [
    *(passage("Sea", f"Part {letter}") for letter in "ABCDEFG"),
    record("7. Sails are of canvas"),
    linked("[how the bar is crossed](pilots.md)"),
    PILOTS,
]


def test_every_draft_is_marked_as_derived():
    assert {draft.derived for draft in suggest(*PAGES)} == {True}


@given(st.randoms(use_true_random=False), st.integers(1, 12), st.integers(0, 9))
def test_the_same_seed_gives_the_same_drafts_whatever_the_order(
    dice: random.Random, limit: int, seed: int
):
    shuffled = dice.sample(PAGES, len(PAGES))
    assert suggest(*shuffled, limit=limit, seed=seed) == suggest(*PAGES, limit=limit, seed=seed)


def test_another_seed_draws_other_drafts():
    assert len({suggest(*PAGES, limit=4, seed=seed) for seed in range(5)}) > 1


def test_the_kinds_take_turns_so_that_few_drafts_hold_each():
    three = {draft.question for draft in suggest(*PAGES, limit=3)}
    assert "Where can I read about how the bar is crossed?" in three
    assert "What was decided about “Sails are of canvas”, and why?" in three


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (4, 4), (100, 10)])
def test_there_are_as_many_drafts_as_asked_for_or_as_there_are(limit: int, count: int):
    assert len(suggest(*PAGES, limit=limit)) == count
