"""The doctor: each fault is found and named, and a sound database passes."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lastro.app import App, build, diagnose
from lastro.config import Settings
from lastro.doctor import (
    check_disk,
    check_indexes,
    check_pgvector,
    check_roles,
    check_server,
    check_shared_memory,
    check_vectors,
    check_walls,
    examine,
)
from lastro.server import IndexFacts, RoleFacts, ServerFacts
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
    probe_distance=0.2857,
)
SOUND_ROLES = RoleFacts(
    login="harbour_user",
    login_is_superuser=False,
    app_is_superuser=False,
    app_bypasses=False,
    app_owns=0,
    acting_as="lastro_app",
)


def changed(facts, **changes):
    return type(facts)(**{name: getattr(facts, name) for name in facts.__slots__} | changes)


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
    assert check_server(changed(SOUND_SERVER, **changes)).status == status


@pytest.mark.parametrize(
    ("free_bytes", "status"), [(5000 * MIB, "ok"), (500 * MIB, "warn"), (50 * MIB, "fail")]
)
def test_a_disk_is_judged_by_what_is_free(free_bytes: int, status: str):
    assert check_disk(Path("/harbour"), free_bytes=free_bytes).status == status


def test_docker_s_small_shared_memory_is_warned_of():
    facts = changed(SOUND_SERVER, shared_memory_type="posix")
    assert [check.status for check in check_shared_memory(facts, shm_bytes=64 * MIB)] == ["warn"]


def test_enough_shared_memory_passes():
    facts = changed(SOUND_SERVER, shared_memory_type="posix")
    assert [check.status for check in check_shared_memory(facts, shm_bytes=512 * MIB)] == ["ok"]


def test_the_shared_memory_of_another_machine_is_not_judged():
    facts = changed(SOUND_SERVER, shared_memory_type="posix", over_socket=False)
    assert check_shared_memory(facts, shm_bytes=64 * MIB) == []


@pytest.mark.parametrize(
    "fault",
    [
        {"app_is_superuser": True},
        {"app_bypasses": True},
        {"app_owns": 3},
        {"acting_as": "harbour_owner"},
    ],
)
def test_an_application_role_that_is_not_held_back_is_a_fault(fault: dict):
    assert check_roles(changed(SOUND_ROLES, **fault), embedded=False).status == "fail"


@pytest.mark.parametrize(("embedded", "status"), [(True, "ok"), (False, "warn")])
def test_a_superuser_s_login_is_for_the_embedded_database_alone(embedded: bool, status: str):
    facts = changed(SOUND_ROLES, login_is_superuser=True)
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


def test_no_project_is_no_fault():
    assert check_vectors([]).status == "ok"


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
