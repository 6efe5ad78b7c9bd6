"""A project's golden sets: stored in versions, listed, exported, removed and drafted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from made_golden import line
from rows import add_chunk, add_project

from lastro.db.pool import Database
from lastro.errors import InvalidInput, NotFound
from lastro.golden import Answer, GoldenSet
from lastro.golden_lines import parse_golden
from lastro.golden_sets import GoldenSets, read_golden
from lastro.places import FilePlace


@pytest.fixture
def shelf(owner: psycopg.Connection, app_database: Database) -> GoldenSets:
    """The sets of the project ``clocks``, which holds one file."""
    add_chunk(
        owner,
        add_project(owner, "clocks"),
        source_path="docs/clock.md",
        heading_path=["Clock"],
    )
    owner.execute("UPDATE lastro.documents SET place = 'docs/clock.md'")
    add_project(owner, "other")
    return GoldenSets(database=app_database, project="clocks")


def clocks(*lines: str) -> GoldenSet:
    return parse_golden("\n".join(lines or [line()]), name="g")


def test_a_set_is_exported_as_it_was_imported(shelf: GoldenSets):
    golden = clocks(
        line(), line(question="谁给钟上弦？", language="zh", answers=None, unanswerable=True)
    )
    shelf.add(golden)
    assert shelf.get("g") == golden


def test_importing_the_same_content_again_is_no_new_version(shelf: GoldenSets):
    first = shelf.add(clocks(line(), line(language="pt")))
    again = shelf.add(clocks(line(language="pt"), line()))
    assert (first.imported, first.version) == (True, 1)
    assert (again.imported, again.version) == (False, 1)
    assert len(shelf.list()) == 1


def test_a_changed_content_is_a_new_version_and_the_old_one_stays_by_its_hash(shelf: GoldenSets):
    old, new = clocks(line()), clocks(line(difficulty="hard"))
    shelf.add(old)
    assert shelf.add(new).version == 2
    assert shelf.get("g") == new
    assert shelf.get(f"g@{old.content_hash}") == old
    assert shelf.get(f"g@{old.content_hash[:8].upper()}") == old


def test_going_back_to_an_old_content_makes_it_the_newest(shelf: GoldenSets):
    old, new = clocks(line()), clocks(line(difficulty="hard"))
    for golden in (old, new, old):
        report = shelf.add(golden)
    assert (report.imported, report.version) == (True, 3)
    assert shelf.get("g") == old
    assert [summary.current for summary in shelf.list()] == [True, False, False]


def test_an_import_says_how_many_questions_are_of_people_and_how_many_derived(shelf: GoldenSets):
    report = shelf.add(
        clocks(
            line(),
            line(question="B?", derived=True),
            line(question="C?", derived=True),
            line(question="D?", answers=None, unanswerable=True),
        ),
    )
    counts = report.counts
    assert (counts.questions, counts.human, counts.derived, counts.unanswerable) == (4, 2, 2, 1)
    assert shelf.list()[0].counts == counts


def test_an_import_says_which_places_the_index_lacks(shelf: GoldenSets):
    answers = [
        {"path": "docs/clock.md"},
        {"path": "docs/clock.md", "heading": "Hands"},
        {"session": "s", "event": "e"},
        {"path": "docs/gone.md", "lines": [1, 2]},
    ]
    report = shelf.add(clocks(line(id="q", answers=answers)))
    assert {(missing.id, missing.place) for missing in report.not_indexed} == {
        ("q", "docs/clock.md#Hands"),
        ("q", "session s, event e"),
        ("q", "docs/gone.md:1-2"),
    }


def test_a_set_belongs_to_its_project_alone(shelf: GoldenSets):
    shelf.add(clocks())
    assert replace(shelf, project="other").list() == []
    with pytest.raises(NotFound, match="no golden set 'g'"):
        replace(shelf, project="other").get("g")


def test_a_removed_set_is_gone_with_every_version_and_no_other_is(shelf: GoldenSets):
    for golden in (clocks(line()), clocks(line(difficulty="hard")), parse_golden(line(), name="h")):
        shelf.add(golden)
    assert shelf.remove("g") == 2
    assert [summary.name for summary in shelf.list()] == ["h"]
    with pytest.raises(NotFound) as caught:
        shelf.remove("g")
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
    shelf: GoldenSets, reference: str, error: type[Exception], reason: str
):
    shelf.add(clocks())
    with pytest.raises(error, match=reason):
        shelf.get(reference)


@pytest.mark.parametrize("act", [GoldenSets.list, GoldenSets.suggest])
def test_a_project_that_does_not_exist_is_not_made(shelf: GoldenSets, act: Callable[..., object]):
    with pytest.raises(NotFound):
        act(replace(shelf, project="nowhere"))


def test_drafts_of_a_project_are_all_derived_and_point_into_its_files(shelf: GoldenSets):
    (draft,) = shelf.suggest().questions
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
