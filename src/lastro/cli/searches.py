"""``lastro searches``: what was searched for, and how it went."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from textwrap import shorten
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.hits import FAINT, INDENT
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import escaped, print_data, print_json
from lastro.cli.tables import counted, moment
from lastro.config import load_settings
from lastro.logged_search import LISTED_SEARCHES, LoggedSearch
from lastro.moments import parse_since
from lastro.wire import to_json

# A question may be as long as a page; JSON has it whole, and the hash too.
SHOWN_QUERY_CHARS = 200
SHORT_HASH_CHARS = 12


def searches(
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="Only those answered since a date, or within a span such as 7d.",
            show_default=False,
        ),
    ] = None,
    slow_ms: Annotated[
        float | None,
        typer.Option(
            "--slow",
            metavar="MS",
            help="Only those that took so many milliseconds or more.",
            show_default=False,
        ),
    ] = None,
    degraded: Annotated[
        bool, typer.Option("--degraded", help="Only those whose answer was less than it should be.")
    ] = False,
    abstained: Annotated[
        bool, typer.Option("--abstained", help="Only those where nothing was evidence enough.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="At most so many.")
    ] = LISTED_SEARCHES,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """List a project's searches that were answered, the newest first."""
    after = None if since is None else parse_since(since, now=datetime.now(UTC))
    with build(load_settings()) as lastro:
        found = lastro.searches(project).list(
            since=after, slow_ms=slow_ms, degraded=degraded, abstained=abstained, limit=limit
        )
    if format_ is Format.JSON:
        print_json({"searches": to_json(found)})
    else:
        print_data(_listed(found) if found else ["no search"])


def _listed(found: Sequence[LoggedSearch]) -> Iterator[Text]:
    for search in found:
        said = [f"{counted(search.hit_count, 'hit')} in {search.took_ms:.0f} ms"]
        said += ["abstained"] if search.abstained else []
        said += search.degraded
        yield Text.assemble((moment(search.at) or "", "bold"), f"  {', '.join(said)}")
        if search.query is not None:
            shown = shorten(escaped(search.query), width=SHOWN_QUERY_CHARS, placeholder=" …")
            yield Text(INDENT + shown)
        elif search.query_hash is not None:
            yield Text(f"{INDENT}question {search.query_hash[:SHORT_HASH_CHARS]}")
        yield Text(INDENT + ", ".join(_asked_in(search)), style=FAINT)


def _asked_in(search: LoggedSearch) -> Iterator[str]:
    yield f"k {search.k}"
    if search.scopes is not None:
        yield f"in {', '.join(search.scopes)}"
    if search.filtered:
        yield "filtered"
    if search.next_page:
        yield "a further page"
    yield f"profile {escaped(search.profile)}"
