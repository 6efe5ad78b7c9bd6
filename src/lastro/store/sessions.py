"""The event log: events added to their sessions, and read back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from lastro.db.pool import AppConnection, set_local
from lastro.errors import Contention
from lastro.event import INDEXED_TYPES, TITLE_TYPE, Event, StorableEvent
from lastro.places import SessionPlace
from lastro.sql import load_queries

# The columns of a staged event, which binary COPY must be told.
_STAGED_TYPES = (
    "int4", "text", "text", "int8", "text", "text", "text", "text", "timestamptz",
)  # fmt: skip
# Events read at once: so many, and so much of their texts. A single one may have 16 MiB.
PAGE_EVENTS = 1_000
PAGE_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEvent:
    """An event that the log does not hold, by its position; ``seq`` is that of the one of its id.

    ``taken_by`` is the id of the event that has its number.
    """

    position: int
    seq: int | None
    taken_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedEvents:
    """What became of a batch."""

    added: int
    refused: list[RefusedEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session as the log has it, beside its document; ``document_id`` is None without one."""

    id: str
    title: str | None
    event_count: int
    indexed_count: int
    last_seq: int
    started_at: datetime | None
    ended_at: datetime | None
    document_id: UUID | None
    document_title: str | None
    language: str | None
    content_hash: str | None
    fingerprint: str | None
    state: str | None
    metadata: Mapping[str, Any] | None


def add_events(
    connection: AppConnection, events: Sequence[StorableEvent], *, project_id: int
) -> AddedEvents:
    """Add events to their sessions, which are made where they are missing, in this order.

    Either all have a number or none has: those get the next ones. An event that is there already
    is left as it is. Errors: Contention where a session was removed meanwhile.
    """
    queries = load_queries("sessions")
    project = {"project_id": project_id}
    connection.execute(queries["stage_events"])
    with connection.cursor() as cursor, cursor.copy(queries["copy_events"]) as copy:
        copy.set_types(_STAGED_TYPES)
        for position, stored in enumerate(events):
            copy.write_row(_staged(position, stored))
    connection.execute(queries["ensure_sessions"], project)
    ids = {stored.event.session for stored in events}
    _lock_sessions(connection, ids, project_id=project_id)
    if any(stored.event.seq is None for stored in events):
        connection.execute(queries["number_events"], project)
    added = _insert(connection, sorted(ids), project_id=project_id)
    refused: list[RefusedEvent] = []
    if added < len(events):
        with connection.cursor(row_factory=class_row(RefusedEvent)) as cursor:
            refused = cursor.execute(queries["refused_events"], project).fetchall()
    connection.execute(queries["drop_staged_events"])
    return AddedEvents(added=added, refused=refused)


def _insert(connection: AppConnection, sessions: Sequence[str], *, project_id: int) -> int:
    """Insert what was staged; returns how many events were not there.

    The planner expects one session under row-level security, and would look through the events of
    all for each of them: 6 ms an event where each of 2,500 sessions has two.
    """
    set_local(connection, settings={"enable_nestloop": "off"})
    counts = connection.execute(
        load_queries("sessions")["insert_events"],
        {
            "project_id": project_id,
            "sessions": sessions,
            "title_type": TITLE_TYPE,
            "indexed_types": list(INDEXED_TYPES),
        },
    ).fetchall()
    set_local(connection, settings={"enable_nestloop": "on"})
    return sum(int(row[0]) for row in counts)


def _staged(position: int, stored: StorableEvent) -> tuple[object, ...]:
    event = stored.event
    return (
        position, event.session, event.id, event.seq, event.type, event.actor, stored.content,
        stored.payload, event.time,
    )  # fmt: skip


def _lock_sessions(connection: AppConnection, ids: Iterable[str], *, project_id: int) -> None:
    wanted = sorted(ids)
    locked = connection.execute(
        load_queries("sessions")["lock_sessions"], {"project_id": project_id, "sessions": wanted}
    ).fetchall()
    if len(locked) < len(wanted):
        raise Contention("a session was removed while events came to it", remedy="run it again")


def find_event(
    connection: AppConnection, session: str, id_: str, *, project_id: int
) -> Event | None:
    """One event; None where there is none."""
    with connection.cursor(row_factory=class_row(Event)) as cursor:
        return cursor.execute(
            load_queries("sessions")["find_event"],
            {"project_id": project_id, "session": session, "id": id_},
        ).fetchone()


def events_page(
    connection: AppConnection,
    session: str,
    after: int,
    *,
    project_id: int,
    types: Sequence[str] | None = None,
    limit: int = PAGE_EVENTS,
) -> list[Event]:
    """A session's first events behind a number in order, of ``types`` or of any.

    Their texts fit in little memory: it ends after the event with which they reach PAGE_BYTES.
    """
    with connection.cursor(row_factory=class_row(Event)) as cursor:
        return cursor.execute(
            load_queries("sessions")["events_page"],
            {
                "project_id": project_id,
                "session": session,
                "after": after,
                "types": None if types is None else list(types),
                "limit": min(limit, PAGE_EVENTS),
                "max_bytes": PAGE_BYTES,
            },
        ).fetchall()


def events_after(
    connection: AppConnection,
    session: str,
    after: int,
    *,
    project_id: int,
    types: Sequence[str] | None = None,
) -> Iterator[Event]:
    """All of them, a page in memory at a time."""
    while page := events_page(connection, session, after, project_id=project_id, types=types):
        after = page[-1].seq or 0
        yield from page
        del page


def count_indexed_until(
    connection: AppConnection, session: str, until: int, *, project_id: int
) -> int:
    """A session's events that searches may find, up to a number."""
    row = connection.execute(
        load_queries("sessions")["count_events_until"],
        {
            "project_id": project_id,
            "session": session,
            "until": until,
            "types": list(INDEXED_TYPES),
        },
    ).fetchone()
    return 0 if row is None else int(row[0])


def session_states(
    connection: AppConnection,
    project_id: int,
    *,
    sessions: Sequence[str] | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[SessionState]:
    """A project's sessions, or the named ones of them, behind ``after`` where given, by id."""
    with connection.cursor(row_factory=class_row(SessionState)) as cursor:
        return cursor.execute(
            load_queries("sessions")["session_states"],
            {
                "project_id": project_id,
                "sessions": None if sessions is None else list(sessions),
                "after": after,
                "limit": limit,
            },
        ).fetchall()


def find_session_place(
    connection: AppConnection, readings: Sequence[SessionPlace], *, project_id: int
) -> SessionPlace | None:
    """The first of ``readings`` whose session there is."""
    names = [reading.session for reading in readings]
    known = {state.id for state in session_states(connection, project_id, sessions=names)}
    return next((reading for reading in readings if reading.session in known), None)


def end_session(connection: AppConnection, session: str, *, project_id: int) -> bool:
    """Mark a session as ended, unless it is already; False where there is none."""
    found = connection.execute(
        load_queries("sessions")["end_session"], {"project_id": project_id, "session": session}
    )
    return found.rowcount > 0


def delete_sessions(
    connection: AppConnection, sessions: Sequence[str], *, project_id: int
) -> dict[str, int]:
    """Delete sessions with their events; returns how many events each one had that there was."""
    rows = connection.execute(
        load_queries("sessions")["delete_sessions"],
        {"project_id": project_id, "sessions": sorted(sessions)},
    )
    return {str(row[0]): int(row[1]) for row in rows}
