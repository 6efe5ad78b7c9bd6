"""The readiness use case: whether a search would be answered now, and whether it would be whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from lastro import store
from lastro.db.migrate import SchemaState, require_current
from lastro.db.pool import Database
from lastro.db.work import Work, working
from lastro.doctor import check_index_embedder, failed
from lastro.embedders import Embedder
from lastro.errors import EmbedderMismatch, LastroError, SchemaOutOfDate
from lastro.projects import all_project_ids
from lastro.server_checks import check_schema
from lastro.store import ActiveEmbedder, Backlog
from lastro.types import OPTIONAL, Check, DegradedReason

# Whoever probes a service seldom waits longer.
LOOK_S = 2.0

State = Literal["ready", "degraded", "notReady"]
# Two of them are no fault: an upgrade that was begun and not finished.
ReadyReason = (
    Literal[
        "database_unavailable",
        "look_late",
        "schema_out_of_date",
        "schema_ahead",
        "migrations_wait",
        "embedder_mismatch",
    ]
    | DegradedReason
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at, in words of a closed list: none names a place or a person."""

    name: str
    status: Literal["ok", "warn", "fail"]
    reason: ReadyReason | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What anyone may be told.

    Of a service that is ``degraded`` some answers are less than they should be. One that is
    ``notReady`` does not answer.
    """

    status: State
    checks: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonedCheck:
    """A check with its reason; its detail and remedy are for who keeps the service."""

    check: Check
    reason: ReadyReason | None = None


def told(checks: Sequence[ReasonedCheck]) -> Readiness:
    """What checks come to, without their details."""
    found = {one.check.status for one in checks}
    return Readiness(
        status="notReady" if "fail" in found else "degraded" if "warn" in found else "ready",
        checks=tuple(
            Finding(name=one.check.name, status=one.check.status, reason=one.reason)
            for one in checks
        ),
    )


def look(database: Database, embedder: Embedder) -> tuple[ReasonedCheck, ...]:
    """Look at the database, its schema, and whose vectors it has; embeds nothing.

    An embedder behind a server is asked for its weights, and not even that while it is known to be
    away. What is wrong is a check that failed, never an error.
    """
    answers = ReasonedCheck(check=Check(name="database", status="ok", detail="PostgreSQL answers"))
    try:
        schema, active = _found(database)
    except SchemaOutOfDate as error:
        return (answers, ReasonedCheck(check=failed("schema", error), reason="schema_out_of_date"))
    except LastroError as error:
        return (ReasonedCheck(check=failed("database", error), reason="database_unavailable"),)
    return (answers, _look_at_schema(schema), _look_at_vectors(active, embedder))


def backlog(database: Database) -> Backlog:
    """What waits in all projects, by two short statements. Errors: DatabaseUnavailable."""
    with working(Work(deadline_s=LOOK_S)):
        ids = all_project_ids(database)
        with database.transaction(projects=ids) as connection:
            return store.backlog(connection, ids)


def _found(database: Database) -> tuple[SchemaState, ActiveEmbedder | None]:
    with working(Work(deadline_s=LOOK_S)), database.transaction() as connection:
        return require_current(connection), store.active_embedder(connection)


def _look_at_schema(state: SchemaState) -> ReasonedCheck:
    """An upgrade that was begun makes no answer less than it should be."""
    check = replace(check_schema(state), status="ok")
    if state.at > state.known:
        return ReasonedCheck(check=check, reason="schema_ahead")
    return ReasonedCheck(check=check, reason="migrations_wait" if state.waiting else None)


def _look_at_vectors(active: ActiveEmbedder | None, embedder: Embedder) -> ReasonedCheck:
    """As the doctor, but that a server that is known to be away is not asked."""
    check, trouble = check_index_embedder(active, embedder, spared=True)
    if trouble is None:
        return ReasonedCheck(check=check)
    is_other = isinstance(trouble, EmbedderMismatch)
    return ReasonedCheck(check=check, reason="embedder_mismatch" if is_other else trouble.reason)
