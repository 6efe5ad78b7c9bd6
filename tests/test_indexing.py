"""Indexing real repositories into a real database: what is stored, kept, moved and removed."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import locks
import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repositories import commit, git, write

from lastro import store
from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedders.protocol import Role
from lastro.errors import Conflict, EmbedderMismatch, InvalidInput, NotFound, ProviderError
from lastro.indexing import index
from lastro.sources.files import FilePatterns
from lastro.types import EmbeddingCounts, IndexReport, IndexRequest, Progress
from lastro.writing import Writer

ROWS = """
    SELECT d.source, c.source_path, c.ordinal, c.content, c.line_start, c.line_end,
        c.heading_path, c.language, d.revision, d.title, d.state, c.search_vector::text, c.id::text
    FROM lastro.chunks AS c JOIN lastro.documents AS d ON d.id = c.document_id
    ORDER BY 1, 2, 3
"""


class Counting(DeterministicEmbedder):
    """Counts the texts it is asked for, and fails from the first text that holds ``poison``."""

    def __init__(self, *, poison: str | None = None) -> None:
        super().__init__()
        self.asked = 0
        self.poison = poison

    def embed(self, texts: Sequence[str], role: Role):
        if self.poison and any(self.poison in text for text in texts):
            raise ProviderError("the model server refused", reason="embedder_refused")
        self.asked += len(texts)
        return super().embed(texts, role)


class Bench:
    """One database and what is indexed into it."""

    def __init__(self, database: Database, owner_url: str) -> None:
        self.database = database
        self.owner_url = owner_url
        self.embedder = Counting()
        self.chunking = ChunkSettings()

    def index(
        self, path: Path, *, progress: Progress = lambda _done, _total: None, **options
    ) -> IndexReport:
        writer = Writer(
            database=self.database,
            admin_url=self.owner_url,
            embedder=self.embedder,
            pipeline=Pipeline(
                chunking=self.chunking,
                languages=("en", "pt", "zh"),
                embedder=fingerprint(self.embedder),
            ),
        )
        return index(
            self.database,
            IndexRequest(path=path, **options),
            writer=writer,
            patterns=FilePatterns(),
            progress=progress,
        )

    def rows(self) -> list[tuple]:
        with psycopg.connect(self.owner_url) as connection:
            return connection.execute(ROWS).fetchall()

    def scalar(self, query: str):
        with psycopg.connect(self.owner_url) as connection:
            return connection.execute(query).fetchone()[0]


@pytest.fixture
def bench(app_database: Database, owner_url: str) -> Bench:
    return Bench(app_database, owner_url)


def counts(report: IndexReport) -> dict[str, int]:
    names = ("added", "changed", "renamed", "removed", "unchanged")
    return {name: n for name in names if (n := getattr(report.documents, name))}


GUIDE = "# Guide\n\nStart the server.\n\n## Stop\n\nPull the plug.\n"
RECORD = "# 7. Use queues\n\n## Status\n\nAccepted\n\n## Decision\n\nWe queue.\n"


def test_a_document_is_stored_with_its_place_at_the_commit(bench, tmp_path) -> None:
    revision = commit(tmp_path / "handbook", {"docs/guide.md": GUIDE, "docs/adr/0007-q.md": RECORD})
    report = bench.index(tmp_path / "handbook")
    assert counts(report) == {"added": 2}
    assert (report.project, report.revision) == ("handbook", revision)
    places = [(row[1], row[4], row[5], row[8]) for row in bench.rows() if row[1] == "docs/guide.md"]
    assert places == [("docs/guide.md", 1, 3, revision), ("docs/guide.md", 5, 7, revision)]
    assert bench.scalar("SELECT adr_number FROM lastro.documents WHERE scope = 'adr'") == 7
    assert bench.scalar("SELECT adr_status FROM lastro.documents WHERE scope = 'adr'") == "accepted"


def test_the_same_commit_again_changes_no_row_and_asks_no_embedder(bench, tmp_path) -> None:
    # two sections with the same text under different headings
    twins = "# Twins\n\n## Left\n\nThe same words.\n\n## Right\n\nThe same words.\n"
    commit(tmp_path, {"docs/guide.md": GUIDE, "docs/twins.md": twins})
    bench.index(tmp_path)
    before, asked = bench.rows(), bench.embedder.asked
    for _ in range(2):
        assert counts(bench.index(tmp_path)) == {"unchanged": 2}
    assert bench.rows() == before
    assert bench.embedder.asked == asked
    assert sum("The same words." in row[3] for row in before) == 2


def test_a_moved_ref_moves_the_revision_and_no_chunk(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/guide.md": GUIDE})
    bench.index(tmp_path)
    before = bench.scalar("SELECT string_agg(xmin::text, ',') FROM lastro.chunks")
    revision = commit(tmp_path, {"src/main.py": "print()"})
    assert counts(bench.index(tmp_path)) == {"unchanged": 1}
    assert {row[8] for row in bench.rows()} == {revision}
    assert bench.scalar("SELECT string_agg(xmin::text, ',') FROM lastro.chunks") == before


def test_a_run_that_was_stopped_after_its_last_row_is_counted_by_the_next(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/guide.md": GUIDE})
    bench.index(tmp_path)
    commit(tmp_path, {"docs/guide.md": "# Guide\n\nThe ballast tank leaks.\n"})

    def stop_at_the_end(done: int, total: int) -> None:
        if total and done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.index(tmp_path, progress=stop_at_the_end)
    assert counts(bench.index(tmp_path)) == {"unchanged": 1}
    df = "SELECT coalesce(sum(df), 0) FROM lastro.lexeme_stats WHERE lexeme = %r"
    # 1 row holds the new word and none the old one
    assert (bench.scalar(df % "ballast"), bench.scalar(df % "plug")) == (1, 0)


def test_words_are_counted_again_though_the_clock_was_put_back(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/guide.md": GUIDE})
    bench.index(tmp_path)
    with psycopg.connect(bench.owner_url) as owner:
        owner.execute("UPDATE lastro.corpus_stats SET refreshed_at = now() + interval '1 hour'")
    # As many chunks as before, and to this clock older than the counts.
    commit(tmp_path, {"docs/guide.md": GUIDE.replace("plug", "ballast")})
    bench.index(tmp_path)
    assert bench.scalar("SELECT count(*) FROM lastro.lexeme_stats WHERE lexeme = 'ballast'") == 1


def test_a_removal_that_was_stopped_half_way_is_counted_by_the_next(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/guide.md": GUIDE, "docs/tank.md": "# Tank\n\nBallast.\n"})
    bench.index(tmp_path)
    git(tmp_path, "rm", "-q", "docs/tank.md")
    git(tmp_path, "commit", "-qm", "less")

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.index(tmp_path, progress=stop)
    assert counts(bench.index(tmp_path)) == {"unchanged": 1}
    assert bench.scalar("SELECT count(*) FROM lastro.lexeme_stats WHERE lexeme = 'ballast'") == 0


def test_an_unchanged_run_counts_no_word_again(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/guide.md": GUIDE})
    bench.index(tmp_path)
    written = "SELECT string_agg(xmin::text, ',') FROM lastro.lexeme_stats"
    before = bench.scalar(written)
    bench.index(tmp_path)
    assert bench.scalar(written) == before


@pytest.mark.parametrize(
    "options",
    [{"worktree": True, "ref": "main"}, {"repair": True, "rebuild": True}],
)
def test_options_that_contradict_each_other_are_refused(bench, tmp_path, options) -> None:
    commit(tmp_path, {"docs/guide.md": GUIDE})
    with pytest.raises(InvalidInput, match="together"):
        bench.index(tmp_path, **options)


def test_changed_renamed_and_removed_files_are_told_apart(bench, tmp_path) -> None:
    files = {f"docs/{name}.md": f"# {name}\n\nText of {name}.\n" for name in "abcd"}
    commit(tmp_path, files)
    bench.index(tmp_path)
    asked = bench.embedder.asked
    commit(
        tmp_path,
        {
            "docs/a.md": "# a\n\nOther text.\n",
            "docs/b.md": None,
            "docs/moved/b.md": files["docs/b.md"],
            "docs/c.md": None,
            "docs/e.md": "# e\n\nNew.\n",
        },
    )
    report = bench.index(tmp_path)
    assert counts(report) == {"added": 1, "changed": 1, "renamed": 1, "removed": 1, "unchanged": 1}
    assert [row[1] for row in bench.rows()] == [
        "docs/a.md",
        "docs/d.md",
        "docs/e.md",
        "docs/moved/b.md",
    ]
    # a and e are new text; the renamed one comes from the cache
    assert bench.embedder.asked == asked + 2


def test_a_deleted_file_leaves_no_word_behind(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": "# A\n\nzanzibar\n", "docs/b.md": "# B\n\nother\n"})
    bench.index(tmp_path)
    commit(tmp_path, {"docs/a.md": None})
    assert counts(bench.index(tmp_path)) == {"removed": 1, "unchanged": 1}
    stems = "SELECT count(*) FROM lastro.lexeme_stats WHERE lexeme LIKE 'zanzib%'"
    assert bench.scalar(stems) == 0


def test_a_listing_that_fails_removes_nothing(bench, tmp_path) -> None:
    commit(tmp_path / "repo", {"docs/guide.md": GUIDE})
    bench.index(tmp_path / "repo")
    before = bench.rows()
    (tmp_path / "repo" / ".git" / "HEAD").write_text("ref: refs/heads/gone\n")
    with pytest.raises(NotFound):
        bench.index(tmp_path / "repo")
    assert bench.rows() == before


def test_a_worktree_has_no_revision_and_shares_blob_ids_with_the_commit(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/guide.md": GUIDE})
    bench.index(tmp_path)
    report = bench.index(tmp_path, worktree=True)
    assert (counts(report), report.revision) == ({"unchanged": 1}, None)
    assert {row[8] for row in bench.rows()} == {None}
    write(tmp_path, {"docs/draft.md": "# Draft\n\nNot committed.\n"})
    assert counts(bench.index(tmp_path, worktree=True)) == {"added": 1, "unchanged": 1}


def test_another_ref_moves_the_source_and_doubles_nothing(bench, tmp_path) -> None:
    commit(tmp_path / "repo", {"docs/guide.md": GUIDE, "docs/old.md": "# Old\n\nGone later.\n"})
    git(tmp_path / "repo", "tag", "v1")
    commit(tmp_path / "repo", {"docs/old.md": None})
    git(tmp_path / "repo", "tag", "v2")
    assert counts(bench.index(tmp_path / "repo", ref="v1")) == {"added": 2}
    assert counts(bench.index(tmp_path / "repo", ref="v2")) == {"removed": 1, "unchanged": 1}
    assert counts(bench.index(tmp_path / "repo")) == {"unchanged": 1}
    assert {(row[0], row[1]) for row in bench.rows()} == {("repo", "docs/guide.md")}


def test_rebuild_makes_every_document_again_and_the_same(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/guide.md": GUIDE})
    bench.index(tmp_path)
    before = bench.rows()
    xmin = bench.scalar("SELECT min(xmin::text) FROM lastro.chunks")
    assert counts(bench.index(tmp_path, rebuild=True)) == {"changed": 1}
    assert bench.rows() == before
    assert bench.scalar("SELECT min(xmin::text) FROM lastro.chunks") != xmin


def test_another_chunk_size_makes_every_document_again(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/guide.md": "# Guide\n\n" + "A sentence of words. " * 60})
    bench.index(tmp_path)
    bench.chunking = ChunkSettings(target_chars=300, overlap_chars=30, window_chars=60)
    assert counts(bench.index(tmp_path)) == {"changed": 1}
    assert max(len(row[3]) for row in bench.rows()) <= 360


def test_skipped_files_are_reported_and_the_others_go_in(bench, tmp_path) -> None:
    write(tmp_path, {"docs/good.md": GUIDE, "docs/nul.md": "# Log\n\nbefore\0after\n"})
    commit(
        tmp_path, {"docs/latin.md": b"# Caf\xe9\n\ntext\n", "docs/image.md": bytes(range(256)) * 9}
    )
    report = bench.index(tmp_path)
    assert counts(report) == {"added": 2}
    assert {note.path for note in report.documents.skipped} == {"docs/latin.md", "docs/image.md"}
    assert [note.path for note in report.documents.warnings] == ["docs/nul.md"]
    assert {row[1] for row in bench.rows()} == {"docs/good.md", "docs/nul.md"}
    assert any("before after" in row[3] for row in bench.rows())


def test_a_file_that_loses_its_text_is_removed_and_skipped(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": GUIDE, "docs/b.md": GUIDE})
    bench.index(tmp_path)
    commit(tmp_path, {"docs/a.md": bytes(range(256)) * 9})
    report = bench.index(tmp_path)
    assert counts(report) == {"removed": 1, "unchanged": 1}
    assert [note.path for note in report.documents.skipped] == ["docs/a.md"]
    assert {row[1] for row in bench.rows()} == {"docs/b.md"}


def test_source_code_is_never_indexed(bench, tmp_path) -> None:
    commit(
        tmp_path, {"docs/guide.md": GUIDE, "docs/conf.py": "x = 1", "src/main.rs": "fn main(){}"}
    )
    bench.index(tmp_path)
    assert {row[1] for row in bench.rows()} == {"docs/guide.md"}


def test_front_matter_with_nul_escapes_does_not_stop_the_run(bench, tmp_path) -> None:
    text = '---\ntitle: "part\\u0000one"\nkeys: ["a\\u0000b"]\n---\n\n# Title\n\nText.\n'
    commit(tmp_path, {"docs/a.md": text, "docs/b.md": GUIDE})
    assert counts(bench.index(tmp_path)) == {"added": 2}
    assert {row[1] for row in bench.rows()} == {"docs/a.md", "docs/b.md"}


def test_a_failed_embedding_stores_the_rows_and_a_later_run_completes_them(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": "# A\n\nfine\n", "docs/b.md": "# B\n\npoison\n"})
    bench.embedder = Counting(poison="poison")
    report = bench.index(tmp_path)
    assert report.embedding == EmbeddingCounts(
        available=True, embedded=1, skipped=1, reason="embedder_refused"
    )
    assert report.chunks == 2
    assert {(row[1], row[10]) for row in bench.rows()} == {
        ("docs/a.md", "complete"),
        ("docs/b.md", "incomplete"),
    }
    bench.embedder = Counting()
    report = bench.index(tmp_path)
    assert counts(report) == {"unchanged": 2}
    assert report.embedding.embedded == 1
    assert {row[10] for row in bench.rows()} == {"complete"}
    assert bench.scalar("SELECT count(*) FROM lastro.chunks WHERE embedding IS NULL") == 0


def test_repair_alone_completes_without_reading_the_repository(bench, tmp_path) -> None:
    commit(tmp_path / "repo", {"docs/a.md": "# A\n\npoison\n"})
    bench.embedder = Counting(poison="poison")
    bench.index(tmp_path / "repo")
    bench.embedder = Counting()
    (tmp_path / "repo").rename(tmp_path / "elsewhere")
    report = bench.index(tmp_path / "repo", project="repo", repair=True)
    assert (report.embedding.embedded, report.chunks) == (1, 1)
    assert {row[10] for row in bench.rows()} == {"complete"}


def test_progress_counts_files_and_rows_that_lack_vectors_from_the_beginning(
    bench, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("lastro.writing.BATCH_CHUNKS", 1)
    commit(tmp_path, {"docs/a.md": "# A\n\nOne poison.\n", "docs/b.md": "# B\n\nTwo poison.\n"})
    bench.embedder = Counting(poison="poison")
    bench.index(tmp_path)
    bench.embedder = Counting()
    commit(tmp_path, {"docs/b.md": "# B\n\nOther.\n", "docs/c.md": "# C\n\nThree.\n"})
    seen: list[tuple[int, int]] = []
    bench.index(tmp_path, progress=lambda done, total: seen.append((done, total)))
    # Two files are stored, and two rows lacked a vector, of which one went with its file.
    assert {total for _, total in seen} == {4}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (4, 4)


def test_a_repaired_row_has_the_vector_that_a_fresh_index_makes(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": "# A\n\n## Deep\n\npoison\n"})
    bench.embedder = Counting(poison="poison")
    bench.index(tmp_path)
    bench.embedder = Counting()
    bench.index(tmp_path)
    repaired = bench.scalar(
        "SELECT embedding::text FROM lastro.chunks WHERE content LIKE '%poison%'"
    )
    bench.index(tmp_path, rebuild=True)
    fresh = bench.scalar("SELECT embedding::text FROM lastro.chunks WHERE content LIKE '%poison%'")
    assert repaired == fresh


def test_another_embedder_is_refused_by_name(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": GUIDE})
    bench.index(tmp_path)
    bench.embedder = Counting()
    bench.embedder.id = "other"
    before = bench.rows()
    with pytest.raises(EmbedderMismatch, match=r"deterministic.*other") as caught:
        bench.index(tmp_path, rebuild=True)
    assert "LASTRO_EMBEDDER=deterministic" in (caught.value.remedy or "")
    assert bench.rows() == before


def test_a_folder_name_taken_by_another_folder_is_a_conflict(bench, tmp_path) -> None:
    commit(tmp_path / "one" / "wiki", {"docs/a.md": GUIDE})
    commit(tmp_path / "two" / "wiki", {"docs/b.md": GUIDE})
    bench.index(tmp_path / "one" / "wiki")
    with pytest.raises(Conflict, match="wiki") as caught:
        bench.index(tmp_path / "two" / "wiki")
    assert "--project" in (caught.value.remedy or "")
    bench.index(tmp_path / "two" / "wiki", project="second")
    # from now on the folder knows its project
    assert bench.index(tmp_path / "two" / "wiki").project == "second"


def test_two_folders_of_one_project_keep_files_of_the_same_path_apart(bench, tmp_path) -> None:
    commit(tmp_path / "one" / "wiki", {"docs/README.md": "# One\n\nfirst\n"})
    commit(tmp_path / "two" / "wiki", {"docs/README.md": "# Two\n\nsecond\n"})
    for name in ("one", "two"):
        bench.index(tmp_path / name / "wiki", project="both")
    assert [(row[0], row[1]) for row in bench.rows()] == [
        ("wiki", "docs/README.md"),
        ("wiki-2", "docs/README.md"),
    ]


def test_a_run_that_waited_for_another_indexes_what_is_there_now(bench, owner, tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": GUIDE})
    bench.index(tmp_path)
    with bench.database.session() as connection:
        project_id = bench.scalar("SELECT id FROM lastro.projects")
        assert store.lock_project(connection, project_id) is True
        with ThreadPoolExecutor() as threads:
            late = threads.submit(bench.index, tmp_path)
            locks.wait_until(owner, locks.WAITED_FOR, there_are=1)
            commit(tmp_path, {"docs/b.md": "# B\n\nLater.\n"})
            store.unlock_project(connection, project_id)
            assert counts(late.result(timeout=60)) == {"added": 1, "unchanged": 1}


def test_runs_of_one_project_at_once_end_equal_to_one(bench, tmp_path) -> None:
    commit(tmp_path, {f"docs/{n}.md": f"# Note {n}\n\nText {n}.\n" for n in range(20)})
    with ThreadPoolExecutor(2) as threads:
        reports = list(threads.map(lambda _: bench.index(tmp_path), range(2)))
    assert sorted(report.documents.added for report in reports) == [0, 20]
    assert len(bench.rows()) == 20


def test_more_runs_than_connections_lose_no_document(bench, tmp_path) -> None:
    # four connections in the pool; two runs for each of four folders, all of one project
    folders = [tmp_path / f"folder{n}" for n in range(4)]
    for number, folder in enumerate(folders):
        commit(folder, {f"docs/{n}.md": f"# Note {n}\n\nText {number}.\n" for n in range(3)})
    with ThreadPoolExecutor(8) as threads:
        reports = list(
            threads.map(lambda folder: bench.index(folder, project="notes"), [*folders, *folders])
        )
    assert sorted(report.documents.added for report in reports) == [0, 0, 0, 0, 3, 3, 3, 3]
    assert [(row[0], row[1]) for row in bench.rows()] == [
        (f"folder{number}", f"docs/{n}.md") for number in range(4) for n in range(3)
    ]


def test_runs_of_several_projects_over_the_same_texts_in_other_orders_all_end(
    bench, tmp_path
) -> None:
    texts = [f"# Note {n}\n\nThe same words {n}.\n" for n in range(12)]
    folders = [tmp_path / f"project{n}" for n in range(6)]
    for number, folder in enumerate(folders):
        order = texts if number % 2 else texts[::-1]
        commit(folder, {f"docs/{n:02}.md": text for n, text in enumerate(order)})
    with ThreadPoolExecutor(6) as threads:
        reports = list(threads.map(bench.index, folders))
    assert [report.documents.added for report in reports] == [12] * 6
    assert [report.embedding.skipped for report in reports] == [0] * 6
    assert bench.scalar("SELECT count(*) FROM lastro.embedding_cache") == 12


names = st.sampled_from([f"docs/{n}.md" for n in ("a", "b", "sub/c", "adr/0001-d")])
texts = st.sampled_from(["# One\n\nalpha\n", "# Two\n\nbeta\n\n## Three\n\ngamma\n", "plain\n"])
edits = st.lists(st.dictionaries(names, texts | st.none(), min_size=1), min_size=1, max_size=4)


@settings(max_examples=10)
@given(edits)
def test_after_any_edits_the_table_equals_a_fresh_index(
    new_database, template, tmp_path_factory, steps
):
    root = tmp_path_factory.mktemp("edits") / "repo"
    commit(root, {"docs/always.md": GUIDE})
    url, fresh_url = new_database(template=template), new_database(template=template)
    with Database(url) as database, Database(fresh_url) as fresh_database:
        bench, fresh = Bench(database, url), Bench(fresh_database, fresh_url)
        bench.index(root)
        for step in steps:
            commit(root, {n: t for n, t in step.items() if t or (root / n).exists()})
            bench.index(root)
        fresh.index(root)
        assert bench.rows() == fresh.rows()


def test_vectors_are_stored_for_the_text_they_were_made_of(bench, tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": "# A\n\nalpha\n\n## B\n\nbeta\n"})
    bench.index(tmp_path)
    with psycopg.connect(bench.owner_url) as connection:
        rows = connection.execute(
            "SELECT title, heading_text, content, embedding::text FROM lastro.chunks"
        ).fetchall()
    for title, heading, content, stored in rows:
        lead = f"{title} > {heading}" if heading else title
        [expected] = DeterministicEmbedder().embed([f"{lead}\n{content}"], "document")
        vector = np.array(stored.strip("[]").split(","), dtype=np.float32)
        assert float(vector @ expected) == pytest.approx(1.0, abs=2e-3)


# --- the index of the vectors

VECTOR_INDEX = "SELECT to_regclass('lastro.chunks_embedding_idx') IS NOT NULL"


def test_the_first_run_indexes_its_vectors_when_all_are_there(bench, tmp_path) -> None:
    commit(tmp_path / "handbook", {"docs/a.md": "# A\n\nOne.\n", "docs/b.md": "# B\n\nTwo.\n"})
    seen: list[bool] = []
    bench.index(
        tmp_path / "handbook",
        progress=lambda _done, _total: seen.append(bench.scalar(VECTOR_INDEX)),
    )
    assert (any(seen), bench.scalar(VECTOR_INDEX)) == (False, True)


def test_vectors_of_a_run_that_was_stopped_are_indexed_by_the_next(bench, tmp_path) -> None:
    class Stopped(Exception):
        pass

    def stop_after_storing(done: int, total: int) -> None:
        if done == total:
            raise Stopped

    commit(tmp_path / "handbook", {"docs/a.md": "# A\n\nOne.\n"})
    with pytest.raises(Stopped):
        bench.index(tmp_path / "handbook", progress=stop_after_storing)
    before = bench.scalar(VECTOR_INDEX)
    report = bench.index(tmp_path / "handbook")
    assert (before, counts(report), bench.scalar(VECTOR_INDEX)) == (False, {"unchanged": 1}, True)
