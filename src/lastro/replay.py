"""Fusion replayed over cached legs: the nDCG of many settings without asking again. Pure.

``ranking.fuse`` stays the definition of fusion; what is here repeats it over arrays, operation by
operation in double precision, so that even ties fall alike. A test holds the two equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lastro.profiles import Profile
from lastro.ranking import FLOOR, SPREADS, VectorScale, freshness, weights
from lastro.terms import SCOPE_FLOOR

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

CUTOFF = 10
# Numbers of one block: with what compares them, they stay in a core's own cache.
BLOCK_NUMBERS = 32_768
# Fewer settings than this are scored sooner than rows are left out.
PRUNED_SETTINGS = 8
# How many of the best rows by vector are asked whether ten of them are better by words too.
STEPS = (10, 15, 25, 45, 80, 150, 300)
# Beyond what rounding could turn round.
MARGIN = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedQuestion:
    """Both legs' candidates of one question and how they were judged.

    Arrays of a candidate have the shape (n,) and stand by place, ordinal and id, the order of equal
    scores. ``cosine`` is nan for a row without a vector, ``coverage`` (before it is divided by the
    length) for a row that does not match; ranks count from 1, 0 where that leg did not find the
    row, and ``lexical_rank`` is by ``length_exponent``. ``age_days`` is nan without a date. Rows of
    one ``unit`` count once; ``unit_grade`` is a unit's gain, 0 for one that answers nothing, and
    ``ideal_gains`` are those of all judged answers, found or not, best first. ``unreached``,
    ``unseen`` and ``mass`` are as of a ``ranking.Candidate``. ``group`` names what may be left out
    as a whole: a set, a language. ``document`` and the characters say which hits overlap.
    """

    id: str
    group: str
    answerable: bool
    legs: tuple[str, ...]
    scale: VectorScale | None
    length_exponent: float
    cosine: Floats
    coverage: Floats
    length_ratio: Floats
    unreached: Floats
    unseen: Floats
    mass: float
    vector_rank: Ints
    lexical_rank: Ints
    rule: Floats
    age_days: Floats
    document: Ints
    char_start: Ints
    char_end: Ints
    unit: Ints
    unit_grade: Floats
    ideal_gains: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """What each signal brings to the sum before its weight, of the rows within the depths.

    ``rows`` are their positions in the question's arrays; the others have the shape of ``rows``.
    """

    rows: Ints
    vector: Floats
    lexical: Floats
    unreached: Floats
    rule: Floats
    freshness: Floats


def lexical_scores(question: CachedQuestion, *, length_exponent: float) -> Floats:
    """Coverage over the row's length, clipped to 1; nan where the row does not match."""
    factor = np.maximum(SCOPE_FLOOR, question.length_ratio**length_exponent)
    return np.minimum(1.0, question.coverage / factor)


def vector_scores(question: CachedQuestion, *, cosine: str) -> Floats:
    """The cosine as ``cosine`` says it is fused: raw, or on its corpus's scale; nan without."""
    scale = question.scale
    if cosine == "raw" or scale is None:
        return question.cosine
    return np.clip((question.cosine - scale.mean) / (SPREADS * scale.spread), FLOOR, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Lexical:
    """The lexical leg under one length exponent; ``part`` is 0 where ``scores`` are nan."""

    part: Floats
    rank: Ints


def parts(question: CachedQuestion, profile: Profile) -> Parts:
    """The parts of ``profile``'s sum, before their weights.

    Shallower legs are those that were cached, cut at a rank. Another length exponent orders the
    lexical leg anew, among the rows that it had found.
    """
    return _parts(
        question,
        profile,
        vector_part=_vector_part(question, cosine=profile.cosine),
        lexical=_lexical(question, length_exponent=profile.length_exponent),
    )


def _parts(
    question: CachedQuestion, profile: Profile, *, vector_part: Floats, lexical: _Lexical
) -> Parts:
    by_vector = _within(question.vector_rank, profile.vector_depth)
    by_words = _within(lexical.rank, profile.lexical_depth)
    rows = np.flatnonzero(by_vector | by_words)
    lexical_part, unreached = lexical.part, question.unreached
    if profile.fusion == "rrf":
        vector_part = _reciprocal(question.vector_rank, by_vector, k=profile.rrf_k)
        lexical_part = _reciprocal(lexical.rank, by_words, k=profile.rrf_k)
        unreached = np.zeros(len(question.unreached))
    return Parts(
        rows=rows,
        vector=vector_part[rows],
        lexical=lexical_part[rows],
        unreached=unreached[rows],
        rule=question.rule[rows].clip(0.0, 1.0),
        freshness=_freshness(question.age_days[rows], profile),
    )


def _vector_part(question: CachedQuestion, *, cosine: str) -> Floats:
    absent = 0.0 if cosine == "raw" or question.scale is None else FLOOR
    return np.nan_to_num(vector_scores(question, cosine=cosine), nan=absent)


def _lexical(question: CachedQuestion, *, length_exponent: float) -> _Lexical:
    part = np.nan_to_num(lexical_scores(question, length_exponent=length_exponent))
    ranks = question.lexical_rank
    if length_exponent != question.length_exponent:
        found = np.flatnonzero(ranks)
        ranks = np.zeros_like(ranks)
        ranks[found[np.argsort(-part[found], kind="stable")]] = np.arange(1, len(found) + 1)
    return _Lexical(part=part, rank=ranks)


def _within(ranks: Ints, depth: int) -> Flags:
    return (ranks > 0) & (ranks <= depth)


def _reciprocal(ranks: Ints, found: Flags, *, k: float) -> Floats:
    return np.where(found, (k + 1) / (k + np.maximum(ranks, 1)), 0.0)


def _freshness(age_days: Floats, profile: Profile) -> Floats:
    if not profile.freshness_weight:
        return np.zeros(len(age_days))
    half_life = profile.half_life_days
    ages = [None if np.isnan(age) else float(age) for age in age_days]
    return np.array([freshness(age, half_life_days=half_life) for age in ages], dtype=np.float64)


def fused(question: CachedQuestion, profile: Profile) -> tuple[Ints, Floats]:
    """Rows and fused scores, best first, ties by place: what ``ranking.fuse`` returns."""
    found = parts(question, profile)
    scores = _scores(found, _weights([profile], question.legs))[:, 0]
    order = np.argsort(-scores, kind="stable")
    return found.rows[order], scores[order]


# --- many settings at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Weights:
    """Weights of settings that share everything else; each has the shape (settings,).

    ``given`` is what the lexical weight gives to the vector for words beyond a row's language.
    """

    vector: Floats
    lexical: Floats
    given: Floats
    rule: Floats
    freshness: Floats

    def part(self, which: slice) -> "_Weights":
        return _Weights(
            vector=self.vector[which],
            lexical=self.lexical[which],
            given=self.given[which],
            rule=self.rule[which],
            freshness=self.freshness[which],
        )


def _weights(settings: Sequence[Profile], legs: Sequence[str]) -> _Weights:
    pairs = np.array([weights(setting, legs=legs) for setting in settings])
    return _Weights(
        vector=pairs[:, 0],
        lexical=pairs[:, 1],
        given=np.where(pairs[:, 0] > 0, pairs[:, 1], 0.0),
        rule=np.array([setting.rule_weight for setting in settings]),
        freshness=np.array([setting.freshness_weight for setting in settings]),
    )


def _scores(found: Parts, by: _Weights) -> Floats:
    """Fused scores, (rows, settings), in the order of operations of ``ranking.fuse``."""
    if found.unreached.any():
        scores = found.unreached[:, None] * np.where(by.vector != 0, by.lexical, 0.0)
        scores += by.vector
        scores *= found.vector[:, None]
    else:
        scores = found.vector[:, None] * by.vector
    scores += found.lexical[:, None] * by.lexical
    # Adding a nought changes no sum.
    if by.rule.any():
        scores += found.rule[:, None] * by.rule
    if by.freshness.any():
        scores += found.freshness[:, None] * by.freshness
    return scores


def ndcg_matrix(
    questions: Sequence[CachedQuestion], settings: Sequence[Profile]
) -> NDArray[np.float32]:
    """nDCG@10 of every setting on every question, in [0, 1], shape (settings, questions).

    A question without a judged answer is 0 everywhere: leave it out.
    Source: Järvelin and Kekäläinen, TOIS 2002, with the grade as gain.
    """
    kinds = _by_kind(settings)
    cosines = {setting.cosine for setting in settings}
    exponents = {setting.length_exponent for setting in settings}
    by_legs = {
        legs: [_weights(kind, legs) for _, kind in kinds]
        for legs in {question.legs for question in questions}
    }
    matrix = np.zeros((len(settings), len(questions)), dtype=np.float32)
    for number, question in enumerate(questions):
        vector = {cosine: _vector_part(question, cosine=cosine) for cosine in cosines}
        lexical = {e: _lexical(question, length_exponent=e) for e in exponents}
        for (places, kind), by in zip(kinds, by_legs[question.legs], strict=True):
            found = _parts(
                question,
                kind[0],
                vector_part=vector[kind[0].cosine],
                lexical=lexical[kind[0].length_exponent],
            )
            matrix[places, number] = _ndcg(question, found, by)
    return matrix


def _by_kind(settings: Sequence[Profile]) -> list[tuple[Ints, list[Profile]]]:
    """Settings that differ in their weights alone, with their positions."""
    order = sorted(range(len(settings)), key=lambda number: _kind(settings[number]))
    kinds: list[tuple[Ints, list[Profile]]] = []
    for _, members in groupby(order, key=lambda number: _kind(settings[number])):
        numbers = list(members)
        kinds.append((np.array(numbers), [settings[number] for number in numbers]))
    return kinds


def _kind(setting: Profile) -> tuple[str, str, float, float, float, int, int]:
    return (
        setting.fusion,
        "" if setting.fusion == "rrf" else setting.cosine,
        setting.length_exponent,
        setting.rrf_k if setting.fusion == "rrf" else 0.0,
        setting.half_life_days if setting.freshness_weight else 0.0,
        setting.vector_depth,
        setting.lexical_depth,
    )


def _ndcg(question: CachedQuestion, found: Parts, by: _Weights) -> Floats:
    ideal = dcg(question.ideal_gains)
    count = len(by.vector)
    made = np.zeros(count)
    if not len(found.rows) or not ideal:
        return made
    single = len(question.unit) == len(question.unit_grade)
    if count >= PRUNED_SETTINGS:
        found = _contenders(found, question.unit[found.rows], by, single=single)
    layout = _layout(question, found.rows, single=single)
    step = max(1, BLOCK_NUMBERS // len(found.rows))
    for start in range(0, count, step):
        block = slice(start, start + step)
        made[block] = _gained(_scores(found, by.part(block)), layout) / ideal
    return made


def _contenders(found: Parts, units: Ints, by: _Weights, *, single: bool) -> Parts:
    """The rows that some weights could put among the first ten; exact.

    A row is left out when the best rows of ten units stand above it by vector and by words both:
    no weights put it, or anything below it, among the first ten. ``single`` says that every unit
    has one row.
    """
    aside = (by.rule.any(), found.rule), (by.freshness.any(), found.freshness)
    if any(used and (part != part[0]).any() for used, part in aside):
        return found
    if found.unreached.any() and not by.vector.all():
        # A vector without weight is given none either, and the sum below would not order rows.
        return found
    by_vector, by_words = found.vector, found.lexical + found.unreached * found.vector
    best = np.arange(len(units)) if single else _one_per_unit(by_vector + by_words, units)
    best = best[np.argsort(-by_vector[best], kind="stable")]
    beaten = np.zeros(len(units), dtype=np.bool_)
    for step in STEPS:
        if step > len(best):
            break
        head = best[:step]
        tenth = np.partition(by_words[head], step - CUTOFF)[step - CUTOFF]
        beaten |= (by_vector < by_vector[head[-1]] - MARGIN) & (by_words < tenth - MARGIN)
    kept = np.flatnonzero(~beaten)
    return Parts(
        rows=found.rows[kept],
        vector=found.vector[kept],
        lexical=found.lexical[kept],
        unreached=found.unreached[kept],
        rule=found.rule[kept],
        freshness=found.freshness[kept],
    )


def _one_per_unit(worth: Floats, units: Ints) -> Ints:
    order = np.lexsort((-worth, units))
    return order[_starts(units[order])]


def _starts(ordered: Ints) -> Ints:
    """Where each run of equal numbers begins."""
    return np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))


def dcg(gains: Floats) -> float:
    """Discounted cumulative gain of the first ten, in their order."""
    best = gains[:CUTOFF]
    return float((best * DISCOUNTS[: len(best)]).sum())


DISCOUNTS: Floats = 1 / np.log2(np.arange(2, CUTOFF + 2))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Layout:
    """Which rows make a unit: ``relevant`` has the rows and the gain of each that answers.

    Where a unit has several rows, ``by_unit`` puts them side by side and ``starts`` says where each
    unit begins; else both are None.
    """

    relevant: Sequence[tuple[Ints, float]]
    by_unit: Ints | None
    starts: Ints | None


def _layout(question: CachedQuestion, rows: Ints, *, single: bool) -> _Layout:
    units = question.unit[rows]
    if single:
        own = question.unit_grade[units]
        alone = [(np.array([row]), float(own[row])) for row in np.flatnonzero(own > 0)]
        return _Layout(relevant=alone, by_unit=None, starts=None)
    by_unit = np.argsort(units, kind="stable")
    ordered = units[by_unit]
    starts = _starts(ordered)
    ends = np.append(starts[1:], len(ordered))
    grades = question.unit_grade[ordered[starts]]
    relevant = [
        (by_unit[starts[unit] : ends[unit]], float(grades[unit]))
        for unit in np.flatnonzero(grades > 0)
    ]
    if len(starts) == len(rows):
        return _Layout(relevant=relevant, by_unit=None, starts=None)
    return _Layout(relevant=relevant, by_unit=by_unit, starts=starts)


def _gained(scores: Floats, layout: _Layout) -> Floats:
    """Discounted gain under each setting; ``scores`` has the shape (rows, settings).

    A unit's rank is one more than the units above it: nothing is sorted.
    """
    gained = np.zeros(scores.shape[1])
    for rows, gain in layout.relevant:
        best = scores[rows[0]] if len(rows) == 1 else scores[rows].max(axis=0)
        above = _count(scores > best, layout)
        equal = scores == best
        equal[rows] = False
        tied = np.flatnonzero(equal.any(axis=0))
        if len(tied):
            above[tied] = _above_tied(scores[:, tied], rows, layout)
        shown = above < CUTOFF
        gained[shown] += gain * DISCOUNTS[above[shown]]
    return gained


def _above_tied(scores: Floats, rows: Ints, layout: _Layout) -> Ints:
    """Units above that of ``rows`` where scores are equal: the earlier place goes first."""
    own = scores[rows]
    best = own.max(axis=0)
    first = rows[own.argmax(axis=0)]
    earlier = np.arange(len(scores))[:, None] < first
    above = (scores > best) | ((scores == best) & earlier)
    above[rows] = False
    return _count(above, layout)


def _count(above: Flags, layout: _Layout) -> Ints:
    """Units with a row that is marked, under each setting."""
    marked = above.view(np.uint8)
    if layout.by_unit is not None and layout.starts is not None:
        marked = np.bitwise_or.reduceat(marked[layout.by_unit], layout.starts, axis=0)
    # A byte holds 255 of them, and bytes are added many at a time.
    total = np.zeros(above.shape[1], dtype=np.int64)
    for start in range(0, len(marked), 255):
        total += marked[start : start + 255].sum(axis=0, dtype=np.uint8)
    return total
