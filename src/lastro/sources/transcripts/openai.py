"""Messages as OpenAI's chat API takes them: a list of ``{"role", "content", …}``, or
``{"messages": […]}``; a file is one of these, several of them in a list, or one on each line.

A line may also be a single message: the file is then one conversation.
"""

from collections.abc import Iterator
from typing import Any

from lastro.event import TITLE_TYPE, Event
from lastro.json_lines import ReadLine, RefusedLine
from lastro.sources.transcripts.codex import item_parts
from lastro.sources.transcripts.records import (
    ASSISTANT,
    MESSAGE,
    RESPONSE,
    STATUS,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Fields,
    Part,
    Place,
    events_of,
    fields,
    items,
    joined,
    moment,
    text,
    without,
    written,
)

_SESSION_NAMES = ("id", "conversation_id", "session_id", "thread_id")
_TOOLS = ("tool", "function")


def is_messages(value: object) -> bool:
    """Whether a JSON value is a conversation, a message of one, or a list of either."""
    if some := items(value):
        return all(map(fields, some)) and is_messages(some[0])
    held = fields(value)
    if isinstance(held.get("messages"), list):
        return True
    return isinstance(held.get("role"), str) and ("content" in held or "tool_calls" in held)


def is_message(value: object) -> bool:
    """Whether a JSON value is one message, and no conversation."""
    return bool(fields(value)) and "messages" not in fields(value)


def conversation(value: object, *, name: str, line: int) -> Iterator[ReadLine[Event] | RefusedLine]:
    """The events of a JSON value, which is a conversation or a list of them.

    ``line`` is where the value begins; a list's conversations are numbered.
    """
    some = items(value)
    if some and not any(map(is_message, some)):
        for number, one in enumerate(some, start=1):
            yield from conversation(one, name=f"{name}:{number}", line=line)
        return
    held = fields(value)
    session = next((told for field in _SESSION_NAMES if (told := text(held.get(field)))), name)
    if title := text(held.get("title")):
        place = Place(session=session, line=0, id="title")
        yield from _at_line(events_of(place, [Part(type=TITLE_TYPE, content=title)]), line)
    for number, message in enumerate(some or items(held.get("messages")), start=1):
        yield from _at_line(message_events(message, session=session, number=number), line)


def _at_line(
    events: Iterator[ReadLine[Event] | RefusedLine], line: int
) -> Iterator[ReadLine[Event] | RefusedLine]:
    """Events and refusals as those of a line of the file: messages are counted within it."""
    for read in events:
        if isinstance(read, RefusedLine):
            reason = f"message {read.line}: {read.reason}"
            yield RefusedLine(line=line, key=read.key, reason=reason)
        else:
            yield ReadLine(line, read.item)


def message_events(
    message: object, *, session: str, number: int
) -> Iterator[ReadLine[Event] | RefusedLine]:
    """The events of a message; ``number`` counts from 1 in its conversation."""
    held = fields(message)
    if not held:
        yield RefusedLine(line=number, reason="it is no message: an object with a role")
        return
    told = text(held.get("id"))
    when = moment(held.get("created_at", held.get("timestamp", held.get("create_time"))))
    # An id that the message brings may stand in it twice; its number never does.
    id_ = f"{number}-{told}" if told else str(number)
    yield from events_of(Place(session=session, line=number, id=id_, time=when), _parts(held))


def _parts(message: Fields) -> list[Part]:
    role = text(message.get("role"))
    if not role:
        return item_parts(message)
    said = joined(message.get("content"))
    payload = without(message, "role", "id")
    if isinstance(message.get("content"), str):
        payload = without(payload, "content")
    if role == USER:
        return [Part(type=MESSAGE, actor=USER, content=said, payload=payload)]
    if role in _TOOLS:
        return [Part(type=TOOL_RESULT, actor="tool", content=said, payload=payload)]
    if role == ASSISTANT:
        return _answer(message, said, payload)
    return [Part(type=STATUS, actor=role, content=said, payload=payload)]


def _answer(message: Fields, said: str, payload: dict[str, Any]) -> list[Part]:
    thought = text(message.get("reasoning_content")) or text(message.get("reasoning"))
    calls = items(message.get("tool_calls"))
    if message.get("function_call"):
        calls = [*calls, {"function": message["function_call"]}]
    said = said or text(message.get("refusal"))
    payload = without(payload, "tool_calls", "function_call", "reasoning_content", "reasoning")
    parts = [Part(type=STATUS, actor=ASSISTANT, content=thought)] if thought else []
    if said or not calls:
        parts.append(Part(type=RESPONSE, actor=ASSISTANT, content=said, payload=payload))
    return parts + [_call(fields(call)) for call in calls]


def _call(call: Fields) -> Part:
    function = fields(call.get("function", call.get("custom")))
    called = function.get("arguments", function.get("input"))
    content = f"{text(function.get('name'))} {written(called)}".strip()
    return Part(type=TOOL_CALL, actor=ASSISTANT, content=content, payload=call)
