"""Options that several commands share."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from lastro.errors import InvalidFilter, InvalidInput
from lastro.json_lines import each_key_once


class Format(StrEnum):
    """How a command prints its data."""

    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="For people or for programs.")]
ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project",
        metavar="P",
        help="Name of the project; by default the one this folder was indexed as, "
        "else the folder's name.",
        show_default=False,
    ),
]
KOption = Annotated[int, typer.Option("-k", metavar="N", help="Number of hits.")]
ScopeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="S",
        help="docs, adr, session or entity; may be repeated.",
        show_default=False,
    ),
]
PathOption = Annotated[
    str | None,
    typer.Option(
        "--path", metavar="PREFIX", help="Only files whose path begins so.", show_default=False
    ),
]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter", metavar="JSON", help="Only entries with such attributes.", show_default=False
    ),
]
ProfileOption = Annotated[str, typer.Option("--profile", metavar="NAME", help="Ranking profile.")]
BackgroundOption = Annotated[
    bool, typer.Option("--background", help="Let a worker do it; prints the job.")
]
PlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="[PATH]", help="A Git repository, its address on a server, or a folder."
    ),
]


def filter_of(text: str | None) -> Mapping[str, Any] | None:
    """The JSON of ``--filter``. Errors: InvalidFilter."""
    if text is None:
        return None
    try:
        said = json.loads(text, object_pairs_hook=each_key_once)
    except InvalidInput as error:
        raise InvalidFilter(
            f"--filter: {error.message}",
            remedy='name each part once, with all of its attributes: {"forbid": {"a": 1, "b": 2}}',
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidFilter(
            f"--filter is not JSON: {error}", remedy="""write it as '{"types": ["dress"]}'"""
        ) from error
    if said is None:
        # What filled it in had nothing to say, and everything is not what was meant.
        raise InvalidFilter("--filter is null", remedy="leave it out to search without a filter")
    return said
