"""API keys of a project: rows of ``api_keys``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from psycopg.rows import class_row

from lastro.db.pool import AppConnection
from lastro.key import ApiKey
from lastro.roles import Role
from lastro.sql import load_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """What a key that is presented is compared with; ``slug`` is its project's name."""

    slug: str
    role: Role
    expires_at: datetime | None
    secret_hash: bytes = field(repr=False)
    former_hash: bytes | None = field(repr=False)
    is_live: bool
    is_use_unwritten: bool


def find_key(connection: AppConnection, id_: str, *, project_id: int) -> KeyRow | None:
    """The row of a key, in whatever state; None where the project has none of this id."""
    with connection.cursor(row_factory=class_row(KeyRow)) as cursor:
        return cursor.execute(
            load_queries("keys")["find_key"], {"project_id": project_id, "id": id_}, prepare=True
        ).fetchone()


def insert_key(
    connection: AppConnection,
    id_: str,
    *,
    project_id: int,
    role: Role,
    label: str | None,
    secret_hash: bytes,
    expires_at: datetime | None,
) -> None:
    """Keep a new key."""
    connection.execute(
        load_queries("keys")["insert_key"],
        {
            "project_id": project_id,
            "id": id_,
            "role": role,
            "label": label,
            "secret_hash": secret_hash,
            "expires_at": expires_at,
        },
    )


def list_keys(
    connection: AppConnection, project_id: int, *, id_: str | None = None
) -> list[ApiKey]:
    """Keys of a project in any state, or the one of this id, the newest first."""
    with connection.cursor(row_factory=class_row(ApiKey)) as cursor:
        return cursor.execute(
            load_queries("keys")["list_keys"], {"project_id": project_id, "id": id_}
        ).fetchall()


def revoke_key(connection: AppConnection, id_: str, *, project_id: int) -> bool:
    """Refuse a key from now on; False where there is none of this id."""
    done = connection.execute(
        load_queries("keys")["revoke_key"], {"project_id": project_id, "id": id_}
    )
    return done.rowcount == 1


def rotate_key(
    connection: AppConnection,
    id_: str,
    *,
    project_id: int,
    secret_hash: bytes,
    former_until: datetime | None,
    expires_at: datetime | None,
) -> bool:
    """Give a live key another secret; False where there is no live one of this id.

    The present secret is taken until ``former_until``, None: no more. An ``expires_at`` of None
    leaves the key's end as it is.
    """
    done = connection.execute(
        load_queries("keys")["rotate_key"],
        {
            "project_id": project_id,
            "id": id_,
            "secret_hash": secret_hash,
            "former_until": former_until,
            "expires_at": expires_at,
        },
    )
    return done.rowcount == 1


def note_keys_used(connection: AppConnection, ids: Sequence[str], *, project_id: int) -> None:
    """Write that keys were used about now."""
    connection.execute(
        load_queries("keys")["note_keys_used"], {"project_id": project_id, "ids": list(ids)}
    )
