"""Remote repositories from the address to the index: names, revisions, and no secret anywhere."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from remotes import publish, web_server
from repositories import commit, git

from lastro.app import App, build
from lastro.cli.root import main
from lastro.config import Settings
from lastro.db.privileges import without_libpq
from lastro.errors import Conflict, InvalidInput, RemoteError
from lastro.store import Source
from lastro.types import IndexRequest

TOKEN = "tok-8b02e6d1deadfa11"
FILES: dict[str, str | bytes | None] = {
    "docs/tides.md": "# Tides\n\nHigh water comes twice a day.\n",
    "docs/adr/0001-buoys.md": "# 1. Steel buoys\n\n## Status\n\nAccepted\n",
}


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.startswith(("GIT_", "LASTRO_GIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    commit(tmp_path / "work", FILES)
    publish(tmp_path / "work", tmp_path / "served", "coast.git")
    return tmp_path / "work"


@pytest.fixture
def app(tmp_path: Path, owner_url: str) -> Iterator[App]:
    settings = Settings(home=tmp_path / "home", database_url=owner_url, embedder="deterministic")
    with build(settings) as app:
        yield app


@pytest.fixture
def url(work: Path, tmp_path: Path) -> str:
    del work
    return f"file://{tmp_path / 'served/coast.git'}"


def source(app: App, project: str) -> Source:
    (found,) = app.sources(project)
    return found


def test_the_project_is_named_after_the_repository(app: App, url: str, work: Path):
    report = app.index(IndexRequest(path=url))
    assert (report.project, report.revision) == ("coast", git(work, "rev-parse", "HEAD"))
    assert report.documents.added == 2


def test_the_source_is_stored_by_its_address(app: App, url: str):
    app.index(IndexRequest(path=url))
    found = source(app, "coast")
    assert (found.kind, found.name, found.root) == ("remote", "coast", url)


def test_a_second_run_fetches_and_changes_only_what_moved(
    app: App, url: str, work: Path, tmp_path: Path
):
    app.index(IndexRequest(path=url))
    commit(work, {"docs/tides.md": "# Tides\n\nNeap tides are small.\n"})
    publish(work, tmp_path / "served", "coast.git")
    documents = app.index(IndexRequest(path=url)).documents
    assert (documents.changed, documents.unchanged) == (1, 1)


def test_coverage_tells_how_far_the_server_has_moved_on(
    app: App, url: str, work: Path, tmp_path: Path
):
    app.index(IndexRequest(path=url))
    head = commit(work, {"docs/more.md": "# More\n"})
    publish(work, tmp_path / "served", "coast.git")
    found = app.coverage("coast")
    assert (found.head, found.behind) == (head, 1)


def test_rewritten_history_is_an_unknown_distance_or_a_number_and_never_an_error(
    app: App, url: str, work: Path, tmp_path: Path
):
    app.index(IndexRequest(path=url))
    git(work, "commit", "--quiet", "--amend", "--message=again")
    publish(work, tmp_path / "served", "coast.git")
    # the clone still has the commit that was replaced: one commit is on this side alone
    found = app.coverage("coast").sources[0]
    assert (found.behind, found.commits) == (0, 1)
    assert app.index(IndexRequest(path=url)).revision == git(work, "rev-parse", "HEAD")
    assert app.coverage("coast").behind == 0


def test_coverage_of_a_server_that_is_gone_says_so(app: App, url: str, tmp_path: Path):
    app.index(IndexRequest(path=url))
    (tmp_path / "served/coast.git").rename(tmp_path / "moved.git")
    (found,) = app.coverage("coast").sources
    assert found.head is None
    assert found.unknown is not None
    assert "there is no repository" in found.unknown


def test_a_fetch_that_fails_removes_nothing(app: App, work: Path, tmp_path: Path):
    del work
    with web_server(tmp_path / "served") as server:
        url = server.address("coast.git")
        app.index(IndexRequest(path=url))
    with pytest.raises(RemoteError):
        app.index(IndexRequest(path=url))
    assert sum(scope.indexed for scope in app.coverage("coast").scopes) == 2


def test_a_ref_that_is_gone_removes_nothing(app: App, url: str, work: Path, tmp_path: Path):
    git(work, "branch", "old")
    publish(work, tmp_path / "served", "coast.git")
    app.index(IndexRequest(path=url, ref="old"))
    git(work, "branch", "-D", "old")
    publish(work, tmp_path / "served", "coast.git")
    (found,) = app.coverage("coast").sources
    assert "no commit named 'old'" in (found.unknown or "")
    assert sum(scope.indexed for scope in app.coverage("coast").scopes) == 2


def test_two_addresses_of_one_name_are_a_conflict(app: App, url: str, work: Path, tmp_path: Path):
    app.index(IndexRequest(path=url))
    publish(work, tmp_path / "elsewhere", "coast.git")
    with pytest.raises(Conflict, match="belongs to file://"):
        app.index(IndexRequest(path=f"file://{tmp_path / 'elsewhere/coast.git'}"))


def test_repair_finds_the_project_by_the_address(app: App, url: str, tmp_path: Path):
    app.index(IndexRequest(path=url, project="shore"))
    (tmp_path / "served/coast.git").rename(tmp_path / "moved.git")
    assert app.index(IndexRequest(path=url, repair=True)).project == "shore"


def test_a_folder_may_be_given_as_text(app: App, work: Path):
    assert app.index(IndexRequest(path=str(work))).project == "work"
    assert source(app, "work").kind == "repository"


def test_an_address_with_a_password_is_refused_before_anything_is_stored(app: App):
    with pytest.raises(InvalidInput, match="password"):
        app.index(IndexRequest(path=f"https://ana:{TOKEN}@forge.example/coast.git"))
    assert app.projects() == []


def test_the_token_is_neither_printed_nor_stored(
    work: Path,
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    del work
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    monkeypatch.setenv("LASTRO_GIT_TOKEN", TOKEN)
    monkeypatch.setenv("LASTRO_DEBUG", "1")
    with web_server(tmp_path / "served", token=TOKEN) as server:
        url = server.address("coast.git")
        for arguments in (["index", url], ["coverage", "--project", "coast"], ["config"]):
            assert main(arguments) == 0
    assert main(["index", url]) == 1
    said = capfd.readouterr()
    assert "2 added" in said.out
    assert TOKEN not in said.out + said.err
    files = [one for one in (tmp_path / "home").rglob("*") if one.is_file()]
    assert not [one for one in files if TOKEN.encode() in one.read_bytes()]
    assert TOKEN not in everything_stored(owner_url)


def test_the_server_of_the_database_does_not_inherit_the_token(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LASTRO_GIT_TOKEN", TOKEN)
    assert TOKEN not in without_libpq().values()


def everything_stored(owner_url: str) -> str:
    """Every row of every table of ours, as text."""
    with psycopg.connect(owner_url) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_catalog.pg_tables"
            " WHERE schemaname = 'lastro'"
        ).fetchall()
        assert ("lastro.sources",) in tables
        rows = [
            connection.execute(f"SELECT t::text FROM {name} AS t").fetchall() for (name,) in tables
        ]
    return "\n".join(row[0] for table in rows for row in table)
