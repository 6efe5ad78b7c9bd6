"""API keys: what one looks like, what is kept of it, and how it is told. Pure."""

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from lastro.errors import InvalidInput
from lastro.roles import Role

KeyState = Literal["active", "expired", "revoked"]

# 62 characters to the 43rd are a little more than 256 bits.
SECRET_CHARS = 43
# 48 bits: two keys of one project meet once in 16 million keys, and the table refuses the second.
ID_CHARS = 12
# What migration 20 lets through.
MAX_LABEL_CHARS = 200
# lastro_PROJECT_ID_SECRET; as lastro.secret_forms knows it. 18 digits fit into a bigint.
_KEY = re.compile(
    rf"lastro_(?P<project_id>[1-9][0-9]{{0,17}})_(?P<id>[0-9a-f]{{{ID_CHARS}}})"
    rf"_[A-Za-z0-9]{{{SECRET_CHARS}}}",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPlace:
    """Where a key says that it is kept, which its secret has yet to prove."""

    project_id: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who a valid key speaks for: one project, which is called ``slug``, in one role."""

    project_id: int
    slug: str
    key_id: str
    role: Role
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key at the only moment when it is told; ``expires_at`` None: it does not expire."""

    key: str = field(repr=False)
    id: str
    project: str
    role: Role
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedKey:
    """A key with another secret; the one before is taken until ``former_until``, None: no more."""

    key: str = field(repr=False)
    id: str
    project: str
    role: Role
    expires_at: datetime | None
    former_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is listed, without its secret. ``last_used_at`` is true to the minute.

    ``former_until`` is until when the secret before the last rotation is taken, None: no more.
    """

    id: str
    role: Role
    label: str | None
    state: KeyState
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    former_until: datetime | None


def key_text(place: KeyPlace, secret: str) -> str:
    """The text of a key."""
    return f"lastro_{place.project_id}_{place.id}_{secret}"


def parse_key(text: str) -> KeyPlace | None:
    """Where the key is kept that has this text; None for a text that no key has."""
    found = _KEY.fullmatch(text)
    if found is None:
        return None
    return KeyPlace(project_id=int(found["project_id"]), id=found["id"])


def key_hash(text: str) -> bytes:
    """What is kept of a key: 32 bytes, of its whole text, so that no row stands for another."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def check_label(label: str | None) -> str | None:
    """A label without blanks around it, None where nothing is left. Errors: InvalidInput."""
    label = (label or "").strip()
    if len(label) > MAX_LABEL_CHARS:
        raise InvalidInput(
            f"a label of {len(label)} characters is too long",
            remedy=f"use {MAX_LABEL_CHARS} or fewer",
        )
    return label or None
