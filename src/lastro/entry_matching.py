"""The filter language over one entry in Python, as ``filters`` says it in SQL. Pure.

Both follow docs/reference/filters.md; a test holds that they agree.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import reduce
from operator import ge, gt, le, lt
from typing import Any, TypeVar, assert_never, cast

from lastro.entry_filter import Bound, Contains, EntryFilter, Moment, Range, parse_moment

T = TypeVar("T")

# Equal to another where JSON says so: 1 is 1.0, and neither "1" nor true.
Token = str | int | Decimal | tuple[str, object]
_COMPARED = {"gte": ge, "gt": gt, "lte": le, "lt": lt}


class Held:
    """One entry as filters look at it; a value is read once, however many of them ask for it."""

    __slots__ = ("_attributes", "_tokens", "type_")

    def __init__(self, type_: str | None, attributes: Mapping[str, Any]) -> None:
        self.type_ = type_
        self._attributes = attributes
        self._tokens: dict[str, frozenset[Token]] = {}

    def value(self, key: str) -> Any:
        """An attribute as it is; None where there is none."""
        return self._attributes.get(key)

    def tokens(self, key: str) -> frozenset[Token]:
        """The values of an attribute: a single one is a list of one, and none is none."""
        found = self._tokens.get(key)
        if found is None:
            value = self.value(key)
            values = cast("list[object]", value) if isinstance(value, list) else [value]
            found = self._tokens[key] = _tokens([] if value is None else values)
        return found


Matcher = Callable[[Held], bool]


def matcher_of(entries: EntryFilter) -> Matcher:
    """What tells whether an entry meets every clause of a filter."""
    clauses = [*map(_contains, entries.contains), *map(_in_range, entries.ranges)]
    if entries.types is not None:
        clauses.insert(0, _of_type(entries.types))
    return reduce(_both, clauses)


def _both(first: Callable[[T], bool], second: Callable[[T], bool]) -> Callable[[T], bool]:
    """Both of them: twice as fast as ``all`` over a list."""
    return lambda of: first(of) and second(of)


def asks_for(asked: EntryFilter | None, wanted: EntryFilter) -> bool:
    """Whether the filter of a search asks for all that ``wanted`` names.

    For each clause of ``wanted`` it has one of the same part and attribute that shares a value; a
    range is shared where each bound of ``wanted`` is one of its bounds.
    """
    if asked is None:
        return False
    return (
        (wanted.types is None or not {*wanted.types}.isdisjoint(asked.types or ()))
        and all(any(_shares(clause, one) for one in asked.contains) for clause in wanted.contains)
        and all(any(_same_range(span, one) for one in asked.ranges) for span in wanted.ranges)
    )


def _of_type(types: tuple[str, ...]) -> Matcher:
    return lambda held: held.type_ in types


def _contains(clause: Contains) -> Matcher:
    key, wanted = clause.key, _tokens(clause.values)
    match clause.kind:
        case "require":
            return lambda held: wanted <= held.tokens(key)
        case "allow":
            return lambda held: not held.tokens(key) or not wanted.isdisjoint(held.tokens(key))
        case "forbid":
            return lambda held: wanted.isdisjoint(held.tokens(key))
        case "equals":
            return lambda held: (
                not isinstance(held.value(key), list) and not wanted.isdisjoint(held.tokens(key))
            )
        case _:
            assert_never(clause.kind)


def _in_range(span: Range) -> Matcher:
    """Whether a value is of the bounds' kind, a number or a date, and between them."""
    key = span.key
    read = _moment if isinstance(span.bounds[0].value, Moment) else _number
    within = reduce(_both, map(_beyond, span.bounds))

    def is_between(held: Held) -> bool:
        found = read(held.value(key))
        return found is not None and within(found)

    return is_between


def _beyond(bound: Bound) -> Callable[[Any], bool]:
    compare, end = _COMPARED[bound.operator], _comparable(bound)
    return lambda found: compare(found, end)


def _moment(value: object) -> Any:
    return parse_moment(value) if isinstance(value, str) else None


def _number(value: object) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _exact(value)


def _comparable(bound: Bound) -> Any:
    return bound.value.when if isinstance(bound.value, Moment) else _exact(bound.value)


def _shares(wanted: Contains, asked: Contains) -> bool:
    return (wanted.kind, wanted.key) == (asked.kind, asked.key) and not _tokens(
        wanted.values
    ).isdisjoint(_tokens(asked.values))


def _same_range(wanted: Range, asked: Range) -> bool:
    def ends(span: Range) -> set[tuple[str, object]]:
        return {(bound.operator, _comparable(bound)) for bound in span.bounds}

    return wanted.key == asked.key and ends(wanted) <= ends(asked)


def _tokens(values: Iterable[object]) -> frozenset[Token]:
    return frozenset(map(_token, values))


def _token(value: object) -> Token:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, int | float):
        return _exact(value)
    return "other", repr(value)


def _exact(number: float) -> int | Decimal:
    """A number as JSON writes it and PostgreSQL keeps it: 1e23 is not the double nearest to it."""
    return Decimal(repr(number)) if isinstance(number, float) else number
