"""An event of a conversation: what it may hold, and its form as a line of JSON. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from lastro.errors import InvalidInput
from lastro.graphemes import is_blank
from lastro.json_lines import ReadLine, RefusedLine, each_line
from lastro.lexical import storable
from lastro.line_fields import named, read_time, time_fault
from lastro.masking import mask, mask_json, may_have_secret
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
# A bigint.
MAX_SEQ = 2**63 - 1
# As much of a first question as names a session.
TITLE_CHARS = 100
# One for all: making an encoder takes as long as a small payload.
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a session; ``seq`` is its place there, None for the next one.

    ``time`` is told and never ordered by. ``content`` and ``payload`` are stored without NUL and
    lone surrogates. Errors: InvalidInput, which names the event and the field.
    """

    session: str
    id: str
    seq: int | None
    type: str
    actor: str | None = None
    content: str = ""
    payload: Mapping[str, Any] | None = None
    time: datetime | None = None

    def __post_init__(self) -> None:
        for name, fault in _faults(self):
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


def _faults(event: Event) -> Iterator[tuple[str, str]]:
    for name, most in (("session", MAX_SESSION_BYTES), ("id", MAX_ID_BYTES)):
        fault = _name_fault(getattr(event, name), max_bytes=most)
        if fault is not None:
            yield name, fault
            return
    fault = _name_fault(event.type, max_chars=MAX_TYPE_CHARS)
    if fault is not None:
        yield "type", fault
    if event.actor is not None:
        fault = _name_fault(event.actor, max_chars=MAX_ACTOR_CHARS)
        if fault is not None:
            yield "actor", fault
    yield from _seq_faults(event.seq)
    yield from _content_faults(event.content)
    yield from _payload_faults(event.payload)
    fault = time_fault(event.time)
    if fault is not None:
        yield "time", fault


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


def _seq_faults(seq: object) -> Iterator[tuple[str, str]]:
    if seq is None:
        return
    if isinstance(seq, bool) or not isinstance(seq, int) or not 0 <= seq <= MAX_SEQ:
        yield "seq", f"is no whole number from 0 to {MAX_SEQ:,}"


def _content_faults(content: object) -> Iterator[tuple[str, str]]:
    if not isinstance(content, str):
        yield "content", "is no text"
    elif (
        len(content) > MAX_CONTENT_BYTES // MOST_BYTES_A_CHAR
        and len(content.encode(errors="surrogatepass")) > MAX_CONTENT_BYTES
    ):
        yield "content", f"is longer than {MAX_CONTENT_BYTES:,} bytes"


def _payload_faults(payload: object) -> Iterator[tuple[str, str]]:
    if payload is None:
        return
    if not isinstance(payload, Mapping):
        yield "payload", "is no object"
        return
    try:
        written = _JSON.encode(dict(cast("Mapping[str, Any]", payload)))
    except (TypeError, ValueError, RecursionError):
        yield "payload", "cannot be written as JSON"
        return
    if (
        len(written) > MAX_PAYLOAD_BYTES // MOST_BYTES_A_CHAR
        and len(written.encode(errors="surrogatepass")) > MAX_PAYLOAD_BYTES
    ):
        yield "payload", f"is longer than {MAX_PAYLOAD_BYTES:,} bytes of JSON"


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
    content = mask(event.content)
    payload = _written_payload(event.payload) if event.payload is not None else (None, 0)
    return StorableEvent(
        event=event,
        content=_storable(content.text),
        payload=payload[0],
        secrets=content.secrets + payload[1],
    )


def _written_payload(payload: Mapping[str, Any]) -> tuple[str, int]:
    """A payload as it is stored, and how many secrets were masked in it."""
    held, secrets = dict(payload), 0
    written = _JSON.encode(held)
    if may_have_secret(written):
        held, secrets = mask_json(held)
        written = _JSON.encode(held)
    if "\\u0000" in written or _storable(written) != written:
        written = _JSON.encode(_storable_value(held))
    return written, secrets


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


def parse_event(said: object) -> Event:
    """The event that a JSON object says. Errors: InvalidInput, which names event and field."""
    if not isinstance(said, dict):
        raise InvalidInput("it is no JSON object")
    values = cast("dict[str, Any]", said)
    known = Event.__dataclass_fields__
    about = named("event", values.get("id"))
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        raise InvalidInput(f"{about}unknown field {unknown!r}", remedy=f"use {', '.join(known)}")
    missing = next((name for name in ("session", "id", "type") if values.get(name) is None), None)
    if missing is not None:
        raise InvalidInput(f"{about}there is no {missing}")
    given: dict[str, Any] = {"seq": None}
    given |= {name: value for name, value in values.items() if value is not None}
    if "time" in given:
        given["time"] = read_time(given["time"], field="time", named=about)
    return Event(**given)


def read_events(lines: Iterable[bytes]) -> Iterator[ReadLine[Event] | RefusedLine]:
    """What each line says, one by one: a log may be larger than memory.

    Blank lines are passed over. Whether an id came before is for the log to say.
    """
    return each_line(lines, parse_event, key="id")
