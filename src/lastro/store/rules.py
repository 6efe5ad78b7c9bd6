"""A project's rules, and what they ask of candidates."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.rules import Rule, rule_json
from lastro.sql import load_queries


class RuleRow(NamedTuple):
    """A rule as it is stored, its filters as JSON text. The fields are the query's, in order."""

    name: str
    when: str | None
    entry: str | None
    weight: float
    reason: str


class EntryRow(NamedTuple):
    """What a rule may ask of an entry. The fields are the query's, in order."""

    document_id: UUID
    key: str
    type: str
    attributes: dict[str, Any]
    effective_at: datetime | None


def stored_rules(connection: AppConnection, project_id: int) -> list[RuleRow]:
    """A project's rules by name."""
    rows = connection.execute(load_queries("rules")["stored_rules"], {"project_id": project_id})
    return [RuleRow(*row) for row in rows]


def save_rules(
    connection: AppConnection, rules: Sequence[Rule], *, project_id: int
) -> dict[str, bool]:
    """Store rules over those of the same names.

    Returns those that were not stored as they are, with whether one of that name was there.
    """
    rows = connection.execute(
        load_queries("rules")["save_rules"],
        {"project_id": project_id, "rules": Jsonb([rule_json(rule) for rule in rules])},
    )
    return {row[0]: row[1] for row in rows}


def delete_rules(connection: AppConnection, names: Sequence[str], *, project_id: int) -> list[str]:
    """Delete rules, and return those that there were, by name."""
    rows = connection.execute(
        load_queries("rules")["delete_rules"], {"project_id": project_id, "names": list(names)}
    )
    return sorted(row[0] for row in rows)


def rule_entries(
    connection: AppConnection, ids: Sequence[UUID], *, project_id: int
) -> list[EntryRow]:
    """What rules may ask of those of the chunks that are of entries."""
    rows = connection.execute(
        load_queries("rules")["rule_entries"], {"project_id": project_id, "ids": list(ids)}
    )
    return [EntryRow(*row) for row in rows]
