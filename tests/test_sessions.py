"""The event log: events added, kept as they came, read back, and found by searches."""

import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logs import INDEXED, LOGGED, OpenApp, app_maker, event, found, state

from lastro import session_indexing
from lastro.app import App
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.errors import InvalidInput, NotFound, ProviderError
from lastro.event import Event, event_json
from lastro.search import SearchRequest
from lastro.types import SessionOrigin

WHEN = datetime(2026, 5, 4, 9, tzinfo=UTC)


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner_url: str) -> OpenApp:
    return app_maker(monkeypatch, tmp_path / "home", owner_url)


@pytest.fixture
def app(open_app: OpenApp):
    with open_app() as made:
        yield made


def lines(*events: Event) -> list[bytes]:
    return [json.dumps(event_json(one)).encode() + b"\n" for one in events]


def sequence(app: App, session: str = "talk") -> list[tuple[int | None, str]]:
    return [(one.seq, one.id) for one in app.sessions().events(session)]


# --- added


def test_an_event_is_read_back_as_it_was_given(app: App) -> None:
    given = event(
        7,
        "  The crane\r\n\tlifts nine tonnes. 起重机 ",
        actor="ana",
        payload={"a": [1, 2.5, None, {"b": "ç"}]},
        time=WHEN,
    )
    app.sessions().append([given])
    assert app.sessions().event("talk", "e7") == given


def test_the_same_event_again_changes_nothing(app: App, owner: psycopg.Connection) -> None:
    given = [event(n, f"note {n}", payload={"n": n}, time=WHEN) for n in range(1, 4)]
    app.sessions().append(given)
    before = state(owner, LOGGED)
    counts = app.sessions().append([*given, *given]).events
    assert (counts.added, counts.unchanged, counts.refused) == (0, 6, ())
    assert state(owner, LOGGED) == before


@pytest.mark.parametrize(
    "change",
    [
        {"content": "other"},
        {"type": "agent.response"},
        {"actor": "bo"},
        {"payload": {"x": 1}},
        {"time": WHEN},
        {"seq": 9},
    ],
)
def test_another_event_of_the_same_id_is_refused_and_the_rest_goes_in(
    app: App, change: dict[str, Any]
) -> None:
    app.sessions().append([event(1, "first")])
    other = event(**({"seq": 1, "content": "first", "id": "e1"} | change))
    counts = app.sessions().append([event(2, "second"), other, event(3, "third")]).events
    assert counts.added == 2
    (refused,) = counts.refused
    assert (refused.line, refused.key) == (2, "e1")
    assert "has an event 'e1' that says something else, at seq 1" in refused.reason
    assert app.sessions().event("talk", "e1").content == "first"


def test_an_event_at_a_number_that_another_has_is_refused(app: App) -> None:
    counts = app.sessions().append([event(1, "first"), event(1, "second", id="late")]).events
    assert counts.added == 1
    (refused,) = counts.refused
    assert refused.reason == "the event 'e1' has seq 1 in the session 'talk'"


def test_of_two_in_one_batch_the_first_goes_in(app: App) -> None:
    counts = app.sessions().append([event(1, "first"), event(1, "other"), event(1, "first")]).events
    assert (counts.added, counts.unchanged, len(counts.refused)) == (1, 1, 1)
    assert app.sessions().event("talk", "e1").content == "first"


def test_a_refused_event_takes_no_number_from_a_later_one(app: App) -> None:
    app.sessions().append([event(1, "first")])
    counts = (
        app.sessions().append([event(5, "other", id="e1"), event(5, "fifth", id="five")]).events
    )
    assert (counts.added, len(counts.refused)) == (1, 1)
    assert sequence(app) == [(1, "e1"), (5, "five")]


def test_events_without_a_number_get_the_next_ones(app: App) -> None:
    app.sessions().append([event(None, "a", id="a"), event(None, "b", id="b")])
    app.sessions().append([event(40, "c", id="c"), event(None, "d", id="d")])
    assert sequence(app) == [(1, "a"), (2, "b"), (40, "c"), (41, "d")]


def test_an_event_without_a_number_is_known_again_by_its_id(app: App) -> None:
    once = [event(None, "a", id="a"), event(None, "b", id="b")]
    app.sessions().append(once)
    counts = (
        app.sessions().append([*once, event(None, "c", id="c"), event(None, "c", id="c")]).events
    )
    assert (counts.added, counts.unchanged) == (1, 3)
    assert sequence(app) == [(1, "a"), (2, "b"), (3, "c")]


def test_events_are_in_the_order_of_their_numbers_whatever_their_clocks_say(app: App) -> None:
    backwards = [event(n, f"note {n}", time=WHEN - timedelta(hours=n)) for n in range(1, 6)]
    random.Random(1).shuffle(backwards)
    app.sessions().append(backwards)
    assert sequence(app) == [(n, f"e{n}") for n in range(1, 6)]


@pytest.mark.parametrize("content", ["", "x" * 2**20, "\u200b", "a\x01b\u202e"])
def test_any_content_is_kept(app: App, content: str) -> None:
    app.sessions().append([event(1, content, type="tool.result"), event(2, content[:2000])])
    app.sessions().end("talk")
    assert app.sessions().event("talk", "e1").content == content


def test_what_postgresql_cannot_store_is_left_out_and_the_event_known_again(app: App) -> None:
    given = event(1, "a\0b\ud800", payload={"out": "\0x"})
    app.sessions().append([given])
    stored = app.sessions().event("talk", "e1")
    assert (stored.content, stored.payload) == ("ab", {"out": "x"})
    assert app.sessions().append([given]).events.unchanged == 1


def test_many_sessions_of_few_events_cost_no_more_than_one_of_many(app: App) -> None:
    """A plan that looks through all events for each session takes ten times as long."""

    def took_s(events: list[Event]) -> float:
        started = time.perf_counter()
        assert app.sessions().append(events).events.added == len(events)
        return time.perf_counter() - started

    took_s([event(1, "the first waits for a connection", session="before")])
    one = took_s([event(n, "x") for n in range(2_000)])
    pairs = [(f"s{n}", seq) for n in range(1_000) for seq in (1, 2)]
    many = took_s([event(seq, "x", type="session.title", session=s) for s, seq in pairs])
    assert many < 5 * one


def test_a_payload_is_stored_as_it_was_when_the_event_was_made(app: App) -> None:
    payload = {"n": 1}
    given = event(1, "first", payload=payload)
    payload["n"] = 2
    app.sessions().append([given])
    assert app.sessions().event("talk", "e1").payload == {"n": 1}


def test_one_session_s_ids_and_numbers_are_free_in_another(app: App) -> None:
    app.sessions().append([event(1, "a"), event(1, "b", session="other")])
    app.sessions("elsewhere").append([event(1, "c")])
    assert app.sessions().event("other", "e1").content == "b"
    assert app.sessions("elsewhere").event("talk", "e1").content == "c"


# --- not found


def refusal(call: Callable[[], object]) -> tuple[str, str | None]:
    with pytest.raises(NotFound) as caught:
        call()
    return caught.value.message, caught.value.remedy


def test_a_foreign_event_and_one_that_never_was_are_the_same_not_found(app: App) -> None:
    app.sessions().append([event(1, "ours")])
    unknown = refusal(lambda: app.sessions().event("secret", "e7"))
    app.sessions("theirs").append([event(7, "theirs", session="secret")])
    assert refusal(lambda: app.sessions().event("secret", "e7")) == unknown
    app.sessions().append([event(1, "ours", session="secret")])
    assert refusal(lambda: app.sessions().event("secret", "e7")) == unknown


@pytest.mark.parametrize("session", ["secret", "never\0there", "\ud800"])
def test_a_foreign_session_and_one_that_never_was_are_the_same_not_found(
    app: App, session: str
) -> None:
    app.sessions().append([event(1, "ours")])
    app.sessions("theirs").append([event(7, "theirs", session="secret")])
    calls = (
        lambda name: app.sessions().end(name),
        lambda name: list(app.sessions().events(name)),
        lambda name: list(app.sessions().export([name])),
        lambda name: app.sessions().index([name]),
        lambda name: app.sessions().remove([name]),
    )
    for call in calls:
        message, remedy = refusal(lambda call=call: call(session))
        assert message == f"the project 'harbour' has no session {session!r}"
        assert remedy == refusal(lambda call=call: call("none"))[1]


# --- indexed


def test_what_was_said_is_found_and_cited_by_session_and_event(app: App) -> None:
    app.sessions().import_lines(
        lines(
            event(1, "How much does the crane lift?", time=WHEN),
            event(2, "The crane lifts nine tonnes.", type="agent.response"),
        )
    )
    (hit,) = app.search(SearchRequest(query="tonnes", scopes=["session"])).hits
    assert hit.origin == SessionOrigin(
        session_id="talk", event_id="e2", title="How much does the crane lift?"
    )
    assert hit.content == "The crane lifts nine tonnes."


@pytest.mark.parametrize(
    "type_",
    ["tool.call", "tool.result", "agent.status", "agent.error", "gate.opened", "who knows",
     "session.title"],
)  # fmt: skip
def test_other_types_are_kept_and_change_no_search_and_no_count(
    app: App, owner: psycopg.Connection, type_: str
) -> None:
    app.sessions().import_lines(lines(event(1, "The crane lifts nine tonnes.")))
    before = state(owner, INDEXED[1:])
    told = event(2, "Zanzibar crane", type=type_, payload={"said": "Zanzibar"})
    app.sessions().import_lines(lines(told))
    assert app.sessions().event("talk", "e2") == told
    assert state(owner, INDEXED[1:]) == before
    assert found(app, "Zanzibar") == []


def test_a_session_of_other_types_alone_has_no_document(
    app: App, owner: psycopg.Connection
) -> None:
    report = app.sessions().import_lines(lines(event(1, "x", type="tool.result")))
    assert report.sessions.added == 0
    assert state(owner, INDEXED[:1]) == [[]]


def test_a_chunk_never_crosses_an_event(app: App) -> None:
    app.sessions().import_lines(lines(event(1, "Lift the crane."), event(2, "Lower the crane.")))
    outcome = app.search(SearchRequest(query="crane", max_per_document=100))
    assert {hit.content for hit in outcome.hits} == {"Lift the crane.", "Lower the crane."}


def test_a_long_event_is_cut_and_every_part_cites_it(app: App) -> None:
    report = app.sessions().import_lines(
        lines(event(1, "The crane lifts nine tonnes a time. " * 200))
    )
    assert report.chunks > 5
    assert set(found(app, "crane")) == {("talk", "e1")}


def test_a_title_event_names_the_session_and_is_no_word_of_its_rows(app: App) -> None:
    app.sessions().import_lines(lines(event(1, "How much does the crane lift?")))
    app.sessions().import_lines(
        lines(
            event(3, "Cranes \n of the quay", type="session.title"),
            event(2, "an earlier name", type="session.title"),
        )
    )
    (hit,) = app.search(SearchRequest(query="crane")).hits
    assert isinstance(hit.origin, SessionOrigin)
    assert hit.origin.title == "Cranes of the quay"
    assert found(app, "quay") == []


def test_each_event_has_the_language_that_it_is_written_in(
    app: App, owner: psycopg.Connection
) -> None:
    app.sessions().import_lines(
        lines(
            event(1, "How many tonnes does the crane at the northern quay lift?"),
            event(2, "O guindaste do cais norte levanta nove toneladas de cada vez."),
            event(3, "北码头的起重机每次可以吊起九吨货物。"),
        )
    )
    languages = owner.execute("SELECT language FROM lastro.chunks ORDER BY ordinal").fetchall()
    assert languages == [("en",), ("pt",), ("zh",)]


def test_a_session_that_grew_at_its_end_keeps_its_rows(app: App, owner: psycopg.Connection) -> None:
    app.sessions().import_lines(lines(event(1, "first crane"), event(2, "second crane")))
    rows = "SELECT xmin::text, id FROM lastro.chunks ORDER BY ordinal"
    before = owner.execute(rows).fetchall()
    report = app.sessions().import_lines(lines(event(3, "third crane")))
    assert (report.sessions.changed, report.embedding.embedded) == (1, 1)
    assert owner.execute(rows).fetchall()[:2] == before
    assert len(found(app, "crane")) == 3


def test_an_import_that_brings_nothing_new_leaves_the_index_alone(
    app: App, owner: psycopg.Connection
) -> None:
    said = lines(event(1, "first crane"), event(2, "second crane"))
    app.sessions().import_lines(said)
    before = owner.execute("SELECT xmin::text FROM lastro.chunks").fetchall()
    report = app.sessions().import_lines(said)
    assert report.events is not None
    assert (report.events.unchanged, report.sessions.unchanged) == (2, 1)
    assert owner.execute("SELECT xmin::text FROM lastro.chunks").fetchall() == before


TYPES = ("chat.message", "agent.response", "tool.call", "session.title")


@given(data=st.data())
@settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_events_in_any_parts_and_order_equal_one_import_of_all(
    app: App, owner: psycopg.Connection, data: st.DataObject
) -> None:
    total = data.draw(st.integers(1, 8))
    said = [
        event(
            n,
            data.draw(st.sampled_from(["", f"crane {n}", f"The quay {n}. " * 120])),
            session=data.draw(st.sampled_from("ab")),
            type=data.draw(st.sampled_from(TYPES)),
        )
        for n in range(total)
    ]
    order = data.draw(st.permutations(said))
    cuts = sorted(data.draw(st.lists(st.integers(0, total), max_size=3)))
    for start, end in zip([0, *cuts], [*cuts, total], strict=True):
        app.sessions().import_lines(lines(*order[start:end]))
    parts = state(owner, INDEXED + LOGGED)
    sessions = sorted({one.session for one in said})
    app.sessions().remove(sessions)
    assert state(owner, INDEXED[:2]) == [[], []]
    app.sessions().import_lines(lines(*said))
    assert state(owner, INDEXED + LOGGED) == parts
    app.sessions().index(rebuild=True)
    assert state(owner, INDEXED + LOGGED) == parts
    app.sessions().remove(sessions)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_long_session_in_many_steps_equals_one(
    app: App, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    said = lines(*(event(n, f"The crane {n}. " * 99) for n in range(1, 9)))
    app.sessions().import_lines(said)
    whole = state(owner, INDEXED)
    app.sessions().remove(["talk"])
    monkeypatch.setattr(session_indexing, "BATCH_CHUNKS", batch)
    app.sessions().import_lines(said)
    assert state(owner, INDEXED) == whole


def test_sessions_that_could_not_be_embedded_are_completed_by_a_repair(
    open_app: OpenApp, owner: psycopg.Connection
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ProviderError("it is away", reason="embedder_unreachable")

    dead = DeterministicEmbedder()
    dead.embed = fail  # type: ignore[method-assign]
    with open_app(embedder=dead) as app:
        report = app.sessions().import_lines(lines(event(1, "first crane")))
        assert (report.embedding.available, report.embedding.skipped) == (False, 1)
        assert [s.complete for s in app.sessions().list()] == [False]
        assert found(app, "crane") == [("talk", "e1")]
    with open_app() as app:
        report = app.sessions().import_lines(lines(event(2, "second crane")))
        assert report.embedding.embedded == 2
        assert [s.complete for s in app.sessions().list()] == [True]


def test_other_chunk_sizes_make_every_row_again(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_app() as app:
        before = app.sessions().import_lines(lines(event(1, "The crane lifts. " * 200))).chunks
    config = "[chunking]\ntarget_chars = 400\noverlap_chars = 50\nwindow_chars = 100\n"
    (tmp_path / "lastro.toml").write_text(config)
    monkeypatch.chdir(tmp_path)
    with open_app() as app:
        assert [s.current for s in app.sessions().list()] == [False]
        assert app.sessions().index().chunks > 2 * before
        assert [s.current for s in app.sessions().list()] == [True]


# --- lines


def test_a_broken_last_line_is_told_and_the_others_go_in(app: App) -> None:
    whole = lines(event(1, "first"), event(2, "second"))
    report = app.sessions().import_lines([*whole, whole[1][:30]])
    assert report.events is not None
    assert report.events.added == 2
    assert [refused.line for refused in report.events.refused] == [3]


def test_strictly_nothing_is_stored_where_a_line_is_refused(app: App) -> None:
    said = lines(event(1, "first"), event(1, "other"))
    with pytest.raises(InvalidInput, match="1 of 2 lines are no events that go in"):
        app.sessions().import_lines(said, strict=True)
    assert app.projects() == []
    assert app.sessions().import_lines(said[:1], strict=True).sessions.added == 1


def test_an_export_says_all_again(app: App, owner: psycopg.Connection) -> None:
    said = [
        event(n, f"The crane {n}.", session=session, type=type_, payload={"n": n}, time=WHEN)
        for session in ("b", "a")
        for n, type_ in enumerate(TYPES)
    ]
    app.sessions().import_lines(lines(*said))
    exported = list(app.sessions().export())
    assert exported == sorted(said, key=lambda one: (one.session, one.seq or 0))
    before = state(owner, INDEXED + LOGGED)
    app.sessions().remove(["a", "b"])
    app.sessions().import_lines(lines(*exported))
    assert state(owner, INDEXED + LOGGED) == before


# --- read back in pages


def pages(app: App, *, limit: int = 100) -> list[list[str]]:
    """The ids of each page."""
    found: list[list[str]] = []
    after, more = -1, True
    while more:
        page = app.sessions().page("talk", after=after, limit=limit)
        found.append([one.id for one in page.events])
        after, more = page.events[-1].seq or 0, page.more
    return found


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # a page ends with the event with which it has 1,000 bytes
        ([100] * 3, [["e0", "e1", "e2"]]),
        ([600, 600, 600, 600], [["e0", "e1"], ["e2", "e3"]]),
        ([2_000, 10, 2_000], [["e0"], ["e1", "e2"]]),
    ],
)
def test_a_page_of_events_ends_where_it_has_bytes_enough(
    app: App, monkeypatch: pytest.MonkeyPatch, sizes: list[int], expected: list[list[str]]
) -> None:
    monkeypatch.setattr("lastro.store.sessions.PAGE_BYTES", 1_000)
    app.sessions().append(event(seq, "x" * size) for seq, size in enumerate(sizes))
    assert pages(app) == expected
    assert [one.id for one in app.sessions().events("talk")] == [
        one for page in expected for one in page
    ]


def test_a_payload_that_is_stored_compressed_counts_as_what_it_takes_in_memory(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastro.store.sessions.PAGE_BYTES", 20_000)
    app.sessions().append(event(seq, payload={"printed": "x" * 30_000}) for seq in range(2))
    assert pages(app) == [["e0"], ["e1"]]


def test_a_page_has_so_many_events_at_most_and_says_whether_others_follow(app: App) -> None:
    app.sessions().append(event(seq, "short") for seq in range(4))
    assert pages(app, limit=2) == [["e0", "e1"], ["e2", "e3"]]
    assert [one.id for one in app.sessions().events("talk", after=0, limit=2)] == ["e1", "e2"]


# --- ended, listed, removed


def test_the_end_of_a_session_indexes_what_was_added(app: App) -> None:
    app.sessions().append([event(1, "The crane lifts."), event(1, "The quay.", session="other")])
    assert found(app, "crane") == []
    app.sessions().end("talk")
    assert found(app, "crane") == [("talk", "e1")]
    assert found(app, "quay") == []


def test_a_second_end_leaves_the_first_one_as_it_was(app: App, owner: psycopg.Connection) -> None:
    app.sessions().append([event(1, "The crane lifts.")])
    app.sessions().end("talk")
    (first,) = app.sessions().list()
    before = state(owner, INDEXED)
    app.sessions().end("talk")
    assert (app.sessions().list(), state(owner, INDEXED)) == ([first], before)


def test_sessions_are_listed_with_what_the_index_lacks(app: App) -> None:
    app.sessions().import_lines(
        lines(event(1, "The crane.", time=WHEN), event(2, "x", type="tool.call"))
    )
    app.sessions().append([event(1, "The quay.", session="open")])
    talk = app.sessions().list()[1]
    assert (talk.id, talk.title, talk.events, talk.indexed_events, talk.chunks) == (
        "talk", "The crane.", 2, 1, 1,
    )  # fmt: skip
    assert (talk.current, talk.complete, talk.started_at, talk.ended_at) == (True, True, WHEN, None)
    assert [(s.id, s.current) for s in app.sessions().list()] == [("open", False), ("talk", True)]


def test_a_removed_session_is_gone_from_log_rows_and_counts(
    app: App, owner: psycopg.Connection
) -> None:
    app.sessions().import_lines(
        lines(event(1, "The crane."), event(1, "The quay.", session="other"))
    )
    assert app.sessions().remove(["talk", "never there"]) == ["talk"]
    assert found(app, "crane") == []
    assert [s.id for s in app.sessions().list()] == ["other"]
    words = owner.execute("SELECT lexeme FROM lastro.lexeme_stats ORDER BY 1").fetchall()
    assert words == [("quay",)]
