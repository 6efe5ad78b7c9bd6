"""An event of a conversation: what it may hold, and its form as a line of JSON. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from lastro.errors import InvalidInput
from lastro.graphemes import is_blank
from lastro.json_lines import ReadLine, RefusedLine, each_line
from lastro.lexical import storable
from lastro.line_fields import named, read_time, time_fault
from lastro.masking import mask, mask_json, may_have_form, may_have_secret
from lastro.types import OPTIONAL, EmbeddingCounts

# What people and agents said to each other. Everything else is kept, and never searched.
INDEXED_TYPES = ("chat.message", "agent.response")
# Its content names the session; of several the one of the highest seq does.
TITLE_TYPE = "session.title"

# Both stand in one index entry, which PostgreSQL limits to 2,700 bytes.
MAX_SESSION_BYTES = 1_000
MAX_ID_BYTES = 1_000
MAX_TYPE_CHARS = 200
MAX_ACTOR_CHARS = 200
# What a tool printed, or a picture in base64. A batch of events is held in memory.
MAX_CONTENT_BYTES = 8 * 2**20
MAX_PAYLOAD_BYTES = 8 * 2**20
# In UTF-8; what has fewer characters need not be encoded to know its size.
MOST_BYTES_A_CHAR = 4
# A bigint. What a line says is half of it at most, so that numbers are left for those that follow.
MAX_SEQ, MAX_GIVEN_SEQ = 2**63 - 1, 2**62 - 1
# As much of a first question as names a session.
TITLE_CHARS = 100
# One for all: making an encoder takes as long as a small payload.
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a session; ``seq`` is its place there, None for the next one.

    ``time`` is told and never ordered by. ``content`` and ``payload`` are stored without NUL and
    lone surrogates, and ``payload`` as it is when the event is made: ``written`` is its JSON.
    Errors: InvalidInput, which names the event and the field.
    """

    session: str
    id: str
    seq: int | None
    type: str
    actor: str | None = None
    content: str = ""
    payload: Mapping[str, Any] | None = None
    time: datetime | None = None
    written: str | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "written", _written(self.payload))
        for name, fault in _faults(self):
            if fault is not None:
                raise InvalidInput(
                    f"{named('event', self.id)}{name} {fault}", remedy="correct the event"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCounts:
    """What became of sessions in the index; those that say nothing are not counted."""

    added: int
    changed: int
    unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCounts:
    """What became of events; a refused one is told by its line, or its place among those given.

    ``unchanged`` were in the log already; ``masked`` are secrets that were taken out of any.
    """

    added: int
    unchanged: int
    masked: int = 0
    refused: tuple[RefusedLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Some events of a session in their order; ``more`` where others follow."""

    events: tuple[Event, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReport:
    """What was added to the event log."""

    project: str
    events: EventCounts
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """What was stored and indexed; ``events`` is left out where only an index run was asked for.

    ``sessions`` counts documents of the index, ``chunks`` are the project's published ones.
    """

    project: str
    events: EventCounts | None = field(default=None, metadata=OPTIONAL)
    sessions: SessionCounts
    chunks: int
    embedding: EmbeddingCounts
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session as listed; ``indexed_events`` are those of its events that a search may find.

    ``current`` is False while the index lacks some of them, ``complete`` while a chunk lacks its
    vector.
    """

    id: str
    title: str | None
    events: int
    indexed_events: int
    chunks: int
    current: bool
    complete: bool
    started_at: datetime | None
    ended_at: datetime | None


def _faults(event: Event) -> tuple[tuple[str, str | None], ...]:
    """Each field with what is wrong with it, or None."""
    actor = event.actor
    return (
        ("session", _name_fault(event.session, max_bytes=MAX_SESSION_BYTES)),
        ("id", _name_fault(event.id, max_bytes=MAX_ID_BYTES)),
        ("type", _name_fault(event.type, max_chars=MAX_TYPE_CHARS)),
        ("actor", None if actor is None else _name_fault(actor, max_chars=MAX_ACTOR_CHARS)),
        ("seq", _seq_fault(event.seq)),
        ("content", _content_fault(event.content)),
        ("payload", _payload_fault(event.payload, event.written)),
        ("time", time_fault(event.time)),
    )


def _name_fault(
    value: object, *, max_bytes: int | None = None, max_chars: int | None = None
) -> str | None:
    if not isinstance(value, str):
        return "is no text"
    most = max_bytes or max_chars or len(value)
    if value.isascii() and value.isprintable() and value.strip() and len(value) <= most:
        return None  # most names by far, told at a tenth of the cost
    if storable(value) != value:
        return "has a character that cannot be stored: NUL, or half of a pair"
    if is_blank(value):
        return "is blank"
    if max_bytes is not None and len(value.encode()) > max_bytes:
        return f"is longer than {max_bytes:,} bytes"
    if max_chars is not None and len(value) > max_chars:
        return f"is longer than {max_chars:,} characters"
    return None


def _seq_fault(seq: object) -> str | None:
    if seq is None:
        return None
    if isinstance(seq, int) and not isinstance(seq, bool) and 0 <= seq <= MAX_SEQ:
        return None
    return f"is no whole number from 0 to {MAX_SEQ:,}"


def _content_fault(content: object) -> str | None:
    if not isinstance(content, str):
        return "is no text"
    if _is_longer(content, MAX_CONTENT_BYTES):
        return f"is longer than {MAX_CONTENT_BYTES:,} bytes"
    return None


def _written(payload: object) -> str | None:
    """A payload as JSON; None where it cannot be."""
    if not _is_table(payload):
        return None
    try:
        return _JSON.encode(_table(payload))
    except (TypeError, ValueError, RecursionError):
        return None


def _is_table(value: object) -> bool:
    return isinstance(value, (dict, Mapping))  # most are a dict, which is told twice as fast


def _table(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return dict(cast("Mapping[str, Any]", value))


def _payload_fault(payload: object, written: str | None) -> str | None:
    if payload is None:
        return None
    if not _is_table(payload):
        return "is no object"
    if written is None:
        return "cannot be written as JSON"
    if _is_longer(written, MAX_PAYLOAD_BYTES):
        return f"is longer than {MAX_PAYLOAD_BYTES:,} bytes of JSON"
    return None


def _is_longer(text: str, max_bytes: int) -> bool:
    return (
        len(text) > max_bytes // MOST_BYTES_A_CHAR
        and len(text.encode(errors="surrogatepass")) > max_bytes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorableEvent:
    """An event with what is stored of its texts: no NUL and no lone surrogate; payload as JSON.

    ``secrets`` were masked in them.
    """

    event: Event
    content: str
    payload: str | None
    secrets: int = 0

    @property
    def size_chars(self) -> int:
        """Of both texts."""
        return len(self.content) + len(self.payload or "")


def storable_event(event: Event) -> StorableEvent:
    """The event as the log takes it; secrets are masked, see ``lastro.masking``."""
    content, payload, written, secrets = event.content, event.payload, event.written, 0
    # One look at all of it: there hardly ever is a secret.
    if may_have_form(f"{event.type}\n{event.actor}\n{content}\n{written}"):
        event, secrets = _named_without_secrets(event)
        content, in_content = mask(content)
        secrets += in_content
        if written is not None and may_have_secret(written):
            payload, in_payload = mask_json(_table(payload))
            written, secrets = _JSON.encode(payload), secrets + in_payload
    if written is not None and ("\\u0000" in written or _storable(written) != written):
        written = _JSON.encode(_storable_value(payload))
    return StorableEvent(event=event, content=_storable(content), payload=written, secrets=secrets)


def _named_without_secrets(event: Event) -> tuple[Event, int]:
    """The event without the secrets in its type and its actor, and how many these were."""
    type_, in_type = mask(event.type)
    actor, in_actor = (None, 0) if event.actor is None else mask(event.actor)
    if in_type + in_actor == 0:
        return event, 0
    named = replace(
        event,
        type=type_[:MAX_TYPE_CHARS],
        actor=None if actor is None else actor[:MAX_ACTOR_CHARS],
    )
    return named, in_type + in_actor


def _storable(text: str) -> str:
    return text if text.isascii() and "\0" not in text else storable(text)


def _storable_value(value: object) -> object:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        return {storable(str(name)): _storable_value(part) for name, part in table.items()}
    if isinstance(value, list | tuple):
        return [_storable_value(part) for part in cast("Sequence[object]", value)]
    return value


def first_line(text: str) -> str:
    """The beginning of a text's first line that shows something, as a title."""
    line = next((line for line in text.splitlines() if not is_blank(line)), text)
    title = " ".join(line.split())
    return title if len(title) <= TITLE_CHARS else f"{title[: TITLE_CHARS - 1]}…"


def event_json(event: Event) -> dict[str, Any]:
    """An event as its line says it; without a payload where it has none."""
    said: dict[str, Any] = {
        "session": event.session,
        "id": event.id,
        "seq": event.seq,
        "type": event.type,
        "actor": event.actor,
        "content": event.content,
    }
    if event.payload is not None:
        said["payload"] = dict(event.payload)
    said["time"] = None if event.time is None else event.time.isoformat()
    return said


# The fields of a line, in their order.
_KNOWN = {name: None for name, one in Event.__dataclass_fields__.items() if one.init}


def parse_event(said: object) -> Event:
    """The event that a JSON object says. Errors: InvalidInput, which names event and field."""
    if not isinstance(said, dict):
        raise InvalidInput("it is no JSON object")
    values = cast("dict[str, Any]", said)
    about = named("event", values.get("id"))
    unknown = next((name for name in values if name not in _KNOWN), None)
    if unknown is not None:
        raise InvalidInput(f"{about}unknown field {unknown!r}", remedy=f"use {', '.join(_KNOWN)}")
    missing = next((name for name in ("session", "id", "type") if values.get(name) is None), None)
    if missing is not None:
        raise InvalidInput(f"{about}there is no {missing}")
    seq = values.get("seq")
    if isinstance(seq, int) and seq > MAX_GIVEN_SEQ:
        raise InvalidInput(
            f"{about}seq is above {MAX_GIVEN_SEQ:,}, and leaves no number for those that follow",
            remedy="number from 0, or leave it out",
        )
    given: dict[str, Any] = {"seq": None}
    given |= {name: value for name, value in values.items() if value is not None}
    if "time" in given:
        given["time"] = read_time(given["time"], field="time", named=about)
    return Event(**given)


def read_events(
    lines: Iterable[bytes], *, session: str | None = None
) -> Iterator[ReadLine[Event] | RefusedLine]:
    """What each line says, one by one: a log may be larger than memory.

    Blank lines are passed over. Whether an id came before is for the log to say. Where a
    ``session`` is named, lines need not say it, and those of another one say nothing.
    """
    parse = parse_event if session is None else partial(_parse_event_of, session)
    return each_line(lines, parse, key="id")


def _parse_event_of(session: str, said: object) -> Event:
    """The event of ``session`` that a JSON object says. Errors: InvalidInput."""
    if isinstance(said, dict):
        said = {"session": session, **cast("dict[str, Any]", said)}
    event = parse_event(said)
    if event.session != session:
        raise InvalidInput(
            f"{named('event', event.id)}it is of the session {event.session!r}, not of {session!r}"
        )
    return event
