"""API keys: what recognises one, what ends one, and what is kept of it."""

import hashlib
import hmac
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from databases import address, scratch_database
from psycopg import errors
from rows import add_project

from lastro.db.pool import Database, connect
from lastro.errors import (
    Conflict,
    DatabaseUnavailable,
    InvalidInput,
    LastroError,
    NotFound,
    Unauthenticated,
)
from lastro.key import KeyPlace, Principal, key_hash, key_text, parse_key
from lastro.keys import KeyRing
from lastro.masking import mask
from lastro.roles import ROLES

TOMORROW = datetime.now(UTC) + timedelta(days=1)
SECRET = "a1B2" * 10 + "Zz9"


@pytest.fixture(scope="module")
def keys_url(server_url: str, template: str) -> Iterator[str]:
    """Two projects, 1 and 2, in a database that the tests of this file share."""
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with connect(url) as connection:
            for slug in ("ours", "theirs"):
                add_project(connection, slug)
        yield url


@pytest.fixture(scope="module")
def database(keys_url: str) -> Iterator[Database]:
    with Database(keys_url, max_size=4) as pool:
        yield pool


@pytest.fixture(scope="module")
def owner(keys_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(keys_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def ring(database: Database, owner: psycopg.Connection) -> Iterator[KeyRing]:
    """The keys of both projects, of which there is none."""
    ring = KeyRing(database)
    yield ring
    ring.flush()
    owner.execute("DELETE FROM lastro.api_keys")


def refusal(ring: KeyRing, text: str) -> tuple[str, str, str | None]:
    with pytest.raises(Unauthenticated) as caught:
        ring.authenticate(text)
    return caught.value.code, caught.value.message, caught.value.remedy


def with_secret(key: str, secret: str = SECRET) -> str:
    return key.rpartition("_")[0] + "_" + secret


# --- the text


def test_the_text_of_a_key_says_where_it_is_kept():
    place = KeyPlace(project_id=12, id="0123456789ab")
    assert key_text(place, SECRET) == f"lastro_12_0123456789ab_{SECRET}"
    assert parse_key(key_text(place, SECRET)) == place


@pytest.mark.parametrize(
    "text",
    [
        "", "lastro", "lastro_1_0123456789ab", f"lastro_0_0123456789ab_{SECRET}",
        f"lastro_-1_0123456789ab_{SECRET}", f"lastro_{10**18}_0123456789ab_{SECRET}",
        f"lastro_1_0123456789AB_{SECRET}", f"lastro_1_0123456789ab_{SECRET[:-1]}",
        f"lastro_1_0123456789ab_{SECRET}x", f" lastro_1_0123456789ab_{SECRET}",
        f"lastro_1_0123456789ab_{SECRET}\n", f"lastro_١_0123456789ab_{SECRET}",
        f"lastro_1_0123456789ab_{SECRET[:-1]}é", f"lastro_1_0123456789ab_{SECRET[:-1]}\x00",
        f"lastro_1_0123456789ab_{SECRET[:-1]}\ud800",
    ],
)  # fmt: skip
def test_what_no_key_looks_like_is_none(text: str, ring: KeyRing):
    assert parse_key(text) is None
    assert refusal(ring, text) == refusal(ring, f"lastro_1_0123456789ab_{SECRET}")


def test_a_new_key_is_masked_in_any_text(ring: KeyRing):
    key = ring.create("ours", role="viewer").key
    said = mask(f"curl -H 'Authorization: Bearer {key}' and once more {key}.")
    assert said.text == (
        "curl -H 'Authorization: Bearer [masked:lastro-key]' and once more [masked:lastro-key]."
    )


def test_a_key_is_in_no_representation_of_what_holds_it(ring: KeyRing):
    made = ring.create("ours", role="viewer")
    rotated = ring.rotate("ours", made.id)
    assert made.key not in repr(made)
    assert rotated.key not in repr(rotated)


def test_secrets_are_never_made_twice(ring: KeyRing):
    made = [ring.create("ours", role="viewer").key for _ in range(20)]
    assert len({key.rpartition("_")[2] for key in made}) == 20
    assert all(re.fullmatch(r"lastro_1_[0-9a-f]{12}_[A-Za-z0-9]{43}", key) for key in made)


# --- who is recognised


@pytest.mark.parametrize("role", ROLES)
def test_a_key_speaks_for_its_project_in_its_role(ring: KeyRing, role: str):
    made = ring.create("ours", role=role, expires_at=TOMORROW)
    assert ring.authenticate(made.key) == Principal(
        project_id=1, slug="ours", key_id=made.id, role=role, expires_at=TOMORROW
    )


def test_a_key_without_an_end_stays(ring: KeyRing):
    made = ring.create("ours", role="viewer")
    assert (made.expires_at, ring.authenticate(made.key).expires_at) == (None, None)


def test_every_key_that_is_refused_gets_the_same_answer(ring: KeyRing, owner: psycopg.Connection):
    unknown = f"lastro_1_0123456789ab_{SECRET}"
    no_project = f"lastro_999_0123456789ab_{SECRET}"
    wrong = with_secret(ring.create("ours", role="viewer").key)
    revoked = ring.create("ours", role="viewer")
    ring.revoke("ours", revoked.id)
    expired = ring.create("ours", role="viewer", expires_at=TOMORROW)
    owner.execute("UPDATE lastro.api_keys SET expires_at = now() WHERE id = %s", [expired.id])
    said = {
        refusal(ring, text)
        for text in (unknown, no_project, wrong, revoked.key, expired.key, "no key at all")
    }
    assert len(said) == 1


def test_the_same_comparisons_are_made_for_every_key(
    ring: KeyRing, monkeypatch: pytest.MonkeyPatch
):
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    live, revoked = (ring.create("ours", role="viewer") for _ in range(2))
    ring.revoke("ours", revoked.id)
    rotated = ring.rotate("ours", ring.create("ours", role="viewer").id, former_until=TOMORROW)
    monkeypatch.setattr(hmac, "compare_digest", compare)
    counts = []
    for text in (live.key, rotated.key, with_secret(live.key), revoked.key,
                 f"lastro_9_0123456789ab_{SECRET}"):  # fmt: skip
        compared.clear()
        with suppress(Unauthenticated):
            ring.authenticate(text)
        counts.append(list(compared))
    assert counts == [[(32, 32), (32, 32)]] * 5


def test_a_key_of_one_project_is_none_of_another(ring: KeyRing):
    made = ring.create("ours", role="admin")
    moved = made.key.replace("lastro_1_", "lastro_2_")
    assert refusal(ring, moved)
    assert ring.list("theirs") == []


def test_a_row_that_was_copied_into_another_project_opens_nothing(
    ring: KeyRing, owner: psycopg.Connection
):
    made = ring.create("theirs", role="admin")
    owner.execute(
        "INSERT INTO lastro.api_keys (project_id, id, role, secret_hash)"
        " SELECT 1, id, role, secret_hash FROM lastro.api_keys"
    )
    assert refusal(ring, made.key.replace("lastro_2_", "lastro_1_"))


def test_a_database_that_does_not_answer_is_not_told_as_a_wrong_key(
    ring: KeyRing, owner: psycopg.Connection
):
    made = ring.create("ours", role="viewer")
    owner.execute("REVOKE SELECT ON lastro.api_keys FROM lastro_app")
    try:
        with pytest.raises(DatabaseUnavailable):
            ring.authenticate(made.key)
    finally:
        owner.execute("GRANT SELECT ON lastro.api_keys TO lastro_app")


# --- what is kept


def test_only_the_hash_of_a_key_is_in_the_database(ring: KeyRing, owner: psycopg.Connection):
    made = ring.create("ours", role="viewer", label="website")
    row = owner.execute(
        "SELECT to_jsonb(k)::text, secret_hash FROM lastro.api_keys AS k"
    ).fetchone()
    assert row is not None
    assert row[1] == hashlib.sha256(made.key.encode()).digest() == key_hash(made.key)
    assert made.key.rpartition("_")[2] not in row[0]


def test_keys_are_listed_the_newest_first_without_their_secrets(
    ring: KeyRing, owner: psycopg.Connection
):
    old = ring.create("ours", role="viewer", label="  website ")
    new = ring.create("ours", role="admin", expires_at=TOMORROW, label=" ")
    ring.create("theirs", role="viewer")
    listed = ring.list("ours")
    assert [(key.id, key.role, key.label, key.state, key.expires_at) for key in listed] == [
        (new.id, "admin", None, "active", TOMORROW),
        (old.id, "viewer", "website", "active", None),
    ]
    assert not any(made.key.rpartition("_")[2] in repr(listed) for made in (old, new))


def test_a_key_tells_what_ended_it(ring: KeyRing, owner: psycopg.Connection):
    expired, revoked, both = (ring.create("ours", role="viewer") for _ in range(3))
    ring.revoke("ours", revoked.id)
    ring.revoke("ours", both.id)
    owner.execute(
        "UPDATE lastro.api_keys SET expires_at = now() WHERE id = ANY (%s)",
        [[expired.id, both.id]],
    )
    assert {key.id: key.state for key in ring.list("ours")} == {
        expired.id: "expired", revoked.id: "revoked", both.id: "revoked",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"role": "owner"}, InvalidInput),
        ({"role": "viewer", "expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, InvalidInput),
        ({"role": "viewer", "label": "x" * 201}, InvalidInput),
        ({"role": "viewer", "label": "a\x00b"}, InvalidInput),
        ({"role": "viewer", "project": "nobody"}, NotFound),
    ],
)
def test_a_key_that_cannot_be_made_is_refused(
    ring: KeyRing, owner: psycopg.Connection, values: dict, error: type[LastroError]
):
    with pytest.raises(error):
        ring.create(**{"project": "ours", **values})
    assert owner.execute("SELECT count(*) FROM lastro.api_keys").fetchone() == (0,)


@pytest.mark.parametrize(
    "change",
    [
        "role = 'owner'", "id = 'short'", "secret_hash = '\\x00'", "label = ''",
        "former_until = now()", "former_hash = secret_hash",
    ],
)  # fmt: skip
def test_the_table_refuses_what_no_key_is(ring: KeyRing, owner: psycopg.Connection, change: str):
    ring.create("ours", role="viewer")
    with pytest.raises(errors.CheckViolation):
        owner.execute(f"UPDATE lastro.api_keys SET {change}".encode())


# --- revoking and rotating


def test_a_revoked_key_is_refused_at_once_in_every_process(ring: KeyRing, keys_url: str):
    made = ring.create("ours", role="viewer")
    with Database(keys_url) as elsewhere:
        other = KeyRing(elsewhere)
        assert other.authenticate(made.key).key_id == made.id
        assert ring.revoke("ours", made.id).state == "revoked"
        assert refusal(other, made.key)
        other.flush()


def test_revoking_once_more_changes_nothing(ring: KeyRing):
    made = ring.create("ours", role="viewer")
    assert ring.revoke("ours", made.id) == ring.revoke("ours", made.id)


def test_a_rotated_key_has_another_secret_and_is_the_same_key(ring: KeyRing):
    made = ring.create("ours", role="editor", expires_at=TOMORROW, label="website")
    rotated = ring.rotate("ours", made.id)
    assert (rotated.id, rotated.role, rotated.expires_at) == (made.id, "editor", TOMORROW)
    assert ring.authenticate(rotated.key).key_id == made.id
    assert [key.label for key in ring.list("ours")] == ["website"]


def test_without_an_overlap_the_former_secret_is_refused_at_once(ring: KeyRing):
    made = ring.create("ours", role="viewer")
    assert ring.rotate("ours", made.id).former_until is None
    assert refusal(ring, made.key)


def test_the_former_secret_is_taken_until_the_overlap_ends(
    ring: KeyRing, owner: psycopg.Connection
):
    made = ring.create("ours", role="viewer")
    rotated = ring.rotate("ours", made.id, former_until=TOMORROW)
    assert rotated.former_until == TOMORROW == ring.list("ours")[0].former_until
    assert ring.authenticate(made.key) == ring.authenticate(rotated.key)
    owner.execute("UPDATE lastro.api_keys SET former_until = now()")
    assert refusal(ring, made.key)
    assert ring.authenticate(rotated.key).key_id == made.id
    assert ring.list("ours")[0].former_until is None


def test_a_second_rotation_ends_the_secret_before_the_former_one(ring: KeyRing):
    first = ring.create("ours", role="viewer")
    second = ring.rotate("ours", first.id, former_until=TOMORROW)
    third = ring.rotate("ours", first.id, former_until=TOMORROW)
    assert refusal(ring, first.key)
    assert ring.authenticate(second.key) == ring.authenticate(third.key)


def test_revoking_ends_both_secrets(ring: KeyRing):
    made = ring.create("ours", role="viewer")
    rotated = ring.rotate("ours", made.id, former_until=TOMORROW)
    ring.revoke("ours", made.id)
    assert refusal(ring, made.key) == refusal(ring, rotated.key)


def test_an_overlap_does_not_outlast_the_key(ring: KeyRing):
    made = ring.create("ours", role="viewer", expires_at=TOMORROW)
    rotated = ring.rotate("ours", made.id, former_until=TOMORROW + timedelta(days=1))
    assert rotated.former_until == TOMORROW


def test_a_rotation_can_set_another_end(ring: KeyRing):
    later = TOMORROW + timedelta(days=90)
    made = ring.create("ours", role="viewer", expires_at=TOMORROW)
    assert ring.rotate("ours", made.id, expires_at=later).expires_at == later


def test_a_key_that_ended_is_not_rotated(ring: KeyRing, owner: psycopg.Connection):
    revoked, expired = (ring.create("ours", role="viewer") for _ in range(2))
    ring.revoke("ours", revoked.id)
    owner.execute("UPDATE lastro.api_keys SET expires_at = now() WHERE id = %s", [expired.id])
    for made, state in ((revoked, "revoked"), (expired, "expired")):
        with pytest.raises(Conflict, match=f"the key {made.id} is {state}"):
            ring.rotate("ours", made.id, expires_at=TOMORROW)


@pytest.mark.parametrize("project", ["theirs", "nobody"])
@pytest.mark.parametrize("work", ["revoke", "rotate"])
def test_a_key_is_managed_in_its_own_project_alone(ring: KeyRing, work: str, project: str):
    made = ring.create("ours", role="viewer")
    with pytest.raises(NotFound):
        getattr(ring, work)(project, made.id)
    assert ring.authenticate(made.key).key_id == made.id


# --- the last use


def last_use(owner: psycopg.Connection) -> datetime | None:
    row = owner.execute("SELECT last_used_at FROM lastro.api_keys").fetchone()
    assert row is not None
    return row[0]


def test_a_use_is_written_after_the_request(ring: KeyRing, owner: psycopg.Connection):
    made = ring.create("ours", role="viewer")
    ring.authenticate(made.key)
    assert last_use(owner) is None
    ring.flush()
    assert last_use(owner) is not None


@pytest.mark.parametrize(("ago_s", "is_written"), [(30, False), (90, True)])
def test_a_use_is_written_at_most_once_a_minute(
    ring: KeyRing, owner: psycopg.Connection, ago_s: int, is_written: bool
):
    made = ring.create("ours", role="viewer")
    owner.execute(
        "UPDATE lastro.api_keys SET last_used_at = now() - make_interval(secs => %s)", [ago_s]
    )
    before = last_use(owner)
    ring.authenticate(made.key)
    ring.flush()
    assert (last_use(owner) != before) == is_written


def test_a_key_that_is_refused_is_not_used(ring: KeyRing, owner: psycopg.Connection):
    made = ring.create("ours", role="viewer")
    refusal(ring, with_secret(made.key))
    ring.flush()
    assert last_use(owner) is None


def test_no_request_waits_for_a_use_that_cannot_be_written(
    ring: KeyRing, owner: psycopg.Connection
):
    made = ring.create("ours", role="viewer")
    with owner.transaction(), ThreadPoolExecutor(1) as elsewhere:
        owner.execute("SELECT FROM lastro.api_keys FOR UPDATE")
        authenticated = elsewhere.submit(ring.authenticate, made.key)
        assert authenticated.result(timeout=5).key_id == made.id


def test_a_use_that_cannot_be_written_fails_nothing(ring: KeyRing, owner: psycopg.Connection):
    made = ring.create("ours", role="viewer")
    owner.execute("REVOKE UPDATE ON lastro.api_keys FROM lastro_app")
    try:
        ring.authenticate(made.key)
        ring.flush()
    finally:
        owner.execute("GRANT UPDATE ON lastro.api_keys TO lastro_app")
    assert last_use(owner) is None


# --- the wall


def test_the_application_lists_no_key_of_another_project(ring: KeyRing, database: Database):
    ring.create("theirs", role="viewer")
    with database.transaction(projects=[1]) as connection:
        assert connection.execute("SELECT id FROM lastro.api_keys").fetchall() == []
    with database.transaction() as connection:
        assert connection.execute("SELECT id FROM lastro.api_keys").fetchall() == []


def test_erasing_a_project_ends_its_keys(ring: KeyRing, owner: psycopg.Connection):
    add_project(owner, "gone")
    made = ring.create("gone", role="viewer")
    owner.execute("DELETE FROM lastro.projects WHERE slug = 'gone'")
    assert refusal(ring, made.key)
    assert owner.execute("SELECT count(*) FROM lastro.api_keys").fetchone() == (0,)
