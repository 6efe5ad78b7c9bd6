"""Profiles, fusion, evidence threshold and order of hits. Pure.

Order is total: fused score (higher first), then the document's place, then the ordinal within it,
then the id (which follows from place and content), so re-indexing the same text reorders nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast
from uuid import UUID

from lastro.errors import ConfigError
from lastro.types import ProfileRef

# Candidates that each leg hands to the fusion, whatever k is: a top 3 is the head of a top 20.
VECTOR_DEPTH = 200
LEXICAL_DEPTH = 400
MAX_K = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Least evidence of a hit, by what speaks for it.

    ``both`` is on the fused score of a row that both signals score, ``vector_only`` on the
    cosine, ``lexical_only`` on the lexical score.
    """

    both: float
    vector_only: float
    lexical_only: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named, versioned set of ranking numbers and where they come from.

    ``lexical`` names the lexical score (``coverage`` or ``ts_rank``); ``match`` says whether a
    row must match any or all query words; ``threshold`` is evidence rules, or one number over
    the fused score, or None.
    """

    name: str
    version: int
    calibrated: bool | Literal["self"]
    provenance: str
    vector_weight: float
    lexical_weight: float
    lexical: Literal["coverage", "ts_rank"]
    match: Literal["any", "all"]
    threshold: Thresholds | float | None

    @property
    def ref(self) -> ProfileRef:
        """What an outcome says of the profile."""
        return ProfileRef(name=self.name, version=self.version, calibrated=self.calibrated)


DEFAULT = Profile(
    name="default",
    version=1,
    calibrated=False,
    provenance="weights: flat optimum (0.25 to 0.35) on five public sets, "
    "docs/explanation/how-ranking-is-measured.md; thresholds: uncalibrated",
    vector_weight=0.3,
    lexical_weight=0.7,
    lexical="coverage",
    match="any",
    threshold=Thresholds(both=0.2, vector_only=0.25, lexical_only=0.3),
)
ADR_0080 = Profile(
    name="adr-0080",
    version=1,
    calibrated=False,
    provenance="decision record 0080, verbatim, uncalibrated",
    vector_weight=0.6,
    lexical_weight=0.4,
    lexical="ts_rank",
    match="all",
    threshold=0.2,
)
SHIPPED: Mapping[str, Profile] = {profile.name: profile for profile in (DEFAULT, ADR_0080)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A row that a leg found, with both signals; a signal that gave no score is None.

    Ranks count from 1 within a leg's list; None where that leg did not find the row. ``unreached``
    is the share of the query, in [0, 1], that rows of its language cannot hold at all.
    """

    id: UUID
    document_id: UUID
    place: str
    ordinal: int
    char_start: int
    char_end: int
    vector_score: float | None
    lexical_score: float | None
    vector_rank: int | None = None
    lexical_rank: int | None = None
    unreached: float = 0.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its fused score."""

    candidate: Candidate
    score: float


def fuse(candidates: Iterable[Candidate], profile: Profile, *, legs: Sequence[str]) -> list[Ranked]:
    """Weighted sum on absolute scales, best first; a missing signal adds nothing.

    ``legs`` names those that ran: with one absent, the other carries the whole weight. Likewise
    the words that a row's language cannot hold say nothing there, and their weight falls on its
    vector: else every row of the question's own language would stand above a better answer in
    another.
    """
    ranked = [Ranked(c, _score(c, profile, legs=legs)) for c in candidates]
    return sorted(ranked, key=_order)


def _score(candidate: Candidate, profile: Profile, *, legs: Sequence[str]) -> float:
    vector, lexical = weights(profile, legs=legs)
    if "vector" in legs:
        vector += lexical * candidate.unreached
    return vector * (candidate.vector_score or 0.0) + lexical * (candidate.lexical_score or 0.0)


def weights(profile: Profile, *, legs: Sequence[str]) -> tuple[float, float]:
    """Vector and lexical weight when ``legs`` ran; they add up to 1."""
    vector = profile.vector_weight if "vector" in legs else 0.0
    lexical = profile.lexical_weight if "lexical" in legs else 0.0
    total = (vector + lexical) or 1.0
    return vector / total, lexical / total


def _order(ranked: Ranked) -> tuple[float, str, int, str]:
    c = ranked.candidate
    return (-ranked.score, c.place, c.ordinal, str(c.id))


def has_evidence(ranked: Ranked, profile: Profile, *, legs: Sequence[str]) -> bool:
    """Whether a hit may be shown.

    Any rule that applies is enough, so more evidence never takes a hit away. A profile's one
    number means nothing when a leg is absent, and does not apply then.
    """
    threshold, c = profile.threshold, ranked.candidate
    if threshold is None:
        return True
    if not isinstance(threshold, Thresholds):
        return len(legs) < 2 or ranked.score >= threshold
    on_both = c.vector_score is not None and c.lexical_score is not None
    return (
        (on_both and ranked.score >= threshold.both)
        or (c.vector_score is not None and c.vector_score >= threshold.vector_only)
        or (c.lexical_score is not None and c.lexical_score >= threshold.lexical_only)
    )


def one_per_place(ranked: Iterable[Ranked], *, max_per_document: int) -> list[Ranked]:
    """Drop hits that overlap a better one of their document, and those beyond the cap."""
    kept: list[Ranked] = []
    seen: dict[UUID, list[Candidate]] = {}
    for item in ranked:
        c = item.candidate
        others = seen.setdefault(c.document_id, [])
        overlaps = any(o.char_start < c.char_end and c.char_start < o.char_end for o in others)
        if not overlaps and len(others) < max_per_document:
            others.append(c)
            kept.append(item)
    return kept


def load_profiles(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Profile]:
    """The shipped profiles and those that settings define, by name.

    A table names a ``base`` (default ``default``) and the numbers that differ.
    Errors: ConfigError for an unknown key, base, or a number out of range.
    """
    profiles = dict(SHIPPED)
    for name, table in tables.items():
        if name in SHIPPED:
            raise ConfigError(
                f"the profile {name!r} is shipped with Lastro and cannot be redefined",
                remedy="give yours another name",
            )
        profiles[name] = _from_table(name, table)
    return profiles


_TABLE_KEYS = frozenset(
    {"base", "version", "provenance", "vector_weight", "lexical_weight", "threshold"}
)


def _from_table(name: str, table: Mapping[str, Any]) -> Profile:
    unknown = sorted(set(table) - _TABLE_KEYS)
    base = SHIPPED.get(str(table.get("base", DEFAULT.name)))
    if unknown or base is None:
        what = f"unknown keys: {', '.join(unknown)}" if unknown else "an unknown base"
        raise ConfigError(
            f"profile {name!r} has {what}",
            remedy=f"keys are {', '.join(sorted(_TABLE_KEYS))}; bases are {', '.join(SHIPPED)}",
        )
    version = table.get("version", 1)
    if not isinstance(version, int) or version < 1:
        raise ConfigError(f"profile {name!r}: version must be a whole number from 1")
    weights = {
        key: _number(name, key, table.get(key, getattr(base, key)))
        for key in ("vector_weight", "lexical_weight")
    }
    if sum(weights.values()) <= 0:
        raise ConfigError(f"profile {name!r}: one weight must be above 0")
    return replace(
        base,
        name=name,
        version=version,
        calibrated=False,
        provenance=str(table.get("provenance", f"lastro.toml, from {base.name}")),
        threshold=_threshold(name, table.get("threshold", base.threshold)),
        **weights,
    )


def _threshold(profile: str, value: object) -> Thresholds | float | None:
    if value is None or isinstance(value, Thresholds):
        return value
    if not isinstance(value, dict):
        return _number(profile, "threshold", value)
    table = cast("dict[str, object]", value)
    names = {field.name for field in fields(Thresholds)}
    if set(table) != names:
        raise ConfigError(
            f"profile {profile!r}: threshold must be one number, or the three numbers "
            f"{', '.join(sorted(names))}"
        )
    return Thresholds(
        **{key: _number(profile, f"threshold.{key}", entry) for key, entry in table.items()}
    )


def _number(profile: str, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"profile {profile!r}: {key} must be a number from 0 to 1, not {value!r}")
    return float(value)
