"""A sample of a project's own rows, and how far its vectors were found to know them."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import class_row

from lastro.db.pool import AppConnection
from lastro.sql import load_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRow:
    """A published row with its vector, as it is stored."""

    id: UUID
    content: str
    embedding: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """What a look found: mean agreement of ``questions``, and the share of the weight it deserves.

    ``embedder`` is a fingerprint, ``row_count`` how many rows were looked at; ``lexical_mrr`` is
    the mean reciprocal rank of a sentence's own passage by words. What is left is None where too
    few could be asked, and ``trust`` also where the words themselves are noise.
    """

    embedder: str
    row_count: int
    questions: int
    agreement: float | None
    lexical_mrr: float | None
    trust: float | None


def sample_rows(connection: AppConnection, project_id: int, *, limit: int) -> list[SampledRow]:
    """The rows of smallest id, at most ``limit``."""
    # A vector's text form takes a millisecond to read.
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(
            load_queries("self_checks")["sample_rows"],
            {"project_id": project_id, "sample_rows": limit},
        )
        return [
            SampledRow(id=id_, content=content, embedding=_array(embedding))
            for id_, content, embedding in rows
        ]


def _array(embedding: Any) -> NDArray[np.float32]:
    return np.asarray(embedding.to_numpy(), dtype=np.float32)


def last_check(connection: AppConnection, project_id: int) -> SelfCheck | None:
    """What the last look found; None before the first."""
    with connection.cursor(row_factory=class_row(SelfCheck)) as cursor:
        return cursor.execute(
            load_queries("self_checks")["last_check"], {"project_id": project_id}
        ).fetchone()


def save_check(connection: AppConnection, check: SelfCheck, *, project_id: int) -> None:
    """Keep what a look found, in place of the last."""
    connection.execute(
        load_queries("self_checks")["save_check"],
        {
            "project_id": project_id,
            "embedder": check.embedder,
            "row_count": check.row_count,
            "questions": check.questions,
            "agreement": check.agreement,
            "lexical_mrr": check.lexical_mrr,
            "trust": check.trust,
        },
    )
