"""Who may call which route of the service: every route, every role, one's own and other projects.

The routes are those of the service itself: one that is not told of here fails.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from databases import address, scratch_database
from seeded import FOREIGN, OWN, Seeded, seed
from service import Service, running, settings_of

from lastro.app import build, prepare_database
from lastro.roles import NEEDED, ROLES, Action, permits

AT = "/api/projects/{project}"
LINES = {"Content-Type": "application/x-ndjson"}
ENTRY = {"title": "Valve", "text": "A valve.", "type": "part"}
OPEN = {"/healthz", "/readyz", "/metrics", "/webhooks/git"}


@dataclass(frozen=True)
class Call:
    """A request that a role may make. ``path`` may name what is the role's own."""

    action: Action
    path: str = ""
    json: Any = None
    content: str | None = None
    ok: tuple[int, ...] = (200,)
    headers: Mapping[str, str] = field(default_factory=dict)


CALLS: dict[tuple[str, str], Call] = {
    ("POST", f"{AT}/rag/search"): Call("search", "/rag/search", {"query": "pump"}),
    ("POST", f"{AT}/rag/reindex"): Call("reindex", "/rag/reindex", {}, ok=(202,)),
    ("GET", f"{AT}/rag/coverage"): Call("read_coverage", "/rag/coverage"),
    ("GET", f"{AT}/rag/searches"): Call("read_searches", "/rag/searches"),
    ("GET", f"{AT}/sessions"): Call("read_events", "/sessions"),
    ("GET", f"{AT}/sessions/{{session}}"): Call("read_events", "/sessions/s%2F{other}"),
    ("DELETE", f"{AT}/sessions/{{session}}"): Call(
        "append_events", "/sessions/s%2F{role}", ok=(204,)
    ),
    ("GET", f"{AT}/sessions/{{session}}/events"): Call(
        "read_events", "/sessions/s%2F{other}/events"
    ),
    ("POST", f"{AT}/sessions/{{session}}/events"): Call(
        "append_events",
        "/sessions/new/events",
        content='{"id": "e-{role}", "type": "chat.message"}',
        headers=LINES,
    ),
    ("GET", f"{AT}/sessions/{{session}}/events/{{event}}"): Call(
        "read_events", "/sessions/s%2F{other}/events/e%2F1"
    ),
    ("POST", f"{AT}/sessions/{{session}}/end"): Call("append_events", "/sessions/s%2F{other}/end"),
    ("GET", f"{AT}/entities"): Call("read_entries", "/entities"),
    ("GET", f"{AT}/entities/{{entity}}"): Call("read_entries", "/entities/e%2F{other}"),
    ("PUT", f"{AT}/entities/{{entity}}"): Call("change_entries", "/entities/new", ENTRY),
    ("DELETE", f"{AT}/entities/{{entity}}"): Call(
        "change_entries", "/entities/e%2F{role}", ok=(204,)
    ),
    ("POST", f"{AT}/entities/import"): Call(
        "change_entries", "/entities/import", content="{}", headers=LINES
    ),
    ("GET", f"{AT}/gaps"): Call("list_gaps", "/gaps"),
    ("POST", f"{AT}/gaps/dismiss"): Call("decide_gaps", "/gaps/dismiss", {"ids": ["{gap-{role}}"]}),
    ("POST", f"{AT}/gaps/reopen"): Call("decide_gaps", "/gaps/reopen", {"ids": ["{gap-{role}}"]}),
    ("POST", f"{AT}/gaps/resolve"): Call("decide_gaps", "/gaps/resolve", {"ids": ["{gap-{role}}"]}),
    ("POST", f"{AT}/gaps/{{gap}}/accept"): Call(
        "decide_gaps", "/gaps/{gap-{role}}/accept", {"unanswerable": True}
    ),
    ("GET", f"{AT}/rules"): Call("keep_rules", "/rules"),
    ("PATCH", f"{AT}/rules"): Call("keep_rules", "/rules", content="{}", headers=LINES),
    ("DELETE", f"{AT}/rules/{{rule}}"): Call("keep_rules", "/rules/r%2F{role}", ok=(204,)),
    ("GET", f"{AT}/words"): Call("keep_words", "/words"),
    ("PATCH", f"{AT}/words"): Call("keep_words", "/words", content="{}", headers=LINES),
    ("DELETE", f"{AT}/words/{{word}}"): Call("keep_words", "/words/W{role}", ok=(204,)),
    ("GET", f"{AT}/profiles"): Call("list_profiles", "/profiles"),
    ("POST", f"{AT}/profiles/{{profile}}/adopt"): Call(
        "adopt_profiles", "/profiles/default@1/adopt"
    ),
    ("POST", f"{AT}/profiles/{{profile}}/rollback"): Call(
        "adopt_profiles", "/profiles/default/rollback"
    ),
    ("GET", f"{AT}/jobs"): Call("list_jobs", "/jobs"),
    ("GET", f"{AT}/jobs/{{job}}"): Call("list_jobs", "/jobs/{job-{role}}"),
    ("POST", f"{AT}/jobs/{{job}}/cancel"): Call("cancel_jobs", "/jobs/{job-{role}}/cancel"),
    ("POST", f"{AT}/jobs/{{job}}/retry"): Call(
        "cancel_jobs", "/jobs/{over-{role}}/retry", ok=(202,)
    ),
    ("GET", "/api/projects"): Call("list_projects"),
    ("GET", AT): Call("list_projects"),
    # Confirmed it would be gone: test_http_routes.py.
    ("DELETE", AT): Call("erase_project", ok=(400,)),
    ("GET", f"{AT}/usage"): Call("read_usage", "/usage"),
    ("POST", f"{AT}/keys"): Call("manage_keys", "/keys", {"role": "viewer"}, ok=(201,)),
    ("GET", f"{AT}/keys"): Call("manage_keys", "/keys"),
    ("DELETE", f"{AT}/keys/{{key}}"): Call("manage_keys", "/keys/{key-{role}}"),
    ("POST", f"{AT}/keys/{{key}}/rotate"): Call(
        "manage_keys", f"/keys/{{key-{OWN}}}/rotate", json={}
    ),
}
# What is called by a name or an id, by the place of that in a path.
NAMED = {
    ("GET", "/sessions/{}"): "s%2F{whose}",
    ("DELETE", "/sessions/{}"): "s%2F{whose}",
    ("GET", "/sessions/{}/events"): "s%2F{whose}",
    ("GET", "/sessions/{}/events/e%2F1"): "s%2F{whose}",
    ("POST", "/sessions/{}/end"): "s%2F{whose}",
    ("GET", "/entities/{}"): "e%2F{whose}",
    ("DELETE", "/entities/{}"): "e%2F{whose}",
    ("DELETE", "/rules/{}"): "r%2F{whose}",
    ("DELETE", "/words/{}"): "W{whose}",
    ("POST", "/gaps/{}/accept"): "gap",
    ("GET", "/jobs/{}"): "job",
    ("POST", "/jobs/{}/cancel"): "job",
    ("POST", "/jobs/{}/retry"): "over",
    ("DELETE", "/keys/{}"): "key",
    ("POST", "/keys/{}/rotate"): "key",
}
UNKNOWN = {"gap": "f" * 32, "job": "9999", "over": "9999", "key": "f" * 12}
BODIES = {"/gaps/{}/accept": {"unanswerable": True}, "/keys/{}/rotate": {}}


@dataclass(frozen=True)
class Plant:
    """The service, and a client for each key of the project ``plant``."""

    service: Service
    clients: Mapping[str | None, httpx.Client]
    seeded: Mapping[str, Seeded]

    def send(self, key: str | None, project: str, route: tuple[str, str]) -> httpx.Response:
        """Make the route's call with a key of the own project."""
        call, role = CALLS[route], key or "viewer"
        at = route[1] if route[1] == "/api/projects" else AT.format(project=project)
        content = (
            (call.content.replace("{role}", role) if call.json is None else json.dumps(call.json))
            if call.json is not None or call.content is not None
            else None
        )
        kind = {"Content-Type": "application/json"} if call.json is not None else {}
        return self.clients[key].request(
            route[0],
            at + self._filled(call.path, role),
            content=None if content is None else self._filled(content, role),
            headers={**kind, **call.headers},
        )

    def _filled(self, text: str, role: str) -> str:
        text = text.replace("{role}", role).replace("{other}", OWN)
        for name, value in self.seeded[OWN].names.items():
            text = text.replace(f"{{{name}}}", value)
        return text


@pytest.fixture(scope="module", name="plant")
def _plant(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plant]:
    folder = tmp_path_factory.mktemp("plant")
    with scratch_database(server_url, template=template) as name:
        settings = settings_of(address(server_url, dbname=name), folder / "home")
        prepare_database(settings)
        seeded = seed(settings, folder)
        with running(settings) as service:
            keys: dict[str | None, str | None] = {None: None, **seeded[OWN].keys}
            clients = {role: service.client(key) for role, key in keys.items()}
            yield Plant(service, clients, seeded)
            for client in clients.values():
                client.close()


def test_every_route_is_told_of_here(plant: Plant) -> None:
    paths = plant.clients[None].get("/openapi.json").json()["paths"]
    routes = {(method.upper(), path) for path, said in paths.items() for method in said}
    assert {route for route in routes if route[1] not in OPEN} == CALLS.keys()


@pytest.mark.parametrize("route", CALLS, ids=" ".join)
def test_nothing_is_answered_without_a_key(plant: Plant, route: tuple[str, str]) -> None:
    reply = plant.send(None, OWN, route)
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("route", CALLS, ids=" ".join)
def test_a_role_that_is_high_enough_is_answered_and_a_lower_one_refused(
    plant: Plant, route: tuple[str, str]
) -> None:
    call = CALLS[route]
    answers = {role: plant.send(role, OWN, route).status_code for role in ROLES}
    assert {role: status == 403 for role, status in answers.items()} == {
        role: not permits(role, call.action) for role in ROLES
    }
    assert {status for status in answers.values() if status != 403} <= {*call.ok}


@pytest.mark.parametrize("route", [r for r in CALLS if AT in r[1]], ids=" ".join)
def test_another_project_is_one_that_is_not_there(plant: Plant, route: tuple[str, str]) -> None:
    for role in ("viewer", "admin"):
        foreign, unknown = (plant.send(role, project, route) for project in (FOREIGN, "nowhere"))
        assert (foreign.status_code, unknown.status_code) == (404, 404)
        assert told(foreign).replace(FOREIGN, "nowhere") == told(unknown)


@pytest.mark.parametrize("route", NAMED, ids=" ".join)
def test_what_is_another_projects_is_not_there(plant: Plant, route: tuple[str, str]) -> None:
    """By its own name, in one's own project: the same answer as for a name that nothing has."""
    method, path = route
    pattern = NAMED[route]
    foreign = pattern.replace("{whose}", FOREIGN)
    unknown = pattern.replace("{whose}", "nobody")
    if pattern in UNKNOWN:
        foreign, unknown = plant.seeded[FOREIGN].names[f"{pattern}-{FOREIGN}"], UNKNOWN[pattern]
    replies = [
        plant.clients["admin"].request(
            method, f"/api/projects/{OWN}{path.format(name)}", json=BODIES.get(path)
        )
        for name in (foreign, unknown)
    ]
    assert [reply.status_code for reply in replies] == [404, 404]
    shown = [name.replace("%2F", "/") for name in (foreign, unknown)]
    assert told(replies[0]).replace(shown[0], shown[1]) == told(replies[1])


def test_gaps_of_another_project_are_in_no_batch(plant: Plant) -> None:
    foreign = plant.seeded[FOREIGN].names[f"gap-{FOREIGN}"]
    own = plant.seeded[OWN].names[f"gap-{OWN}"]
    with build(plant.service.settings) as app:
        before = app.gaps(FOREIGN).list()
        reply = plant.clients["editor"].post(
            f"/api/projects/{OWN}/gaps/dismiss", json={"ids": [own, foreign, "f" * 32]}
        )
        assert reply.json() == {"dismissed": [own], "unknown": [foreign, "f" * 32]}
        reply = plant.clients["editor"].post(
            f"/api/projects/{OWN}/gaps/reopen", json={"ids": [own, foreign]}
        )
        assert reply.json() == {"reopened": [own], "accepted": [], "unknown": [foreign]}
        assert app.gaps(FOREIGN).list() == before


def test_the_matrix_knows_every_action_that_a_route_can_ask_for() -> None:
    assert {call.action for call in CALLS.values()} == NEEDED.keys()


def told(reply: httpx.Response) -> str:
    """An error as it is told, but for the id of its request."""
    return json.dumps({**reply.json()["error"], "requestId": ""})
