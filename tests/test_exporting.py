"""A project out of one database and into another: the same answers, or a line that is named."""

import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from killing import EVERYTHING
from ollama_server import free_port
from repositories import commit
from rows import (
    add_document,
    add_gap,
    add_golden_set,
    add_project,
    add_rule,
    add_run,
    add_session,
    add_word,
    insert,
)

from lastro.app import App
from lastro.archive import COUNTED, LEFT_BEHIND, TABLES, Digest, read_header, read_rows
from lastro.cli import main
from lastro.config import load_settings
from lastro.db.pool import Database
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.errors import Conflict, EmbedderMismatch, InvalidInput, NotFound
from lastro.exporting import export_project
from lastro.profiles import DEFAULT
from lastro.search import SearchRequest
from lastro.types import IndexRequest

FILES: dict[str, str | bytes | None] = {
    f"docs/note{n}.md": f"# Note {n}\n\nThe quay {n} is long.\n\n## Depth\n\n{n} metres deep.\n"
    for n in range(12)
} | {
    "docs/adr/0001-pilots.md": "# 1. Pilots board by boat\n\n## Status\n\nSuperseded by "
    "[2](0002-helicopter.md)\n\n## Decision\n\nPilots board from a boat.\n",
    "docs/café.md": '# Café "Zur Möwe"\n\n港口 in the morning — naïve, with a \\ and a tab\t.\n',
}
QUESTIONS = ("quay 7", "how deep is it", "pilots boat", "港口", "café")


class Other(DeterministicEmbedder):
    """The same vectors under another name."""

    id = "other"


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., App]:
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")

    def make(url: str, *, embedder: DeterministicEmbedder | None = None) -> App:
        monkeypatch.setenv("LASTRO_DATABASE_URL", url)
        return App(
            load_settings(),
            database=Database(url, max_size=4),
            admin_url=url,
            embedder=embedder or DeterministicEmbedder(),
            profiles={DEFAULT.name: DEFAULT},
        )

    return make


@pytest.fixture
def app(open_app: Callable[..., App], owner_url: str, tmp_path: Path):
    """An indexed project ``harbour``."""
    commit(tmp_path / "harbour", FILES)
    with open_app(owner_url) as made:
        made.index(IndexRequest(path=str(tmp_path / "harbour"), project="harbour"))
        yield made


@pytest.fixture
def elsewhere(new_database: Callable[..., str], template: str) -> str:
    """The address of a database that never had a vector."""
    return new_database(template=template)


def exported(app: App, *, project: str = "harbour", vectors: bool = True) -> bytes:
    written = io.BytesIO()
    app.export_project(project, written.write, vectors=vectors)
    return written.getvalue()


def answers(app: App, project: str) -> list[Any]:
    """Hits with ids, texts, places and scores."""
    requests = [
        SearchRequest(query=query, k=30, profile=profile)
        for query in QUESTIONS
        for profile in ("default", EVERYTHING)
    ]
    return [
        [
            (hit.chunk_id, hit.content, hit.origin, hit.score, hit.vector_score, hit.lexical_score)
            for hit in app.search(request, project=project).hits
        ]
        for request in requests
    ]


# --- the same


def test_searches_answer_after_an_import_as_before(app, open_app, elsewhere) -> None:
    before = answers(app, "harbour")
    assert all(before[1::2])
    with open_app(elsewhere) as other:
        report = other.import_project(io.BytesIO(exported(app)))
        assert (report.project, report.documents) == ("harbour", len(FILES))
        assert answers(other, "harbour") == before


def test_nothing_is_embedded_again(app, open_app, elsewhere) -> None:
    with open_app(elsewhere) as other:
        assert other.import_project(io.BytesIO(exported(app))).embedding.embedded == 0


def test_what_was_imported_is_exported_the_same(app, open_app, elsewhere, owner) -> None:
    project_id = owner.execute("SELECT id FROM lastro.projects").fetchone()[0]
    add_golden_set(owner, project_id)
    add_run(owner, project_id)
    add_rule(owner, project_id)
    add_word(owner, project_id)
    add_session(owner, project_id)
    add_gap(owner, project_id, filter='{"scopes": ["adr"]}', status="dismissed")
    own = {"project_id": project_id, "name": "own", "version": 1}
    insert(owner, "profiles", {**own, "body": '{"a": 0.1}'})
    insert(owner, "profile_adoptions", {**own, "step": 1})
    owner.execute("UPDATE lastro.self_checks SET agreement = 1.0 / 3")
    first = exported(app)
    kinds = {next(iter(json.loads(line))) for line in first.splitlines()[1:-1]}
    assert kinds == set(TABLES)
    with open_app(elsewhere) as other:
        other.import_project(io.BytesIO(first))
        assert exported(other) == first


def test_a_second_index_run_after_an_import_finds_nothing_to_do(
    app, open_app, elsewhere, tmp_path: Path
) -> None:
    with open_app(elsewhere) as other:
        other.import_project(io.BytesIO(exported(app)))
        report = other.index(IndexRequest(path=str(tmp_path / "harbour")))
        assert (report.project, report.documents.unchanged) == ("harbour", len(FILES))


def test_a_copy_beside_its_original_takes_no_folder_from_it(app, tmp_path: Path) -> None:
    app.import_project(io.BytesIO(exported(app)), project="a-copy")
    report = app.index(IndexRequest(path=str(tmp_path / "harbour")))
    assert report.project == "harbour"
    assert answers(app, "a-copy") == answers(app, "harbour")


def test_texts_alone_are_embedded_again(app, open_app, elsewhere) -> None:
    texts = exported(app, vectors=False)
    assert b'"embedding"' not in texts
    before = answers(app, "harbour")
    with open_app(elsewhere) as other:
        report = other.import_project(io.BytesIO(texts))
        assert report.embedding.embedded == report.chunks
        after = answers(other, "harbour")
    assert [[hit[:3] for hit in hits] for hits in after] == [
        [hit[:3] for hit in hits] for hits in before
    ]


# --- not at all


def test_another_embedders_vectors_are_refused_and_the_way_out_works(
    app, open_app, elsewhere
) -> None:
    file = exported(app)
    with open_app(elsewhere, embedder=Other()) as other:
        with pytest.raises(EmbedderMismatch, match=r"deterministic.*other") as caught:
            other.import_project(io.BytesIO(file))
        assert "--no-vectors" in (caught.value.remedy or "")
        report = other.import_project(io.BytesIO(file), vectors=False)
        assert report.embedding.embedded == report.chunks


def test_an_existing_project_is_a_conflict_and_stays_as_it_is(app) -> None:
    before = exported(app)
    with pytest.raises(Conflict, match="harbour"):
        app.import_project(io.BytesIO(before))
    assert exported(app) == before


def without_end(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


def half_a_line(lines: list[bytes]) -> list[bytes]:
    return [*lines[:9], lines[9][:20]]


def a_line_less(lines: list[bytes]) -> list[bytes]:
    return [*lines[:-2], lines[-1]]


def another_text(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"quay 7", b"quay 8") for line in lines]


def more_after_the_end(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[-2]]


@pytest.mark.parametrize(
    "spoil", [without_end, half_a_line, a_line_less, another_text, more_after_the_end]
)
def test_a_file_that_is_not_as_it_was_written_leaves_nothing(
    app, owner: psycopg.Connection, spoil: Callable[[list[bytes]], list[bytes]]
) -> None:
    lines = exported(app).splitlines(keepends=True)
    with pytest.raises(InvalidInput, match=r"^line \d+"):
        app.import_project(io.BytesIO(b"".join(spoil(lines))), project="copy")
    assert owner.execute("SELECT slug FROM lastro.projects").fetchall() == [("harbour",)]


def changed(row: dict[str, Any], name: str, value: object) -> bytes:
    ((kind, values),) = row.items()
    return json.dumps({kind: {**values, name: value}}).encode() + b"\n"


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("document", "scope", "nowhere"),
        ("document", "id", "no uuid"),
        ("chunk", "documentId", "00000000-0000-0000-0000-000000000000"),
        ("chunk", "content", None),
        ("chunk", "content", "with \u0000"),
        ("chunk", "lineStart", 0),
        ("chunk", "embedding", "AAAA"),
        ("chunk", "embedding", "no base64!"),
        ("chunk", "embedding", 7),
        ("chunk", "colour", "red"),
        ("source", "kind", "elsewhere"),
    ],
)
def test_a_bad_line_is_named_by_its_number(
    app, owner: psycopg.Connection, kind: str, name: str, value: object
) -> None:
    lines = exported(app).splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    at = max(n for n, row in enumerate(rows) if kind in row)
    lines[at] = changed(rows[at], name, value)
    with pytest.raises(InvalidInput, match=rf"^line {at + 1}: "):
        app.import_project(io.BytesIO(b"".join(lines)), project="copy")
    assert owner.execute("SELECT slug FROM lastro.projects").fetchall() == [("harbour",)]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"", "was cut"),
        (b"\n", "not JSON"),
        (b"[]\n", "no JSON object"),
        (b"{}\n", "no exported project"),
        (b'{"format": "lastro project", "version": 99}\n', "form 99"),
        (b'{"format": "lastro project", "version": 1, "project": "a"}\n', "lacks a part"),
        (b"\xff\xfe\n", "not JSON"),
    ],
)
def test_what_is_no_exported_project_is_refused_at_its_first_line(line: bytes, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        read_header(io.BytesIO(line), Digest())


@pytest.mark.parametrize(
    "line", [b'{"weather": {}}\n', b'{"run": {}, "chunk": {}}\n', b'{"run": 1}\n']
)
def test_a_line_that_is_no_row_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidInput, match="line 1"):
        list(read_rows(io.BytesIO(line), Digest()))


def test_rows_out_of_order_are_refused() -> None:
    lines = io.BytesIO(b'{"chunk": {}}\n{"document": {}}\n')
    with pytest.raises(InvalidInput, match="line 2"):
        list(read_rows(lines, Digest()))


def test_an_unknown_project_is_not_found(app) -> None:
    with pytest.raises(NotFound):
        app.export_project("nowhere", io.BytesIO().write)


# --- all of it, in little memory


def test_every_table_of_projects_rows_is_exported_or_counted_again_or_is_this_databases_own(
    owner: psycopg.Connection,
) -> None:
    found = owner.execute(
        "SELECT DISTINCT table_name FROM information_schema.columns JOIN pg_tables"
        " ON tablename = table_name AND schemaname = table_schema"
        " WHERE table_schema = 'lastro' AND column_name = 'project_id'"
    ).fetchall()
    assert {name for (name,) in found} == {t.name for t in TABLES.values()} | (
        COUNTED | LEFT_BEHIND
    )


def test_an_export_holds_a_part_of_the_rows_in_memory_at_a_time(
    app_database: Database, owner: psycopg.Connection
) -> None:
    project_id = add_project(owner, "large")
    document = add_document(owner, project_id)
    owner.execute(
        "INSERT INTO lastro.chunks (project_id, id, document_id, ordinal, scope, source_path,"
        " heading_path, line_start, line_end, char_start, char_end, language, token_count, content)"
        " SELECT %s, gen_random_uuid(), %s, n, 'docs', 'a', '{}', 1, 1, 0, 1, 'xx', 1,"
        " repeat('0123456789', 1000) FROM generate_series(1, 4000) AS n",
        [project_id, document],
    )
    written = 0

    def count(line: bytes) -> None:
        nonlocal written
        written += len(line)

    tracemalloc.start()
    try:
        export_project(app_database, "large", count, vectors=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 4,000 rows of 10 kB
    assert written > 40_000_000
    assert peak < 10_000_000


def test_a_file_has_its_name_only_when_it_is_whole(
    app, owner_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "harbour.jsonl"
    assert main(["export", "nowhere", str(file)]) == 4
    assert list(tmp_path.glob("harbour.jsonl*")) == []
    assert main(["export", "harbour", str(file)]) == 0
    assert main(["export", "harbour", str(file)]) == 2
    assert main(["import", str(file), "--project", "copy"]) == 0
    assert "copy" in capsys.readouterr().out
    assert [path.name for path in tmp_path.glob("harbour.jsonl*")] == ["harbour.jsonl"]


def test_an_import_whose_texts_cannot_be_embedded_now_says_so_and_is_done(
    app, elsewhere, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    file = tmp_path / "harbour.jsonl"
    assert main(["export", "harbour", str(file)]) == 0
    monkeypatch.setenv("LASTRO_DATABASE_URL", elsewhere)
    monkeypatch.setenv("LASTRO_EMBEDDER", "ollama:nomic-embed-text")
    monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{free_port()}")
    assert main(["import", str(file), "--no-vectors"]) == 0
    assert "embedder_unreachable" in capsys.readouterr().err
