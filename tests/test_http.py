"""The HTTP service: who is let in, what is refused, and what a search answers there."""

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from databases import address, scratch_database
from homes import wait_until
from locks import Locked
from repositories import commit
from service import Service, running, settings_of

from lastro.app import build, prepare_database
from lastro.config import Settings
from lastro.http_settings import LONG_CONCURRENCY
from lastro.types import IndexRequest

SEARCH = "/api/projects/manual/rag/search"
# A cursor that says that more hits were shown than any list can have.
HUGE = base64.urlsafe_b64encode(b'[99999999999999999999,"a"]').decode()
PAGES = {
    "docs/pump.md": "# Pump\n\nThe pump runs dry at noon.\n",
    "docs/valve.md": "# Valve\n\nThe valve of the pump is closed at night.\n",
    "docs/tank.md": "# Tank\n\nThe tank feeds the pump.\n",
}


@dataclass(frozen=True)
class Manual:
    """A database with the project ``manual``, and the home beside it."""

    url: str
    home: Path

    @property
    def settings(self) -> Settings:
        return settings_of(self.url, self.home)


@pytest.fixture(scope="module", name="manual")
def _manual(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Manual]:
    with scratch_database(server_url, template=template) as name:
        made = Manual(address(server_url, dbname=name), tmp_path_factory.mktemp("manual") / "home")
        prepare_database(made.settings)
        index(made.settings, "manual", PAGES)
        yield made


@pytest.fixture(scope="module", name="service")
def _service(manual: Manual) -> Iterator[Service]:
    with running(manual.settings) as service:
        yield service


def index(settings: Settings, project: str, pages: Mapping[str, str]) -> None:
    commit(settings.home.parent / project, pages)
    with build(settings) as app:
        app.index(IndexRequest(path=settings.home.parent / project, project=project))


def key_of(service: Service, *, project: str = "manual", role: str = "viewer") -> str:
    with build(service.settings) as app:
        return app.keys.create(project, role=role).key


def code_of(reply: httpx.Response) -> str:
    return reply.json()["error"]["code"]


# --- a search


def test_a_search_over_http_answers_what_a_search_in_python_does(service: Service) -> None:
    with service.client(key_of(service)) as client:
        reply = client.post(SEARCH, json={"query": "pump runs dry", "k": 2})
    assert reply.status_code == 200
    outcome = reply.json()
    assert outcome["hits"][0]["origin"]["sourcePath"] == "docs/pump.md"
    assert outcome["hits"][0]["content"] == "# Pump\n\nThe pump runs dry at noon."


def test_pages_of_a_search_together_are_its_list(service: Service) -> None:
    with service.client(key_of(service)) as client:
        whole = client.post(SEARCH, json={"query": "pump", "k": 3}).json()
        pages, body = [], {"query": "pump", "k": 1}
        while True:
            page = client.post(SEARCH, json=body).json()
            pages += page["hits"]
            if "nextCursor" not in page:
                break
            body["cursor"] = page["nextCursor"]
    assert "nextCursor" not in whole
    assert len(whole["hits"]) == len(PAGES)
    assert pages == whole["hits"]


@pytest.mark.parametrize("cursor", ["", "x", "bnVsbA", "WzAsIiJd", "[1]", "é", HUGE])
def test_a_cursor_that_is_none_is_refused(service: Service, cursor: str) -> None:
    with service.client(key_of(service)) as client:
        reply = client.post(SEARCH, json={"query": "pump", "cursor": cursor})
    assert (reply.status_code, code_of(reply)) == (400, "INVALID_INPUT")


def test_a_cursor_of_another_question_is_refused(service: Service) -> None:
    with service.client(key_of(service)) as client:
        cursor = client.post(SEARCH, json={"query": "pump", "k": 1}).json()["nextCursor"]
        reply = client.post(SEARCH, json={"query": "the pump", "k": 1, "cursor": cursor})
    assert (reply.status_code, code_of(reply)) == (409, "CONFLICT")


def test_a_page_after_the_index_changed_is_refused(service: Service, tmp_path: Path) -> None:
    with service.client(key_of(service)) as client:
        cursor = client.post(SEARCH, json={"query": "pump", "k": 1}).json()["nextCursor"]
        commit(tmp_path / "manual", dict.fromkeys(PAGES, "# Else\n\nA pump pump pump.\n"))
        with build(service.settings) as app:
            app.index(IndexRequest(path=tmp_path / "manual", project="manual"))
        reply = client.post(SEARCH, json={"query": "pump", "k": 1, "cursor": cursor})
    assert (reply.status_code, code_of(reply)) == (409, "CONFLICT")


# --- keys


@pytest.mark.parametrize("sent", [None, "", "Bearer", "Bearer x", "Basic eDp5", "bearer lastro_1"])
def test_without_a_key_that_holds_nothing_is_answered(service: Service, sent: str | None) -> None:
    headers = {} if sent is None else {"Authorization": sent}
    with service.client(headers=headers) as client:
        # Not even that the body makes no sense.
        reply = client.post(SEARCH, content=b"{")
    assert (reply.status_code, code_of(reply)) == (401, "UNAUTHENTICATED")
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_foreign_project_is_one_that_does_not_exist(service: Service) -> None:
    key = key_of(service)
    index(service.settings, "secret", {"docs/a.md": "# Pump\n"})
    with service.client(key) as client:
        foreign, unknown = (
            client.post(f"/api/projects/{name}/rag/search", json={"query": "pump"})
            for name in ("secret", "nix")
        )
    assert foreign.status_code == unknown.status_code == 404
    assert (
        foreign.json()["error"]["message"].replace("secret", "nix")
        == (unknown.json()["error"]["message"])
    )


def test_a_revoked_key_opens_nothing_from_the_next_request_on(service: Service) -> None:
    with build(service.settings) as app:
        made = app.keys.create("manual", role="viewer")
        with service.client(made.key) as client:
            assert client.post(SEARCH, json={"query": "pump"}).status_code == 200
            app.keys.revoke("manual", made.id)
            assert client.post(SEARCH, json={"query": "pump"}).status_code == 401


def test_an_open_service_asks_for_no_key(manual: Manual) -> None:
    with running(manual.settings, is_open=True) as service, service.client() as client:
        assert client.post(SEARCH, json={"query": "pump"}).status_code == 200


def test_an_open_service_answers_programs_of_its_machine_alone(manual: Manual) -> None:
    with running(manual.settings, is_open=True) as service, service.client() as client:
        port = service.url.rpartition(":")[2]
        answers = {
            said: client.post(SEARCH, json={"query": "pump"}, headers=dict([said])).status_code
            for said in [
                ("Host", f"localhost:{port}"),
                ("Origin", f"http://localhost:{port}"),
                ("Origin", "http://[::1]:3000"),
                ("Host", "rebound.example"),
                ("Host", "127.0.0.1@rebound.example"),
                ("Origin", "https://page.example"),
                ("Origin", "null"),  # of a file, or of a frame that is kept apart
                ("Origin", "http://[::1"),
            ]
        }
    assert [*answers.values()] == [200] * 3 + [403] * 5


def test_a_service_with_keys_is_asked_by_any_name_of_its_machine(service: Service) -> None:
    with service.client(key_of(service), headers={"Host": "search.example"}) as client:
        assert client.post(SEARCH, json={"query": "pump"}).status_code == 200


# --- what is refused


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "JSON"),
        (b'{"query": "pump", "query": "tank"}', "'query' stands twice"),
        (b'{"query": "pump", "filter": {"types": ["a"], "types": ["b"]}}', "'types' stands twice"),
        (b'{"query": "\xe9"}', "not UTF-8"),
        (b'{"query": "pump", "k": ' + b"9" * 5000 + b"}", "so large a number"),
        (b'{"query": "pump", "filter": ' + b'{"a":' * 100_000, "too deep"),
        (b"[]", "dictionary"),
        (b'{"query": "pump", "K": 3}', "K: Extra"),
        (b'{"query": "pump", "k": 0}', "k: "),
        (b'{"query": "pump", "k": "3"}', "k: "),
        (b'{"query": 3}', "query: "),
        (b'{"query": " "}', "blank"),
        (b'{"query": "pump", "scopes": ["code"]}', "scopes"),
        (b'{"query": "pump", "filter": {"types": []}}', "types"),
    ],
)
def test_a_body_that_is_not_understood_is_told_why(
    service: Service, body: bytes, said: str
) -> None:
    with service.client(key_of(service)) as client:
        reply = client.post(SEARCH, content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]
    assert reply.json()["error"]["remedy"]


@pytest.mark.parametrize(
    ("sent", "said", "remedy"),
    [
        ({"data": {"query": "pump"}}, "the body is not said to be JSON", "Content-Type"),
        ({"content": b""}, "the request has no body", "openapi"),
        (
            {"json": {"query": "pump"}, "headers": {"Content-Encoding": "gzip"}},
            "a body with a Content-Encoding",
            "not packed",
        ),
        ({"params": {"k": 3}, "json": {"query": "pump"}}, "k: ", "openapi"),
    ],
)
def test_a_request_that_is_not_as_the_route_wants_it_is_told_what_to_send(
    service: Service, sent: dict[str, Any], said: str, remedy: str
) -> None:
    with service.client(key_of(service)) as client:
        reply = client.post(SEARCH, **sent)
    assert reply.status_code == 400
    assert reply.json()["error"]["message"].startswith(said)
    assert remedy in reply.json()["error"]["remedy"]


def test_a_body_above_the_limit_is_refused_unread(manual: Manual) -> None:
    with running(manual.settings, http={"max_body_bytes": 100}) as service:
        key = key_of(service)
        parts = (b"x" * 60 for _ in range(1000))  # sent without saying how much it is
        with service.client(key) as client:
            replies = [
                client.post(SEARCH, json={"query": "x" * 101}),
                client.post(SEARCH, content=parts),
            ]
    assert [(reply.status_code, code_of(reply)) for reply in replies] == [(413, "TOO_LARGE")] * 2


def test_a_question_above_the_limit_is_refused(manual: Manual) -> None:
    with (
        running(manual.settings, http={"max_query_chars": 10}) as service,
        service.client(key_of(service)) as client,
    ):
        reply = client.post(SEARCH, json={"query": "x" * 11})
    assert (reply.status_code, code_of(reply)) == (400, "INVALID_INPUT")


def test_a_key_asks_so_often_in_a_minute_and_another_goes_on(manual: Manual) -> None:
    with running(manual.settings, http={"rate_per_minute": 2}) as service:
        one, other = key_of(service), key_of(service)
        with service.client(one) as client:
            codes = [client.post(SEARCH, json={"query": "pump"}).status_code for _ in range(3)]
            late = client.post(SEARCH, json={"query": "pump"})
        with service.client(other) as client:
            assert client.post(SEARCH, json={"query": "pump"}).status_code == 200
    assert codes == [200, 200, 429]
    assert code_of(late) == "RATE_LIMITED"
    assert 1 <= int(late.headers["Retry-After"]) <= 60


def test_a_path_that_leads_nowhere_is_not_found_in_the_shape_of_an_error(service: Service) -> None:
    with service.client(headers={"X-Request-Id": "mine-1"}) as client:
        reply = client.get("/nix")
    assert reply.status_code == 404
    assert reply.json()["error"]["requestId"] == reply.headers["X-Request-Id"] == "mine-1"


@pytest.mark.parametrize(
    ("path", "named"),
    [("/a%2Fb", "'/a/b'"), ("/a%0Ab%1B", r"'/a\nb\x1b'"), ("//a/b", "'//a/b'")],
)
def test_a_path_that_leads_nowhere_is_told_as_it_was_asked(
    service: Service, path: str, named: str
) -> None:
    target = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with socket.create_connection(
        (urlsplit(service.url).hostname, urlsplit(service.url).port)
    ) as at:
        at.sendall(target.encode())
        said = b"".join(iter(lambda: at.recv(65_536), b""))
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["message"] == (
        f"nothing is at {named}"
    )


def test_a_method_that_a_path_does_not_have_is_told_which_it_has(service: Service) -> None:
    with service.client() as client:
        reply = client.put("/healthz")
    assert reply.status_code == 405
    assert reply.json()["error"]["remedy"] == f"use {reply.headers['Allow']}"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_may_ask_for_the_status_alone(service: Service, path: str) -> None:
    with service.client() as client:
        reply = client.head(path)
    assert (reply.status_code, reply.content) == (200, b"")


# --- turns, and clients that go away


def test_what_comes_when_all_turns_and_places_are_taken_is_told_to_come_again(
    manual: Manual,
) -> None:
    limits = {"concurrency": 1, "waiting": 1, "deadline_s": 30}
    with running(manual.settings, http=limits) as service:
        key = key_of(service)
        replies: list[int] = []

        def ask() -> None:
            with service.client(key) as client:
                replies.append(client.post(SEARCH, json={"query": "pump"}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        with Locked(manual.url) as locked:
            for thread in threads:
                thread.start()
            locked.until_waiting(1)
            with service.client(key) as client:
                taken = 'lastro_http_turns{state="short"} 2.0'
                assert wait_until(lambda: taken in client.get("/metrics").text)
                refused = client.post(SEARCH, json={"query": "pump"})
        for thread in threads:
            thread.join()
    assert (refused.status_code, code_of(refused)) == (429, "RATE_LIMITED")
    assert replies == [200, 200]


def test_a_client_that_goes_away_frees_its_statement(manual: Manual) -> None:
    with running(manual.settings) as service:
        key = key_of(service)
        place = urlsplit(service.url)
        body = json.dumps({"query": "pump"}).encode()
        head = f"POST {SEARCH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        kept = f"Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n\r\n"
        with Locked(manual.url) as locked:
            with socket.create_connection((place.hostname, place.port)) as client:
                client.sendall((head + kept).encode() + body)
                locked.until_waiting(1)
            locked.until_waiting(0)


def test_a_request_is_given_up_at_its_deadline(manual: Manual) -> None:
    with running(manual.settings, http={"deadline_s": 0.5}) as service:
        key = key_of(service)
        with Locked(manual.url), service.client(key) as client:
            reply = client.post(SEARCH, json={"query": "pump"})
    assert (reply.status_code, code_of(reply)) == (503, "DATABASE_UNAVAILABLE")
    assert int(reply.headers["Retry-After"]) >= 1


def _half_sent(service: Service, path: str, key: str) -> socket.socket:
    """A request of which the body never comes whole."""
    place = urlsplit(service.url)
    client = socket.create_connection((place.hostname, place.port))
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
    client.sendall(f"{head}Authorization: Bearer {key}\r\n\r\n{{".encode())
    return client


def test_a_body_that_does_not_come_is_refused_at_the_deadline(manual: Manual) -> None:
    with running(manual.settings, http={"deadline_s": 0.5}) as service:
        client = _half_sent(service, SEARCH, key_of(service))
        client.settimeout(10)
        with client:
            told = client.recv(65_536)
    assert told.startswith(b"HTTP/1.1 400 ")
    assert b"did not come whole" in told


def test_a_client_that_leaves_while_it_sends_gives_back_its_turn(manual: Manual) -> None:
    with running(manual.settings, http={"concurrency": 1, "waiting": 0}) as service:
        key = key_of(service)
        _half_sent(service, SEARCH, key).close()
        until = time.monotonic() + 10
        with service.client(key) as client:
            while client.post(SEARCH, json={"query": "pump"}).status_code != 200:
                assert time.monotonic() < until
                time.sleep(0.05)


def test_strangers_take_no_place_of_an_import(manual: Manual) -> None:
    path = "/api/projects/manual/entities/import"
    with running(manual.settings, http={"waiting": 0}) as service:
        key = key_of(service, role="editor")
        imports = [_half_sent(service, path, key) for _ in range(LONG_CONCURRENCY)]
        try:
            with service.client() as stranger, service.client(key) as editor:
                until = time.monotonic() + 10
                while editor.post(path, content=b"").status_code != 429:
                    assert time.monotonic() < until
                    time.sleep(0.05)
                assert stranger.post(path, content=b"").status_code == 401
        finally:
            for one in imports:
                one.close()
