"""The event log's use cases: events added, read back, indexed; sessions listed, ended, removed."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter

from lastro import store
from lastro.counting import refresh_counts
from lastro.db.pool import Database, retried, set_local
from lastro.errors import InvalidInput, NotFound
from lastro.event import (
    AppendReport,
    Event,
    EventCounts,
    EventPage,
    SessionReport,
    SessionSummary,
    StorableEvent,
    storable_event,
)
from lastro.json_lines import ReadLine, RefusedLine, require_none
from lastro.lexical import storable
from lastro.paging import check_limit, is_bigint
from lastro.projects import project_named
from lastro.session_indexing import index_sessions
from lastro.session_rows import begun_of, is_current
from lastro.store import (
    PAGE_EVENTS,
    AddedEvents,
    AppConnection,
    Project,
    RefusedEvent,
    SessionState,
)
from lastro.turns import turn
from lastro.types import Progress
from lastro.writing import Writer

ReadEvents = Iterable[ReadLine[Event] | RefusedLine]
# A step in a transaction that sees the project of this id.
_Work = Callable[[AppConnection, int], AddedEvents]
_Run = Callable[[_Work], AddedEvents]

# Events stored in one transaction; their texts are in memory.
BATCH_EVENTS = 2_500
BATCH_CHARS = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """An event to be stored; ``number`` is its place among all that was read."""

    number: int
    read: ReadLine[Event]
    event: StorableEvent


@dataclass(slots=True)
class _Added:
    count: int = 0
    given: int = 0
    masked: int = 0
    refused: list[tuple[int, RefusedLine]] = field(default_factory=list[tuple[int, RefusedLine]])
    sessions: set[str] = field(default_factory=set[str])

    @property
    def counts(self) -> EventCounts:
        return EventCounts(
            added=self.count,
            unchanged=self.given - self.count - len(self.refused),
            masked=self.masked,
            refused=tuple(line for _, line in sorted(self.refused, key=itemgetter(0))),
        )


def append_events(database: Database, read: ReadEvents, *, project: str) -> AppendReport:
    """Add events to the log, without indexing them; the project is made where it is not there.

    An event whose id its session has already is left out where it says the same; one that says
    something else, or whose number another one has, is refused, and the rest goes in. Without a
    number it gets the next one. Secrets are masked in all of them.
    """
    started = time.perf_counter()
    with database.transaction() as connection:
        tenant = store.ensure_project(connection, project)
    added = _add_all(read, run=lambda work: _alone(database, tenant, work))
    return AppendReport(
        project=tenant.slug,
        events=added.counts,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def import_events(
    database: Database,
    read: ReadEvents,
    *,
    project: str,
    writer: Writer,
    strict: bool = False,
    progress: Progress | None = None,
) -> SessionReport:
    """Add what was read to the log, and return when its sessions can be searched.

    A session that an earlier import could not index to the end is completed. Errors: InvalidInput
    where ``strict`` meets a line that is refused, and then nothing is stored; EmbedderMismatch.
    """
    started = time.perf_counter()
    writer.require_embedder()
    if strict:
        tenant, added = _add_strictly(database, read, project=project)
    else:
        with database.transaction() as connection:
            tenant = store.ensure_project(connection, project)
        added = _add_all(read, run=lambda work: _alone(database, tenant, work))
    indexed = index_sessions(
        database, tenant, writer=writer, sessions=sorted(added.sessions), progress=progress
    )
    return SessionReport(
        project=tenant.slug,
        events=added.counts,
        sessions=indexed.sessions,
        chunks=indexed.chunks,
        embedding=writer.counts,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def index(
    database: Database,
    *,
    project: str,
    writer: Writer,
    sessions: Sequence[str] | None = None,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> SessionReport:
    """Index the named sessions, or all, to what the log holds now. Errors: NotFound."""
    started = time.perf_counter()
    tenant = project_named(database, project)
    for session in sessions or ():
        _session_state(database, session, project=tenant)
    indexed = index_sessions(
        database, tenant, writer=writer, sessions=sessions, rebuild=rebuild, progress=progress
    )
    return SessionReport(
        project=tenant.slug,
        sessions=indexed.sessions,
        chunks=indexed.chunks,
        embedding=writer.counts,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def end_session(database: Database, session: str, *, project: str, writer: Writer) -> SessionReport:
    """Mark a session as ended and index it; again and late it does the same. Errors: NotFound."""
    tenant = project_named(database, project)
    _session_state(database, session, project=tenant)
    with database.transaction(projects=[tenant.id]) as connection:
        store.end_session(connection, session, project_id=tenant.id)
    return index(database, project=project, writer=writer, sessions=[session])


def get_session_event(database: Database, session: str, event: str, *, project: str) -> Event:
    """The event that a citation names, of any type. Errors: NotFound, the same for any cause."""
    tenant = project_named(database, project)
    found = None
    if storable(session + event) == session + event:
        with database.transaction(projects=[tenant.id]) as connection:
            found = store.find_event(connection, session, event, project_id=tenant.id)
    if found is None:
        raise NotFound(
            f"the project {tenant.slug!r} has no event {event!r} in a session {session!r}",
            remedy="see its sessions with `lastro sessions list`",
        )
    return found


def list_sessions(
    database: Database,
    *,
    project: str,
    fingerprint: str,
    after: str | None = None,
    limit: int | None = None,
) -> list[SessionSummary]:
    """A project's sessions by id, behind ``after``; ``fingerprint`` is the present pipeline's.

    Errors: NotFound, InvalidInput.
    """
    check_limit(limit, of="session")
    tenant = project_named(database, project)
    with database.transaction(projects=[tenant.id]) as connection:
        states = store.session_states(connection, tenant.id, after=after, limit=limit)
    return [_summary(state, fingerprint=fingerprint) for state in states]


def get_session(
    database: Database, session: str, *, project: str, fingerprint: str
) -> SessionSummary:
    """A session as it is listed. Errors: NotFound."""
    tenant = project_named(database, project)
    return _summary(_session_state(database, session, project=tenant), fingerprint=fingerprint)


def session_events(
    database: Database,
    session: str,
    *,
    project: str,
    after: int = -1,
    limit: int | None = None,
) -> Iterator[Event]:
    """A session's events of any type behind a number, in order. Errors: NotFound, InvalidInput."""
    _check_page(after, limit)
    tenant = project_named(database, project)
    _session_state(database, session, project=tenant)
    return _events(database, session, project=tenant, after=after, limit=limit)


def page_of_events(
    database: Database, session: str, *, project: str, after: int, limit: int
) -> EventPage:
    """The first events behind a number: at most ``limit``, and fewer where they are large.

    Errors: NotFound, InvalidInput.
    """
    _check_page(after, limit)
    tenant = project_named(database, project)
    last_seq = _session_state(database, session, project=tenant).last_seq
    events = _page(database, session, project=tenant, after=after, limit=limit)
    return EventPage(events=tuple(events), more=bool(events) and (events[-1].seq or 0) < last_seq)


def export_sessions(
    database: Database, *, project: str, sessions: Sequence[str] | None = None
) -> Iterator[Event]:
    """Events of the named sessions, or of all, by session and number. Errors: NotFound."""
    tenant = project_named(database, project)
    if sessions is None:
        with database.transaction(projects=[tenant.id]) as connection:
            sessions = [state.id for state in store.session_states(connection, tenant.id)]
    for session in sessions:
        _session_state(database, session, project=tenant)
    for session in sessions:
        yield from _events(database, session, project=tenant, after=-1, limit=None)


def remove_sessions(database: Database, sessions: Sequence[str], *, project: str) -> list[str]:
    """Delete sessions with their events and chunks; returns those that there were.

    Errors: NotFound for the project, and where none of the sessions is there.
    """
    tenant = project_named(database, project)

    def remove() -> list[str]:
        with database.transaction(projects=[tenant.id]) as connection:
            found = sorted(store.delete_sessions(connection, wanted, project_id=tenant.id))
            documents = store.documents_at(connection, wanted, project_id=tenant.id, kind="session")
            store.delete_documents(connection, documents, project_id=tenant.id)
            if documents:
                refresh_counts(connection, tenant.id)
            return found

    wanted = [session for session in sessions if storable(session) == session]
    with turn(database, tenant.id):
        found = retried(remove)
    if not found:
        raise _no_session(sessions[0], project=tenant.slug)
    return found


# --- adding


def _add_strictly(database: Database, read: ReadEvents, *, project: str) -> tuple[Project, _Added]:
    """Add all that was read in one transaction, or nothing. Errors: InvalidInput."""
    with database.transaction() as connection:
        tenant = store.ensure_project(connection, project)
        set_local(connection, projects=[tenant.id])
        added = _add_all(read, run=lambda work: work(connection, tenant.id))
        require_none(added.counts.refused, total=added.given, of="events that go in")
    return tenant, added


def _alone(database: Database, project: Project, work: _Work) -> AddedEvents:
    """Do a step in a transaction of its own, again where another was in its way."""

    def alone() -> AddedEvents:
        with database.transaction(projects=[project.id]) as connection:
            return work(connection, project.id)

    return retried(alone)


def _add_all(read: ReadEvents, *, run: _Run) -> _Added:
    """Store a batch while the next one is read: the server and this process share the work."""
    added = _Added()
    with ThreadPoolExecutor(1, thread_name_prefix="storing") as storing:
        stored: Future[None] | None = None
        for batch in _batches(read, added):
            if stored is not None:
                stored.result()
            stored = storing.submit(copy_context().run, partial(_add_batch, batch, added, run=run))
        if stored is not None:
            stored.result()
    return added


def _add_batch(batch: Sequence[_Taken], added: _Added, *, run: _Run) -> None:
    events = [one.event for one in batch]
    found = run(partial(_add, events))
    added.count += found.added
    added.sessions |= {stored.event.session for stored in events}
    for refused in found.refused:
        one = batch[refused.position]
        added.refused.append((one.number, _refusal(one.read, refused)))


def _add(
    events: Sequence[StorableEvent], connection: AppConnection, project_id: int
) -> AddedEvents:
    return store.add_events(connection, events, project_id=project_id)


def _batches(read: ReadEvents, added: _Added) -> Iterator[list[_Taken]]:
    """Events that are stored at once, which either all bring a number or all get one."""
    batch: list[_Taken] = []
    size_chars = 0
    for one in read:
        added.given += 1
        if isinstance(one, RefusedLine):
            added.refused.append((added.given, one))
            continue
        taken = _Taken(number=added.given, read=one, event=storable_event(one.item))
        added.masked += taken.event.secrets
        is_other = bool(batch) and (batch[0].read.item.seq is None) != (one.item.seq is None)
        if is_other or len(batch) == BATCH_EVENTS or size_chars > BATCH_CHARS:
            yield batch
            batch, size_chars = [], 0
        batch.append(taken)
        size_chars += taken.event.size_chars
    if batch:
        yield batch


def _refusal(read: ReadLine[Event], refused: RefusedEvent) -> RefusedLine:
    event = read.item
    if refused.taken_by is not None:
        why = f"the event {refused.taken_by!r} has seq {event.seq} in the session {event.session!r}"
    else:
        why = (
            f"the session {event.session!r} has an event {event.id!r} that says something else, "
            f"at seq {refused.seq}"
        )
    return RefusedLine(file=read.file, line=read.line, key=event.id, reason=why)


# --- reading


def _check_page(after: int, limit: int | None) -> None:
    """Errors: InvalidInput."""
    check_limit(limit, of="event")
    if not is_bigint(after):
        raise InvalidInput(f"no event has a number like {after}", remedy="use one that is listed")


def _events(
    database: Database, session: str, *, project: Project, after: int, limit: int | None
) -> Iterator[Event]:
    """Page by page, each in a transaction of its own: who takes them may be slow."""
    left = PAGE_EVENTS if limit is None else limit
    while left > 0:
        page = _page(database, session, project=project, after=after, limit=left)
        if not page:
            return
        after = page[-1].seq or 0
        left = PAGE_EVENTS if limit is None else left - len(page)
        yield from page
        del page


def _page(
    database: Database, session: str, *, project: Project, after: int, limit: int
) -> list[Event]:
    with database.transaction(projects=[project.id]) as connection:
        return store.events_page(connection, session, after, project_id=project.id, limit=limit)


def _session_state(database: Database, session: str, *, project: Project) -> SessionState:
    """A session as the log has it. Errors: NotFound."""
    found: list[SessionState] = []
    if storable(session) == session:
        with database.transaction(projects=[project.id]) as connection:
            found = store.session_states(connection, project.id, sessions=[session])
    if not found:
        raise _no_session(session, project=project.slug)
    return found[0]


def _no_session(session: str, *, project: str) -> NotFound:
    return NotFound(
        f"the project {project!r} has no session {session!r}",
        remedy="see its sessions with `lastro sessions list`",
    )


def _summary(state: SessionState, *, fingerprint: str) -> SessionSummary:
    return SessionSummary(
        id=state.id,
        title=state.title or state.document_title,
        events=state.event_count,
        indexed_events=state.indexed_count,
        chunks=begun_of(state).extent.chunks,
        current=is_current(state, fingerprint=fingerprint),
        complete=state.state != "incomplete",
        started_at=state.started_at,
        ended_at=state.ended_at,
    )
