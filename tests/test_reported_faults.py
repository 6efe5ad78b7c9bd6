"""Faults that users of such systems report, each from the files to what a search then says."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from ollama_server import Script, ollama
from repositories import commit, git, write

from lastro.app import App, build
from lastro.chunk_settings import ChunkSettings
from lastro.config import Settings
from lastro.errors import LastroError, NotFound
from lastro.ollama_settings import OllamaSettings
from lastro.search import SearchRequest
from lastro.types import IndexReport, IndexRequest, Outcome

LASTRO = Path(sys.executable).with_name("lastro")
TIMEOUT_S = 120
EVERY_PROFILE = ("default", "adr-0080", "kb-rrf")


@pytest.fixture
def settings(tmp_path: Path, owner_url: str) -> Settings:
    return Settings(
        home=tmp_path / "home",
        database_url=owner_url,
        embedder="deterministic",
        project="pilots",
    )


@pytest.fixture
def app(settings: Settings) -> Iterator[App]:
    with build(settings) as made:
        yield made


def index(app: App, folder: Path, **options) -> IndexReport:
    return app.index(IndexRequest(path=folder, **options))


def places(outcome: Outcome) -> set[str]:
    return {hit.origin.source_path for hit in outcome.hits}


def scalar(url: str, query: str):
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchone()[0]


# --- a file that is gone


def record(number: int, word: str, status: str = "Accepted") -> str:
    return (
        f"# {number}. The {word}\n\n## Status\n\n{status}\n\n## Decision\n\nWe take the {word}.\n"
    )


def test_a_deleted_record_is_gone_from_both_legs_the_counts_and_the_citations(
    app: App, tmp_path: Path
) -> None:
    folder = tmp_path / "pilots"
    replaced = record(1, "cutter", "Superseded by [2](0002-launch.md)")
    commit(
        folder,
        {
            "docs/adr/0001-cutter.md": replaced,
            "docs/adr/0002-launch.md": record(2, "launch"),
            "docs/adr/0003-ladder.md": record(3, "ladder"),
        },
    )
    index(app, folder)
    assert sum(scope.indexed for scope in app.coverage().scopes) == 3
    commit(folder, {"docs/adr/0002-launch.md": None})
    report = index(app, folder)
    assert (report.documents.removed, report.documents.unchanged) == (1, 2)
    assert sum(scope.indexed for scope in app.coverage().scopes) == 2
    # the text itself, so that its own vector would be nearest, and its words
    for query in ("We take the launch.", "launch"):
        for profile in EVERY_PROFILE:
            outcome = app.search(SearchRequest(query=query, k=30, profile=profile))
            assert "docs/adr/0002-launch.md" not in places(outcome)


def test_a_repository_that_lost_all_documents_is_an_error_and_removes_nothing(
    app: App, tmp_path: Path
) -> None:
    folder = tmp_path / "pilots"
    commit(folder, {"docs/a.md": "# A\n\nThe ebb runs north.\n", "src/x.py": "x = 1\n"})
    index(app, folder)
    commit(folder, {"docs/a.md": None})
    with pytest.raises(NotFound, match="no document"):
        index(app, folder)
    assert places(app.search(SearchRequest(query="ebb"))) == {"docs/a.md"}


def test_a_repository_whose_objects_are_lost_is_an_error_and_removes_nothing(
    app: App, tmp_path: Path
) -> None:
    folder = tmp_path / "pilots"
    commit(folder, {"docs/a.md": "# A\n\nThe ebb runs north.\n"})
    index(app, folder)
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(LastroError):
        index(app, folder)
    assert places(app.search(SearchRequest(query="ebb"))) == {"docs/a.md"}


# --- names

ODD_NAMES = (
    "docs/sinalização-náutica.md",
    "docs/maré baixa.md",
    'docs/o "melhor" porto.md',
    "docs/col\tuna.md",
    "docs/'s\\trange.md",
    "docs/灯塔.md",
    "docs/-rf.md",
    "docs/ends in blank .md",
)


def test_files_of_any_name_are_indexed_changed_and_cited_by_it(app: App, tmp_path: Path) -> None:
    folder = tmp_path / "pilots"
    commit(folder, {name: f"# Page {n}\n\nkey{n}\n" for n, name in enumerate(ODD_NAMES)})
    assert index(app, folder).documents.added == len(ODD_NAMES)
    commit(folder, {name: f"# Page {n}\n\nlater{n}\n" for n, name in enumerate(ODD_NAMES)})
    report = index(app, folder)
    assert (report.documents.changed, report.documents.skipped) == (len(ODD_NAMES), ())
    for n, name in enumerate(ODD_NAMES):
        assert places(app.search(SearchRequest(query=f"later{n}"))) == {name}
        assert places(app.search(SearchRequest(query=f"key{n}"))) == set()


@pytest.mark.parametrize("worktree", [False, True])
def test_links_bring_no_file_in_twice_and_none_from_outside(
    app: App, tmp_path: Path, worktree: bool
) -> None:
    folder = tmp_path / "pilots"
    write(tmp_path, {"secret.md": "# Secret\n\nThe safe is behind the chart.\n"})
    write(folder, {"docs/chart.md": "# Chart\n\nSoundings in fathoms.\n"})
    (folder / "docs" / "up").symlink_to("..")
    (folder / "docs" / "alias.md").symlink_to("chart.md")
    (folder / "docs" / "secret.md").symlink_to("../../secret.md")
    commit(folder, {})
    report = index(app, folder, worktree=worktree)
    assert report.documents.added == 1
    told = {note.path for note in report.documents.skipped}
    assert told == {"docs/up", "docs/alias.md", "docs/secret.md"}
    assert places(app.search(SearchRequest(query="soundings"))) == {"docs/chart.md"}
    assert not app.search(SearchRequest(query="safe behind", k=30)).hits


# --- bytes that PostgreSQL refuses


def test_a_nul_in_text_or_metadata_costs_no_other_file_its_place(app: App, tmp_path: Path) -> None:
    folder = tmp_path / "pilots"
    commit(
        folder,
        {
            "docs/front.md": '---\ntitle: "bar\\u0000que"\ntags: ["a\\u0000"]\n---\n'
            "# Barque\n\nThree masts.\n",
            "docs/mark.md": b"\xef\xbb\xbf# Sloop\n\nOne mast.\n",
            "docs/stray.md": "# Ketch\n\ntwo\0masts\n",
        },
    )
    assert index(app, folder).documents.added == 3
    assert places(app.search(SearchRequest(query="two"))) == {"docs/stray.md"}
    [hit] = app.search(SearchRequest(query="one mast sloop")).hits[:1]
    assert (hit.origin.source_path, hit.origin.heading_path) == ("docs/mark.md", ("Sloop",))
    assert places(app.search(SearchRequest(query="three\0masts"))) >= {"docs/front.md"}


# --- the same again


def test_three_runs_over_one_commit_keep_rows_and_ids_with_equal_sections_in_one_file(
    app: App, owner_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "pilots"
    same = "Moor fore and aft.\n"
    commit(folder, {"docs/a.md": f"# Mooring\n\n## East\n\n{same}\n## West\n\n{same}"})
    rows = "SELECT string_agg(id::text || xmin::text, ',' ORDER BY id) FROM lastro.chunks"
    assert index(app, folder).embedding.embedded > 0
    before = scalar(owner_url, rows)
    for _ in range(2):
        assert index(app, folder).embedding.embedded == 0
        assert scalar(owner_url, rows) == before
    assert len(before.split(",")) == 2


# --- an embedder in trouble

LATE = OllamaSettings(query_timeout_s=20.0, document_timeout_s=20.0)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def served(script: Script, settings: Settings) -> Iterator[Callable[..., App]]:
    """Opens the application over a server of Ollama; each call is a new process's view."""
    with ollama(script) as host:
        yield lambda **changes: build(
            replace(
                settings,
                embedder="ollama:nomic-embed-text",
                ollama_host=host,
                ollama=LATE,
                **changes,
            )
        )


FIVE = "# Watch\n\n" + "\n".join(
    f"## Bell {n}\n\nAt bell {n} ring B-{n}{n}{n}.\n" for n in range(1, 6)
)


def test_one_passage_without_a_vector_is_a_gap_until_the_next_run_fills_it(
    script: Script, served, tmp_path: Path
) -> None:
    folder = tmp_path / "pilots"
    commit(folder, {"docs/watch.md": FIVE})
    script.refuse = "B-333"
    with served() as app:
        report = index(app, folder)
        assert (report.embedding.embedded, report.embedding.skipped) == (4, 1)
        [scope] = [one for one in app.coverage().scopes if one.indexed]
        assert (scope.incomplete, scope.with_vectors) == (1, 0)
        outcome = app.search(SearchRequest(query="B-333"))
        assert "B-333" in outcome.hits[0].content
        assert "vectors_missing" in {part.reason for part in outcome.degraded}
    script.refuse = None
    with served() as app:
        report = index(app, folder)
        assert (report.documents.unchanged, report.embedding.embedded) == (1, 1)
        [scope] = [one for one in app.coverage().scopes if one.indexed]
        assert (scope.incomplete, scope.with_vectors) == (0, 1)
        outcome = app.search(SearchRequest(query="B-333"))
        assert (outcome.degraded, outcome.hits[0].vector_score is None) == ((), False)


def test_a_server_that_cuts_long_texts_is_found_out_and_their_end_is_found_by_its_words(
    script: Script, served, tmp_path: Path
) -> None:
    # Asked not to cut, it cuts all the same and says so only in the count of its tokens.
    script.tokens = 2048
    folder = tmp_path / "pilots"
    watch = "The mate of the watch reads the glass and writes it into the log. " * 200
    commit(folder, {"docs/log.md": f"# Log\n\n{watch}\nThe spare key hangs under the binnacle.\n"})
    large = ChunkSettings(target_chars=20_000, window_chars=200, overlap_chars=0)
    with served(chunking=large) as app:
        report = index(app, folder)
        assert (report.chunks, report.embedding.reason) == (1, "embedder_refused")
        assert [note.path for note in report.documents.warnings] == ["docs/log.md"]
        outcome = app.search(SearchRequest(query="spare key binnacle"))
        assert places(outcome) == {"docs/log.md"}
        assert "vectors_missing" in {part.reason for part in outcome.degraded}


def test_what_was_embedded_before_a_run_was_killed_is_not_embedded_again(
    script: Script, settings: Settings, owner_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "pilots"
    notes = [f"Note of the {n} hour" for n in range(24)]
    commit(folder, {f"docs/{n}.md": f"# Hour {n}\n\n{note}.\n" for n, note in enumerate(notes)})
    cached = "SELECT count(*) FROM lastro.embedding_cache"
    with ollama(script) as host:
        environment = os.environ | {
            "LASTRO_HOME": str(settings.home),
            "LASTRO_DATABASE_URL": owner_url,
            "LASTRO_EMBEDDER": "ollama:nomic-embed-text",
            "OLLAMA_HOST": host,
        }
        script.delay_per_text_s = 0.1
        process = subprocess.Popen(
            [LASTRO, "index", "."],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not scalar(owner_url, cached):
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        process.wait(TIMEOUT_S)
        kept = scalar(owner_url, cached)
        assert 0 < kept < len(notes)
        script.delay_per_text_s = 0.0
        before = len(script.inputs)
        done = subprocess.run(
            [LASTRO, "index", "."], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    asked = [text for text in script.inputs[before:] if "Note of the" in text]
    assert len(set(asked)) == len(notes) - kept


def test_runs_that_fail_are_made_good_by_the_first_that_does_not(
    script: Script, served, tmp_path: Path
) -> None:
    folder = tmp_path / "pilots"
    commit(folder, {"docs/watch.md": FIVE})
    script.status = 500
    for _ in range(3):
        with served() as app:
            report = index(app, folder)
            assert (report.embedding.available, report.embedding.skipped) == (False, 5)
            assert app.search(SearchRequest(query="B-444")).hits
    script.status = 200
    with served() as app:
        report = index(app, folder)
        assert (report.documents.unchanged, report.embedding.embedded) == (1, 5)


# --- many at once


def test_eight_instances_that_start_on_an_empty_server_all_start(
    new_database: Callable[..., str], tmp_path: Path
) -> None:
    url = new_database()
    environment = os.environ | {
        "LASTRO_HOME": str(tmp_path / "home"),
        "LASTRO_DATABASE_URL": url,
        "LASTRO_EMBEDDER": "deterministic",
    }
    started = [
        subprocess.Popen(
            [LASTRO, "init", "--format", "json"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    said = [process.communicate(timeout=TIMEOUT_S) for process in started]
    assert [process.returncode for process in started] == [0] * 8, said
    steps = scalar(url, "SELECT count(*) FROM lastro.migrations")
    assert sum(json.loads(out)["migrationsApplied"] for out, _ in said) == steps
