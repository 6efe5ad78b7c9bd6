"""Named queries and migrations, kept in ``.sql`` files beside this loader.

A query file holds blocks that begin with ``-- name: <name>``; ``{slot}`` marks what is composed
with ``psycopg.sql`` and a literal brace is doubled, as in ``str.format``. A migration says in a
line ``-- phase: pre`` or ``-- phase: post`` when it may run; see docs/adr/0041.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, LiteralString, cast, get_args

from psycopg.sql import SQL

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")
_PHASE = re.compile(r"^-- phase: *(.*?) *$", re.MULTILINE)

# Safe while the former release serves, or only when it is gone.
Phase = Literal["pre", "post"]


@dataclass(frozen=True, slots=True)
class Migration:
    """One forward step of the schema; ``checksum`` is SHA-256 over its bytes, in hex."""

    version: int
    name: str
    text: str
    checksum: str
    phase: Phase = "pre"


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
        text = data.decode("utf-8")
        found.append(Migration(int(match[1]), match[2], text, checksum, phase_of(text)))
    found.sort(key=lambda migration: migration.version)
    assert [m.version for m in found] == list(range(1, len(found) + 1)), "a migration is missing"
    return tuple(found)


def phase_of(text: str) -> Phase:
    """The phase that a migration's text states; ``pre`` where it states none.

    None is stated by those of the first release alone, before which nothing served.
    """
    stated = _PHASE.findall(text) or ["pre"]
    assert len(stated) == 1, "a migration has one phase"
    assert stated[0] in get_args(Phase), f"{stated[0]!r} is no phase"
    return cast("Phase", stated[0])
