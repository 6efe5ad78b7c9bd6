"""The only caller of named queries: rows in, rows out, no ranking.

Every function takes a connection inside a transaction that its use case opened.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.sql import SQL, Composable, Identifier, Literal
from psycopg.types.json import Jsonb

from lastro.errors import NotFound
from lastro.filters import Predicate
from lastro.lexical_sql import LexicalScore
from lastro.sql import load_queries
from lastro.types import Adr, FileNote, LanguageStatistics, Scope

AppConnection = Connection[TupleRow]

# Name space of the advisory locks that index runs take, one for each project.
_PROJECT_LOCKS = 7_125


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A tenant."""

    id: int
    slug: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a project's files come from; ``revision`` and ``indexed_at`` are stored facts."""

    name: str
    root: str
    ref: str | None
    revision: str | None
    indexed_at: datetime | None
    skipped: list[dict[str, str]]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveEmbedder:
    """The embedder whose vectors this database holds."""

    id: str
    version: str
    dimension: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRow:
    """A candidate as one leg found it; ``place`` is its path, session or key."""

    id: UUID
    document_id: UUID
    place: str
    ordinal: int
    char_start: int
    char_end: int
    score: float
    matched: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRow:
    """Content and citation of a hit."""

    id: UUID
    scope: Scope
    content: str
    source_path: str | None
    session_id: str | None
    event_id: str | None
    entity_key: str | None
    entity_type: str | None
    heading_path: list[str] | None
    anchor: str | None
    line_start: int | None
    line_end: int | None
    title: str | None
    source: str | None
    revision: str | None
    adr_number: int | None
    adr_status: str | None
    adr_date: str | None
    adr_superseded_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectState:
    """A project with its counts, for listings."""

    id: int
    slug: str
    name: str
    scopes: list[Scope]
    revision: str | None
    documents: int
    incomplete: int
    chunks: int
    without_vector: int
    indexed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeCounts:
    """What the index holds of one scope of a project."""

    scope: Scope
    indexed: int
    with_vectors: int
    incomplete: int
    chunks: int


# --- projects and sources


def find_project(connection: AppConnection, slug: str) -> Project:
    """The project called ``slug``. Errors: NotFound."""
    with connection.cursor(row_factory=class_row(Project)) as cursor:
        found = cursor.execute(load_queries("projects")["find_project"], {"slug": slug}).fetchone()
    if found is None:
        raise NotFound(
            f"there is no project {slug!r}",
            remedy="see `lastro projects`, or make it with `lastro index`",
        )
    return found


def ensure_project(connection: AppConnection, slug: str) -> Project:
    """The project called ``slug``, created where it is missing."""
    connection.execute(load_queries("projects")["create_project"], {"slug": slug})
    return find_project(connection, slug)


def all_projects(connection: AppConnection) -> list[Project]:
    """Every project, by name."""
    with connection.cursor(row_factory=class_row(Project)) as cursor:
        return cursor.execute(load_queries("projects")["all_projects"]).fetchall()


def project_states(connection: AppConnection, project_ids: Sequence[int]) -> list[ProjectState]:
    """Counts of the named projects, by name; they must be visible to the transaction."""
    with connection.cursor(row_factory=class_row(ProjectState)) as cursor:
        return cursor.execute(
            load_queries("projects")["project_summaries"], {"projects": list(project_ids)}
        ).fetchall()


def lock_project(connection: AppConnection, project_id: int) -> None:
    """Wait for the turn of this session to index the project."""
    connection.execute(
        load_queries("projects")["lock_project"],
        {"space": _PROJECT_LOCKS, "project_id": project_id % 2**31},
    )


def unlock_project(connection: AppConnection, project_id: int) -> None:
    """Give the turn back."""
    connection.execute(
        load_queries("projects")["unlock_project"],
        {"space": _PROJECT_LOCKS, "project_id": project_id % 2**31},
    )


def project_is_locked(connection: AppConnection, project_id: int) -> bool:
    """Whether some session has its turn now."""
    row = connection.execute(
        load_queries("projects")["project_is_locked"],
        {"space": _PROJECT_LOCKS, "project_id": project_id % 2**31},
    ).fetchone()
    return row is not None and bool(row[0])


def scope_counts(connection: AppConnection, project_id: int) -> list[ScopeCounts]:
    """Documents and chunks of a project by scope."""
    with connection.cursor(row_factory=class_row(ScopeCounts)) as cursor:
        return cursor.execute(
            load_queries("projects")["scope_counts"], {"project_id": project_id}
        ).fetchall()


def project_sources(connection: AppConnection, project_id: int) -> list[Source]:
    """The sources of a project, by name."""
    with connection.cursor(row_factory=class_row(Source)) as cursor:
        return cursor.execute(
            load_queries("projects")["project_sources"], {"project_id": project_id}
        ).fetchall()


def folder_projects(connection: AppConnection, root: str) -> list[tuple[str, str]]:
    """Slug and source name of each visible project that indexes ``root``, last indexed first."""
    rows = connection.execute(load_queries("projects")["find_source"], {"root": root})
    return [(row[0], row[1]) for row in rows]


def save_source(
    connection: AppConnection,
    *,
    project_id: int,
    name: str,
    root: str,
    ref: str | None,
    revision: str | None,
    skipped: Sequence[FileNote],
    finished: bool,
) -> None:
    """Record a source; revision, time and skipped files move only when a run ``finished``."""
    notes = [{"path": note.path, "reason": note.reason} for note in skipped]
    connection.execute(
        load_queries("projects")["save_source"],
        {
            "project_id": project_id,
            "name": name,
            "root": root,
            "ref": ref,
            "revision": revision,
            "skipped": Jsonb(notes),
            "finished": finished,
        },
    )


# --- documents and chunks


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


def insert_document(connection: AppConnection, row: DocumentRow, *, project_id: int) -> None:
    """Write a document, without its chunks."""
    adr = row.adr or Adr(number=None, status=None)
    connection.execute(
        load_queries("documents")["insert_document"],
        {
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
        },
    )


def copy_chunks(
    connection: AppConnection, rows: Sequence[ChunkRow], *, project_id: int, with_vectors: bool
) -> None:
    """Write chunks with COPY; ``with_vectors`` says whether the vector column exists yet."""
    names = [name for name in _CHUNK_COLUMNS if with_vectors or name not in _VECTOR_COLUMNS]
    columns = SQL(", ").join(map(Identifier, ["project_id", *names]))
    queries = load_queries("documents")
    connection.execute(queries["stage_chunks"].format(columns=columns))
    copying = queries["copy_chunks"].format(columns=columns)
    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        for row in rows:
            copy.write_row([project_id, *(_column(row, name) for name in names)])
    connection.execute(queries["insert_chunks"].format(columns=columns))
    connection.execute(queries["drop_staged_chunks"])


_CHUNK_COLUMNS = tuple(ChunkRow.__dataclass_fields__)
_VECTOR_COLUMNS = frozenset({"embedding", "embedding_model", "embedding_version"})


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
    return _scalar(connection, "documents", "count_chunks", {"project_id": project_id})


def refresh_statistics(connection: AppConnection, project_id: int) -> None:
    """Count again what the lexical score needs: document frequencies, rows and mean lengths."""
    queries = load_queries("documents")
    source = queries["lexeme_source"].format(project_id=Literal(project_id))
    parameters = {"project_id": project_id}
    connection.execute(queries["delete_lexeme_stats"], parameters)
    connection.execute(
        queries["insert_lexeme_stats"].format(statement=Literal(source.as_string(connection))),
        parameters,
    )
    connection.execute(queries["delete_corpus_stats"], parameters)
    connection.execute(queries["insert_corpus_stats"], parameters)


# --- vectors


def vector_dimension(connection: AppConnection) -> int | None:
    """Width of the vector column; None before the first vector."""
    row = connection.execute(load_queries("vectors")["vector_dimension"]).fetchone()
    return None if row is None else int(row[0])


def add_vector_column(connection: AppConnection, dimension: int) -> None:
    """Add the vector column with its index. Owner only."""
    connection.execute(
        load_queries("vectors")["add_vector_column"].format(dimension=Literal(dimension))
    )


def active_embedder(connection: AppConnection) -> ActiveEmbedder | None:
    """The embedder of this database's vectors; None before the first."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UnembeddedChunk:
    """A stored chunk that has no vector yet, with what is embedded of it."""

    id: UUID
    title: str
    heading_text: str
    context: str
    content: str


def chunks_without_vector(
    connection: AppConnection, project_id: int, *, limit: int
) -> list[UnembeddedChunk]:
    """Chunks of incomplete documents, by place."""
    with connection.cursor(row_factory=class_row(UnembeddedChunk)) as cursor:
        return cursor.execute(
            load_queries("vectors")["chunks_without_vector"],
            {"project_id": project_id, "limit": limit},
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
    ordered = sorted(vectors, key=lambda pair: pair[0])
    connection.execute(
        load_queries("vectors")["set_embeddings"],
        {
            "project_id": project_id,
            "model": model,
            "version": version,
            "ids": [id_ for id_, _ in ordered],
            "embeddings": [HalfVector(vector).to_text() for _, vector in ordered],
        },
    )


def complete_documents(connection: AppConnection, project_id: int) -> None:
    """Mark documents complete of which every chunk has a vector."""
    connection.execute(load_queries("vectors")["complete_documents"], {"project_id": project_id})


def cached_embeddings(
    connection: AppConnection, hashes: Sequence[bytes], *, fingerprint: str
) -> dict[bytes, NDArray[np.float32]]:
    """Vectors known for these text hashes, by hash."""
    rows = connection.execute(
        load_queries("vectors")["cached_embeddings"],
        {"fingerprint": fingerprint, "hashes": list(hashes)},
    )
    return {bytes(row[0]): np.frombuffer(row[1], dtype="<f4") for row in rows}


def cache_embeddings(
    connection: AppConnection,
    vectors: Mapping[bytes, NDArray[np.float32]],
    *,
    fingerprint: str,
) -> None:
    """Keep vectors by the hash of their text."""
    connection.execute(
        load_queries("vectors")["cache_embeddings"],
        {
            "fingerprint": fingerprint,
            "hashes": list(vectors),
            "embeddings": [vector.astype("<f4").tobytes() for vector in vectors.values()],
        },
    )


# --- search


def project_statistics(connection: AppConnection, project_id: int) -> list[LanguageStatistics]:
    """Rows and mean length by language, most rows first."""
    with connection.cursor(row_factory=class_row(LanguageStatistics)) as cursor:
        return cursor.execute(
            load_queries("search")["project_statistics"], {"project_id": project_id}
        ).fetchall()


def parse_query(
    connection: AppConnection,
    forms: Sequence[tuple[int, int, str]],
    *,
    project_id: int,
    languages: Sequence[str],
) -> list[tuple[int, int, str, str, int]]:
    """Lexemes and frequencies of (word, form, text) under each language.

    Returns (word, form, language, lexeme, df) rows.
    """
    return connection.execute(
        load_queries("search")["parse_query"],
        {
            "word_nos": [form[0] for form in forms],
            "form_nos": [form[1] for form in forms],
            "forms": [form[2] for form in forms],
            "languages": list(languages),
            "project_id": project_id,
        },
    ).fetchall()


def count_up_to(connection: AppConnection, predicate: Predicate, *, limit: int) -> int:
    """Rows with a vector that the filter keeps, counted no further than ``limit``."""
    query = load_queries("search")["count_up_to"].format(filter=predicate.condition)
    row = connection.execute(query, {**predicate.parameters, "limit": limit}).fetchone()
    return 0 if row is None else int(row[0])


def vector_leg(
    connection: AppConnection,
    predicate: Predicate,
    *,
    embedding: NDArray[np.float32],
    depth: int,
    exact: bool,
) -> list[LegRow]:
    """The ``depth`` nearest rows by cosine, best first; ``exact`` reads every kept row."""
    name = "vector_leg_exact" if exact else "vector_leg_hnsw"
    query = load_queries("search")[name].format(filter=predicate.condition)
    parameters = {**predicate.parameters, "embedding": HalfVector(embedding), "depth": depth}
    with connection.cursor(row_factory=class_row(LegRow)) as cursor:
        return cursor.execute(query, parameters).fetchall()


def lexical_leg(
    connection: AppConnection,
    predicate: Predicate,
    *,
    gate: Composable,
    score: Composable,
    depth: int,
    row_limit: int,
) -> list[LegRow]:
    """The ``depth`` best of the rows that pass ``gate``, best first.

    ``matched`` of each row is how many passed, at most ``row_limit``.
    """
    query = load_queries("search")["lexical_leg"].format(
        filter=predicate.condition, gate=gate, score=score
    )
    parameters = {**predicate.parameters, "depth": depth, "row_limit": row_limit}
    with connection.cursor(row_factory=class_row(LegRow)) as cursor:
        return cursor.execute(query, parameters).fetchall()


def complete_scores(
    connection: AppConnection,
    ids: Sequence[UUID],
    *,
    project_id: int,
    embedding: NDArray[np.float32] | None,
    scoring: LexicalScore | None,
) -> dict[UUID, tuple[float | None, float | None]]:
    """Vector and lexical score of each row, None where it has no vector or does not match."""
    cosine = SQL("NULL::double precision")
    parameters: dict[str, object] = {"project_id": project_id, "ids": list(ids)}
    if embedding is not None:
        cosine = SQL("1 - (embedding <=> %(embedding)s::halfvec)")
        parameters["embedding"] = HalfVector(embedding)
    lexical = SQL("NULL::double precision")
    if scoring is not None:
        lexical = SQL("CASE WHEN {match} THEN {score} END").format(
            match=scoring.match, score=scoring.score
        )
    query = load_queries("search")["complete_scores"].format(cosine=cosine, lexical=lexical)
    return {row[0]: (row[1], row[2]) for row in connection.execute(query, parameters)}


def count_incomplete(connection: AppConnection, project_id: int) -> int:
    """Documents of a project that still have chunks without a vector."""
    return _scalar(connection, "documents", "count_incomplete", {"project_id": project_id})


def fetch_hits(
    connection: AppConnection, ids: Sequence[UUID], *, project_id: int
) -> dict[UUID, HitRow]:
    """Content and citation of the named chunks."""
    with connection.cursor(row_factory=class_row(HitRow)) as cursor:
        rows = cursor.execute(
            load_queries("search")["fetch_hits"], {"project_id": project_id, "ids": list(ids)}
        ).fetchall()
    return {row.id: row for row in rows}


def _scalar(
    connection: AppConnection, file: str, name: str, parameters: Mapping[str, object]
) -> int:
    row = connection.execute(load_queries(file)[name], parameters).fetchone()
    return 0 if row is None else int(row[0])
