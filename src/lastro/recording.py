"""The recording of a search that nothing answers: one short statement after it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from lastro import store
from lastro.db.pool import Database, retried
from lastro.errors import Contention, DatabaseUnavailable, StatementTimeout
from lastro.gap import canonical_filter, gap_id, is_gap, normalised_query
from lastro.lexical import asked_query
from lastro.search import Found, SearchRequest
from lastro.types import Degraded, Outcome

# A search waits for its note no longer than this, and for no disk: after a crash of the server the
# misses of its last half second may be gone.
RECORDING: Mapping[str, str] = {"synchronous_commit": "off", "statement_timeout": "2000ms"}


def recorded(
    database: Database,
    outcome: Outcome,
    *,
    request: SearchRequest,
    found: Found,
    masked: Callable[[str], str],
) -> Outcome:
    """``outcome`` with the gap that it was counted in, where it is one.

    ``masked`` takes secrets out of its question.
    A server that does not take the note keeps nobody from the answer: the outcome says so.
    """
    if not is_gap(outcome):
        return outcome
    started = time.perf_counter()
    try:
        id_ = retried(lambda: _record(database, request, found=found, masked=masked))
        noted = replace(outcome, gap_id=str(id_))
    except (DatabaseUnavailable, StatementTimeout, Contention) as error:
        refused = Degraded(part="gap", reason="gap_not_recorded", detail=error.message)
        noted = replace(outcome, degraded=(*outcome.degraded, refused))
    return replace(noted, took_ms=outcome.took_ms + (time.perf_counter() - started) * 1000)


def _record(
    database: Database, request: SearchRequest, *, found: Found, masked: Callable[[str], str]
) -> UUID:
    asked_in = canonical_filter(
        request.scopes, path_prefix=request.path_prefix, entries=request.filter
    )
    query = masked(asked_query(request.query))
    normalised = normalised_query(query)
    id_ = gap_id(normalised, asked_in)
    best = next(iter(found.ranked), None)
    with database.transaction(projects=[found.project.id], settings=RECORDING) as connection:
        store.record_gap(
            connection,
            id_,
            project_id=found.project.id,
            query=query,
            normalised=normalised,
            asked_in=asked_in,
            nearest=None if best is None else (best.candidate.id, best.score),
        )
    return id_
