"""The two legs, what completes their scores, and the text of the hits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg import Cursor
from psycopg.sql import SQL, Composable, Composed

from lastro.db.pool import AppConnection
from lastro.filters import Predicate
from lastro.lexical_sql import Expression, LexicalScore
from lastro.sql import load_queries
from lastro.store.projects import Project, is_within_work, no_such_project
from lastro.store.vectors import ActiveEmbedder
from lastro.types import LanguageStatistics, Scope


class LegRow(NamedTuple):
    """A candidate as one leg found it; ``place`` is its path, session or key.

    ``score`` is the leg's own, ``other`` what the other leg gives it, None where that is nothing.
    ``age_days`` counts from its date, below 0 for one to come; None without a date. The fields are
    the columns of the legs' queries, in order.
    """

    id: UUID
    document_id: UUID
    language: str
    place: str
    ordinal: int
    char_start: int
    char_end: int
    rule_weight: float
    age_days: float | None
    score: float
    other: float | None
    matched: int


class HitRow(NamedTuple):
    """Content and citation of a hit; the fields are the columns of ``fetch_hits``, in order."""

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
class Corpus:
    """What a project's rows are, from counts that are kept.

    ``statistics`` are of the last refresh, most rows first. ``indexed`` counts rows of all projects
    in the vector index, as the server last did; ``incomplete`` documents without all their
    vectors, and ``unfinished`` sources with a run that has not ended. ``has_words`` says whether
    the project has words of its own. ``embedder`` made the vectors, by its fingerprint, unless the
    embedder was switched since the transaction's snapshot: then it is not ``is_current``.
    ``ef_construction`` is how the vector index was built, None for as pgvector does by itself.
    """

    statistics: Sequence[LanguageStatistics]
    indexed: int
    incomplete: int
    unfinished: int
    has_words: bool = False
    embedder: str | None = None
    is_current: bool = True
    ef_construction: int | None = None

    @property
    def row_count(self) -> int:
        """Published rows at the last refresh."""
        return sum(row.chunk_count for row in self.statistics)


def opening(
    connection: AppConnection, slug: str
) -> tuple[Project, ActiveEmbedder | None, int | None]:
    """The project called ``slug``, the active embedder, and the width of its vectors.

    Errors: NotFound.
    """
    query = load_queries("search")["opening"]
    row = connection.execute(query, {"slug": slug}, prepare=True).fetchone()
    if row is None or not is_within_work(row[0]):
        raise no_such_project(slug)
    active = None
    if row[3] is not None:
        active = ActiveEmbedder(id=row[3], version=row[4], dimension=row[5], fingerprint=row[6])
    return Project(id=row[0], slug=row[1], name=row[2]), active, row[7]


def corpus(connection: AppConnection, project_id: int) -> Corpus:
    """What a search must know of a project's rows."""
    query = load_queries("search")["corpus"]
    row = connection.execute(query, {"project_id": project_id}, prepare=True).fetchone()
    assert row is not None
    columns: list[list[Any]] = [column or [] for column in row[:4]]
    return Corpus(
        statistics=[
            LanguageStatistics(
                language=language, chunk_count=count, mean_length=length, mean_lexemes=lexemes
            )
            for language, count, length, lexemes in zip(*columns, strict=True)
        ],
        indexed=row[4],
        incomplete=row[6],
        unfinished=row[7],
        has_words=row[8],
        embedder=row[9],
        is_current=row[10],
        ef_construction=row[5],
    )


def parse_query(
    connection: AppConnection,
    forms: Sequence[tuple[int, int, str]],
    *,
    project_id: int,
    languages: Sequence[str],
    placed: bool = False,
) -> list[tuple[int, int, str, str, int, int]]:
    """Lexemes and frequencies of (word, form, text) under each language.

    Returns (word, form, language, lexeme, df, position) rows; the position is the first in the
    form where lexemes are to be ``placed``, else 1.
    """
    return connection.execute(
        load_queries("search")["parse_query"],
        {
            "word_nos": [form[0] for form in forms],
            "form_nos": [form[1] for form in forms],
            "forms": [form[2] for form in forms],
            "languages": list(languages),
            "project_id": project_id,
            "placed": placed,
        },
        prepare=True,
    ).fetchall()


def count_up_to(connection: AppConnection, predicate: Predicate, *, limit: int) -> int:
    """Rows that the filter keeps, counted no further than ``limit``."""
    query = load_queries("search")["count_up_to"].format(filter=predicate.condition)
    row = connection.execute(query, {**predicate.parameters, "limit": limit}).fetchone()
    return 0 if row is None else int(row[0])


def kept_of_sample(
    connection: AppConnection, predicate: Predicate, *, limit: int
) -> tuple[int, int]:
    """How many of at most ``limit`` rows of the project the filter keeps, and of how many."""
    query = load_queries("search")["kept_of_sample"].format(filter=predicate.condition)
    row = connection.execute(query, {**predicate.parameters, "limit": limit}).fetchone()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def vector_leg(
    connection: AppConnection,
    predicate: Predicate,
    *,
    embedding: NDArray[np.float32],
    depth: int,
    exact: bool,
    scoring: LexicalScore | None = None,
    kept_limit: int | None = None,
) -> list[LegRow]:
    """The ``depth`` nearest rows by cosine, best first; ``exact`` reads every kept row.

    ``other`` is their lexical score, None without ``scoring`` and where a row does not match. With
    ``kept_limit`` exact search reads no more than these, and ``matched`` is how many it read.
    """
    parameters = {**predicate.parameters, "embedding": HalfVector(embedding), "depth": depth}
    lexical: Composable = SQL("NULL::double precision")
    if scoring is not None:
        parameters |= scoring.parameters
        lexical = SQL("CASE WHEN {match} THEN {score} END").format(
            match=scoring.match, score=scoring.score
        )
    name = "vector_leg_exact" if exact else "vector_leg_hnsw"
    query = load_queries("search")[name].format(filter=predicate.condition, lexical=lexical)
    if exact:
        parameters["kept_limit"] = kept_limit
    return _leg_rows(connection, query, parameters)


def lexical_leg(
    connection: AppConnection,
    predicate: Predicate,
    *,
    gate: Expression,
    scoring: LexicalScore,
    depth: int,
    row_limit: int,
    counted: bool,
    embedding: NDArray[np.float32] | None = None,
) -> list[LegRow]:
    """The ``depth`` best of the rows that pass ``gate``, best first.

    ``other`` is their cosine, None without ``embedding`` and for a row without a vector. Where they
    are ``counted``, ``matched`` of each row is how many passed, at most ``row_limit``.
    """
    cosine, column = SQL("NULL::double precision"), SQL("NULL::text")
    parameters = {
        **predicate.parameters,
        **gate.parameters,
        **scoring.parameters,
        "depth": depth,
        "row_limit": row_limit,
    }
    if embedding is not None:
        cosine, column = SQL("1 - (embedding <=> %(embedding)s::halfvec)"), SQL("embedding")
        parameters["embedding"] = HalfVector(embedding)
    query = load_queries("search")["lexical_leg"].format(
        filter=predicate.condition,
        gate=gate.sql,
        score=scoring.score,
        cosine=cosine,
        embedding=column,
        matched=SQL("count(*) OVER ()") if counted else SQL("0::bigint"),
    )
    return _leg_rows(connection, query, parameters)


def _leg_rows(
    connection: AppConnection, query: Composed, parameters: Mapping[str, Any]
) -> list[LegRow]:
    with connection.cursor(binary=True, row_factory=_leg_row) as cursor:
        return cursor.execute(query, parameters).fetchall()


def _leg_row(_cursor: Cursor[Any]) -> Callable[[Sequence[Any]], LegRow]:
    return LegRow._make


def lexical_parts(
    connection: AppConnection, ids: Sequence[UUID], *, project_id: int, scoring: LexicalScore
) -> dict[UUID, tuple[float, float]]:
    """Coverage before its length factor, and length ratio, of the named rows that match."""
    if scoring.coverage is None or scoring.length_ratio is None:
        return {}
    query = load_queries("search")["lexical_parts"].format(
        coverage=scoring.coverage, length_ratio=scoring.length_ratio, match=scoring.match
    )
    parameters = {**scoring.parameters, "project_id": project_id, "ids": list(ids)}
    rows = connection.execute(query, parameters)
    return {row[0]: (float(row[1]), float(row[2])) for row in rows}


def fetch_hits(
    connection: AppConnection, ids: Sequence[UUID], *, project_id: int
) -> dict[UUID, HitRow]:
    """Content and citation of the named chunks."""
    query = load_queries("search")["fetch_hits"]
    parameters = {"project_id": project_id, "ids": list(ids)}
    with connection.cursor(binary=True, row_factory=_hit_row) as cursor:
        rows = cursor.execute(query, parameters, prepare=True).fetchall()
    return {row.id: row for row in rows}


def _hit_row(_cursor: Cursor[Any]) -> Callable[[Sequence[Any]], HitRow]:
    return HitRow._make
