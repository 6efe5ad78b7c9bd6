"""Prepared documents into the table: embed outside any transaction, swap in one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from lastro import store
from lastro.db.migrate import lock_schema
from lastro.db.pool import Database, connect
from lastro.documents import Pipeline, Prepared, embedded_text
from lastro.embedders import Embedder, fingerprint, is_blank
from lastro.embedding import embed_texts
from lastro.errors import DimensionMismatch
from lastro.search import mismatch
from lastro.store import ActiveEmbedder
from lastro.types import DegradedReason, EmbeddingCounts

# Rows completed in one transaction of a repair.
REPAIR_CHUNKS = 256


@dataclass(slots=True, kw_only=True)
class Writer:
    """Stores documents with their vectors, and counts what it embedded.

    ``admin_url`` is the owner's address: the vector column comes with the first vector.
    ``cache`` is the database whose embedding cache is used, and ``cache_project`` whose texts
    these are there; ``database`` and the project written to where none is named.
    """

    database: Database
    admin_url: str
    embedder: Embedder
    pipeline: Pipeline
    cache: Database | None = None
    cache_project: int | None = None
    embedded: int = 0
    without_vector: int = 0
    reason: DegradedReason | None = None
    _has_column: bool = field(default=False, init=False)

    @property
    def counts(self) -> EmbeddingCounts:
        """What was embedded so far, and what was not and why."""
        return EmbeddingCounts(
            available=self.reason is None,
            embedded=self.embedded,
            skipped=self.without_vector,
            reason=self.reason,
        )

    def require_embedder(self) -> None:
        """Refuse to mix vector spaces. Errors: EmbedderMismatch."""
        with self.database.transaction() as connection:
            active = store.active_embedder(connection)
            self._has_column = store.vector_dimension(connection) is not None
        if active is not None and active.fingerprint != fingerprint(self.embedder):
            raise mismatch(active, self.embedder)

    def write(self, batch: Sequence[Prepared], *, project_id: int, stale: Iterable[UUID]) -> None:
        """Store ``batch`` and delete ``stale`` in one transaction."""
        texts = [text for item in batch for text in item.texts]
        vectors = self._embed(texts, project_id=project_id)
        position = 0
        rows: list[tuple[Prepared, list[store.ChunkRow]]] = []
        for item in batch:
            own = vectors[position : position + len(item.chunks)]
            position += len(item.chunks)
            rows.append((item, self._with_vectors(item, own)))
        stale = list(stale)
        if not rows and not stale:
            return
        with self.database.transaction(projects=[project_id]) as connection:
            store.delete_documents(connection, stale, project_id=project_id)
            for item, chunks in rows:
                complete = _is_complete(item.texts, chunks)
                document = replace(item.document, state="complete" if complete else "incomplete")
                store.insert_document(connection, document, project_id=project_id)
            store.copy_chunks(
                connection,
                [chunk for _, chunks in rows for chunk in chunks],
                project_id=project_id,
                with_vectors=self._has_column,
            )

    def repair(self, project_id: int) -> None:
        """Embed what an earlier run could not, from the stored text; stops at the first failure."""
        while self.reason is None:
            with self.database.transaction(projects=[project_id]) as connection:
                rows = store.chunks_without_vector(connection, project_id, limit=REPAIR_CHUNKS)
            texts = [embedded_text(row) for row in rows]
            vectors = self._embed(texts, project_id=project_id) if rows else []
            done = [(row.id, v) for row, v in zip(rows, vectors, strict=True) if v is not None]
            with self.database.transaction(projects=[project_id]) as connection:
                if done:
                    store.set_embeddings(
                        connection,
                        done,
                        project_id=project_id,
                        model=self.embedder.id,
                        version=self.embedder.version,
                    )
                if not done:
                    return
                store.complete_documents(connection, project_id)

    def _embed(self, texts: Sequence[str], *, project_id: int) -> list[NDArray[np.float32] | None]:
        if self.reason is not None:
            # One probe a run: a dead embedder is not asked again for every batch.
            self.without_vector += len(texts)
            return [None] * len(texts)
        result = embed_texts(
            self.cache or self.database,
            self.embedder,
            texts,
            role="document",
            first_project=project_id if self.cache is None else self.cache_project,
        )
        if result.failure is not None:
            self.reason = result.failure.reason
        made = sum(vector is not None for vector in result.vectors)
        self.embedded += made
        self.without_vector += len(texts) - made
        if made and not self._has_column:
            ensure_vector_column(self.admin_url, self.embedder)
            self._has_column = True
        return result.vectors

    def _with_vectors(
        self, item: Prepared, vectors: Sequence[NDArray[np.float32] | None]
    ) -> list[store.ChunkRow]:
        return [
            chunk
            if vector is None
            else replace(
                chunk,
                embedding=vector,
                embedding_model=self.embedder.id,
                embedding_version=self.embedder.version,
            )
            for chunk, vector in zip(item.chunks, vectors, strict=True)
        ]


def ensure_vector_column(admin_url: str, embedder: Embedder) -> None:
    """Make the vector column and record whose vectors it holds, once, as the owner.

    Errors: EmbedderMismatch, DimensionMismatch.
    """
    own = ActiveEmbedder(
        id=embedder.id,
        version=embedder.version,
        dimension=embedder.dimension,
        fingerprint=fingerprint(embedder),
    )
    with connect(admin_url) as connection:
        lock_schema(connection)
        store.set_active_embedder(connection, own)
        active = store.active_embedder(connection)
        if active != own:
            raise mismatch(active or own, embedder)
        width = store.vector_dimension(connection)
        if width is None:
            store.add_vector_column(connection, own.dimension)
        elif width != own.dimension:
            raise DimensionMismatch(
                f"the vector column has {width} dimensions, {own.id} makes {own.dimension}",
                remedy="index into another database (LASTRO_HOME or LASTRO_DATABASE_URL)",
            )


def _is_complete(texts: Sequence[str], chunks: Sequence[store.ChunkRow]) -> bool:
    """Whether every chunk that can be embedded was; one that shows nothing cannot."""
    return all(
        chunk.embedding is not None or is_blank(text)
        for text, chunk in zip(texts, chunks, strict=True)
    )
