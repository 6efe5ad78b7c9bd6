"""Documents and their chunks, and the statistics counted over them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
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
    """A chunk to be written; ``embedding`` is float32 of unit norm, or None."""

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
    embedding_model: str | None
    embedding_version: str | None
    embedding: NDArray[np.float32] | None


# The columns of a ChunkRow and their types, which binary COPY must be told.
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
    "embedding_model": "text",
    "embedding_version": "text",
    "embedding": "halfvec",
}
_VECTOR_COLUMNS = frozenset({"embedding", "embedding_model", "embedding_version"})


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
    """Write documents, without their chunks, in a fixed order and one round trip."""
    ordered = sorted(rows, key=lambda row: row.id)
    with connection.cursor() as cursor:
        cursor.executemany(
            load_queries("documents")["insert_document"],
            [_document(row, project_id=project_id) for row in ordered],
        )


def _document(row: DocumentRow, *, project_id: int) -> dict[str, object]:
    adr = row.adr or Adr(number=None, status=None)
    return {
        "project_id": project_id,
        "id": row.id,
        "kind": row.kind,
        "scope": row.scope,
        "source": row.source,
        "place": row.place,
        "title": row.title,
        "language": row.language,
        "revision": row.revision,
        "content_hash": row.content_hash,
        "fingerprint": row.fingerprint,
        "state": row.state,
        "adr_number": adr.number,
        "adr_status": adr.status,
        "adr_date": adr.date,
        "adr_superseded_by": adr.superseded_by,
        "metadata": Jsonb(dict(row.metadata)),
    }


def copy_chunks(
    connection: AppConnection, rows: Sequence[ChunkRow], *, project_id: int, with_vectors: bool
) -> None:
    """Write chunks with binary COPY; ``with_vectors`` says whether the vector column exists yet."""
    names = [name for name in _CHUNK_TYPES if with_vectors or name not in _VECTOR_COLUMNS]
    columns = SQL(", ").join(map(Identifier, ["project_id", *names]))
    queries = load_queries("documents")
    connection.execute(queries["stage_chunks"].format(columns=columns))
    copying = queries["copy_chunks"].format(columns=columns)
    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        copy.set_types(["int8", *(_CHUNK_TYPES[name] for name in names)])
        for row in rows:
            copy.write_row([project_id, *(_column(row, name) for name in names)])
    connection.execute(queries["insert_chunks"].format(columns=columns))
    connection.execute(queries["drop_staged_chunks"])
    index_words(connection)


def index_words(connection: AppConnection) -> None:
    """Put the words of rows that were just written into their index, all at once."""
    connection.execute(load_queries("documents")["index_words"])


def _column(row: ChunkRow, name: str) -> object:
    value = getattr(row, name)
    if name == "embedding" and value is not None:
        return HalfVector(value)
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


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
