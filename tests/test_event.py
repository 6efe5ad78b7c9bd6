"""Events of conversations: what they may hold, and their lines."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.errors import InvalidInput
from lastro.event import (
    MAX_CONTENT_BYTES,
    MAX_GIVEN_SEQ,
    MAX_ID_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_SEQ,
    Event,
    event_json,
    parse_event,
    read_events,
    storable_event,
)
from lastro.json_lines import ReadLine, RefusedLine


def event(**changes: Any) -> Event:
    said: dict[str, Any] = {"session": "s", "id": "e-1", "seq": 1, "type": "chat.message"}
    return Event(**{**said, **changes})


def line(**said: Any) -> bytes:
    return json.dumps({"session": "s", "id": "e", "seq": 1, "type": "t", **said}).encode() + b"\n"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"session": ""}, "session is blank"),
        ({"session": 3}, "session is no text"),
        ({"id": "a\0b"}, "id has a character"),
        ({"id": "é" * MAX_ID_BYTES}, "id is longer than 1,000 bytes"),
        ({"type": " "}, "type is blank"),
        ({"actor": ""}, "actor is blank"),
        ({"seq": -1}, "seq is no whole number"),
        ({"seq": True}, "seq is no whole number"),
        ({"seq": 1.5}, "seq is no whole number"),
        ({"seq": MAX_SEQ + 1}, "seq is no whole number"),
        ({"content": None}, "content is no text"),
        ({"content": "x" * (MAX_CONTENT_BYTES + 1)}, "content is longer"),
        ({"payload": [1]}, "payload is no object"),
        ({"payload": {"n": float("nan")}}, "payload cannot be written as JSON"),
        ({"payload": {"when": datetime.now(UTC)}}, "payload cannot be written as JSON"),
        ({"payload": {"x": "y" * MAX_PAYLOAD_BYTES}}, "payload is longer"),
        ({"time": datetime(2026, 1, 1)}, "time is no time with its zone"),  # noqa: DTZ001
    ],
)
def test_what_is_no_event_is_refused_with_its_id_and_field(
    changes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InvalidInput, match=fault):
        event(**changes)


def test_a_line_leaves_numbers_for_those_that_follow() -> None:
    highest, above = read_events([line(seq=MAX_GIVEN_SEQ), line(seq=MAX_GIVEN_SEQ + 1)])
    assert isinstance(highest, ReadLine)
    assert isinstance(above, RefusedLine)
    assert "leaves no number for those that follow" in above.reason


@pytest.mark.parametrize("content", ["", " ", "\0", "x" * 2**20])
def test_any_content_may_be_said(content: str) -> None:
    assert event(content=content).content == content


def test_an_event_is_stored_without_what_postgresql_cannot_store() -> None:
    told = event(content="a\0b\ud800c", payload={"k\0": ["v\0", {"deep": "\ud800"}], "n": 1})
    stored = storable_event(told)
    assert stored.content == "abc"
    assert json.loads(stored.payload or "") == {"k": ["v", {"deep": ""}], "n": 1}


def test_an_event_that_can_be_stored_is_stored_as_it_is() -> None:
    told = event(content="olá 你好 \U0001f600", payload={"olá": "你好 \U0001f600 \\u0000"})
    stored = storable_event(told)
    assert (stored.content, json.loads(stored.payload or "")) == (told.content, told.payload)


def test_secrets_in_the_type_and_the_actor_are_masked_and_counted() -> None:
    key = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
    stored = storable_event(event(type=f"note {key}", actor=key, payload={"k": key}))
    named = "[masked:github-token]"
    assert (stored.event.type, stored.event.actor) == (f"note {named}", named)
    assert (stored.payload, stored.secrets) == (json.dumps({"k": named}), 3)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    content=st.text(),
    seq=st.none() | st.integers(0, MAX_GIVEN_SEQ),
    payload=st.none() | st.dictionaries(st.text(), JSON, max_size=3),
    time=st.none() | st.datetimes(timezones=st.just(UTC)),
)
def test_an_event_is_the_same_after_its_line(
    content: str, seq: int | None, payload: dict[str, Any] | None, time: datetime | None
) -> None:
    told = event(content=content, seq=seq, payload=payload, time=time, actor="ana")
    assert parse_event(json.loads(json.dumps(event_json(told)))) == told


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"[1]\n", "it is no JSON object"),
        (b'{"id": "e"}\n', "event 'e': there is no session"),
        (line(colour="red"), "event 'e': unknown field 'colour'"),
        (line(time="soon"), "event 'e': time is no date or time: 'soon'"),
        (b'{"session": "s", "id": "e", "ty', "it is not JSON"),
        (b"\xff\n", "it is not UTF-8"),
    ],
)
def test_a_line_that_is_no_event_is_told_and_the_others_are_read(said: bytes, reason: str) -> None:
    read = list(read_events([line(id="a"), b"\n", said, line(id="b")]))
    assert [r.item.id for r in read if isinstance(r, ReadLine)] == ["a", "b"]
    (refused,) = (r for r in read if isinstance(r, RefusedLine))
    assert refused.line == 3
    assert refused.reason.startswith(reason)


def test_lines_are_read_one_by_one() -> None:
    taken: list[int] = []

    def lines():
        for number in range(1_000):
            taken.append(number)
            yield line(id=str(number))

    next(iter(read_events(lines())))
    assert taken == [0]


def test_what_a_line_leaves_out_is_not_known() -> None:
    (read,) = read_events([b'{"session": "s", "id": "e", "type": "tool.call"}\n'])
    assert isinstance(read, ReadLine)
    assert read.item == Event(session="s", id="e", seq=None, type="tool.call")


def test_a_time_without_zone_is_in_utc() -> None:
    (read,) = read_events([line(time="2026-01-31T12:00:00")])
    assert isinstance(read, ReadLine)
    assert read.item.time == datetime(2026, 1, 31, 12, tzinfo=UTC)
