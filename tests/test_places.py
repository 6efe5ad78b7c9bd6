"""Places that people and judgements name, and what lies there."""

import unicodedata
from dataclasses import replace

import pytest

from lastro.errors import InvalidInput
from lastro.places import ChunkPlace, FilePlace, covers, parse_place


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


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a #1: b.md", FilePlace(path="a #1: b.md")),
        ("./a #1: b.md#tools", FilePlace(path="a #1: b.md", heading=("tools",))),
        ("a #1: b.md:4-6", FilePlace(path="a #1: b.md", lines=(4, 6))),
        ("v1:0", FilePlace(path="v1:0")),
        ("v1:2", FilePlace(path="v1", lines=(2, 2))),
        ("v1.md", FilePlace(path="v1.md")),
    ],
)
def test_a_mark_of_a_place_may_be_part_of_a_known_name(text: str, place: FilePlace):
    assert parse_place(text, paths=["v1", "v1:0", "a #1: b.md", "a"]) == place


@pytest.mark.parametrize(
    "text",
    ["", "  ", "/a.md", "../a.md", "docs/", "a.md:9-3", "a.md:0", f"a.md:{'9' * 5000}"],
    ids=["none", "blank", "root", "above", "folder", "reversed", "zero", "long"],
)
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
