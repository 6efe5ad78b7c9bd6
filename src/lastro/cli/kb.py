"""``lastro kb``: the entries of a knowledge base."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.erasing import YesOption, erase_documents
from lastro.cli.keeping import counted, print_removed, warn_of_refused
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import (
    escaped,
    print_data,
    print_json,
    print_json_lines,
    print_warning,
    progress_bar,
    screen_width,
    visible,
)
from lastro.cli.reading import opened
from lastro.cli.tables import lacking, moment, pairs, table
from lastro.config import load_settings
from lastro.entity import STATUSES, Entity, EntityReport, entity_json
from lastro.errors import EXIT_DONE, InvalidInput
from lastro.wire import to_json

app = typer.Typer(help="Entries of a knowledge base, kept in a project.")
WANTED = "give a file with an entry on each line"
READABLE = "give a file of entries that you may read"
# Entries printed at once.
PRINTED_ENTRIES = 100


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Entries in JSON Lines; - is stdin.")
    ],
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Store nothing if any line is no entry.")
    ] = False,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Store entries over those of the same keys; returns when they can be searched."""
    with (
        opened(file, wanted=WANTED, readable=READABLE) as lines,
        build(load_settings()) as lastro,
        progress_bar("storing") as shown,
    ):
        report = lastro.entities(project).import_lines(lines, strict=strict, progress=shown)
    code = warn_of_refused(report.entries.refused)
    if report.embedding.reason is not None:
        print_warning(
            f"{lacking(report.embedding.skipped, report.embedding.reason)}; "
            "complete them by importing the file again"
        )
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        print_data(_stored(report))
    return code


def _stored(report: EntityReport) -> Iterator[Text]:
    yield Text.assemble("project ", (escaped(report.project), "bold"))
    yield Text(f"entries    {counted(report.entries)}")
    yield Text(
        f"chunks     {report.chunks} in all; {report.embedding.embedded} embedded, "
        f"{report.embedding.skipped} left without a vector"
    )
    yield Text(f"took       {report.took_ms / 1000:.1f} s")


@app.command("export")
def export(*, project: ProjectOption = None, format_: FormatOption = Format.TABLE) -> None:
    """Print the entries of any status as JSON Lines, ready to be imported again."""
    with build(load_settings()) as lastro:
        entities = lastro.entities(project).export()
        if format_ is Format.JSON:
            print_json({"entries": [entity_json(entity) for entity in entities]})
            return
        while some := list(islice(entities, PRINTED_ENTRIES)):
            print_json_lines(map(entity_json, some))


@app.command("list")
def list_(
    *,
    type_: Annotated[
        str | None,
        typer.Option("--type", metavar="T", help="Only entries of this type.", show_default=False),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status", metavar="S", help="draft, published or archived.", show_default=False
        ),
    ] = None,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """List the entries of a project by key."""
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"there is no status {status!r}", remedy=f"use {', '.join(STATUSES)}")
    with build(load_settings()) as lastro:
        found = lastro.entities(project).list(type_=type_, status=status)
    if format_ is Format.JSON:
        print_json({"entries": to_json(found)})
        return
    rows = [
        (e.key, e.type, e.status, e.title, e.chunks, e.complete, moment(e.updated_at))
        for e in found
    ]
    header = ("key", "type", "status", "title", "chunks", "complete", "updated at")
    nothing = "no such entry; store some with `lastro kb import FILE`"
    print_data(table(header, rows, width=screen_width()) if rows else [nothing])


@app.command("get")
def get(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The entry.")],
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Show an entry of any status, whole."""
    with build(load_settings()) as lastro:
        entity = lastro.entities(project).get(key)
    if format_ is Format.JSON:
        print_json(entity_json(entity))
    else:
        print_data(_shown(entity))


def _shown(entity: Entity) -> Iterator[Text]:
    said = {name: value for name, value in entity_json(entity).items() if name != "attributes"}
    text = said.pop("text")
    yield pairs({**said, **{f"attributes.{name}": v for name, v in entity.attributes.items()}})
    yield Text()
    yield Text(visible(text))


@app.command("rm")
def remove(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="The entries.")],
    *,
    erase: Annotated[
        bool, typer.Option("--erase", help="For good: from caches, golden sets and runs too.")
    ] = False,
    yes: YesOption = False,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Delete entries with their chunks, or erase them for good."""
    with build(load_settings()) as lastro:
        if erase:
            erase_documents(lastro, keys, kind="entity", project=project, yes=yes, format_=format_)
            return EXIT_DONE
        removed = lastro.entities(project).remove(keys)
    return print_removed(removed, keys, noun="entry", format_=format_)
