"""``lastro words``: a project's synonyms and protected terms."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.keeping import counted, print_removed, print_stored
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import escaped, print_data, print_json, screen_width
from lastro.cli.reading import opened
from lastro.cli.tables import table
from lastro.config import load_settings
from lastro.wire import to_json
from lastro.words import WordReport

app = typer.Typer(help="A project's own words: synonyms and protected terms.")
WANTED = "give a file with synonyms or a protected term on each line"
READABLE = "give a file of words that you may read"


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Words in JSON Lines; - is stdin.")],
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Store nothing if any line says nothing.")
    ] = False,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Add synonyms and protected terms; the next search knows them."""
    with (
        opened(file, wanted=WANTED, readable=READABLE) as lines,
        build(load_settings()) as lastro,
    ):
        report = lastro.words(project).import_lines(lines, strict=strict)
    return print_stored(report, _stored(report), refused=report.words.refused, format_=format_)


def _stored(report: WordReport) -> Iterator[Text]:
    yield Text.assemble("project ", (escaped(report.project), "bold"))
    yield Text(f"terms      {counted(report.words)}; {report.total} in all")


@app.command("list")
def list_(*, project: ProjectOption = None, format_: FormatOption = Format.TABLE) -> None:
    """List the terms of a project, with what else counts as each."""
    with build(load_settings()) as lastro:
        words = lastro.words(project).list()
    if format_ is Format.JSON:
        print_json({"words": to_json(words)})
        return
    rows = [(word.term, ", ".join(word.means), "yes" if word.protected else None) for word in words]
    nothing = "no words of its own; add some with `lastro words import FILE`"
    header = ("term", "means", "protected")
    print_data(table(header, rows, width=screen_width()) if rows else [nothing])


@app.command("rm")
def remove(
    terms: Annotated[list[str], typer.Argument(metavar="TERM...", help="The terms.")],
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Remove terms, and each of them from what others mean."""
    with build(load_settings()) as lastro:
        removed = lastro.words(project).remove(terms)
    return print_removed(removed, terms, noun="word", format_=format_)
