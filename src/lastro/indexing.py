"""The index use case: list, compare, then read and prepare what changed, and swap it in."""

import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from uuid import UUID

from lastro import store
from lastro.adoption import refresh_vector_scale
from lastro.db.pool import Database
from lastro.documents import FileIdentity, Pipeline, Prepared, prepare_file
from lastro.projects import (
    folder_slug,
    project_named,
    project_of_place,
    project_to_index,
)
from lastro.sources.addresses import Address
from lastro.sources.clones import Clones
from lastro.sources.files import FilePatterns, Listing, SourceFile, Unreadable
from lastro.sources.listing import (
    Place,
    check_request,
    find_place,
    list_again,
    list_place,
    open_listing,
)
from lastro.stages import FilesThenRows
from lastro.store import Project, SourceKind, StoredDocument
from lastro.turns import turn
from lastro.types import DEFAULT_REF, DocumentCounts, FileNote, IndexReport, IndexRequest, Progress
from lastro.writing import BATCH_CHUNKS, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What differs between a listing and the index.

    ``replaced`` are the stored documents of new files, by path; ``gone`` those without a file.
    """

    new: tuple[SourceFile, ...]
    replaced: Mapping[str, StoredDocument]
    gone: tuple[StoredDocument, ...]
    unchanged: int

    @property
    def stale(self) -> dict[str, UUID]:
        """Documents to be deleted, by path."""
        return {d.place: d.id for d in (*self.gone, *self.replaced.values())}


def plan_changes(
    listing: Listing,
    stored: Sequence[StoredDocument],
    *,
    fingerprint: str,
    rebuild: bool,
    scopes: Sequence[str] = (),
) -> Plan:
    """Compare by path, blob id, scope and pipeline fingerprint. Pure.

    What lies where the listing could not look is kept. ``rebuild`` makes every document new, or
    those of the ``scopes`` that are named.
    """
    before = {document.place: document for document in stored}
    now = {file.path for file in listing.files}
    new = tuple(
        file
        for file in listing.files
        if (rebuild and (not scopes or file.scope in scopes))
        or not _is_unchanged(file, before.get(file.path), fingerprint=fingerprint)
    )
    return Plan(
        new=new,
        replaced={file.path: before[file.path] for file in new if file.path in before},
        gone=tuple(d for d in stored if d.place not in now and not listing.is_unread(d.place)),
        unchanged=len(now) - len(new),
    )


def count_changes(plan: Plan, taken: Sequence[SourceFile]) -> DocumentCounts:
    """Count what came of a plan, when ``taken`` are the new files that had a text. Pure.

    A file that left one path and came to another unchanged is one rename; a file whose text can
    no longer be read is removed.
    """
    arrived = [file for file in taken if file.path not in plan.replaced]
    changed = len(taken) - len(arrived)
    moved = Counter(d.content_hash for d in plan.gone) & Counter(f.blob_id for f in arrived)
    renamed = moved.total()
    return DocumentCounts(
        added=len(arrived) - renamed,
        changed=changed,
        renamed=renamed,
        removed=len(plan.gone) - renamed + len(plan.replaced) - changed,
        unchanged=plan.unchanged,
    )


def _is_unchanged(file: SourceFile, document: StoredDocument | None, *, fingerprint: str) -> bool:
    return (
        document is not None
        and document.content_hash == file.blob_id
        and document.fingerprint == fingerprint
        and document.scope == file.scope
    )


def index(
    database: Database,
    request: IndexRequest,
    *,
    writer: Writer,
    patterns: FilePatterns,
    progress: Progress,
    clones: Clones | None = None,
) -> IndexReport:
    """Bring a project's index to what its source holds now, and report what was done.

    Runs of one project take turns; every document is swapped in one transaction, so a search sees
    it whole, old or new. A failed embedding stores rows without a vector and marks the document
    incomplete; a later run completes it. ``clones`` hold the remote repositories.
    Errors: NotFound and InvalidInput of the source, InvalidInput for options that exclude each
    other, RemoteError and ConfigError of a remote repository, Conflict where the project's name
    belongs to another folder, EmbedderMismatch.
    """
    started = time.perf_counter()
    place = find_place(request.path)
    check_request(request)
    if request.repair:
        slug = request.project or project_of_place(database, place)
        return repair(database, slug, writer=writer, progress=progress)
    writer.require_embedder()
    listing = _list(request, place, clones=clones, patterns=patterns)
    name = place.name if isinstance(place, Address) else folder_slug(listing.root)
    slug = request.project or project_to_index(database, listing.place, name=name)
    with database.transaction() as connection:
        project = store.ensure_project(connection, slug)
    with turn(database, project.id) as at_once:
        if not at_once:
            # What was waited for may have been a switch to another embedder.
            writer.require_embedder()
            # The run that was waited for may have indexed a later commit than ours was then.
            listing = _list(request, place, clones=clones, patterns=patterns)
        source, stored = _register(database, request, listing, project=project, name=name)
        if listing.whole_tree and any(patterns.is_in_docs(d.place) for d in stored):
            # The index holds documents of docs/: their absence now must not pull in other files.
            listing = list_again(listing, patterns=replace(patterns, whole_tree=False))
        target = _Target(project=project, source=source, listing=listing)
        stages = _stages(database, project.id, progress=progress)
        documents = _bring_up_to_date(
            database, request, target, stored, writer=writer, progress=stages.file
        )
        _repair(writer, project, stages)
        return _report(
            database,
            writer,
            project=project,
            started=started,
            revision=listing.revision,
            documents=documents,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Where a listing is indexed to."""

    project: Project
    source: str
    listing: Listing


def _bring_up_to_date(
    database: Database,
    request: IndexRequest,
    target: _Target,
    stored: Sequence[StoredDocument],
    *,
    writer: Writer,
    progress: Progress,
) -> DocumentCounts:
    """Store what differs between the listing and what is ``stored``, and mark the run finished."""
    fingerprint = writer.pipeline.fingerprint
    plan = plan_changes(
        target.listing,
        stored,
        fingerprint=fingerprint,
        rebuild=request.rebuild,
        scopes=request.scopes,
    )
    try:
        documents = _write_files(writer, target, plan, progress=progress)
    finally:
        writer.settle()  # nothing is stored any more when the next run's turn comes
    _finish(database, request, target, found=documents)
    return documents


def repair(database: Database, slug: str, *, writer: Writer, progress: Progress) -> IndexReport:
    """Embed what earlier runs could not. Errors: NotFound, EmbedderMismatch."""
    started = time.perf_counter()
    writer.require_embedder()
    project = project_named(database, slug)
    with turn(database, project.id):
        stages = _stages(database, project.id, progress=progress)
        _repair(writer, project, stages)
        return _report(database, writer, project=project, started=started)


def _repair(writer: Writer, project: Project, stages: FilesThenRows) -> None:
    writer.repair(project.id, step=stages.next_rows)
    if writer.failure is None:
        stages.end()
    writer.finish()


def _stages(database: Database, project_id: int, *, progress: Progress) -> FilesThenRows:
    with database.transaction(projects=[project_id]) as connection:
        rows = store.count_without_vector(connection, project_id)
    return FilesThenRows(progress=progress, rows=rows)


def refresh_statistics(database: Database, slug: str) -> None:
    """Count a project's words again, and measure the scale of its vectors. Errors: NotFound."""
    project = project_named(database, slug)
    with turn(database, project.id), database.transaction(projects=[project.id]) as connection:
        store.refresh_statistics(connection, project.id)
        refresh_vector_scale(connection, project.id)


def _list(
    request: IndexRequest, place: Place, *, clones: Clones | None, patterns: FilePatterns
) -> Listing:
    return list_place(
        place, ref=request.ref, worktree=request.worktree, patterns=patterns, clones=clones
    )


def _register(
    database: Database, request: IndexRequest, listing: Listing, *, project: Project, name: str
) -> tuple[str, list[StoredDocument]]:
    """The source's name in its project and what is indexed of it; recorded before any work."""
    with database.transaction(projects=[project.id]) as connection:
        known = store.project_sources(connection, project.id)
        source = source_name(listing.place, known, wanted=name)
        store.save_source(
            connection,
            project_id=project.id,
            name=source,
            kind=_kind(listing),
            root=listing.place,
            ref=_named_ref(request),
            revision=listing.revision,
            skipped=(),
            finished=False,
        )
        stored = store.source_documents(connection, project_id=project.id, source=source)
    return source, stored


def _named_ref(request: IndexRequest) -> str | None:
    """The ref as hits name it; None for what a folder is indexed at by default."""
    return None if request.worktree or request.ref == DEFAULT_REF else request.ref


def _kind(listing: Listing) -> SourceKind:
    if listing.address is not None:
        return "remote"
    return "worktree" if listing.ref is None else "repository"


def source_name(root: str, known: Sequence[store.Source], *, wanted: str) -> str:
    """The name that is ``wanted``, numbered where another source of the project has it.

    A folder or address is one source of its project: another ref moves it, and doubles nothing.
    """
    for source in known:
        if source.root == root:
            return source.name
    taken = {source.name for source in known}
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def _write_files(
    writer: Writer, target: _Target, plan: Plan, *, progress: Progress
) -> DocumentCounts:
    """Read, prepare and store what is new, in batches, and delete what is stale."""
    skipped = list(target.listing.skipped)
    warnings: list[FileNote] = []
    taken: list[SourceFile] = []
    stale = plan.stale
    batch: list[Prepared] = []
    with closing(_read_files(target, plan.new, writer.pipeline)) as files:
        for done, item in enumerate(files):
            progress(done, len(plan.new))
            if isinstance(item, FileNote):
                skipped.append(item)
                continue
            warnings += [FileNote(path=item.file.path, reason=why) for why in item.warnings]
            taken.append(item.file)
            batch.append(item.prepared)
            if sum(len(item.chunks) for item in batch) >= BATCH_CHUNKS:
                _swap(writer, batch, stale, project_id=target.project.id)
    _swap(writer, batch, stale, project_id=target.project.id)
    # Left over: files that are gone, and those that no longer have a text.
    writer.write([], project_id=target.project.id, stale=stale.values())
    progress(len(plan.new), len(plan.new))
    counts = count_changes(plan, taken)
    return replace(counts, skipped=tuple(skipped), warnings=tuple(warnings))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadFile:
    """A file as it will be stored, and what is to be said about it."""

    file: SourceFile
    prepared: Prepared
    warnings: tuple[str, ...]


def _read_files(
    target: _Target, files: Sequence[SourceFile], pipeline: Pipeline
) -> Generator[_ReadFile | FileNote]:
    """Read and prepare each file, or say why it has no text."""
    with open_listing(target.listing) as read:
        for file in files:
            content = read(file)
            if isinstance(content.text, Unreadable):
                yield FileNote(path=file.path, reason=content.text.reason)
                continue
            identity = _identity(content.file, target)
            prepared = prepare_file(content.text.text, identity, pipeline)
            warnings = (*content.text.warnings, *prepared.warnings)
            yield _ReadFile(file=content.file, prepared=prepared, warnings=warnings)


def _identity(file: SourceFile, target: _Target) -> FileIdentity:
    return FileIdentity(
        project_id=target.project.id,
        source=target.source,
        path=file.path,
        scope=file.scope,
        revision=target.listing.revision,
        content_hash=file.blob_id,
    )


def _swap(
    writer: Writer, batch: list[Prepared], stale: dict[str, UUID], *, project_id: int
) -> None:
    """Store a batch over what it replaces, and begin the next one."""
    if batch:
        replaced = [stale.pop(item.document.place, item.document.id) for item in batch]
        writer.write(batch, project_id=project_id, stale=replaced)
        batch.clear()


def _finish(
    database: Database, request: IndexRequest, target: _Target, *, found: DocumentCounts
) -> None:
    """Move the revision, and count again what the lexical score needs.

    Where this run changed nothing the database says whether: the rows may be those of an earlier
    run that was stopped before it counted them.
    """
    project_id, listing = target.project.id, target.listing
    has_changed = bool(found.added or found.changed or found.renamed or found.removed)
    with database.transaction(projects=[project_id]) as connection:
        store.move_revision(
            connection, project_id=project_id, source=target.source, revision=listing.revision
        )
        if has_changed or not store.statistics_are_current(connection, project_id):
            store.refresh_statistics(connection, project_id)
        refresh_vector_scale(connection, project_id)
        store.save_source(
            connection,
            project_id=project_id,
            name=target.source,
            kind=_kind(listing),
            root=listing.place,
            ref=_named_ref(request),
            revision=listing.revision,
            skipped=found.skipped,
            finished=True,
        )


def _report(
    database: Database,
    writer: Writer,
    *,
    project: Project,
    started: float,
    revision: str | None = None,
    documents: DocumentCounts | None = None,
) -> IndexReport:
    with database.transaction(projects=[project.id]) as connection:
        chunks = store.count_chunks(connection, project.id)
    counted = documents or DocumentCounts()
    return IndexReport(
        project=project.slug,
        revision=revision,
        documents=replace(counted, warnings=(*counted.warnings, *writer.refused)),
        chunks=chunks,
        embedding=writer.counts,
        took_ms=(time.perf_counter() - started) * 1000,
    )
