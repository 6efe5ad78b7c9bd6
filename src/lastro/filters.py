"""Hard filters to one parametrised predicate, applied inside every leg. Pure.

The view that both legs read keeps published rows of the visible projects only; what is compiled
here narrows it further. Keys and values are always parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Composable

from lastro.errors import InvalidFilter
from lastro.types import SCOPES, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class HardFilter:
    """What a search may see: one project, any of ``scopes``, paths that begin with a prefix.

    None means no restriction; an empty list is refused rather than read as either extreme.
    """

    project_id: int
    scopes: tuple[Scope, ...] | None = None
    path_prefix: str | None = None


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
    conditions = [SQL("project_id = %(project_id)s::bigint")]
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
    return Predicate(SQL(" AND ").join(conditions), parameters, narrows=len(conditions) > 1)
