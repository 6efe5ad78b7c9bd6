"""Where an expected passage lies, and where it stands in each leg however deep that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg.rows import class_row
from psycopg.sql import SQL, Composed

from lastro.db.pool import AppConnection
from lastro.filters import Predicate
from lastro.lexical_sql import Expression, LexicalScore
from lastro.places import ChunkPlace
from lastro.sql import load_queries
from lastro.types import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedChunk:
    """A chunk of a file, a session or an entry, whatever its status."""

    id: UUID
    source: str | None
    path: str | None
    heading_path: list[str]
    anchor: str | None
    line_start: int | None
    line_end: int | None
    session: str | None
    event: str | None
    entity: str | None
    scope: Scope
    status: str
    has_vector: bool

    @property
    def place(self) -> ChunkPlace:
        """Where it lies, as judgements compare it."""
        return ChunkPlace(
            path=self.path,
            heading_path=tuple(self.heading_path),
            anchor=self.anchor,
            line_start=self.line_start,
            line_end=self.line_end,
            session=self.session,
            event=self.event,
            entity=self.entity,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRank:
    """Score of a row and its rank, from 1, among ``total`` rows."""

    id: UUID
    score: float
    rank: int
    total: int


def file_places(connection: AppConnection, project_id: int) -> list[str]:
    """The path of every file that the index knows, in order."""
    rows = connection.execute(load_queries("why")["file_places"], {"project_id": project_id})
    return [row[0] for row in rows]


def expected_chunks(
    connection: AppConnection,
    places: Sequence[str],
    *,
    project_id: int,
    kind: Literal["file", "session", "entity"],
) -> list[ExpectedChunk]:
    """Every chunk of the files, sessions or entries at ``places``, in the order of their text."""
    with connection.cursor(row_factory=class_row(ExpectedChunk)) as cursor:
        return cursor.execute(
            load_queries("why")["expected_chunks"],
            {"project_id": project_id, "places": list(places), "kind": kind},
        ).fetchall()


def kept_chunks(
    connection: AppConnection, predicate: Predicate, ids: Sequence[UUID]
) -> frozenset[UUID]:
    """Those of ``ids`` that a search with this filter may see."""
    query = load_queries("why")["kept_chunks"].format(filter=predicate.condition)
    rows = connection.execute(query, {**predicate.parameters, "ids": list(ids)})
    return frozenset(row[0] for row in rows)


def vector_ranks(
    connection: AppConnection,
    predicate: Predicate,
    ids: Sequence[UUID],
    *,
    embedding: NDArray[np.float32],
) -> dict[UUID, LegRank]:
    """Cosine and exact rank of ``ids`` among the rows that the filter keeps."""
    query = load_queries("why")["vector_ranks"].format(filter=predicate.condition)
    parameters = {**predicate.parameters, "embedding": HalfVector(embedding), "ids": list(ids)}
    return _ranks(connection, query, parameters)


def lexical_ranks(
    connection: AppConnection, predicate: Predicate, ids: Sequence[UUID], *, scoring: LexicalScore
) -> dict[UUID, LegRank]:
    """Lexical score and rank of ``ids`` among the rows of the filter that hold a query word."""
    query = load_queries("why")["lexical_ranks"].format(
        filter=predicate.condition, match=scoring.match, score=scoring.score
    )
    parameters = {**predicate.parameters, **scoring.parameters, "ids": list(ids)}
    return _ranks(connection, query, parameters)


def _ranks(
    connection: AppConnection, query: Composed, parameters: dict[str, object]
) -> dict[UUID, LegRank]:
    with connection.cursor(row_factory=class_row(LegRank)) as cursor:
        return {row.id: row for row in cursor.execute(query, parameters)}


def held_words(
    connection: AppConnection,
    ids: Sequence[UUID],
    *,
    project_id: int,
    matches: Sequence[Expression],
) -> dict[UUID, list[bool]]:
    """Whether each of the named rows meets each of ``matches``, for those that are there."""
    held = SQL(", ").join([match.sql for match in matches])
    query = load_queries("why")["held_words"].format(held=held)
    parameters: dict[str, object] = {"project_id": project_id, "ids": list(ids)}
    for match in matches:
        parameters |= match.parameters
    rows = connection.execute(query, parameters)
    return {row[0]: row[1] for row in rows}
