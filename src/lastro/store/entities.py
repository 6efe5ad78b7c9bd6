"""Entries of a knowledge base, as documents whose metadata hold them whole."""

from collections.abc import Sequence
from typing import Any

from psycopg.rows import class_row

from lastro.db.pool import AppConnection
from lastro.entity import EntitySummary
from lastro.sql import load_queries
from lastro.store.documents import StoredDocument


def entity_documents(
    connection: AppConnection, keys: Sequence[str], *, project_id: int
) -> dict[str, StoredDocument]:
    """What is stored of these keys, by key."""
    with connection.cursor(row_factory=class_row(StoredDocument)) as cursor:
        found = cursor.execute(
            load_queries("entities")["entity_documents"],
            {"project_id": project_id, "keys": list(keys)},
        )
        return {document.place: document for document in found}


def entities_after(
    connection: AppConnection, key: str, *, project_id: int, limit: int
) -> list[dict[str, Any]]:
    """The entries behind ``key`` as their lines say them, in the order of their keys."""
    rows = connection.execute(
        load_queries("entities")["entities_after"],
        {"project_id": project_id, "key": key, "limit": limit},
    )
    return [row[0] for row in rows]


def find_entity(connection: AppConnection, key: str, *, project_id: int) -> dict[str, Any] | None:
    """The entry called ``key`` as its line says it; None where there is none."""
    row = connection.execute(
        load_queries("entities")["find_entity"], {"project_id": project_id, "key": key}
    ).fetchone()
    return None if row is None else row[0]


def entity_summaries(
    connection: AppConnection,
    project_id: int,
    *,
    type_: str | None,
    status: str | None,
    after: str | None = None,
    limit: int | None = None,
) -> list[EntitySummary]:
    """Entries without their texts, by key, behind ``after``; of one type or status where named."""
    with connection.cursor(row_factory=class_row(EntitySummary)) as cursor:
        return cursor.execute(
            load_queries("entities")["entity_summaries"],
            {
                "project_id": project_id,
                "type": type_,
                "status": status,
                "after": after,
                "limit": limit,
            },
        ).fetchall()
