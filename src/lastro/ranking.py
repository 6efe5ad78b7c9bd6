"""Fusion, evidence threshold and order of hits. Pure.

Order is total: fused score (higher first), then the document's place, then the ordinal within it,
then the id (which follows from place and content), so re-indexing the same text reorders nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from lastro.profiles import Cosine, Profile, Thresholds

DEFAULT_K, MAX_K = 10, 100
# Hits of one document that are shown, unless a request says otherwise.
DEFAULT_MAX_PER_DOCUMENT = 3
# Spreads above the mean of random pairs at which a scaled cosine reaches 1: flat optimum from .3 to
# .7 of e5-small's weight, and equal to the raw cosine for use-m3. Source: docs/adr/0005
SPREADS = 6.0
# The least scaled cosine, three spreads below that mean. Question and passage lie farther apart
# than two passages do: a floor of 0 makes most rows alike, and costs .004. Source: docs/adr/0005
FLOOR = -0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorScale:
    """Mean and spread (standard deviation) of the cosines of a corpus's own random pairs."""

    mean: float
    spread: float


class Candidate(NamedTuple):
    """A row that a leg found, with both signals; a signal that gave no score is None.

    Ranks count from 1 within a leg's list; None where that leg did not find the row. ``unreached``
    is the share of the query, in [0, 1], that rows of its language cannot hold at all, ``unseen``
    that share and the one which no row holds; ``mass``, in [0, 1], is how much the query's words
    can testify. ``rule`` is the sum of the matching rules' weights and the row's own; ``age_days``
    is None without a date.

    A search makes hundreds: a named tuple is made ten times as fast as a frozen dataclass.
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
    unseen: float = 0.0
    mass: float = 1.0
    rule: float = 0.0
    age_days: float | None = None


class Ranked(NamedTuple):
    """A candidate with its fused score."""

    candidate: Candidate
    score: float


def fuse(
    candidates: Iterable[Candidate],
    profile: Profile,
    *,
    legs: Sequence[str],
    scale: VectorScale | None = None,
) -> list[Ranked]:
    """Weighted sum of the parts of each candidate, best first; a missing signal adds nothing.

    ``legs`` names those that ran: with one absent, the other carries both weights. Likewise, on
    absolute scales, the words that a row's language cannot hold say nothing there, and their
    weight falls on its vector: else every row of the question's own language would stand above a
    better answer in another. A leg that a profile gives no weight to gets none this way either.
    ``scale`` is the corpus's, where one was measured.
    """
    vector, lexical = weights(profile, legs=legs)
    given = lexical if profile.fusion == "weighted" and vector else 0.0
    ranked: list[Ranked] = []
    for candidate in candidates:
        meaning, words = _leg_parts(candidate, profile, scale=scale)
        score = (vector + given * candidate.unreached) * meaning + lexical * words
        if profile.rule_weight:
            score += profile.rule_weight * rule_part(candidate.rule)
        if profile.freshness_weight:
            score += profile.freshness_weight * _freshness_part(candidate, profile)
        ranked.append(Ranked(candidate, score))
    return sorted(ranked, key=_order)


def fusion_parts(
    candidate: Candidate, profile: Profile, *, scale: VectorScale | None
) -> dict[str, float]:
    """What each signal brings to the sum before its weight.

    A row without a vector stands where a raw cosine of 0 would: at the floor of a scale.
    """
    vector, lexical = _leg_parts(candidate, profile, scale=scale)
    return {
        "vector": vector,
        "lexical": lexical,
        "rule": rule_part(candidate.rule),
        "freshness": _freshness_part(candidate, profile),
    }


def _leg_parts(
    candidate: Candidate, profile: Profile, *, scale: VectorScale | None
) -> tuple[float, float]:
    if profile.fusion == "rrf":
        return (
            reciprocal_rank(candidate.vector_rank, k=profile.rrf_k),
            reciprocal_rank(candidate.lexical_rank, k=profile.rrf_k),
        )
    vector = vector_part(candidate.vector_score, profile, scale=scale)
    if vector is None:
        vector = FLOOR if fused_cosine(profile, scale=scale) == "scaled" else 0.0
    return vector, candidate.lexical_score or 0.0


def rule_part(total: float) -> float:
    """The sum of the weights that speak for a row, clipped to [0, 1]."""
    return min(max(total, 0.0), 1.0)


def _freshness_part(candidate: Candidate, profile: Profile) -> float:
    return freshness(candidate.age_days, half_life_days=profile.half_life_days)


def vector_part(
    cosine: float | None, profile: Profile, *, scale: VectorScale | None
) -> float | None:
    """The cosine as the profile fuses it: as it is, or in [-0.5, 1] on the corpus's own scale."""
    if cosine is None or scale is None or fused_cosine(profile, scale=scale) == "raw":
        return cosine
    return min(max((cosine - scale.mean) / (SPREADS * scale.spread), FLOOR), 1.0)


def fused_cosine(profile: Profile, *, scale: VectorScale | None) -> Cosine:
    """How the cosines are fused; a corpus too small to have a scale keeps them as they are."""
    return "raw" if scale is None else profile.cosine


def reciprocal_rank(rank: int | None, *, k: float) -> float:
    """``(k + 1) / (k + rank)``, in (0, 1]; 0 for a row that the leg did not find.

    Reciprocal rank over its best possible value. Source: Cormack, Clarke, Büttcher, SIGIR 2009.
    """
    return 0.0 if rank is None else (k + 1) / (k + rank)


def freshness(age_days: float | None, *, half_life_days: float) -> float:
    """``0.5^(age / half-life)``, in (0, 1]; 1 for a date to come, 0.5 for a row without one."""
    if age_days is None:
        return 0.5
    return 0.5 ** (max(age_days, 0.0) / half_life_days)


def weights(profile: Profile, *, legs: Sequence[str]) -> tuple[float, float]:
    """Vector and lexical weight when ``legs`` ran: together always those of both."""
    both = profile.vector_weight + profile.lexical_weight
    if "vector" not in legs:
        return 0.0, both if "lexical" in legs else 0.0
    return (profile.vector_weight, profile.lexical_weight) if "lexical" in legs else (both, 0.0)


def _order(ranked: Ranked) -> tuple[float, str, int, UUID]:
    c = ranked.candidate
    return (-ranked.score, c.place, c.ordinal, c.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for a hit, against what it must reach; None where a signal is missing.

    ``joint`` is what meaning and words say together and ``bar`` its least value, between the
    profile's numbers for both legs and for the vector alone; ``words`` is what the words say alone.
    """

    joint: float | None
    bar: float | None
    words: float | None
    words_bar: float | None

    @property
    def is_enough(self) -> bool:
        """Whether one rule is met: more evidence never takes a hit away."""
        return (self.joint is not None and self.bar is not None and self.joint >= self.bar) or (
            self.words is not None and self.words_bar is not None and self.words >= self.words_bar
        )


def evidence(
    candidate: Candidate,
    thresholds: Thresholds,
    profile: Profile,
    *,
    legs: Sequence[str],
    scale: VectorScale | None = None,
) -> Evidence:
    """What speaks for a candidate, in its own right and not beside the others of its query.

    The words say ``lexical score · mass``. Together, half each: ``0.5·vector + 0.5·words``; the
    share of the query of which the row's language knows nothing (``unseen``) gives its half to the
    vector, and moves the bar from ``both`` to ``vector_only``. A vector to which the profile gives
    no weight is no evidence either. Source: docs/adr/0019.
    """
    vector = None
    if profile.vector_weight:
        vector = vector_part(candidate.vector_score, profile, scale=scale)
    words = None if candidate.lexical_score is None else candidate.lexical_score * candidate.mass
    unseen = candidate.unseen if "lexical" in legs else 1.0
    half = 0.5 + 0.5 * unseen
    return Evidence(
        joint=None if vector is None else half * vector + 0.5 * (words or 0.0),
        bar=None
        if vector is None
        else thresholds.both + unseen * (thresholds.vector_only - thresholds.both),
        words=words,
        words_bar=None if words is None else thresholds.lexical_only,
    )


def has_evidence(
    ranked: Ranked,
    profile: Profile,
    *,
    legs: Sequence[str],
    scale: VectorScale | None = None,
) -> bool:
    """Whether a hit may be shown.

    A profile's one number is on the fused score, means nothing when a leg is absent, and does not
    apply then.
    """
    threshold = profile.threshold
    if threshold is None:
        return True
    if isinstance(threshold, Thresholds):
        return evidence(ranked.candidate, threshold, profile, legs=legs, scale=scale).is_enough
    return len(legs) < 2 or ranked.score >= threshold


def one_per_place(ranked: Iterable[Ranked], *, max_per_document: int) -> Iterator[Ranked]:
    """Leave out hits that overlap a better one of their document, and those beyond the cap."""
    seen: dict[UUID, list[Candidate]] = {}
    for item in ranked:
        c = item.candidate
        others = seen.setdefault(c.document_id, [])
        overlaps = any(o.char_start < c.char_end and c.char_start < o.char_end for o in others)
        if not overlaps and len(others) < max_per_document:
            others.append(c)
            yield item
