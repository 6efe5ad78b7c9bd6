"""The export use case: a project as lines of JSON, of one moment, in little memory."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from lastro import store
from lastro.archive import TABLES, Digest, Header, Vectors, header_line, to_line
from lastro.db.pool import Database
from lastro.projects import project_named
from lastro.store import AppConnection

Write = Callable[[bytes], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What a file holds; ``sha256`` is that of its lines before the last."""

    project: str
    documents: int
    chunks: int
    vectors: bool
    lines: int
    sha256: str


def export_project(database: Database, slug: str, write: Write, *, vectors: bool) -> Exported:
    """Write a project line by line: sources, documents, chunks, golden sets, profiles and runs.

    Everything is of one moment, whatever index run works meanwhile. Errors: NotFound.
    """
    project = project_named(database, slug)
    digest = Digest()
    counts: Counter[str] = Counter()
    with database.transaction(projects=[project.id], snapshot=True) as connection:
        held = _vectors(connection) if vectors else None
        write(digest.add(header_line(Header(project=slug, vectors=held))))
        for kind in TABLES:
            found = store.archived_rows(
                connection, kind, project_id=project.id, vectors=held is not None
            )
            with closing(found) as rows:  # where one is not taken, too: else all is locked
                for row in rows:
                    write(digest.add(row.encode("utf-8") + b"\n"))
                    counts[kind] += 1
    end = digest.end()
    write(to_line({"end": end}))
    return Exported(
        project=slug,
        documents=counts["document"],
        chunks=counts["chunk"],
        vectors=held is not None,
        lines=end["lines"],
        sha256=end["sha256"],
    )


def _vectors(connection: AppConnection) -> Vectors | None:
    active = store.active_embedder(connection)
    if active is None or store.vector_dimension(connection) is None:
        return None
    return Vectors(
        id=active.id,
        version=active.version,
        dimension=active.dimension,
        fingerprint=active.fingerprint,
    )
