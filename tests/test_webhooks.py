"""Pushes told by forges: who may tell, whom it concerns, and that their order does not matter."""

import base64
import hashlib
import hmac
import json
import random
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from databases import address, scratch_database
from remotes import WebServer, publish, web_server
from repositories import commit, git
from service import Service, running, settings_of

from lastro.app import App, build
from lastro.cli.configuration import described
from lastro.config import Settings, load_settings
from lastro.errors import ConfigError
from lastro.http.gate import SIGNED_BYTES
from lastro.http_settings import SIGNED_CONCURRENCY
from lastro.push import TOLERANCE_S, Push, is_signed, read_push
from lastro.search import SearchRequest
from lastro.sources.addresses import repository_of
from lastro.types import IndexRequest
from lastro.worker import WorkerOptions, run_worker

SECRET = "a harbour at night"
TOKEN = "whsec_" + base64.b64encode(b"x" * 32).decode()
NOW_S = 1_800_000_000
PAGE = {"docs/anchor.md": "# Anchor\n\nThe anchor holds the ship.\n"}


@pytest.fixture(scope="module", name="settings")
def _settings(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        yield settings_of(url, tmp_path_factory.mktemp("webhooks") / "home")


@pytest.fixture(scope="module", name="service")
def _service(settings: Settings) -> Iterator[Service]:
    with running(settings, http={"webhook_secret": SECRET}) as service:
        yield service


@pytest.fixture(scope="module", name="app")
def _app(settings: Settings) -> Iterator[App]:
    with build(settings) as app:
        yield app


@pytest.fixture(name="forge")
def _forge(tmp_path: Path, app: App) -> Iterator[WebServer]:
    """A server with the repository ``team/fleet.git``, which the project ``fleet`` follows."""
    with web_server(tmp_path / "srv") as server:
        commit(tmp_path / "fleet", PAGE)
        publish(tmp_path / "fleet", server.root, "team/fleet.git")
        app.index(IndexRequest(path=server.address("team/fleet.git"), project="fleet"))
        yield server
        app.erase_project("fleet")


def signed(body: bytes, *, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def push_of(forge: WebServer, *, ref: str = "refs/heads/main", name: str = "team/fleet") -> bytes:
    about = {"html_url": forge.address(name), "clone_url": "x", "default_branch": "main"}
    return json.dumps({"ref": ref, "repository": about}).encode()


def deliver(
    service: Service, body: bytes, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    sent = {"X-Hub-Signature-256": f"sha256={signed(body)}"} if headers is None else headers
    with service.client(headers={"Content-Type": "application/json", **sent}) as client:
        return client.post("/webhooks/git", content=body)


def jobs(app: App, project: str = "fleet") -> list[Mapping[str, Any]]:
    return [job.request for job in app.jobs(project).list(states=["queued"])]


# --- who may tell


@pytest.mark.parametrize("header", ["X-Hub-Signature-256", "X-Gitea-Signature", "X-Gitlab-Token"])
def test_a_delivery_that_is_signed_makes_one_job_of_the_source(
    service: Service, app: App, forge: WebServer, header: str
) -> None:
    body = push_of(forge)
    sign = {"X-Hub-Signature-256": f"sha256={signed(body)}", "X-Gitlab-Token": SECRET}
    for _ in range(2):
        reply = deliver(service, body, {header: sign.get(header, signed(body))})
        assert (reply.status_code, reply.json()) == (202, {"accepted": True})
    assert jobs(app) == [{"source": forge.address("team/fleet.git")}]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256=" + signed(b"{}", secret="another")},
        {"X-Gitlab-Token": "another"},
        {"X-Gitea-Signature": SECRET},
        {"Authorization": f"Bearer {SECRET}"},
    ],
)
def test_a_delivery_that_is_not_signed_is_told_nothing(
    service: Service, headers: Mapping[str, str]
) -> None:
    reply = deliver(service, b"{}", headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "UNAUTHENTICATED")


def test_without_a_secret_there_is_no_webhook_even_for_an_empty_one(settings: Settings) -> None:
    with running(settings) as service:
        empty = {"X-Gitlab-Token": "", "X-Gitea-Signature": signed(b"{}", secret="")}
        assert deliver(service, b"{}", empty).status_code == 404


def test_the_secret_is_a_setting_that_is_never_shown(tmp_path: Path) -> None:
    settings = load_settings({"LASTRO_HTTP_WEBHOOK_SECRET": SECRET}, folder=tmp_path)
    assert settings.http.webhook_secret == SECRET
    assert SECRET not in f"{settings!r}{list(described(settings))}"
    (tmp_path / "lastro.toml").write_text("[http]\nwebhook_secret = 4711\n")
    with pytest.raises(ConfigError, match="must be text") as refused:
        load_settings({}, folder=tmp_path)
    assert "4711" not in str(refused.value)


def test_a_signed_body_that_is_no_delivery_is_refused_and_a_ping_is_not(service: Service) -> None:
    assert [deliver(service, body).status_code for body in (b"{", b"[]", b"\xff")] == [400] * 3
    ping = {"X-GitHub-Event": "ping", "X-Hub-Signature-256": f"sha256={signed(b'{}')}"}
    assert deliver(service, b"{}", ping).status_code == 200


def test_a_form_may_hold_the_delivery(service: Service, app: App, forge: WebServer) -> None:
    body = urlencode({"payload": push_of(forge)}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded", "X-Gitlab-Token": SECRET}
    assert deliver(service, body, form).status_code == 202
    assert len(jobs(app)) == 1


# --- whom it concerns


def test_pushes_that_nobody_follows_are_accepted_alike_and_make_no_job(
    service: Service, app: App, forge: WebServer
) -> None:
    for body in (
        push_of(forge, ref="refs/heads/calm"),
        push_of(forge, ref="refs/tags/main"),
        push_of(forge, name="team/port"),
        b'{"action": "opened"}',
    ):
        reply = deliver(service, body)
        assert (reply.status_code, reply.json()) == (202, {"accepted": True})
    assert jobs(app) == []


def test_every_project_that_follows_the_repository_gets_its_own_job(
    service: Service, app: App, forge: WebServer
) -> None:
    app.index(IndexRequest(path=forge.address("team/fleet"), project="other", ref="main"))
    deliver(service, push_of(forge))
    assert [len(jobs(app, name)) for name in ("fleet", "other")] == [1, 1]
    app.erase_project("other")


@pytest.mark.parametrize(
    "text",
    [
        "https://host.example/Team/Repo.git",
        "https://host.example:8443/team/repo/",
        "ssh://git@host.example:2222/team/repo.git",
        "git@host.example:team/repo",
    ],
)
def test_a_repository_is_the_same_at_each_of_its_addresses(text: str) -> None:
    assert repository_of(text) == "host.example/team/repo"


@pytest.mark.parametrize("text", ["", "/srv/repo", "ext::sh", "https://u:p@host/r", "git://h/r"])
def test_what_is_no_address_is_no_repository(text: str) -> None:
    assert repository_of(text) is None


@pytest.mark.parametrize(
    ("followed", "moves"),
    [
        (None, True), ("HEAD", True), ("@", True), ("HEAD~1", True), ("main", True),
        ("main~2", True), ("refs/heads/main", True), ("heads/main", True), ("main@{1}", True),
        ("calm", False), ("mai", False), ("tags/main", False), ("a1b2c3d", False),
    ],
)  # fmt: skip
def test_a_push_moves_those_who_follow_its_branch(followed: str | None, *, moves: bool) -> None:
    push = Push(addresses=(), ref="refs/heads/main", default_branch="main")
    assert push.moves(followed) is moves


def test_a_delivery_of_gitlab_is_read_and_a_mirrors_origin_is_not_meant() -> None:
    said = {
        "ref": "refs/tags/v1",
        "project": {"git_ssh_url": "git@h:t/r.git", "default_branch": "main", "path": 3},
        "repository": {"git_http_url": "https://h/t/r.git", "mirror_url": "https://up/t/r"},
    }
    assert read_push(said) == Push(
        addresses=("https://h/t/r.git", "git@h:t/r.git"),
        ref="refs/tags/v1",
        default_branch="main",
    )


def test_a_signature_is_of_the_whole_body() -> None:
    headers = {"X-Forgejo-Signature": signed(b"one two")}
    assert is_signed(headers, [b"one ", b"two"], secret=SECRET, now_s=NOW_S)
    assert not is_signed(headers, [b"one "], secret=SECRET, now_s=NOW_S)


def signed_by_token(body: bytes, *, token: str = TOKEN, at_s: int = NOW_S) -> dict[str, str]:
    """The headers of GitLab's signing tokens."""
    key = base64.b64decode(token.removeprefix("whsec_"))
    digest = hmac.new(key, b"d-1.%d.%b" % (at_s, body), hashlib.sha256).digest()
    return {
        "webhook-id": "d-1",
        "webhook-timestamp": str(at_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def test_a_signing_token_signs_id_time_and_body_as_its_specification_shows() -> None:
    # The example of the reference implementations of Standard Webhooks.
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    token = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert is_signed(headers, [b'{"test": ', b"2432232314}"], secret=token, now_s=1614265330.5)


@pytest.mark.parametrize(
    ("changed", "secret", "now_s", "holds"),
    [
        ({}, TOKEN, NOW_S, True),
        ({}, TOKEN, NOW_S + TOLERANCE_S, True),
        ({}, TOKEN, NOW_S + TOLERANCE_S + 1, False),
        ({}, TOKEN, NOW_S - TOLERANCE_S - 1, False),
        ({"webhook-id": "d-2"}, TOKEN, NOW_S, False),
        ({"webhook-timestamp": str(NOW_S + 1)}, TOKEN, NOW_S, False),
        ({"webhook-timestamp": "now"}, TOKEN, NOW_S, False),
        ({"webhook-signature": ""}, TOKEN, NOW_S, False),
        ({}, "whsec_" + base64.b64encode(b"y" * 32).decode(), NOW_S, False),
        ({}, "whsec_", NOW_S, False),
        ({}, "whsec_!", NOW_S, False),
        ({}, TOKEN.removeprefix("whsec_"), NOW_S, False),
    ],
)
def test_a_signing_token_holds_for_its_message_and_for_five_minutes(
    changed: Mapping[str, str], secret: str, now_s: float, *, holds: bool
) -> None:
    headers = {**signed_by_token(b"{}"), **changed}
    assert is_signed(headers, [b"{", b"}"], secret=secret, now_s=now_s) is holds


def test_of_several_signatures_one_is_enough() -> None:
    headers = signed_by_token(b"{}")
    headers["webhook-signature"] = f"v1,x v1a,y {headers['webhook-signature']}"
    assert is_signed(headers, [b"{}"], secret=TOKEN, now_s=NOW_S)


def test_a_delivery_signed_with_a_token_is_taken(settings: Settings, app: App) -> None:
    with running(settings, http={"webhook_secret": TOKEN}) as service:
        body = b'{"ref": "refs/heads/main"}'
        now = round(time.time())
        assert deliver(service, body, signed_by_token(body, at_s=now)).status_code == 202
        assert deliver(service, body, signed_by_token(body, at_s=now - 3600)).status_code == 401


# --- how much


def head_of(service: Service, *, length: int) -> socket.socket:
    """A delivery of which the body is still to come; the service asks for it."""
    place = urlsplit(service.url)
    client = socket.create_connection((place.hostname, place.port), timeout=30)
    head = f"POST /webhooks/git HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
    client.sendall(f"{head}Expect: 100-continue\r\nConnection: close\r\n\r\n".encode())
    return client


def test_a_delivery_above_what_forges_send_is_refused_unread(service: Service) -> None:
    told = b""
    with head_of(service, length=SIGNED_BYTES + 1) as client:
        while part := client.recv(65_536):
            told += part
    assert told.startswith(b"HTTP/1.1 413 ")
    assert b"TOO_LARGE" in told


def test_deliveries_beyond_their_turns_are_told_to_come_again_and_keep_nobody_waiting(
    settings: Settings, app: App
) -> None:
    app.sessions("quay").append([])
    key = app.keys.create("quay", role="viewer").key
    limits = {"webhook_secret": SECRET, "waiting": 0, "concurrency": 1}
    with running(settings, http=limits) as service:
        held = [head_of(service, length=2) for _ in range(SIGNED_CONCURRENCY)]
        assert {one.recv(65_536)[:13] for one in held} == {b"HTTP/1.1 100 "}
        refused = deliver(service, b"{}")
        with service.client(key) as client:
            turns = client.get("/metrics").text
            search = client.post("/api/projects/quay/rag/search", json={"query": "crane"})
        for one in held:
            one.close()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "RATE_LIMITED")
    assert int(refused.headers["Retry-After"]) >= 1
    assert f'lastro_http_turns{{state="signed"}} {SIGNED_CONCURRENCY}.0' in turns
    assert search.status_code == 200


# --- order


def test_deliveries_doubled_late_and_swapped_end_as_a_fresh_index_does(
    service: Service, app: App, forge: WebServer, settings: Settings, tmp_path: Path
) -> None:
    repository = tmp_path / "fleet"
    steps: list[Mapping[str, str | None]] = [
        {"docs/bilge.md": "# Bilge\n\nThe bilge is pumped dry.\n"},
        {"docs/anchor.md": None, "docs/crane.md": "# Crane\n\nThe crane lifts.\n"},
        {"docs/bilge.md": "# Bilge\n\nThe bilge is full.\n"},
    ]
    bodies = [
        json.dumps({**json.loads(push_of(forge)), "after": commit(repository, step)}).encode()
        for step in steps
    ]
    git(repository, "push", "--quiet", "--mirror", str(forge.root / "team/fleet.git"))
    late = bodies * 2
    random.Random(7).shuffle(late)
    for count, body in enumerate(late, start=1):
        assert deliver(service, body).status_code == 202
        if count % 3 == 0:
            run_worker(settings, WorkerOptions(until="empty"))
    app.index(IndexRequest(path=repository, project="fresh"))
    question = SearchRequest(query="bilge crane anchor", profile="kb-rrf")
    found = [
        {(hit.origin.source_path, hit.content) for hit in app.search(question, project=name).hits}
        for name in ("fleet", "fresh")
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 2
    assert app.coverage("fleet").revision == git(repository, "rev-parse", "HEAD")
    app.erase_project("fresh")
