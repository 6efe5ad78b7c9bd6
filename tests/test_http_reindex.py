"""Indexing a project again over HTTP: now, by a worker, and what is refused."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from databases import address, scratch_database
from locks import Locked
from repositories import commit, git
from service import Service, running, settings_of

from lastro.app import App, build
from lastro.config import Settings
from lastro.errors import Conflict, InvalidInput, NotFound
from lastro.event import Event
from lastro.job import Job
from lastro.roles import ROLES
from lastro.types import IndexRequest, ReindexRequest
from lastro.worker import WorkerOptions, run_worker

PLACE = "/api/projects/fleet/rag/reindex"
ANCHOR = {"docs/anchor.md": "# Anchor\n\nThe anchor holds the ship.\n"}
BILGE = {"docs/bilge.md": "# Bilge\n\nThe bilge is pumped dry.\n"}


@pytest.fixture(scope="module", name="url")
def _url(server_url: str, template: str) -> Iterator[str]:
    with scratch_database(server_url, template=template) as name:
        yield address(server_url, dbname=name)


@pytest.fixture(scope="module", name="settings")
def _settings(url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return settings_of(url, tmp_path_factory.mktemp("fleet") / "home")


@pytest.fixture(scope="module", name="service")
def _service(settings: Settings) -> Iterator[Service]:
    with running(settings) as service:
        yield service


@pytest.fixture(scope="module", name="app")
def _app(settings: Settings) -> Iterator[App]:
    with build(settings) as app:
        yield app


@pytest.fixture(name="fleet")
def _fleet(tmp_path: Path, app: App) -> Iterator[Path]:
    """The repository of the project ``fleet``, with one page."""
    commit(tmp_path / "fleet", ANCHOR)
    app.index(IndexRequest(path=tmp_path / "fleet", project="fleet"))
    yield tmp_path / "fleet"
    app.erase_project("fleet")


def ask(
    service: Service, app: App, body: Any, *, role: str = "maintainer", wait: str | None = None
) -> httpx.Response:
    with service.client(app.keys.create("fleet", role=role).key) as client:
        return client.post(PLACE, json=body, params={} if wait is None else {"wait": wait})


def code_of(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


def paths(app: App) -> dict[str, int]:
    return {scope.scope: scope.indexed for scope in app.coverage("fleet").scopes if scope.indexed}


def said_once() -> Event:
    return Event(session="s", id="1", seq=None, type="agent.response", content="The keel is clean.")


def work(settings: Settings) -> None:
    run_worker(settings, WorkerOptions(until="empty"))


def waiting(app: App) -> list[Job]:
    return app.jobs("fleet").list(states=["queued", "waiting"])


# --- what is for maintainers


def test_folders_and_addresses_are_told_to_maintainers_alone(
    service: Service, app: App, fleet: Path, settings: Settings
) -> None:
    fleet.rename(fleet.parent / "moved")
    id_ = app.defer_reindex(ReindexRequest(project="fleet", source=str(fleet))).id
    work(settings)
    assert app.jobs("fleet").get(id_).error is not None
    told: dict[str, list[Any]] = {}
    for role in ROLES:
        with service.client(app.keys.create("fleet", role=role).key) as client:
            replies = [
                client.get(f"/api/projects/fleet/{path}")
                for path in ("jobs", f"jobs/{id_}", "rag/coverage")
            ]
        assert [reply.status_code for reply in replies] == [200] * 3
        told[role] = replies
    knows = {role: [str(fleet) in one.text for one in replies] for role, replies in told.items()}
    assert knows == {
        "viewer": [False] * 3,
        "editor": [False] * 3,
        "maintainer": [True] * 3,
        "admin": [True] * 3,
    }
    job, source = told["viewer"][1].json(), told["viewer"][2].json()["sources"][0]
    assert (job["request"], job["error"]["code"]) == (None, "NOT_FOUND")
    assert source["root"] is None


# --- by a worker


def test_a_job_is_answered_with_its_place_and_that_nobody_is_there_to_run_it(
    service: Service, app: App, fleet: Path
) -> None:
    reply = ask(service, app, {})
    assert reply.status_code == 202
    said = reply.json()
    assert (said["job"]["kind"], said["job"]["state"]) == ("reindex", "queued")
    assert said["workers"]["live"] == 0
    assert reply.headers["Location"] == f"/api/projects/fleet/jobs/{said['job']['id']}"


def test_a_worker_indexes_what_is_there_when_it_runs(
    service: Service, app: App, fleet: Path, settings: Settings
) -> None:
    ask(service, app, {})
    head = commit(fleet, BILGE)
    work(settings)
    assert paths(app) == {"docs": 2}
    assert app.coverage("fleet").revision == head


def test_a_job_is_one_however_often_it_is_asked_for_and_does_all_that_was_asked(
    service: Service, app: App, fleet: Path
) -> None:
    bodies = [{"scopes": ["docs"]}, {"rebuild": True, "scopes": ["session"]}, {"scopes": ["docs"]}]
    ids = {ask(service, app, body).json()["job"]["id"] for body in bodies}
    (job,) = waiting(app)
    assert ids == {job.id}
    assert job.request == {"scopes": ["docs", "session"], "rebuild": True}


def test_a_ref_that_was_asked_for_is_not_lost_to_a_later_job_without_one(
    service: Service, app: App, fleet: Path, settings: Settings
) -> None:
    git(fleet, "branch", "calm")
    commit(fleet, BILGE)
    ask(service, app, {"ref": "calm"})
    ask(service, app, {})
    work(settings)
    assert app.sources("fleet")[0].ref == "calm"
    assert paths(app) == {"docs": 1}


# --- now


def test_who_waits_gets_the_report_of_an_index_run(service: Service, app: App, fleet: Path) -> None:
    head = commit(fleet, BILGE)
    reply = ask(service, app, {}, wait="true")
    assert reply.status_code == 200
    report = reply.json()
    assert (report["documents"]["added"], report["documents"]["unchanged"]) == (1, 1)
    assert (report["revision"], report["chunks"]) == (head, 2)
    assert paths(app) == {"docs": 2}


def test_a_run_that_is_waited_for_has_the_time_of_a_long_one(
    settings: Settings, app: App, fleet: Path
) -> None:
    with running(settings, http={"deadline_s": 0.001, "long_deadline_s": 60}) as service:
        assert ask(service, app, {}).status_code == 503
        assert ask(service, app, {}, wait="yes").status_code == 200


def test_sources_that_are_several_are_all_indexed_and_counted_together(
    service: Service, app: App, fleet: Path, tmp_path: Path
) -> None:
    commit(tmp_path / "port", {"docs/quay.md": "# Quay\n\nThe quay is long.\n"})
    app.index(IndexRequest(path=tmp_path / "port", project="fleet"))
    commit(fleet, BILGE)
    commit(tmp_path / "port", {"docs/crane.md": "# Crane\n\nThe crane lifts.\n"})
    report = ask(service, app, {}, wait="true").json()
    # fleet: one new, one as it was; port the same
    assert (report["documents"]["added"], report["documents"]["unchanged"]) == (2, 2)
    assert report["revision"] is None
    assert report["chunks"] == 4


def test_a_source_that_is_gone_keeps_no_other_from_its_turn(
    service: Service, app: App, fleet: Path, tmp_path: Path
) -> None:
    commit(tmp_path / "a-port", {"docs/quay.md": "# Quay\n\nThe quay is long.\n"})
    app.index(IndexRequest(path=tmp_path / "a-port", project="fleet"))
    (tmp_path / "a-port").rename(tmp_path / "moved")
    commit(fleet, BILGE)
    reply = ask(service, app, {}, wait="true")
    assert code_of(reply) == (404, "NOT_FOUND")
    assert paths(app) == {"docs": 3}


def test_sessions_are_indexed_too_and_a_rebuild_of_a_scope_makes_no_other_again(
    service: Service, app: App, fleet: Path
) -> None:
    app.sessions("fleet").append([said_once()])
    report = ask(service, app, {}, wait="true").json()
    assert (report["documents"]["added"], report["documents"]["unchanged"]) == (1, 1)
    again = ask(service, app, {"scopes": ["session"], "rebuild": True}, wait="true").json()
    assert (again["documents"]["changed"], again["documents"]["unchanged"]) == (1, 0)


def test_a_ref_moves_a_project_of_one_source(service: Service, app: App, fleet: Path) -> None:
    git(fleet, "branch", "calm")
    commit(fleet, BILGE)
    assert ask(service, app, {"ref": "calm"}, wait="true").json()["chunks"] == 1
    assert ask(service, app, {"ref": "HEAD"}, wait="true").json()["chunks"] == 2


def test_who_hangs_up_while_it_waits_frees_the_work(
    service: Service, app: App, fleet: Path, url: str
) -> None:
    commit(fleet, BILGE)
    key = app.keys.create("fleet", role="maintainer").key
    place = urlsplit(service.url)
    head = f"POST {PLACE}?wait=true HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
    kept = f"Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n\r\n"
    with Locked(url) as locked:
        with socket.create_connection((place.hostname, place.port)) as client:
            client.sendall((head + kept).encode() + b"{}")
            locked.until_waiting(1)
        locked.until_waiting(0)
    # The project's turn is free too, and the work is still to be done.
    assert app.reindex(ReindexRequest(project="fleet")).documents.added == 1


# --- what is refused


@pytest.mark.parametrize("body", [{"ref": " "}, {"ref": "^main"}, {"scopes": ["code"]}, {"all": 1}])
def test_what_can_name_nothing_is_refused_and_no_job_is_made(
    service: Service, app: App, fleet: Path, body: Any
) -> None:
    assert code_of(ask(service, app, body)) == (400, "INVALID_INPUT")
    assert waiting(app) == []


def test_a_ref_of_several_sources_is_refused(
    service: Service, app: App, fleet: Path, tmp_path: Path
) -> None:
    commit(tmp_path / "port", {"docs/quay.md": "# Quay\n\nThe quay is long.\n"})
    app.index(IndexRequest(path=tmp_path / "port", project="fleet"))
    assert code_of(ask(service, app, {"ref": "main"})) == (400, "INVALID_INPUT")


def test_a_ref_of_a_folder_that_is_read_as_it_lies_is_refused(app: App, fleet: Path) -> None:
    app.index(IndexRequest(path=fleet, project="fleet", worktree=True))
    with pytest.raises(InvalidInput, match="as its files lie"):
        app.defer_reindex(ReindexRequest(project="fleet", ref="main"))


def test_a_project_without_anything_and_one_that_is_not_there_are_told_apart(app: App) -> None:
    app.sessions("bare").append([])
    with pytest.raises(Conflict, match="has nothing that could be indexed again") as refused:
        app.reindex(ReindexRequest(project="bare"))
    assert "lastro index PATH" in (refused.value.remedy or "")
    with pytest.raises(NotFound):
        app.reindex(ReindexRequest(project="nowhere"))


def test_files_of_a_project_that_has_none_are_refused_and_its_sessions_are_not(app: App) -> None:
    app.sessions("talks").append([said_once()])
    with pytest.raises(Conflict, match="of the scopes docs"):
        app.defer_reindex(ReindexRequest(project="talks", scopes=("docs",)))
    assert app.reindex(ReindexRequest(project="talks")).documents.added == 1


def test_an_editor_may_not(service: Service, app: App, fleet: Path) -> None:
    assert code_of(ask(service, app, {}, role="editor")) == (403, "FORBIDDEN")
