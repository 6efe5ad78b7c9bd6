"""The readiness use case: whether a search would be answered now, and whether it would be whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lastro import store
from lastro.db.migrate import require_current
from lastro.db.pool import Database
from lastro.db.work import Work, working
from lastro.doctor import check_index_embedder, failed
from lastro.embedders import Embedder, Served
from lastro.embedding import require_same
from lastro.errors import EmbedderMismatch, LastroError, SchemaOutOfDate
from lastro.projects import all_project_ids
from lastro.store import ActiveEmbedder, Backlog
from lastro.types import Check

# Whoever probes a service seldom waits longer.
LOOK_S = 2.0

State = Literal["ready", "degraded", "notReady"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Of a service that is ``degraded`` some answers are less than they should be.

    One that is ``notReady`` does not answer.
    """

    status: State
    checks: tuple[Check, ...]


def readiness(database: Database, embedder: Embedder) -> Readiness:
    """Look at the database, its schema, and whose vectors it has; embeds nothing.

    An embedder behind a server is asked for its weights, and not even that while it is known to be
    away. What is wrong is a check that failed, never an error.
    """
    answers = Check(name="database", status="ok", detail="PostgreSQL answers")
    try:
        active = _active_embedder(database)
    except SchemaOutOfDate as error:
        checks = (answers, failed("schema", error))
    except LastroError as error:
        checks = (failed("database", error),)
    else:
        current = Check(name="schema", status="ok", detail="the one of this release")
        checks = (answers, current, _check_vectors(active, embedder))
    return Readiness(status=_state(checks), checks=checks)


def backlog(database: Database) -> Backlog:
    """What waits in all projects, by two short statements. Errors: DatabaseUnavailable."""
    with working(Work(deadline_s=LOOK_S)):
        ids = all_project_ids(database)
        with database.transaction(projects=ids) as connection:
            return store.backlog(connection, ids)


def _active_embedder(database: Database) -> ActiveEmbedder | None:
    with working(Work(deadline_s=LOOK_S)), database.transaction() as connection:
        require_current(connection)
        return store.active_embedder(connection)


def _check_vectors(active: ActiveEmbedder | None, embedder: Embedder) -> Check:
    """As the doctor, but that a server that is known to be away is not asked."""
    outage = embedder.outage() if isinstance(embedder, Served) else None
    if active is None or outage is None:
        return check_index_embedder(active, embedder)
    try:
        require_same(active, embedder)
    except EmbedderMismatch as error:
        return failed("vectors of", error)
    return Check(
        name="vectors of",
        status="warn",
        detail=f"{active.id} {active.version}; {outage.message}",
        remedy=outage.remedy or "look at the embedder's server",
    )


def _state(checks: Sequence[Check]) -> State:
    found = {check.status for check in checks}
    return "notReady" if "fail" in found else "degraded" if "warn" in found else "ready"
