"""The doctor: each fault is found and named, and a sound database passes."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from rows import add_chunk, add_project

from lastro import store
from lastro.app import App, build, diagnose
from lastro.config import Settings
from lastro.db.migrate import SchemaState
from lastro.db.pool import Database, connect
from lastro.doctor import (
    check_disk,
    check_index_embedder,
    check_jobs,
    check_log,
    check_machine,
    check_vectors,
    examine,
)
from lastro.embedders import fingerprint
from lastro.embedders.ollama import OllamaEmbedder
from lastro.errors import ProviderError
from lastro.job import Workers
from lastro.projects import list_states
from lastro.recall_probe import Probe, check_recall, probe_recall, recall_of_scores
from lastro.server_checks import (
    VECTOR_INDEX,
    check_dead_rows,
    check_indexes,
    check_pgvector,
    check_roles,
    check_schema,
    check_server,
    check_shared_memory,
    check_walls,
)
from lastro.store import ActiveEmbedder, IndexFacts, RoleFacts, ServerFacts, TableFacts
from lastro.types import Check, IndexRequest

MIB = 2**20
SOUND_SERVER = ServerFacts(
    version_number=180_004,
    version="18.4",
    encoding="UTF8",
    vector_version="0.8.5",
    shared_memory_type="mmap",
    over_socket=True,
    size_bytes=10 * MIB,
    autovacuum=True,
    probe_distance=0.2857,
)
SOUND_ROLES = RoleFacts(
    login="harbour_user",
    login_is_superuser=False,
    app_is_superuser=False,
    app_bypasses=False,
    app_owns=0,
    app_has_rights_of=None,
    acting_as="lastro_app",
)


# --- the rules ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("0.9.0", "ok"), ("0.8.5", "ok"), ("0.8.4", "ok"), ("0.8.3", "warn"), ("0.8.0", "warn"),
        ("0.7.4", "fail"), ("0.10.0", "ok"), ("1.0", "ok"), (None, "fail"),
    ],
)  # fmt: skip
def test_pgvector_is_judged_by_its_version(version: str | None, status: str):
    check = check_pgvector(version)
    assert check.status == status
    assert (check.remedy is None) == (status == "ok")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "ok"),
        ({"version_number": 150_000}, "ok"),
        ({"version_number": 140_011}, "fail"),
        ({"encoding": "LATIN1"}, "fail"),
    ],
)
def test_a_server_is_judged_by_version_and_encoding(changes: dict, status: str):
    assert check_server(replace(SOUND_SERVER, **changes)).status == status


@pytest.mark.parametrize(
    ("state", "status", "detail"),
    [
        (SchemaState(at=20, known=20, waiting=0), "ok", "step 20"),
        (SchemaState(at=21, known=20, waiting=0), "ok", "step 21, 1 newer than this release"),
        (SchemaState(at=20, known=22, waiting=2), "warn", "step 20; migrations that wait: 2"),
    ],
)
def test_an_upgrade_that_was_not_finished_is_told(
    state: SchemaState, status: str, detail: str
) -> None:
    check = check_schema(state)
    assert (check.status, check.detail) == (status, detail)


@pytest.mark.parametrize(
    ("free_bytes", "status"), [(5000 * MIB, "ok"), (500 * MIB, "warn"), (50 * MIB, "fail")]
)
def test_a_disk_is_judged_by_what_is_free(free_bytes: int, status: str):
    assert check_disk(Path("/harbour"), free_bytes=free_bytes).status == status


def test_docker_s_small_shared_memory_is_warned_of():
    facts = replace(SOUND_SERVER, shared_memory_type="posix")
    assert [check.status for check in check_shared_memory(facts, shm_bytes=64 * MIB)] == ["warn"]


def test_enough_shared_memory_passes():
    facts = replace(SOUND_SERVER, shared_memory_type="posix")
    assert [check.status for check in check_shared_memory(facts, shm_bytes=512 * MIB)] == ["ok"]


def test_the_shared_memory_of_another_machine_is_not_judged():
    facts = replace(SOUND_SERVER, shared_memory_type="posix", over_socket=False)
    assert check_shared_memory(facts, shm_bytes=64 * MIB) == []


@pytest.mark.parametrize(
    "fault",
    [
        {"app_is_superuser": True},
        {"app_bypasses": True},
        {"app_owns": 3},
        {"app_has_rights_of": "harbour_owner"},
        {"acting_as": "harbour_owner"},
    ],
)
def test_an_application_role_that_is_not_held_back_is_a_fault(fault: dict):
    assert check_roles(replace(SOUND_ROLES, **fault), embedded=False).status == "fail"


@pytest.mark.parametrize(("embedded", "status"), [(True, "ok"), (False, "warn")])
def test_a_superuser_s_login_is_for_the_embedded_database_alone(embedded: bool, status: str):
    facts = replace(SOUND_ROLES, login_is_superuser=True)
    assert check_roles(facts, embedded=embedded).status == status


def test_a_table_without_policy_is_named():
    check = check_walls(["chunks"], leaks=False)
    assert (check.status, "chunks" in check.detail) == ("fail", True)


def test_a_row_that_is_seen_without_a_project_is_a_fault():
    assert check_walls([], leaks=True).status == "fail"


SEARCHED = [
    IndexFacts(name="chunks_search_vector_idx", is_valid=True),
    IndexFacts(name="chunks_published_idx", is_valid=True),
]


@pytest.mark.parametrize(("has_vectors", "status"), [(False, "ok"), (True, "fail")])
def test_the_vector_index_is_missed_once_there_are_vectors(has_vectors: bool, status: str):
    assert check_indexes(SEARCHED, has_vectors=has_vectors).status == status


@pytest.mark.parametrize(
    ("ef_construction", "status"), [(None, "warn"), (64, "warn"), (128, "ok"), (200, "ok")]
)
def test_an_index_that_a_former_release_built_is_told(ef_construction: int | None, status: str):
    built = IndexFacts(name=VECTOR_INDEX, is_valid=True, ef_construction=ef_construction)
    check = check_indexes([*SEARCHED, built], has_vectors=True)
    assert (check.status, "REINDEX" in (check.remedy or "")) == (status, status == "warn")


def test_no_project_is_no_fault():
    assert check_vectors([]).status == "ok"


@pytest.mark.parametrize(
    ("dead", "live", "status"),
    # 40 % of 10,000 rows is 4,000; of few rows none is judged.
    [(4_000, 6_000, "ok"), (4_001, 5_999, "warn"), (999, 0, "ok")],
)
def test_a_table_is_judged_by_the_share_of_its_dead_rows(dead: int, live: int, status: str):
    tables = [TableFacts(name="chunks", live=live, dead=dead)]
    assert check_dead_rows(tables, autovacuum=True).status == status


def test_a_server_that_never_vacuums_is_warned_of():
    assert check_dead_rows([], autovacuum=False).status == "warn"


@pytest.mark.parametrize(
    ("found", "best", "recall"),
    [
        ([0.9, 0.8], [0.9, 0.8], 1.0),
        ([0.9, 0.7], [0.9, 0.8], 0.5),  # one of two places
        ([0.9, 0.8, 0.8], [0.9, 0.8], 1.0),  # a tie is as good
        ([], [0.9, 0.8], 0.0),
        ([], [], 1.0),
    ],
)
def test_recall_counts_the_places_of_an_exact_search(
    found: list[float], best: list[float], recall: float
):
    assert recall_of_scores(found, best) == recall


@pytest.mark.parametrize(("recall", "status"), [(1.0, "ok"), (0.95, "ok"), (0.94, "warn")])
def test_a_vector_index_is_judged_by_what_it_misses(recall: float, status: str):
    assert check_recall([Probe(slug="roads", samples=10, recall=recall)]).status == status


def test_a_recall_that_could_not_be_measured_in_time_is_said():
    check = check_recall([Probe(slug="roads", samples=0, recall=None)])
    assert (check.status, "not measured" in check.detail) == ("warn", True)


@pytest.mark.parametrize(("size", "status"), [(79 * MIB, "ok"), (81 * MIB, "warn")])
def test_logs_are_judged_by_their_size(tmp_path: Path, size: int, status: str):
    log = tmp_path / "postgres" / "log" / "postgres-Mon.log"
    log.parent.mkdir(parents=True)
    log.touch()
    os.truncate(log, size)
    found = next(check for check in check_machine(tmp_path) if check.name == "log")
    assert found.status == status
    assert check_log(tmp_path, log_bytes=size).detail == found.detail


@pytest.mark.parametrize(("undone", "live", "status"), [(0, 0, "ok"), (3, 1, "ok"), (3, 0, "warn")])
def test_jobs_are_judged_by_whether_somebody_does_them(undone: int, live: int, status: str):
    check = check_jobs(undone, Workers(live=live, last_seen=None))
    assert (check.status, str(undone) in check.detail) == (status, True)


# --- on a real database --------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path, owner_url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=owner_url, embedder="deterministic")


@pytest.fixture
def app(settings: Settings, tmp_path: Path) -> Iterator[App]:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "anchor.md").write_text("# Anchors\n\nTwo of six tonnes.\n")
    with build(settings) as app:
        app.index(IndexRequest(path=tmp_path, project="roads", worktree=True))
        yield app


def test_a_job_that_waits_without_a_worker_is_warned_of(app: App, tmp_path: Path):
    app.defer_index(IndexRequest(path=tmp_path, project="roads", worktree=True))
    assert found(app, "jobs").status == "warn"


def found(app: App, name: str) -> Check:
    checks = examine(app.database, app.embedder, embedded=True)
    return next(check for check in checks if check.name == name)


def test_a_sound_database_passes_every_check(app: App):
    checks = examine(app.database, app.embedder, embedded=True)
    assert [check for check in checks if check.status != "ok"] == []


def test_a_dropped_policy_is_found(app: App, owner: psycopg.Connection):
    owner.execute("DROP POLICY documents_project ON lastro.documents")
    assert found(app, "row security").detail == "off or without policy: documents"


def test_row_security_switched_off_is_found(app: App, owner: psycopg.Connection):
    owner.execute("ALTER TABLE lastro.chunks DISABLE ROW LEVEL SECURITY")
    assert found(app, "row security").status == "fail"


def test_a_policy_that_lets_everything_through_is_found(app: App, owner: psycopg.Connection):
    owner.execute("CREATE POLICY wide ON lastro.chunks TO lastro_app USING (true)")
    assert found(app, "row security").detail == "rows leak through"


def test_an_invalid_index_is_found_with_the_command_that_mends_it(
    app: App, owner: psycopg.Connection
):
    owner.execute(
        "UPDATE pg_index SET indisvalid = false "
        "WHERE indexrelid = 'lastro.chunks_embedding_idx'::regclass"
    )
    check = found(app, "indexes")
    assert check.status == "fail"
    assert "REINDEX INDEX CONCURRENTLY lastro.chunks_embedding_idx;" in (check.remedy or "")


def test_a_missing_index_is_found(app: App, owner: psycopg.Connection):
    owner.execute("DROP INDEX lastro.chunks_search_vector_idx")
    assert found(app, "indexes").detail == "missing: chunks_search_vector_idx"


def test_chunks_without_vectors_are_found_and_counted(app: App, owner: psycopg.Connection):
    owner.execute(
        "UPDATE lastro.chunks SET embedding = NULL, embedding_model = NULL, "
        "embedding_version = NULL"
    )
    check = found(app, "index")
    assert (check.status, check.detail) == ("warn", "chunks without a vector: roads (1)")


def test_vectors_of_another_embedder_are_found(app: App, owner: psycopg.Connection):
    owner.execute("UPDATE lastro.active_embedder SET id = 'other', fingerprint = 'other'")
    check = found(app, "vectors of")
    assert (check.status, "LASTRO_EMBEDDER=other" in (check.remedy or "")) == ("fail", True)


def test_a_missing_vector_index_is_made_by_the_next_run(app: App, owner: psycopg.Connection):
    owner.execute("DROP INDEX lastro.chunks_embedding_idx")
    assert (found(app, "indexes").remedy or "").startswith("run `lastro index`")


def test_a_right_that_was_revoked_is_found_with_the_statement_that_gives_it(
    app: App, owner: psycopg.Connection
):
    owner.execute("REVOKE INSERT, DELETE ON lastro.documents FROM lastro_app")
    check = found(app, "rights")
    assert check.detail == "lastro_app lacks: documents INSERT, documents DELETE"
    assert "GRANT INSERT ON lastro.documents TO lastro_app;" in (check.remedy or "")


def test_rows_that_were_deleted_and_not_vacuumed_are_found(app: App, owner: psycopg.Connection):
    owner.execute("ALTER TABLE lastro.projects SET (autovacuum_enabled = false)")
    owner.execute(
        "INSERT INTO lastro.projects (slug, name)"
        " SELECT 'p' || n, 'p' FROM generate_series(1, 1200) AS n"
    )
    owner.execute("DELETE FROM lastro.projects WHERE name = 'p'")
    owner.execute("SELECT pg_stat_force_next_flush()")
    check = found(app, "dead rows")
    assert check.status == "warn"
    assert re.search(r"projects \(12\d\d beside \d\)", check.detail)
    assert "VACUUM (ANALYZE) lastro.projects;" in (check.remedy or "")


def test_an_embedder_that_is_down_is_found(app: App):
    nobody = OllamaEmbedder("nomic-embed-text", host="http://127.0.0.1:9")
    checks = {check.name: check for check in examine(app.database, nobody, embedded=True)}
    assert (checks["embedder"].status, "127.0.0.1:9" in checks["embedder"].detail) == ("fail", True)


@pytest.mark.parametrize("spared", [False, True])
def test_a_model_that_was_not_compared_is_told_with_the_reason(spared: bool):
    nobody = OllamaEmbedder("nomic-embed-text", host="http://127.0.0.1:9")
    nobody.recall(version="1", dimension=768)
    active = ActiveEmbedder(
        id=nobody.id, version="1", dimension=768, fingerprint=fingerprint(nobody)
    )
    check, trouble = check_index_embedder(active, nobody, spared=spared)
    assert (check.status, "127.0.0.1:9" in check.detail) == ("warn", True)
    assert isinstance(trouble, ProviderError)


# --- recall of a real index

WIDTH, ROWS, EXACT = 64, 3_000, 1_000


@pytest.fixture
def library(owner: psycopg.Connection, owner_url: str) -> Iterator[Database]:
    """A project of random vectors, which are far from one another: hard for a sparse graph."""
    project = add_project(owner, "roads")
    first = add_chunk(owner, project, content="lane")
    columns = (
        "project_id, document_id, scope, source_path, heading_path, line_start, line_end,"
        " char_start, char_end, content, language, token_count"
    )
    owner.execute(
        f"INSERT INTO lastro.chunks (id, ordinal, {columns})"
        f" SELECT md5(n::text)::uuid, n, {columns}"
        f" FROM lastro.chunks, generate_series(1, {ROWS - 1}) AS n WHERE id = %s",
        [first],
    )
    with connect(owner_url) as connection:
        store.add_vector_column(connection, WIDTH)
    owner.execute(
        "UPDATE lastro.chunks SET embedding_model = 'm', embedding_version = '1', embedding = ("
        " SELECT array_agg(sin(hashint4(ordinal * 64 + i)))::real[]::halfvec"
        f" FROM generate_series(1, {WIDTH}) AS i)"
    )
    owner.execute("ANALYZE lastro.chunks")
    with Database(owner_url) as database:
        yield database


def probed(library: Database) -> Probe:
    return probe_recall(library, list_states(library), exact_rows=EXACT)[0]


def test_the_index_that_lastro_makes_finds_what_an_exact_search_finds(
    library: Database, owner_url: str
):
    with connect(owner_url) as connection:
        store.add_vector_index(connection)
    probe = probed(library)
    assert (probe.slug, probe.samples) == ("roads", 10)
    assert probe.recall == pytest.approx(1.0, abs=0.05)


def test_an_index_that_misses_near_passages_is_found(library: Database, owner: psycopg.Connection):
    owner.execute(
        "CREATE INDEX chunks_embedding_idx ON lastro.chunks USING hnsw"
        " (embedding halfvec_cosine_ops) WITH (m = 2, ef_construction = 128)"
        " WHERE status = 'published'"
    )
    probe = probed(library)
    assert probe.recall is not None
    assert probe.recall < 0.9
    check = check_recall([probe])
    assert (check.status, "REINDEX" in (check.remedy or "")) == ("warn", True)


def test_a_project_that_is_searched_exactly_is_not_probed(library: Database):
    assert probe_recall(library, list_states(library), exact_rows=ROWS) == []


def test_a_schema_that_is_out_of_date_is_a_failed_check(
    settings: Settings, owner: psycopg.Connection
):
    owner.execute("DELETE FROM lastro.migrations")
    last = diagnose(settings)[-1]
    assert (last.status, last.remedy is not None) == ("fail", True)


def test_a_home_that_does_not_exist_yet_is_measured_where_it_would_be(
    settings: Settings, tmp_path: Path
):
    disk = next(check for check in diagnose(settings) if check.name == "disk")
    assert str(tmp_path / "home") in disk.detail
