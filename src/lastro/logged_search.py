"""A search as the log keeps it: what is told of it, and the hash of its question. Pure."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from lastro.gap import normalised_query

# Searches listed unless more are asked for: as many as somebody looks through.
LISTED_SEARCHES = 100
# As many as the hash has: fewer weaken it, more add little. Source: RFC 2104, section 3.
KEY_BYTES = 32
# Half of a SHA-256, so that two questions of a project never share one.
HASH_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSearch:
    """A search that was answered: when, what it was asked in, and how it went.

    ``query`` and ``query_hash`` are None where the setting ``log_queries`` kept none. ``scopes``
    None: all; ``filtered``: a filter or a path narrowed it too; ``next_page``: it asked for the
    hits after a page of the same question. ``degraded`` has reasons, ``profile`` is
    ``name@version``.
    """

    id: str
    at: datetime
    query: str | None
    query_hash: str | None
    k: int
    scopes: Sequence[str] | None
    filtered: bool
    next_page: bool
    hit_count: int
    abstained: bool
    degraded: Sequence[str]
    profile: str
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlace:
    """Where a search stands in the order of the list."""

    at: datetime
    id: UUID


def query_hash(query: str, *, key: bytes) -> bytes:
    """What is equal for equal questions, as gaps tell them apart, and says nothing without the key.

    Source: HMAC with SHA-256, RFC 2104.
    """
    text = normalised_query(query).encode()
    return hmac.digest(key, text, "sha256")[:HASH_BYTES]
