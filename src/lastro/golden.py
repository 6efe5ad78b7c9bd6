"""Golden sets: questions with judged answers, and the lines of JSON that say them; pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lastro.errors import InvalidInput
from lastro.places import EntityPlace, FilePlace, Place, SessionPlace, folded

MAX_NAME_CHARS = 200
# Drafts of questions that one person reads and rephrases in an afternoon.
DEFAULT_DRAFTS = 50
# A hash of a question as its id: 48 bits, so that a set of 10,000 has one clash in five million.
ID_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A place that answers a question, and how well: the grade is its gain, from 1 up."""

    place: Place
    grade: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenQuestion:
    """A question with its judged answers, or that nothing answers.

    ``scopes``, ``path_prefix`` and ``entry_filter`` (``canonical_json`` of the filter language) are
    the filter it is asked with; ``derived`` says that a program drafted it.
    """

    id: str
    question: str
    language: str
    answers: tuple[Answer, ...] = ()
    unanswerable: bool = False
    scopes: tuple[str, ...] | None = None
    path_prefix: str | None = None
    entry_filter: Mapping[str, Any] | None = None
    difficulty: str | None = None
    derived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSet:
    """Questions by id; the hash is that of their canonical lines, whatever they are called."""

    name: str
    questions: tuple[GoldenQuestion, ...]
    content_hash: str


def golden_set(name: str, questions: tuple[GoldenQuestion, ...]) -> GoldenSet:
    """The set of these questions, in the order of their ids, with its hash: SHA-256, in hex."""
    ordered = tuple(sorted(questions, key=lambda question: question.id))
    lines = "".join(f"{_canonical_line(question)}\n" for question in ordered)
    return GoldenSet(
        name=name,
        questions=ordered,
        content_hash=hashlib.sha256(lines.encode("utf-8")).hexdigest(),
    )


def question_id(
    question: str,
    language: str,
    *,
    scopes: tuple[str, ...] | None = None,
    path_prefix: str | None = None,
    entry_filter: Mapping[str, Any] | None = None,
) -> str:
    """Id of a question that came without one: a hash of what is asked, and in what."""
    asked = [folded(question), language, *([scopes, path_prefix] if scopes or path_prefix else [])]
    text = json.dumps([*asked, *([entry_filter] if entry_filter else [])], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:ID_DIGITS]


def asked_id(question: GoldenQuestion) -> str:
    """The same for two questions that ask the same, whatever their ids."""
    return question_id(
        question.question,
        question.language,
        scopes=question.scopes,
        path_prefix=question.path_prefix,
        entry_filter=question.entry_filter,
    )


def check_name(name: str) -> None:
    """Refuse what cannot name a set. Errors: InvalidInput."""
    if not name.strip() or len(name) > MAX_NAME_CHARS or "@" in name or not name.isprintable():
        raise InvalidInput(
            f"{name!r} cannot name a golden set",
            remedy=f"use 1 to {MAX_NAME_CHARS} printable characters without @",
        )


# --- writing


def dump_golden(golden: GoldenSet) -> str:
    """The set as lines of JSON, by id: equal sets give equal texts.

    ``golden_lines.parse_golden`` reads them back to the same hash.
    """
    return "".join(f"{_canonical_line(question)}\n" for question in golden.questions)


def golden_json(golden: GoldenSet) -> dict[str, Any]:
    """The set as one JSON value, under its name and hash."""
    return {
        "name": golden.name,
        "contentHash": golden.content_hash,
        "questions": [question_json(question) for question in golden.questions],
    }


def question_json(question: GoldenQuestion) -> dict[str, Any]:
    """A question as its line says it, without what is as by default."""
    line: dict[str, Any] = {
        "id": question.id,
        "question": question.question,
        "language": question.language,
    }
    hard: dict[str, Any] = {}
    if question.scopes is not None:
        hard["scopes"] = list(question.scopes)
    if question.path_prefix is not None:
        hard["pathPrefix"] = question.path_prefix
    hard |= question.entry_filter or {}
    if hard:
        line["filter"] = hard
    if question.unanswerable:
        line["unanswerable"] = True
    else:
        answers = [answer_json(answer) for answer in question.answers]
        line["answers"] = sorted(answers, key=lambda answer: json.dumps(answer, sort_keys=True))
    if question.difficulty is not None:
        line["difficulty"] = question.difficulty
    if question.derived:
        line["derived"] = True
    return line


def answer_json(answer: Answer) -> dict[str, Any]:
    """An answer as a line says it."""
    said: dict[str, Any]
    match answer.place:
        case FilePlace(path=path, heading=heading, lines=lines):
            said = {"path": path}
            if heading is not None:
                said["heading"] = heading[0] if len(heading) == 1 else list(heading)
            if lines is not None:
                said["lines"] = list(lines)
        case SessionPlace(session=session, event=event):
            said = {"session": session} | ({} if event is None else {"event": event})
        case EntityPlace(entity=entity):
            said = {"entity": entity}
    return said if answer.grade == 1 else {**said, "grade": answer.grade}


def _canonical_line(question: GoldenQuestion) -> str:
    return json.dumps(question_json(question), ensure_ascii=False)
