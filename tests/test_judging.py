"""Judged places and the chunks that lie there."""

import unicodedata
from uuid import UUID

import psycopg
import pytest
from rows import add_chunk, add_document, add_project

from lastro.db.pool import Database
from lastro.golden import Answer, GoldenQuestion, golden_set
from lastro.judging import JudgedQuestion, judged_chunks
from lastro.places import EntityPlace, FilePlace, Place, SessionPlace


class Shelf:
    """A project whose chunks are written by hand."""

    def __init__(self, owner: psycopg.Connection, database: Database) -> None:
        self.owner, self.database = owner, database
        self.project = add_project(owner, "shelf")

    def add(self, path: str, *sections: tuple[str, ...], project: int | None = None) -> list[UUID]:
        """A file with a chunk of three lines for each section."""
        project_id = project or self.project
        document = add_document(self.owner, project_id, place=path)
        return [
            add_chunk(
                self.owner,
                project_id,
                document_id=document,
                ordinal=at,
                source_path=path,
                heading_path=list(headings),
                anchor=headings[-1].lower() if headings else None,
                line_start=3 * at + 1,
                line_end=3 * at + 3,
            )
            for at, headings in enumerate(sections)
        ]

    def judge(self, *answers: tuple[Place, int]) -> JudgedQuestion:
        question = GoldenQuestion(
            id="q",
            question="Where?",
            language="en",
            answers=tuple(Answer(place=place, grade=grade) for place, grade in answers),
        )
        with self.database.transaction(projects=[self.project]) as connection:
            (judged,) = judged_chunks(
                connection, golden_set("set", (question,)), project_id=self.project
            )
        return judged


@pytest.fixture
def shelf(owner: psycopg.Connection, app_database: Database) -> Shelf:
    return Shelf(owner, app_database)


def test_a_section_is_answered_by_its_chunks_and_those_of_its_sub_sections(shelf: Shelf):
    _, tides, spring, _ = shelf.add(
        "docs/sea.md", ("Sea",), ("Sea", "Tides"), ("Sea", "Tides", "Spring"), ("Sea", "Fog")
    )
    judged = shelf.judge((FilePlace(path="docs/sea.md", heading=("tides",)), 1))
    assert judged.chunks == {tides: 0, spring: 0}


def test_a_chunk_is_the_best_graded_answer_that_it_covers(shelf: Shelf):
    sea, fog = shelf.add("docs/sea.md", ("Sea",), ("Sea", "Fog"))
    judged = shelf.judge(
        (FilePlace(path="docs/sea.md"), 1), (FilePlace(path="docs/sea.md", heading=("Fog",)), 3)
    )
    assert judged.chunks == {sea: 0, fog: 1}
    assert [judged.grade(sea), judged.grade(fog), judged.grade(UUID(int=1))] == [1, 3, 0]


def test_of_equal_grades_the_answer_that_is_named_first_counts(shelf: Shelf):
    (sea,) = shelf.add("docs/sea.md", ("Sea",))
    places = [FilePlace(path="docs/sea.md", lines=(1, 2)), FilePlace(path="docs/sea.md")]
    assert shelf.judge((places[0], 2), (places[1], 2)).chunks == {sea: 0}


def test_an_answer_that_better_ones_take_up_whole_is_merged(shelf: Shelf):
    sea, fog = shelf.add("docs/sea.md", ("Sea",), ("Sea", "Fog"))  # lines 1-3 and 4-6
    judged = shelf.judge(
        (FilePlace(path="docs/sea.md", lines=(1, 1)), 1),
        (FilePlace(path="docs/sea.md", lines=(3, 3)), 2),
        (FilePlace(path="docs/sea.md", lines=(3, 6)), 1),
        (FilePlace(path="docs/gone.md"), 1),
    )
    assert judged.chunks == {sea: 1, fog: 2}
    assert (judged.merged, judged.not_indexed) == ((0,), (3,))


def test_answers_that_no_chunk_covers_are_told(shelf: Shelf):
    shelf.add("docs/sea.md", ("Sea",))
    judged = shelf.judge(
        (FilePlace(path="docs/gone.md"), 1),
        (FilePlace(path="docs/sea.md"), 1),
        (FilePlace(path="docs/sea.md", heading=("Tides",)), 2),
        (FilePlace(path="docs/sea.md", lines=(4, 9)), 1),
        (EntityPlace(entity="no such key"), 1),
    )
    assert judged.not_indexed == (0, 2, 3, 4)


def test_a_path_is_found_however_its_accents_are_composed(shelf: Shelf):
    path = "docs/decisão.md"
    (stored,) = shelf.add(unicodedata.normalize("NFD", path), ("Decisão",))
    judged = shelf.judge((FilePlace(path=unicodedata.normalize("NFC", path)), 1))
    assert judged.chunks == {stored: 0}


def test_files_of_one_path_in_two_repositories_both_answer(shelf: Shelf):
    found = [
        add_chunk(
            shelf.owner,
            shelf.project,
            document_id=add_document(shelf.owner, shelf.project, place="README.md", source=source),
            source_path="README.md",
        )
        for source in ("one", "two")
    ]
    assert shelf.judge((FilePlace(path="README.md"), 1)).chunks == dict.fromkeys(found, 0)


def test_an_event_and_an_entry_answer_by_their_names(shelf: Shelf):
    session = add_document(shelf.owner, shelf.project, scope="session", place="s-1")
    first, second = (
        add_chunk(
            shelf.owner,
            shelf.project,
            scope="session",
            document_id=session,
            ordinal=at,
            event_id=f"e-{at}",
        )
        for at in range(2)
    )
    entry = add_chunk(
        shelf.owner,
        shelf.project,
        scope="entity",
        document_id=add_document(shelf.owner, shelf.project, scope="entity", place="k-1"),
    )
    judged = shelf.judge(
        (SessionPlace(session="s-1", event="e-1"), 2),
        (SessionPlace(session="s-1"), 1),
        (EntityPlace(entity="k-1"), 1),
    )
    assert judged.chunks == {second: 0, first: 1, entry: 2}


def test_what_searches_may_not_see_answers_nothing(shelf: Shelf):
    foreign = add_project(shelf.owner, "foreign")
    shelf.add("docs/theirs.md", ("Theirs",), project=foreign)
    (draft,) = shelf.add("docs/draft.md", ("Draft",))
    shelf.owner.execute("UPDATE lastro.chunks SET status = 'draft' WHERE id = %s", [draft])
    judged = shelf.judge(
        (FilePlace(path="docs/theirs.md"), 1), (FilePlace(path="docs/draft.md"), 1)
    )
    assert (judged.chunks, judged.not_indexed) == ({}, (0, 1))
