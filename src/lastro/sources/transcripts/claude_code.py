"""Project transcripts of Claude Code: ``~/.claude/projects/*/*.jsonl``, an object on each line.

The format has no published schema. What is read here: ``type``, ``uuid``, ``sessionId``,
``timestamp``, ``message`` with its content (a text, or blocks), the marks of what no person said
(``isMeta``, ``isCompactSummary``, ``isVisibleInTranscriptOnly``, ``isSidechain``), and titles. A
line of another type is kept as an event of that type.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import cast

from lastro.event import TITLE_TYPE, Event
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

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# What the program writes in the name of its user: commands, their output, notes and summaries.
_INJECTED = re.compile(
    r"\s*(?:<(?:command-(?:name|message|args)|local-command-[a-z]+|bash-(?:input|stdout|stderr)"
    r"|system-reminder|task-notification|user-memory-input|ide_[a-z_]+)>"
    r"|\[Request interrupted by user|Caveat: The messages below were generated"
    r"|This session is being continued from a previous conversation)"
)
_NO_PERSON = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isSidechain")
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
_STATUS_TYPES = frozenset({"system", "progress", "file-history-snapshot", "queue-operation"})


def is_claude_code(record: Fields) -> bool:
    """Whether a line may be one of this format."""
    if "sessionId" in record or "parentUuid" in record or "leafUuid" in record:
        return "type" in record
    return record.get("type") == "file-history-snapshot"


def session_of(name: str, head: Sequence[Fields]) -> str:
    """The session of a file: its name where that is one, since copied history keeps its own.

    A sub-agent's file is a session of its own, named after the one that it works for.
    """
    stem = PurePosixPath(name).name
    named = next((text(r.get("sessionId")) for r in head if text(r.get("sessionId"))), "")
    if stem.startswith("agent-") and named:
        return f"{named}/{stem}"
    return stem if _UUID.fullmatch(stem) else named or name


@dataclass(slots=True)
class ClaudeCode:
    """A reader of one file; it knows which messages and titles came before."""

    session: str
    _seen: set[int] = field(default_factory=set[int])
    _is_named: bool = False

    def read(
        self, record: Fields, *, line: int, raw: bytes
    ) -> Iterator[ReadLine[Event] | RefusedLine]:
        """The events of a line; none where the same message came before."""
        uuid = text(record.get("uuid"))
        id_ = uuid or f"{text(record.get('type')) or 'line'}-{digest(raw)}"
        # 64 bits of a hash for each line: a million lines are 100 MB of ids, and 60 MB so.
        known = hash(id_)
        if known in self._seen:
            return
        self._seen.add(known)
        place = Place(session=self.session, line=line, id=id_, time=moment(record.get("timestamp")))
        yield from events_of(place, self._parts(record))

    def _parts(self, record: Fields) -> list[Part]:
        kind = text(record.get("type"))
        if kind in ("user", "assistant"):
            return _message(record, kind)
        title = self._title(record, kind)
        if title:
            return [Part(type=TITLE_TYPE, content=title, payload=record)]
        if kind == "system":
            return [_system(record)]
        known = kind in _STATUS_TYPES or kind in _TITLES or kind == "summary"
        content = joined(record.get("content"))
        return [Part(type=STATUS if known or not kind else kind, content=content, payload=record)]

    def _title(self, record: Fields, kind: str) -> str:
        """What the record calls the session, in the words of a person before those of a program.

        A summary may be that of another session.
        """
        if kind == "custom-title":
            self._is_named = True
        elif self._is_named:
            return ""
        if kind == "summary":
            is_ours = hash(text(record.get("leafUuid"))) in self._seen
            return text(record.get("summary")) if is_ours else ""
        return text(record.get(_TITLES[kind])) if kind in _TITLES else ""


def _system(record: Fields) -> Part:
    is_error = record.get("level") == "error" or text(record.get("subtype")).endswith("error")
    content = joined(record.get("content"))
    return Part(type=ERROR if is_error else STATUS, content=content, payload=record)


def _message(record: Fields, kind: str) -> list[Part]:
    """The blocks of a message; the first one's payload has what the line says beside them."""
    message = fields(record.get("message"))
    content = message.get("content")
    blocks = cast("list[object]", content) if isinstance(content, list) else [content]
    first, *others = [_block(block, record, kind) for block in blocks] or [Part(type=STATUS)]
    about = without(message, "content", "role", "type")
    beside = without(record, "message", "uuid", "sessionId", "timestamp", "type")
    payload = {**(first.payload or {}), **({"message": about} if about else {}), **beside}
    return [replace(first, payload=payload), *others]


def _block(said: object, record: Fields, kind: str) -> Part:
    block = fields(said)
    what = text(block.get("type"))
    if what == "text" or not block:
        return _text(text(block.get("text", said)), record, kind)
    if what.endswith("tool_use"):
        content = f"{text(block.get('name'))} {written(block.get('input'))}".strip()
        return Part(type=TOOL_CALL, actor=ASSISTANT, content=content, payload={"block": block})
    if what.endswith("tool_result"):
        content = block.get("content")
        kept = without(block, "content") if isinstance(content, str) else block
        return Part(
            type=TOOL_RESULT, actor="tool", content=joined(content), payload={"block": kept}
        )
    if what in ("thinking", "redacted_thinking"):
        kept = without(block, "thinking")
        thought = text(block.get("thinking"))
        return Part(type=STATUS, actor=ASSISTANT, content=thought, payload={"block": kept})
    known = not what or what in ("image", "document")
    return Part(type=STATUS if known else what, actor=kind, payload={"block": block})


def _text(said: str, record: Fields, kind: str) -> Part:
    if kind == "assistant":
        is_error = record.get("isApiErrorMessage") is True
        return Part(type=ERROR if is_error else RESPONSE, actor=ASSISTANT, content=said)
    is_persons = not any(record.get(mark) is True for mark in _NO_PERSON)
    if is_persons and _INJECTED.match(said) is None:
        return Part(type=MESSAGE, actor=USER, content=said)
    return Part(type=STATUS, actor=USER, content=said)
