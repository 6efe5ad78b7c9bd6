"""What a service says of all projects at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from lastro.db.pool import AppConnection
from lastro.sql import load_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits to be done in all projects.

    ``index_age_s`` seconds have passed since the last index run; None before the first.
    ``waiting_jobs`` are counted by their kind.
    """

    index_age_s: float | None
    open_gaps: int
    waiting_jobs: Mapping[str, int]


def backlog(connection: AppConnection, projects: Sequence[int]) -> Backlog:
    """What waits in ``projects``, which the transaction sees."""
    with connection.cursor(row_factory=class_row(Backlog)) as cursor:
        found = cursor.execute(
            load_queries("service")["backlog"], {"projects": list(projects)}
        ).fetchone()
    assert found is not None
    return found
