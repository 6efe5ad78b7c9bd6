"""``lastro keys``: what a person and a script see of API keys."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from commands import Run, in_folder
from rows import add_project

from lastro.cli.keys import RoleName
from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_USAGE
from lastro.key import key_hash
from lastro.roles import ROLES


@pytest.fixture
def lastro(
    tmp_path: Path,
    owner_url: str,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    for slug in ("bakery", "mill"):
        add_project(owner, slug)
    return in_folder(
        tmp_path,
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
        project="bakery",
    )


def said(lastro: Run, *words: str) -> dict:
    code, out, _ = lastro("keys", *words, "--format", "json")
    assert code == EXIT_DONE
    return json.loads(out)


def test_a_key_passes_through_its_life(lastro: Run, owner: psycopg.Connection) -> None:
    made = said(lastro, "create", "--role", "editor", "--label", "website", "--expires", "90d")
    ends = datetime.fromisoformat(made.pop("expiresAt"))
    assert abs(ends - datetime.now(UTC) - timedelta(days=90)) < timedelta(minutes=5)
    assert made == {"key": made["key"], "id": made["id"], "project": "bakery", "role": "editor"}
    rotated = said(lastro, "rotate", made["id"], "--overlap", "1d")
    assert (rotated["id"], rotated["expiresAt"]) == (made["id"], ends.isoformat())
    [listed] = said(lastro, "list")["keys"]
    assert listed.pop("createdAt")
    assert listed == {
        "id": made["id"], "role": "editor", "label": "website", "state": "active",
        "expiresAt": ends.isoformat(), "revokedAt": None, "lastUsedAt": None,
        "formerUntil": rotated["formerUntil"],
    }  # fmt: skip
    assert said(lastro, "revoke", made["id"])["state"] == "revoked"
    hashes = owner.execute("SELECT secret_hash, former_hash FROM lastro.api_keys").fetchall()
    assert hashes == [(key_hash(rotated["key"]), key_hash(made["key"]))]


def test_people_see_the_key_on_a_line_of_its_own_and_are_told_to_keep_it(lastro: Run) -> None:
    code, out, err = lastro("keys", "create", "--role", "viewer")
    key, *rest = out.splitlines()
    assert (code, err) == (EXIT_DONE, "keep it now: it is not shown again\n")
    assert re.fullmatch(r"lastro_1_[0-9a-f]{12}_[A-Za-z0-9]{43}", key)
    assert [line.split() for line in rest] == [
        ["id", key.split("_")[2]], ["project", "bakery"], ["role", "viewer"], ["expires", "never"],
    ]  # fmt: skip


def test_people_see_the_keys_of_a_project_without_their_secrets(lastro: Run) -> None:
    key = lastro("keys", "create", "--role", "admin", "--label", "\x1b[31mred")[1].splitlines()[0]
    _, out, _ = lastro("keys", "list")
    assert key.split("_")[2] in out
    assert "admin" in out
    assert key.split("_")[3] not in out
    assert "\x1b" not in out
    assert lastro("keys", "list", "--project", "mill")[1].startswith("no key; make one")


def test_a_rotated_key_says_what_becomes_of_the_former_secret(lastro: Run) -> None:
    id_ = said(lastro, "create", "--role", "viewer")["id"]
    assert "former   refused" in lastro("keys", "rotate", id_)[1]
    assert "former   taken until " in lastro("keys", "rotate", id_, "--overlap", "1h")[1]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("create",), EXIT_USAGE, "--role"),
        (("create", "--role", "owner"), EXIT_USAGE, "owner"),
        (("create", "--role", "viewer", "--expires", "soon"), EXIT_USAGE, "no date and no span"),
        (("create", "--role", "viewer", "--expires", "2020-01-01"), EXIT_USAGE, "over already"),
        (("create", "--role", "viewer", "--project", "nobody"), EXIT_NOT_FOUND, "no project"),
        (("revoke", "0123456789ab"), EXIT_NOT_FOUND, "has no key '0123456789ab'"),
        (("rotate", "0123456789ab"), EXIT_NOT_FOUND, "has no key '0123456789ab'"),
    ],
)
def test_what_cannot_be_done_is_said(
    lastro: Run, words: tuple[str, ...], code: int, message: str
) -> None:
    ended, out, err = lastro("keys", *words)
    assert (ended, out) == (code, "")
    assert message in err


def test_a_key_is_none_of_another_project_s_commands(lastro: Run) -> None:
    id_ = said(lastro, "create", "--role", "viewer")["id"]
    assert lastro("keys", "revoke", id_, "--project", "mill")[0] == EXIT_NOT_FOUND
    assert said(lastro, "list")["keys"][0]["state"] == "active"


def test_what_a_role_offers_is_what_a_key_can_have() -> None:
    assert tuple(RoleName) == ROLES
