"""Confidence intervals and tests over questions; pure, and the same for the same seed.

A figure is a ratio of sums over questions: a mean where every question weighs 1, and a share of
hits where each weighs as many as it showed. A difference is always the second minus the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lastro.errors import InvalidInput

CONFIDENCE = 0.95
# Percentile intervals need 1,000 or more. Source: Efron and Tibshirani, An Introduction to the
# Bootstrap, 1993, chapter 13.
RESAMPLES = 2_000
# The least p that 10,000 can tell is .0001. Source: Smucker, Allan, Carterette, CIKM 2007, who
# used 100,000 and found tens of thousands enough for two digits.
PERMUTATIONS = 10_000
# Fewer questions than this cannot be told from chance by any choice.
LEAST_QUESTIONS = 20
# Random rows held in memory at once.
_BATCH = 1_000

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a figure lies with the confidence asked for; both ends included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sums:
    """What each question adds to a figure's numerator and to its denominator, (n,) each."""

    numerators: _Array
    denominators: _Array

    @property
    def ratio(self) -> float | None:
        """The figure; None where nothing was counted."""
        total = float(self.denominators.sum())
        return float(self.numerators.sum()) / total if total > 0 else None


def check_seed(seed: int) -> None:
    """Errors: InvalidInput for a seed below 0, of which nothing random can be made."""
    if seed < 0:
        raise InvalidInput(f"the seed is {seed}", remedy="give a whole number from 0")


def means(values: ArrayLike) -> Sums:
    """Values of which the figure is the mean."""
    numerators = np.asarray(values, dtype=np.float64)
    return Sums(numerators, np.ones_like(numerators))


def shares(numerators: ArrayLike, denominators: ArrayLike) -> Sums:
    """Counts of which the figure is the share."""
    return Sums(
        np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    )


def interval(
    sums: Sums, *, seed: int, confidence: float = CONFIDENCE, resamples: int = RESAMPLES
) -> Interval | None:
    """Bootstrap percentile interval of a figure, questions drawn with replacement.

    None where nothing was counted. Source: Efron, The Annals of Statistics 1979.
    """
    return _percentiles(
        [
            _ratios(sums.numerators[rows].sum(axis=1), sums.denominators[rows].sum(axis=1))
            for rows in _resampled(sums.numerators.size, seed=seed, resamples=resamples)
        ],
        confidence,
    )


def mean_interval(
    values: ArrayLike, *, seed: int, confidence: float = CONFIDENCE, resamples: int = RESAMPLES
) -> Interval | None:
    """Bootstrap percentile interval of a mean; None of no values. Source: Efron 1979."""
    return interval(means(values), seed=seed, confidence=confidence, resamples=resamples)


def unit_interval(
    sums: Sums, *, seed: int, confidence: float = CONFIDENCE, resamples: int = RESAMPLES
) -> Interval | None:
    """Interval of a figure whose questions lie in [0, 1]: the bootstrap's, except at both ends.

    A bootstrap of nothing but zeros has no width, and 0 of 20 is no proof of 0. There the far end
    is the exact one of a share: 1 - (tail)^(1/n). Source: Clopper and Pearson, Biometrika 1934.
    """
    found = interval(sums, seed=seed, confidence=confidence, resamples=resamples)
    n = int((sums.denominators > 0).sum())
    far = 1 - ((1 - confidence) / 2) ** (1 / max(n, 1))
    if found is None or sums.ratio not in {0.0, 1.0}:
        return found
    return Interval(0.0, far) if sums.ratio == 0 else Interval(1 - far, 1.0)


def difference_interval(
    first: Sums | ArrayLike,
    second: Sums | ArrayLike,
    *,
    seed: int,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Paired bootstrap interval of ``second`` minus ``first``: both over the same drawn questions.

    Source: Efron 1979; paired as in Sakai, SIGIR 2006.
    """
    a, b = _paired(first, second)
    return _percentiles(
        [
            _ratios(b.numerators[rows].sum(axis=1), b.denominators[rows].sum(axis=1))
            - _ratios(a.numerators[rows].sum(axis=1), a.denominators[rows].sum(axis=1))
            for rows in _resampled(a.numerators.size, seed=seed, resamples=resamples)
        ],
        confidence,
    )


def randomisation_p(
    first: Sums | ArrayLike,
    second: Sums | ArrayLike,
    *,
    seed: int,
    permutations: int = PERMUTATIONS,
) -> float:
    """Two-sided p of a paired randomisation test: how often chance alone differs as much.

    Under the null hypothesis either system could have given each question's result, so each pair
    is swapped or not (for means: its difference's sign is flipped). All 2^n swaps where these are
    no more than ``permutations``, else that many drawn, of which the observed one is one more.
    Source: Smucker, Allan, Carterette, CIKM 2007.
    """
    a, b = _paired(first, second)
    n = a.numerators.size
    observed = _difference(a, b, np.zeros((1, n), dtype=np.float64))[0]
    if np.isnan(observed):
        return 1.0
    exact = 2**n <= permutations if n < 63 else False
    batches = _all_swaps(n) if exact else _drawn_swaps(n, seed=seed, count=permutations)
    # Sums of floats in another order differ in the last digits.
    least = abs(observed) - 1e-12
    as_extreme = total = 0
    for swaps in batches:
        differences = _difference(a, b, swaps)
        as_extreme += int((np.abs(differences) >= least).sum())
        total += len(swaps)
    return as_extreme / total if exact else (as_extreme + 1) / (total + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for their number, in their order.

    Source: Holm, Scandinavian Journal of Statistics 1979.
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    corrected = [1.0] * len(p_values)
    most = 0.0
    for step, at in enumerate(order):
        most = max(most, min(1.0, p_values[at] * (len(order) - step)))
        corrected[at] = most
    return corrected


def _paired(first: Sums | ArrayLike, second: Sums | ArrayLike) -> tuple[Sums, Sums]:
    a = first if isinstance(first, Sums) else means(first)
    b = second if isinstance(second, Sums) else means(second)
    assert a.numerators.shape == b.numerators.shape, "pairs need a value on both sides"
    return a, b


def _resampled(n: int, *, seed: int, resamples: int) -> list[NDArray[np.int64]]:
    if n == 0:
        return []
    random = np.random.default_rng(seed)
    sizes = [min(_BATCH, resamples - start) for start in range(0, resamples, _BATCH)]
    return [random.integers(0, n, size=(size, n)) for size in sizes]


def _ratios(numerators: _Array, denominators: _Array) -> _Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominators > 0, numerators / denominators, np.nan)


def _percentiles(figures: Sequence[_Array], confidence: float) -> Interval | None:
    values = np.concatenate(figures) if figures else np.empty(0)
    values = values[~np.isnan(values)]
    if values.size == 0:
        return None
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high))


def _all_swaps(n: int) -> list[_Array]:
    numbers = np.arange(2**n, dtype=np.int64)
    return [((numbers[:, None] >> np.arange(n)) & 1).astype(np.float64)]


def _drawn_swaps(n: int, *, seed: int, count: int) -> list[_Array]:
    random = np.random.default_rng(seed)
    sizes = [min(_BATCH, count - start) for start in range(0, count, _BATCH)]
    return [random.integers(0, 2, size=(size, n)).astype(np.float64) for size in sizes]


def _difference(a: Sums, b: Sums, swaps: _Array) -> _Array:
    """Second minus first for each row of ``swaps``, where 1 swaps a pair."""
    up = swaps @ (b.numerators - a.numerators)
    across = swaps @ (b.denominators - a.denominators)
    return _ratios(b.numerators.sum() - up, b.denominators.sum() - across) - _ratios(
        a.numerators.sum() + up, a.denominators.sum() + across
    )
