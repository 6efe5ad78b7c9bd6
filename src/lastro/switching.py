"""The switch to another embedder, while searches go on with the vectors that there are.

Every row gets its new vector beside the old one, the new ones get their index, and one short
transaction makes them those that are searched: docs/adr/0037. What is done stays done: a switch
that was interrupted goes on where it stopped.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Literal, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg import IsolationLevel

from lastro import store
from lastro.adoption import refresh_vector_scale
from lastro.db.migrate import lock_schema
from lastro.db.pool import Database, connect, retried, set_local
from lastro.documents import Pipeline, embedded_text
from lastro.embedders import Embedder, Served, configured, fingerprint
from lastro.embedding import Embedded, embed_texts, require_same
from lastro.errors import (
    BudgetExceeded,
    Conflict,
    Contention,
    DatabaseUnavailable,
    DimensionMismatch,
    EmbedderMismatch,
    InvalidInput,
    LastroError,
    NotFound,
    ProviderError,
)
from lastro.graphemes import is_blank
from lastro.metering import ProjectMeter, identifying
from lastro.projects import all_project_ids
from lastro.store import ActiveEmbedder, AppConnection, Switch, UnembeddedChunk
from lastro.types import Degraded, FileNote, Progress
from lastro.writing import BATCH_CHUNKS, note

# What the index of a halfvec column holds. Source: pgvector's documentation.
MAX_DIMENSION = 4_000
# Seconds of rest for each second of storing, in which searches have the machine.
REST = 1.0
# What changes the table waits no longer for searches that are under way, and so often.
LOCK_TIMEOUT_MS, LOCK_PAUSE_S, LOCK_ATTEMPTS = 200, 0.3, 200

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderRef:
    """An embedder whose vectors a database holds, or will."""

    id: str
    version: str
    dimension: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """How far a switch is: ``done`` of ``total`` rows have their new vector.

    ``phase`` is ``filling``, or ``swapped`` where the new vectors are searched already and only
    measures of them are to be taken. ``running``: a process works on it now.
    """

    to: EmbedderRef
    phase: Literal["filling", "swapped"]
    done: int
    total: int
    running: bool
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderStatus:
    """The embedder that is set, the one whose vectors are searched, and a switch under way."""

    configured: str
    active: EmbedderRef | None
    switch: SwitchState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchReport:
    """What a switch did; ``refused`` rows are found by their words alone.

    ``before`` and ``active`` are the same where there was nothing to do.
    """

    before: EmbedderRef
    active: EmbedderRef
    chunks: int
    refused: tuple[FileNote, ...]
    took_ms: float


def status(database: Database, embedder: str) -> EmbedderStatus:
    """What is searched with, what is set, and how far a switch is."""
    ids = all_project_ids(database)
    with database.transaction(projects=ids) as connection:
        active = store.active_embedder(connection)
        switch = store.find_switch(connection)
        counts = None if switch is None else store.switch_counts(connection, ids)
        running = switch is not None and store.switch_is_locked(connection)
    state = None
    if switch is not None:
        total, missing = counts or (0, 0)
        state = SwitchState(
            to=_ref(switch),
            phase=switch.phase,
            done=total - missing,
            total=total,
            running=running,
            started_at=switch.started_at,
        )
    return EmbedderStatus(
        configured=embedder, active=None if active is None else _ref(active), switch=state
    )


def abandon(database: Database, admin_url: str) -> EmbedderRef:
    """Give up a switch that has not swapped yet; returns what it was to.

    Its vectors stay in the embedding cache. Errors: NotFound where there is none, Conflict where
    it has swapped, or a process works on it.
    """
    with _alone(database):
        switch = _under_way(database)
        if switch is None:
            raise NotFound("no switch is under way", remedy="see `lastro embedder status`")
        if switch.phase == "swapped":
            raise Conflict(
                f"the switch has swapped: vectors of {switch.id} are searched",
                remedy="switch back with `lastro embedder switch`, which costs no embedding",
            )

        def drop(connection: AppConnection) -> None:
            store.drop_next(connection)
            store.forget_switch(connection)

        _in_turn_with_searches(admin_url, drop)
    return _ref(switch)


def switch(
    database: Database,
    *,
    admin_url: str,
    old: Embedder | None,
    new: Embedder,
    pipeline: Pipeline,
    free_bytes: int | None = None,
    progress: Progress,
    say: Say,
) -> SwitchReport:
    """Search with ``new`` from now on; goes on where an earlier call stopped.

    ``old`` made the vectors that there are, None where that is not known: documents are then made
    again at their next index run. ``free_bytes`` is the room on the database's disk, if known.
    Errors: ProviderError and BudgetExceeded where the embedder fails, after which what was made
    is kept; Conflict where another switch is under way or another process works on this one;
    DimensionMismatch for vectors too wide for an index; InvalidInput where there is no vector yet.
    """
    started = time.perf_counter()
    with _alone(database):
        under_way = _under_way(database)
        own = _identity(database, new, under_way)
        if under_way is not None and under_way.phase == "swapped":
            _tidy(database, admin_url)
            under_way = None
        active = _active(database, new)
        if active.fingerprint == own.fingerprint and under_way is None:
            return _report(active, own, started=started)
        if under_way is not None and under_way.fingerprint != own.fingerprint:
            raise Conflict(
                f"a switch to {under_way.id} {under_way.version} is under way",
                remedy=f"finish it with `lastro embedder switch {under_way.id}`, "
                "or give it up with `lastro embedder switch --abandon`",
            )
        if under_way is None:
            _begin(database, admin_url, own, free_bytes=free_bytes, say=say)
        work = _Work(
            database=database,
            admin_url=admin_url,
            embedder=new,
            own=own,
            fingerprints=_fingerprints(active, old, new, pipeline),
            progress=progress,
            say=say,
        )
        work.run()
        say("measuring the new vectors")
        _tidy(database, admin_url)
        return _report(active, own, started=started, work=work)


def _identity(database: Database, new: Embedder, under_way: Switch | None) -> ActiveEmbedder:
    """Who the new embedder is; one behind a server is asked. Errors: ProviderError."""
    if isinstance(new, Served) and under_way is not None and under_way.id == new.id:
        new.recall(version=under_way.version, dimension=under_way.dimension)
    meter = ProjectMeter(database=database, embedder=new, role="document", project_id=None)
    with identifying(new, meter):
        if isinstance(new, Served):
            new.identify()
        own = ActiveEmbedder(
            id=new.id,
            version=new.version,
            dimension=new.dimension,
            fingerprint=fingerprint(new),
        )
    if own.dimension > MAX_DIMENSION:
        raise DimensionMismatch(
            f"{own.id} makes {own.dimension} dimensions; an index holds at most {MAX_DIMENSION}",
            remedy="choose a smaller model",
        )
    return own


def _active(database: Database, new: Embedder) -> ActiveEmbedder:
    with database.transaction() as connection:
        active = store.active_embedder(connection)
    if active is None:
        raise InvalidInput(
            "this database holds no vectors yet, so there is nothing to switch from",
            remedy=f"set LASTRO_EMBEDDER={new.id} and run `lastro index`",
        )
    return active


def _begin(
    database: Database,
    admin_url: str,
    own: ActiveEmbedder,
    *,
    free_bytes: int | None,
    say: Say,
) -> None:
    ids = all_project_ids(database)
    with database.transaction(projects=ids) as connection:
        room = store.switch_room(connection, ids, dimension=own.dimension)
    if free_bytes is not None and free_bytes < room:
        raise DatabaseUnavailable(
            f"the switch may take {_size(room)} of disk, and {_size(free_bytes)} are free",
            remedy="free some space, and run it again",
        )
    say(f"the switch may take {_size(room)} of disk until it is done")
    _in_turn_with_searches(admin_url, lambda connection: store.begin_switch(connection, own))


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{max(1, count >> 20)} MiB"


def _fingerprints(
    active: ActiveEmbedder, old: Embedder | None, new: Embedder, pipeline: Pipeline
) -> tuple[str, str] | None:
    if old is None:
        return None
    try:
        require_same(active, old)
    except (EmbedderMismatch, ProviderError):
        return None
    before, after = (replace(pipeline, embedder=configured(one)) for one in (old, new))
    return before.fingerprint, after.fingerprint


@dataclass(slots=True, kw_only=True)
class _Work:
    """Rows of every project to their new vectors, and these to the place of the old ones."""

    database: Database
    admin_url: str
    embedder: Embedder
    own: ActiveEmbedder
    fingerprints: tuple[str, str] | None
    progress: Progress
    say: Say
    refused: dict[UUID, FileNote] = field(default_factory=dict[UUID, FileNote])
    blank: set[UUID] = field(default_factory=set[UUID])
    total: int = 0
    _done: int = 0

    def run(self) -> None:
        """Fill, index, fill what came meanwhile, swap."""
        with _owner(self.admin_url) as connection:
            store.index_missing(connection)
        self.say(f"embedding with {self.own.id}; searches go on")
        self._fill()
        self.say("indexing the new vectors; searches go on")
        with _owner(self.admin_url) as connection:
            store.index_next(connection, self.own.dimension)
        self.say("swapping, once no index run is at work")
        while True:
            with self._turns():
                self._fill()
                if self._swapped():
                    return

    # --- filling

    def _fill(self) -> None:
        ids = all_project_ids(self.database)
        with self.database.transaction(projects=ids) as connection:
            total, missing = store.switch_counts(connection, ids) or (0, 0)
        self.total, self._done = total, total - missing
        self.progress(self._done, self.total)
        for project_id in ids:
            try:
                self._fill_project(project_id)
            except NotFound:
                continue  # it was erased meanwhile

    def _fill_project(self, project_id: int) -> None:
        after: tuple[UUID, int] | None = None
        while True:
            with self.database.transaction(projects=[project_id]) as connection:
                rows = store.chunks_to_switch(
                    connection, project_id, after=after, limit=BATCH_CHUNKS
                )
            if not rows:
                return
            after = (rows[-1].document_id, rows[-1].ordinal)
            known = self.refused.keys() | self.blank
            rows = [row for row in rows if row.id not in known]
            if rows:
                self._fill_rows(rows, project_id=project_id)

    def _fill_rows(self, rows: Sequence[UnembeddedChunk], *, project_id: int) -> None:
        started = time.perf_counter()
        texts = [embedded_text(row) for row in rows]
        made = embed_texts(
            self.database, self.embedder, texts, role="document", project_id=project_id
        )
        self._note(rows, texts, made)
        done = [(row.id, v) for row, v in zip(rows, made.vectors, strict=True) if v is not None]
        embedded = time.perf_counter()
        if done:
            retried(partial(self._store, done, project_id))
        self._done += len(rows)
        self.progress(min(self._done, self.total), self.total)
        if made.failure is not None:
            raise self._stopped(made.failure)
        stored_s = time.perf_counter() - embedded
        time.sleep(max(0.0, REST * stored_s - (embedded - started)))

    def _store(self, done: Sequence[tuple[UUID, NDArray[np.float32]]], project_id: int) -> None:
        with self.database.transaction(projects=[project_id]) as connection:
            store.set_next_embeddings(
                connection,
                done,
                project_id=project_id,
                model=self.own.id,
                version=self.own.version,
            )

    def _note(self, rows: Sequence[UnembeddedChunk], texts: Sequence[str], made: Embedded) -> None:
        self.blank |= {row.id for row, text in zip(rows, texts, strict=True) if is_blank(text)}
        for position, why in made.refused.items():
            row = rows[position]
            said = note(row.place, row)
            self.refused[row.id] = replace(said, reason=f"{said.reason}: {why.detail}")

    def _stopped(self, failure: Degraded) -> LastroError:
        ids = all_project_ids(self.database)
        with self.database.transaction(projects=ids) as connection:
            total, missing = store.switch_counts(connection, ids) or (0, 0)
        message = f"{failure.detail}; {total - missing} of {total} rows have their new vector"
        remedy = (
            f"run `lastro embedder switch {self.own.id}` again when it works: the switch goes on "
            "where it stopped, and until then the old vectors are searched"
        )
        if failure.reason == "embedder_budget":
            return BudgetExceeded(message, remedy=remedy)
        return ProviderError(message, reason=failure.reason, remedy=remedy)

    # --- swapping

    @contextmanager
    def _turns(self) -> Generator[None]:
        """Every project's turn: index runs that work are waited for, others wait."""
        with self.database.reserved() as connection:
            for project_id in sorted(all_project_ids(self.database)):
                store.lock_project(connection, project_id)
            yield  # with the connection the turns end

    def _swapped(self) -> bool:
        """Swap; False where rows came that have no new vector yet."""
        return _in_turn_with_searches(self.admin_url, self._swap)

    def _swap(self, connection: AppConnection) -> bool:
        store.prepare_swap(connection, blank=sorted(self.blank), fingerprints=self.fingerprints)
        store.lock_searches(connection)
        if store.missing_rows(connection) - self.refused.keys() - self.blank:
            connection.rollback()
            return False
        store.swap_vectors(connection)
        return True


def _tidy(database: Database, admin_url: str) -> None:
    """Measure the new cosines, let old row versions go, and say that the switch is done."""
    for project_id in all_project_ids(database):
        with database.transaction(projects=[project_id]) as connection:
            refresh_vector_scale(connection, project_id)
    with _owner(admin_url) as connection:
        store.vacuum_switched(connection)
        store.forget_switch(connection)


def _in_turn_with_searches(admin_url: str, work: Callable[[AppConnection], T]) -> T:
    """Do the owner's ``work`` on what searches read, in one transaction, between two of them.

    It waits no longer for one that is under way than others may wait behind it, and then tries
    again. Errors: Contention where that never ends.
    """
    attempt = 1
    while True:
        try:
            with connect(admin_url) as connection:
                connection.isolation_level = IsolationLevel.READ_COMMITTED
                lock_schema(connection)
                set_local(connection, settings={"lock_timeout": f"{LOCK_TIMEOUT_MS}ms"})
                return work(connection)
        except Contention:
            if attempt == LOCK_ATTEMPTS:
                raise
        attempt += 1
        time.sleep(LOCK_PAUSE_S)


@contextmanager
def _owner(admin_url: str) -> Generator[AppConnection]:
    """The owner's connection for statements that stand in no transaction."""
    with connect(admin_url) as connection:
        connection.autocommit = True
        yield connection


@contextmanager
def _alone(database: Database) -> Generator[None]:
    """Be the one process that works on a switch. Errors: Conflict."""
    with database.reserved() as connection:
        if not store.try_lock_switch(connection):
            raise Conflict(
                "another process works on the switch", remedy="see `lastro embedder status`"
            )
        yield  # with the connection the lock ends


def _under_way(database: Database) -> Switch | None:
    with database.transaction() as connection:
        return store.find_switch(connection)


def _ref(one: ActiveEmbedder | Switch) -> EmbedderRef:
    return EmbedderRef(id=one.id, version=one.version, dimension=one.dimension)


def _report(
    before: ActiveEmbedder, now: ActiveEmbedder, *, started: float, work: _Work | None = None
) -> SwitchReport:
    refused: Mapping[UUID, FileNote] = {} if work is None else work.refused
    return SwitchReport(
        before=_ref(before),
        active=_ref(now),
        chunks=0 if work is None else work.total,
        refused=tuple(sorted(refused.values(), key=lambda one: (one.path, one.reason))),
        took_ms=(time.perf_counter() - started) * 1000,
    )
