"""Golden sets: what a line says, which chunks a place covers, and what a project keeps."""

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import add_chunk, add_project

from lastro.db.pool import Database
from lastro.errors import InvalidInput, NotFound
from lastro.golden import (
    Answer,
    ChunkPlace,
    EntityPlace,
    FilePlace,
    GoldenQuestion,
    GoldenSet,
    InvalidGolden,
    SessionPlace,
    covers,
    dump_golden,
    golden_set,
    parse_golden,
    parse_place,
)
from lastro.golden_sets import (
    export_golden,
    import_golden,
    list_golden,
    read_golden,
    remove_golden,
    suggest_golden,
)

# --- lines


def line(**keys: Any) -> str:
    """A right line of a set, but for ``keys``; None leaves one out."""
    said = {
        "question": "Who winds the clock?",
        "language": "en",
        "answers": [{"path": "docs/clock.md"}],
        **keys,
    }
    return json.dumps({key: value for key, value in said.items() if value is not None})


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
        ({"derived": "yes"}, 'derived must be true or false, not "yes"'),
        ({"id": " "}, "id is blank"),
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
        ("{", "no JSON"),
        ("[]", "a JSON object is wanted"),
        ("null", "a JSON object is wanted"),
        ('{"question": NaN}', "NaN is no JSON"),
        pytest.param("[" * 200_000, "no JSON that can be read", id="too deep"),
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
    assert faults(text) == ("it holds no question",)


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
        difficulty=draw(st.none() | TEXTS),
        derived=draw(st.booleans()),
    )


@given(st.lists(questions(), min_size=1, max_size=4, unique_by=lambda q: q.id))
def test_a_dumped_set_is_read_back_as_it_was(asked: list[GoldenQuestion]):
    numbered = (replace(q, question=f"{at}. {q.question}") for at, q in enumerate(asked))
    golden = golden_set("set", tuple(numbered))
    read = parse_golden(dump_golden(golden), name="set")
    assert (dump_golden(read), read.content_hash) == (dump_golden(golden), golden.content_hash)


# --- places


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("docs/a.md", FilePlace(path="docs/a.md")),
        ("./docs/a.md", FilePlace(path="docs/a.md")),
        ("docs/a.md#decision", FilePlace(path="docs/a.md", heading=("decision",))),
        ("docs/a.md#决策", FilePlace(path="docs/a.md", heading=("决策",))),
        ("docs/a.md#%E5%86%B3", FilePlace(path="docs/a.md", heading=("决",))),
        ("docs/a.md:12", FilePlace(path="docs/a.md", lines=(12, 12))),
        ("docs/a.md:10-20", FilePlace(path="docs/a.md", lines=(10, 20))),
        ("docs/a.md#L10-L20", FilePlace(path="docs/a.md", lines=(10, 20))),
        ("docs/a.md#L10", FilePlace(path="docs/a.md", lines=(10, 10))),
        ("docs/a.md#lists", FilePlace(path="docs/a.md", heading=("lists",))),
        ("docs/a.md#b:3", FilePlace(path="docs/a.md", heading=("b",), lines=(3, 3))),
        ("docs/a:b.md", FilePlace(path="docs/a:b.md")),
    ],
)
def test_a_place_is_written_as_in_a_citation(text: str, place: FilePlace):
    assert parse_place(text) == place


@pytest.mark.parametrize("text", ["", "  ", "/a.md", "../a.md", "docs/", "a.md:9-3", "a.md:0"])
def test_what_is_no_place_is_refused(text: str):
    with pytest.raises(InvalidInput):
        parse_place(text)


def chunk(*headings: str, anchor: str | None = None, lines: tuple[int, int] = (1, 9)):
    return ChunkPlace(
        path="docs/a.md",
        heading_path=headings,
        anchor=anchor,
        line_start=lines[0],
        line_end=lines[1],
    )


@pytest.mark.parametrize(
    ("heading", "lies"),
    [
        (("Decision",), True),
        (("DECISION",), True),
        (("  the   clock ",), True),
        (("decision",), True),
        (("the-clock",), True),
        (("#decision",), True),
        (("The clock", "Decision"), True),
        (("decision", "why"), True),
        (("The clock", "Decision", "Why"), True),
        (("The clock", "Why"), False),
        (("Decision", "The clock"), False),
        (("Context",), False),
        (("Deci",), False),
        (("-",), False),
    ],
)
def test_a_section_is_named_by_text_anchor_or_path_and_covers_what_lies_below(
    heading: tuple[str, ...], lies: bool
):
    place = FilePlace(path="docs/a.md", heading=heading)
    assert covers(place, chunk("The clock", "Decision", "Why", anchor="why")) is lies


def test_an_anchor_tells_headings_of_one_text_apart():
    first, second = chunk("A", "Note", anchor="note"), chunk("B", "Note", anchor="note-1")
    named = [FilePlace(path="docs/a.md", heading=(name,)) for name in ("note", "note-1", "Note")]
    assert [covers(place, first) for place in named] == [True, False, True]
    assert [covers(place, second) for place in named] == [False, True, True]


def test_a_heading_that_only_looks_like_an_anchor_of_a_repeated_one_is_read_as_its_text():
    assert covers(
        FilePlace(path="docs/a.md", heading=("note",)), chunk("B", "note", anchor="note-1")
    )


@pytest.mark.parametrize(
    ("lines", "lies"), [((1, 4), False), ((1, 5), True), ((7, 7), True), ((9, 12), True),
                        ((10, 12), False), ((1, 99), True)]
)  # fmt: skip
def test_lines_cover_the_chunks_that_they_overlap(lines: tuple[int, int], lies: bool):
    assert covers(FilePlace(path="docs/a.md", lines=lines), chunk(lines=(5, 9))) is lies


@pytest.mark.parametrize("heading", ["Setting up", "set-up", "setting up", "#set-up"])
def test_attributes_behind_a_heading_are_its_anchor_and_not_its_text(heading: str):
    lies = chunk("Guide { #guide }", "Setting up { #set-up }", anchor="setting-up--set-up-")
    place = FilePlace(path="docs/a.md", heading=(heading,))
    assert covers(place, lies)
    assert covers(replace(place, heading=("guide",)), lies)
    assert covers(replace(place, heading=("Guide", "Setting up")), lies)
    assert not covers(place, chunk("Guide { #guide }", anchor="guide--guide-"))


def test_lines_within_a_section_must_overlap_too():
    place = FilePlace(path="docs/a.md", heading=("A",), lines=(1, 3))
    assert covers(place, chunk("A", lines=(3, 5)))
    assert not covers(place, chunk("A", lines=(4, 5)))
    assert not covers(place, chunk("B", lines=(3, 5)))


def test_a_path_alone_is_any_chunk_of_the_file_and_of_no_other():
    assert covers(FilePlace(path="docs/a.md"), chunk())
    assert not covers(FilePlace(path="docs/b.md"), chunk("A"))
    assert not covers(FilePlace(path="docs/a.md"), ChunkPlace(session="docs/a.md"))


def test_the_text_before_the_first_heading_is_under_none():
    assert not covers(FilePlace(path="docs/a.md", heading=("A",)), chunk())


def test_paths_and_headings_are_compared_composed():
    composed, decomposed = (unicodedata.normalize(form, "decisão") for form in ("NFC", "NFD"))
    lies = ChunkPlace(path=f"docs/{decomposed}.md", heading_path=(decomposed,), anchor=decomposed)
    assert covers(FilePlace(path=f"docs/{composed}.md", heading=(composed,)), lies)


# --- a project's sets


@pytest.fixture
def shelf(owner: psycopg.Connection, app_database: Database) -> Database:
    """A database with the project ``clocks``, which holds one file."""
    add_chunk(
        owner,
        add_project(owner, "clocks"),
        source_path="docs/clock.md",
        heading_path=["Clock"],
    )
    owner.execute("UPDATE lastro.documents SET place = 'docs/clock.md'")
    add_project(owner, "other")
    return app_database


def clocks(*lines: str) -> GoldenSet:
    return parse_golden("\n".join(lines or [line()]), name="g")


def test_a_set_is_exported_as_it_was_imported(shelf: Database):
    golden = clocks(
        line(), line(question="谁给钟上弦？", language="zh", answers=None, unanswerable=True)
    )
    import_golden(shelf, "clocks", golden)
    assert export_golden(shelf, "clocks", "g") == golden


def test_importing_the_same_content_again_is_no_new_version(shelf: Database):
    first = import_golden(shelf, "clocks", clocks(line(), line(language="pt")))
    again = import_golden(shelf, "clocks", clocks(line(language="pt"), line()))
    assert (first.imported, first.version) == (True, 1)
    assert (again.imported, again.version) == (False, 1)
    assert len(list_golden(shelf, "clocks")) == 1


def test_a_changed_content_is_a_new_version_and_the_old_one_stays_by_its_hash(shelf: Database):
    old, new = clocks(line()), clocks(line(difficulty="hard"))
    import_golden(shelf, "clocks", old)
    assert import_golden(shelf, "clocks", new).version == 2
    assert export_golden(shelf, "clocks", "g") == new
    assert export_golden(shelf, "clocks", f"g@{old.content_hash}") == old
    assert export_golden(shelf, "clocks", f"g@{old.content_hash[:8].upper()}") == old


def test_going_back_to_an_old_content_makes_it_the_newest(shelf: Database):
    old, new = clocks(line()), clocks(line(difficulty="hard"))
    for golden in (old, new, old):
        report = import_golden(shelf, "clocks", golden)
    assert (report.imported, report.version) == (True, 3)
    assert export_golden(shelf, "clocks", "g") == old
    assert [summary.current for summary in list_golden(shelf, "clocks")] == [True, False, False]


def test_an_import_says_how_many_questions_are_of_people_and_how_many_derived(shelf: Database):
    report = import_golden(
        shelf,
        "clocks",
        clocks(
            line(),
            line(question="B?", derived=True),
            line(question="C?", derived=True),
            line(question="D?", answers=None, unanswerable=True),
        ),
    )
    counts = report.counts
    assert (counts.questions, counts.human, counts.derived, counts.unanswerable) == (4, 2, 2, 1)
    assert list_golden(shelf, "clocks")[0].counts == counts


def test_an_import_says_which_places_the_index_lacks(shelf: Database):
    answers = [
        {"path": "docs/clock.md"},
        {"path": "docs/clock.md", "heading": "Hands"},
        {"session": "s", "event": "e"},
        {"path": "docs/gone.md", "lines": [1, 2]},
    ]
    report = import_golden(shelf, "clocks", clocks(line(id="q", answers=answers)))
    assert {(missing.id, missing.place) for missing in report.not_indexed} == {
        ("q", "docs/clock.md#Hands"),
        ("q", "session s, event e"),
        ("q", "docs/gone.md:1-2"),
    }


def test_a_set_belongs_to_its_project_alone(shelf: Database):
    import_golden(shelf, "clocks", clocks())
    assert list_golden(shelf, "other") == []
    with pytest.raises(NotFound, match="no golden set 'g'"):
        export_golden(shelf, "other", "g")


def test_a_removed_set_is_gone_with_every_version_and_no_other_is(shelf: Database):
    for golden in (clocks(line()), clocks(line(difficulty="hard")), parse_golden(line(), name="h")):
        import_golden(shelf, "clocks", golden)
    assert remove_golden(shelf, "clocks", "g") == 2
    assert [summary.name for summary in list_golden(shelf, "clocks")] == ["h"]
    with pytest.raises(NotFound) as caught:
        remove_golden(shelf, "clocks", "g")
    assert caught.value.remedy == "it has h"


@pytest.mark.parametrize(
    ("reference", "error", "reason"),
    [
        ("h", NotFound, "no golden set 'h'"),
        ("g@", InvalidInput, "does not say which version"),
        ("g@abc", InvalidInput, "does not say which version"),
        ("g@zzzz", NotFound, "no version zzzz"),
    ],
)
def test_a_reference_that_fits_nothing_says_so(
    shelf: Database, reference: str, error: type[Exception], reason: str
):
    import_golden(shelf, "clocks", clocks())
    with pytest.raises(error, match=reason):
        export_golden(shelf, "clocks", reference)


@pytest.mark.parametrize("act", [list_golden, suggest_golden])
def test_a_project_that_does_not_exist_is_not_made(shelf: Database, act: Callable[..., object]):
    with pytest.raises(NotFound):
        act(shelf, "nowhere")


def test_drafts_of_a_project_are_all_derived_and_point_into_its_files(shelf: Database):
    (draft,) = suggest_golden(shelf, "clocks").questions
    assert draft.derived
    assert draft.answers == (Answer(place=FilePlace(path="docs/clock.md", heading=("Clock",))),)


def test_a_file_is_read_under_its_own_name(tmp_path: Path):
    file = tmp_path / "clocks.jsonl"
    file.write_text(line(), encoding="utf-8")
    assert read_golden(file).name == "clocks"
    assert read_golden(file, name="other").name == "other"


def test_a_file_that_is_no_text_says_on_which_line(tmp_path: Path):
    file = tmp_path / "clocks.jsonl"
    file.write_bytes(line().encode() + b"\n\xff")
    with pytest.raises(InvalidInput, match=r"not UTF-8 \(line 2\)"):
        read_golden(file)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path):
    with pytest.raises(NotFound, match="no file"):
        read_golden(tmp_path / "clocks.jsonl")
