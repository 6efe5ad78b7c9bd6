"""Pools of candidates for tests of replayed fusion: drawn by a seed, or written out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from lastro.profiles import DEFAULT, Profile
from lastro.ranking import Candidate, VectorScale
from lastro.replay import CachedQuestion, lexical_scores

SCALE = VectorScale(mean=0.125, spread=0.125)


def a_setting(*, vector: float, lexical: float) -> Profile:
    """The default with these weights, its cosines fused as they are."""
    return replace(DEFAULT, cosine="raw", vector_weight=vector, lexical_weight=lexical)


BASE = a_setting(vector=0.3, lexical=0.7)


def a_question(
    *,
    cosine: Sequence[float],
    coverage: Sequence[float],
    relevant: Mapping[int, float],
    length_ratio: Sequence[float] | None = None,
    unreached: Sequence[float] | None = None,
    unseen: Sequence[float] | None = None,
    mass: float = 1.0,
    unit: Sequence[int] | None = None,
    legs: tuple[str, ...] = ("vector", "lexical"),
    group: str = "en",
    id_: str = "q",
) -> CachedQuestion:
    """A question whose rows stand in the order written; ``relevant`` gives grades by unit."""
    n = len(cosine)
    meaning, words = np.array(cosine, dtype=float), np.array(coverage, dtype=float)
    ratios = np.array(length_ratio or [1.0] * n, dtype=float)
    units = np.arange(n) if unit is None else np.unique(unit, return_inverse=True)[1]
    grades = np.zeros(int(units.max()) + 1)
    for number, grade in relevant.items():
        if number < len(grades):
            grades[number] = grade
    made = CachedQuestion(
        id=id_,
        group=group,
        answerable=bool(relevant),
        legs=legs,
        scale=SCALE,
        length_exponent=0.2,
        cosine=meaning if "vector" in legs else np.full(n, np.nan),
        coverage=words if "lexical" in legs else np.full(n, np.nan),
        length_ratio=ratios,
        unreached=np.array(unreached or [0.0] * n, dtype=float),
        unseen=np.array(unseen or unreached or [0.0] * n, dtype=float),
        mass=mass,
        vector_rank=ranked(meaning) if "vector" in legs else np.zeros(n, dtype=np.int64),
        lexical_rank=np.zeros(n, dtype=np.int64),
        rule=np.zeros(n),
        age_days=np.full(n, np.nan),
        document=np.arange(n),
        char_start=np.zeros(n, dtype=np.int64),
        char_end=np.ones(n, dtype=np.int64),
        unit=units.astype(np.int64),
        unit_grade=grades,
        ideal_gains=np.sort(grades[grades > 0])[::-1],
    )
    return replace(made, lexical_rank=ranked(lexical_scores(made, length_exponent=0.2)))


def ranked(scores: np.ndarray) -> np.ndarray:
    """Ranks from 1, ties by position; 0 for nan."""
    ranks = np.zeros(len(scores), dtype=np.int64)
    held = np.flatnonzero(~np.isnan(scores))
    ranks[held[np.argsort(-scores[held], kind="stable")]] = np.arange(1, len(held) + 1)
    return ranks


def random_question(seed: int, *, rows: int, units: int, group: str = "en") -> CachedQuestion:
    """Two legs that each found two thirds of ``rows``, and three answers."""
    random = np.random.default_rng(seed)
    unit = np.unique(
        random.integers(0, units, rows) if units < rows else np.arange(rows), return_inverse=True
    )[1]
    answers = random.choice(int(unit.max()) + 1, 3, replace=False)
    cosine = random.uniform(-0.2, 0.7, rows) + np.isin(unit, answers) * 0.3
    coverage = random.uniform(0, 0.8, rows) + np.isin(unit, answers) * 0.2
    coverage[random.random(rows) < 0.2] = np.nan
    made = a_question(
        cosine=cosine.tolist(),
        coverage=coverage.tolist(),
        length_ratio=random.uniform(0.1, 3, rows).tolist(),
        unreached=(random.choice([0, 0.4], rows) if seed % 2 else np.zeros(rows)).tolist(),
        unit=unit.tolist(),
        relevant={int(answer): grade for answer, grade in zip(answers, (1, 2, 1), strict=True)},
        group=group,
        id_=f"q{seed}",
    )
    deepest = 2 * rows // 3
    vector = np.where(made.vector_rank <= deepest, made.vector_rank, 0)
    lexical = np.where(made.lexical_rank <= deepest, made.lexical_rank, 0)
    return replace(
        made,
        vector_rank=vector,
        lexical_rank=lexical,
        rule=random.choice([0, 0.5, 1.5], rows),
        age_days=np.where(random.random(rows) < 0.3, np.nan, random.uniform(-5, 900, rows)),
    )


def random_settings(seed: int, *, count: int) -> list[Profile]:
    """Settings that differ in every number that replayed fusion reads, rules rarely."""
    random = np.random.default_rng(seed)
    made: list[Profile] = []
    for number in range(count):
        share = float(random.random())
        made.append(
            replace(
                DEFAULT,
                fusion="rrf" if random.random() < 0.2 else "weighted",
                vector_weight=share,
                lexical_weight=1 - share,
                cosine="raw" if random.random() < 0.5 else "scaled",
                length_exponent=float(random.choice([0, 0.1, 0.2, 0.4])),
                rrf_k=float(random.choice([10, 60])),
                vector_depth=int(random.choice([20, 200])),
                lexical_depth=int(random.choice([30, 400])),
                rule_weight=0.2 if number % 40 == 0 else 0.0,
                freshness_weight=0.1 if number % 50 == 0 else 0.0,
            )
        )
    return made


def as_candidates(question: CachedQuestion, setting: Profile) -> list[Candidate]:
    """The rows as ``ranking.fuse`` takes them; ``ordinal`` is the position."""
    scores = lexical_scores(question, length_exponent=setting.length_exponent)
    lexical_rank = question.lexical_rank
    if setting.length_exponent != question.length_exponent:
        lexical_rank = ranked(np.where(lexical_rank > 0, scores, np.nan))
    return [
        Candidate(
            id=UUID(int=row),
            document_id=UUID(int=int(question.document[row])),
            place=f"{row:05}",
            ordinal=row,
            char_start=int(question.char_start[row]),
            char_end=int(question.char_end[row]),
            vector_score=number(question.cosine[row]),
            lexical_score=number(scores[row]),
            vector_rank=int(question.vector_rank[row]) or None,
            lexical_rank=int(lexical_rank[row]) or None,
            unreached=float(question.unreached[row]),
            unseen=float(question.unseen[row]),
            mass=question.mass,
            rule=float(question.rule[row]),
            age_days=number(question.age_days[row]),
        )
        for row in range(len(question.cosine))
    ]


def number(value: float) -> float | None:
    """None for nan."""
    return None if np.isnan(value) else float(value)
