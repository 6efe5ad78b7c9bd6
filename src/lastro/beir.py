"""Retrieval sets in the BEIR layout: a folder of passages, questions and judgements.

Every fault is an InvalidInput that names the file and the line.
"""

import json
import lzma
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from lastro.errors import InvalidInput, NotFound

CORPUS_FILES = ("corpus.jsonl", "corpus.jsonl.xz")
QUERIES_FILE = "queries.jsonl"
# Beside the corpus, else where the sets that BEIR publishes have them.
QRELS_FILES = ("qrels.tsv", "qrels/test.tsv")
EXCLUDE_FILE = "exclude.tsv"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Passage:
    """What can be found; both title and text may be empty."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalSet:
    """A set with everything checked.

    ``questions`` are those with judgements; ``judgements`` give a grade by question and document,
    0 and below for not relevant; ``excluded`` names passages that do not count for a question.
    """

    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]
    judgements: Mapping[str, Mapping[str, int]]
    excluded: Mapping[str, frozenset[str]]


def load_set(
    folder: Path, *, qrels: Path | None = None, collapse: str | None = None
) -> RetrievalSet:
    """Read the set in ``folder``, with judgements of the file ``qrels`` or of its own.

    With ``collapse`` judgements are of collapsed ids. Errors: NotFound, InvalidInput.
    """
    passages = load_passages(folder)
    questions = load_questions(folder)
    asked = {question.id for question in questions}
    ids = {passage.id for passage in passages}
    judged_ids = {collapsed(id_, collapse) for id_ in ids}
    own = (folder / name for name in QRELS_FILES)
    judged = qrels or next((path for path in own if path.exists()), folder / QRELS_FILES[0])
    if not judged.exists():
        raise NotFound(
            f"there is no file {judged}",
            remedy=f"put the judgements into {' or '.join(QRELS_FILES)} of a folder in the BEIR "
            "layout",
        )
    judgements = _read_judgements(judged, questions=asked, ids=judged_ids)
    exclude = folder / EXCLUDE_FILE
    return RetrievalSet(
        passages=passages,
        questions=tuple(question for question in questions if question.id in judgements),
        judgements=judgements,
        excluded=_read_exclusions(exclude, asked=asked, ids=ids) if exclude.exists() else {},
    )


def collapsed(id_: str, mark: str | None) -> str:
    """The part of an id before ``mark``; the whole id where there is none."""
    return id_ if mark is None else id_.partition(mark)[0]


def load_passages(folder: Path) -> tuple[Passage, ...]:
    """The passages of ``corpus.jsonl``, else of ``corpus.jsonl.xz``, in the file's order.

    Errors: NotFound, InvalidInput.
    """
    paths = [folder / name for name in CORPUS_FILES]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise NotFound(
            f"{folder} holds neither {' nor '.join(CORPUS_FILES)}",
            remedy="name a folder in the BEIR layout",
        )
    return tuple(_read_objects(path, _passage))


def load_questions(folder: Path) -> tuple[Question, ...]:
    """Every question of ``queries.jsonl``, in the file's order. Errors: NotFound, InvalidInput."""
    return tuple(_read_objects(folder / QUERIES_FILE, _question))


def _passage(record: Mapping[str, object]) -> Passage:
    return Passage(_id(record), _text(record, "title", default=""), _text(record, "text"))


def _question(record: Mapping[str, object]) -> Question:
    text = _text(record, "text")
    if not text.strip():
        raise ValueError("the question is blank")
    return Question(_id(record), text)


def _id(record: Mapping[str, object]) -> str:
    id_ = _text(record, "_id")
    if not id_ or any(char in "\0\t\r\n" or "\ud800" <= char <= "\udfff" for char in id_):
        raise ValueError(f"{id_!r} is no id: it must be text without tabs and line breaks")
    return id_


def _text(record: Mapping[str, object], key: str, *, default: str | None = None) -> str:
    value = record.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is {'missing' if value is None else 'not text'}")  # noqa: TRY004
    return value


def _read_objects(path: Path, make: Callable[[Mapping[str, object]], T]) -> Sequence[T]:
    """A value for each line; no two with one id."""
    made: dict[str, T] = {}
    for number, line in _lines(path):
        if not line.strip():
            continue
        with _placed(path, number):
            record = _record(line)
            value = make(record)
            id_ = str(record["_id"])
            if id_ in made:
                raise ValueError(f"the id {id_!r} was used before")
            made[id_] = value
    if not made:
        raise InvalidInput(f"{path} is empty", remedy="give it a line for each record")
    return list(made.values())


def _record(line: str) -> Mapping[str, object]:
    try:
        record: object = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    if not isinstance(record, dict):
        raise ValueError("this is not a JSON object")  # noqa: TRY004 - told as InvalidInput
    return cast("Mapping[str, object]", record)


def _read_judgements(
    path: Path, *, questions: Collection[str], ids: Collection[str]
) -> dict[str, dict[str, int]]:
    """Grades by question and document; the first line may name the columns."""
    judgements: dict[str, dict[str, int]] = {}
    for number, fields in _rows(path, columns=3):
        question, document, grade = fields
        if number == 1 and question not in questions and not _is_whole(grade):
            continue
        with _placed(path, number):
            _check_known(question, document, questions=questions, ids=ids)
            if not _is_whole(grade):
                raise ValueError(f"the grade {grade!r} is not a whole number")
            own = judgements.setdefault(question, {})
            if document in own:
                raise ValueError(f"{document!r} was judged for {question!r} before")
            own[document] = int(grade)
    if not judgements:
        raise InvalidInput(f"{path} holds no judgement", remedy="judge at least one question")
    return judgements


def _read_exclusions(
    path: Path, *, asked: Collection[str], ids: Collection[str]
) -> dict[str, frozenset[str]]:
    """Ids to be dropped, by question; the first line may name the columns."""
    excluded: dict[str, set[str]] = {}
    for number, (question, document) in _rows(path, columns=2):
        if number == 1 and question not in asked and document not in ids:
            continue
        with _placed(path, number):
            _check_known(question, document, questions=asked, ids=ids)
            excluded.setdefault(question, set()).add(document)
    return {question: frozenset(found) for question, found in excluded.items()}


def _check_known(
    question: str, document: str, *, questions: Collection[str], ids: Collection[str]
) -> None:
    if question not in questions:
        raise ValueError(f"there is no question {question!r}")
    if document not in ids:
        raise ValueError(f"there is no document {document!r}")


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _rows(path: Path, *, columns: int) -> Generator[tuple[int, list[str]]]:
    """Tab-separated fields with their line number from 1; blank lines are passed over."""
    for number, line in _lines(path):
        text = line.rstrip("\n")
        if not text.strip():
            continue
        fields = text.split("\t")
        with _placed(path, number):
            if len(fields) != columns:
                raise ValueError(f"there are {len(fields)} columns between tabs, not {columns}")
        yield number, fields


def _lines(path: Path) -> Generator[tuple[int, str]]:
    """Lines with their number from 1. Errors: NotFound, InvalidInput."""
    number = 0
    open_text = lzma.open if path.suffix == ".xz" else open
    try:
        with open_text(path, "rt", encoding="utf-8-sig") as file:
            for line in file:
                number += 1
                yield number, str(line)
    except FileNotFoundError as error:
        raise NotFound(
            f"there is no file {path}", remedy="name a folder in the BEIR layout"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path}, after line {number}: this is not UTF-8", remedy="save it as UTF-8"
        ) from error
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InvalidInput(f"{path} cannot be read after line {number}: {error}") from error


@contextmanager
def _placed(path: Path, number: int) -> Generator[None]:
    """Say in which line of which file a value is wrong."""
    try:
        yield
    except ValueError as error:
        raise InvalidInput(f"{path}, line {number}: {error}", remedy="mend that line") from error
