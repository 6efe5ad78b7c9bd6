"""``lastro gaps``: questions that found nothing, and what becomes of them."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from textwrap import shorten
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.hits import FAINT, INDENT, number, place_of, short_gap
from lastro.cli.jobs import print_deferred
from lastro.cli.options import (
    BackgroundOption,
    Format,
    FormatOption,
    ProfileOption,
    ProjectOption,
)
from lastro.cli.output import escaped, print_data, print_json, print_warning, progress_bar
from lastro.cli.tables import moment
from lastro.config import load_settings
from lastro.errors import EXIT_DONE, EXIT_PARTIAL, InvalidInput
from lastro.gap import GOLDEN_NAME, LISTED_GAPS, Gap
from lastro.moments import parse_since
from lastro.wire import to_json

app = typer.Typer(help="Questions that found nothing, counted.")
# A question may be as long as a page; JSON has it whole.
SHOWN_QUERY_CHARS = 200


@app.callback(invoke_without_command=True)
def gaps(
    context: typer.Context,
    *,
    open_: Annotated[
        bool, typer.Option("--open", help="Only those that wait for an answer.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="Only those asked since a date, or within a span such as 7d.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="At most so many.")
    ] = LISTED_GAPS,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """List a project's gaps, those asked most often first."""
    if context.invoked_subcommand is not None:
        return
    after = None if since is None else parse_since(since, now=datetime.now(UTC))
    with build(load_settings()) as lastro:
        found = lastro.gaps(project).list(
            status="open" if open_ else None, since=after, limit=limit
        )
    if format_ is Format.JSON:
        print_json({"gaps": to_json(found)})
    else:
        print_data(_listed(found) if found else ["no gap"])


def _listed(found: Sequence[Gap]) -> Iterator[Text]:
    for gap in found:
        times = f"{gap.hit_count} {'time' if gap.hit_count == 1 else 'times'}"
        last = f"last {moment(gap.last_seen)}"
        query = shorten(escaped(gap.query), width=SHOWN_QUERY_CHARS, placeholder=" …")
        yield Text.assemble((short_gap(gap.id), "bold"), f"  {gap.status}, {times}, {last}")
        yield Text(INDENT + query)
        if gap.filter:
            asked_in = json.dumps(gap.filter, ensure_ascii=False)
            yield Text(f"{INDENT}in {escaped(asked_in)}", style=FAINT)
        if gap.nearest is not None:
            place, _section = place_of(gap.nearest.origin)
            score = number(gap.nearest.score)
            yield Text(f"{INDENT}nearest {place}, score {score}", style=FAINT)


@app.command("dismiss")
def dismiss(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The gaps.")],
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Close gaps that need no answer; they are counted on."""
    with build(load_settings()) as lastro:
        report = lastro.gaps(project).dismiss(ids)
    _warn_of_unknown(report.unknown)
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        print_data([Text(f"dismissed {short_gap(id_)}") for id_ in report.dismissed])
    return EXIT_PARTIAL if report.unknown else EXIT_DONE


@app.command("reopen")
def reopen(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The gaps.")],
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Let gaps wait for an answer again that were dismissed or resolved."""
    with build(load_settings()) as lastro:
        report = lastro.gaps(project).reopen(ids)
    _warn_of_unknown(report.unknown)
    for id_ in report.accepted:
        print_warning(f"{short_gap(id_)} stays accepted: a golden set asks it")
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        print_data([Text(f"reopened {short_gap(id_)}") for id_ in report.reopened])
    return EXIT_PARTIAL if report.unknown or report.accepted else EXIT_DONE


@app.command("resolve")
def resolve(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID...]", help="The gaps; by default every open one."),
    ] = None,
    *,
    profile: ProfileOption = "default",
    background: BackgroundOption = False,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Ask gaps again, and close those that are answered now."""
    if background:
        _defer(ids, profile=profile, project=project, format_=format_)
        return EXIT_DONE
    with build(load_settings()) as lastro, progress_bar("asking") as progress:
        report = lastro.gaps(project).resolve(ids or None, profile=profile, progress=progress)
    _warn_of_unknown(report.unknown)
    for reason, count in report.degraded.items():
        print_warning(f"{reason}: {count} could not be told")
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        closed = [Text(f"resolved {short_gap(id_)}") for id_ in report.resolved]
        print_data([*closed, Text(f"{report.remaining} open")])
    return EXIT_PARTIAL if report.unknown else EXIT_DONE


def _defer(ids: list[str] | None, *, profile: str, project: str | None, format_: Format) -> None:
    if ids or profile != "default":
        raise InvalidInput(
            "--background asks every open gap again, with the default profile",
            remedy="leave ids and --profile out, or --background",
        )
    with build(load_settings()) as lastro:
        print_deferred(lastro, lastro.jobs(project).defer("gaps"), format_)


@app.command("accept")
def accept(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The gap.")],
    *,
    place: Annotated[
        list[str] | None,
        typer.Option(
            "--place",
            metavar="PLACE",
            help="Where the answer is: path, path#section, path:10-20 or an entry's key; "
            "may be repeated.",
            show_default=False,
        ),
    ] = None,
    unanswerable: Annotated[
        bool, typer.Option("--unanswerable", help="Nothing here is to answer it.")
    ] = False,
    grade: Annotated[
        int, typer.Option("--grade", metavar="N", help="How well the place answers it.")
    ] = 1,
    golden: Annotated[
        str, typer.Option("--golden", metavar="NAME", help="The golden set.")
    ] = GOLDEN_NAME,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="L",
            help="Language of the question; by default it is found.",
            show_default=False,
        ),
    ] = None,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Make a gap a question of a golden set."""
    with build(load_settings()) as lastro:
        report = lastro.gaps(project).accept(
            id_,
            place or (),
            unanswerable=unanswerable,
            grade=grade,
            golden=golden,
            language=language,
        )
    for missing in report.not_indexed:
        print_warning(f"nothing is indexed at {missing}")
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        kept = f"{escaped(report.golden)} version {report.version}"
        print_data([Text(f"accepted {short_gap(report.id)} into the golden set {kept}")])


def _warn_of_unknown(ids: Sequence[str]) -> None:
    for id_ in ids:
        print_warning(f"there is no gap {id_}")
