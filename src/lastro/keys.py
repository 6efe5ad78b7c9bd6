"""API keys: made, listed, revoked, rotated, and recognised when they are presented."""

import contextlib
import hmac
import secrets
import string
import threading
from collections import defaultdict
from datetime import UTC, datetime

from lastro import store
from lastro.db.pool import Database
from lastro.errors import Conflict, InvalidInput, LastroError, NotFound, Unauthenticated
from lastro.key import (
    ID_CHARS,
    SECRET_CHARS,
    ApiKey,
    KeyPlace,
    NewKey,
    Principal,
    RotatedKey,
    check_label,
    key_hash,
    key_text,
    parse_key,
)
from lastro.later import Later
from lastro.projects import project_named
from lastro.roles import ROLES, Role
from lastro.store import AppConnection, KeyRow

_SECRET_ALPHABET = string.ascii_letters + string.digits
# What an unknown key is compared with; no text is known to have this hash.
_NO_HASH = bytes(32)


class KeyRing:
    """The keys of all projects. May be used by several threads.

    Errors of every method that names a project: NotFound for it, and for an id that no key of it
    has.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._used = _UsedKeys(database)

    def authenticate(self, text: str) -> Principal:
        """Who a key speaks for.

        Errors: Unauthenticated, the same for a text that is no key, an unknown key, a wrong
        secret, and a key that is revoked or expired; after the same work but for the first.
        """
        place = parse_key(text)
        if place is None:
            raise _refused()
        with self._database.transaction(projects=[place.project_id]) as connection:
            row = store.find_key(connection, place.id, project_id=place.project_id)
        if not _is_secret_of(row, key_hash(text)) or row is None or not row.is_live:
            raise _refused()
        if row.is_use_unwritten:
            self._used.note(place)
        return Principal(
            project_id=place.project_id,
            slug=row.slug,
            key_id=place.id,
            role=row.role,
            expires_at=row.expires_at,
        )

    def create(
        self,
        project: str,
        *,
        role: Role,
        expires_at: datetime | None = None,
        label: str | None = None,
    ) -> NewKey:
        """A new key, whose text is told this once. Errors: InvalidInput too."""
        _check_role(role)
        _check_end(expires_at)
        label = check_label(label)
        tenant = project_named(self._database, project)
        place = KeyPlace(project_id=tenant.id, id=secrets.token_hex(ID_CHARS // 2))
        text = _new_text(place)
        with self._database.transaction(projects=[tenant.id]) as connection:
            store.insert_key(
                connection,
                place.id,
                project_id=tenant.id,
                role=role,
                label=label,
                secret_hash=key_hash(text),
                expires_at=expires_at,
            )
        return NewKey(key=text, id=place.id, project=tenant.slug, role=role, expires_at=expires_at)

    def list(self, project: str) -> list[ApiKey]:
        """A project's keys in any state, the newest first, without their secrets."""
        tenant = project_named(self._database, project)
        with self._database.transaction(projects=[tenant.id]) as connection:
            return store.list_keys(connection, tenant.id)

    def revoke(self, project: str, id_: str) -> ApiKey:
        """Refuse a key from now on, with both its secrets. Once more changes nothing."""
        tenant = project_named(self._database, project)
        with self._database.transaction(projects=[tenant.id]) as connection:
            store.revoke_key(connection, id_, project_id=tenant.id)
            return _called(connection, id_, project_id=tenant.id, project=tenant.slug)

    def rotate(
        self,
        project: str,
        id_: str,
        *,
        former_until: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> RotatedKey:
        """Give a key another secret, told this once; the present one is taken until
        ``former_until``, None: no more. An ``expires_at`` of None leaves the key's end as it is.

        A secret that was replaced before is taken no more. Errors: Conflict for a key that is
        revoked or expired; InvalidInput.
        """
        _check_end(expires_at)
        _check_end(former_until)
        tenant = project_named(self._database, project)
        text = _new_text(KeyPlace(project_id=tenant.id, id=id_))
        with self._database.transaction(projects=[tenant.id]) as connection:
            is_done = store.rotate_key(
                connection,
                id_,
                project_id=tenant.id,
                secret_hash=key_hash(text),
                former_until=former_until,
                expires_at=expires_at,
            )
            key = _called(connection, id_, project_id=tenant.id, project=tenant.slug)
        if not is_done:
            raise Conflict(
                f"the key {id_} is {key.state}, and stays so",
                remedy="make another one with `lastro keys create`",
            )
        return RotatedKey(
            key=text,
            id=id_,
            project=tenant.slug,
            role=key.role,
            expires_at=key.expires_at,
            former_until=key.former_until,
        )

    def flush(self) -> None:
        """Write what is still to be written of keys' uses."""
        self._used.flush()


class _UsedKeys:
    """Keys that were used, written soon and by a thread of its own: no request waits for that."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._places: set[KeyPlace] = set()
        self._later = Later(self._write)

    def note(self, place: KeyPlace) -> None:
        """Take over that a key was used."""
        with self._lock:
            self._places.add(place)
        self._later.ask()

    def flush(self) -> None:
        """Write what was taken over."""
        self._later.now()

    def _write(self) -> None:
        with self._lock:
            places, self._places = self._places, set()
        by_project: defaultdict[int, list[str]] = defaultdict(list)
        for place in places:
            by_project[place.project_id].append(place.id)
        for project_id, ids in by_project.items():
            # Where the server is away, the next use of the key is written.
            with (
                contextlib.suppress(LastroError),
                self._database.transaction(projects=[project_id]) as connection,
            ):
                store.note_keys_used(connection, sorted(ids), project_id=project_id)


def _is_secret_of(row: KeyRow | None, presented: bytes) -> bool:
    """Whether the hash is that of a key's secret or its former one, in the same time for any."""
    present = row.secret_hash if row is not None else _NO_HASH
    former = (row.former_hash if row is not None else None) or _NO_HASH
    is_present = hmac.compare_digest(present, presented)
    is_former = hmac.compare_digest(former, presented)
    return is_present or is_former


def _new_text(place: KeyPlace) -> str:
    secret = "".join(secrets.choice(_SECRET_ALPHABET) for _ in range(SECRET_CHARS))
    return key_text(place, secret)


def _called(connection: AppConnection, id_: str, *, project_id: int, project: str) -> ApiKey:
    found = store.list_keys(connection, project_id, id_=id_)
    if not found:
        raise NotFound(
            f"the project {project!r} has no key {id_!r}", remedy="see `lastro keys list`"
        )
    return found[0]


def _refused() -> Unauthenticated:
    return Unauthenticated(
        "no valid key was given",
        remedy="send `Authorization: Bearer KEY`, with a key that an administrator made",
    )


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise InvalidInput(f"there is no role {role!r}", remedy=f"use one of {', '.join(ROLES)}")


def _check_end(when: datetime | None) -> None:
    if when is not None and when <= datetime.now(UTC):
        raise InvalidInput(f"{when.isoformat()} is over already", remedy="name a time to come")
