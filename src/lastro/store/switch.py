"""The switch to another embedder: its record, the new vectors beside the old ones, the swap."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal as OneOf
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import class_row
from psycopg.sql import Identifier, Literal

from lastro.db.pool import AppConnection
from lastro.sql import load_queries
from lastro.store.vectors import (
    EF_CONSTRUCTION,
    ActiveEmbedder,
    UnembeddedChunk,
    chunks_behind,
    fill_vectors,
)

# Arbitrary, fixed: every process of every release takes the same lock.
_SWITCH_LOCK = 7_125_901_305


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch under way, and to what."""

    id: str
    version: str
    dimension: int
    fingerprint: str
    phase: OneOf["filling", "swapped"]
    started_at: datetime


def find_switch(connection: AppConnection) -> Switch | None:
    """The switch that is under way."""
    with connection.cursor(row_factory=class_row(Switch)) as cursor:
        return cursor.execute(load_queries("switch")["find_switch"]).fetchone()


def begin_switch(connection: AppConnection, embedder: ActiveEmbedder) -> None:
    """Record a switch and make room for its vectors. Owner only."""
    queries = load_queries("switch")
    connection.execute(
        queries["record_switch"],
        {
            "id": embedder.id,
            "version": embedder.version,
            "dimension": embedder.dimension,
            "fingerprint": embedder.fingerprint,
        },
    )
    connection.execute(queries["add_next_columns"].format(dimension=Literal(embedder.dimension)))


def drop_next(connection: AppConnection) -> None:
    """Let the new vectors go. Owner only."""
    connection.execute(load_queries("switch")["drop_next_columns"])


def forget_switch(connection: AppConnection) -> None:
    """There is no switch any more. Owner only."""
    connection.execute(load_queries("switch")["forget_switch"])


def try_lock_switch(connection: AppConnection) -> bool:
    """Be the one session that works on the switch; False where another is."""
    row = connection.execute(
        load_queries("switch")["try_lock_switch"], {"key": _SWITCH_LOCK}
    ).fetchone()
    return row is not None and bool(row[0])


def switch_is_locked(connection: AppConnection) -> bool:
    """Whether some session works on the switch now."""
    row = connection.execute(
        load_queries("switch")["switch_is_locked"], {"key": _SWITCH_LOCK}
    ).fetchone()
    return row is not None and bool(row[0])


def index_missing(connection: AppConnection) -> None:
    """Let rows that lack a new vector be found; a no-op when done. Owner only, autocommit."""
    drop_invalid_indexes(connection)
    connection.execute(load_queries("switch")["index_missing"])


def index_next(connection: AppConnection, dimension: int) -> None:
    """Index the new vectors, while searches and writers go on. Owner only, autocommit."""
    queries = load_queries("switch")
    drop_invalid_indexes(connection)
    connection.execute(queries["calm_index_build"], {"dimension": dimension})
    connection.execute(queries["index_next"].format(ef_construction=Literal(EF_CONSTRUCTION)))
    connection.execute(queries["validate_next"])


def drop_invalid_indexes(connection: AppConnection) -> None:
    """Remove what an interrupted building left. Owner only, autocommit."""
    queries = load_queries("switch")
    for (name,) in connection.execute(queries["invalid_next_indexes"]).fetchall():
        connection.execute(queries["drop_next_index"].format(index=Identifier("lastro", str(name))))


def chunks_to_switch(
    connection: AppConnection, project_id: int, *, after: tuple[UUID, int] | None, limit: int
) -> list[UnembeddedChunk]:
    """A project's rows without a new vector, by document and ordinal, those behind ``after``."""
    query = load_queries("switch")["chunks_to_switch"]
    return chunks_behind(connection, query, project_id, after=after, limit=limit)


def set_next_embeddings(
    connection: AppConnection,
    vectors: Sequence[tuple[UUID, NDArray[np.float32]]],
    *,
    project_id: int,
    model: str,
    version: str,
) -> None:
    """Give rows their new vectors, beside the old ones."""
    query = load_queries("switch")["set_next_embeddings"]
    fill_vectors(connection, query, vectors, project_id=project_id, model=model, version=version)


def switch_counts(connection: AppConnection, projects: Sequence[int]) -> tuple[int, int] | None:
    """Rows of projects, and those without a new vector; None where none has room for one."""
    queries = load_queries("switch")
    has_columns = connection.execute(queries["has_next_columns"]).fetchone()
    if has_columns is None or not has_columns[0]:
        return None
    row = connection.execute(queries["switch_counts"], {"projects": list(projects)}).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def switch_room(connection: AppConnection, projects: Sequence[int], *, dimension: int) -> int:
    """Bytes of disk that a switch takes at most, until it is done."""
    row = connection.execute(
        load_queries("switch")["switch_room"],
        {"projects": list(projects), "dimension": dimension},
    ).fetchone()
    assert row is not None
    return int(row[0])


def missing_rows(connection: AppConnection) -> set[UUID]:
    """Every project's rows without a new vector. Owner only."""
    return {row[0] for row in connection.execute(load_queries("switch")["missing_rows"])}


def prepare_swap(
    connection: AppConnection, *, blank: Sequence[UUID], fingerprints: tuple[str, str] | None
) -> None:
    """What the swap changes beside the vectors. Owner only.

    Rows of ``blank`` can have no vector; ``fingerprints`` are those of documents as the old and
    the new embedder make them, None where the old one's are not known.
    """
    queries = load_queries("switch")
    connection.execute(queries["complete_switched"], {"blank": list(blank)})
    connection.execute(queries["open_switched"], {"blank": list(blank)})
    if fingerprints is not None:
        old, new = fingerprints
        connection.execute(queries["move_fingerprints"], {"old": old, "new": new})
    connection.execute(queries["forget_scales"])
    connection.execute(queries["take_back_adoptions"])


def lock_searches(connection: AppConnection) -> None:
    """Let nobody search or write chunks until the transaction ends. Owner only."""
    connection.execute(load_queries("switch")["lock_searches"])


def swap_vectors(connection: AppConnection) -> None:
    """Make the new vectors those that are searched, under ``lock_searches``. Owner only."""
    connection.execute(load_queries("switch")["swap_vectors"])


def vacuum_switched(connection: AppConnection) -> None:
    """Let the rows as they were before go. Owner only, autocommit."""
    connection.execute(load_queries("switch")["vacuum_switched"])
