"""The usage use case: what embedding cost, by project and embedder, and what budgets leave."""

from dataclasses import dataclass
from datetime import UTC, datetime

from lastro import store
from lastro.db.pool import Database
from lastro.metering_settings import MeteringSettings
from lastro.projects import all_project_ids, project_id_of


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """Calls with one embedder in one role.

    ``project`` None: of no project, or of erased ones. ``tokens`` are those that providers counted
    and ``uncounted`` the calls where none did; None where that is not known. ``cost`` is in the
    currency of the prices, None where none was set.
    """

    project: str | None
    embedder: str
    version: str | None
    role: str
    calls: int
    texts: int
    characters: int
    tokens: int | None
    uncounted: int | None
    duration_ms: float
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthlySpend:
    """What a project spent in a month of UTC, calls under way at their most; a budget or None."""

    project: str
    month: str
    spent: float
    budget: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What embedding cost since a time; ``spent`` has the months in which that was anything."""

    since: datetime
    usage: tuple[UsageLine, ...]
    spent: tuple[MonthlySpend, ...]


def usage(
    database: Database,
    metering: MeteringSettings,
    *,
    since: datetime | None = None,
    project: str | None = None,
) -> Usage:
    """What was used since a time, by default this month, of a project or of everything.

    What belongs to no project is kept by month, and counted from the month of ``since`` on.
    Errors: NotFound.
    """
    now = datetime.now(UTC)
    begin = since or datetime(now.year, now.month, 1, tzinfo=UTC)
    ids = all_project_ids(database) if project is None else [project_id_of(database, project)]
    with database.transaction(projects=ids) as connection:
        sums = store.usage_sums(connection, ids, since=begin)
        if project is None:
            sums += store.other_usage_sums(connection, since=begin)
        spends = store.spends(connection, ids, since=begin)
    return Usage(
        since=begin,
        usage=tuple(map(_line, sums)),
        spent=tuple(_spend(spent, metering) for spent in spends),
    )


def _line(found: store.UsageSum) -> UsageLine:
    return UsageLine(
        project=found.project,
        embedder=found.embedder,
        version=found.version or None,
        role=found.role,
        calls=found.calls,
        texts=found.texts,
        characters=found.characters,
        tokens=found.tokens,
        uncounted=found.uncounted,
        duration_ms=found.duration_ms,
        cost=None if found.cost is None else float(found.cost),
    )


def _spend(spent: store.SpentNow, metering: MeteringSettings) -> MonthlySpend:
    budget = metering.budget_of(spent.project)
    return MonthlySpend(
        project=spent.project,
        month=spent.month,
        spent=float(spent.spent),
        budget=float(budget) if budget.is_finite() else None,
    )
