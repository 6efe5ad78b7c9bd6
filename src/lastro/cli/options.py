"""Options that several commands share."""

from enum import StrEnum
from typing import Annotated

import typer


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
        "--scope", metavar="S", help="docs, adr or entity; may be repeated.", show_default=False
    ),
]
PathOption = Annotated[
    str | None,
    typer.Option(
        "--path", metavar="PREFIX", help="Only files whose path begins so.", show_default=False
    ),
]
ProfileOption = Annotated[str, typer.Option("--profile", metavar="NAME", help="Ranking profile.")]
PlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="[PATH]", help="A Git repository, its address on a server, or a folder."
    ),
]
