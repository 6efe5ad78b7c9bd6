"""Erasing: what goes with a project or a document, and what the database keeps of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.golden import GoldenSet, question_json
from lastro.sql import load_queries
from lastro.store.vectors import QUESTIONS

Kind = Literal["file", "session", "entity"]
# From this version on the owner of a table may forget what ANALYZE kept of it.
SAMPLES_FROM_VERSION = 180_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedCounts:
    """How much belongs to a project."""

    documents: int
    chunks: int
    events: int
    golden_sets: int
    runs: int
    gaps: int


def erased_counts(connection: AppConnection, project_id: int) -> ErasedCounts:
    """What a project has, of any status."""
    with connection.cursor(row_factory=class_row(ErasedCounts)) as cursor:
        found = cursor.execute(
            load_queries("erasure")["erased_counts"], {"project_id": project_id}
        ).fetchone()
    assert found is not None
    return found


def delete_project(connection: AppConnection, project_id: int) -> None:
    """Delete a project with every row that belongs to it."""
    connection.execute(load_queries("erasure")["delete_project"], {"project_id": project_id})


def documents_at(
    connection: AppConnection, places: Sequence[str], *, project_id: int, kind: Kind
) -> dict[UUID, int]:
    """Documents at the places, and how many chunks each has."""
    rows = connection.execute(
        load_queries("erasure")["documents_at"],
        {"project_id": project_id, "kind": kind, "places": list(places)},
    )
    return {row[0]: int(row[1]) for row in rows}


def forget_embeddings(
    connection: AppConnection, project_id: int, *, prefix: str, documents: Sequence[UUID] | None
) -> int:
    """Drop cached vectors of the documents' texts (None: the project's); returns how many.

    ``prefix`` is what the embedder reads before a document. To be called before the rows go.
    """
    return connection.execute(
        load_queries("erasure")["forget_embeddings"],
        {
            "project_id": project_id,
            "prefix": prefix,
            "ids": None if documents is None else list(documents),
            "questions": QUESTIONS,
        },
    ).rowcount


def every_golden_version(
    connection: AppConnection, project_id: int
) -> list[tuple[str, int, list[dict[str, Any]]]]:
    """Name, version and lines of every version of a project's golden sets."""
    rows = connection.execute(
        load_queries("erasure")["every_golden_version"], {"project_id": project_id}
    )
    return [(str(row[0]), int(row[1]), row[2]) for row in rows]


def keep_golden_questions(
    connection: AppConnection, golden: GoldenSet, *, project_id: int, version: int
) -> None:
    """Make ``golden`` what is left of a version; without a question the version goes."""
    key = {"project_id": project_id, "name": golden.name, "version": version}
    if not golden.questions:
        connection.execute(load_queries("erasure")["delete_golden_version"], key)
        return
    questions = Jsonb([question_json(question) for question in golden.questions])
    connection.execute(
        load_queries("erasure")["keep_golden_questions"],
        {**key, "questions": questions, "content_hash": golden.content_hash},
    )


def delete_runs_at(
    connection: AppConnection, shown_places: Sequence[str], *, project_id: int
) -> int:
    """Delete runs that asked for or showed a place, as runs write it; returns how many."""
    return connection.execute(
        load_queries("erasure")["delete_runs_at"],
        {"project_id": project_id, "shown_places": list(shown_places)},
    ).rowcount


def places_of_others(
    connection: AppConnection, roots: Sequence[str], *, project_id: int
) -> set[str]:
    """Those of ``roots`` that another visible project has as well."""
    rows = connection.execute(
        load_queries("erasure")["places_of_others"],
        {"project_id": project_id, "roots": list(roots)},
    )
    return {str(row[0]) for row in rows}


def vacuum_erased(connection: AppConnection) -> bool:
    """Let dead rows go, and what ANALYZE kept of them; False where this user owns no table.

    The connection is the owner's and in autocommit.
    """
    queries = load_queries("erasure")
    row = connection.execute(queries["may_vacuum"]).fetchone()
    if row is None or not row[0]:
        return False
    if connection.info.server_version >= SAMPLES_FROM_VERSION:
        connection.execute(queries["forget_samples"])
    connection.execute(queries["vacuum_erased"])
    return True
