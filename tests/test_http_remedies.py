"""Remedies over HTTP: a client is told of routes, and never to type a command."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rows import add_project
from service import Service, running, settings_of

from lastro.app import build
from lastro.errors import InvalidInput, SchemaOutOfDate
from lastro.http.answers import refusal
from lastro.http.remedies import ROUTES, in_http, remedy_in_http

AT = "/api/projects/pond"


@pytest.fixture
def service(owner_url: str, tmp_path: Path) -> Iterator[Service]:
    with psycopg.connect(owner_url) as connection:
        add_project(connection, "pond")
    with running(settings_of(owner_url, tmp_path / "home")) as made:
        yield made


def key_of(service: Service, *, role: str) -> str:
    with build(service.settings) as app:
        return app.keys.create("pond", role=role).key


@pytest.mark.parametrize(
    ("remedy", "told"),
    [
        ("see `lastro jobs`", "see `GET /api/projects/{project}/jobs`"),
        (
            "wait for it, or `lastro jobs cancel 7` first",
            "wait for it, or `POST /api/projects/{project}/jobs/{job}/cancel` first",
        ),
        ("give --place, or --unanswerable", "give `places`, or `unanswerable`"),
        ("use 1 or more", "use 1 or more"),
        ("run `lastro init`", "for who keeps the service: run `lastro init`"),
        ("set LASTRO_EMBEDDER=minilm", "for who keeps the service: set LASTRO_EMBEDDER=minilm"),
        ("name another with --project", "for who keeps the service: name another with --project"),
    ],
)
def test_a_remedy_names_a_route_or_whose_it_is(remedy: str, told: str) -> None:
    assert remedy_in_http(remedy) == told


def test_what_is_said_of_a_degraded_part_names_a_route() -> None:
    assert in_http("no vectors yet; run `lastro index`") == (
        "no vectors yet; run `POST /api/projects/{project}/rag/reindex`"
    )


def test_each_route_of_a_remedy_is_one_of_the_service(service: Service) -> None:
    with service.client() as client:
        paths = client.get("/openapi.json").json()["paths"]
    for route in ROUTES.values():
        method, path = route.split(" ")
        assert method.lower() in paths[path]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"{AT}/jobs/7", None),
        ("GET", f"{AT}/sessions/s", None),
        ("GET", f"{AT}/entities/e", None),
        ("DELETE", f"{AT}/keys/k", None),
        ("DELETE", f"{AT}/rules/r", None),
        ("DELETE", f"{AT}/words/w", None),
        ("POST", f"{AT}/gaps/dismiss", {"ids": ["x"]}),
        ("POST", f"{AT}/gaps/dismiss", {"ids": ["0ff11fc8"]}),
        ("POST", f"{AT}/gaps/0ff11fc8/accept", {}),
        ("POST", f"{AT}/profiles/default/adopt", None),
        ("POST", f"{AT}/rag/search", {"query": "pond", "filter": {"status": "draft"}}),
        ("GET", "/api/projects/else", None),
    ],
)
def test_a_refusal_tells_a_client_no_command(
    service: Service, method: str, path: str, body: object
) -> None:
    with service.client(key_of(service, role="admin")) as client:
        error = client.request(method, path, json=body).json()["error"]
    assert "lastro " not in error["remedy"]
    assert " --" not in error["remedy"]


def test_a_search_without_vectors_tells_a_client_no_command(service: Service) -> None:
    with service.client(key_of(service, role="viewer")) as client:
        outcome = client.post(f"{AT}/rag/search", json={"query": "frog"}).json()
    details = [part["detail"] for part in outcome["degraded"]]
    assert any("`POST /api/projects/{project}/rag/reindex`" in detail for detail in details)


def test_no_key_is_told_who_makes_one(service: Service) -> None:
    with service.client() as client, service.client("lastro_1_x_y") as wrong:
        for said in (client.get(AT), wrong.get(AT)):
            assert "an administrator" in said.json()["error"]["remedy"]


def test_an_error_keeps_its_own_remedy_for_other_doors() -> None:
    error = InvalidInput("no", remedy="see `lastro jobs`")
    refusal(error, request_id="1")
    assert error.remedy == "see `lastro jobs`"


def test_a_stranger_is_told_no_remedy_of_a_fault() -> None:
    error = SchemaOutOfDate("no", remedy="run `lastro init`")
    assert b"lastro init" not in bytes(refusal(error, request_id="1", is_told=False).body)
