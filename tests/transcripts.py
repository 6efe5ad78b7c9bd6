"""Transcripts of the test's own wording, in the forms that programs write them."""

import io
import json
from typing import Any
from uuid import UUID

from lastro.event import Event
from lastro.json_lines import ReadLine, RefusedLine
from lastro.sources.transcripts import TranscriptFormat, read_transcript

SESSION = "7d1f4c6e-2b1a-4a53-9d0e-3c5a1b2f4e60"
OTHER = "0b9a8c7d-1111-4222-8333-444455556666"


def number(value: int) -> str:
    """A UUID that a reader can tell from another."""
    return str(UUID(int=value))


def lines(*records: Any) -> bytes:
    """Records as JSON Lines."""
    return b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in records)


def claude(kind: str, content: Any, n: int, **fields: Any) -> dict[str, Any]:
    """A message of a Claude Code transcript."""
    return {
        "parentUuid": number(n - 1) if n > 1 else None,
        "isSidechain": False,
        "cwd": "/srv/armazem",
        "sessionId": SESSION,
        "gitBranch": "main",
        "type": kind,
        "message": {"role": kind, "content": content},
        "uuid": number(n),
        "timestamp": f"2026-03-0{n % 9 + 1}T10:00:00.500Z",
        **fields,
    }


def claude_session() -> list[dict[str, Any]]:
    """A session with each kind of line, in three languages."""
    return [
        {"type": "file-history-snapshot", "messageId": number(90), "snapshot": {}},
        claude("user", "Por que a fila de entregas parou ontem?", 1),
        claude(
            "assistant",
            [
                {"type": "thinking", "thinking": "Look at the worker first.", "signature": "c2ln"},
                {"type": "text", "text": "Vou olhar o registro do serviço."},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
            ],
            2,
            requestId="req_1",
        ),
        claude(
            "user",
            [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "worker.log"}],
            3,
            toolUseResult={"stdout": "worker.log"},
        ),
        claude("assistant", [{"type": "text", "text": "磁盘满了，所以队列停止。"}], 4),
        claude("user", "<command-name>/compact</command-name>", 5),
        claude("user", "Everything so far, in short.", 6, isCompactSummary=True),
        claude("assistant", [{"type": "text", "text": "Overloaded"}], 7, isApiErrorMessage=True),
        {"type": "system", "subtype": "api_error", "level": "error", "content": "529",
         "uuid": number(8), "sessionId": SESSION, "timestamp": "2026-03-09T10:00:00Z"},
        {"type": "ai-title", "aiTitle": "A fila que parou", "sessionId": SESSION},
        {"type": "gate.opened", "uuid": number(10), "sessionId": SESSION, "gate": 3},
    ]  # fmt: skip


def codex(kind: str, payload: dict[str, Any], second: int) -> dict[str, Any]:
    """A line of a Codex rollout."""
    return {"timestamp": f"2026-02-01T08:00:{second:02}.250Z", "type": kind, "payload": payload}


def said(role: str, text: str) -> dict[str, Any]:
    """A message as an item of a conversation."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def codex_session() -> list[dict[str, Any]]:
    """A rollout with each kind of line."""
    return [
        codex("session_meta", {"id": SESSION, "cwd": "/srv/armazem", "cli_version": "0.144.3"}, 0),
        codex("response_item", said("developer", "Sandbox is on."), 1),
        codex("response_item", said("user", "<environment_context>\n</environment_context>"), 2),
        codex("response_item", said("user", "¿Qué índice usa la búsqueda?"), 3),
        codex("event_msg", {"type": "user_message", "message": "¿Qué índice usa la búsqueda?"}, 3),
        codex("turn_context", {"model": "gpt-5", "cwd": "/srv/armazem"}, 4),
        codex("response_item", {"type": "reasoning", "summary": [
            {"type": "summary_text", "text": "Reading the schema"}], "encrypted_content": "x"}, 5),
        codex("response_item", {"type": "function_call", "name": "shell", "call_id": "c1",
                                "arguments": '{"command": ["cat", "schema.sql"]}'}, 6),
        codex("response_item", {"type": "function_call_output", "call_id": "c1",
                                "output": "CREATE INDEX … USING hnsw"}, 7),
        codex("response_item", said("assistant", "HNSW, because it is good when empty."), 8),
        codex("event_msg", {"type": "stream_error", "message": "the stream was cut"}, 9),
    ]  # fmt: skip


def bare_codex_session() -> list[dict[str, Any]]:
    """A rollout of before September 2025: no envelope, no times."""
    return [
        {"id": SESSION, "timestamp": "2025-07-01T09:00:00.000Z", "instructions": None},
        {"record_type": "state"},
        said("user", "sim"),
        said("assistant", "Feito."),
        said("user", "sim"),
    ]


def chat() -> list[dict[str, Any]]:
    """Messages as a chat API takes them."""
    return [
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": [
            {"type": "text", "text": "退货需要几天？"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function",
             "function": {"name": "lookup", "arguments": '{"topic": "returns"}'}},
        ]},
        {"role": "tool", "tool_call_id": "call_1", "content": "seven days"},
        {"role": "assistant", "content": "七天之内。"},
    ]  # fmt: skip


def read(
    data: bytes, *, name: str = "notes/chat", format_: TranscriptFormat = "auto"
) -> tuple[list[Event], list[RefusedLine]]:
    """The events of a file and its refused lines."""
    events: list[Event] = []
    refused: list[RefusedLine] = []
    for one in read_transcript(io.BytesIO(data), name=name, format_=format_):
        if isinstance(one, ReadLine):
            events.append(one.item)
        else:
            refused.append(one)
    return events, refused


def brief(events: list[Event]) -> list[tuple[str, str]]:
    """Types and texts."""
    return [(event.type, event.content) for event in events]
