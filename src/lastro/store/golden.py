"""Golden sets, and where the chunks of judged places lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.golden import GoldenSet, question_json
from lastro.places import ChunkPlace, Passage
from lastro.sql import load_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenVersion:
    """One version of a golden set, with its counts."""

    name: str
    version: int
    content_hash: str
    imported_at: datetime
    questions: int
    unanswerable: int
    derived: int
    languages: list[str]


def chunk_places(
    connection: AppConnection, places: Sequence[str], *, project_id: int
) -> list[tuple[UUID, ChunkPlace]]:
    """Published chunks of the documents at ``places``: paths, sessions and keys."""
    rows = connection.execute(
        load_queries("golden")["chunk_places"], {"project_id": project_id, "places": list(places)}
    ).fetchall()
    return [
        (
            id_,
            ChunkPlace(
                path=path,
                heading_path=tuple(heading_path),
                anchor=anchor,
                line_start=line_start,
                line_end=line_end,
                session=session,
                event=event,
                entity=entity,
            ),
        )
        for id_, path, heading_path, anchor, line_start, line_end, session, event, entity in rows
    ]


def golden_versions(
    connection: AppConnection, *, project_id: int, name: str | None = None
) -> list[GoldenVersion]:
    """Every version of a project's sets, or of one, by name and the newest first."""
    with connection.cursor(row_factory=class_row(GoldenVersion)) as cursor:
        return cursor.execute(
            load_queries("golden")["golden_versions"], {"project_id": project_id, "name": name}
        ).fetchall()


def golden_questions(
    connection: AppConnection, *, project_id: int, name: str, version: int
) -> list[dict[str, Any]]:
    """The questions of a version as their lines say them; none where it does not exist."""
    row = connection.execute(
        load_queries("golden")["golden_questions"],
        {"project_id": project_id, "name": name, "version": version},
    ).fetchone()
    return [] if row is None else row[0]


def insert_golden_set(connection: AppConnection, golden: GoldenSet, *, project_id: int) -> int:
    """Store a set as the next version of its name, and return that.

    The transaction has waited to number.
    """
    row = connection.execute(
        load_queries("golden")["insert_golden_set"],
        {
            "project_id": project_id,
            "name": golden.name,
            "content_hash": golden.content_hash,
            "questions": Jsonb([question_json(question) for question in golden.questions]),
        },
    ).fetchone()
    assert row is not None
    return int(row[0])


def delete_golden_set(connection: AppConnection, *, project_id: int, name: str) -> int:
    """Delete every version of a set, and return how many there were."""
    return connection.execute(
        load_queries("golden")["delete_golden_set"], {"project_id": project_id, "name": name}
    ).rowcount


def passages(connection: AppConnection, project_id: int) -> list[Passage]:
    """Published chunks of a project's files, and its entries, as drafts are made from them."""
    rows = connection.execute(load_queries("golden")["passages"], {"project_id": project_id})
    return [
        Passage(
            path=path,
            entity=entity,
            is_adr=is_adr,
            title=title,
            language=language,
            heading_path=tuple(heading_path),
            anchor=anchor,
            content=content,
        )
        for path, entity, is_adr, title, language, heading_path, anchor, content in rows
    ]
