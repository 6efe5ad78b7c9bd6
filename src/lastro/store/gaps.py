"""Questions that found nothing: counted, listed, and what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.gap import GapPlace, GapStatus
from lastro.sql import load_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """A gap; its nearest row by id, whatever became of that."""

    id: UUID
    query: str
    filter: dict[str, Any]
    hit_count: int
    first_seen: datetime
    last_seen: datetime
    status: GapStatus
    nearest_chunk: UUID | None
    nearest_score: float | None


def record_gap(
    connection: AppConnection,
    id_: UUID,
    *,
    project_id: int,
    query: str,
    normalised: str,
    asked_in: Mapping[str, Any],
    nearest: tuple[UUID, float] | None,
) -> None:
    """Count one more miss of a question; the first one keeps ``query`` as it was asked."""
    chunk, score = nearest or (None, None)
    connection.execute(
        load_queries("gaps")["record_gap"],
        {
            "project_id": project_id,
            "id": id_,
            "query": query,
            "normalised": normalised,
            "asked_in": Jsonb(asked_in),
            "nearest_chunk": chunk,
            "nearest_score": score,
        },
    )


def list_gaps(
    connection: AppConnection,
    project_id: int,
    *,
    ids: Sequence[UUID] | None = None,
    status: GapStatus | None = None,
    since: datetime | None = None,
    after: GapPlace | None = None,
    limit: int | None = None,
) -> list[GapRow]:
    """Gaps that were missed at ``since`` or later, those asked most often first, behind one."""
    with connection.cursor(row_factory=class_row(GapRow)) as cursor:
        return cursor.execute(
            load_queries("gaps")["list_gaps"],
            {
                "project_id": project_id,
                "ids": None if ids is None else list(ids),
                "status": status,
                "since": since,
                "after": None if after is None else after.id,
                "after_count": None if after is None else after.hit_count,
                "after_seen": None if after is None else after.last_seen,
                "limit": limit,
            },
        ).fetchall()


def gaps_called(
    connection: AppConnection, digits: Sequence[str], *, project_id: int
) -> list[tuple[str, UUID]]:
    """Each of ``digits`` with the id of every gap that begins so."""
    return connection.execute(
        load_queries("gaps")["gaps_called"], {"project_id": project_id, "digits": list(digits)}
    ).fetchall()


def set_gap_status(
    connection: AppConnection, ids: Sequence[UUID], *, project_id: int, status: GapStatus
) -> None:
    """Say what became of gaps."""
    connection.execute(
        load_queries("gaps")["set_gap_status"],
        {"project_id": project_id, "ids": list(ids), "status": status},
    )


def reopen_gaps(
    connection: AppConnection, ids: Sequence[UUID], *, project_id: int
) -> frozenset[UUID]:
    """Let gaps wait for an answer again; returns them, without those that were accepted."""
    opened = connection.execute(
        load_queries("gaps")["reopen_gaps"], {"project_id": project_id, "ids": list(ids)}
    )
    return frozenset(row[0] for row in opened)


def resolve_gap(connection: AppConnection, gap: GapRow, *, project_id: int) -> bool:
    """Close a gap; False where it was missed, dismissed or accepted since ``gap`` was read."""
    closed = connection.execute(
        load_queries("gaps")["resolve_gap"],
        {"project_id": project_id, "id": gap.id, "hit_count": gap.hit_count},
    )
    return closed.rowcount == 1


def forget_lost_nearest(connection: AppConnection, project_id: int) -> None:
    """Let gaps forget nearest rows that were erased, or replaced before that."""
    connection.execute(load_queries("gaps")["forget_lost_nearest"], {"project_id": project_id})


def count_open_gaps(connection: AppConnection, project_id: int) -> int:
    """How many questions of a project wait for an answer."""
    row = connection.execute(
        load_queries("gaps")["count_open_gaps"], {"project_id": project_id}
    ).fetchone()
    return 0 if row is None else int(row[0])
