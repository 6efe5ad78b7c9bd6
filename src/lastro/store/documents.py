"""Documents and their chunks, and the statistics counted over them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.sql import load_queries
from lastro.types import Adr, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """What the index holds of one file, without its text."""

    id: UUID
    place: str
    scope: Scope
    content_hash: str
    fingerprint: str
    state: str
    revision: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """A document to be written."""

    id: UUID
    kind: str
    scope: Scope
    source: str | None
    place: str
    title: str | None
    language: str
    revision: str | None
    content_hash: str
    fingerprint: str
    state: str
    adr: Adr | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """A chunk to be written, without its vector."""

    id: UUID
    document_id: UUID
    ordinal: int
    scope: Scope
    source_path: str | None
    heading_path: tuple[str, ...] | None
    anchor: str | None
    line_start: int | None
    line_end: int | None
    char_start: int
    char_end: int
    title: str
    heading_text: str
    content: str
    context: str
    heading_extra: str
    lexical_extra: str
    token_count: int
    language: str
    session_id: str | None = None
    event_id: str | None = None
    entity_key: str | None = None
    entity_type: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: str = "published"
    rule_weight: float = 0.0
    effective_at: datetime | None = None


# The columns of a DocumentRow, of a ChunkRow and of a vector, with their types, which binary COPY
# must be told.
_DOCUMENT_TYPES: Mapping[str, str] = {
    "id": "uuid",
    "kind": "text",
    "scope": "text",
    "source": "text",
    "place": "text",
    "title": "text",
    "language": "text",
    "revision": "text",
    "content_hash": "text",
    "fingerprint": "text",
    "state": "text",
    "adr_number": "int4",
    "adr_status": "text",
    "adr_date": "text",
    "adr_superseded_by": "text",
    "metadata": "jsonb",
}
_CHUNK_TYPES: Mapping[str, str] = {
    "id": "uuid",
    "document_id": "uuid",
    "ordinal": "int4",
    "scope": "text",
    "source_path": "text",
    "heading_path": "text[]",
    "anchor": "text",
    "line_start": "int4",
    "line_end": "int4",
    "char_start": "int4",
    "char_end": "int4",
    "title": "text",
    "heading_text": "text",
    "content": "text",
    "context": "text",
    "heading_extra": "text",
    "lexical_extra": "text",
    "token_count": "int4",
    "language": "text",
    "session_id": "text",
    "event_id": "text",
    "entity_key": "text",
    "entity_type": "text",
    "attributes": "jsonb",
    "status": "text",
    "rule_weight": "float4",
    "effective_at": "timestamptz",
}
_VECTOR_TYPES: Mapping[str, str] = {
    "embedding_model": "text",
    "embedding_version": "text",
    "embedding": "halfvec",
}


def source_documents(
    connection: AppConnection, *, project_id: int, source: str
) -> list[StoredDocument]:
    """What the index holds of a source, by path."""
    with connection.cursor(row_factory=class_row(StoredDocument)) as cursor:
        return cursor.execute(
            load_queries("documents")["source_documents"],
            {"project_id": project_id, "source": source},
        ).fetchall()


def delete_documents(connection: AppConnection, ids: Iterable[UUID], *, project_id: int) -> None:
    """Delete documents with their chunks."""
    connection.execute(
        load_queries("documents")["delete_documents"],
        {"project_id": project_id, "ids": sorted(ids)},
    )


def insert_documents(
    connection: AppConnection, rows: Sequence[DocumentRow], *, project_id: int
) -> None:
    """Write documents, without their chunks."""
    _insert(
        connection,
        "documents",
        {"project_id": "int8", **_DOCUMENT_TYPES},
        ([project_id, *_document_values(row)] for row in rows),
        order="id",
    )


def extend_document(connection: AppConnection, row: DocumentRow, *, project_id: int) -> None:
    """Write what a document is, now that chunks come to those that it has.

    It is complete only if it was and the new ones are.
    """
    connection.execute(
        load_queries("documents")["extend_document"],
        {
            "project_id": project_id,
            "id": row.id,
            "title": row.title,
            "content_hash": row.content_hash,
            "state": row.state,
            "metadata": Jsonb(dict(row.metadata)),
        },
    )


def _document_values(row: DocumentRow) -> list[object]:
    adr = row.adr or Adr(number=None, status=None)
    values = {
        "adr_number": adr.number,
        "adr_status": adr.status,
        "adr_date": adr.date,
        "adr_superseded_by": adr.superseded_by,
        "metadata": Jsonb(dict(row.metadata)),
    }
    return [values[name] if name in values else getattr(row, name) for name in _DOCUMENT_TYPES]


def copy_chunks(
    connection: AppConnection,
    rows: Sequence[ChunkRow],
    vectors: Sequence[NDArray[np.float32] | None],
    *,
    project_id: int,
    made_by: tuple[str, str] | None,
) -> None:
    """Write chunks with their vectors, float32 of unit norm, None where there is none.

    ``made_by`` is the embedder's id and version, or None while there is no vector column.
    """
    types = {"project_id": "int8", **_CHUNK_TYPES}
    if made_by is not None:
        types |= _VECTOR_TYPES
    values = (
        [project_id, *_chunk_values(row), *_vector_values(vector, made_by)]
        for row, vector in zip(rows, vectors, strict=True)
    )
    _insert(connection, "chunks", types, values, order="document_id, ordinal")
    index_words(connection)


def _chunk_values(row: ChunkRow) -> list[object]:
    values = {
        "heading_path": None if row.heading_path is None else list(row.heading_path),
        "attributes": Jsonb(dict(row.attributes)),
    }
    return [values[name] if name in values else getattr(row, name) for name in _CHUNK_TYPES]


def _vector_values(
    vector: NDArray[np.float32] | None, made_by: tuple[str, str] | None
) -> list[object]:
    if made_by is None:
        return []
    return [None, None, None] if vector is None else [*made_by, HalfVector(vector)]


def _insert(
    connection: AppConnection,
    table: str,
    types: Mapping[str, str],
    rows: Iterable[Sequence[object]],
    *,
    order: LiteralString,
) -> None:
    """Write rows with binary COPY, beside the table first; ``types`` are those of its columns."""
    slots = {
        "into": Identifier("lastro", table),
        "columns": SQL(", ").join(map(Identifier, types)),
        "order": SQL(order),
    }
    queries = load_queries("documents")
    connection.execute(queries["stage_rows"].format(**slots))
    with connection.cursor() as cursor, cursor.copy(queries["copy_rows"].format(**slots)) as copy:
        copy.set_types(list(types.values()))
        for row in rows:
            copy.write_row(row)
    connection.execute(queries["insert_rows"].format(**slots))
    connection.execute(queries["drop_staged_rows"])


def index_words(connection: AppConnection) -> None:
    """Put the words of rows that were just written into their index, all at once."""
    connection.execute(load_queries("documents")["index_words"])


def move_revision(
    connection: AppConnection, *, project_id: int, source: str, revision: str | None
) -> None:
    """Say that every document of a source is now seen at ``revision``."""
    connection.execute(
        load_queries("documents")["move_revision"],
        {"project_id": project_id, "source": source, "revision": revision},
    )


def count_chunks(connection: AppConnection, project_id: int) -> int:
    """Published chunks of a project."""
    row = connection.execute(
        load_queries("documents")["count_chunks"], {"project_id": project_id}
    ).fetchone()
    return 0 if row is None else int(row[0])


def statistics_are_current(connection: AppConnection, project_id: int) -> bool:
    """Whether rows were neither written nor removed since ``refresh_statistics``."""
    row = connection.execute(
        load_queries("documents")["statistics_are_current"], {"project_id": project_id}
    ).fetchone()
    return row is not None and bool(row[0])


def refresh_statistics(connection: AppConnection, project_id: int) -> None:
    """Count again what the lexical score needs: document frequencies, rows and mean lengths."""
    queries = load_queries("documents")
    parameters = {"project_id": project_id}
    connection.execute(queries["delete_lexeme_stats"], parameters)
    connection.execute(queries["delete_corpus_stats"], parameters)
    connection.execute(queries["insert_corpus_stats"], parameters)
    connection.execute(queries["insert_lexeme_stats"], parameters)
