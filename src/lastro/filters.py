"""Hard filters to one parametrised predicate, applied inside every leg. Pure.

The view that both legs read keeps published rows of the visible projects only; what is compiled
here narrows it further. Keys and values are always parameters.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from psycopg.sql import SQL, Composable, Placeholder
from psycopg.types.json import Jsonb

from lastro.entry_filter import MOMENT, ZONE, Bound, Contains, EntryFilter, Moment, Scalar
from lastro.errors import InvalidFilter
from lastro.types import SCOPES, Scope

# What each kind of clause demands of an attribute, which may be missing: then it is SQL's null.
_CONTAINS = {
    "allow": SQL("coalesce({value} IN ('null', '[]') OR {value} @> ANY ({given}::jsonb[]), true)"),
    "forbid": SQL("NOT coalesce({value} @> ANY ({given}::jsonb[]), false)"),
    "equals": SQL("coalesce({value} = ANY ({given}::jsonb[]), false)"),
}
# What an entry must have is asked of all its attributes at once: chunks_attributes_idx finds that.
_HAS = SQL("attributes @> ANY ({given}::jsonb[])")
# Of more values one is sought by its hash, since each containment costs 0.4 µs a row: a thousand of
# them 370 µs, and the hash 2.
INDEXED_VALUES = 8
_COMPARED = {
    "gte": SQL("{value} >= {bound}"),
    "gt": SQL("{value} > {bound}"),
    "lte": SQL("{value} <= {bound}"),
    "lt": SQL("{value} < {bound}"),
}
# JSON numbers are compared as they are, since a cast could fail on another row's value.
_NUMBER = SQL("(coalesce(jsonb_typeof({value}) = 'number', false) AND {compared})")
# Nor is a text cast before it is known to be a date: CASE keeps that order.
_MOMENT = SQL(
    "CASE WHEN jsonb_typeof({value}) = 'string' AND {text} ~ {form} THEN {compared} ELSE false END"
)
_AS_MOMENT = SQL("({text} || CASE WHEN {text} ~ {zone} THEN '' ELSE ' UTC' END)::timestamptz")


@dataclass(frozen=True, slots=True, kw_only=True)
class HardFilter:
    """What a search may see: one project, any of ``scopes``, paths that begin with a prefix.

    ``entries`` says which entries of a knowledge base, by their type and attributes.
    None means no restriction; an empty list is refused rather than read as either extreme.
    """

    project_id: int
    scopes: tuple[Scope, ...] | None = None
    path_prefix: str | None = None
    entries: EntryFilter | None = None


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition over the columns of ``searchable`` and its parameters.

    ``narrows`` says whether it keeps less than the whole of its project.
    """

    condition: Composable
    parameters: dict[str, object]
    narrows: bool


def parse_scopes(names: Sequence[str] | None) -> tuple[Scope, ...] | None:
    """The scopes called ``names``, in the contract's order; None for None.

    Errors: InvalidFilter for an unknown name and for an empty list.
    """
    if names is None:
        return None
    unknown = sorted(set(names) - set(SCOPES))
    if unknown:
        raise InvalidFilter(
            f"unknown scope {', '.join(map(repr, unknown))}", remedy=f"use {', '.join(SCOPES)}"
        )
    if not names:
        raise InvalidFilter(
            "an empty list of scopes matches nothing", remedy="leave it out to search every scope"
        )
    return tuple(scope for scope in SCOPES if scope in names)


def compile_filter(hard: HardFilter) -> Predicate:
    """The predicate of ``hard``.

    Errors: InvalidFilter for an empty list of scopes or an empty prefix.
    """
    conditions: list[Composable] = [SQL("project_id = %(project_id)s::bigint")]
    parameters: dict[str, object] = {"project_id": hard.project_id}
    scopes = parse_scopes(hard.scopes)
    if scopes is not None:
        conditions.append(SQL("scope = ANY (%(scopes)s::text[])"))
        parameters["scopes"] = list(scopes)
    if hard.path_prefix is not None:
        prefix = hard.path_prefix.removeprefix("./")
        if not prefix or "\0" in prefix:
            raise InvalidFilter(
                f"path prefix {hard.path_prefix!r} matches no path",
                remedy="give a path such as docs/",
            )
        # ~>=~ compares bytes, whatever the collation, and uses chunks_path_idx.
        conditions.append(
            SQL(
                "source_path ~>=~ %(path_from)s::text"
                " AND starts_with(source_path, %(path_from)s::text)"
            )
        )
        parameters["path_from"] = prefix
    if hard.entries is not None:
        conditions.extend(_entry_conditions(hard.entries, parameters))
    return Predicate(
        SQL(" AND ").join(conditions),
        parameters,
        narrows=len(conditions) > 1,
    )


def _entry_conditions(entries: EntryFilter, parameters: dict[str, object]) -> Iterator[Composable]:
    """A condition for each clause; keys and values go into ``parameters``."""
    must_have = any(clause.kind in {"require", "equals"} for clause in entries.contains)
    if entries.types is not None or entries.ranges or must_have:
        # Nothing else has a type or an attribute; so the indexes of entries alone are used.
        yield SQL("scope = 'entity'")
    if entries.types is not None:
        parameters["types"] = list(entries.types)
        yield SQL("entity_type = ANY (%(types)s::text[])")
    for number, clause in enumerate(entries.contains):
        key, given = f"contains_{number}_key", f"contains_{number}_values"
        held = _held(clause)
        if held:
            parameters[given] = [Jsonb(one) for one in held]
            yield _HAS.format(given=Placeholder(given))
        else:
            parameters[key] = clause.key
            parameters[given] = [Jsonb(value) for value in clause.values]
            yield _CONTAINS[clause.kind].format(value=_attribute(key), given=Placeholder(given))
    for number, span in enumerate(entries.ranges):
        key = f"range_{number}_key"
        parameters[key] = span.key
        yield _in_range(span.bounds, parameters, key=key)


def _held(clause: Contains) -> list[Mapping[str, Scalar | Sequence[Scalar]]]:
    """Any of which the attributes contain if the clause holds; none where that is not asked so."""
    if clause.kind == "equals" and len(clause.values) <= INDEXED_VALUES:
        return [{clause.key: value} for value in clause.values]
    if clause.kind != "require":
        return []
    alone = len({_as_json_compares(value) for value in clause.values}) == 1
    whole: list[Mapping[str, Scalar | Sequence[Scalar]]] = [{clause.key: clause.values}]
    return [*whole, {clause.key: clause.values[0]}] if alone else whole


def _as_json_compares(value: Scalar) -> tuple[type, str | Decimal]:
    """Alike for values that are equal in JSON, where 1 is 1.0 and is not true."""
    if isinstance(value, str | bool):
        return type(value), str(value)
    return Decimal, Decimal(str(value))


def _in_range(bounds: Sequence[Bound], parameters: dict[str, object], *, key: str) -> Composable:
    value = _attribute(key)
    if not isinstance(bounds[0].value, Moment):
        return _NUMBER.format(value=value, compared=_compared(bounds, value, parameters, key=key))
    parameters |= {"moment": f"^{MOMENT}$", "zone": f"{ZONE}$"}
    text = SQL("(attributes ->> {}::text)").format(Placeholder(key))
    moment = _AS_MOMENT.format(text=text, zone=Placeholder("zone"))
    return _MOMENT.format(
        value=value,
        text=text,
        form=Placeholder("moment"),
        compared=_compared(bounds, moment, parameters, key=key),
    )


def _compared(
    bounds: Sequence[Bound], value: Composable, parameters: dict[str, object], *, key: str
) -> Composable:
    conditions: list[Composable] = []
    for bound in bounds:
        name = f"{key}_{bound.operator}"
        if isinstance(bound.value, Moment):
            parameters[name] = bound.value.when
            cast = SQL("{}::timestamptz")
        else:
            parameters[name] = Jsonb(bound.value)
            cast = SQL("{}::jsonb")
        given = cast.format(Placeholder(name))
        conditions.append(_COMPARED[bound.operator].format(value=value, bound=given))
    return SQL(" AND ").join(conditions)


def _attribute(key: str) -> Composable:
    return SQL("(attributes -> {}::text)").format(Placeholder(key))
