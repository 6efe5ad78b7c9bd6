"""What happens to a project while the body of a request to it is still coming."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from databases import address, scratch_database
from repositories import commit
from service import Service, running, settings_of

from lastro import indexing, reindexing
from lastro.app import App, build
from lastro.config import Settings
from lastro.entity import Entity
from lastro.errors import NotFound
from lastro.types import IndexRequest, ReindexRequest

AT = "/api/projects/{project}"
ENTRY = {"title": "Rope", "text": "A rope.", "type": "part"}
RULE = {"name": "parts first", "entry": {"types": ["part"]}, "weight": 0.5, "reason": "a part"}
Route = tuple[str, str]
# Every route that reads a body: a path of the project ``yard``, and what may be sent there.
BODIES: dict[Route, tuple[str, object]] = {
    ("POST", f"{AT}/rag/search"): ("/rag/search", {"query": "rope"}),
    ("POST", f"{AT}/rag/reindex"): ("/rag/reindex", {}),
    ("POST", f"{AT}/sessions/{{session}}/events"): (
        "/sessions/s/events",
        [{"id": "e-1", "type": "chat.message", "content": "Where is the rope?"}],
    ),
    ("PUT", f"{AT}/entities/{{entity}}"): ("/entities/rope", ENTRY),
    ("POST", f"{AT}/entities/import"): ("/entities/import", {"key": "rope", **ENTRY}),
    ("POST", f"{AT}/gaps/dismiss"): ("/gaps/dismiss", {"ids": ["0ff11fc8"]}),
    ("POST", f"{AT}/gaps/reopen"): ("/gaps/reopen", {"ids": ["0ff11fc8"]}),
    ("POST", f"{AT}/gaps/resolve"): ("/gaps/resolve", {}),
    ("POST", f"{AT}/gaps/{{gap}}/accept"): ("/gaps/0ff11fc8/accept", {"unanswerable": True}),
    ("PATCH", f"{AT}/rules"): ("/rules", RULE),
    ("PATCH", f"{AT}/words"): ("/words", {"protect": "IT"}),
    ("POST", f"{AT}/keys"): ("/keys", {"role": "viewer"}),
    ("POST", f"{AT}/keys/{{key}}/rotate"): ("/keys/0123456789ab/rotate", {}),
}

# Those of them that make the project where there is none, for who needs no key.
MAKING = [route for route in BODIES if "events" in route[1] or "entities" in route[1]]
# As many at a time as have a turn: two of those that read lines.
LINES = [route for route in BODIES if "entities" in route[1] or route[0] == "PATCH"]
TOGETHER = [LINES[:2], LINES[2:], [route for route in BODIES if route not in LINES]]


@pytest.fixture(scope="module", name="settings")
def _settings(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    with scratch_database(server_url, template=template) as name:
        yield settings_of(address(server_url, dbname=name), tmp_path_factory.mktemp("yard") / "h")


@pytest.fixture(scope="module", name="service")
def _service(settings: Settings) -> Iterator[Service]:
    with running(settings) as service:
        yield service


@pytest.fixture(scope="module", name="app")
def _app(settings: Settings) -> Iterator[App]:
    with build(settings) as app:
        yield app


@pytest.fixture(name="yard")
def _yard(app: App) -> Iterator[str]:
    """The key of an administrator of the project ``yard``, which is gone afterwards."""
    made(app)
    yield app.keys.create("yard", role="admin").key
    if "yard" in slugs(app):
        app.erase_project("yard")


def made(app: App) -> None:
    app.entities("yard").upsert([Entity(key="hook", title="Hook", text="A hook.", type="part")])


def slugs(app: App) -> list[str]:
    return [project.slug for project in app.projects()]


class HalfSent:
    """A request that was let in, and whose body is still to come."""

    def __init__(self, service: Service, route: Route, key: str) -> None:
        path, body = BODIES[route]
        self._body = json.dumps(body).encode()
        place = urlsplit(service.url)
        head = f"{route[0]} {AT.format(project='yard')}{path} HTTP/1.1\r\nHost: x\r\n"
        head += f"Content-Length: {len(self._body)}\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {key}\r\n"
        head += "Expect: 100-continue\r\nConnection: close\r\n"
        with ExitStack() as unless_let_in:
            self._socket = unless_let_in.enter_context(
                socket.create_connection((place.hostname, place.port), timeout=30)
            )
            self._socket.sendall(f"{head}\r\n".encode())
            # A server says to go on when the application first asks for the body.
            assert self._socket.recv(65_536).startswith(b"HTTP/1.1 100 ")
            unless_let_in.pop_all()

    def answer(self) -> tuple[int, str]:
        """Send the body; the status and what was said."""
        told = b""
        with self._socket:
            self._socket.sendall(self._body)
            while part := self._socket.recv(65_536):
                told += part
        return int(told.split(b" ", 2)[1]), told.decode()


def test_every_route_that_reads_a_body_is_told_of_here(service: Service) -> None:
    with service.client() as client:
        paths = client.get("/openapi.json").json()["paths"]
    reading = {
        (method.upper(), path)
        for path, said in paths.items()
        for method, operation in said.items()
        if "requestBody" in operation and path.startswith(AT)
    }
    assert reading == BODIES.keys()


def answers(requests: Mapping[Route, HalfSent]) -> dict[Route, tuple[int, bool]]:
    """By route: the status, and whether the answer says that the project is not there."""
    told = {route: request.answer() for route, request in requests.items()}
    return {
        route: (status, "there is no project" in text) for route, (status, text) in told.items()
    }


def test_a_project_that_was_erased_meanwhile_is_not_made_again(
    service: Service, app: App, yard: str
) -> None:
    requests = {route: HalfSent(service, route, yard) for route in MAKING}
    app.erase_project("yard")
    assert answers(requests) == dict.fromkeys(MAKING, (404, True))
    assert slugs(app) == []


@pytest.mark.parametrize("routes", TOGETHER, ids=["entries", "rules and words", "others"])
def test_another_project_of_its_name_is_not_touched(
    service: Service, app: App, yard: str, routes: list[Route]
) -> None:
    requests = {route: HalfSent(service, route, yard) for route in routes}
    app.erase_project("yard")
    made(app)
    assert answers(requests) == dict.fromkeys(routes, (404, True))
    assert [entry.key for entry in app.entities("yard").list()] == ["hook"]
    assert app.sessions("yard").list() == []
    assert app.rules("yard").list() == []
    assert app.words("yard").list() == []
    assert app.keys.list("yard") == []
    assert app.jobs("yard").list() == []


def test_what_is_written_after_the_look_for_its_project_is_refused_where_that_is_gone(
    app: App, yard: str
) -> None:
    """By the number of the project, which nothing else has, and not by a second look."""

    def erased_first(line: bytes) -> Iterator[bytes]:
        app.erase_project("yard")
        yield line

    event = b'{"session": "s", "id": "e-1", "type": "chat.message", "content": "A rope."}'
    with pytest.raises(NotFound, match="erased while"):
        app.sessions("yard").append_lines(erased_first(event))
    made(app)
    with pytest.raises(NotFound, match="erased while"):
        app.words("yard").import_lines(erased_first(b'{"protect": "IT"}'))
    assert slugs(app) == []


def test_a_project_that_is_erased_while_it_is_indexed_again_is_not_made_again(
    app: App, tmp_path: Path, yard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(tmp_path / "yard", {"docs/rope.md": "# Rope\n\nThe rope is wet.\n"})
    app.index(IndexRequest(path=tmp_path / "yard", project="yard"))
    index = indexing.index

    def erased_before(*arguments: object, **named: object) -> object:
        app.erase_project("yard")
        return index(*arguments, **named)

    monkeypatch.setattr(reindexing.indexing, "index", erased_before)
    with pytest.raises(NotFound, match="there is no project"):
        app.reindex(ReindexRequest(project="yard"))
    assert slugs(app) == []
