"""The former release goes on beside the first steps of the next one, and not beside its last."""

import json
from pathlib import Path

import psycopg
import pytest
from repositories import commit
from service import running, settings_of

from lastro.app import build, diagnose, prepare_database
from lastro.cli import main
from lastro.db.migrate import migrate
from lastro.errors import SchemaOutOfDate
from lastro.sql import Migration, load_migrations
from lastro.types import IndexRequest

STEPS = load_migrations()
# All that a first step may do to what the former release reads and writes.
PRE = Migration(
    len(STEPS) + 1,
    "later",
    """
    ALTER TABLE lastro.chunks ADD COLUMN later text;
    ALTER TABLE lastro.documents ADD COLUMN later bigint NOT NULL DEFAULT 7;
    ALTER TABLE lastro.api_keys ADD COLUMN later timestamptz NOT NULL DEFAULT now();
    CREATE INDEX documents_later_idx ON lastro.documents (project_id, later);
    CREATE TABLE lastro.later (
        project_id bigint NOT NULL,
        id bigint NOT NULL,
        CONSTRAINT later_pkey PRIMARY KEY (project_id, id),
        CONSTRAINT later_project_fkey FOREIGN KEY (project_id)
            REFERENCES lastro.projects (id) ON DELETE CASCADE
    );
    ALTER TABLE lastro.later ENABLE ROW LEVEL SECURITY;
    CREATE POLICY later_project ON lastro.later TO lastro_app
        USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
    GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.later TO lastro_app;
    """,
    "1" * 64,
    "pre",
)
POST = Migration(
    len(STEPS) + 2, "last", "ALTER TABLE lastro.chunks DROP COLUMN later", "2" * 64, "post"
)
NEXT_RELEASE = (*STEPS, PRE, POST)
QUESTION = {"query": "Which pump runs dry?", "k": 3}


def test_the_former_release_serves_indexes_and_starts_until_the_next_one_is_finished(
    owner_url: str, tmp_path: Path
) -> None:
    settings = settings_of(owner_url, tmp_path / "home")
    request = IndexRequest(path=tmp_path / "manual", project="manual")
    commit(tmp_path / "manual", {"docs/pump.md": "# Pump\n\nThe pump runs dry at noon.\n"})
    prepare_database(settings)
    with build(settings) as app:
        app.index(request)
        key = app.keys.create("manual", role="viewer").key
        with running(settings) as service, service.client(key) as client:
            asked = "/api/projects/manual/rag/search"
            before = client.post(asked, json=QUESTION).json()["hits"]

            assert migrate(owner_url, steps=NEXT_RELEASE, finish=False) == 1

            assert client.post(asked, json=QUESTION).json()["hits"] == before != []
            commit(tmp_path / "manual", {"docs/tank.md": "# Tank\n\nA tank feeds the pump.\n"})
            assert app.index(request).documents.added == 1
            with build(settings) as started:
                started.require_walls()
            (found,) = client.post(asked, json={"query": "tank feeds"}).json()["hits"]
            assert found["content"] == "# Tank\n\nA tank feeds the pump."
    assert [check.detail for check in diagnose(settings) if check.status == "fail"] == []
    assert prepare_database(settings) == 0  # `lastro init` of the former release

    assert migrate(owner_url, steps=NEXT_RELEASE) == 1
    with pytest.raises(SchemaOutOfDate, match="newer than this release"):
        build(settings)


def test_init_tells_what_waits_and_finishes_it_when_told_to(
    owner_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    monkeypatch.setattr("lastro.db.migrate.load_migrations", lambda: NEXT_RELEASE)

    def init(*words: str) -> tuple[dict[str, int], str]:
        assert main(["init", "--format", "json", *words]) == 0
        printed = capsys.readouterr()
        return json.loads(printed.out), printed.err

    said, warned = init()
    assert said == {"migrationsApplied": 1, "migrationsWaiting": 1}
    assert "`lastro init --finish`" in warned
    assert init("--finish") == ({"migrationsApplied": 1, "migrationsWaiting": 0}, "")
    with psycopg.connect(owner_url) as connection:
        phases = connection.execute("SELECT phase FROM lastro.migrations ORDER BY version")
        assert [phase for (phase,) in phases][-2:] == ["pre", "post"]
