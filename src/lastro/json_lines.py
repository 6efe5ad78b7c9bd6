"""Files of JSON Lines: what the good lines say, and why the others say nothing. Pure."""

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from lastro.errors import InvalidInput
from lastro.lexical import storable
from lastro.types import OPTIONAL

T = TypeVar("T")

# Faults that a refusal tells one by one.
SHOWN_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLine:
    """A line that says nothing; ``line`` counts from 1, ``key`` is left out where it has none.

    ``file`` is left out where there is but one.
    """

    file: str | None = field(default=None, metadata=OPTIONAL)
    line: int
    key: str | None = field(default=None, metadata=OPTIONAL)
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCounts:
    """What became of what lines said, and the lines that said nothing."""

    added: int
    changed: int
    unchanged: int
    refused: tuple[RefusedLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLines(Generic[T]):
    """What the lines of a file say, and those that say nothing."""

    items: tuple[T, ...]
    refused: tuple[RefusedLine, ...]


@dataclass(frozen=True, slots=True)
class ReadLine(Generic[T]):
    """What one line says; ``line`` counts from 1, in ``file`` where there are several."""

    line: int
    item: T
    file: str | None = None


def each_line(
    lines: Iterable[bytes], parse: Callable[[object], T], *, key: str
) -> Iterator[ReadLine[T] | RefusedLine]:
    """What each line of UTF-8 says by ``parse``, one by one; blank lines are passed over.

    ``key`` is the field by which a refused line is known, where it has one.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        said: object = None
        try:
            said = json_of(decoded(line))
            item = parse(said)
        except InvalidInput as error:
            yield RefusedLine(line=number, key=_key_of(said, key), reason=error.message)
        else:
            yield ReadLine(number, item)


def lines_of_array(said: bytes) -> Iterator[bytes]:
    """The items of a JSON array as lines, in their order. Errors: InvalidInput."""
    array = json_of(decoded(said))
    if not isinstance(array, list):
        raise InvalidInput("it is no JSON array")
    return (json.dumps(item).encode() for item in cast("list[object]", array))


def json_object(said: bytes) -> dict[str, Any]:
    """The JSON object that bytes say. Errors: InvalidInput."""
    value = json_of(decoded(said))
    if not isinstance(value, dict):
        raise InvalidInput("it is no JSON object")
    return cast("dict[str, Any]", value)


def read_lines(lines: Iterable[bytes], parse: Callable[[object], T], *, key: str) -> ReadLines[T]:
    """What each line of UTF-8 says by ``parse``; blank lines are passed over.

    ``key`` is the field that no two of them share: one that came before is refused, since nobody
    can tell which of the two is meant.
    """
    found: dict[str, T] = {}
    first: dict[str, int] = {}
    refused: list[RefusedLine] = []
    for read in each_line(lines, parse, key=key):
        if isinstance(read, RefusedLine):
            refused.append(read)
            continue
        name = str(getattr(read.item, key))
        if name in first:
            reason = f"the {key} {name!r} came before, in line {first[name]}"
            refused.append(RefusedLine(line=read.line, key=name, reason=reason))
        else:
            first[name] = read.line
            found[name] = read.item
    return ReadLines(items=tuple(found.values()), refused=tuple(refused))


def require_all(read: ReadLines[T], *, of: str) -> None:
    """Refuse a file with a line that is none ``of`` them. Errors: InvalidInput, with the lines."""
    require_none(read.refused, total=len(read.items) + len(read.refused), of=of)


def require_none(refused: Sequence[RefusedLine], *, total: int, of: str) -> None:
    """Refuse ``total`` lines where some were refused. Errors: InvalidInput, with the lines."""
    if not refused:
        return
    lines = [f"{place_of(line)}: {line.reason}" for line in refused]
    left_out = len(lines) - SHOWN_LINES
    shown = [*lines[:SHOWN_LINES], *([f"and {left_out} more"] if left_out > 0 else [])]
    raise InvalidInput(
        "\n  ".join([f"{len(lines)} of {total} lines are no {of}; nothing is stored", *shown]),
        remedy="correct them, or leave out --strict to store the others",
    )


def place_of(refused: RefusedLine) -> str:
    """Where a refused line stands, for people."""
    return f"line {refused.line}" if refused.file is None else f"{refused.file}:{refused.line}"


def each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object of ``pairs``, for ``json.loads``, which of two would keep the last unsaid.

    Errors: InvalidInput.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{twice!r} stands twice in one object")
    return found


# One for all lines: making a decoder takes as long as a short line.
_DECODER = json.JSONDecoder(object_pairs_hook=each_key_once)


def decoded(line: bytes) -> str:
    """The text of a line, without the mark of its encoding. Errors: InvalidInput."""
    try:
        return line.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("it is not UTF-8") from error


def json_of(line: str, decoder: json.JSONDecoder = _DECODER) -> object:
    """What a line says, as a value of JSON. Errors: InvalidInput."""
    try:
        return decoder.decode(line.strip())
    except json.JSONDecodeError as error:
        raise InvalidInput(f"it is not JSON: {error.msg}, at character {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput("it is not JSON that can be read: too deep, or so large a number") from (
            error
        )


def _key_of(said: object, key: str) -> str | None:
    if not isinstance(said, dict):
        return None
    value = cast("dict[str, object]", said).get(key)
    return value if isinstance(value, str) and storable(value) == value else None
