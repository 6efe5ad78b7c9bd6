"""``lastro projects`` and ``lastro documents``: what there is, and how it is erased."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import App, build
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import escaped, print_data, print_json, print_warning
from lastro.cli.tables import moment, short, table
from lastro.config import load_settings
from lastro.erasing import Erased, Kind
from lastro.errors import InvalidInput
from lastro.wire import to_json

projects_app = typer.Typer(help="List projects, or erase one.")
documents_app = typer.Typer(help="Erase single documents.")
_NOUNS: Mapping[Kind, tuple[str, str]] = {
    "file": ("document", "documents"),
    "session": ("session", "sessions"),
    "entity": ("entry", "entries"),
}
YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask; needed where there is no terminal.")
]


@projects_app.callback(invoke_without_command=True)
def projects(context: typer.Context, *, format_: FormatOption = Format.TABLE) -> None:
    """List the projects of the database."""
    if context.invoked_subcommand is not None:
        return
    with build(load_settings()) as app:
        found = app.projects()
    if format_ is Format.JSON:
        print_json({"projects": to_json(found)})
        return
    rows = [
        (
            p.slug,
            ", ".join(p.scopes),
            p.documents,
            p.chunks,
            short(p.revision),
            moment(p.indexed_at),
        )
        for p in found
    ]
    header = ("project", "scopes", "documents", "chunks", "revision", "indexed at")
    print_data(table(header, rows) if rows else ["no project yet; make one with `lastro index`"])


@projects_app.command("rm")
def remove_project(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="The project's name.")],
    *,
    yes: YesOption = False,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Erase a project with everything that belongs to it."""
    with build(load_settings()) as app:
        app.sources(project)  # it is there, or that is the answer
        _confirm(f"the project {project!r}", typed=project, yes=yes)
        erased = app.erase_project(project)
    _print_erased(erased, format_)


@documents_app.command("rm")
def remove_documents(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Paths as a search shows them.")
    ],
    *,
    project: ProjectOption = None,
    yes: YesOption = False,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Erase documents, and what was made of their text."""
    with build(load_settings()) as app:
        erase_documents(app, paths, kind="file", project=project, yes=yes, format_=format_)


def erase_documents(
    app: App,
    places: Sequence[str],
    *,
    kind: Kind,
    project: str | None,
    yes: bool,
    format_: Format,
) -> None:
    """Erase documents of one kind where the user is sure, and say what is gone."""
    slug = app.project_name(project)
    one, many = _NOUNS[kind]
    what = f"{one} {places[0]!r}" if len(places) == 1 else f"{len(places)} {many}"
    _confirm(f"{what} of the project {slug!r}", typed=slug, yes=yes)
    _print_erased(app.erase_documents(places, project=slug, kind=kind), format_)


def _confirm(what: str, *, typed: str, yes: bool) -> None:
    """Go on where the user said so, or types the project's name now. Errors: InvalidInput."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(f"erasing {what} cannot be undone", remedy="confirm it with --yes")
    answer = typer.prompt(
        f"{escaped(what)} will be erased for good. Type {escaped(typed)} to go on",
        default="",
        show_default=False,
        err=True,
    )
    if answer.strip() != typed:
        raise InvalidInput(
            "that is not its name; nothing was erased", remedy="run it again and type the name"
        )


def _print_erased(erased: Erased, format_: Format) -> None:
    """What is gone, with a warning while it still lies in the server's files."""
    if not erased.vacuumed:
        print_warning(
            f"not vacuumed, since {erased.not_vacuumed}; the erased rows lie in the server's files "
            "until VACUUM runs: let the owner run it, or set LASTRO_ADMIN_DATABASE_URL"
        )
    if format_ is Format.JSON:
        print_json(to_json(erased))
    else:
        print_data(_lines(erased))


def _lines(erased: Erased) -> Iterator[Text]:
    yield Text.assemble("erased from ", (escaped(erased.project), "bold"))
    counts = {
        "documents": erased.documents,
        "chunks": erased.chunks,
        "events": erased.events,
        "cached vectors": erased.embeddings,
        "golden sets": erased.golden_sets,
        "judged questions": erased.questions,
        "evaluation runs": erased.runs,
        "gaps": erased.gaps,
    }
    for name, count in counts.items():
        if count:
            yield Text(f"    {count} {name}")
