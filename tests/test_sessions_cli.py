"""``lastro sessions``: conversations in, looked at, cited everywhere, and gone."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from commands import Run, in_folder

from lastro.db.binaries import find_binaries
from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_PARTIAL, EXIT_USAGE

TALK: list[dict[str, Any]] = [
    {
        "session": "talk",
        "id": "m-1",
        "seq": 1,
        "type": "chat.message",
        "actor": "ana",
        "content": "How much does the northern crane lift?",
        "time": "2026-05-04T09:00:00+00:00",
    },
    {
        "session": "talk",
        "id": "m-2",
        "seq": 2,
        "type": "tool.call",
        "actor": "helper",
        "content": "",
        "payload": {"tool": "grep"},
        "time": None,
    },
    {
        "session": "talk",
        "id": "m-3",
        "seq": 3,
        "type": "agent.response",
        "actor": "helper",
        "content": "O guindaste do norte levanta nove toneladas. 北码头。",
        "time": None,
    },
]
# No dictionary shortens it, and nothing else in a database is called so.
MARKER = "quarzubix"


@pytest.fixture
def lastro(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    owner_url: str,
) -> Run:
    return in_folder(
        tmp_path,
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
        project="harbour",
    )


def lines(*events: dict[str, Any]) -> str:
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.fixture
def stored(lastro: Run, tmp_path: Path) -> Run:
    (tmp_path / "talk.jsonl").write_text(lines(*TALK), encoding="utf-8")
    assert lastro("sessions", "import", "talk.jsonl")[0] == EXIT_DONE
    return lastro


def said(lastro: Run, *words: str) -> Any:
    code, out, err = lastro(*words, "--format", "json")
    assert code == EXIT_DONE, err
    return json.loads(out)


def test_a_hit_cites_an_event_that_is_shown_whole(stored: Run) -> None:
    (hit,) = said(stored, "search", "guindaste toneladas", "--scope", "session")["hits"]
    assert hit["origin"] == {
        "kind": "session",
        "sessionId": "talk",
        "eventId": "m-3",
        "title": TALK[0]["content"],
    }
    assert said(stored, "sessions", "event", "talk", "m-3") == TALK[2]
    assert "talk#m-3" in stored("search", "guindaste toneladas")[1]


def test_an_event_of_any_type_is_shown(stored: Run) -> None:
    assert said(stored, "sessions", "event", "talk", "m-2") == TALK[1]
    assert '{"tool": "grep"}' in stored("sessions", "event", "talk", "m-2")[1]


def test_an_unknown_event_is_not_found(stored: Run) -> None:
    code, out, err = stored("sessions", "event", "talk", "m-9", "--format", "json")
    assert (code, out) == (EXIT_NOT_FOUND, "")
    assert json.loads(err)["error"]["code"] == "NOT_FOUND"


def test_refused_lines_are_told_with_their_file_and_the_others_go_in(
    lastro: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(lines(TALK[0]))
    (tmp_path / "b.jsonl").write_text(lines({**TALK[0], "content": "other"}, TALK[1]) + '{"se')
    code, out, err = lastro("sessions", "import", "a.jsonl", "b.jsonl", "--format", "json")
    assert code == EXIT_PARTIAL
    report = json.loads(out)
    assert report["sessions"] == {"added": 1, "changed": 0, "unchanged": 0}
    assert report["events"]["added"] == 2
    assert [(r["file"], r["line"]) for r in report["events"]["refused"]] == [
        ("b.jsonl", 1),
        ("b.jsonl", 3),
    ]
    assert "b.jsonl:1: the session 'talk' has an event 'm-1'" in err


def test_strictly_nothing_is_stored(lastro: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(*TALK) + "{")
    code, _, err = lastro("sessions", "import", "a.jsonl", "--strict")
    assert code == EXIT_USAGE
    assert "1 of 4 lines are no events that go in; nothing is stored" in err
    assert lastro("sessions", "list")[0] == EXIT_NOT_FOUND


def test_a_file_that_is_not_there_keeps_the_others_from_being_stored(
    lastro: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(lines(*TALK))
    assert lastro("sessions", "import", "a.jsonl", "b.jsonl")[0] == EXIT_NOT_FOUND
    assert lastro("sessions", "list")[0] == EXIT_NOT_FOUND


def test_an_unknown_format_is_told(lastro: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(*TALK))
    code, _, err = lastro("sessions", "import", "a.jsonl", "--format", "yaml")
    assert (code, "'yaml'" in err) == (EXIT_USAGE, True)


def test_events_come_from_stdin_and_go_out_as_they_came(
    lastro: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, lines(*TALK))
    assert lastro("sessions", "import", "-", "--format", "lastro")[0] == EXIT_DONE
    assert [json.loads(line) for line in lastro("sessions", "export")[1].splitlines()] == TALK
    assert said(lastro, "sessions", "export", "talk") == {"events": TALK}


def test_an_event_is_appended_with_the_next_number_and_found_after_the_end(stored: Run) -> None:
    words = ("sessions", "append", "talk", "--content", "And the southern crane?", "--id", "m-4")
    assert said(stored, *words)["seq"] == 4
    assert said(stored, *words)["seq"] == 4  # the same again
    assert said(stored, "search", "southern")["hits"] == []
    said(stored, "sessions", "end", "talk")
    (hit,) = said(stored, "search", "southern crane")["hits"]
    assert hit["origin"]["eventId"] == "m-4"


def test_an_event_that_cannot_be_appended_is_a_conflict(stored: Run) -> None:
    code, _, err = stored(
        "sessions", "append", "talk", "--id", "m-1", "--content", "other", "--format", "json"
    )
    assert code == EXIT_USAGE
    assert json.loads(err)["error"]["code"] == "CONFLICT"


def test_lines_are_appended_from_stdin(lastro: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, lines(*TALK) + "no event\n")
    code, out, err = lastro("sessions", "append", "-", "--format", "json")
    assert code == EXIT_PARTIAL
    counts = json.loads(out)["events"]
    assert (counts["added"], counts["unchanged"], len(counts["refused"])) == (3, 0, 1)
    assert "line 4: it is not JSON" in err


def test_sessions_and_their_events_are_listed(stored: Run) -> None:
    (talk,) = said(stored, "sessions", "list")["sessions"]
    assert (talk["id"], talk["events"], talk["indexedEvents"], talk["chunks"]) == ("talk", 3, 2, 2)
    assert said(stored, "sessions", "show", "talk", "--limit", "2") == {
        "events": TALK[:2],
        "more": True,
    }
    assert said(stored, "sessions", "show", "talk", "--after", "2")["events"] == TALK[2:]
    assert "northern crane" in stored("sessions", "show", "talk")[1]


def test_the_status_counts_sessions_in_which_something_was_said(stored: Run) -> None:
    stored("sessions", "append", "tools", "--type", "tool.call")
    stored("sessions", "append", "new", "--content", "The quay.")
    stored("sessions", "append", "talk", "--content", "And the southern crane?")
    (scope,) = said(stored, "coverage")["scopes"]
    assert scope == {
        "scope": "session",
        "sources": 2,
        "indexed": 1,
        "withVectors": 1,
        "incomplete": 0,
        "stale": 1,
        "chunks": 2,
    }
    said(stored, "sessions", "index")
    (scope,) = said(stored, "coverage")["scopes"]
    assert (scope["indexed"], scope["stale"], scope["chunks"]) == (2, 0, 4)


def test_removed_sessions_are_told_and_so_are_those_that_were_not_there(stored: Run) -> None:
    code, out, err = stored("sessions", "rm", "talk", "never", "--format", "json")
    assert code == EXIT_PARTIAL
    assert json.loads(out) == {"removed": ["talk"], "unknown": ["never"]}
    assert "there is no session 'never'" in err
    assert stored("sessions", "rm", "talk")[0] == EXIT_NOT_FOUND


# --- what else must know sessions


def test_an_exported_project_brings_its_log_and_its_index(
    stored: Run, owner: psycopg.Connection
) -> None:
    assert stored("export", "harbour", "harbour.jsonl")[0] == EXIT_DONE
    assert stored("import", "harbour.jsonl", "--project", "copy")[0] == EXIT_DONE
    copy = ("--project", "copy")
    assert said(stored, "sessions", "export", *copy)["events"] == TALK
    (listed,) = said(stored, "sessions", "list", *copy)["sessions"]
    assert listed == said(stored, "sessions", "list")["sessions"][0]
    assert listed["current"]
    assert len(said(stored, "search", "guindaste toneladas", *copy)["hits"]) == 1
    assert said(stored, "sessions", "import", "talk.jsonl", *copy)["events"]["unchanged"] == 3


def test_an_event_can_be_judged_and_is_told_where_it_falls_out(stored: Run, tmp_path: Path) -> None:
    question = {
        "id": "q",
        "question": "guindaste toneladas",
        "language": "pt",
        "answers": [{"session": "talk", "event": "m-3"}],
    }
    (tmp_path / "golden.jsonl").write_text(json.dumps(question) + "\n")
    assert said(stored, "golden", "import", "golden.jsonl")["notIndexed"] == []
    told = said(stored, "why", question["question"], "--expect", "talk#m-3")
    assert (told["point"], told["passage"]["place"]) == ("hit", "talk#m-3")
    run = said(stored, "eval", "run", "golden")
    assert run["results"][0]["hits"][0]["place"] == "session talk, event m-3"


def test_the_nearest_passage_of_a_gap_may_be_an_event(stored: Run) -> None:
    assert said(stored, "search", "how heavy is the crane driver's lunch box")["abstained"]
    (gap,) = said(stored, "gaps")["gaps"]
    assert gap["nearest"]["origin"]["sessionId"] == "talk"


def test_an_event_that_is_never_searched_is_told_so(stored: Run) -> None:
    told = said(stored, "why", "grep", "--expect", "talk#m-2")
    assert (told["point"], told["said"][:30]) == ("not_indexed", "nothing of talk#m-2 is indexed")


@pytest.mark.parametrize("place", ["talk#m-3", "session talk, event m-3", "talk"])
def test_a_gap_is_accepted_with_an_event_as_its_answer(stored: Run, place: str) -> None:
    gap = said(stored, "search", "what does the crane driver have for lunch")["gapId"]
    accepted = said(stored, "gaps", "accept", gap, "--place", place)
    expected = {"session": "talk"} if place == "talk" else {"session": "talk", "event": "m-3"}
    (answer,) = accepted["question"]["answers"]
    assert {key: answer[key] for key in expected} == expected
    assert accepted["notIndexed"] == []


def test_an_erased_session_is_in_no_row_of_a_dump(
    lastro: Run, tmp_path: Path, owner_url: str
) -> None:
    secret = f"The password of the northern crane is {MARKER}."
    events = [
        {**TALK[0], "content": secret},
        {**TALK[1], "payload": {"said": secret}},
        {**TALK[2], "id": MARKER, "type": "session.title", "content": secret},
        {**TALK[0], "session": "other"},
    ]
    (tmp_path / "talk.jsonl").write_text(lines(*events))
    lastro("sessions", "import", "talk.jsonl")
    question = {"id": "q", "question": secret, "language": "en", "answers": [{"session": "talk"}]}
    (tmp_path / "golden.jsonl").write_text(json.dumps(question) + "\n")
    lastro("golden", "import", "golden.jsonl")
    lastro("eval", "run", "golden")
    lastro("search", "the password of the northern crane")
    program = find_binaries(None) / "pg_dump"
    dump = [program, "--dbname", owner_url]
    assert MARKER in subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    code, out, _ = lastro("sessions", "rm", "talk", "--erase", "--yes", "--format", "json")
    assert code == EXIT_DONE
    erased = json.loads(out)
    assert {key: erased[key] for key in ("documents", "chunks", "events", "questions", "runs")} == {
        "documents": 1, "chunks": 1, "events": 3, "questions": 1, "runs": 1,
    }  # fmt: skip
    assert MARKER not in subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    assert [s["id"] for s in said(lastro, "sessions", "list")["sessions"]] == ["other"]


def test_an_erased_project_takes_its_events_along(stored: Run, owner: psycopg.Connection) -> None:
    erased = said(stored, "projects", "rm", "harbour", "--yes")
    assert erased["events"] == 3
    left = "SELECT (SELECT count(*) FROM lastro.sessions), (SELECT count(*) FROM lastro.events)"
    assert owner.execute(left).fetchone() == (0, 0)
