"""What every format has: records of a file, the parts of a message, and their form as events."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, cast

from lastro.errors import InvalidInput
from lastro.event import Event
from lastro.json_lines import ReadLine, RefusedLine

MESSAGE = "chat.message"
RESPONSE = "agent.response"
TOOL_CALL = "tool.call"
TOOL_RESULT = "tool.result"
STATUS = "agent.status"
ERROR = "agent.error"

USER = "user"
ASSISTANT = "assistant"

# Places of a session that one line of its transcript may fill. A line's first event has the
# place `line * PARTS_PER_LINE`, so a file that grows never moves what stands before.
PARTS_PER_LINE = 1_000

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a record that becomes one event."""

    type: str
    actor: str | None = None
    content: str = ""
    payload: Fields | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a record stands: its session, its line, the id of its first event, and its time."""

    session: str
    line: int
    id: str
    time: datetime | None = None


def events_of(place: Place, parts: Sequence[Part]) -> Iterator[ReadLine[Event] | RefusedLine]:
    """The parts of a record as events, or why one is none."""
    for number, part in enumerate(parts[:PARTS_PER_LINE]):
        id_ = place.id if number == 0 else f"{place.id}/{number}"
        try:
            event = Event(
                session=place.session,
                id=id_,
                seq=place.line * PARTS_PER_LINE + number,
                type=part.type,
                actor=part.actor,
                content=part.content,
                payload=part.payload or None,
                time=place.time,
            )
        except InvalidInput as error:
            yield RefusedLine(line=place.line, key=place.id, reason=error.message)
        else:
            yield ReadLine(place.line, event)
    left_out = len(parts) - PARTS_PER_LINE
    if left_out > 0:
        reason = f"it has more than {PARTS_PER_LINE:,} parts; the last {left_out:,} are left out"
        yield RefusedLine(line=place.line, key=place.id, reason=reason)


def digest(data: bytes) -> str:
    """A name for what has none, of its bytes alone."""
    return blake2b(data, digest_size=12).hexdigest()


def fields(value: object) -> Fields:
    """An object's fields; none of what is no object."""
    return cast("Fields", value) if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """A list's items; none of what is no list."""
    return cast("list[object]", value) if isinstance(value, list) else []


def text(value: object) -> str:
    """A text, or nothing where it is none."""
    return value if isinstance(value, str) else ""


def without(value: Fields, *names: str) -> dict[str, Any]:
    """The fields but those of the names, and but those that say nothing."""
    return {
        name: held
        for name, held in value.items()
        if name not in names and held is not None and held != "" and held != [] and held != {}
    }


def moment(value: object) -> datetime | None:
    """A time in ISO 8601, in UTC where it names no zone, or in seconds since 1970; else None."""
    try:
        if isinstance(value, str):
            when = datetime.fromisoformat(value)
            when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
            return when.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, tz=UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


# Names of the parts of a message that are its text: of messages, of answers, of the Responses API.
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})


def joined(content: object) -> str:
    """The text of a content that is a text or a list of parts; paragraphs between the parts."""
    if isinstance(content, str):
        return content
    said: list[str] = []
    for part in items(content):
        if isinstance(part, str):
            said.append(part)
        elif text(fields(part).get("type")) in _TEXT_PARTS:
            said.append(text(fields(part).get("text")))
    return "\n\n".join(one for one in said if one)


def written(value: object) -> str:
    """A value as the text that a call or a result of a tool shows: a text as it is."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False)
