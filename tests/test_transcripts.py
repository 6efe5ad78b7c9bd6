"""Transcripts of four formats, as events."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import (
    OTHER,
    SESSION,
    bare_codex_session,
    brief,
    chat,
    claude,
    claude_session,
    codex,
    codex_session,
    lines,
    number,
    read,
    said,
)

from lastro.errors import InvalidInput
from lastro.event import INDEXED_TYPES
from lastro.json_lines import RefusedLine
from lastro.sources.transcripts import read_transcript, reading

OWN = [
    {"session": "s1", "id": "e1", "seq": 1, "type": "chat.message", "actor": "ana",
     "content": "Onde fica o armazém?", "time": "2026-01-02T03:04:05Z"},
    {"session": "s1", "id": "e2", "seq": 2, "type": "agent.response", "content": "Em Lisboa."},
]  # fmt: skip
FILES = {
    "lastro": lines(*OWN),
    "claude-code": lines(*claude_session()),
    "codex": lines(*codex_session()),
    "codex, bare": lines(*bare_codex_session()),
    "openai": json.dumps(chat()).encode(),
    "openai, indented": json.dumps({"messages": chat()}, indent=2).encode(),
    "openai, lines": lines({"messages": chat()}, chat()),
    "openai, messages": lines(*chat()),
}


def test_claude_code_says_messages_answers_calls_results_errors_and_the_rest() -> None:
    events, refused = read(FILES["claude-code"], name=SESSION)
    assert refused == []
    assert brief(events) == [
        ("agent.status", ""),
        ("chat.message", "Por que a fila de entregas parou ontem?"),
        ("agent.status", "Look at the worker first."),
        ("agent.response", "Vou olhar o registro do serviço."),
        ("tool.call", 'Bash {"command": "ls"}'),
        ("tool.result", "worker.log"),
        ("agent.response", "磁盘满了，所以队列停止。"),
        ("agent.status", "<command-name>/compact</command-name>"),
        ("agent.status", "Everything so far, in short."),
        ("agent.error", "Overloaded"),
        ("agent.error", "529"),
        ("session.title", "A fila que parou"),
        ("gate.opened", ""),
    ]


def test_claude_code_keeps_ids_times_and_what_the_line_says_beside_the_message() -> None:
    events, _ = read(FILES["claude-code"], name=SESSION)
    asked, thought, answer, call = events[1:5]
    assert asked.id == number(1)
    assert asked.time == datetime(2026, 3, 2, 10, 0, 0, 500_000, tzinfo=UTC)
    assert asked.payload == {"isSidechain": False, "cwd": "/srv/armazem", "gitBranch": "main"}
    assert [thought.id, answer.id, call.id] == [number(2), f"{number(2)}/1", f"{number(2)}/2"]
    assert [thought.seq, answer.seq, call.seq] == [3_000, 3_001, 3_002]
    assert {event.session for event in events} == {SESSION}


def test_codex_says_the_items_of_the_conversation_once() -> None:
    events, refused = read(FILES["codex"])
    assert refused == []
    assert {event.session for event in events} == {SESSION}
    assert brief(events) == [
        ("agent.status", ""),
        ("agent.status", "Sandbox is on."),
        ("agent.status", "<environment_context>\n</environment_context>"),
        ("chat.message", "¿Qué índice usa la búsqueda?"),
        ("agent.status", ""),
        ("agent.status", ""),
        ("agent.status", "Reading the schema"),
        ("tool.call", 'shell {"command": ["cat", "schema.sql"]}'),
        ("tool.result", "CREATE INDEX … USING hnsw"),
        ("agent.response", "HNSW, because it is good when empty."),
        ("agent.error", "the stream was cut"),
    ]


def test_a_codex_rollout_without_envelopes_keeps_a_text_that_was_said_twice() -> None:
    events, refused = read(FILES["codex, bare"])
    assert refused == []
    assert brief(events)[2:] == [
        ("chat.message", "sim"),
        ("agent.response", "Feito."),
        ("chat.message", "sim"),
    ]
    assert len({event.id for event in events}) == 5


def test_a_codex_request_within_an_editors_context_is_the_request_alone() -> None:
    text = "# Context from my IDE\nopen: a.py\n## My request for Codex:\nRename the field"
    events, _ = read(lines(codex_session()[0], codex("response_item", said("user", text), 1)))
    assert (events[1].type, events[1].content) == ("chat.message", "Rename the field")
    assert events[1].payload == {"context": "# Context from my IDE\nopen: a.py"}


@pytest.mark.parametrize(
    ("file", "session"),
    [
        ("openai", "notes/chat"),
        ("openai, indented", "notes/chat"),
        ("openai, messages", "notes/chat"),
    ],
)
def test_a_list_of_messages_is_one_conversation(file: str, session: str) -> None:
    events, refused = read(FILES[file])
    assert refused == []
    assert {event.session for event in events} == {session}
    assert brief(events) == [
        ("agent.status", "Answer briefly."),
        ("chat.message", "退货需要几天？"),
        ("tool.call", 'lookup {"topic": "returns"}'),
        ("tool.result", "seven days"),
        ("agent.response", "七天之内。"),
    ]


def test_each_line_of_conversations_is_a_session() -> None:
    events, _ = read(lines({"id": "conv-1", "messages": chat()}, chat(), {"messages": chat()}))
    sessions = list(dict.fromkeys(event.session for event in events))
    assert sessions == ["conv-1", "notes/chat:2", "notes/chat:3"]


def test_a_list_of_conversations_is_numbered() -> None:
    data = json.dumps([{"messages": chat()}, {"id": "named", "messages": chat()}], indent=1)
    events, _ = read(data.encode())
    assert {event.session for event in events} == {"notes/chat:1", "named"}


def test_our_own_lines_are_read_as_they_are() -> None:
    events, refused = read(FILES["lastro"])
    assert refused == []
    assert [(e.session, e.id, e.seq, e.actor) for e in events] == [
        ("s1", "e1", 1, "ana"),
        ("s1", "e2", 2, None),
    ]


@pytest.mark.parametrize("file", FILES)
def test_the_format_of_a_file_is_found_and_may_be_named(file: str) -> None:
    format_: Any = file.split(",", maxsplit=1)[0]
    assert read(FILES[file], format_=format_) == read(FILES[file])


def test_a_file_of_no_format_is_refused_with_those_that_are_known() -> None:
    _, refused = read(b'{"name": "package", "version": "1.0"}\n')
    assert [line.line for line in refused] == [1]
    assert "lastro, claude-code, codex, openai" in refused[0].reason


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_of_no_format_that_was_come_upon_says_nothing(indent: int | None) -> None:
    data = json.dumps({"name": "package", "version": "1.0"}, indent=indent).encode()
    assert list(read_transcript(io.BytesIO(data), name="package", is_named=False)) == []
    (refused,) = read_transcript(io.BytesIO(data), name="package")
    assert isinstance(refused, RefusedLine)


def test_a_file_without_any_json_is_refused_also_where_it_was_come_upon() -> None:
    (refused,) = read_transcript(io.BytesIO(b"\x00\x01 no\n"), name="x", is_named=False)
    assert isinstance(refused, RefusedLine)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no format 'word'"):
        read(b"", format_="word")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("data", [b"", b"\n \r\n", b"\xef\xbb\xbf\n"])
def test_an_empty_file_says_nothing(data: bytes) -> None:
    assert read(data) == ([], [])


def test_a_last_line_that_is_broken_off_is_told_from_a_broken_line_between() -> None:
    whole = lines(*OWN).splitlines(keepends=True)
    events, refused = read(whole[0] + b'{"session": \n' + whole[1] + whole[0][:30])
    assert [event.id for event in events] == ["e1", "e2"]
    assert [line.line for line in refused] == [2, 4]
    assert refused[0].reason.startswith("it is not JSON")
    assert refused[1].reason.startswith("the last line is broken off: it is not JSON")


def test_a_first_line_that_is_broken_hides_no_other() -> None:
    for file in ("claude-code", "codex", "lastro", "openai, messages"):
        events, refused = read(b'{"sess\n' + FILES[file])
        assert [line.line for line in refused] == [1]
        assert len(events) >= len(read(FILES[file])[0])


def test_a_last_line_without_its_end_that_is_whole_is_read() -> None:
    assert read(FILES["lastro"].rstrip(b"\n")) == read(FILES["lastro"])


@pytest.mark.parametrize("file", ["lastro", "claude-code", "codex", "codex, bare"])
def test_a_file_that_grew_says_first_what_it_said_before(file: str) -> None:
    whole, _ = read(FILES[file], name=SESSION)
    parts = FILES[file].splitlines(keepends=True)
    for length in range(1, len(parts)):
        head, _ = read(b"".join(parts[:length]), name=SESSION)
        assert head == whole[: len(head)]


@pytest.mark.parametrize("file", FILES)
def test_ids_and_places_are_unique_within_a_session(file: str) -> None:
    events, _ = read(FILES[file])
    assert len({(event.session, event.id) for event in events}) == len(events)
    assert len({(event.session, event.seq) for event in events}) == len(events)


@pytest.mark.parametrize("session", [claude_session, codex_session])
def test_history_that_was_copied_into_a_file_is_not_said_twice(session: Any) -> None:
    records = session()
    once, _ = read(lines(*records), name=SESSION)
    twice, refused = read(lines(*records, *records), name=SESSION)
    assert (twice, refused) == (once, [])


def test_a_resumed_sessions_file_is_one_session_though_its_history_names_another() -> None:
    old = claude("user", "What did we decide?", 1, sessionId=OTHER)
    new = claude("user", "And now?", 2)
    events, _ = read(lines(old, new), name=f"-srv-armazem/{SESSION}")
    assert {event.session for event in events} == {SESSION}


def test_a_forked_rollout_is_the_session_of_its_first_line() -> None:
    parent = codex("session_meta", {"id": OTHER}, 1)
    events, _ = read(lines(codex_session()[0], parent, *codex_session()[1:]))
    assert {event.session for event in events} == {SESSION}


def test_a_sub_agents_file_is_a_session_of_its_own_and_its_task_no_message_of_a_person() -> None:
    task = claude("user", "Find the callers", 1, isSidechain=True, agentId="a1")
    answer = claude("assistant", [{"type": "text", "text": "Three."}], 2, isSidechain=True)
    events, _ = read(lines(task, answer), name=f"{SESSION}/subagents/agent-a1")
    assert {event.session for event in events} == {f"{SESSION}/agent-a1"}
    assert brief(events) == [("agent.status", "Find the callers"), ("agent.response", "Three.")]


def test_a_summary_of_another_conversation_is_no_title_of_this_one() -> None:
    other = {"type": "summary", "summary": "Elsewhere", "leafUuid": number(77)}
    ours = {"type": "summary", "summary": "A fila", "leafUuid": number(1)}
    events, _ = read(lines(other, claude("user", "Por quê?", 1), ours), name=SESSION)
    assert [event.content for event in events if event.type == "session.title"] == ["A fila"]


def test_a_title_that_a_person_gave_stands_before_those_of_the_program() -> None:
    def title(kind: str, name: str, text: str) -> dict[str, Any]:
        return {"type": kind, name: text, "sessionId": SESSION}

    records = [
        title("ai-title", "aiTitle", "Queue"),
        title("custom-title", "customTitle", "A fila"),
        title("ai-title", "aiTitle", "Queue, still"),
    ]
    events, _ = read(lines(*records), name=SESSION)
    assert [e.content for e in events if e.type == "session.title"] == ["Queue", "A fila"]


def test_thoughts_calls_and_what_programs_inject_are_never_searched() -> None:
    for file in ("claude-code", "codex"):
        for event in read(FILES[file])[0]:
            if event.type in INDEXED_TYPES:
                assert "worker first" not in event.content
                assert "<" not in event.content


def test_a_message_of_too_many_parts_keeps_the_first_thousand() -> None:
    blocks = [{"type": "text", "text": f"part {n}"} for n in range(1_001)]
    events, refused = read(lines(claude("assistant", blocks, 1)), name=SESSION)
    assert len(events) == 1_000
    assert [line.reason for line in refused] == [
        "it has more than 1,000 parts; the last 1 are left out"
    ]


def test_a_part_that_cannot_be_an_event_leaves_the_others() -> None:
    blocks = [
        {"type": "text", "text": "kept"},
        {"type": "x" * 300},
        {"type": "text", "text": "too"},
    ]
    events, refused = read(lines(claude("assistant", blocks, 1)), name=SESSION)
    assert brief(events) == [("agent.response", "kept"), ("agent.response", "too")]
    assert [line.line for line in refused] == [1]


def test_a_line_that_is_too_long_is_refused_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "MAX_JSON_BYTES", 400)
    long = {**OWN[0], "content": "x" * 1_500}
    events, refused = read(lines(long, OWN[1]))
    assert [event.id for event in events] == ["e2"]
    assert [(line.line, line.reason) for line in refused] == [(1, "it is longer than 400 bytes")]


def test_a_file_of_one_json_value_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_JSON_BYTES", 200)
    _, refused = read(FILES["openai, indented"])
    assert "one JSON value longer than 200 bytes" in refused[0].reason


class _Endless(io.RawIOBase):
    """A file whose lines are made as they are read."""

    def __init__(self, records: Iterator[dict[str, Any]]) -> None:
        self._records = records

    def readline(self, size: int | None = -1, /) -> bytes:
        return next((lines(record) for record in self._records), b"")


def test_a_transcript_of_any_length_is_read_in_little_memory() -> None:
    """12 MB in lines of 60 KB: what is held are few lines, and a number for each."""
    text = "palavra " * 7_500
    records = (claude("user", text, n) for n in range(1, 201))
    tracemalloc.start()
    try:
        events = sum(1 for _ in read_transcript(_Endless(records), name=SESSION))  # type: ignore[arg-type]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert events == 200
    assert peak < 4 * 2**20


_SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False)
_JSON = st.recursive(
    _SCALARS | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
_NAMES = st.sampled_from(
    ["type", "uuid", "sessionId", "message", "content", "role", "payload", "timestamp", "leafUuid",
     "messages", "tool_calls", "function", "summary", "text", "id", "session", "output", "input"]
)  # fmt: skip
_VALUES = st.sampled_from(
    ["user", "assistant", "text", "tool_use", "tool_result", "response_item", "message", "summary"]
)


@settings(max_examples=80)
@given(
    st.lists(st.dictionaries(_NAMES, _JSON | _VALUES, max_size=6) | _JSON, max_size=5),
    st.sampled_from(["auto", "lastro", "claude-code", "codex", "openai"]),
)
def test_whatever_a_line_holds_it_is_an_event_or_a_refusal(
    records: list[Any], format_: Any
) -> None:
    events, refused = read(lines(*records), format_=format_)
    assert all(1 <= line.line <= len(records) for line in refused)
    assert all(event.session for event in events)
