"""What the routes of the service answer: pages, events, entries, erasing, examples, documents."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from databases import address, scratch_database
from seeded import FOREIGN, OWN, Seeded, seed
from service import Service, running, settings_of

from lastro.app import build, prepare_database
from lastro.entity import Entity
from lastro.event import Event
from lastro.search import SearchRequest
from lastro.store.sessions import PAGE_BYTES
from lastro.wire import to_json

REFERENCE = Path(__file__).parent.parent / "docs" / "reference" / "http.md"
AT = f"/api/projects/{OWN}"
LINES = {"Content-Type": "application/x-ndjson"}
# Of /openapi.json, in the project that is seeded.
NAMES = {
    "project": OWN,
    "session": f"s%2F{OWN}",
    "event": "e%2F1",
    "entity": "valve-7",
    "rule": f"r%2F{OWN}",
    "word": f"W{OWN}",
    "profile": "default@1",
}


@pytest.fixture(scope="module", name="seeded_url")
def _seeded_url(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, Mapping[str, Seeded]]]:
    folder = tmp_path_factory.mktemp("plant")
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        prepare_database(settings_of(url, folder / "home"))
        yield url, folder, seed(settings_of(url, folder / "home"), folder)


@pytest.fixture(scope="module", name="service")
def _service(seeded_url: tuple[str, Path, Any]) -> Iterator[Service]:
    with running(settings_of(seeded_url[0], seeded_url[1] / "home")) as service:
        yield service


@pytest.fixture(scope="module", name="admin")
def _admin(
    service: Service, seeded_url: tuple[str, Path, Mapping[str, Seeded]]
) -> Iterator[httpx.Client]:
    with service.client(seeded_url[2][OWN].keys["admin"]) as client:
        yield client


@pytest.fixture(scope="module", name="document")
def _document(admin: httpx.Client) -> dict[str, Any]:
    return admin.get("/openapi.json").json()


# --- documents


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, said in document["paths"].items():
        for method, operation in said.items():
            yield method.upper(), path, operation


def test_the_reference_tells_of_the_same_routes_as_openapi_does(document: dict[str, Any]) -> None:
    told = set()
    for row in re.findall(r"^\| (?:GET|PUT|POST|PATCH|DELETE) \|.*$", REFERENCE.read_text(), re.M):
        method, path, role, names, _, answer = (cell.strip(" `") for cell in row.split("|")[1:-1])
        at = {"..": "/api/projects", "-": "/api/projects/{project}"}.get(
            path, "/api/projects/{project}" + path
        )
        told.add((method, at, role, *sorted(re.findall(r"\w+", names)), answer[:3]))
    made = set()
    for method, path, operation in operations(document):
        if "x-role" not in operation:
            continue
        names = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
        status = min(operation["responses"])
        made.add((method, path, operation["x-role"], *sorted(names), status))
    assert told == made


def test_every_route_is_described(document: dict[str, Any]) -> None:
    assert [path for _, path, said in operations(document) if not said.get("description")] == []


def examples(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """Method, path, kind of content and value of each example of a body."""
    for method, path, operation in operations(document):
        if "x-role" not in operation:
            continue
        for kind, said in operation.get("requestBody", {}).get("content", {}).items():
            values = [one["value"] for one in said.get("examples", {}).values()]
            name = said["schema"].get("$ref", "").rpartition("/")[2]
            values += document["components"]["schemas"].get(name, {}).get("examples", [])
            assert values, f"{method} {path} has a body and no example"
            for value in values:
                yield method, path, kind, value


def test_every_example_of_openapi_gets_the_answer_that_is_documented_there(
    admin: httpx.Client,
    document: dict[str, Any],
    service: Service,
    seeded_url: tuple[str, Path, Mapping[str, Seeded]],
) -> None:
    own = seeded_url[2][OWN].names
    names = {**NAMES, "gap": own[f"gap-{OWN}"], "key": own["key-editor"]}
    sent = [*examples(document)]
    assert len(sent) > 10
    for method, path, kind, value in sent:
        content = value if isinstance(value, str) else json.dumps(value)
        reply = admin.request(
            method, path.format(**names), content=content, headers={"Content-Type": kind}
        )
        assert 200 <= reply.status_code < 300, (method, path, value, reply.text)
        check_shape(document, method, path, reply)


def test_what_is_read_has_the_documented_shape(
    admin: httpx.Client,
    document: dict[str, Any],
    seeded_url: tuple[str, Path, Mapping[str, Seeded]],
) -> None:
    own = seeded_url[2][OWN].names
    names = {**NAMES, "entity": f"e%2F{OWN}", "job": own[f"job-{OWN}"]}
    for method, path, operation in operations(document):
        if method == "GET" and "x-role" in operation:
            reply = admin.get(path.format(**names))
            assert reply.status_code == 200, reply.text
            check_shape(document, method, path, reply)


def check_shape(document: Mapping[str, Any], method: str, path: str, reply: httpx.Response) -> None:
    said = document["paths"][path][method.lower()]["responses"][str(reply.status_code)]
    if reply.status_code == 204:
        assert reply.content == b""
        return
    schema = {
        **said["content"]["application/json"]["schema"],
        "components": document["components"],
    }
    jsonschema_rs.validator_for(schema).validate(reply.json())


# --- pages


def pages(client: httpx.Client, path: str, name: str, *, limit: int) -> list[list[Any]]:
    """Every page of a list."""
    found, cursor = [], None
    while True:
        asked = {"limit": limit, **({} if cursor is None else {"cursor": cursor})}
        reply = client.get(f"{AT}{path}", params=asked).json()
        found.append(reply[name])
        cursor = reply["nextCursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/sessions", "sessions"),
        ("/entities", "entities"),
        ("/gaps", "gaps"),
        ("/rules", "rules"),
        ("/words", "words"),
        ("/profiles", "profiles"),
        ("/jobs", "jobs"),
        ("/keys", "keys"),
        ("/rag/searches", "searches"),
    ],
)
def test_the_pages_of_a_list_together_are_the_list(
    admin: httpx.Client, path: str, name: str
) -> None:
    def told(found: list[Any]) -> list[Any]:
        return [{**one, "lastUsedAt": None} for one in found]  # which a request may change

    [whole] = pages(admin, path, name, limit=200)
    cut = pages(admin, path, name, limit=2)
    assert len(whole) >= 3
    assert [one for page in cut for one in told(page)] == told(whole)
    assert [len(page) for page in cut[:-1]] == [2] * (len(cut) - 1)


def test_what_comes_in_between_two_pages_moves_nothing_else(
    admin: httpx.Client, service: Service
) -> None:
    first = admin.get(f"{AT}/entities", params={"limit": 2}).json()
    before = admin.get(f"{AT}/entities", params={"limit": 200}).json()["entities"]
    with build(service.settings) as app:
        new = Entity(key="a", title="A", text="At the beginning.", type="part")
        app.entities(OWN).upsert([new])
        second = admin.get(f"{AT}/entities", params={"limit": 2, "cursor": first["nextCursor"]})
        app.entities(OWN).remove(["a"])
    assert [*first["entities"], *second.json()["entities"]] == before[:4]


@pytest.mark.parametrize(
    "asked",
    [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"cursor": "x"}, {"cursor": ""}, {"offset": 2}],
)
def test_a_page_that_cannot_be_asked_for_is_refused(
    admin: httpx.Client, asked: dict[str, Any]
) -> None:
    reply = admin.get(f"{AT}/sessions", params=asked)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")


def test_a_cursor_of_another_list_is_refused(admin: httpx.Client) -> None:
    cursor = admin.get(f"{AT}/sessions", params={"limit": 1}).json()["nextCursor"]
    reply = admin.get(f"{AT}/entities", params={"cursor": cursor})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")


# --- events


def said(id_: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "type": "chat.message", "content": f"The lever {id_} is bent.", **more}


def test_events_come_as_an_array_or_as_lines_and_once(admin: httpx.Client) -> None:
    at = f"{AT}/sessions/levers/events"
    first = admin.post(at, json=[said("1"), said("2")])
    lines = "".join(json.dumps(one) + "\n" for one in (said("2"), said("3")))
    second = admin.post(at, content=lines, headers=LINES)
    counts = [reply.json()["events"] for reply in (first, second)]
    assert [(one["added"], one["unchanged"]) for one in counts] == [(2, 0), (1, 1)]
    assert [one["id"] for one in admin.get(at).json()["events"]] == ["1", "2", "3"]


def test_refused_events_are_listed_and_the_rest_goes_in(admin: httpx.Client) -> None:
    items = [said("a"), said("b", session="another"), said("a", content="else"), 7, said("c")]
    reply = admin.post(f"{AT}/sessions/refusals/events", json=items)
    events = reply.json()["events"]
    assert events["added"] == 2
    assert [(one["line"], one.get("key")) for one in events["refused"]] == [
        (2, "b"),
        (3, "a"),
        (4, None),
    ]
    assert "of the session 'another'" in events["refused"][0]["reason"]


def test_events_can_be_searched_once_their_session_is_ended_and_lead_back(
    admin: httpx.Client,
) -> None:
    text = "The quorum of gannets meets at dusk."
    admin.post(f"{AT}/sessions/gannets%2F7/events", json=[said("e/9", content=text)])
    assert admin.get(f"{AT}/sessions/gannets%2F7").json()["current"] is False
    assert admin.post(f"{AT}/sessions/gannets%2F7/end").json()["sessions"]["added"] == 1
    hit = admin.post(f"{AT}/rag/search", json={"query": "quorum of gannets"}).json()["hits"][0]
    assert (hit["origin"]["sessionId"], hit["origin"]["eventId"]) == ("gannets/7", "e/9")
    event = admin.get(f"{AT}/sessions/gannets%2F7/events/e%2F9").json()
    assert event["content"] == hit["content"] == text


def test_a_page_of_large_events_has_few_of_them(admin: httpx.Client, service: Service) -> None:
    half = "x" * (PAGE_BYTES // 2)
    with build(service.settings) as app:
        log = app.sessions(OWN)
        log.append(
            Event(session="large", id=str(n), seq=n, type="tool.result", content=half)
            for n in range(3)
        )
    cut = pages(admin, "/sessions/large/events", "events", limit=50)
    assert [[one["id"] for one in page] for page in cut] == [["0", "1"], ["2"]]


@pytest.mark.parametrize("body", [b"", b"{}", b"[", b"7", b"\xff", b'[{"a": 1, "a": 2}]'])
def test_what_is_no_array_is_refused(admin: httpx.Client, body: bytes) -> None:
    reply = admin.post(
        f"{AT}/sessions/none/events", content=body, headers={"Content-Type": "application/json"}
    )
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")


# --- entries


def test_an_entry_is_read_as_it_was_put_and_found(admin: httpx.Client) -> None:
    entry = {"title": "Gasket", "text": "A gasket of cork.", "type": "part", "rule_weight": 0.5}
    at = f"{AT}/entities/g%2F1"
    assert admin.put(at, json=entry).json()["entries"]["added"] == 1
    assert admin.put(at, json=entry).json()["entries"]["unchanged"] == 1
    assert admin.get(at).json() == {
        **entry, "key": "g/1", "status": "published", "attributes": {},
    }  # fmt: skip
    hits = admin.post(f"{AT}/rag/search", json={"query": "gasket of cork"}).json()["hits"]
    assert hits[0]["origin"]["entityKey"] == "g/1"


def test_an_entry_whose_key_is_not_that_of_its_address_is_refused(admin: httpx.Client) -> None:
    entry = {"key": "other", "title": "A", "text": "A.", "type": "part"}
    assert admin.put(f"{AT}/entities/g2", json=entry).status_code == 400


def test_an_import_lists_refused_lines_and_stores_the_rest(admin: httpx.Client) -> None:
    lines = b'{"key": "i1", "title": "I", "text": "One.", "type": "part"}\n{"key": "i2"}\n7\n'
    reply = admin.post(f"{AT}/entities/import", content=lines, headers=LINES)
    entries = reply.json()["entries"]
    assert (reply.status_code, entries["added"]) == (200, 1)
    assert [one["line"] for one in entries["refused"]] == [2, 3]


def test_a_strict_import_stores_nothing_beside_a_refused_line(admin: httpx.Client) -> None:
    lines = b'{"key": "strict", "title": "I", "text": "One.", "type": "part"}\n{"key": "i2"}\n'
    reply = admin.post(f"{AT}/entities/import?strict=true", content=lines, headers=LINES)
    assert reply.status_code == 400
    assert admin.get(f"{AT}/entities/strict").status_code == 404


@pytest.mark.parametrize("status", ["draft", "archived"])
def test_what_is_not_published_is_not_there_for_a_viewer(
    service: Service,
    admin: httpx.Client,
    seeded_url: tuple[str, Path, Mapping[str, Seeded]],
    status: str,
) -> None:
    entry = {"title": "Secret", "text": "Unsaid.", "type": "part", "status": status}
    admin.put(f"{AT}/entities/{status}", json=entry)
    with service.client(seeded_url[2][OWN].keys["viewer"]) as viewer:
        hidden, unknown = (viewer.get(f"{AT}/entities/{key}") for key in (status, "nix"))
        listed = viewer.get(f"{AT}/entities", params={"limit": 200}).json()["entities"]
        asked = viewer.get(f"{AT}/entities", params={"status": status})
    shown = admin.get(f"{AT}/entities", params={"status": status}).json()["entities"]
    assert [hidden.status_code, unknown.status_code, asked.status_code] == [404, 404, 403]
    assert message(hidden).replace(status, "nix") == message(unknown)
    assert {one["status"] for one in listed} == {"published"}
    assert [one["key"] for one in shown] == [status]


def message(reply: httpx.Response) -> str:
    return reply.json()["error"]["message"]


# --- what documents say


def test_script_in_a_document_is_text_in_an_answer_of_json(admin: httpx.Client) -> None:
    text = (
        'A dial <b onclick="steal()">turns</b> [there](javascript:steal()) and '
        "![seen](https://pixel.example/?q=1). <script>steal()</script>"
    )
    admin.put(f"{AT}/entities/dial", json={"title": "Dial", "text": text, "type": "part"})
    replies = [
        admin.post(f"{AT}/rag/search", json={"query": "which dial turns"}),
        admin.get(f"{AT}/entities/dial"),
        admin.get(f"{AT}/entities/%3Cscript%3E"),
    ]
    assert text in replies[1].json()["text"]
    assert [reply.status_code for reply in replies] == [200, 200, 404]
    for reply in replies:
        assert reply.headers["Content-Type"] == "application/json"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"


QUESTIONS = [
    "What's a dial's worth?", "part:dial", "<ana@example.org> dial", "dial & | !", "dial:*", "(",
    ")", "\\", "'\":*", "a <-> dial", '"dial', "dial\\:", "100% dial", "C++", "dial '; --",
    "\u2018dial\u2019", "\uff07dial", "\U0001f642 dial", "how to do it", "a", "!!!", "de da do",
    "team:dial",  # a word that no entry has
]  # fmt: skip


@pytest.mark.parametrize("query", QUESTIONS)
def test_no_question_is_an_error(admin: httpx.Client, query: str) -> None:
    text = "In part 100: the worth of a dial of ana@example.org."
    admin.put(f"{AT}/entities/d", json={"title": "Dial", "text": text, "type": "part"})
    reply = admin.post(f"{AT}/rag/search", json={"query": query, "k": 5})
    assert reply.status_code == 200
    outcome = reply.json()
    if "dial" in query:
        assert "dial" in outcome["hits"][0]["content"].lower()
    else:
        assert len(outcome["hits"]) < 5  # never whatever there is


@pytest.mark.parametrize("query", ["", "   ", "\t\n"])
def test_a_blank_question_is_refused(admin: httpx.Client, query: str) -> None:
    reply = admin.post(f"{AT}/rag/search", json={"query": query})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        ({"require": {"state": ["old"]}}, {"f-old"}),
        ({"forbid": {"state": ["old"]}}, {"f-new", "f-none", "f-null"}),
        ({"types": ["nothing"]}, set()),
    ],
)
def test_a_filter_forbids_without_dropping_what_says_nothing(
    admin: httpx.Client, filter_: dict[str, Any], found: set[str]
) -> None:
    for key, held in {
        "f-old": {"state": "old"}, "f-new": {"state": "new"}, "f-none": {},
        "f-null": {"state": None},
    }.items():  # fmt: skip
        entry = {"title": "Flywheel", "text": f"The flywheel {key}.", "type": "wheel"}
        admin.put(f"{AT}/entities/{key}", json={**entry, "attributes": held})
    body = {"query": "flywheel", "filter": filter_, "scopes": ["entity"]}
    hits = admin.post(f"{AT}/rag/search", json=body).json()["hits"]
    keys = {hit["origin"]["entityKey"] for hit in hits}
    assert {key for key in keys if key.startswith("f-")} == found


@pytest.mark.parametrize(
    "body",
    [{"scopes": []}, {"filter": {"types": []}}, {"filter": {"keys": []}}, {"scopes": [""]}],
)
def test_a_list_of_what_is_allowed_that_is_empty_never_allows_everything(
    admin: httpx.Client, body: dict[str, Any]
) -> None:
    reply = admin.post(f"{AT}/rag/search", json={"query": "pump", **body})
    assert reply.status_code == 400 or reply.json()["hits"] == []


@pytest.mark.parametrize("project", ["%20", "%00", "..%2F" + FOREIGN, FOREIGN.upper(), "%2F"])
def test_no_spelling_of_a_project_opens_another(admin: httpx.Client, project: str) -> None:
    reply = admin.post(f"/api/projects/{project}/rag/search", json={"query": "pump"})
    assert reply.status_code == 404


# --- gaps, projects, keys


def test_a_gap_is_accepted_with_its_answer_and_answered_by_a_new_entry(
    admin: httpx.Client, service: Service
) -> None:
    with build(service.settings) as app:
        gap = app.search(SearchRequest(query="zugzwang of the zeppelin"), project=OWN).gap_id
        assert gap is not None
        listed = admin.get(f"{AT}/gaps", params={"limit": 200}).json()["gaps"]
        assert to_json(next(one for one in app.gaps(OWN).list() if one.id == gap)) in listed
    text = "Zugzwang of the zeppelin is when it must not move."
    admin.put(f"{AT}/entities/z", json={"title": "Zugzwang", "text": text, "type": "part"})
    resolved = admin.post(f"{AT}/gaps/resolve", json={"ids": [gap]}).json()
    accepted = admin.post(f"{AT}/gaps/{gap}/accept", json={"places": ["z"]}).json()
    assert resolved["resolved"] == [gap]
    assert accepted["question"]["answers"] == [{"entity": "z"}]


def test_only_the_project_of_the_key_is_listed(admin: httpx.Client) -> None:
    found = admin.get("/api/projects").json()
    assert [one["slug"] for one in found["projects"]] == [OWN]
    assert found["nextCursor"] is None


def test_an_open_service_lists_every_project_in_pages(seeded_url: tuple[str, Path, Any]) -> None:
    settings = settings_of(seeded_url[0], seeded_url[1] / "home")
    with running(settings, is_open=True) as service, service.client() as client:
        first = client.get("/api/projects?limit=1").json()
        second = client.get("/api/projects", params={"cursor": first["nextCursor"]}).json()
    assert [one["slug"] for one in first["projects"] + second["projects"]] == [OWN, FOREIGN]


def test_a_key_is_shown_once_and_its_secret_is_in_no_list(admin: httpx.Client) -> None:
    made = admin.post(f"{AT}/keys", json={"role": "editor", "label": "robot"}).json()
    rotated = admin.post(f"{AT}/keys/{made['id']}/rotate", json={}).json()
    listed = admin.get(f"{AT}/keys", params={"limit": 200}).text
    assert made["id"] in listed
    assert made["key"] != rotated["key"]
    assert made["key"].rpartition("_")[2] not in listed
    assert rotated["key"].rpartition("_")[2] not in listed


def test_a_project_is_erased_where_its_name_is_repeated(service: Service) -> None:
    with build(service.settings) as app:
        entry = Entity(key="k", title="K", text="Text.", type="part")
        app.entities("doomed").upsert([entry])
        key = app.keys.create("doomed", role="admin").key
    with service.client(key) as client:
        kept = [
            client.delete("/api/projects/doomed", params=asked).status_code
            for asked in ({}, {"confirm": ""}, {"confirm": "doome"})
        ]
        gone = client.delete("/api/projects/doomed", params={"confirm": "doomed"})
        after = client.get("/api/projects/doomed")
    assert kept == [400, 400, 400]
    assert (gone.status_code, gone.json()["documents"]) == (200, 1)
    assert after.status_code == 401
