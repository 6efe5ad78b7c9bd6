"""``lastro export`` and ``lastro import``: a project as a file of JSON lines."""

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.options import Format, FormatOption
from lastro.cli.output import escaped, forget, print_data, print_json, print_warning
from lastro.cli.reading import STREAM, opened
from lastro.cli.tables import lacking
from lastro.config import load_settings
from lastro.errors import EXIT_FAILED, Conflict, InvalidInput
from lastro.wire import to_json

WANTED = "give a file that `lastro export` wrote"
READABLE = f"{WANTED} and you may read"
NoVectorsOption = Annotated[bool, typer.Option("--no-vectors", help="Texts alone.")]


def export(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="The project's name.")],
    file: Annotated[
        Path, typer.Argument(metavar="[FILE]", help="A new file; by default stdout.")
    ] = STREAM,
    *,
    no_vectors: NoVectorsOption = False,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Write a project as JSON Lines, to be imported elsewhere."""
    with build(load_settings()) as app:
        app.sources(project)  # it is there, or no file is made
        with _written(file) as stream:
            exported = app.export_project(project, stream.write, vectors=not no_vectors)
    if file == STREAM:
        return
    if format_ is Format.JSON:
        print_json(to_json(exported))
    else:
        print_data(
            [Text(f"{_amount(exported.documents, exported.chunks)} in {escaped(str(file))}")]
        )


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `lastro export` wrote; - is stdin.")
    ],
    *,
    project: Annotated[
        str | None,
        typer.Option(
            "--project",
            metavar="NEW",
            help="A new name; by default the one in the file.",
            show_default=False,
        ),
    ] = None,
    no_vectors: NoVectorsOption = False,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Store an exported project, whole or not at all."""
    with build(load_settings()) as app, opened(file, wanted=WANTED, readable=READABLE) as stream:
        imported = app.import_project(stream, project=project, vectors=not no_vectors)
    embedding = imported.embedding
    if embedding.reason is not None:
        print_warning(
            f"{lacking(embedding.skipped, embedding.reason)}; complete them with "
            f"`lastro index --repair --project {imported.project}`"
        )
    if format_ is Format.JSON:
        print_json(to_json(imported))
    else:
        amount = _amount(imported.documents, imported.chunks)
        print_data([Text.assemble("project ", (escaped(imported.project), "bold"), f": {amount}")])


def _amount(documents: int, chunks: int) -> str:
    return f"{documents} documents, {chunks} chunks"


@contextlib.contextmanager
def _written(file: Path) -> Generator[BinaryIO]:
    """A new file, which has its name only when it is whole. Errors: Conflict, InvalidInput.

    A reader of stdout who leaves early has no whole project: the command ends, as a failure.
    """
    if file == STREAM:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            forget(sys.stdout)
            raise typer.Exit(EXIT_FAILED) from None
        return
    if file.exists():
        raise Conflict(f"{file} exists already", remedy="name another file")
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.rename(file)
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be written: {error.strerror}",
            remedy="name a file in a folder that is there and yours",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
