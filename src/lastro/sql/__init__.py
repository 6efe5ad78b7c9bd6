"""Named queries and migrations, kept in ``.sql`` files beside this loader.

A query file holds blocks that begin with ``-- name: <name>``; ``{slot}`` marks what is composed
with ``psycopg.sql`` and a literal brace is doubled, as in ``str.format``.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import LiteralString, cast

from psycopg.sql import SQL

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One forward step of the schema; ``checksum`` is SHA-256 over its bytes, in hex."""

    version: int
    name: str
    text: str
    checksum: str


@cache
def load_queries(name: str) -> dict[str, SQL]:
    """The named queries of ``queries/<name>.sql``."""
    text = files(__name__).joinpath(f"queries/{name}.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    return {
        query: SQL(cast("LiteralString", body.strip().rstrip(";")))
        for query, body in zip(parts[::2], parts[1::2], strict=True)
    }


@cache
def load_migrations() -> tuple[Migration, ...]:
    """Every migration, by rising version without a gap."""
    found: list[Migration] = []
    for entry in files(__name__).joinpath("migrations").iterdir():
        match = _MIGRATION.fullmatch(entry.name)
        if match is None:
            continue
        data = entry.read_bytes()
        checksum = hashlib.sha256(data).hexdigest()
        found.append(Migration(int(match[1]), match[2], data.decode("utf-8"), checksum))
    found.sort(key=lambda migration: migration.version)
    assert [m.version for m in found] == list(range(1, len(found) + 1)), "a migration is missing"
    return tuple(found)
