"""The log of searches: rows written after the answers, listed, and forgotten in time."""

import math
import secrets
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from lastro import store
from lastro.db.pool import STATEMENT_TIMEOUT, Database, retried
from lastro.errors import (
    DatabaseUnavailable,
    InvalidInput,
    LastroError,
    NotFound,
    StatementTimeout,
)
from lastro.later import Later
from lastro.lexical import asked_query
from lastro.logged_search import (
    KEY_BYTES,
    LISTED_SEARCHES,
    LoggedSearch,
    SearchPlace,
    query_hash,
)
from lastro.paging import check_limit
from lastro.projects import all_project_ids, project_id_of
from lastro.search import SearchRequest
from lastro.store import AppConnection
from lastro.types import Degraded, LogQueries, Outcome, ProfileRef

# Waiting rows beyond these are dropped: half a minute of 300 searches a second, and some tens of
# megabytes, while the database takes none.
MOST_WAITING = 10_000
MOST_WAITING_CHARS = 10_000_000
DAY_S = 86_400.0
# Between two looks for rows that are too old; and how many of these one statement deletes.
PRUNE_EVERY_S = 3_600.0
MOST_PRUNED = 10_000
# Nobody waits for it, and after a crash of the server the rows of its last half second may be gone.
WRITING: Mapping[str, str] = {"synchronous_commit": "off", STATEMENT_TIMEOUT: "10000ms"}

# Told how many searches the log lacks.
Dropped = Callable[[int], None]


def uncounted(_rows: int) -> None:
    """What the log lacks is told to nobody."""


class _Waiting(NamedTuple):
    """A search that is to be written; of its answer no text is held. ``at`` is in epoch seconds."""

    project_id: int
    at: float
    query: str
    k: int
    scopes: Sequence[str] | None
    filtered: bool
    next_page: bool
    hit_count: int
    abstained: bool
    degraded: tuple[Degraded, ...]
    profile: ProfileRef
    took_ms: float


class SearchesLater:
    """Searches that are written soon, by a thread of their own; ``flush`` writes what is left.

    A search waits for nothing. A process that is killed loses those of its last second; what
    cannot be written is dropped, and ``dropped`` is told. ``masked`` takes secrets out of questions
    that are kept as text. May be used by several threads.
    """

    def __init__(
        self,
        database: Database,
        *,
        queries: LogQueries,
        kept_days: int,
        masked: Callable[[str], str],
    ) -> None:
        self.dropped: Dropped = uncounted
        self._database = database
        self._queries: LogQueries = queries
        self._kept_days = kept_days
        self._masked = masked
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._chars = 0
        self._has_answered = False
        self._pruned_at = -math.inf
        self._later = Later(self._write_all)

    def add(self, request: SearchRequest, outcome: Outcome, *, project_id: int) -> None:
        """Take over a search that was answered."""
        self._has_answered = True
        if self._kept_days and not self._queued(request, outcome, project_id=project_id):
            self.dropped(1)
        if self._kept_days or self._is_prune_due():
            self._later.ask()

    def flush(self) -> None:
        """Write what was taken over. No answer fails for want of it."""
        self._later.now()

    def _queued(self, request: SearchRequest, outcome: Outcome, *, project_id: int) -> bool:
        """Whether there was place for it."""
        search = _Waiting(
            project_id=project_id,
            at=time.time(),
            query="" if self._queries == "off" else request.query,
            k=request.k,
            scopes=request.scopes,
            filtered=request.filter is not None or request.path_prefix is not None,
            next_page=request.cursor is not None,
            hit_count=len(outcome.hits),
            abstained=outcome.abstained,
            degraded=outcome.degraded,
            profile=outcome.profile,
            took_ms=outcome.took_ms,
        )
        with self._lock:
            chars = self._chars + len(search.query)
            if len(self._waiting) >= MOST_WAITING or chars > MOST_WAITING_CHARS:
                return False
            self._chars = chars
            self._waiting.append(search)
        return True

    def _write_all(self) -> None:
        with self._lock:
            waiting, self._waiting, self._chars = self._waiting, [], 0
        by_project: defaultdict[int, list[_Waiting]] = defaultdict(list)
        for search in waiting:
            by_project[search.project_id].append(search)
        is_up = True
        for project_id, searches in by_project.items():
            if is_up:
                is_up = self._written(searches, project_id=project_id)
            else:
                self.dropped(len(searches))
        if is_up and self._has_answered and self._is_prune_due():
            self._prune()

    def _written(self, searches: Sequence[_Waiting], *, project_id: int) -> bool:
        """Write, or drop what cannot be; False where the next ones would only wait in vain."""
        try:
            retried(partial(self._write, searches, project_id=project_id))
        except NotFound:  # the project was erased meanwhile, and its log with it
            return True
        except LastroError as error:
            self.dropped(len(searches))
            return not isinstance(error, (DatabaseUnavailable, StatementTimeout))
        return True

    def _write(self, searches: Sequence[_Waiting], *, project_id: int) -> None:
        with self._database.transaction(projects=[project_id], settings=WRITING) as connection:
            key = None if self._queries == "off" else _key(connection, project_id)
            rows = [_row(search) | self._asked(search.query, key) for search in searches]
            store.record_searches(connection, rows, project_id=project_id)

    def _asked(self, query: str, key: bytes | None) -> dict[str, str]:
        """What is kept of a question; without a key nothing."""
        if key is None:
            return {}
        query = asked_query(query)
        kept = {"query_hash": query_hash(query, key=key).hex()}
        if self._queries == "text":
            kept["query"] = self._masked(query)
        return kept

    def _is_prune_due(self) -> bool:
        return time.monotonic() - self._pruned_at > PRUNE_EVERY_S

    def _prune(self) -> None:
        with suppress(LastroError):  # then the next batch tries it again
            if prune(self._database, kept_days=self._kept_days):
                self._pruned_at = time.monotonic()


def prune(database: Database, *, kept_days: int) -> bool:
    """Forget searches of any project that are older; False where some of them may be left."""
    projects = all_project_ids(database)
    with database.transaction(projects=projects, settings=WRITING) as connection:
        gone = store.prune_searches(
            connection, projects, kept_s=kept_days * DAY_S, limit=MOST_PRUNED
        )
    return gone < MOST_PRUNED


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLog:
    """The searches of one project that were answered. Errors: NotFound for the project."""

    database: Database
    project: str

    def list(
        self,
        *,
        since: datetime | None = None,
        slow_ms: float | None = None,
        degraded: bool = False,
        abstained: bool = False,
        before: SearchPlace | None = None,
        limit: int = LISTED_SEARCHES,
    ) -> list[LoggedSearch]:
        """Searches answered at ``since`` or later, the newest first, then by id.

        Those that took ``slow_ms`` or more, that were ``degraded``, that ``abstained``, and that
        stand behind ``before``, where it is given. Errors: InvalidInput.
        """
        check_limit(limit, of="search")
        if slow_ms is not None and not 0 <= slow_ms < math.inf:
            raise InvalidInput(f"{slow_ms} is no time that a search takes", remedy="use 0 or more")
        project_id = project_id_of(self.database, self.project)
        with self.database.transaction(projects=[project_id]) as connection:
            return store.list_searches(
                connection,
                project_id,
                since=since,
                slow_ms=slow_ms,
                degraded=degraded,
                abstained=abstained,
                before=before,
                limit=limit,
            )


def _row(search: _Waiting) -> dict[str, Any]:
    """What is kept of a search beside its question: no value of its filter."""
    return {
        "at": datetime.fromtimestamp(search.at, UTC).isoformat(),
        "id": str(uuid.uuid4()),
        "k": search.k,
        "scopes": None if search.scopes is None else sorted(set(search.scopes)),
        "filtered": search.filtered,
        "next_page": search.next_page,
        "hit_count": search.hit_count,
        "abstained": search.abstained,
        "degraded": sorted({part.reason for part in search.degraded}),
        "profile_name": search.profile.name,
        "profile_version": search.profile.version,
        "took_ms": search.took_ms,
    }


def _key(connection: AppConnection, project_id: int) -> bytes:
    """What a project's questions are hashed with: the key that was made first."""
    key = store.search_log_key(connection, project_id)
    if key is None:
        new = secrets.token_bytes(KEY_BYTES)
        store.insert_search_log_key(connection, new, project_id=project_id)
        key = store.search_log_key(connection, project_id)
    assert key is not None
    return key
