"""Prepared documents into the table: embed outside any transaction, swap in one."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from lastro import store
from lastro.batching import as_degraded
from lastro.db.migrate import lock_schema
from lastro.db.pool import Database, connect, retried
from lastro.documents import Pipeline, Prepared, embedded_text
from lastro.embedders import Embedder, Served, fingerprint
from lastro.embedding import embed_texts, mismatch, require_same
from lastro.errors import DimensionMismatch, ProviderError
from lastro.graphemes import is_blank
from lastro.metering import ProjectMeter, identifying
from lastro.store import ActiveEmbedder, AppConnection
from lastro.types import Degraded, EmbeddingCounts, FileNote

# Batches that are stored at a time. A row takes the server 0.3 ms, 1.5 ms where the vectors have
# their index already.
STORERS = 2
# Chunks embedded, and rows stored, at once: some megabytes, a few seconds of work.
BATCH_CHUNKS = 256


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
    failure: Degraded | None = None
    refused: list[FileNote] = field(default_factory=list[FileNote])
    _refusal: Degraded | None = field(default=None, init=False)
    _refused_rows: set[UUID] = field(default_factory=set[UUID], init=False)
    _outage: Degraded | None = field(default=None, init=False)
    _is_identified: bool = field(default=True, init=False)
    _has_column: bool = field(default=False, init=False)
    _executor: ThreadPoolExecutor | None = field(default=None, init=False)
    _storing: deque[Future[None]] = field(default_factory=deque[Future[None]], init=False)

    @property
    def counts(self) -> EmbeddingCounts:
        """What was embedded so far, and what was not and why."""
        why = self.failure or self._refusal
        return EmbeddingCounts(
            available=self.failure is None,
            embedded=self.embedded,
            skipped=self.without_vector,
            reason=None if why is None else why.reason,
        )

    def require_embedder(self) -> None:
        """Refuse to mix vector spaces. Errors: EmbedderMismatch.

        A server that cannot be asked now is not asked again in this run.
        """
        with self.database.transaction() as connection:
            active = store.active_embedder(connection)
            self._has_column = store.vector_dimension(connection) is not None
        if active is not None:
            require_same(active, self.embedder)
        if isinstance(self.embedder, Served):
            meter = ProjectMeter(
                database=self.cache or self.database,
                embedder=self.embedder,
                role="document",
                project_id=None,
            )
            try:
                with identifying(self.embedder, meter):
                    self.embedder.identify()
            except ProviderError as error:
                self._outage = as_degraded(error)
                self._is_identified = active is not None

    def write(self, batch: Sequence[Prepared], *, project_id: int, stale: Iterable[UUID]) -> None:
        """Embed ``batch``, then store it and delete ``stale`` in one transaction.

        Storing goes on while the next batches are embedded: ``settle`` waits for it. What it failed
        with is raised by whichever comes next.
        """
        vectors = self._embed(
            [text for item in batch for text in item.texts],
            places=[(c.id, note(item.document.place, c)) for item in batch for c in item.chunks],
            project_id=project_id,
        )
        self._await(STORERS - 1)
        stale = list(stale)
        if batch or stale:
            made_by = (self.embedder.id, self.embedder.version) if self._has_column else None
            swap = partial(
                self._swap, list(batch), vectors, stale, project_id=project_id, made_by=made_by
            )
            self._storing.append(self._threads().submit(copy_context().run, retried, swap))

    def settle(self) -> None:
        """Wait until everything written is stored. Errors: the first one of storing it.

        Whatever was an error, nothing is stored any more when this returns or raises.
        """
        wait(self._storing)
        self._await(0)

    def _await(self, left: int) -> None:
        while len(self._storing) > left:
            oldest = self._storing[0]
            try:
                oldest.result()
            finally:
                if oldest.done():  # and not interrupted while it was waited for
                    self._storing.popleft()

    def _threads(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(STORERS, thread_name_prefix="storing")
        return self._executor

    def _swap(
        self,
        batch: Sequence[Prepared],
        vectors: Sequence[NDArray[np.float32] | None],
        stale: Sequence[UUID],
        *,
        project_id: int,
        made_by: tuple[str, str] | None,
    ) -> None:
        chunks = [chunk for item in batch for chunk in item.chunks]
        with self.database.transaction(projects=[project_id]) as connection:
            if made_by is not None:
                self._require_still(connection)
            store.delete_documents(connection, stale, project_id=project_id)
            if batch:
                documents = list(_with_states(batch, vectors))
                of_old = {item.document.id for item in batch if item.extends}
                new = [document for document in documents if document.id not in of_old]
                store.insert_documents(connection, new, project_id=project_id)
                for document in documents:
                    if document.id in of_old:
                        store.extend_document(connection, document, project_id=project_id)
                store.copy_chunks(
                    connection, chunks, vectors, project_id=project_id, made_by=made_by
                )

    def finish(self) -> None:
        """End a run: index the vectors, where it was the first one that made any.

        A run that is killed before leaves this to the next; meanwhile a search reads every vector.
        """
        self.settle()
        with self.database.transaction() as connection:
            if store.vector_dimension(connection) is None or store.has_vector_index(connection):
                return
        ensure_vector_index(self.admin_url)

    def repair(self, project_id: int, *, step: Callable[[int], None] | None = None) -> None:
        """Embed what an earlier run could not, from the stored text; stops where no text can be.

        A row that cannot be embedded is passed by, and keeps none behind it from its vector.
        ``step`` hears before each batch how many rows it has, and may end the work by an error.
        """
        self.settle()
        after: tuple[UUID, int] | None = None
        blank: list[UUID] = []
        while self.failure is None:
            with self.database.transaction(projects=[project_id]) as connection:
                rows = store.chunks_without_vector(
                    connection, project_id, after=after, limit=BATCH_CHUNKS
                )
            if not rows:
                break
            if step is not None:
                step(len(rows))
            after = (rows[-1].document_id, rows[-1].ordinal)
            # Refused by this run already.
            rows = [row for row in rows if row.id not in self._refused_rows]
            texts = [embedded_text(row) for row in rows]
            blank += [row.id for row, text in zip(rows, texts, strict=True) if is_blank(text)]
            places = [(row.id, note(row.place, row)) for row in rows]
            vectors = self._embed(texts, places=places, project_id=project_id)
            done = [(row.id, v) for row, v in zip(rows, vectors, strict=True) if v is not None]
            if done:
                retried(partial(self._complete, project_id, done))
        with self.database.transaction(projects=[project_id]) as connection:
            store.complete_documents(connection, project_id, blank=blank)

    def _complete(self, project_id: int, done: list[tuple[UUID, NDArray[np.float32]]]) -> None:
        with self.database.transaction(projects=[project_id]) as connection:
            self._require_still(connection)
            store.set_embeddings(
                connection,
                done,
                project_id=project_id,
                model=self.embedder.id,
                version=self.embedder.version,
            )

    def _require_still(self, connection: AppConnection) -> None:
        """Write no vector among those of another embedder. Errors: EmbedderMismatch."""
        active = store.active_embedder(connection)
        if active is not None and active.fingerprint != fingerprint(self.embedder):
            raise mismatch(active, self.embedder)

    def _embed(
        self, texts: Sequence[str], *, places: Sequence[tuple[UUID, FileNote]], project_id: int
    ) -> list[NDArray[np.float32] | None]:
        if not texts:
            return []
        if not self._is_identified and not all(map(is_blank, texts)):
            # Nothing is cached of weights that nobody knows.
            self.failure = self._outage
            self.without_vector += len(texts)
            return [None] * len(texts)
        # One probe a run: a dead embedder is not asked again for every batch.
        result = embed_texts(
            self.cache or self.database,
            self.embedder,
            texts,
            role="document",
            project_id=project_id if self.cache is None else self.cache_project,
            outage=self.failure or self._outage,
        )
        self.failure = self.failure or result.failure
        for position, why in result.refused.items():
            self._refusal = why
            row, note = places[position]
            self._refused_rows.add(row)
            self.refused.append(replace(note, reason=f"{note.reason}: {why.detail}"))
        made = sum(vector is not None for vector in result.vectors)
        self.embedded += made
        self.without_vector += len(texts) - made
        if made and not self._has_column:
            ensure_vector_column(self.admin_url, self.embedder)
            self._has_column = True
        return result.vectors


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


def note(path: str, chunk: store.ChunkRow | store.UnembeddedChunk) -> FileNote:
    """Where a text stands, as the report says it when it has no vector."""
    lines = f" for lines {chunk.line_start}-{chunk.line_end}" if chunk.line_start else ""
    return FileNote(path=path, reason=f"no vector{lines}")


def ensure_vector_index(admin_url: str) -> None:
    """Index the vectors once, as the owner: those that are there and those to come."""
    with connect(admin_url) as connection:
        lock_schema(connection)
        store.add_vector_index(connection)


def _with_states(
    batch: Sequence[Prepared], vectors: Sequence[NDArray[np.float32] | None]
) -> Iterator[store.DocumentRow]:
    """The documents of ``batch``; complete where every chunk that can be embedded was."""
    left = iter(vectors)
    for item in batch:
        lacking = [text for text in item.texts if next(left) is None and not is_blank(text)]
        yield replace(item.document, state="incomplete" if lacking else "complete")
