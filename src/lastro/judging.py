"""Judged places to the chunks that lie there now: judgements outlive every re-chunking."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from lastro import store
from lastro.golden import GoldenQuestion, GoldenSet
from lastro.places import (
    ChunkPlace,
    EntityPlace,
    FilePlace,
    Place,
    SessionPlace,
    covers,
    normal_path,
)
from lastro.store import AppConnection

# A document: what it is, and its path (NFC), session or key.
_Document = tuple[Literal["file", "session", "entity"], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuestion:
    """A question, and which chunk of the index is which of its answers.

    ``chunks`` maps a chunk's id to the index of its answer in ``question.answers``: the best
    graded that it covers, the first of equals. ``not_indexed`` are answers that no chunk covers,
    ``merged`` those whose every chunk counts as a better one: what is shown for that shows them
    too, so nobody must find them apart.
    """

    question: GoldenQuestion
    chunks: Mapping[UUID, int]
    not_indexed: tuple[int, ...]
    merged: tuple[int, ...] = ()

    def grade(self, chunk_id: UUID) -> int:
        """Gain of a chunk; 0 where it covers no answer."""
        answer = self.chunks.get(chunk_id)
        return 0 if answer is None else self.question.answers[answer].grade


def judged_chunks(
    connection: AppConnection, golden: GoldenSet, *, project_id: int
) -> tuple[JudgedQuestion, ...]:
    """Every question of ``golden``, in its order, with the published chunks that answer it.

    The questions' filters are not applied: what they shut out is a judgement that is not met.
    """
    places = [answer.place for question in golden.questions for answer in question.answers]
    by_document = _chunks_by_document(connection, places, project_id=project_id)
    return tuple(_judged(question, by_document) for question in golden.questions)


def _chunks_by_document(
    connection: AppConnection, places: Iterable[Place], *, project_id: int
) -> Mapping[_Document, Sequence[tuple[UUID, ChunkPlace]]]:
    names = {name for _, name in map(_document, places)}
    # Paths are stored as the repository spells them; some file systems decompose what they store.
    spellings = names | {unicodedata.normalize("NFD", name) for name in names}
    found: dict[_Document, list[tuple[UUID, ChunkPlace]]] = defaultdict(list)
    for id_, chunk in store.chunk_places(connection, sorted(spellings), project_id=project_id):
        found[_document_of(chunk)].append((id_, chunk))
    return found


def _document(place: Place) -> _Document:
    match place:
        case FilePlace(path=path):
            return "file", normal_path(path)
        case SessionPlace(session=session):
            return "session", session
        case EntityPlace(entity=entity):
            return "entity", entity


def _document_of(chunk: ChunkPlace) -> _Document:
    if chunk.path is not None:
        return "file", normal_path(chunk.path)
    return (
        ("session", chunk.session) if chunk.session is not None else ("entity", chunk.entity or "")
    )


def _judged(
    question: GoldenQuestion,
    by_document: Mapping[_Document, Sequence[tuple[UUID, ChunkPlace]]],
) -> JudgedQuestion:
    chunks: dict[UUID, int] = {}
    not_indexed: list[int] = []
    best_first = sorted(range(len(question.answers)), key=lambda at: -question.answers[at].grade)
    for at in best_first:
        place = question.answers[at].place
        covering = [
            id_ for id_, chunk in by_document.get(_document(place), ()) if covers(place, chunk)
        ]
        for id_ in covering:
            chunks.setdefault(id_, at)
        if not covering:
            not_indexed.append(at)
    counted = {*chunks.values(), *not_indexed}
    return JudgedQuestion(
        question=question,
        chunks=chunks,
        not_indexed=tuple(sorted(not_indexed)),
        merged=tuple(at for at in range(len(question.answers)) if at not in counted),
    )
