"""``lastro index`` and ``lastro search``."""

from typing import Annotated

import typer

from lastro.app import build
from lastro.cli.hits import outcome_lines
from lastro.cli.jobs import print_deferred
from lastro.cli.options import (
    BackgroundOption,
    FilterOption,
    Format,
    FormatOption,
    KOption,
    PathOption,
    PlaceArgument,
    ProfileOption,
    ProjectOption,
    ScopeOption,
    filter_of,
)
from lastro.cli.output import (
    print_data,
    print_json,
    print_warning,
    progress_bar,
    stdout,
    text_width,
)
from lastro.cli.tables import lacking, report_lines
from lastro.config import load_settings
from lastro.errors import EXIT_DONE, EXIT_PARTIAL, InvalidInput
from lastro.precedence import behind_others
from lastro.ranking import DEFAULT_K
from lastro.search import SearchRequest
from lastro.types import DEFAULT_REF, IndexReport, IndexRequest, ReindexRequest
from lastro.wire import to_json

HERE = "."


def index(
    path: PlaceArgument = HERE,
    *,
    project: ProjectOption = None,
    ref: Annotated[
        str, typer.Option("--ref", metavar="R", help="Branch, tag or commit.")
    ] = DEFAULT_REF,
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Read files as they lie, not from a commit.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Only complete documents that lack vectors.")
    ] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make every document again.")] = False,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="S",
            help="Only rebuild docs, adr, session or entity; may be repeated.",
            show_default=False,
        ),
    ] = None,
    session: Annotated[
        list[str] | None,
        typer.Option(
            "--session",
            metavar="ID",
            help="Only rebuild this session; may be repeated.",
            show_default=False,
        ),
    ] = None,
    background: BackgroundOption = False,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Index the documents of a repository; returns when they can be searched."""
    request = IndexRequest(
        path=path,
        project=project,
        ref=ref,
        worktree=worktree,
        repair=repair,
        rebuild=rebuild,
        scopes=tuple(scope or ()),
        sessions=tuple(session or ()),
    )
    if background:
        if request.scopes or request.sessions:
            raise InvalidInput(
                "--background takes no --scope and no --session",
                remedy="leave --background out, or rebuild the whole place",
            )
        with build(load_settings()) as app:
            print_deferred(app, app.defer_index(request), format_)
        return EXIT_DONE
    with build(load_settings()) as app, behind_others(), progress_bar("indexing") as progress:
        report = app.index(request, progress=progress)
    return _print_report(report, format_)


def reindex(
    *,
    project: ProjectOption = None,
    scope: ScopeOption = None,
    ref: Annotated[
        str | None,
        typer.Option(
            "--ref",
            metavar="R",
            help="Another branch, tag or commit of its only source.",
            show_default=False,
        ),
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make every document again.")] = False,
    background: BackgroundOption = False,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Index a project again from what it has: its sources, sessions and entries."""
    request = ReindexRequest(project=project, scopes=tuple(scope or ()), ref=ref, rebuild=rebuild)
    if background:
        with build(load_settings()) as app:
            print_deferred(app, app.defer_reindex(request), format_)
        return EXIT_DONE
    with build(load_settings()) as app, behind_others(), progress_bar("indexing") as progress:
        report = app.reindex(request, progress=progress)
    return _print_report(report, format_)


def _print_report(report: IndexReport, format_: Format) -> int:
    if report.embedding.reason is not None:
        why = "" if report.embedding.available else "; `lastro doctor` says what is wrong"
        print_warning(
            f"{lacking(report.embedding.skipped, report.embedding.reason)}{why}; "
            "complete them with `lastro index --repair`"
        )
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        print_data(report_lines(report))
    return EXIT_PARTIAL if report.documents.skipped else EXIT_DONE


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question, in any words.")],
    *,
    project: ProjectOption = None,
    k: KOption = DEFAULT_K,
    scope: ScopeOption = None,
    path: PathOption = None,
    filter_: FilterOption = None,
    profile: ProfileOption = "default",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each score was made.")
    ] = False,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Find cited passages, best first."""
    request = SearchRequest(
        query=query,
        k=k,
        scopes=scope,
        path_prefix=path,
        filter=filter_of(filter_),
        profile=profile,
        explain=explain,
    )
    with build(load_settings()) as app:
        outcome = app.search(request, project=project)
    for part in outcome.degraded:
        print_warning(f"{part.reason}: {part.detail}")
    if format_ is Format.JSON:
        print_json(to_json(outcome))
    else:
        print_data(outcome_lines(outcome, width=text_width(stdout())))
