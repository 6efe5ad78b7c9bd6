"""Stored profiles, which of them a project answers with, and the scale of its cosines."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.sql import load_queries
from lastro.store.projects import wait_to_number

# Rows whose cosines with each other make the scale: 32,640 pairs, 30 ms at 512 dimensions.
SCALE_ROWS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingNumbers:
    """The adopted version of a profile and the scale of the cosines; None where there is none.

    ``chosen`` says whether a person chose what answers, the shipped version among it, ``looked_at``
    whether the project's texts told how far its vectors can be trusted.
    """

    body: Mapping[str, Any] | None
    chosen: bool
    mean: float | None
    spread: float | None
    looked_at: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """A version of a profile; ``adopted`` says whether it is the one that answers."""

    body: Mapping[str, Any]
    created_at: datetime
    adopted: bool


def ranking_numbers(connection: AppConnection, name: str, *, project_id: int) -> RankingNumbers:
    """What a project changes of the profile called ``name``."""
    with connection.cursor(row_factory=class_row(RankingNumbers)) as cursor:
        found = cursor.execute(
            load_queries("profiles")["ranking_numbers"],
            {"project_id": project_id, "name": name},
            prepare=True,
        ).fetchone()
    return found or RankingNumbers(body=None, chosen=False, mean=None, spread=None, looked_at=False)


def find_profile(
    connection: AppConnection, name: str, *, version: int, project_id: int
) -> Mapping[str, Any] | None:
    """The body of one stored version; None where it is not there."""
    row = connection.execute(
        load_queries("profiles")["find_profile"],
        {"project_id": project_id, "name": name, "version": version},
    ).fetchone()
    return None if row is None else row[0]


def stored_profiles(connection: AppConnection, project_id: int) -> list[StoredProfile]:
    """Every stored version, by name and version."""
    with connection.cursor(row_factory=class_row(StoredProfile)) as cursor:
        return cursor.execute(
            load_queries("profiles")["stored_profiles"], {"project_id": project_id}
        ).fetchall()


def save_profile(
    connection: AppConnection, body: Mapping[str, Any], *, project_id: int, after: int
) -> int:
    """Store a profile as the next version of its name, above ``after``; returns the version."""
    wait_to_number(connection, project_id)
    row = connection.execute(
        load_queries("profiles")["save_profile"],
        {
            "project_id": project_id,
            "name": body["name"],
            "body": Jsonb(dict(body)),
            "after": after,
        },
    ).fetchone()
    assert row is not None
    return int(row[0])


def adopt_profile(
    connection: AppConnection,
    name: str,
    *,
    version: int | None,
    project_id: int,
    by_itself: bool = False,
) -> None:
    """Answer with this version from now on; None is the one shipped or set.

    ``by_itself`` says that an index run chose it, and no person.
    """
    wait_to_number(connection, project_id)
    connection.execute(
        load_queries("profiles")["adopt_profile"],
        {
            "project_id": project_id,
            "name": name,
            "version": version,
            "by_itself": by_itself,
        },
    )


def roll_back_profile(connection: AppConnection, name: str, *, project_id: int) -> bool:
    """Answer with what answered before the last adoption; False where nothing was adopted.

    Where an index run had adopted it by itself, what answers now is chosen, and stays.
    """
    wait_to_number(connection, project_id)
    row = connection.execute(
        load_queries("profiles")["roll_back_profile"], {"project_id": project_id, "name": name}
    ).fetchone()
    if row is not None and row[0]:
        body = ranking_numbers(connection, name, project_id=project_id).body
        version = None if body is None else int(body["version"])
        adopt_profile(connection, name, version=version, project_id=project_id)
    return row is not None


def refresh_vector_scale(connection: AppConnection, project_id: int, *, least_rows: int) -> None:
    """Measure the cosines of random pairs again; no scale where fewer rows have a vector."""
    queries = load_queries("profiles")
    connection.execute(queries["delete_vector_scale"], {"project_id": project_id})
    connection.execute(
        queries["insert_vector_scale"],
        {"project_id": project_id, "sample_rows": SCALE_ROWS, "least_rows": least_rows},
    )
