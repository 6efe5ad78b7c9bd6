"""Transcripts into the log: folders, repeated imports, titles, secrets, and what is found."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from logs import LOGGED, OpenApp, app_maker, found, state
from rights import drop_rights, open_folder_of_rights
from test_masking import made
from transcripts import (
    SESSION,
    chat,
    claude,
    claude_session,
    codex_session,
    lines,
)

from lastro.app import App
from lastro.cli import main
from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_PARTIAL, InvalidInput
from lastro.json_lines import ReadLine, RefusedLine
from lastro.sources.event_files import read_files

TOKEN = "gh" + "p_" + made(36)


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner_url: str) -> OpenApp:
    return app_maker(monkeypatch, tmp_path / "home", owner_url)


@pytest.fixture
def app(open_app: OpenApp) -> Iterator[App]:
    with open_app() as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Transcripts of three programs in folders, and files that are none."""
    files = {
        f"claude/-srv-armazem/{SESSION}.jsonl": lines(*claude_session()),
        "codex/2026/02/01/rollout-x.jsonl": lines(
            codex_session()[0] | {"payload": {"id": "rolled"}}, *codex_session()[1:]
        ),
        "chats/returns.json": json.dumps({"messages": chat()}, indent=2).encode(),
        "chats/package.json": b'{"name": "none"}\n',
        "chats/pretty.json": json.dumps({"name": "none"}, indent=2).encode(),
        "chats/notes.md": b"# Notes\n",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "chats/linked.jsonl").symlink_to(tmp_path / "chats/returns.json")
    return tmp_path


def titles(app: App) -> dict[str, str | None]:
    return {session.id: session.title for session in app.sessions().list()}


def test_a_folder_of_transcripts_is_imported_and_what_was_said_is_found(
    app: App, folder: Path
) -> None:
    report = app.sessions().import_files([folder])
    assert report.events is not None
    assert report.events.refused == ()
    assert titles(app) == {
        SESSION: "A fila que parou",
        "rolled": "¿Qué índice usa la búsqueda?",
        "chats/returns": "退货需要几天？",
    }
    assert found(app, "índice búsqueda HNSW")[0][0] == "rolled"
    assert found(app, "七天")[0][0] == "chats/returns"
    session, event = found(app, "磁盘满了 队列")[0]
    assert app.sessions().event(session, event).content == "磁盘满了，所以队列停止。"
    assert found(app, "schema.sql sandbox worker.log") == []


def test_the_same_files_again_change_nothing(
    app: App, folder: Path, owner: psycopg.Connection
) -> None:
    app.sessions().import_files([folder])
    before = state(owner, LOGGED)
    again = app.sessions().import_files([folder, folder / "chats"])
    assert again.events is not None
    # The file in `chats` has another name below that folder: its conversation names no session.
    assert (again.events.added, again.events.refused) == (5, ())
    app.sessions().remove(["returns"])
    assert state(owner, LOGGED) == before


def test_a_file_that_was_cut_and_has_grown_adds_only_what_is_new(app: App, tmp_path: Path) -> None:
    whole = lines(*claude_session())
    file = tmp_path / f"{SESSION}.jsonl"
    file.write_bytes(whole[: len(whole) // 2])
    first = app.sessions().import_files([file]).events
    assert first is not None
    assert [line.reason[:29] for line in first.refused] == ["the last line is broken off: "]
    file.write_bytes(whole)
    second = app.sessions().import_files([file]).events
    assert second is not None
    assert second.refused == ()
    assert (first.added + second.added, second.unchanged) == (13, first.added)


def test_no_secret_of_a_transcript_reaches_the_database(
    app: App, tmp_path: Path, owner: psycopg.Connection
) -> None:
    used = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"env": {TOKEN: TOKEN}}}
    text = {"type": "text", "text": f"I exported {TOKEN} for you."}
    file = tmp_path / f"{SESSION}.jsonl"
    file.write_bytes(
        lines(claude("user", f"use {TOKEN}", 1), claude("assistant", [text, used], 2, note=TOKEN))
    )
    report = app.sessions().import_files([file])
    assert report.events is not None
    # One in the question, in the answer and beside it, and two in the call: in it and as its text.
    assert report.events.masked == 1 + 2 + 2 + 2
    for (table,) in owner.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'lastro'"
    ).fetchall():
        rows = owner.execute(f"SELECT t::text FROM lastro.{table} AS t".encode()).fetchall()
        assert not any(TOKEN in str(row) for row in rows), table
    assert found(app, "exported for you")


def test_the_command_tells_masked_secrets_refused_lines_and_their_files(
    open_app: OpenApp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_bytes(lines(*chat()) + f'{{"role": "user", "content": "{TOKEN}"}}\n{{"ro'.encode())
    code = main(["sessions", "import", str(file), "--format", "openai"])
    printed = capsys.readouterr()
    assert code == EXIT_PARTIAL
    assert "6 added, 0 there already, 1 refused; 1 secret masked" in printed.out
    assert f"{file}:7: the last line is broken off" in printed.err.replace("\n", "")
    assert main(["sessions", "import", str(file), "--format", "openai", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["events"]["masked"] == 1


def test_a_file_of_another_format_than_the_named_one_and_an_unknown_format_are_refused(
    app: App, folder: Path
) -> None:
    report = app.sessions().import_files([folder / "chats/returns.json"], format_="codex")
    assert report.events is not None
    assert report.events.added == 0
    assert report.events.refused
    with pytest.raises(InvalidInput, match="no format 'word'"):
        app.sessions().import_files([folder], format_="word")


def test_a_file_of_a_folder_that_cannot_be_read_is_told_and_the_others_go_in(
    app: App, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = folder / "chats/returns.json"
    really = Path.open

    def opened(path: Path, *words: Any, **more: Any) -> Any:
        if path == shut:
            raise PermissionError(13, "Permission denied")
        return really(path, *words, **more)

    monkeypatch.setattr(Path, "open", opened)
    report = app.sessions().import_files([folder])
    assert report.events is not None
    (refused,) = report.events.refused
    assert (refused.file, refused.reason) == (
        str(shut),
        f"{shut} cannot be read: Permission denied",
    )
    assert set(titles(app)) == {SESSION, "rolled"}
    with pytest.raises(InvalidInput, match="cannot be read"):
        app.sessions().import_files([shut])


def test_a_folder_that_cannot_be_read_is_told_and_the_others_are_read() -> None:
    with open_folder_of_rights() as folder:
        for name in ("a", "b", "c", "d"):
            (folder / name).mkdir()
            (folder / name / "chat.jsonl").write_bytes(lines(*chat()))
        (folder / "b").chmod(0o000)
        (folder / "c").chmod(0o444)  # its names alone
        drop_rights()
        read = list(read_files([folder]))
    assert [(one.file, one.reason) for one in read if isinstance(one, RefusedLine)] == [
        (shut, f"{shut} cannot be read: Permission denied")
        for shut in (f"{folder}/b", f"{folder}/c/chat.jsonl")
    ]
    assert {one.item.session for one in read if isinstance(one, ReadLine)} == {"a/chat", "d/chat"}


@pytest.mark.parametrize("name", ["x" * 300, "round/chat.jsonl", "gone.jsonl"])
def test_a_path_that_cannot_be_reached_is_not_found(
    open_app: OpenApp, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "round").symlink_to("round")
    assert main(["sessions", "import", str(tmp_path / name)]) == EXIT_NOT_FOUND
    assert capsys.readouterr().err.startswith("error: ")


def test_appended_events_are_masked_too(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["append", "talk", "--id", "e1", "--content", f"token={TOKEN}"]
    assert main(["sessions", *words]) == EXIT_DONE
    assert app.sessions().event("talk", "e1").content == "token=[masked:github-token]"
