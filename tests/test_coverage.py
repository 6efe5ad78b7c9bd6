"""Coverage: what an index holds, and how far its sources have moved on."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from repositories import commit, git, write

from lastro import store
from lastro.app import App, build
from lastro.chunk_settings import ChunkSettings
from lastro.config import Settings
from lastro.errors import NotFound
from lastro.projects import project_id_of
from lastro.store import AppConnection
from lastro.types import Coverage, IndexRequest, ScopeCoverage

FILES: dict[str, str | bytes | None] = {
    "docs/tides.md": "# Tides\n\nHigh water comes twice a day.\n",
    "docs/lights.md": "# Lights\n\nThe lighthouse flashes every ten seconds.\n",
    "docs/adr/0001-buoys.md": "# 1. Steel buoys\n\n## Status\n\nAccepted\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    commit(tmp_path / "coast", FILES)
    return tmp_path / "coast"


@pytest.fixture
def settings(tmp_path: Path, owner_url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=owner_url, embedder="deterministic")


@pytest.fixture
def app(settings: Settings) -> Iterator[App]:
    with build(settings) as app:
        yield app


def indexed(app: App, path: Path, **options) -> Coverage:
    app.index(IndexRequest(path=path, project="coast", **options))
    return app.coverage("coast")


def scope(coverage: Coverage, name: str) -> ScopeCoverage:
    return next(scope for scope in coverage.scopes if scope.scope == name)


def test_after_an_index_run_all_that_lies_there_is_indexed(app: App, repository: Path):
    docs = scope(indexed(app, repository), "docs")
    assert (docs.sources, docs.indexed, docs.with_vectors, docs.incomplete, docs.stale) == (
        2, 2, 2, 0, 0,
    )  # fmt: skip


def test_after_an_index_run_nothing_is_behind(app: App, repository: Path):
    found = indexed(app, repository)
    assert found.revision == found.head == git(repository, "rev-parse", "HEAD")
    assert found.behind == 0
    assert found.indexed_at is not None


def test_behind_are_the_documents_that_changed_since_however_many_commits_it_took(
    app: App, repository: Path
):
    before = indexed(app, repository)
    commit(repository, {"docs/tides.md": "# Tides\n\nHigh water.\n"})
    commit(repository, {"docs/tides.md": "# Tides\n\nLow water.\n", "src/tide.py": "x = 1\n"})
    head = commit(repository, {"docs/lights.md": None, "docs/fog.md": "# Fog\n\nA horn.\n"})
    found = app.coverage("coast")
    # changed: tides; gone: lights; came: fog
    assert (found.behind, found.head, found.revision) == (3, head, before.revision)
    assert found.sources[0].commits == 3


def test_commits_that_change_no_document_leave_nothing_behind(app: App, repository: Path):
    indexed(app, repository)
    commit(repository, {"src/tide.py": "x = 1\n"})
    found = app.coverage("coast").sources[0]
    assert (found.behind, found.commits) == (0, 1)


def test_a_document_that_only_moved_is_one_that_changed(app: App, repository: Path):
    indexed(app, repository)
    text = FILES["docs/tides.md"]
    commit(repository, {"docs/tides.md": None, "docs/sea/tides.md": text})
    assert app.coverage("coast").behind == 1


def test_a_changed_and_a_deleted_document_are_stale_and_a_new_one_only_lies_there(
    app: App, repository: Path
):
    indexed(app, repository)
    commit(
        repository,
        {
            "docs/tides.md": "# Tides\n\nLow water comes twice a day.\n",
            "docs/lights.md": None,
            "docs/fog.md": "# Fog\n\nSound the horn.\n",
        },
    )
    docs = scope(app.coverage("coast"), "docs")
    # there: tides, fog; indexed: tides, lights; neither is as it was
    assert (docs.sources, docs.indexed, docs.stale) == (2, 2, 2)


def test_documents_that_another_pipeline_made_are_stale(
    app: App, repository: Path, settings: Settings
):
    indexed(app, repository)
    with build(replace(settings, chunking=ChunkSettings(target_chars=600))) as other:
        assert scope(other.coverage("coast"), "docs").stale == 2


def test_a_repository_that_is_gone_leaves_its_counts_unknown_and_not_zero(
    app: App, repository: Path
):
    before = indexed(app, repository)
    shutil.rmtree(repository)
    found = app.coverage("coast")
    docs = scope(found, "docs")
    assert (docs.sources, docs.stale, docs.indexed) == (None, None, 2)
    assert (found.head, found.behind, found.revision) == (None, None, before.revision)
    assert "no such folder" in (found.sources[0].unknown or "")


def test_a_commit_that_history_no_longer_has_is_an_unknown_distance(app: App, repository: Path):
    indexed(app, repository)
    git(repository, "checkout", "--quiet", "--orphan", "afresh")
    commit(repository, {"docs/tides.md": "# Tides\n\nAfresh.\n"})
    git(repository, "branch", "-D", "main")
    git(repository, "reflog", "expire", "--expire=now", "--all")
    git(repository, "gc", "--quiet", "--prune=now")
    assert app.coverage("coast").behind is None


def test_a_shallow_clone_tells_what_changed_and_not_in_how_many_commits(
    app: App, repository: Path, tmp_path: Path
):
    clone = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(clone))
    assert indexed(app, clone).behind == 0
    commit(repository, {"docs/fog.md": "# Fog\n\nA horn.\n"})
    git(clone, "pull", "--quiet")
    found = app.coverage("coast").sources[0]
    assert (found.behind, found.commits) == (1, None)


def test_files_as_they_lie_have_no_revision_but_can_be_stale(app: App, tmp_path: Path):
    write(tmp_path / "folder", FILES)
    found = indexed(app, tmp_path / "folder", worktree=True)
    assert (found.revision, found.head, found.behind) == (None, None, None)
    write(tmp_path / "folder", {"docs/tides.md": "# Tides\n\nNeap tides are small.\n"})
    assert scope(app.coverage("coast"), "docs").stale == 1


def test_of_two_sources_only_what_is_the_same_is_said_of_the_project(
    app: App, repository: Path, tmp_path: Path
):
    commit(tmp_path / "pier", {"docs/pier.md": "# Pier\n\nClosed in winter.\n"})
    indexed(app, repository)
    found = indexed(app, tmp_path / "pier")
    assert (found.revision, found.head) == (None, None)
    assert found.behind == 0
    assert [source.name for source in found.sources] == ["coast", "pier"]
    assert scope(found, "docs").indexed == 3


def test_documents_behind_are_added_up_over_the_sources(app: App, repository: Path, tmp_path: Path):
    commit(tmp_path / "pier", {"docs/pier.md": "# Pier\n\nClosed in winter.\n"})
    indexed(app, repository)
    indexed(app, tmp_path / "pier")
    commit(repository, {"docs/fog.md": "# Fog\n\nA horn.\n"})
    commit(tmp_path / "pier", {"docs/pier.md": None, "docs/quay.md": "# Quay\n\nOpen.\n"})
    assert app.coverage("coast").behind == 1 + 2


def test_a_skipped_file_is_listed_with_its_reason(app: App, repository: Path):
    commit(repository, {"docs/broken.md": b"\xff\xfe\xfd"})
    assert [note.path for note in indexed(app, repository).skipped] == ["docs/broken.md"]


def test_documents_without_vectors_are_incomplete(
    app: App, repository: Path, owner: psycopg.Connection
):
    indexed(app, repository)
    owner.execute(
        "UPDATE lastro.chunks SET embedding = NULL, embedding_model = NULL, "
        "embedding_version = NULL WHERE source_path = 'docs/tides.md'"
    )
    owner.execute("UPDATE lastro.documents SET state = 'incomplete' WHERE place = 'docs/tides.md'")
    docs = scope(app.coverage("coast"), "docs")
    assert (docs.indexed, docs.with_vectors, docs.incomplete) == (2, 1, 1)


def test_a_run_at_work_is_seen_and_one_of_another_project_is_not(app: App, repository: Path):
    seen: list[tuple[bool, bool]] = []
    app.index(IndexRequest(path=repository, project="other"))
    app.index(
        IndexRequest(path=repository, project="coast"),
        progress=lambda _done, _total: seen.append(
            (app.coverage("coast").running, app.coverage("other").running)
        ),
    )
    assert set(seen) == {(True, False)}
    assert app.coverage("coast").running is False


def interrupted(app: App, path: Path) -> Coverage:
    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app.index(IndexRequest(path=path, project="coast"), progress=stop)
    return app.coverage("coast")


def test_a_first_run_that_did_not_finish_has_no_time(app: App, repository: Path):
    assert interrupted(app, repository).indexed_at is None


def test_a_first_run_that_did_not_finish_stands_at_no_revision(app: App, repository: Path):
    found = interrupted(app, repository)
    assert (found.revision, found.behind) == (None, None)
    assert found.head is not None


def test_a_first_run_over_files_as_they_lie_that_did_not_finish_is_compared_with_them(
    app: App, tmp_path: Path
):
    write(tmp_path / "notes", {"docs/tides.md": "# Tides\n\nNo repository here.\n"})

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    request = IndexRequest(path=tmp_path / "notes", project="coast", worktree=True)
    with pytest.raises(KeyboardInterrupt):
        app.index(request, progress=stop)
    found = app.coverage("coast")
    assert found.sources[0].unknown is None
    # one file lies there, and nothing of it is indexed yet
    assert (scope(found, "docs").sources, scope(found, "docs").indexed) == (1, 0)


def test_a_later_run_that_did_not_finish_leaves_the_revision_of_the_one_before(
    app: App, repository: Path
):
    before = indexed(app, repository)
    commit(repository, {"docs/tides.md": "# Tides\n\nNeap tides are small.\n"})
    found = interrupted(app, repository)
    assert (found.revision, found.behind) == (before.revision, 1)


def test_a_project_that_is_not_there_is_not_found(app: App):
    with pytest.raises(NotFound):
        app.coverage("atlantis")


def test_a_run_that_ends_while_it_is_looked_for_is_told(
    app: App, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed(app, repository)
    is_locked, project_id = store.project_is_locked, project_id_of(app.database, "coast")
    with ExitStack() as run:
        turn = run.enter_context(app.database.reserved())
        store.lock_project(turn, project_id)

        def looked(connection: AppConnection, project: int) -> bool:
            found = is_locked(connection, project)
            run.close()
            return found

        monkeypatch.setattr(store, "project_is_locked", looked)
        assert app.coverage("coast").running is True
