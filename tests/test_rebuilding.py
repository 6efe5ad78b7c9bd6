"""Parts of an index made again: by scope, by session, while searches go on."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from killing import STATE
from logs import OpenApp, app_maker, event, state
from repositories import commit

from lastro.app import App
from lastro.cli import main
from lastro.entity import Entity
from lastro.errors import EXIT_USAGE, InvalidInput, NotFound
from lastro.types import IndexRequest

SCOPES = ("docs", "adr", "session", "entity")


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner_url: str) -> OpenApp:
    return app_maker(monkeypatch, tmp_path / "home", owner_url)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    commit(
        tmp_path / "r",
        {"docs/a.md": "# A\n\nalpha\n", "docs/adr/0001-b.md": "# B\n\nbeta\n"},
    )
    return tmp_path / "r"


@pytest.fixture
def app(open_app: OpenApp, folder: Path) -> Iterator[App]:
    """A project with a document of each scope, and a second session."""
    with open_app() as opened:
        opened.index(IndexRequest(path=folder))
        opened.sessions().append([event(1, "gamma"), event(1, "delta", session="other")])
        opened.sessions().index()
        opened.entities().upsert([Entity(key="k", title="K", text="epsilon", type="note")])
        yield opened


def moments(owner: psycopg.Connection) -> dict[str, object]:
    rows = owner.execute("SELECT place, indexed_at FROM lastro.documents").fetchall()
    return {str(place): moment for place, moment in rows}


MADE_AGAIN = {
    "docs": {"docs/a.md"},
    "adr": {"docs/adr/0001-b.md"},
    "session": {"talk", "other"},
    "entity": {"k"},
}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_is_made_again_alone_and_ends_as_it_was(
    app: App, folder: Path, owner: psycopg.Connection, scope: str
) -> None:
    before, stored = moments(owner), state(owner, STATE)
    report = app.index(IndexRequest(path=folder, rebuild=True, scopes=(scope,)))
    after = moments(owner)
    assert {place for place in after if after[place] != before[place]} == MADE_AGAIN[scope]
    assert report.documents.changed == len(MADE_AGAIN[scope])
    assert report.chunks == 5
    assert state(owner, STATE) == stored


def test_several_scopes_and_a_session_are_reported_together(app: App, folder: Path) -> None:
    request = IndexRequest(
        path=folder, rebuild=True, scopes=("docs", "adr", "entity"), sessions=("talk",)
    )
    report = app.index(request)
    assert report.documents.changed == 2 + 1 + 1
    assert report.embedding.embedded == 4


def test_one_session_is_made_again_alone(app: App, folder: Path, owner: psycopg.Connection) -> None:
    before = moments(owner)
    app.index(IndexRequest(path=folder, rebuild=True, sessions=("talk",)))
    after = moments(owner)
    assert {place for place in after if after[place] != before[place]} == {"talk"}
    with pytest.raises(NotFound, match="no session 'none'"):
        app.index(IndexRequest(path=folder, rebuild=True, sessions=("none",)))


def test_entries_are_made_again_whatever_their_status(
    app: App, folder: Path, owner: psycopg.Connection
) -> None:
    drafts = [
        Entity(key=f"d{n}", title="D", text=f"zeta {n}", type="note", status="draft")
        for n in range(250)
    ]
    app.entities().upsert(drafts)
    stored = state(owner, STATE)
    owner.execute("UPDATE lastro.chunks SET content = 'damaged' WHERE scope = 'entity'")
    report = app.index(IndexRequest(path=folder, rebuild=True, scopes=("entity",)))
    assert report.documents.changed == 251
    assert state(owner, STATE) == stored


def test_a_part_without_rebuild_or_of_no_scope_is_refused(app: App, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="--rebuild makes again"):
        app.index(IndexRequest(path=folder, scopes=("adr",)))
    with pytest.raises(InvalidInput, match="no scope 'files'"):
        app.index(IndexRequest(path=folder, rebuild=True, scopes=("files",)))
    assert main(["index", str(folder), "--session", "talk"]) == EXIT_USAGE
    words = ["index", str(folder), "--rebuild", "--scope", "adr", "--background"]
    assert main(words) == EXIT_USAGE
