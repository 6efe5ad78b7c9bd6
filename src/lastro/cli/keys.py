"""``lastro keys``: who may ask the HTTP service, and what for."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import escaped, print_data, print_json, print_note, screen_width
from lastro.cli.tables import moment, pairs, table
from lastro.config import load_settings
from lastro.key import ApiKey, NewKey, RotatedKey
from lastro.moments import parse_until
from lastro.wire import to_json

app = typer.Typer(help="API keys: who may ask the HTTP service, and what for.")

SHOWN_ONCE = "keep it now: it is not shown again"


class RoleName(StrEnum):
    """What a key may do, from the least on; ``lastro.roles`` says what that is."""

    VIEWER = "viewer"
    EDITOR = "editor"
    MAINTAINER = "maintainer"
    ADMIN = "admin"


IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The key.")]
ExpiresOption = Annotated[
    str | None,
    typer.Option(
        "--expires", metavar="WHEN", help="End it at a date, or after a span such as 90d.",
        show_default=False,
    ),
]  # fmt: skip


@app.command("create")
def create(
    *,
    role: Annotated[RoleName, typer.Option("--role", help="What it may do.")],
    expires: ExpiresOption = None,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="TEXT", help="Who has it, say.", show_default=False),
    ] = None,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Make a key for a project; its text is shown this once."""
    ends = _until(expires)
    with build(load_settings()) as lastro:
        made = lastro.keys.create(
            lastro.project_name(project), role=role.value, expires_at=ends, label=label
        )
    _print_text(made, {"expires": moment(made.expires_at) or "never"}, format_=format_)


@app.command("list")
def list_(*, project: ProjectOption = None, format_: FormatOption = Format.TABLE) -> None:
    """List a project's keys, the newest first, without their secrets."""
    with build(load_settings()) as lastro:
        found = lastro.keys.list(lastro.project_name(project))
    if format_ is Format.JSON:
        print_json({"keys": to_json(found)})
        return
    nothing = "no key; make one with `lastro keys create --role viewer`"
    print_data(_listed(found) if found else [nothing])


def _listed(found: Sequence[ApiKey]) -> list[Text]:
    header = ("id", "role", "state", "label", "created", "expires", "last used")
    rows = [
        (
            key.id,
            key.role,
            key.state,
            key.label,
            moment(key.created_at),
            moment(key.expires_at),
            moment(key.last_used_at),
        )
        for key in found
    ]
    return list(table(header, rows, width=screen_width()))


@app.command("revoke")
def revoke(
    id_: IdArgument, *, project: ProjectOption = None, format_: FormatOption = Format.TABLE
) -> None:
    """Refuse a key from now on."""
    with build(load_settings()) as lastro:
        key = lastro.keys.revoke(lastro.project_name(project), id_)
    if format_ is Format.JSON:
        print_json(to_json(key))
    else:
        print_data([Text(f"revoked {key.id}")])


@app.command("rotate")
def rotate(
    id_: IdArgument,
    *,
    overlap: Annotated[
        str | None,
        typer.Option(
            "--overlap",
            metavar="WHEN",
            help="Take the former secret too, until a date or for a span such as 7d.",
            show_default=False,
        ),
    ] = None,
    expires: ExpiresOption = None,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Give a key another secret, shown this once; the former one ends at once."""
    former, ends = _until(overlap), _until(expires)
    with build(load_settings()) as lastro:
        made = lastro.keys.rotate(
            lastro.project_name(project), id_, former_until=former, expires_at=ends
        )
    said = {
        "expires": moment(made.expires_at) or "never",
        "former": f"taken until {moment(made.former_until)}" if made.former_until else "refused",
    }
    _print_text(made, said, format_=format_)


def _until(text: str | None) -> datetime | None:
    return None if text is None else parse_until(text, now=datetime.now(UTC))


def _print_text(made: NewKey | RotatedKey, ends: Mapping[str, Any], *, format_: Format) -> None:
    """Print a key's text, which alone is data that nobody can print again."""
    print_note(SHOWN_ONCE)
    if format_ is Format.JSON:
        print_json(to_json(made))
        return
    said = {"id": made.id, "project": escaped(made.project), "role": made.role, **ends}
    print_data([Text(made.key, style="bold"), pairs(said)])
