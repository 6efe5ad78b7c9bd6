"""Lines of JSON to golden sets, with every fault of every line; pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from lastro.entry_filter import PARTS, canonical_json, parse_filter
from lastro.errors import InvalidFilter, InvalidInput
from lastro.golden import (
    Answer,
    GoldenQuestion,
    GoldenSet,
    asked_id,
    check_name,
    golden_set,
    question_id,
)
from lastro.iso_639 import LANGUAGE_CODES
from lastro.json_lines import json_of
from lastro.places import (
    EntityPlace,
    FilePlace,
    Place,
    SessionPlace,
    folded,
    lines_fault,
    normal_path,
    path_fault,
)
from lastro.types import MAX_QUERY_CHARS, SCOPES

# TREC judges up to 4; what lies above a percentage is a slip.
MAX_GRADE = 100
MAX_SHOWN_CHARS = 40

_QUESTION_KEYS = frozenset(
    {
        "id",
        "question",
        "language",
        "filter",
        "answers",
        "unanswerable",
        "difficulty",
        "derived",
    }
)
_FILTER_KEYS = frozenset({"scopes", "pathPrefix", *PARTS})
# The key that says what kind of place an answer is -> the keys that may stand beside it.
_PLACE_KEYS: Mapping[str, frozenset[str]] = {
    "path": frozenset({"heading", "lines"}),
    "session": frozenset({"event"}),
    "entity": frozenset(),
}


class InvalidGolden(InvalidInput):
    """A golden set with faults: ``summary`` counts them, and each of ``faults`` names its line."""

    def __init__(self, name: str, faults: tuple[str, ...]) -> None:
        count = f"{len(faults)} {'fault' if len(faults) == 1 else 'faults'}"
        self.summary = f"the golden set {name!r} has {count}"
        self.faults = faults
        super().__init__(
            f"{self.summary}: {'; '.join(faults)}",
            remedy="correct the lines that are named; nothing was taken from the others",
        )


def parse_golden(text: str, *, name: str) -> GoldenSet:
    """The set that lines of JSON describe; blank lines are skipped.

    Errors: InvalidGolden with every fault of every line, InvalidInput for a name that cannot be one
    and for a set without a question.
    """
    check_name(name)
    # str.splitlines would also cut at U+2028, which JSON texts may hold as it is.
    lines = enumerate(text.removeprefix("\ufeff").split("\n"), start=1)
    questions = _read([(number, line) for number, line in lines if line.strip()], name=name)
    return golden_set(name, tuple(questions))


def parse_questions(lines: Sequence[Mapping[str, Any]], *, name: str) -> tuple[GoldenQuestion, ...]:
    """The questions of lines that are JSON values already. Errors: InvalidGolden."""
    written = [(number, json.dumps(line)) for number, line in enumerate(lines, start=1)]
    return tuple(_read(written, name=name))


def _read(lines: Iterable[tuple[int, str]], *, name: str) -> list[GoldenQuestion]:
    questions: list[GoldenQuestion] = []
    faults: list[str] = []
    seen = _Seen()
    for number, line in lines:
        reader = _LineReader()
        question = reader.question(line)
        if question is not None:
            reader.faults += seen.repeats(question, number)
            questions.append(question)
        faults += [f"line {number}: {fault}" for fault in reader.faults]
    if faults:
        raise InvalidGolden(name, tuple(faults))
    if not questions:
        raise InvalidInput(
            f"the golden set {name!r} holds no question",
            remedy="write one on each line, or draft some with `lastro golden suggest`",
        )
    return questions


class _Seen:
    """The ids and questions of the lines before."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._asked: dict[str, int] = {}

    def repeats(self, question: GoldenQuestion, number: int) -> Iterator[str]:
        first = self._asked.setdefault(asked_id(question), number)
        if first != number:
            yield f"the question repeats that of line {first}"
        elif (same := self._ids.setdefault(question.id, number)) != number:
            yield f"the id {question.id!r} is that of line {same}"


class _LineReader:
    """Reads one line, and collects what is wrong with it."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def question(self, line: str) -> GoldenQuestion | None:
        """The question, or None where the line has faults."""
        said = self._object(line)
        if said is None:
            return None
        self._only(said, _QUESTION_KEYS, "the line")
        question = self._text(said, "question", required=True)
        if len(question) > MAX_QUERY_CHARS:
            self.faults.append(f"question has more than {MAX_QUERY_CHARS} characters")
        language = self._language(said)
        scopes, path_prefix, entry_filter = self._filter(said)
        unanswerable = self._flag(said, "unanswerable")
        answers = self._answers(said, unanswerable=unanswerable)
        id_ = self._text(said, "id")
        difficulty = self._text(said, "difficulty")
        derived = self._flag(said, "derived")
        if self.faults:
            return None
        return GoldenQuestion(
            id=id_
            or question_id(
                question,
                language,
                scopes=scopes,
                path_prefix=path_prefix,
                entry_filter=entry_filter,
            ),
            question=question,
            language=language,
            answers=answers,
            unanswerable=unanswerable,
            scopes=scopes,
            path_prefix=path_prefix,
            entry_filter=entry_filter,
            difficulty=difficulty or None,
            derived=derived,
        )

    def _object(self, line: str) -> dict[str, Any] | None:
        decoder = json.JSONDecoder(object_pairs_hook=self._pairs, parse_constant=self._constant)
        try:
            said = json_of(line, decoder)
        except InvalidInput as error:
            self.faults.append(error.message)
            return None
        if not isinstance(said, dict):
            self.faults.append("a JSON object is wanted")
            return None
        return cast("dict[str, Any]", said)

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        for key in sorted({key for key in keys if keys.count(key) > 1}):
            self.faults.append(f"the key {key!r} stands there twice")
        return dict(pairs)

    def _constant(self, name: str) -> None:
        self.faults.append(f"{name} is no JSON")

    def _only(self, said: Mapping[str, Any], known: frozenset[str], where: str) -> None:
        for key in said:
            if key not in known:
                names = ", ".join(sorted(known))
                self.faults.append(f"unknown key {key!r} in {where} (known: {names})")

    def _text(self, said: Mapping[str, Any], key: str, *, required: bool = False) -> str:
        """A text of a key; empty where it is absent or wrong, which is then a fault."""
        if key not in said:
            self.faults += [f"{key} is missing"] if required else []
            return ""
        value = said[key]
        if not isinstance(value, str):
            self.faults.append(f"{key} must be a text, not {_shown(value)}")
        elif not value.strip():
            self.faults.append(f"{key} is blank")
        elif (reason := _unstorable(value)) is not None:
            self.faults.append(f"{key} holds {reason}")
        else:
            return value.strip()
        return ""

    def _flag(self, said: Mapping[str, Any], key: str) -> bool:
        value = said.get(key, False)
        if not isinstance(value, bool):
            self.faults.append(f"{key} must be true or false, not {_shown(value)}")
            return False
        return value

    def _language(self, said: Mapping[str, Any]) -> str:
        code = self._text(said, "language", required=True)
        if code and code not in LANGUAGE_CODES:
            self.faults.append(f"language {code!r} is no ISO 639-1 code such as en, pt or zh")
        return code

    def _filter(
        self, said: Mapping[str, Any]
    ) -> tuple[tuple[str, ...] | None, str | None, Mapping[str, Any] | None]:
        if "filter" not in said:
            return None, None, None
        hard = said["filter"]
        if not isinstance(hard, dict):
            self.faults.append('filter must be an object, as {"scopes": ["adr"]}')
            return None, None, None
        table = cast("dict[str, Any]", hard)
        self._only(table, _FILTER_KEYS, "filter")
        prefix = self._text(table, "pathPrefix") or None
        path_prefix = None if prefix is None else normal_path(prefix)
        return self._scopes(table), path_prefix, self._entry_filter(table)

    def _entry_filter(self, table: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            entries = parse_filter({key: table[key] for key in PARTS if key in table})
        except InvalidFilter as error:
            self.faults.append(f"filter: {error.message}")
            return None
        return None if entries is None else canonical_json(entries)

    def _scopes(self, hard: Mapping[str, Any]) -> tuple[str, ...] | None:
        if "scopes" not in hard:
            return None
        named = hard["scopes"]
        if not isinstance(named, list) or not named:
            self.faults.append("filter.scopes must be a list of scopes")
            return None
        names = cast("list[object]", named)
        unknown = [_shown(scope) for scope in names if scope not in SCOPES]
        if unknown:
            known = ", ".join(SCOPES)
            self.faults.append(f"unknown scope {', '.join(unknown)} (known: {known})")
        return tuple(scope for scope in SCOPES if scope in names)

    def _answers(self, said: Mapping[str, Any], *, unanswerable: bool) -> tuple[Answer, ...]:
        answers = said.get("answers")
        if unanswerable:
            if "answers" in said:
                self.faults.append("both answers and unanswerable; one of them is true")
            return ()
        if "answers" not in said:
            self.faults.append("neither answers nor unanswerable: true")
            return ()
        if not isinstance(answers, list) or not answers:
            self.faults.append("answers must be a list with at least one place")
            return ()
        listed = cast("list[object]", answers)
        read = [self._answer(answer, f"answer {at}") for at, answer in enumerate(listed, start=1)]
        places = [answer.place for answer in read if answer is not None]
        for at, place in enumerate(places):
            if place in places[:at]:
                self.faults.append(f"answer {at + 1} names the same place as an earlier one")
        return tuple(answer for answer in read if answer is not None)

    def _answer(self, answer: object, where: str) -> Answer | None:
        if not isinstance(answer, dict):
            self.faults.append(f'{where} must be an object, as {{"path": "docs/a.md"}}')
            return None
        said = cast("dict[str, Any]", answer)
        kinds = [kind for kind in _PLACE_KEYS if kind in said]
        if len(kinds) != 1:
            self.faults.append(f"{where} must have exactly one of path, session and entity")
            return None
        (kind,) = kinds
        before = len(self.faults)
        self._only(said, _PLACE_KEYS[kind] | {kind, "grade"}, where)
        place = self._place(said, kind, where)
        grade = said.get("grade", 1)
        if isinstance(grade, bool) or not isinstance(grade, int) or not 1 <= grade <= MAX_GRADE:
            self.faults.append(f"{where}: grade must be a whole number from 1 to {MAX_GRADE}")
        return Answer(place=place, grade=grade) if len(self.faults) == before else None

    def _place(self, said: Mapping[str, Any], kind: str, where: str) -> Place:
        named = self._text(said, kind, required=True)
        if kind == "entity":
            return EntityPlace(entity=named)
        if kind == "session":
            return SessionPlace(session=named, event=self._text(said, "event") or None)
        if named and (fault := path_fault(named)) is not None:
            self.faults.append(f"{where}: {fault}")
        return FilePlace(
            path=normal_path(named),
            heading=self._heading(said, where),
            lines=self._lines(said, where),
        )

    def _heading(self, said: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
        if "heading" not in said:
            return None
        heading = said["heading"]
        parts = cast("list[object]", heading) if isinstance(heading, list) else [heading]
        texts = [part.strip() for part in parts if isinstance(part, str)]
        if not texts or len(texts) < len(parts) or not all(map(folded, texts)):
            self.faults.append(f"{where}: heading must be a text or a list of texts, none blank")
            return None
        self.faults += [
            f"{where}: heading holds {reason}" for reason in map(_unstorable, texts) if reason
        ]
        return tuple(texts)

    def _lines(self, said: Mapping[str, Any], where: str) -> tuple[int, int] | None:
        if "lines" not in said:
            return None
        match said["lines"]:
            case [int() as first, int() as last] if not (
                isinstance(first, bool) or isinstance(last, bool)
            ):
                fault = lines_fault((first, last))
                self.faults += [] if fault is None else [f"{where}: {fault}"]
                return first, last
            case _:
                self.faults.append(f"{where}: lines must be two whole numbers, as [10, 20]")
                return None


def _unstorable(text: str) -> str | None:
    """What PostgreSQL could not store of a text."""
    if "\0" in text:
        return "a NUL"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "half a character (a lone surrogate)"
    return None


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[:MAX_SHOWN_CHARS]
