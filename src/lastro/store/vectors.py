"""The vector column, the embedder that fills it, and the cache of embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg.rows import class_row
from psycopg.sql import SQL, Literal

from lastro.db.pool import AppConnection
from lastro.sql import load_queries
from lastro.store.documents import index_words

# Rows among which a new row of the vector index looks for its neighbours; pgvector's default is 64.
# The better graph finds more with fewer rows in sight. Source: docs/adr/0003.
EF_CONSTRUCTION = 128
# Stands for a project where a cached text was a question: erasing anything drops them all.
QUESTIONS = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveEmbedder:
    """The embedder whose vectors this database holds."""

    id: str
    version: str
    dimension: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnembeddedChunk:
    """A stored chunk that has no vector yet, with what is embedded of it."""

    id: UUID
    document_id: UUID
    ordinal: int
    place: str
    line_start: int
    line_end: int
    title: str
    heading_text: str
    context: str
    content: str


def vector_dimension(connection: AppConnection) -> int | None:
    """Width of the vector column; None before the first vector."""
    row = connection.execute(load_queries("vectors")["vector_dimension"]).fetchone()
    return None if row is None else int(row[0])


def add_vector_column(connection: AppConnection, dimension: int) -> None:
    """Add the vector column, without an index. Owner only."""
    connection.execute(
        load_queries("vectors")["add_vector_column"].format(dimension=Literal(dimension))
    )


def has_vector_index(connection: AppConnection) -> bool:
    """Whether the vectors have their index."""
    row = connection.execute(load_queries("vectors")["has_vector_index"]).fetchone()
    return row is not None and bool(row[0])


def add_vector_index(connection: AppConnection) -> None:
    """Index the vectors that are there and those to come; a no-op when done. Owner only.

    The planner is told of the rows: until autovacuum comes, searches took four times as long.
    """
    queries = load_queries("vectors")
    connection.execute(queries["give_index_memory"])
    connection.execute(queries["add_vector_index"].format(ef_construction=Literal(EF_CONSTRUCTION)))
    connection.execute(queries["analyze_chunks"])


def active_embedder(connection: AppConnection) -> ActiveEmbedder | None:
    """The embedder of this database's vectors; None before the first.

    It stays that one until the transaction ends: a switch waits for whoever read this.
    """
    with connection.cursor(row_factory=class_row(ActiveEmbedder)) as cursor:
        return cursor.execute(load_queries("vectors")["active_embedder"]).fetchone()


def set_active_embedder(connection: AppConnection, embedder: ActiveEmbedder) -> None:
    """Record the first embedder; a no-op where there is one already."""
    connection.execute(
        load_queries("vectors")["set_active_embedder"],
        {
            "id": embedder.id,
            "version": embedder.version,
            "dimension": embedder.dimension,
            "fingerprint": embedder.fingerprint,
        },
    )


def chunks_without_vector(
    connection: AppConnection, project_id: int, *, after: tuple[UUID, int] | None, limit: int
) -> list[UnembeddedChunk]:
    """Chunks of incomplete documents by document and ordinal, those behind ``after``."""
    query = load_queries("vectors")["chunks_without_vector"]
    return chunks_behind(connection, query, project_id, after=after, limit=limit)


def chunks_behind(
    connection: AppConnection,
    query: SQL,
    project_id: int,
    *,
    after: tuple[UUID, int] | None,
    limit: int,
) -> list[UnembeddedChunk]:
    """Chunks that ``query`` selects by document and ordinal, those behind ``after``."""
    document_id, ordinal = after or (UUID(int=0), -1)
    with connection.cursor(row_factory=class_row(UnembeddedChunk)) as cursor:
        return cursor.execute(
            query,
            {
                "project_id": project_id,
                "after_document": document_id,
                "after_ordinal": ordinal,
                "limit": limit,
            },
        ).fetchall()


def set_embeddings(
    connection: AppConnection,
    vectors: Sequence[tuple[UUID, NDArray[np.float32]]],
    *,
    project_id: int,
    model: str,
    version: str,
) -> None:
    """Give stored chunks their vectors."""
    query = load_queries("vectors")["set_embeddings"]
    fill_vectors(connection, query, vectors, project_id=project_id, model=model, version=version)


def fill_vectors(
    connection: AppConnection,
    query: SQL,
    vectors: Sequence[tuple[UUID, NDArray[np.float32]]],
    *,
    project_id: int,
    model: str,
    version: str,
) -> None:
    """Give stored chunks the vectors, in the columns that ``query`` updates."""
    ordered = sorted(vectors, key=lambda pair: pair[0])
    connection.execute(
        query,
        {
            "project_id": project_id,
            "model": model,
            "version": version,
            "ids": [id_ for id_, _ in ordered],
            "embeddings": [HalfVector(vector).to_text() for _, vector in ordered],
        },
    )
    index_words(connection)  # a row that moved enters every index again


def count_without_vector(connection: AppConnection, project_id: int) -> int:
    """How many rows of a project's incomplete documents lack their vector."""
    row = connection.execute(
        load_queries("vectors")["count_without_vector"], {"project_id": project_id}
    ).fetchone()
    return 0 if row is None else int(row[0])


def complete_documents(
    connection: AppConnection, project_id: int, *, blank: Sequence[UUID]
) -> None:
    """Mark documents complete of which every chunk has a vector, or is one of ``blank``."""
    connection.execute(
        load_queries("vectors")["complete_documents"],
        {"project_id": project_id, "blank": list(blank)},
    )


def cached_embeddings(
    connection: AppConnection, hashes: Sequence[bytes], *, fingerprint: str
) -> dict[bytes, NDArray[np.float32]]:
    """Vectors known for these text hashes, by hash."""
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(
            load_queries("vectors")["cached_embeddings"],
            {"fingerprint": fingerprint, "hashes": list(hashes)},
            prepare=True,
        )
        return {row[0]: np.frombuffer(row[1], dtype="<f4") for row in rows}


def cache_embeddings(
    connection: AppConnection,
    vectors: Mapping[bytes, NDArray[np.float32]],
    *,
    fingerprint: str,
    first_project: int | None = None,
) -> None:
    """Keep vectors by the hash of their text, and whose text it is: QUESTIONS, or no project's."""
    connection.execute(
        load_queries("vectors")["cache_embeddings"],
        {
            "fingerprint": fingerprint,
            "first_project": first_project,
            "hashes": list(vectors),
            "embeddings": [vector.astype("<f4").tobytes() for vector in vectors.values()],
        },
    )
