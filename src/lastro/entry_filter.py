"""The filter language for entries of a knowledge base: from JSON to clauses. Pure.

Its meaning, with a truth table, is in docs/reference/filters.md.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from textwrap import shorten
from typing import Any, Literal, cast, get_args

from lastro.errors import InvalidFilter
from lastro.lexical import storable

Kind = Literal["require", "allow", "forbid", "equals"]
Operator = Literal["gte", "gt", "lte", "lt"]
Scalar = str | int | float | bool
KINDS: tuple[Kind, ...] = get_args(Kind)
OPERATORS: tuple[Operator, ...] = get_args(Operator)
PARTS = ("status", "types", *KINDS, "range")

# Far more than a person or a program asks for; a statement has room for some 65,000 parameters.
MAX_CLAUSES = 100
MAX_VALUES = 1_000
SHOWN_CHARS = 80
# JSON and PostgreSQL both keep it, in an entry and in a filter.
MAX_NUMBER = 1e300

# A date that exists, from year 1 to 9999, and a time of day, with or without its zone: what matches
# can be cast. In PostgreSQL and in Python it means the same.
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})"
_FOURTHS = "(?:0[48]|[2468][048]|[13579][26])"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|(?:[0-9]{{2}}{_FOURTHS}|{_FOURTHS}00)-02-29)"
)
ZONE = "(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"
_TIME = rf"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{{1,6}})?)?{ZONE}?"
MOMENT = f"{_DATE}(?:{_TIME})?"
_MOMENT = re.compile(MOMENT)


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or time that a range begins or ends at."""

    when: datetime


@dataclass(frozen=True, slots=True)
class Contains:
    """A demand on the values of an attribute; a single value is a list of one."""

    kind: Kind
    key: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range."""

    operator: Operator
    value: int | float | Moment


@dataclass(frozen=True, slots=True)
class Range:
    """A demand on an attribute that is one number, or one date; bounds are all of that kind."""

    key: str
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Every clause must hold; ``types`` None means any, and rows that have none."""

    types: tuple[str, ...] | None = None
    contains: tuple[Contains, ...] = ()
    ranges: tuple[Range, ...] = ()


def parse_filter(said: Mapping[str, Any] | None) -> EntryFilter | None:
    """The filter that a JSON object says; None for None and for an object without a part.

    Errors: InvalidFilter, which names the part.
    """
    if said is None:
        return None
    parts = _object(said, "the filter")
    unknown = sorted(parts.keys() - set(PARTS))
    if unknown:
        raise InvalidFilter(
            f"unknown part {', '.join(map(repr, unknown))} of a filter",
            remedy=f"use {', '.join(PARTS)}",
        )
    _check_status(parts)
    made = EntryFilter(
        types=_types(parts["types"]) if "types" in parts else None,
        contains=tuple(_contains(parts)),
        ranges=tuple(_ranges(parts["range"])) if "range" in parts else (),
    )
    if len(made.contains) + len(made.ranges) > MAX_CLAUSES:
        raise InvalidFilter(
            f"the filter has more than {MAX_CLAUSES} clauses", remedy="ask for fewer attributes"
        )
    return None if made == EntryFilter() else made


def canonical_json(entries: EntryFilter) -> dict[str, Any]:
    """The JSON object of a filter: equal demands give equal texts, and ``parse_filter`` reads it.

    Lists are sorted sets, 1.0 is 1, and times are in UTC.
    """
    said: dict[str, Any] = {}
    if entries.types is not None:
        said["types"] = sorted(set(entries.types))
    for clause in sorted(entries.contains, key=lambda clause: (clause.kind, clause.key)):
        said.setdefault(clause.kind, {})[clause.key] = _sorted_set(clause.values)
    for span in sorted(entries.ranges, key=lambda span: span.key):
        bounds = {bound.operator: _bound_json(bound.value) for bound in span.bounds}
        said.setdefault("range", {})[span.key] = bounds
    return said


def _sorted_set(values: Iterable[Scalar]) -> list[Scalar]:
    by_text = {json.dumps(value): value for value in map(_plain, values)}
    return [by_text[text] for text in sorted(by_text)]


def _bound_json(value: int | float | Moment) -> Scalar:
    if not isinstance(value, Moment):
        return _plain(value)
    try:
        return value.when.astimezone(UTC).isoformat()
    except OverflowError:  # in the first or last hours that a date can name
        return value.when.isoformat()


def _plain(value: Scalar) -> Scalar:
    """1.0 as 1, which JSON and PostgreSQL take for equal; and 1e23 is what is written so."""
    return int(Decimal(repr(value))) if isinstance(value, float) and value.is_integer() else value


def each_clause(entries: EntryFilter) -> dict[str, EntryFilter]:
    """Every clause as a filter of its own, by its name: ``types``, ``forbid.avoid``, …"""
    made: dict[str, EntryFilter] = {}
    if entries.types is not None:
        made["types"] = EntryFilter(types=entries.types)
    for clause in entries.contains:
        made[f"{clause.kind}.{clause.key}"] = EntryFilter(contains=(clause,))
    for span in entries.ranges:
        made[f"range.{span.key}"] = EntryFilter(ranges=(span,))
    return made


def parse_moment(text: str) -> datetime | None:
    """The time that a date or time in ISO 8601 names, in UTC where it has no zone; else None."""
    if _MOMENT.fullmatch(text) is None:
        return None
    when = datetime.fromisoformat(text)
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def _check_status(parts: Mapping[str, object]) -> None:
    """A search finds published rows alone: a filter may say so, and nothing else."""
    if "status" not in parts:
        return
    if any(name != "published" for name in _each(parts["status"])):
        raise InvalidFilter(
            "status: a search finds published entries only",
            remedy="leave it out; `lastro kb list --status` shows the others",
        )
    _list(parts["status"], "status")


def _types(said: object) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in _each(said)):
        raise InvalidFilter("types: a type is a text", remedy='write {"types": ["dress"]}')
    return tuple(str(name) for name in _list(said, "types"))


def _contains(parts: Mapping[str, object]) -> Iterator[Contains]:
    for kind in KINDS:
        if kind in parts:
            for key, values in _clauses(parts[kind], kind):
                yield Contains(kind, key, _list(values, f"{kind}.{key}"))


def _ranges(said: object) -> Iterator[Range]:
    for key, bounds in _clauses(said, "range"):
        where = f"range.{key}"
        given = _object(bounds, where)
        if not given or given.keys() - set(OPERATORS):
            raise InvalidFilter(
                f"{where} has to have some of {', '.join(OPERATORS)}",
                remedy='write {"range": {"price": {"gte": 10, "lt": 20}}}',
            )
        made = tuple(
            Bound(operator, _bound(given[operator], f"{where}.{operator}"))
            for operator in OPERATORS
            if operator in given
        )
        if len({isinstance(bound.value, Moment) for bound in made}) > 1:
            raise InvalidFilter(
                f"{where} goes from a number to a date", remedy="give both ends as one kind"
            )
        yield Range(key, made)


def _bound(said: object, where: str) -> int | float | Moment:
    if isinstance(said, str):
        when = parse_moment(said)
        if when is not None:
            return Moment(when)
    elif not isinstance(said, bool) and isinstance(said, int | float) and _is_kept(said):
        return said
    raise InvalidFilter(
        f"{where} is no number, date or time: {_shown(said)}",
        remedy="write a date as 2026-01-31 or 2026-01-31T12:00:00Z",
    )


def _clauses(said: object, part: str) -> Iterator[tuple[str, object]]:
    clauses = _object(said, part)
    if not clauses:
        raise InvalidFilter(f"{part} is empty", remedy="leave it out, or name an attribute in it")
    for key, value in clauses.items():
        _check_text(key, f"a name in {part}")
        yield key, value


def _each(said: object) -> list[object]:
    """One value or a list of them."""
    return list(cast("list[object]", said)) if isinstance(said, list | tuple) else [said]


def _list(said: object, where: str) -> tuple[Scalar, ...]:
    """The values that a filter names. Errors: InvalidFilter for none and for what is no value."""
    values = _each(said)
    if not values:
        raise InvalidFilter(
            f"{where}: an empty list matches nothing", remedy="leave it out to ask for no value"
        )
    if len(values) > MAX_VALUES:
        raise InvalidFilter(f"{where} has more than {MAX_VALUES:,} values", remedy="give fewer")
    for value in values:
        _check_value(value, where)
    return tuple(cast("list[Scalar]", values))


def _check_value(value: object, where: str) -> None:
    if isinstance(value, str):
        _check_text(value, where)
    elif not isinstance(value, int | float) or not _is_kept(value):
        raise InvalidFilter(
            f"{where}: {_shown(value)} is no text, number, true or false",
            remedy="`allow` and `forbid` let entries through that do not have the attribute",
        )


def _is_kept(number: float) -> bool:
    """Whether JSON and PostgreSQL both keep the number; an entry can hold no other."""
    is_finite = isinstance(number, int) or math.isfinite(number)
    return is_finite and abs(number) <= MAX_NUMBER


def _shown(value: object) -> str:
    """A value in a message, on a part of a line."""
    if isinstance(value, int) and not _is_kept(value):
        return "so large a number"  # Python refuses to write some of them
    said = "null" if value is None else repr(value)
    return shorten(said, width=SHOWN_CHARS, placeholder="…")


def _check_text(text: str, where: str) -> None:
    if storable(text) != text:
        raise InvalidFilter(
            f"{where} has a character that no entry holds: NUL, or half of a pair",
            remedy="leave it out",
        )


def _object(said: object, where: str) -> dict[str, object]:
    if not isinstance(said, Mapping):
        raise InvalidFilter(
            f"{where} is no JSON object", remedy='write {"types": ["dress"]}, for example'
        )
    found = dict(cast("Mapping[object, object]", said))
    if not all(isinstance(key, str) for key in found):
        raise InvalidFilter(f"{where} has a name that is no text", remedy="write names as texts")
    return cast("dict[str, object]", found)
