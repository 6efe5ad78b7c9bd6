"""Erasing: what is left of a text in tables, caches, dumps and logs when it should be gone."""

import json
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import locks
import psycopg
import pytest
from databases import address, scratch_database
from repositories import commit
from rows import add_chunk, add_document, add_project, add_run, insert

from lastro import store
from lastro.cli import main
from lastro.db.binaries import find_binaries
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.migrate import migrate
from lastro.db.pool import Database
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedding import embed_texts
from lastro.erasing import Erased, erase_documents, erase_project
from lastro.store.erasure import SAMPLES_FROM_VERSION

# No dictionary shortens it, and nothing else in a database is called so.
MARKER = "quarzubix"
SECRET = (
    f"---\ntitle: The {MARKER} file\nowner: {MARKER} ltd\n---\n\n# The {MARKER} file\n\n"
    f"A berth for {MARKER}.\n\n## Terms of {MARKER}\n\n```\n{MARKER}_rate = 7\n```\n"
)
HARMLESS = "# Tides\n\nThe moon pulls the sea twice a day.\n"
QUESTIONS = [
    {"id": "a", "question": f"terms of {MARKER}", "language": "en",
     "answers": [{"path": "docs/secret.md", "heading": f"Terms of {MARKER}"}]},
    {"id": "b", "question": "moon sea", "language": "en", "answers": [{"path": "docs/tides.md"}]},
]  # fmt: skip


class Harbour:
    """The command line over one database, and what an owner can read out of it."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.url = url
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        ended = main(list(words))
        said = self._capsys.readouterr()
        assert ended == code, said.err
        return said.out if code == 0 else said.err

    def index(self, project: str, **files: str) -> None:
        folder = self.folder / project
        commit(folder, {f"docs/{name}.md": text for name, text in files.items()})
        self("index", str(folder), "--project", project)

    def ask_and_judge(self, project: str) -> None:
        """Leave the marker in every place that a question can leave it."""
        self("search", f"what of {MARKER}", "--project", project)
        golden = self.folder / "harbour.jsonl"
        golden.write_text("".join(f"{json.dumps(q)}\n" for q in QUESTIONS))
        self("golden", "import", str(golden), "--project", project)
        self("eval", "run", "harbour", "--project", project)

    def dump(self) -> str:
        program = find_binaries(None) / "pg_dump"
        return subprocess.run(
            [program, "--dbname", self.url], check=True, capture_output=True, text=True
        ).stdout

    def rows(self, query: str, *parameters: object) -> list[tuple]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    def text_hashes(self) -> list[str]:
        return [row[0] for row in self.rows("SELECT text_hash::text FROM lastro.embedding_cache")]


@pytest.fixture
def harbour(
    owner_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Harbour:
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    return Harbour(owner_url, capsys, tmp_path)


# --- a project


def test_an_erased_project_is_in_no_row_of_a_dump(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LASTRO_LOG_QUERIES", "text")
    harbour.index("alpha", secret=SECRET, tides=HARMLESS)
    harbour.ask_and_judge("alpha")
    key = harbour("keys", "create", "--role", "admin", "--label", MARKER, "--project", "alpha")
    id_ = key.split("_")[2]
    logged = harbour.rows("SELECT query FROM lastro.search_log")
    assert logged == [(f"what of {MARKER}",)]
    assert {MARKER, id_} <= set(re.findall(r"\w+", harbour.dump()))
    harbour("projects", "rm", "alpha", "--yes")
    left = harbour.dump()
    assert MARKER not in left
    assert id_ not in left


def test_an_erased_project_leaves_no_vector_in_the_cache(harbour: Harbour) -> None:
    harbour.index("alpha", secret=SECRET)
    harbour.index("alpha", secret=HARMLESS)  # the vectors of the former text are kept for a while
    harbour.ask_and_judge("alpha")
    assert len(harbour.text_hashes()) > 3
    harbour("projects", "rm", "alpha", "--yes")
    assert harbour.text_hashes() == []


def test_postgresql_keeps_no_sample_of_an_erased_project(harbour: Harbour) -> None:
    samples = "SELECT count(*) FROM pg_stats AS s WHERE schemaname = 'lastro' AND s::text ~ %s"
    harbour.index("alpha", secret=SECRET, tides=HARMLESS)
    with psycopg.connect(harbour.url, autocommit=True) as owner:
        owner.execute("ANALYZE")
        if owner.info.server_version < SAMPLES_FROM_VERSION:
            pytest.skip("only PostgreSQL 18 lets an owner forget samples of an empty table")
    assert harbour.rows(samples, MARKER) != [(0,)]
    harbour("projects", "rm", "alpha", "--yes")
    assert harbour.rows(samples, MARKER) == [(0,)]


def test_samples_hold_no_running_text(harbour: Harbour) -> None:
    harbour.index("alpha", secret=SECRET, tides=HARMLESS)
    with psycopg.connect(harbour.url, autocommit=True) as owner:
        owner.execute("ANALYZE")
    query = "SELECT attname FROM pg_stats AS s WHERE schemaname = 'lastro' AND s::text ~ %s"
    # words by themselves are what the planner counts
    assert {row[0] for row in harbour.rows(query, MARKER)} <= {"search_vector", "lexeme"}


def test_another_project_with_the_same_text_keeps_every_row(harbour: Harbour) -> None:
    of_beta = (
        "SELECT c::text, d::text FROM lastro.chunks AS c JOIN lastro.documents AS d"
        " ON d.project_id = c.project_id AND d.id = c.document_id"
        " JOIN lastro.projects AS p ON p.id = c.project_id WHERE p.slug = 'beta' ORDER BY 1"
    )
    words = (
        "SELECT lexeme, df FROM lastro.lexeme_stats AS s JOIN lastro.projects AS p"
        " ON p.id = s.project_id WHERE p.slug = 'beta' ORDER BY 1"
    )
    for project in ("alpha", "beta"):
        harbour.index(project, secret=SECRET)
    before = harbour.rows(of_beta), harbour.rows(words)
    harbour("projects", "rm", "alpha", "--yes")
    assert (harbour.rows(of_beta), harbour.rows(words)) == before
    assert len(before[0]) == 2
    found = json.loads(harbour("search", MARKER, "--project", "beta", "--format", "json"))
    assert MARKER in found["hits"][0]["content"]


def test_a_vector_that_another_project_paid_for_stays(harbour: Harbour) -> None:
    harbour.index("beta", secret=SECRET)
    paid = sorted(harbour.text_hashes())
    harbour.index("alpha", secret=SECRET, tides=HARMLESS)
    harbour("projects", "rm", "alpha", "--yes")
    assert sorted(harbour.text_hashes()) == paid


def test_the_name_of_an_erased_project_is_free_again(harbour: Harbour) -> None:
    harbour.index("alpha", tides=HARMLESS)
    harbour("projects", "rm", "alpha", "--yes")
    assert "alpha" not in harbour("projects")
    harbour.index("alpha", tides=HARMLESS)
    assert "alpha" in harbour("projects")


def test_a_report_counts_what_is_gone(harbour: Harbour) -> None:
    harbour.index("alpha", secret=SECRET, tides=HARMLESS)
    harbour.ask_and_judge("alpha")
    erased = json.loads(harbour("projects", "rm", "alpha", "--yes", "--format", "json"))
    counts = {key: erased[key] for key in ("documents", "chunks", "goldenSets", "runs")}
    # two sections of the secret, one of the tides
    assert counts == {"documents": 2, "chunks": 3, "goldenSets": 1, "runs": 1}
    assert erased["vacuumed"] is True


def test_without_a_terminal_erasing_asks_for_yes(harbour: Harbour) -> None:
    harbour.index("alpha", tides=HARMLESS)
    assert "--yes" in harbour("projects", "rm", "alpha", code=2)
    assert "--yes" in harbour("documents", "rm", "docs/tides.md", "--project", "alpha", code=2)
    assert harbour.rows("SELECT count(*) FROM lastro.documents") == [(1,)]


def test_an_unknown_project_is_not_found(harbour: Harbour) -> None:
    assert "nowhere" in harbour("projects", "rm", "nowhere", "--yes", code=4)


def test_erasing_waits_for_the_run_that_indexes_the_project(
    app_database: Database, owner: psycopg.Connection
) -> None:
    count = "SELECT count(*) FROM lastro.projects"
    project_id = add_project(owner, "alpha")
    with app_database.session() as connection, ThreadPoolExecutor(1) as threads:
        store.lock_project(connection, project_id)
        erasing = threads.submit(
            erase_project,
            app_database,
            "alpha",
            embedder=DeterministicEmbedder(),
            forget_source=ignore,
        )
        locks.wait_until(owner, locks.WAITED_FOR, there_are=1)
        assert owner.execute(count).fetchone() == (1,)
        store.unlock_project(connection, project_id)
        erasing.result(timeout=30)
    assert owner.execute(count).fetchone() == (0,)


# --- a document


def test_an_erased_document_is_in_no_row_of_a_dump(harbour: Harbour) -> None:
    harbour.index("alpha", secret=SECRET, tides=HARMLESS)
    harbour.ask_and_judge("alpha")
    harbour("documents", "rm", "docs/secret.md", "--project", "alpha", "--yes")
    assert MARKER not in harbour.dump()


def test_what_is_left_is_as_if_the_document_had_never_been(harbour: Harbour) -> None:
    left = (
        "SELECT s.lexeme, s.df, c.chunk_count, c.mean_length FROM lastro.lexeme_stats AS s"
        " JOIN lastro.corpus_stats AS c USING (project_id, language)"
        " JOIN lastro.projects AS p ON p.id = s.project_id WHERE p.slug = %s ORDER BY 1"
    )
    harbour.index("alpha", secret=SECRET, tides=HARMLESS)
    harbour.index("fresh", tides=HARMLESS)
    harbour("documents", "rm", "docs/secret.md", "--project", "alpha", "--yes")
    assert harbour.rows(left, "alpha") == harbour.rows(left, "fresh")


def test_vectors_of_the_texts_that_stay_are_kept(harbour: Harbour) -> None:
    harbour.index("alpha", tides=HARMLESS)
    kept = harbour.text_hashes()
    harbour.index("alpha", secret=SECRET, former=f"# Former\n\n{MARKER} was here.\n")
    harbour("documents", "rm", "docs/secret.md", "docs/former.md", "--project", "alpha",
            "--yes")  # fmt: skip
    # the hash that the database computes is that of lastro.embedding
    assert harbour.text_hashes() == kept


def test_a_golden_set_keeps_the_questions_about_other_documents(harbour: Harbour) -> None:
    harbour.index("alpha", secret=SECRET, tides=HARMLESS)
    harbour.ask_and_judge("alpha")
    harbour("documents", "rm", "docs/secret.md", "--project", "alpha", "--yes")
    exported = harbour("golden", "export", "harbour", "--project", "alpha")
    assert [json.loads(line)["id"] for line in exported.splitlines()] == ["b"]
    sets = json.loads(harbour("golden", "list", "--project", "alpha", "--format", "json"))
    # the hash is that of the questions that are left: the same set imported again is no news
    golden = harbour.folder / "left.jsonl"
    golden.write_text(exported)
    words = ("golden", "import", str(golden), "--name", "harbour", "--project", "alpha")
    again = json.loads(harbour(*words, "--format", "json"))
    assert again["imported"] is False
    assert again["contentHash"] == sets["goldenSets"][0]["contentHash"]


def test_a_document_that_the_index_no_longer_holds_is_erased_from_what_remembers_it(
    harbour: Harbour,
) -> None:
    harbour.index("alpha", secret=SECRET, tides=HARMLESS)
    harbour.ask_and_judge("alpha")
    commit(harbour.folder / "alpha", {"docs/secret.md": None})
    harbour("index", str(harbour.folder / "alpha"), "--project", "alpha")
    assert MARKER in harbour.dump()
    harbour("documents", "rm", "docs/secret.md", "--project", "alpha", "--yes")
    assert MARKER not in harbour.dump()


def test_a_path_that_nothing_knows_is_not_found(harbour: Harbour) -> None:
    harbour.index("alpha", tides=HARMLESS)
    words = ("documents", "rm", "docs/tide.md", "--project", "alpha", "--yes")
    assert "docs/tide.md" in harbour(*words, code=4)


@pytest.mark.parametrize(
    ("shown", "goes"),
    [
        ("docs/a.md", True),
        ("docs/a.md#Part > Title", True),
        ("docs/a.md:3-9", True),
        ("docs/a.md.bak", False),
        ("docs/a", False),
        ("other/docs/a.md", False),
    ],
)
def test_a_run_goes_with_the_place_that_it_showed(
    app_database: Database, owner: psycopg.Connection, shown: str, goes: bool
) -> None:
    project_id = add_project(owner, "alpha")
    add_document(owner, project_id, place="docs/a.md")
    add_run(owner, project_id)
    body = json.dumps({"results": [{"hits": [{"place": shown}]}]})
    owner.execute("UPDATE lastro.evaluation_runs SET body = %s", [body])
    erased = erase_document(app_database, "docs/a.md")
    assert erased.runs == int(goes)


@pytest.mark.parametrize(("kind", "place"), [("session", "s-1"), ("entity", "k-1")])
def test_a_session_and_an_entry_are_erased_by_their_names(
    app_database: Database, owner: psycopg.Connection, kind: store.Kind, place: str
) -> None:
    project_id = add_project(owner, "alpha")
    for name in (place, "another"):
        document = add_document(owner, project_id, scope=kind, place=name)
        add_chunk(owner, project_id, MARKER, scope=kind, document_id=document)
    # a file of the same name is another document
    add_chunk(owner, project_id, MARKER, document_id=add_document(owner, project_id, place=place))
    erased = erase_documents(
        app_database, "alpha", [place], embedder=DeterministicEmbedder(), kind=kind
    )
    assert (erased.documents, erased.chunks) == (1, 1)
    left = owner.execute("SELECT kind, place FROM lastro.documents ORDER BY 1, 2").fetchall()
    assert left == sorted([("file", place), (kind, "another")])


def erase_document(database: Database, path: str) -> Erased:
    return erase_documents(database, "alpha", [path], embedder=DeterministicEmbedder())


def ignore(_root: str) -> None:
    """A source that is only told."""


# --- sources


def test_only_a_source_that_no_other_project_has_is_forgotten(
    app_database: Database, owner: psycopg.Connection
) -> None:
    for project, roots in {"alpha": ("/shared", "/own"), "beta": ("/shared",)}.items():
        project_id = add_project(owner, project)
        for root in roots:
            insert(
                owner, "sources", {"project_id": project_id, "name": root.strip("/"), "root": root}
            )
    forgotten: list[str] = []
    erase_project(
        app_database,
        "alpha",
        embedder=DeterministicEmbedder(),
        forget_source=forgotten.append,
    )
    assert forgotten == ["/own"]


def test_the_clone_of_a_remote_repository_goes_with_its_project(harbour: Harbour) -> None:
    commit(harbour.folder / "far", {"docs/secret.md": SECRET})
    harbour("index", f"file://{harbour.folder / 'far'}", "--project", "alpha")
    clones = harbour.folder / "home" / "cache" / "git"
    assert len(list(clones.glob("*.git"))) == 1
    harbour("projects", "rm", "alpha", "--yes")
    assert list(clones.glob("*.git")) == []
    left = [path for path in (harbour.folder / "home").rglob("*") if path.is_file()]
    assert [path for path in left if MARKER.encode() in path.read_bytes()] == []


# --- rows of earlier releases, which do not say whose text they hold


def test_a_vector_of_unknown_origin_goes_with_the_text_it_was_made_of(
    app_database: Database, owner: psycopg.Connection
) -> None:
    embedder = DeterministicEmbedder()
    add_chunk(owner, add_project(owner, "alpha"), "told")
    embed_texts(app_database, embedder, ["told", "of a retrieval set"], role="document")
    erase_project(app_database, "alpha", embedder=embedder, forget_source=ignore)
    assert owner.execute("SELECT count(*) FROM lastro.embedding_cache").fetchone() == (1,)


# --- the server's log


@pytest.fixture
def logged(private_server: EmbeddedPostgres, cluster: str, template: str) -> Iterator[str]:
    """A database of a server whose log can be read."""
    with scratch_database(cluster) as name:
        url = address(cluster, dbname=name)
        migrate(url)
        yield url


# What PostgreSQL refuses while it quotes the value, each in another part of its message.
REFUSED = {
    "a failing row": "INSERT INTO lastro.chunks (project_id, id, content)"
    " VALUES (1, %(id)s, %(t)s)",
    "a value of another type": "SELECT %(t)s::integer",
    "a question that does not parse": "SELECT to_tsquery('simple', '(' || %(t)s)",
    "a duplicate": "INSERT INTO lastro.projects (slug, name) VALUES (%(t)s, 'a'), (%(t)s, 'b')",
    "a statement with the text in it": f"SELECT '{MARKER}'::jsonb",
}


@pytest.mark.parametrize("statement", REFUSED.values(), ids=list(REFUSED))
def test_a_refused_statement_leaves_no_text_in_the_log(
    private_server: EmbeddedPostgres, logged: str, statement: str
) -> None:
    told = ""
    with psycopg.connect(logged, autocommit=True) as connection:
        try:
            connection.execute(statement.encode(), {"id": uuid4(), "t": MARKER})
        except psycopg.Error as error:
            told = f"{error} {error.diag.message_detail}"
    # the caller is told, with the value
    assert MARKER in told
    assert MARKER not in log_of(private_server)


def test_a_refused_copy_leaves_no_text_in_the_log(
    private_server: EmbeddedPostgres, logged: str
) -> None:
    copying = "COPY lastro.projects (slug, created_at) FROM STDIN"
    with (
        psycopg.connect(logged, autocommit=True) as connection,
        pytest.raises(psycopg.Error, match=MARKER),
        connection.cursor().copy(copying) as copy,
    ):
        copy.write_row(["alpha", MARKER])
    assert MARKER not in log_of(private_server)


def test_what_the_server_says_of_itself_is_logged_still(private_server, logged) -> None:
    assert "database system is ready to accept connections" in log_of(private_server)


def log_of(server: EmbeddedPostgres) -> str:
    folder = server.status().data_dir.parent / "log"
    return "".join(file.read_text() for file in folder.glob("*.log"))
