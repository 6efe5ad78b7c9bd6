"""Golden sets: what a line says, and what a set is known by."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_golden import line

from lastro.errors import InvalidInput
from lastro.golden import Answer, GoldenQuestion, dump_golden, golden_set
from lastro.golden_lines import InvalidGolden, parse_golden
from lastro.places import EntityPlace, FilePlace, SessionPlace

# --- lines


def faults(*lines: str) -> tuple[str, ...]:
    with pytest.raises(InvalidGolden) as caught:
        parse_golden("\n".join(lines), name="clocks")
    return caught.value.faults


def test_a_line_becomes_a_question():
    written = line(
        id="q7",
        filter={"scopes": ["adr", "docs"], "pathPrefix": "./docs/"},
        answers=[
            {"path": "docs/clock.md", "heading": ["Clock", "Winding"], "lines": [3, 9], "grade": 2},
            {"session": "s-1", "event": "e-2"},
            {"entity": "clock-1"},
        ],
        difficulty="hard",
        derived=True,
    )
    assert parse_golden(written, name="clocks").questions == (
        GoldenQuestion(
            id="q7",
            question="Who winds the clock?",
            language="en",
            answers=(
                Answer(
                    place=FilePlace(
                        path="docs/clock.md", heading=("Clock", "Winding"), lines=(3, 9)
                    ),
                    grade=2,
                ),
                Answer(place=SessionPlace(session="s-1", event="e-2")),
                Answer(place=EntityPlace(entity="clock-1")),
            ),
            scopes=("docs", "adr"),
            path_prefix="docs/",
            difficulty="hard",
            derived=True,
        ),
    )


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"answer": []}, "unknown key 'answer' in the line"),
        ({"filter": {"scope": ["adr"]}}, "unknown key 'scope' in filter"),
        ({"answers": [{"path": "a.md", "line": 3}]}, "unknown key 'line' in answer 1"),
        ({"question": None}, "question is missing"),
        ({"question": "  "}, "question is blank"),
        ({"question": 7}, "question must be a text, not 7"),
        ({"question": "a\0b"}, "question holds a NUL"),
        ({"question": "\ud83d"}, "question holds half a character"),
        ({"language": None}, "language is missing"),
        ({"language": "EN"}, "language 'EN' is no ISO 639-1 code"),
        ({"language": "english"}, "language 'english' is no ISO 639-1 code"),
        ({"language": "xx"}, "language 'xx' is no ISO 639-1 code"),
        ({"answers": None}, "neither answers nor unanswerable"),
        ({"answers": None, "unanswerable": False}, "neither answers nor unanswerable"),
        ({"answers": []}, "answers must be a list with at least one place"),
        ({"answers": {"path": "a.md"}}, "answers must be a list with at least one place"),
        ({"unanswerable": True}, "both answers and unanswerable"),
        ({"unanswerable": 1}, "unanswerable must be true or false, not 1"),
        ({"answers": ["docs/a.md"]}, "answer 1 must be an object"),
        ({"answers": [{"grade": 2}]}, "answer 1 must have exactly one of path, session and entity"),
        (
            {"answers": [{"path": "a.md", "entity": "k"}]},
            "answer 1 must have exactly one of path, session and entity",
        ),
        ({"answers": [{"path": ""}]}, "path is blank"),
        ({"answers": [{"path": "/etc/a.md"}]}, "the path '/etc/a.md' is absolute"),
        ({"answers": [{"path": "docs/../../a.md"}]}, "leads out with .."),
        ({"answers": [{"path": "docs/"}]}, "the path 'docs/' names no file"),
        ({"answers": [{"path": "docs//a.md"}]}, "the path 'docs//a.md' names no file"),
        ({"answers": [{"path": "a.md", "lines": [9, 3]}]}, "lines 9 to 3 are reversed"),
        ({"answers": [{"path": "a.md", "lines": [0, 3]}]}, "lines count from 1"),
        ({"answers": [{"path": "a.md", "lines": [3]}]}, "lines must be two whole numbers"),
        ({"answers": [{"path": "a.md", "lines": [1, True]}]}, "lines must be two whole numbers"),
        ({"answers": [{"path": "a.md", "lines": "3-9"}]}, "lines must be two whole numbers"),
        ({"answers": [{"path": "a.md", "heading": []}]}, "heading must be a text or a list"),
        ({"answers": [{"path": "a.md", "heading": ["A", " "]}]}, "heading must be a text or"),
        ({"answers": [{"path": "a.md", "grade": 0}]}, "grade must be a whole number from 1"),
        ({"answers": [{"path": "a.md", "grade": 1.5}]}, "grade must be a whole number from 1"),
        ({"answers": [{"path": "a.md", "grade": True}]}, "grade must be a whole number from 1"),
        ({"answers": [{"session": "s", "heading": "A"}]}, "unknown key 'heading' in answer 1"),
        ({"answers": [{"path": "a.md"}, {"path": "./a.md"}]}, "answer 2 names the same place"),
        ({"filter": {"scopes": ["source"]}}, 'unknown scope "source"'),
        ({"filter": {"scopes": []}}, "filter.scopes must be a list of scopes"),
        ({"filter": ["adr"]}, "filter must be an object"),
        ({"filter": {"types": []}}, "filter: types: an empty list matches nothing"),
        ({"derived": "yes"}, 'derived must be true or false, not "yes"'),
        ({"id": " "}, "id is blank"),
        pytest.param(
            {"question": "how " * 25_001}, "question has more than 100000 characters", id="too long"
        ),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_number(keys: dict[str, Any], reason: str):
    found = faults(line(question="How late is it?"), "", line(**keys))
    assert len(found) == 1
    assert found[0].startswith("line 3: ")
    assert reason in found[0]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("{", "it is not JSON: "),
        ("[]", "a JSON object is wanted"),
        ("null", "a JSON object is wanted"),
        ('{"question": NaN}', "NaN is no JSON"),
        pytest.param("[" * 200_000, "it is not JSON that can be read", id="too deep"),
        (line()[:-1] + ', "language": "pt"}', "the key 'language' stands there twice"),
    ],
)
def test_a_line_that_is_no_json_object_is_said_with_its_number(written: str, reason: str):
    assert reason in faults(line(), written)[0]
    assert faults(line(), written)[0].startswith("line 2: ")


def test_every_fault_of_every_line_is_listed():
    found = faults(
        line(), line(question="", language="e"), line(answers=[{"path": "/a"}, {"grade": 1}])
    )
    assert [fault.partition(":")[0] for fault in found] == ["line 2", "line 2", "line 3", "line 3"]


def test_a_question_is_asked_once_in_a_language_however_it_is_spelt():
    found = faults(line(), line(question=" who  winds the CLOCK? ", id="other"))
    assert found == ("line 2: the question repeats that of line 1",)


def test_the_same_words_may_be_asked_in_another_language_and_with_another_filter():
    lines = [line(), line(language="pt"), line(filter={"scopes": ["adr"]})]
    assert len(parse_golden("\n".join(lines), name="clocks").questions) == 3


def test_an_id_is_given_once():
    found = faults(line(id="a"), line(id="a", question="How late is it?"))
    assert found == ("line 2: the id 'a' is that of line 1",)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_set_without_a_question_is_refused(text: str):
    with pytest.raises(InvalidInput, match="holds no question"):
        parse_golden(text, name="clocks")


@pytest.mark.parametrize("name", ["", " ", "a@b", "a\nb", "x" * 201])
def test_a_name_that_could_not_be_asked_for_is_refused(name: str):
    with pytest.raises(InvalidInput, match="cannot name a golden set"):
        parse_golden(line(), name=name)


def test_windows_line_ends_a_mark_of_encoding_and_a_separator_within_a_text_are_read():
    text = "\ufeff" + line(question="Two\u2028lines?").replace("\\u2028", "\u2028") + "\r\n"
    assert parse_golden(text, name="clocks").questions[0].question == "Two\u2028lines?"


# --- hash and canonical form


def test_the_hash_does_not_depend_on_the_order_of_lines_keys_and_answers():
    first = '{"question": "A?", "language": "en", "answers": [{"path": "a.md"}, {"entity": "k"}]}'
    same = '{"answers": [{"entity": "k"}, {"path": "a.md"}], "language": "en", "question": "A?"}'
    other = '{"question": "B?", "language": "en", "unanswerable": true}'
    one = parse_golden(f"{first}\n{other}", name="one")
    two = parse_golden(f"{other}\n\n{same}", name="two")
    assert one.content_hash == two.content_hash
    assert dump_golden(one) == dump_golden(two)


@pytest.mark.parametrize(
    "change",
    [
        {"question": "Who mends the clock?"},
        {"language": "pt"},
        {"answers": [{"path": "docs/clock.md", "grade": 2}]},
        {"answers": [{"path": "docs/clock.md", "heading": "Winding"}]},
        {"filter": {"scopes": ["docs"]}},
        {"difficulty": "easy"},
        {"derived": True},
        {"id": "mine"},
    ],
)
def test_the_hash_is_another_for_another_content(change: dict[str, Any]):
    before, after = (
        parse_golden(text, name="clocks").content_hash for text in (line(), line(**change))
    )
    assert before != after


def test_what_is_as_by_default_may_be_written_or_left_out():
    spelt = line(unanswerable=False, derived=False, answers=[{"path": "docs/clock.md", "grade": 1}])
    assert parse_golden(spelt, name="a").content_hash == parse_golden(line(), name="b").content_hash


TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12
).filter(lambda text: text.strip() == text != "" and text.split() != [])
PATHS = st.sampled_from(["docs/a.md", "docs/adr/0001-é.md", "文档/甲.md"])
PLACES = st.one_of(
    st.builds(
        FilePlace,
        path=PATHS,
        heading=st.none() | st.tuples(TEXTS) | st.tuples(TEXTS, TEXTS),
        lines=st.none() | st.tuples(st.integers(1, 50), st.integers(50, 99)),
    ),
    st.builds(SessionPlace, session=TEXTS, event=st.none() | TEXTS),
    st.builds(EntityPlace, entity=TEXTS),
)
ANSWERS = st.lists(
    st.builds(Answer, place=PLACES, grade=st.integers(1, 4)),
    min_size=1,
    max_size=3,
    unique_by=lambda answer: answer.place,
).map(tuple)


@st.composite
def questions(draw: Callable[[Any], Any]) -> GoldenQuestion:
    answers = draw(st.just(()) | ANSWERS)
    return GoldenQuestion(
        id=draw(TEXTS),
        question=draw(TEXTS),
        language=draw(st.sampled_from(["en", "pt", "zh"])),
        answers=answers,
        unanswerable=not answers,
        scopes=draw(st.none() | st.just(("docs",)) | st.just(("docs", "adr"))),
        path_prefix=draw(st.none() | st.just("docs/")),
        entry_filter=draw(st.none() | st.just({"types": ["faq"], "forbid": {"tone": ["dry", 1]}})),
        difficulty=draw(st.none() | TEXTS),
        derived=draw(st.booleans()),
    )


@given(st.lists(questions(), min_size=1, max_size=4, unique_by=lambda q: q.id))
def test_a_dumped_set_is_read_back_as_it_was(asked: list[GoldenQuestion]):
    numbered = (replace(q, question=f"{at}. {q.question}") for at, q in enumerate(asked))
    golden = golden_set("set", tuple(numbered))
    read = parse_golden(dump_golden(golden), name="set")
    assert (dump_golden(read), read.content_hash) == (dump_golden(golden), golden.content_hash)
