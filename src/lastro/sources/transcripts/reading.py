"""A file of any format, read line by line as events."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count, islice
from typing import BinaryIO, Literal, NamedTuple, get_args

from lastro.errors import InvalidInput
from lastro.event import Event, parse_event
from lastro.json_lines import ReadLine, RefusedLine, decoded, json_of
from lastro.sources.transcripts import claude_code, codex, openai
from lastro.sources.transcripts.records import Fields, fields

TranscriptFormat = Literal["auto", "lastro", "claude-code", "codex", "openai"]
FORMATS: tuple[TranscriptFormat, ...] = get_args(TranscriptFormat)

# A line is read whole, and so is a file that is one JSON value. An event may hold 8 MiB of text
# and 8 MiB beside it, and escapes make it several times longer.
MAX_JSON_BYTES = 64 * 2**20
# Lines by which the format of a file is known: the first may be broken, or of any program.
HEAD_LINES = 20

Read = Iterator[ReadLine[Event] | RefusedLine]


class _Line(NamedTuple):
    """A line of a file; ``data`` is None where it is too long. Only the last one may not end."""

    number: int
    data: bytes | None
    ends: bool


def check_format(name: str) -> None:
    """Refuse a format that nobody knows. Errors: InvalidInput."""
    if name not in FORMATS:
        raise InvalidInput(
            f"there is no format {name!r} of transcripts", remedy=f"use {', '.join(FORMATS)}"
        )


def read_transcript(
    source: BinaryIO, *, name: str, format_: TranscriptFormat = "auto", is_named: bool = True
) -> Read:
    """The events of a transcript, one by one, and the lines that say none, with the reason.

    ``name`` stands for the session where the file names none: its path without the ending. Ids
    and places of events are made of the file alone, so a file read again, or one that has grown,
    says the same events again. Of a line that came before in its session nothing is said. A file
    of no known format is refused where it ``is_named``, and says nothing where it was come upon.
    Errors: InvalidInput for a format that nobody knows.
    """
    check_format(format_)
    lines = _lines(source)
    head = list(islice(lines, HEAD_LINES))
    records = [said for line in head if (said := _json_or_none(line)) is not None]
    known = _known_format(records, head) if format_ == "auto" else format_
    if not head:
        return
    if known is None:
        if is_named or not records:  # a file without one line of JSON is a broken one
            yield RefusedLine(line=head[0].number, reason=_UNKNOWN)
        return
    every = chain(head, lines)
    if known == "openai":
        if _is_by_line(head, records):
            yield from _by_line(every, name=name)
        else:
            yield from _whole(every, name=name, is_meant=is_named or format_ != "auto")
    else:
        yield from _each(every, _reader(known, name=name, head=[*map(fields, records)]))


_UNKNOWN = (
    f"it is no transcript of a format that is known: {', '.join(FORMATS[1:])}; name the format "
    "with --format"
)


# --- lines -------------------------------------------------------------------------------------


def _lines(source: BinaryIO) -> Iterator[_Line]:
    """The lines that are not blank, none of them longer in memory than the limit."""
    number = 0
    while data := source.readline(MAX_JSON_BYTES + 1):
        number += 1
        ends = data.endswith(b"\n")
        if len(data) > MAX_JSON_BYTES and not ends:
            yield _Line(number, None, _skip_to_end(source))
        elif data.strip(b" \t\r\n\xef\xbb\xbf"):
            yield _Line(number, data, ends)


def _skip_to_end(source: BinaryIO) -> bool:
    while data := source.readline(MAX_JSON_BYTES):
        if data.endswith(b"\n"):
            return True
    return False


# Of two fields of one name the last is read, as the programs that write transcripts do.
_DECODER = json.JSONDecoder()


def _json_of(data: bytes) -> object:
    """Errors: InvalidInput."""
    return json_of(decoded(data), _DECODER)


def _json_or_none(line: _Line) -> object | None:
    try:
        return None if line.data is None else _json_of(line.data)
    except InvalidInput:
        return None


# --- formats -----------------------------------------------------------------------------------


def _is_lastro(record: Fields) -> bool:
    return {"session", "id", "type"} <= record.keys()


def _known_format(records: Sequence[object], head: Sequence[_Line]) -> TranscriptFormat | None:
    """The format of the first line that says one; a file in many lines may be one JSON value."""
    for said in records:
        if openai.is_messages(said):
            return "openai"
        for name, is_one in _SIGNS:
            if is_one(fields(said)):
                return name
    first = (head[0].data or b"").lstrip(b" \t\r\n\xef\xbb\xbf") if head else b""
    return "openai" if first[:1] in (b"[", b"{") and _json_or_none(head[0]) is None else None


_SIGNS: tuple[tuple[TranscriptFormat, Callable[[Fields], bool]], ...] = (
    ("lastro", _is_lastro),
    ("claude-code", claude_code.is_claude_code),
    ("codex", codex.is_codex),
)

_ReadRecord = Callable[[object, int, bytes], Read]


def _reader(known: TranscriptFormat, *, name: str, head: Sequence[Fields]) -> _ReadRecord:
    if known == "lastro":
        return _own_event
    reader: claude_code.ClaudeCode | codex.Codex
    if known == "claude-code":
        reader = claude_code.ClaudeCode(claude_code.session_of(name, head))
    else:
        reader = codex.Codex(codex.session_of(name, head))

    def read(said: object, line: int, raw: bytes) -> Read:
        if not fields(said):
            return iter([RefusedLine(line=line, reason="it is no JSON object")])
        return reader.read(fields(said), line=line, raw=raw)

    return read


def _own_event(said: object, line: int, _: bytes) -> Read:
    try:
        yield ReadLine(line, parse_event(said))
    except InvalidInput as error:
        yield RefusedLine(line=line, reason=error.message)


def _each(lines: Iterator[_Line], read: _ReadRecord) -> Read:
    for line in lines:
        if line.data is None:
            reason = f"it is longer than {MAX_JSON_BYTES:,} bytes"
            yield RefusedLine(line=line.number, reason=reason)
            continue
        try:
            said = _json_of(line.data)
        except InvalidInput as error:
            yield RefusedLine(line=line.number, reason=_refusal(error.message, line))
        else:
            yield from read(said, line.number, line.data)


def _refusal(reason: str, line: _Line) -> str:
    """A last line without its end may be one that is being written at this moment."""
    if line.ends:
        return reason
    return f"the last line is broken off: {reason}; import the file again when it is whole"


# --- conversations -----------------------------------------------------------------------------


def _is_by_line(head: Sequence[_Line], records: Sequence[object]) -> bool:
    """Whether each line is a JSON value of its own; of one that takes many lines few are."""
    alone = sum(openai.is_messages(said) for said in records)
    return _json_or_none(head[0]) is not None or 2 * alone > len(head)


def _by_line(lines: Iterator[_Line], *, name: str) -> Read:
    """Conversations, one on each line, or the messages of one."""
    number = count(1)

    def read(said: object, line: int, _: bytes) -> Read:
        if openai.is_message(said):
            return openai.message_events(said, session=name, number=next(number))
        if openai.is_messages(said):
            session = name if line == 1 else f"{name}:{line}"
            return openai.conversation(said, name=session, line=line)
        return iter([RefusedLine(line=line, reason="it is no list of messages with their roles")])

    return _each(lines, read)


def _whole(lines: Iterator[_Line], *, name: str, is_meant: bool) -> Read:
    """A file that is one JSON value, of which no part can be read alone."""
    parts: list[bytes] = []
    room = MAX_JSON_BYTES
    for line in lines:
        room -= MAX_JSON_BYTES + 1 if line.data is None else len(line.data)
        if room < 0:
            reason = (
                f"the file is one JSON value longer than {MAX_JSON_BYTES:,} bytes; write each "
                "conversation on a line of its own"
            )
            return iter([RefusedLine(line=1, reason=reason)])
        parts.append(line.data or b"")
    try:
        said = _json_of(b"".join(parts))
    except InvalidInput as error:
        return iter([RefusedLine(line=1, reason=error.message)])
    if openai.is_messages(said):
        return openai.conversation(said, name=name, line=1)
    return iter([RefusedLine(line=1, reason=_UNKNOWN)] if is_meant else [])
