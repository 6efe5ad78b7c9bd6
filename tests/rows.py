"""Rows for tests that are about the tables themselves, written as their owner."""

import uuid
from datetime import UTC, date, datetime
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier, Placeholder
from psycopg.types.json import Jsonb

from lastro.sql import load_queries

# Origin columns of a chunk, as each scope wants them.
ORIGINS: dict[str, dict[str, Any]] = {
    "docs": {"source_path": "docs/a.md", "heading_path": ["A"], "line_start": 1, "line_end": 2},
    "adr": {"source_path": "docs/adr/1.md", "heading_path": [], "line_start": 1, "line_end": 1},
    "session": {"session_id": "s-1", "event_id": "e-1"},
    "entity": {"entity_key": "k-1", "entity_type": "faq"},
}
KINDS = {"docs": "file", "adr": "file", "session": "session", "entity": "entity"}


def add_project(connection: psycopg.Connection, slug: str) -> int:
    row = connection.execute(
        "INSERT INTO lastro.projects (slug, name) VALUES (%s, %s) RETURNING id", [slug, slug]
    ).fetchone()
    assert row is not None
    return row[0]


def add_document(
    connection: psycopg.Connection, project_id: int, *, scope: str = "docs", **columns: Any
) -> uuid.UUID:
    id_ = uuid.uuid4()
    kind = KINDS[scope]
    insert(
        connection,
        "documents",
        {
            "project_id": project_id,
            "id": id_,
            "kind": kind,
            "scope": scope,
            "source": "repository" if kind == "file" else None,
            "place": str(id_),
            "language": "en",
            "content_hash": "hash",
            "fingerprint": "print",
            "state": "complete",
            **columns,
        },
    )
    return id_


def add_chunk(
    connection: psycopg.Connection,
    project_id: int,
    content: str = "text",
    *,
    scope: str = "docs",
    document_id: uuid.UUID | None = None,
    **columns: Any,
) -> uuid.UUID:
    """Store a chunk, in a document of its own unless one is named."""
    id_ = uuid.uuid4()
    insert(
        connection,
        "chunks",
        {
            "project_id": project_id,
            "id": id_,
            "document_id": document_id or add_document(connection, project_id, scope=scope),
            "ordinal": 0,
            "scope": scope,
            "char_start": 0,
            "char_end": max(len(content), 1),
            "content": content,
            "language": "en",
            "token_count": len(content.split()),
            **ORIGINS[scope],
            **columns,
        },
    )
    return id_


def add_statistics(
    connection: psycopg.Connection, project_id: int, *, language: str = "en"
) -> None:
    """What a refresh would store for one row of one word."""
    insert(
        connection,
        "lexeme_stats",
        {"project_id": project_id, "language": language, "lexeme": language, "df": 1},
    )
    insert(
        connection,
        "corpus_stats",
        {
            "project_id": project_id,
            "language": language,
            "chunk_count": 1,
            "mean_length": 1.0,
            "mean_lexemes": 1.0,
        },
    )


def add_golden_set(connection: psycopg.Connection, project_id: int) -> None:
    insert(
        connection,
        "golden_sets",
        {
            "project_id": project_id,
            "name": "g",
            "version": 1,
            "content_hash": "0" * 64,
            "questions": "[]",
        },
    )


def add_run(connection: psycopg.Connection, project_id: int) -> None:
    insert(
        connection,
        "evaluation_runs",
        {
            "project_id": project_id,
            "number": 1,
            "golden_name": "g",
            "golden_hash": "0" * 64,
            "profile_name": "default",
            "started_at": "2026-01-01 00:00+00",
            "body": "{}",
        },
    )


def add_rule(connection: psycopg.Connection, project_id: int) -> None:
    insert(
        connection,
        "rules",
        {"project_id": project_id, "name": "r", "weight": 0.5, "reason": "it suits"},
    )


def add_gap(
    connection: psycopg.Connection, project_id: int, query: str = "what is missing", **columns: Any
) -> uuid.UUID:
    id_ = uuid.uuid4()
    insert(
        connection,
        "gaps",
        {
            "project_id": project_id,
            "id": id_,
            "query": query,
            "normalised": query,
            "filter": "{}",
            **columns,
        },
    )
    return id_


def add_session(connection: psycopg.Connection, project_id: int) -> None:
    """A session with one event."""
    insert(connection, "sessions", {"project_id": project_id, "id": "s-1", "event_count": 1})
    insert(
        connection,
        "events",
        {
            "project_id": project_id,
            "session_id": "s-1",
            "seq": 1,
            "id": "e-1",
            "type": "chat.message",
            "content": "said",
        },
    )


def add_word(connection: psycopg.Connection, project_id: int) -> None:
    insert(
        connection,
        "words",
        {"project_id": project_id, "key": "k8s", "term": "K8s", "means": ["kubernetes"]},
    )


def this_month() -> date:
    """Its first day, in UTC, as usage is added up."""
    return datetime.now(UTC).date().replace(day=1)


def add_usage(connection: psycopg.Connection, project_id: int) -> None:
    """A call that was made, and what the project spent in this month."""
    insert(
        connection,
        "embedding_usage",
        {
            "project_id": project_id,
            "embedder": "e",
            "version": "1",
            "role": "document",
            "texts": 2,
            "characters": 20,
            "tokens": 5,
            "duration_ms": 3.0,
            "cost": "0.5",
        },
    )
    insert(
        connection,
        "embedding_spend",
        {"project_id": project_id, "month": this_month(), "spent": "0.5"},
    )


def add_job(connection: psycopg.Connection, project_id: int) -> None:
    """An index job that waits, with its row in the queue."""
    connection.execute(
        load_queries("jobs")["defer_job"],
        {
            "queue": "lastro.index",
            "task": "lastro.index",
            "priority": 0,
            "lock": f"project {project_id}",
            "queueing_lock": f"{project_id} index",
            "project_id": project_id,
            "in_s": None,
            "kind": "index",
            "key": "index /r",
            "request": Jsonb({"path": "/r"}),
        },
    )


def add_key(
    connection: psycopg.Connection, project_id: int, id_: str = "0123456789ab", **columns: Any
) -> None:
    insert(
        connection,
        "api_keys",
        {
            "project_id": project_id,
            "id": id_,
            "role": "viewer",
            "secret_hash": bytes([project_id % 256]) * 32,
            **columns,
        },
    )


def add_search(connection: psycopg.Connection, project_id: int, **columns: Any) -> uuid.UUID:
    """A logged search, with the key that the project's questions are hashed with."""
    connection.execute(
        "INSERT INTO lastro.search_log_keys (project_id, key) VALUES (%s, %s)"
        " ON CONFLICT DO NOTHING",
        [project_id, bytes([project_id % 256]) * 32],
    )
    id_ = uuid.uuid4()
    insert(
        connection,
        "search_log",
        {
            "project_id": project_id,
            "at": "2026-02-01 00:00+00",
            "id": id_,
            "query_hash": bytes([project_id % 256]) * 16,
            "k": 10,
            "filtered": False,
            "next_page": False,
            "hit_count": 1,
            "abstained": False,
            "degraded": [],
            "profile_name": "default",
            "profile_version": 1,
            "took_ms": 5.0,
            **columns,
        },
    )
    return id_


def add_profile(connection: psycopg.Connection, project_id: int) -> None:
    """A stored profile that was adopted, and what was measured of a project's vectors."""
    version = {"project_id": project_id, "name": "default", "version": 2}
    insert(connection, "profiles", {**version, "body": "{}"})
    insert(connection, "profile_adoptions", {**version, "step": 1})
    insert(
        connection,
        "vector_scale",
        {"project_id": project_id, "row_count": 20, "mean": 0.1, "spread": 0.1},
    )
    insert(
        connection,
        "self_checks",
        {"project_id": project_id, "embedder": "print", "row_count": 20, "questions": 16},
    )


def insert(connection: psycopg.Connection, table: str, values: dict[str, Any]) -> None:
    connection.execute(
        SQL("INSERT INTO {} ({}) VALUES ({})").format(
            Identifier("lastro", table),
            SQL(", ").join(map(Identifier, values)),
            SQL(", ").join(Placeholder() * len(values)),
        ),
        list(values.values()),
    )
