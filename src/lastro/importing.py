"""The import use case: an exported project into this database, whole or not at all."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, BinaryIO

import numpy as np
from pgvector import HalfVector

from lastro import store
from lastro.adoption import refresh_vector_scale
from lastro.archive import (
    TABLES,
    Digest,
    Row,
    Vectors,
    bad_line,
    read_header,
    read_rows,
    vector_of,
)
from lastro.db.pool import Database, savepoint, set_local
from lastro.embedders import Embedder, fingerprint
from lastro.embedding import mismatch
from lastro.errors import Conflict, EmbedderMismatch, InvalidInput
from lastro.store import AppConnection
from lastro.types import EmbeddingCounts
from lastro.writing import Writer, ensure_vector_column

# Rows written at once: of chunks with vectors some megabytes.
BATCH_ROWS = 200
# An event may have 16 MB, and PostgreSQL takes a value of 256 MB.
BATCH_BYTES = 16 * 2**20
_VECTOR_FIELDS = ("embedding", "embedding_model", "embedding_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came in; ``embedding`` counts the texts whose vectors were not in the file."""

    project: str
    documents: int
    chunks: int
    embedding: EmbeddingCounts


def import_project(
    database: Database,
    stream: BinaryIO,
    *,
    project: str | None,
    vectors: bool,
    writer: Writer,
    admin_url: str,
) -> Imported:
    """Store the project of a file under its own name or ``project``, in one transaction.

    Its vectors are taken over where this database's embedder made them; without ``vectors`` its
    texts are embedded again. Errors: Conflict where the project exists, EmbedderMismatch for
    another embedder's vectors, InvalidInput, which names the line.
    """
    writer.require_embedder()
    digest = Digest()
    header = read_header(stream, digest)
    slug = project or header.project
    held = header.vectors if vectors else None
    if held is not None:
        _take_over(database, held, writer.embedder, admin_url=admin_url)
    with database.transaction() as connection:
        project_id = _new_project(connection, slug)
        set_local(connection, projects=[project_id])
        if held is not None:
            _require_still(connection, held, writer.embedder)
        counts = _store(connection, stream, digest, project_id=project_id, held=held)
        store.refresh_statistics(connection, project_id)
        if not counts["vectorScale"] or held is None:
            refresh_vector_scale(connection, project_id)
    if held is None:
        writer.repair(project_id)
        with database.transaction(projects=[project_id]) as connection:
            refresh_vector_scale(connection, project_id)
    writer.finish()
    return Imported(
        project=slug,
        documents=counts["document"],
        chunks=counts["chunk"],
        embedding=writer.counts,
    )


def _take_over(database: Database, held: Vectors, embedder: Embedder, *, admin_url: str) -> None:
    """Make room for a file's vectors. Errors: EmbedderMismatch."""
    if held.fingerprint != fingerprint(embedder):
        raise EmbedderMismatch(
            f"the file holds vectors of {held.id} {held.version} ({held.dimension} dimensions), "
            f"but {embedder.id} {embedder.version} ({embedder.dimension}) is configured",
            remedy="import it with --no-vectors: its texts are then embedded again",
        )
    with database.transaction() as connection:
        is_there = store.vector_dimension(connection) is not None
    if not is_there:
        ensure_vector_column(admin_url, embedder)


def _require_still(connection: AppConnection, held: Vectors, embedder: Embedder) -> None:
    """Take in no vectors among those of another embedder. Errors: EmbedderMismatch."""
    active = store.active_embedder(connection)
    if active is not None and active.fingerprint != held.fingerprint:
        raise mismatch(active, embedder)


def _new_project(connection: AppConnection, slug: str) -> int:
    made = store.create_project(connection, slug)
    if made is None:
        raise Conflict(
            f"there is a project {slug!r} already",
            remedy="name another one with --project, or erase that one with `lastro projects rm`",
        )
    return made.id


def _store(
    connection: AppConnection,
    stream: BinaryIO,
    digest: Digest,
    *,
    project_id: int,
    held: Vectors | None,
) -> dict[str, int]:
    counts = dict.fromkeys(TABLES, 0)
    for kind, rows in groupby(read_rows(stream, digest), key=lambda row: row.kind):
        fields = {*store.table_fields(connection, kind), *(_VECTOR_FIELDS if held else ())}
        prepared = (_prepared(row, fields, held=held) for row in rows)
        for batch in _batches(prepared):
            _write(connection, batch, project_id=project_id)
            counts[kind] += len(batch)
    return counts


def _prepared(row: Row, fields: set[str], *, held: Vectors | None) -> Row:
    """The row as its table takes it. Errors: InvalidInput."""
    values: dict[str, Any] = {}
    for name, value in row.values.items():
        if name in _VECTOR_FIELDS and held is None:
            continue
        if name not in fields:
            raise bad_line(row.line, f"{row.kind!r} has no {name!r}")
        values[name] = value
    if not values:
        raise bad_line(row.line, f"{row.kind!r} is empty")
    if held is None and row.kind == "document":
        values["state"] = "incomplete"
    if values.get("embedding") is not None:
        values["embedding"] = _vector_text(row.line, values["embedding"], held)
    return replace(row, values=values)


def _vector_text(line: int, said: object, held: Vectors | None) -> str:
    try:
        vector = vector_of(said)
    except ValueError as error:
        raise bad_line(line, str(error)) from error
    if held is None or len(vector) != held.dimension or not np.isfinite(vector).all():
        raise bad_line(line, "the vector has not the width of the file's embedder")
    return HalfVector(vector).to_text()


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Neighbours with the same columns, a number of them at once; fewer of those that are large."""
    for _, alike in groupby(rows, key=lambda row: tuple(row.values)):
        batch: list[Row] = []
        size_bytes = 0
        for row in alike:
            batch.append(row)
            size_bytes += row.size_bytes
            if len(batch) == BATCH_ROWS or size_bytes > BATCH_BYTES:
                yield batch
                batch, size_bytes = [], 0
        if batch:
            yield batch


def _write(connection: AppConnection, batch: Sequence[Row], *, project_id: int) -> None:
    """Write rows; where PostgreSQL refuses them, one by one. Errors: InvalidInput."""
    try:
        with savepoint(connection):
            _insert(connection, batch, project_id=project_id)
    except (InvalidInput, Conflict) as error:
        if len(batch) == 1:
            raise bad_line(batch[0].line, error.message) from error
        for row in batch:
            _write(connection, [row], project_id=project_id)


def _insert(connection: AppConnection, batch: Sequence[Row], *, project_id: int) -> None:
    store.insert_archived(
        connection, batch[0].kind, [row.values for row in batch], project_id=project_id
    )
