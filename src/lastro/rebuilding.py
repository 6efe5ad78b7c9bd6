"""Scopes and sessions made again from what they come from: files, events and stored entries."""

import time
from dataclasses import replace

from lastro import entities, indexing, sessions
from lastro.db.pool import Database
from lastro.projects import project_of_place
from lastro.sources.clones import Clones
from lastro.sources.files import FilePatterns
from lastro.sources.listing import check_request, find_place
from lastro.types import DocumentCounts, IndexReport, IndexRequest, Progress
from lastro.writing import Writer

FILE_SCOPES = frozenset({"docs", "adr"})


def rebuild(
    database: Database,
    request: IndexRequest,
    *,
    writer: Writer,
    patterns: FilePatterns,
    progress: Progress,
    clones: Clones | None = None,
) -> IndexReport:
    """Make again what the request names by scope and session, and report all of it together.

    Each document is swapped whole, so a search sees it all the while. Files of other scopes are
    only brought up to date. Errors: those of ``indexing.index`` and ``sessions.index``.
    """
    started = time.perf_counter()
    check_request(request)
    scopes = set(request.scopes)
    project = request.project or project_of_place(database, find_place(request.path))
    documents, revision, chunks = DocumentCounts(), None, 0
    if scopes & FILE_SCOPES:
        files = indexing.index(
            database, request, writer=writer, patterns=patterns, progress=progress, clones=clones
        )
        documents, revision, chunks = files.documents, files.revision, files.chunks
    if "session" in scopes or request.sessions:
        named = None if "session" in scopes else request.sessions
        talks = sessions.index(
            database, project=project, writer=writer, sessions=named, rebuild=True
        )
        documents, chunks = _and(documents, talks.sessions.changed), talks.chunks
        documents = replace(documents, added=documents.added + talks.sessions.added)
    if "entity" in scopes:
        kept = entities.rebuild_entities(database, project=project, writer=writer)
        documents, chunks = _and(documents, kept.entries.changed), kept.chunks
    return IndexReport(
        project=project,
        revision=revision,
        documents=documents,
        chunks=chunks,
        embedding=writer.counts,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def _and(documents: DocumentCounts, changed: int) -> DocumentCounts:
    return replace(documents, changed=documents.changed + changed)
