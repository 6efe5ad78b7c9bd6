"""What embedding cost: rows of ``embedding_usage``, ``embedding_spend`` and ``other_usage``."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from psycopg.rows import class_row

from lastro.db.pool import AppConnection
from lastro.sql import load_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedCall:
    """One call of an embedder; ``tokens`` and ``cost`` are None where nobody knows them."""

    texts: int
    characters: int
    tokens: int | None
    duration_ms: float
    cost: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """Calls of a project, or of none, with one embedder in one role.

    ``uncounted`` calls are those whose tokens nobody counted; None where that is not known.
    """

    project: str | None
    embedder: str
    version: str
    role: str
    calls: int
    texts: int
    characters: int
    tokens: int | None
    uncounted: int | None
    duration_ms: float
    cost: Decimal | None


class SpentNow(NamedTuple):
    """What a project spent in the present month, calls under way at their most."""

    project: str
    month: str
    spent: Decimal


def record_usage(
    connection: AppConnection,
    calls: Sequence[UsedCall],
    *,
    project_id: int | None,
    embedder: str,
    version: str,
    role: str,
) -> None:
    """Write calls that were made, of a project or of none."""
    name = "record_other_usage" if project_id is None else "record_usage"
    parameters: dict[str, object] = {
        "embedder": embedder,
        "version": version,
        "role": role,
        "texts": [call.texts for call in calls],
        "characters": [call.characters for call in calls],
        "tokens": [call.tokens for call in calls],
        "durations_ms": [call.duration_ms for call in calls],
        "costs": [call.cost for call in calls],
    }
    if project_id is not None:
        parameters["project_id"] = project_id
    connection.execute(load_queries("usage")[name], parameters, prepare=True)


def this_transaction(connection: AppConnection) -> str:
    """The id of the transaction, by which another asks later what became of it."""
    row = connection.execute(load_queries("usage")["this_transaction"]).fetchone()
    assert row is not None
    return row[0]


def transaction_fate(connection: AppConnection, id_: str) -> str | None:
    """What became of a transaction: "in progress", "committed", "aborted", or None: forgotten."""
    row = connection.execute(
        load_queries("usage")["transaction_fate"], {"transaction": id_}
    ).fetchone()
    return None if row is None else row[0]


def keep_usage_of_erased(connection: AppConnection, project_id: int) -> None:
    """Add what a project used to the sums of no project, before it is erased."""
    connection.execute(load_queries("usage")["keep_usage_of_erased"], {"project_id": project_id})


def spent_now(connection: AppConnection, project_id: int) -> SpentNow | None:
    """What a project spent in this month; None for one that is gone."""
    row = connection.execute(
        load_queries("usage")["spent_now"], {"project_id": project_id}
    ).fetchone()
    return None if row is None else SpentNow._make(row)


def reserve_spend(
    connection: AppConnection, project_id: int, *, most: Decimal, budget: Decimal
) -> date | None:
    """Add the most that a call may cost to the month's sum; None where that passes the budget."""
    row = connection.execute(
        load_queries("usage")["reserve_spend"],
        {"project_id": project_id, "most": most, "budget": budget},
    ).fetchone()
    return None if row is None else row[0]


def settle_spend(
    connection: AppConnection, project_id: int, *, month: date, difference: Decimal
) -> None:
    """Correct a month's sum by what calls cost beyond what was reserved; below 0 for less."""
    connection.execute(
        load_queries("usage")["settle_spend"],
        {"project_id": project_id, "month": month, "difference": difference},
    )


def usage_sums(
    connection: AppConnection, projects: Sequence[int], *, since: datetime
) -> list[UsageSum]:
    """What projects used since a time, by name and embedder."""
    with connection.cursor(row_factory=class_row(UsageSum)) as cursor:
        return cursor.execute(
            load_queries("usage")["usage_sums"], {"projects": list(projects), "since": since}
        ).fetchall()


def other_usage_sums(connection: AppConnection, *, since: datetime) -> list[UsageSum]:
    """What no project used, or one that was erased, in the months since a time, by embedder."""
    with connection.cursor(row_factory=class_row(UsageSum)) as cursor:
        return cursor.execute(
            load_queries("usage")["other_usage_sums"], {"since": since}
        ).fetchall()


def spends(
    connection: AppConnection, projects: Sequence[int], *, since: datetime
) -> list[SpentNow]:
    """What projects spent in each month since a time, by name and month."""
    rows = connection.execute(
        load_queries("usage")["spends"], {"projects": list(projects), "since": since}
    )
    return [SpentNow._make(row) for row in rows]
