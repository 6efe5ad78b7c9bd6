"""Ranking measures of one question and their means over all; pure.

Gains are those of a ranking's units in its order, best first: the grade of a unit that is judged,
0 of any other. ``ideal`` holds the grades of every judged unit, found or not. Every measure lies
in [0, 1], higher is better, and is 0 for a question without a ranking or without a judged answer.
A ranking's order is its own: units of one score stand as the ranking puts them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

NDCG_DEPTH = 10


def gains_of(ranking: Sequence[str], grades: Mapping[str, int]) -> list[int]:
    """The gain of each unit of a ranking; a unit that is not judged has none."""
    return [grades.get(unit, 0) for unit in ranking]


def ndcg(gains: Sequence[float], ideal: Sequence[float], *, k: int = NDCG_DEPTH) -> float:
    """Gain of the first ``k`` ranks, discounted by log2(rank + 1), over that of the best order.

    The gain is the grade itself. Source: Järvelin and Kekäläinen, TOIS 2002.

    >>> round(ndcg([0, 1], [1]), 3)
    0.631
    """
    best = _discounted(sorted(ideal, reverse=True)[:k])
    return _discounted(gains[:k]) / best if best > 0 else 0.0


def recall(gains: Sequence[float], ideal: Sequence[float], *, k: int) -> float:
    """Share of the judged units that stand in the first ``k`` ranks."""
    wanted = sum(grade > 0 for grade in ideal)
    return sum(gain > 0 for gain in gains[:k]) / wanted if wanted else 0.0


def reciprocal_rank(gains: Sequence[float]) -> float:
    """1 / rank of the first judged unit. Source: Voorhees, TREC-8 1999."""
    return next((1 / rank for rank, gain in enumerate(gains, start=1) if gain > 0), 0.0)


def success(gains: Sequence[float], *, k: int = 1) -> float:
    """1 where a judged unit stands in the first ``k`` ranks."""
    return float(any(gain > 0 for gain in gains[:k]))


def scored(values: Mapping[str, float], questions: Sequence[str]) -> NDArray[np.float64]:
    """A value for each of ``questions``, in their order; one that is missing scores 0."""
    return np.array([values.get(question, 0.0) for question in questions], dtype=np.float64)


def mean(values: NDArray[np.float64]) -> float:
    """The mean; 0 of nothing."""
    return float(values.mean()) if values.size else 0.0


def _discounted(gains: Sequence[float]) -> float:
    values = np.maximum(np.asarray(gains, dtype=np.float64), 0.0)
    return float((values / np.log2(np.arange(2, values.size + 2))).sum())
