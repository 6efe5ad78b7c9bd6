"""Two runs of a golden set, question by question; pure.

Runs are paired by question id. A question that only one of them has scores 0 in the other, as an
average must not grow by leaving questions out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastro.figures import OF_HITS, measures, part_of
from lastro.intervals import Sums, check_seed, difference_interval, holm, randomisation_p, shares
from lastro.metrics import NDCG_DEPTH
from lastro.runs import QuestionResult, Run, changes
from lastro.wire import to_json

SIGNIFICANT_P = 0.05
# Differences of a question smaller than this are rounding.
_EQUAL = 1e-9
# What is told of single questions; the others follow from these.
_TOLD = (f"ndcg@{NDCG_DEPTH}", "firstPrecision", "answered", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A measure in both runs; ``difference`` is after minus before, with its 95% interval.

    ``p`` is that of a paired randomisation test, ``p_corrected`` after Holm over all measures.
    ``n`` are the questions that count. None where nothing was counted.
    """

    measure: str
    before: float | None
    after: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float
    p_corrected: float
    n: int

    @property
    def is_worse(self) -> bool:
        """Whether it fell, and by more than chance would explain."""
        return (self.difference or 0.0) < 0 and self.p_corrected < SIGNIFICANT_P

    @property
    def is_better(self) -> bool:
        """Whether it rose, and by more than chance would explain."""
        return (self.difference or 0.0) > 0 and self.p_corrected < SIGNIFICANT_P


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What changed for one question: measure to its value before and after; None: none."""

    id: str
    question: str
    measures: Mapping[str, tuple[float | None, float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What changed from one run to another.

    ``changed`` says what else differs between them; ``missing_before`` and ``missing_after`` are
    questions that one run does not have. A question that gained and lost is in both lists.
    """

    before: str
    after: str
    changed: tuple[str, ...]
    differences: tuple[Difference, ...]
    worse: tuple[Moved, ...]
    better: tuple[Moved, ...]
    missing_before: tuple[str, ...]
    missing_after: tuple[str, ...]

    @property
    def got_worse(self) -> bool:
        """Whether any measure fell by more than chance would explain."""
        return any(difference.is_worse for difference in self.differences)


def compare(before: Run, after: Run, *, names: tuple[str, str], seed: int = 0) -> Comparison:
    """What changed from ``before`` to ``after``, worst questions first; recall at the later k.

    Errors: InvalidInput for a seed that is none.
    """
    check_seed(seed)
    ids = list(dict.fromkeys([*before.by_id, *after.by_id]))
    pairs = [(before.by_id.get(id_), after.by_id.get(id_)) for id_ in ids]
    tested = [(measure, *_sums(measure, pairs, k=after.k)) for measure in measures(after.k)]
    p_values = [randomisation_p(a, b, seed=seed) for _, a, b in tested]
    counted = [at for at, (_, a, _) in enumerate(tested) if a.numerators.size]
    corrected = dict(zip(counted, holm([p_values[at] for at in counted]), strict=True))
    moved = list(_moved(pairs, k=after.k))
    return Comparison(
        before=names[0],
        after=names[1],
        changed=tuple(changes(before, after)),
        differences=tuple(
            _difference(measure, a, b, p=p_values[at], corrected=corrected.get(at, 1.0), seed=seed)
            for at, (measure, a, b) in enumerate(tested)
        ),
        worse=tuple(_directed(moved, sign=-1)),
        better=tuple(_directed(moved, sign=1)),
        missing_before=tuple(id_ for id_ in ids if id_ not in before.by_id),
        missing_after=tuple(id_ for id_ in ids if id_ not in after.by_id),
    )


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison in camelCase, with its verdict."""
    return {**to_json(comparison), "gotWorse": comparison.got_worse}


_Pair = tuple[QuestionResult | None, QuestionResult | None]


def _sums(measure: str, pairs: Sequence[_Pair], *, k: int) -> tuple[Sums, Sums]:
    """What each question adds in either run, over the questions that count in one of them."""
    weight = 0.0 if measure in OF_HITS else 1.0
    default = (0.0, weight)
    parts = [tuple(_part(measure, result, k=k) for result in pair) for pair in pairs]
    counted = [pair for pair in parts if pair != (None, None)]
    first, second = ([pair[side] or default for pair in counted] for side in (0, 1))
    return (
        shares([part[0] for part in first], [part[1] for part in first]),
        shares([part[0] for part in second], [part[1] for part in second]),
    )


def _part(measure: str, result: QuestionResult | None, *, k: int) -> tuple[float, float] | None:
    return None if result is None else part_of(measure, result, k=k)


def _difference(
    measure: str, first: Sums, second: Sums, *, p: float, corrected: float, seed: int
) -> Difference:
    before, after = first.ratio, second.ratio
    bounds = difference_interval(first, second, seed=seed)
    return Difference(
        measure=measure,
        before=before,
        after=after,
        difference=None if before is None or after is None else after - before,
        low=None if bounds is None else bounds.low,
        high=None if bounds is None else bounds.high,
        p=p,
        p_corrected=corrected,
        n=int(first.numerators.size),
    )


def _moved(pairs: Sequence[_Pair], *, k: int) -> Iterator[Moved]:
    for pair in pairs:
        known = pair[1] or pair[0]
        assert known is not None, "one of the runs has the question"
        values = {
            measure: (_value(measure, pair[0], k=k), _value(measure, pair[1], k=k))
            for measure in _TOLD
        }
        told = {
            measure: (before, after)
            for measure, (before, after) in values.items()
            if _gain(measure, before, after) != 0
        }
        if told:
            yield Moved(id=known.id, question=known.question, measures=told)


def _value(measure: str, result: QuestionResult | None, *, k: int) -> float | None:
    part = _part(measure, result, k=k)
    return None if part is None else part[0]


def _gain(measure: str, before: float | None, after: float | None) -> float:
    """After minus before; what one run does not have is 0, but no hit is no wrong first hit."""
    if measure in OF_HITS and (before is None or after is None):
        return 0.0
    gain = (after or 0.0) - (before or 0.0)
    return gain if abs(gain) > _EQUAL else 0.0


def _directed(moved: Sequence[Moved], *, sign: int) -> list[Moved]:
    """The questions in which something went that way, by how far all of it together did."""

    def gains(entry: Moved) -> list[float]:
        return [sign * _gain(name, *values) for name, values in entry.measures.items()]

    found = [entry for entry in moved if max(gains(entry)) > 0]
    return sorted(found, key=lambda entry: (-sum(g for g in gains(entry) if g > 0), entry.id))
