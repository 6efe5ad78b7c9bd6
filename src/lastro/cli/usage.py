"""``lastro usage``: what embedding cost, and what budgets leave."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.options import Format, FormatOption
from lastro.cli.output import print_data, print_json, screen_width
from lastro.cli.tables import moment, table
from lastro.config import load_settings
from lastro.moments import parse_since
from lastro.usage import Usage
from lastro.wire import to_json


def usage(
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="Since a date, or within a span such as 7d; by default this month.",
            show_default=False,
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            "--project",
            metavar="P",
            help="Only this project; by default everything.",
            show_default=False,
        ),
    ] = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Show what embedding cost: calls, texts, tokens, time and money."""
    after = None if since is None else parse_since(since, now=datetime.now(UTC))
    with build(load_settings()) as lastro:
        found = lastro.usage(since=after, project=project)
    if format_ is Format.JSON:
        print_json(to_json(found))
    else:
        print_data(_lines(found))


def _lines(found: Usage) -> Iterator[str | Text]:
    if not found.usage:
        yield f"nothing was embedded since {moment(found.since)}"
    else:
        header = (
            "project",
            "embedder",
            "for",
            "calls",
            "texts",
            "characters",
            "tokens",
            "s",
            "cost",
        )
        rows = [
            (
                line.project,
                line.embedder,
                line.role,
                line.calls,
                line.texts,
                line.characters,
                line.tokens,
                round(line.duration_ms / 1000, 1),
                _money(line.cost),
            )
            for line in found.usage
        ]
        yield from table(header, rows, width=screen_width(), keys=2)
    if found.spent:
        yield ""
        header = ("project", "month", "spent", "budget")
        rows = [(s.project, s.month, _money(s.spent), _money(s.budget)) for s in found.spent]
        yield from table(header, rows)


def _money(amount: float | None) -> str | None:
    return None if amount is None else f"{amount:.6f}".rstrip("0").rstrip(".")
