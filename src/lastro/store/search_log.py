"""The log of searches: rows of ``search_log`` and ``search_log_keys``."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.logged_search import LoggedSearch, SearchPlace
from lastro.sql import load_queries


def search_log_key(connection: AppConnection, project_id: int) -> bytes | None:
    """What a project's questions are hashed with; None where it has no key yet."""
    row = connection.execute(
        load_queries("search_log")["search_log_key"], {"project_id": project_id}, prepare=True
    ).fetchone()
    return None if row is None else row[0]


def insert_search_log_key(connection: AppConnection, key: bytes, *, project_id: int) -> None:
    """Make a key the project's, unless it has one."""
    connection.execute(
        load_queries("search_log")["insert_search_log_key"],
        {"project_id": project_id, "new_key": key},
    )


def record_searches(
    connection: AppConnection, searches: Sequence[Mapping[str, Any]], *, project_id: int
) -> None:
    """Add searches of a project, each with the values of its row as JSON."""
    connection.execute(
        load_queries("search_log")["record_searches"],
        {"project_id": project_id, "searches": Jsonb(searches)},
    )


def list_searches(
    connection: AppConnection,
    project_id: int,
    *,
    since: datetime | None = None,
    slow_ms: float | None = None,
    degraded: bool = False,
    abstained: bool = False,
    before: SearchPlace | None = None,
    limit: int | None = None,
) -> list[LoggedSearch]:
    """Searches of a project, the newest first: those that took ``slow_ms`` or more, and so on."""
    with connection.cursor(row_factory=class_row(LoggedSearch)) as cursor:
        return cursor.execute(
            load_queries("search_log")["list_searches"],
            {
                "project_id": project_id,
                "since": since,
                "slow_ms": slow_ms,
                "only_degraded": degraded,
                "only_abstained": abstained,
                "before": None if before is None else before.id,
                "before_at": None if before is None else before.at,
                "limit": limit,
            },
        ).fetchall()


def prune_searches(
    connection: AppConnection, projects: Sequence[int], *, kept_s: float, limit: int
) -> int:
    """Delete some of the rows that are older than so many seconds; returns how many, all told."""
    return connection.execute(
        load_queries("search_log")["prune_searches"],
        {"projects": list(projects), "kept_s": kept_s, "limit": limit},
    ).rowcount
