"""The app over a server of the user's own, where owner and application are different logins."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from databases import address
from psycopg.sql import SQL, Identifier
from repositories import commit

from lastro.app import build, prepare_database
from lastro.config import Settings
from lastro.entity import Entity
from lastro.errors import ConfigError, EmbedderMismatch, InvalidInput, SchemaOutOfDate
from lastro.search import SearchRequest
from lastro.types import IndexRequest


@pytest.fixture
def application_url(owner_url: str, owner: psycopg.Connection) -> Iterator[str]:
    """Address of a login that may do what the application may, and no more."""
    name = f"clerk_{owner.info.dbname}"
    owner.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(name)))
    owner.execute(SQL("GRANT lastro_app TO {}").format(Identifier(name)))
    yield address(owner_url, user=name)
    owner.execute(SQL("DROP ROLE {}").format(Identifier(name)))


def settings(tmp_path: Path, **urls: str) -> Settings:
    return Settings(home=tmp_path / "home", embedder="deterministic", **urls)


def test_after_init_the_application_indexes_and_searches_without_the_owner(
    application_url: str, owner_url: str, tmp_path: Path
) -> None:
    commit(tmp_path / "manual", {"docs/a.md": "# Pump\n\nThe pump runs dry at noon.\n"})
    as_owner = settings(tmp_path, database_url=application_url, admin_database_url=owner_url)
    prepare_database(as_owner)
    with build(settings(tmp_path, database_url=application_url)) as app:
        report = app.index(IndexRequest(path=tmp_path / "manual"))
        outcome = app.search(SearchRequest(query="pump runs dry"), project="manual")
    assert report.embedding.embedded == 1
    assert outcome.vector_available
    assert [hit.content for hit in outcome.hits] == ["# Pump\n\nThe pump runs dry at noon."]


def test_nothing_but_the_last_step_of_erasing_needs_the_owner_after_init(
    application_url: str, owner_url: str, tmp_path: Path
) -> None:
    commit(tmp_path / "manual", {"docs/a.md": "# Pump\n\nThe pump runs dry at noon.\n"})
    prepare_database(settings(tmp_path, database_url=application_url, admin_database_url=owner_url))
    nobody = "postgresql://nobody@127.0.0.1:1/nothing"
    held = io.BytesIO()
    away = settings(tmp_path, database_url=application_url, admin_database_url=nobody)
    with build(away) as app:
        app.index(IndexRequest(path=tmp_path / "manual"))
        app.export_project("manual", held.write)
        held.seek(0)
        imported = app.import_project(held, project="copy")
        erased = app.erase_project("manual")
        left = [project.slug for project in app.projects()]
    assert (imported.chunks, erased.chunks) == (1, 1)
    assert not erased.vacuumed
    assert "cannot be reached" in (erased.not_vacuumed or "")
    assert left == ["copy"]


@pytest.mark.parametrize("made", ["database", "role"])
def test_an_address_that_is_not_the_owner_s_is_told_as_why_nothing_was_vacuumed(
    application_url: str, owner_url: str, new_database, tmp_path: Path, made: str
) -> None:
    commit(tmp_path / "manual", {"docs/a.md": "# Pump\n\nThe pump runs dry at noon.\n"})
    other = new_database() if made == "database" else application_url
    why = {"database": "lacks a part of Lastro's schema", "role": "clerk_.* does not own"}[made]
    prepare_database(settings(tmp_path, database_url=application_url, admin_database_url=owner_url))
    own = settings(tmp_path, database_url=application_url, admin_database_url=other)
    with build(own) as app:
        app.index(IndexRequest(path=tmp_path / "manual"))
        erased = app.erase_project("manual")
    assert not erased.vacuumed
    assert re.search(why, erased.not_vacuumed or "")


@pytest.mark.parametrize(
    "malformed",
    ["nonsense", "postgresql://owner@harbour:port/db", f"host={'a' * 64} dbname=db", "host=a..b"],
)
def test_an_owner_s_address_that_none_can_be_is_refused_before_anything_is_erased(
    application_url: str, owner_url: str, tmp_path: Path, malformed: str
) -> None:
    commit(tmp_path / "manual", {"docs/a.md": "# Pump\n\nThe pump runs dry at noon.\n"})
    prepare_database(settings(tmp_path, database_url=application_url, admin_database_url=owner_url))
    own = settings(tmp_path, database_url=application_url, admin_database_url=malformed)
    with build(own) as app:
        app.index(IndexRequest(path=tmp_path / "manual"))
        with pytest.raises(ConfigError, match="owner's address"):
            app.erase_project("manual")
        with pytest.raises(ConfigError, match="owner's address"):
            app.erase_documents(["docs/a.md"], project="manual")
        assert [project.documents for project in app.projects()] == [1]


def test_init_with_another_embedder_than_the_index_has_is_refused(
    owner_url: str, tmp_path: Path
) -> None:
    prepare_database(settings(tmp_path, database_url=owner_url))
    other = Settings(home=tmp_path / "home", embedder="use-m3", database_url=owner_url)
    with pytest.raises(EmbedderMismatch, match=r"deterministic.*use-m3"):
        prepare_database(other)


def test_a_server_without_the_schema_asks_for_init(server_url: str, new_database, tmp_path) -> None:
    with pytest.raises(SchemaOutOfDate) as caught:
        build(settings(tmp_path, database_url=new_database()))
    assert "lastro init" in (caught.value.remedy or "")


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_a_blank_name_is_no_project_and_not_the_one_of_a_setting(
    owner_url: str, tmp_path: Path, blank: str
) -> None:
    secret = Entity(key="s", title="Secret", text="The safe opens at nine.", type="note")
    own = Settings(
        home=tmp_path / "home", embedder="deterministic", database_url=owner_url, project="vault"
    )
    with build(own) as app:
        app.entities().upsert([secret])
        asked = SearchRequest(query="the safe opens at nine")
        assert len(app.search(asked).hits) == 1
        for attempt in (
            lambda: app.search(asked, project=blank),
            lambda: app.entities(blank).upsert([secret]),
            lambda: app.gaps(blank),
            lambda: app.index(IndexRequest(path=tmp_path, project=blank)),
        ):
            with pytest.raises(InvalidInput, match="name is blank"):
                attempt()
