"""Rollouts of the Codex CLI: ``~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl``.

A line is ``{"timestamp", "type", "payload"}``; up to September 2025 it was the payload alone,
without a time. Source: ``RolloutItem`` and ``ResponseItem`` of the program's protocol. What people
and agents said is read from the items of the conversation (``response_item``): the events for the
screen (``event_msg``) say it again, and are kept as a status.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from lastro.event import Event
from lastro.json_lines import ReadLine, RefusedLine
from lastro.sources.transcripts.records import (
    ASSISTANT,
    ERROR,
    MESSAGE,
    RESPONSE,
    STATUS,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Fields,
    Part,
    Place,
    digest,
    events_of,
    fields,
    joined,
    moment,
    text,
    without,
    written,
)

_FILE_NAME = re.compile(r"rollout-[0-9T:.-]{19}-(?P<session>[0-9a-fA-F-]{36})")
_ENVELOPES = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}
)
_BARE_ITEMS = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "local_shell_call"}
)
# What the program writes in the name of its user: instructions and the state of the machine.
_INJECTED = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|collaboration_mode"
    r"|multi_agent_mode|apps_instructions|skills_instructions|turn_aborted|user_shell_command)\b"
    r"|# AGENTS\.md)"
)
# An editor's context stands before what its user asked.
_REQUEST = "## My request for Codex:"


def is_codex(record: Fields) -> bool:
    """Whether a line may be one of this format."""
    kind = text(record.get("type"))
    if "payload" in record:
        return kind in _ENVELOPES
    if record.get("record_type") == "state" or ("instructions" in record and "id" in record):
        return True
    return kind in _BARE_ITEMS and "uuid" not in record


def session_of(name: str, head: Sequence[Fields]) -> str:
    """The session of a file: what its first line says; copied history says its own after it."""
    for record in head:
        meta = fields(record.get("payload")) if record.get("type") == "session_meta" else record
        if meta is not record or ("instructions" in record and "type" not in record):
            told = text(meta.get("id")) or text(meta.get("session_id"))
            if told:
                return told
    named = _FILE_NAME.fullmatch(PurePosixPath(name).name)
    return named["session"] if named else name


@dataclass(slots=True)
class Codex:
    """A reader of one file; it knows which lines came before."""

    session: str
    _seen: dict[str, int] = field(default_factory=dict[str, int])

    def read(
        self, record: Fields, *, line: int, raw: bytes
    ) -> Iterator[ReadLine[Event] | RefusedLine]:
        """The events of a line; none where the same line with the same time came before."""
        name = digest(raw.strip())
        before = self._seen.get(name, 0)
        when = moment(record.get("timestamp"))
        if before and when is not None:
            return
        self._seen[name] = before + 1
        id_ = name if not before else f"{name}-{before + 1}"
        place = Place(session=self.session, line=line, id=id_, time=when)
        yield from events_of(place, _parts(record))


def _parts(record: Fields) -> list[Part]:
    kind = text(record.get("type"))
    if "payload" not in record:
        return item_parts(record)
    payload = fields(record.get("payload"))
    if kind == "response_item":
        return item_parts(payload)
    if kind == "event_msg":
        is_error = "error" in text(payload.get("type"))
        content = text(payload.get("message")) if is_error else ""
        return [Part(type=ERROR if is_error else STATUS, content=content, payload=record)]
    return [Part(type=STATUS if kind in _ENVELOPES or not kind else kind, payload=record)]


def item_parts(item: Fields) -> list[Part]:
    """An item of a conversation, as OpenAI's Responses API has them too."""
    kind = text(item.get("type"))
    if kind == "message":
        return [_message(item)]
    if kind.endswith("_output"):
        return [Part(type=TOOL_RESULT, actor="tool", content=_output(item), payload=item)]
    if kind.endswith("_call"):
        called = item.get("arguments", item.get("input", item.get("action")))
        content = f"{text(item.get('name')) or kind} {written(called)}".strip()
        return [Part(type=TOOL_CALL, actor=ASSISTANT, content=content, payload=item)]
    if kind == "reasoning":
        content = joined(item.get("summary")) or joined(item.get("content"))
        return [Part(type=STATUS, actor=ASSISTANT, content=content, payload=item)]
    return [Part(type=kind or STATUS, payload=item)]


def _message(item: Fields) -> Part:
    said = joined(item.get("content"))
    payload = without(item, "type", "content", "role")
    role = text(item.get("role"))
    if role == ASSISTANT:
        return Part(type=RESPONSE, actor=ASSISTANT, content=said, payload=payload)
    if role == USER and _INJECTED.match(said) is None:
        before, found, asked = said.partition(_REQUEST)
        if found:
            said, payload = asked.strip(), {**payload, "context": before.strip()}
        return Part(type=MESSAGE, actor=USER, content=said, payload=payload)
    return Part(type=STATUS, actor=role or None, content=said, payload=payload)


def _output(item: Fields) -> str:
    """What a tool gave back: a text, parts, or an object with either."""
    output = item.get("output")
    held = fields(output)
    return joined(held.get("content", output)) or written(output)
