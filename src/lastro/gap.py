"""Gaps: what makes two questions that found nothing the same one, and how they are told. Pure."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from lastro.entry_filter import PARTS, canonical_json, parse_filter
from lastro.errors import InvalidInput
from lastro.lexical import asked_query
from lastro.types import OPTIONAL, SCOPES, Origin, Outcome

GapStatus = Literal["open", "dismissed", "resolved", "accepted"]

# Gaps listed unless more are asked for: as many as somebody looks through.
LISTED_GAPS = 100
# The set that accepted gaps go into: one of its own, so that the file of another can be imported
# again without losing them.
GOLDEN_NAME = "gaps"
# As of golden sets' hashes: fewer digits are too easily two gaps'.
MIN_ID_DIGITS = 4
# Punctuation that a name may end in: C#, 50%, src/, foo_.
_KEPT_AT_THE_END = frozenset("#%&*/@\\_")
# The question has only stop words: that is no fault of this search, and will be so again.
_STILL_A_GAP: frozenset[str] = frozenset({"lexical_no_terms"})
# A sample of what matched was scored: a miss may be chance, a hit is a hit.
_STILL_AN_ANSWER: frozenset[str] = _STILL_A_GAP | {"lexical_sampled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The best passage below the threshold at the last miss, which a search may still see."""

    score: float
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A question that found nothing: as it was asked first, how often, and what became of it.

    ``filter`` holds what it was asked in: ``scopes``, ``pathPrefix`` and the parts of the filter
    language, each left out where nothing was asked for.
    """

    id: str
    query: str
    filter: Mapping[str, Any]
    hit_count: int
    first_seen: datetime
    last_seen: datetime
    status: GapStatus
    nearest: Nearest | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPlace:
    """Where a gap stands in the order of a list."""

    hit_count: int
    last_seen: datetime
    id: UUID


def is_gap(outcome: Outcome) -> bool:
    """Whether an outcome says that nothing answers the question: it has no hit, and is whole."""
    reasons = {part.reason for part in outcome.degraded}
    return not outcome.hits and reasons <= _STILL_A_GAP


def is_answered(outcome: Outcome) -> bool:
    """Whether an outcome says that a question has an answer now, with all parts at work."""
    reasons = {part.reason for part in outcome.degraded}
    return bool(outcome.hits) and reasons <= _STILL_AN_ANSWER


# --- which questions are the same


def gap_id(normalised: str, canonical: Mapping[str, Any]) -> UUID:
    """The id of a gap within its project: half of a SHA-256, so two questions never share one."""
    text = json.dumps([normalised, canonical], ensure_ascii=False, sort_keys=True)
    return UUID(bytes=hashlib.sha256(text.encode("utf-8")).digest()[:16])


def normalised_query(query: str) -> str:
    """NFC, case-folded, blanks collapsed, any script's punctuation at the end dropped.

    A question of nothing but punctuation stays what it is.

    >>> normalised_query("  Why  HNSW ?!")
    'why hnsw'
    """
    text = " ".join(_folded(asked_query(query)).split())
    end = len(text)
    while end and _may_be_dropped(text[end - 1]):
        end -= 1
    return text[:end] or text


def _may_be_dropped(character: str) -> bool:
    is_punctuation = unicodedata.category(character)[0] == "P"
    return character == " " or (is_punctuation and character not in _KEPT_AT_THE_END)


def _folded(text: str) -> str:
    # Decomposed first: a folded letter may bear marks in another order. Source: Unicode, D145.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def canonical_filter(
    scopes: Sequence[str] | None, *, path_prefix: str | None, entries: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What a question was asked in, as JSON: the same restriction is the same value.

    Every scope is none, ``./docs`` is ``docs``; lists are sorted sets, times are in UTC.
    Errors: InvalidFilter.
    """
    said: dict[str, Any] = {}
    if scopes is not None and not set(SCOPES) <= set(scopes):
        said["scopes"] = [scope for scope in SCOPES if scope in scopes]
    if path_prefix is not None:
        said["pathPrefix"] = path_prefix.removeprefix("./")
    parsed = parse_filter(entries)
    return said if parsed is None else said | canonical_json(parsed)


def parts_of(
    canonical: Mapping[str, Any],
) -> tuple[list[str] | None, str | None, dict[str, Any] | None]:
    """Scopes, path prefix and filter of a search that asks in the same once more."""
    entries = {key: value for key, value in canonical.items() if key in PARTS}
    return canonical.get("scopes"), canonical.get("pathPrefix"), entries or None


# --- what people write


def id_digits(text: str) -> str:
    """The first hexadecimal digits of an id, as a person wrote them. Errors: InvalidInput."""
    digits = text.strip().lower().replace("-", "")
    if re.fullmatch(f"[0-9a-f]{{{MIN_ID_DIGITS},32}}", digits) is None:
        raise InvalidInput(
            f"{text!r} is no gap's id",
            remedy=f"give {MIN_ID_DIGITS} or more of its first digits; see `lastro gaps`",
        )
    return digits
