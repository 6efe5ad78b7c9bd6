"""A project indexed again from all that it has: its sources, its sessions and its entries."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lastro import entities, indexing, sessions, store
from lastro.db.own_project import keeping_to
from lastro.db.pool import Database
from lastro.errors import ConfigError, Conflict, InvalidInput, LastroError, NotFound, RemoteError
from lastro.job import Job, is_transient, reindex_request_json
from lastro.jobs import JobBoard, defer
from lastro.projects import all_project_ids, project_named
from lastro.push import Push
from lastro.rebuilding import FILE_SCOPES
from lastro.sources.addresses import repository_of
from lastro.sources.clones import Clones
from lastro.sources.files import FilePatterns
from lastro.sources.git import check_ref
from lastro.stages import OneAfterTheOther
from lastro.store import Project, Source
from lastro.types import (
    DEFAULT_REF,
    SCOPES,
    DocumentCounts,
    IndexReport,
    IndexRequest,
    Progress,
    ReindexRequest,
)
from lastro.writing import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is indexed again of a project."""

    project: Project
    sources: Sequence[Source]
    has_sessions: bool
    has_entities: bool


def reindex(
    database: Database,
    request: ReindexRequest,
    *,
    writer: Writer,
    patterns: FilePatterns,
    progress: Progress,
    clones: Clones | None = None,
) -> IndexReport:
    """Bring a project's index to what its sources hold now, and report all of it together.

    Files of each source at its ref's head, then sessions, then entries that the present pipeline
    would make otherwise; ``rebuild`` makes each again. A source that cannot be read leaves out no
    other. ``revision`` is that of a single source, else None.
    Errors: NotFound for the project; Conflict where it has nothing of what was asked for;
    InvalidInput for a ref of several sources; those of ``indexing.index``, after all was tried.
    """
    plan = _plan(database, request)
    with keeping_to(plan.project.id):  # it may be erased meanwhile, and none is made for it
        return _reindex(
            database,
            request,
            plan,
            writer=writer,
            patterns=patterns,
            progress=progress,
            clones=clones,
        )


def _reindex(
    database: Database,
    request: ReindexRequest,
    plan: _Plan,
    *,
    writer: Writer,
    patterns: FilePatterns,
    progress: Progress,
    clones: Clones | None,
) -> IndexReport:
    started = time.perf_counter()
    onward = OneAfterTheOther(progress=progress)
    reports: list[IndexReport] = []
    failures: list[LastroError] = []
    for source in plan.sources:
        project_named(database, plan.project.slug)  # gone, it fails at once
        try:
            report = indexing.index(
                database,
                _of_source(source, request, project=plan.project.slug),
                writer=writer,
                patterns=patterns,
                progress=onward,
                clones=clones,
            )
        except (ConfigError, InvalidInput, NotFound, RemoteError) as error:
            failures.append(error)
        else:
            reports.append(report)
        onward.next()
    documents = [report.documents for report in reports]
    documents += _kept(database, plan, writer=writer, rebuild=request.rebuild, progress=onward)
    if failures:
        raise _together(failures)
    with database.transaction(projects=[plan.project.id]) as connection:
        chunks = store.count_chunks(connection, plan.project.id)
    return IndexReport(
        project=plan.project.slug,
        revision=reports[0].revision if len(reports) == 1 else None,
        documents=_sum(documents),
        chunks=chunks,
        embedding=writer.counts,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def defer_reindex(database: Database, request: ReindexRequest, *, lost_s: float) -> Job:
    """Have a worker do it, at the heads that there are then; what waits already is the same job.

    Errors: those of ``reindex`` that show without reading a source.
    """
    project = _plan(database, request).project
    board = JobBoard(database=database, project=project.slug, lost_s=lost_s)
    with keeping_to(project.id):
        return board.defer("reindex", reindex_request_json(request))


def defer_pushed(database: Database, push: Push) -> None:
    """Have each source of a repository that moved indexed again, at its ref's head then.

    A push says that something moved and never to what, so deliveries that come twice, late or in
    another order end alike.
    """
    moved = {repository_of(address) for address in push.addresses} - {None}
    tenants = all_project_ids(database)
    with database.transaction(projects=tenants) as connection:
        sources = store.remote_sources(connection, tenants)
    for source in sources:
        if push.moves(source.ref) and repository_of(source.root) in moved:
            with suppress(NotFound):  # erased meanwhile
                defer(database, source.project_id, "reindex", {"source": source.root})


def _plan(database: Database, request: ReindexRequest) -> _Plan:
    assert request.project is not None
    _check(request)
    scopes = set(request.scopes or SCOPES)
    project = project_named(database, request.project)
    with database.transaction(projects=[project.id]) as connection:
        known = store.project_sources(connection, project.id)
    sources = [one for one in known if request.source in (None, one.root)]
    _check_ref(request, sources)
    plan = _Plan(
        project=project,
        sources=sources if scopes & FILE_SCOPES else (),
        has_sessions=request.source is None and "session" in scopes,
        has_entities=request.source is None and "entity" in scopes,
    )
    is_named = bool(set(request.scopes) - FILE_SCOPES)  # a log may be empty
    if not plan.sources and not is_named and not _has_kept(database, plan):
        raise _nothing(request, project=project.slug)
    return plan


def _check(request: ReindexRequest) -> None:
    unknown = [scope for scope in request.scopes if scope not in SCOPES]
    if unknown:
        raise InvalidInput(f"there is no scope {unknown[0]!r}", remedy=f"use {', '.join(SCOPES)}")
    if request.ref is not None and request.scopes and not set(request.scopes) & FILE_SCOPES:
        raise InvalidInput(
            "a ref is that of files, and no scope of files is named",
            remedy=f"leave it out, or name {' or '.join(sorted(FILE_SCOPES))}",
        )


def _check_ref(request: ReindexRequest, sources: Sequence[Source]) -> None:
    """Refuse a ref that cannot be that of the sources. Errors: InvalidInput."""
    if request.ref is None:
        return
    check_ref(request.ref)
    if len(sources) > 1:
        raise InvalidInput(
            f"the project has {len(sources)} sources, and the ref {request.ref!r} is that of one",
            remedy="index that source with `lastro index PATH --ref R`, or leave the ref out",
        )
    if sources and sources[0].kind == "worktree":
        raise InvalidInput(
            f"{sources[0].root} is indexed as its files lie, which have no ref",
            remedy="leave the ref out, or index a commit with `lastro index PATH --ref R`",
        )


def _has_kept(database: Database, plan: _Plan) -> bool:
    """Whether there is a session or an entry, of what is asked for."""
    project_id = plan.project.id
    with database.transaction(projects=[project_id]) as connection:
        return bool(
            (plan.has_sessions and store.session_states(connection, project_id))
            or (
                plan.has_entities
                and store.entities_after(connection, "", project_id=project_id, limit=1)
            )
        )


def _of_source(source: Source, request: ReindexRequest, *, project: str) -> IndexRequest:
    return IndexRequest(
        path=source.root,
        project=project,
        ref=request.ref or source.ref or DEFAULT_REF,
        worktree=source.kind == "worktree",
        rebuild=request.rebuild,
        scopes=request.scopes if request.rebuild else (),
    )


def _kept(
    database: Database, plan: _Plan, *, writer: Writer, rebuild: bool, progress: Progress
) -> list[DocumentCounts]:
    """Index again what the project itself keeps."""
    found: list[DocumentCounts] = []
    slug = plan.project.slug
    if plan.has_sessions:
        talks = sessions.index(
            database, project=slug, writer=writer, rebuild=rebuild, progress=progress
        ).sessions
        found.append(
            DocumentCounts(added=talks.added, changed=talks.changed, unchanged=talks.unchanged)
        )
    if plan.has_entities:
        entries = entities.rebuild_entities(
            database, project=slug, writer=writer, only_stale=not rebuild
        ).entries
        found.append(DocumentCounts(changed=entries.changed, unchanged=entries.unchanged))
    return found


def _sum(counts: Sequence[DocumentCounts]) -> DocumentCounts:
    """All together; one writer's warnings come in each of its reports, and count once."""
    total = DocumentCounts()
    for one in counts:
        total = DocumentCounts(
            added=total.added + one.added,
            changed=total.changed + one.changed,
            renamed=total.renamed + one.renamed,
            removed=total.removed + one.removed,
            unchanged=total.unchanged + one.unchanged,
            skipped=(*total.skipped, *one.skipped),
            warnings=(*total.warnings, *one.warnings),
        )
    return replace(total, warnings=tuple(dict.fromkeys(total.warnings)))


def _together(failures: Sequence[LastroError]) -> LastroError:
    """One error for all: one that waiting cures, where there is one, so that it is tried again."""
    first = next((error for error in failures if is_transient(error)), failures[0])
    told = "; ".join(dict.fromkeys(error.message for error in failures))
    return type(first)(told, remedy=first.remedy)


def _nothing(request: ReindexRequest, *, project: str) -> LastroError:
    if request.source is not None:
        return NotFound(
            f"the project {project!r} does not follow {request.source}",
            remedy="see its sources with `lastro coverage`, or index it with `lastro index PATH`",
        )
    of_what = f" of the scopes {', '.join(request.scopes)}" if request.scopes else ""
    return Conflict(
        f"the project {project!r} has nothing{of_what} that could be indexed again",
        remedy=f"give it a source first: `lastro index PATH --project {project}`",
    )
