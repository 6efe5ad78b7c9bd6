"""``lastro golden``: questions with judged answers, kept in a project."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import (
    escaped,
    print_data,
    print_json,
    print_json_lines,
    print_warning,
    screen_width,
)
from lastro.cli.tables import moment, short, table
from lastro.config import load_settings
from lastro.errors import Conflict, InvalidInput
from lastro.golden import (
    DEFAULT_DRAFTS,
    GoldenSet,
    dump_golden,
    golden_json,
    question_json,
)
from lastro.types import GoldenCounts, GoldenImport
from lastro.wire import to_json

app = typer.Typer(help="Questions with judged answers, kept in a project.")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A golden set in JSON Lines.")],
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="What to call the set; by default as the file.",
            show_default=False,
        ),
    ] = None,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Store a golden set; a changed content is a new version, the same one changes nothing."""
    with build(load_settings()) as lastro:
        report = lastro.golden_sets(project).import_file(file, name=name)
    for missing in report.not_indexed:
        print_warning(f"{missing.id}: nothing is indexed at {missing.place}")
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        print_data(_imported(report))


def _imported(report: GoldenImport) -> Iterator[Text]:
    state = "imported" if report.imported else "unchanged"
    yield Text.assemble(
        "golden set ",
        (escaped(report.name), "bold"),
        f" version {report.version} {state}, {short(report.content_hash)}",
    )
    yield Text(f"questions  {_counts(report.counts)}")


def _counts(counts: GoldenCounts) -> str:
    return (
        f"{counts.questions}: {counts.human} human, {counts.derived} derived; "
        f"{counts.unanswerable} unanswerable"
    )


@app.command("export")
def export(
    reference: Annotated[
        str,
        typer.Argument(metavar="NAME[@HASH]", help="A set, or the version with this hash."),
    ],
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Print a golden set as JSON Lines, ready to be imported again."""
    with build(load_settings()) as lastro:
        golden = lastro.golden_sets(project).get(reference)
    _print_set(golden, format_)


def _print_set(golden: GoldenSet, format_: Format) -> None:
    if format_ is Format.JSON:
        print_json(golden_json(golden))
    else:
        print_json_lines(map(question_json, golden.questions))


@app.command("list")
def list_(*, project: ProjectOption = None, format_: FormatOption = Format.TABLE) -> None:
    """List a project's golden sets with every version, the newest first."""
    with build(load_settings()) as lastro:
        found = lastro.golden_sets(project).list()
    if format_ is Format.JSON:
        print_json({"goldenSets": to_json(found)})
        return
    rows = [
        (
            summary.name,
            summary.version,
            short(summary.content_hash),
            summary.counts.human,
            summary.counts.derived,
            summary.counts.unanswerable,
            ", ".join(summary.languages),
            moment(summary.imported_at),
        )
        for summary in found
    ]
    header = (
        "set", "version", "hash", "human", "derived", "unanswerable", "languages", "imported at",
    )  # fmt: skip
    nothing = "no golden set yet; store one with `lastro golden import FILE`"
    print_data(table(header, rows, width=screen_width(), keys=2) if rows else [nothing])


@app.command("rm")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The set.")],
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Remove a golden set with all its versions."""
    with build(load_settings()) as lastro:
        removed = lastro.golden_sets(project).remove(name)
    if format_ is Format.JSON:
        print_json({"name": name, "versions": removed})
    else:
        versions = f"{removed} {'version' if removed == 1 else 'versions'}"
        print_data([Text.assemble("removed ", (escaped(name), "bold"), f", {versions}")])


@app.command("suggest")
def suggest(
    *,
    project: ProjectOption = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="At most so many drafts.")
    ] = DEFAULT_DRAFTS,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", help="Another seed draws other drafts.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the drafts to a new file; by default they are printed.",
            show_default=False,
        ),
    ] = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Draft questions from headings, link texts and records; each is marked as derived."""
    with build(load_settings()) as lastro:
        golden = lastro.golden_sets(project).suggest(limit=limit, seed=seed)
    if out is not None:
        _write_new(out, dump_golden(golden))
    print_warning(
        f"{len(golden.questions)} drafts, derived from the texts that answer them: "
        "rephrase what a person would not ask, and take out `derived` where you did"
    )
    if out is None:
        _print_set(golden, format_)
    elif format_ is Format.JSON:
        print_json({"file": str(out), "questions": len(golden.questions)})
    else:
        print_data([Text(f"{len(golden.questions)} drafts written to {escaped(str(out))}")])


def _write_new(file: Path, text: str) -> None:
    """Write a file that does not exist yet: drafts that somebody corrected are not drawn again."""
    try:
        with file.open("x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise Conflict(f"{file} exists already", remedy="name another file with --out") from error
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be written: {error.strerror}",
            remedy="name a file in a folder that is there and yours",
        ) from error
