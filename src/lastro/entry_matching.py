"""The filter language over one entry in Python, as ``filters`` says it in SQL. Pure.

Both follow docs/reference/filters.md; a property test holds that they agree.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any, assert_never, cast

from lastro.entry_filter import Bound, Contains, EntryFilter, Moment, Range, parse_moment

# A value that is equal to another where JSON says so: 1 is 1.0, and neither "1" nor true.
Token = tuple[str, object]
_COMPARED = {"gte": ge, "gt": gt, "lte": le, "lt": lt}


def lets_through(entries: EntryFilter, *, type_: str | None, attributes: Mapping[str, Any]) -> bool:
    """Whether an entry of this type and with these attributes meets every clause."""
    return (
        (entries.types is None or type_ in entries.types)
        and all(_contains(clause, attributes.get(clause.key)) for clause in entries.contains)
        and all(_in_range(span, attributes.get(span.key)) for span in entries.ranges)
    )


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


def _contains(clause: Contains, value: object) -> bool:
    held = _tokens(_values(value))
    wanted = _tokens(clause.values)
    match clause.kind:
        case "require":
            return wanted <= held
        case "allow":
            return not held or not wanted.isdisjoint(held)
        case "forbid":
            return wanted.isdisjoint(held)
        case "equals":
            return not isinstance(value, list) and not wanted.isdisjoint(held)
        case _:
            assert_never(clause.kind)


def _shares(wanted: Contains, asked: Contains) -> bool:
    return (wanted.kind, wanted.key) == (asked.kind, asked.key) and not _tokens(
        wanted.values
    ).isdisjoint(_tokens(asked.values))


def _same_range(wanted: Range, asked: Range) -> bool:
    return wanted.key == asked.key and {*map(_end, wanted.bounds)} <= {*map(_end, asked.bounds)}


def _end(bound: Bound) -> tuple[str, object]:
    return bound.operator, _comparable(bound.value)


def _in_range(span: Range, value: object) -> bool:
    """Whether a value is of the bounds' kind, a number or a date, and between them."""
    is_date = isinstance(span.bounds[0].value, Moment)
    found: Any = None
    if is_date:
        found = parse_moment(value) if isinstance(value, str) else None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = _exact(value)
    return found is not None and all(
        _COMPARED[bound.operator](found, _comparable(bound.value)) for bound in span.bounds
    )


def _comparable(value: float | Moment) -> Any:
    return value.when if isinstance(value, Moment) else _exact(value)


def _values(value: object) -> Sequence[object]:
    """The values of an attribute; a single one is a list of one, and none is none."""
    if value is None:
        return ()
    return cast("list[object]", value) if isinstance(value, list) else (value,)


def _tokens(values: Sequence[object]) -> frozenset[Token]:
    return frozenset(map(_token, values))


def _token(value: object) -> Token:
    if isinstance(value, str):
        return "text", value
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, int | float):
        return "number", _exact(value)
    return "other", repr(value)


def _exact(number: float) -> Decimal:
    """A number as JSON writes it and PostgreSQL keeps it: 1e23 is not the double nearest to it."""
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
