"""Figures of a run, overall and by group, each with its interval; pure."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lastro.errors import InvalidInput
from lastro.intervals import Sums, shares, unit_interval
from lastro.metrics import NDCG_DEPTH, ndcg, recall, reciprocal_rank, success
from lastro.runs import QuestionResult, Run, run_json
from lastro.types import Latency
from lastro.wire import to_json

# Below this the percentile bootstrap is too narrow to be trusted. Source: Efron and Tibshirani,
# An Introduction to the Bootstrap, 1993, chapter 13, where small samples undercover.
FEW_QUESTIONS = 20

# What a question adds to a measure's numerator and denominator; None where it does not count.
_Part = Callable[[QuestionResult, int], tuple[float, float] | None]


def _ranked(measure: Callable[[QuestionResult, int], float]) -> _Part:
    """A mean over the questions that have an answer."""
    return lambda result, k: None if result.unanswerable else (measure(result, k), 1.0)


def _citations(result: QuestionResult, _k: int) -> tuple[float, float] | None:
    right = sum(hit.grade > 0 for hit in result.hits)
    return (right, len(result.hits)) if result.hits else None


def _first_citation(result: QuestionResult, _k: int) -> tuple[float, float] | None:
    return (float(result.hits[0].grade > 0), 1.0) if result.hits else None


def _answered(result: QuestionResult, _k: int) -> tuple[float, float] | None:
    return None if result.unanswerable else (float(bool(result.hits)), 1.0)


def _refused(result: QuestionResult, _k: int) -> tuple[float, float] | None:
    return (float(not result.hits), 1.0) if result.unanswerable else None


RECALL = "recall"
CITATIONS = "citationPrecision"
# Higher is better in every one. Those of the ranking are taken before any threshold; of the
# others, citationPrecision counts hits and the rest count questions.
_MEASURES: Mapping[str, _Part] = {
    f"ndcg@{NDCG_DEPTH}": _ranked(lambda result, _k: ndcg(result.gains, result.ideal)),
    RECALL: _ranked(lambda result, k: recall(result.gains, result.ideal, k=k)),
    "mrr": _ranked(lambda result, _k: reciprocal_rank(result.gains)),
    "success@1": _ranked(lambda result, _k: success(result.gains)),
    CITATIONS: _citations,
    "firstPrecision": _first_citation,
    "answered": _answered,
    "refused": _refused,
}
# Those that count what was shown: a question without a hit adds nothing to them.
OF_HITS = frozenset({CITATIONS, "firstPrecision"})
# A share of questions, and the one that it leaves.
COMPLEMENTS: Mapping[str, str] = {"falseAnswers": "refused", "falseRefusals": "answered"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measure with its 95% interval; None where nothing was counted.

    ``n`` are the questions that count; ``few`` says that the interval is not to be trusted.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    few: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Questions that share something, and the hits that they were shown."""

    by: str
    name: str
    questions: int
    unanswerable: int
    hits: int
    figures: Mapping[str, Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run says: all questions, then by group; questions of people and drafts apart."""

    overall: Group
    groups: tuple[Group, ...]
    latency: Latency
    degraded: Mapping[str, int]
    not_indexed: tuple[tuple[str, str], ...]


def measures(k: int) -> tuple[str, ...]:
    """Names of what is measured at ``k``, higher is better in each."""
    return tuple(f"{RECALL}@{k}" if name == RECALL else name for name in _MEASURES)


def summarise(run: Run) -> Summary:
    """The figures of a run; the same run and seed give the same intervals."""
    groups = [
        _group(by, name, members, run) for by, name, members in _groups(run.results) if members
    ]
    return Summary(
        overall=_group("all", "all", run.results, run),
        groups=tuple(groups),
        latency=latency([result.took_ms for result in run.results]),
        degraded=dict(Counter(reason for r in run.results for reason in r.degraded).most_common()),
        not_indexed=tuple(
            (result.id, answer.place)
            for result in run.results
            for answer in result.answers
            if not answer.indexed
        ),
    )


def values(run: Run) -> dict[str, float | None]:
    """Every measure over all questions, without intervals: what a list of runs shows."""
    found = {measure: _sums(measure, run.results, k=run.k).ratio for measure in measures(run.k)}
    rest = {name: found[of] for name, of in COMPLEMENTS.items()}
    return {**found, **{name: None if of is None else 1 - of for name, of in rest.items()}}


def summary_json(run: Run, summary: Summary) -> dict[str, Any]:
    """The run with its figures."""
    return {
        **run_json(run),
        "figures": to_json(summary.overall),
        "groups": to_json(summary.groups),
        "latencyMs": {
            "p50": round(summary.latency.p50_ms, 2),
            "p95": round(summary.latency.p95_ms, 2),
        },
        "degraded": dict(summary.degraded),
        "notIndexed": [{"id": id_, "place": place} for id_, place in summary.not_indexed],
    }


def run_entry(run: Run) -> dict[str, Any]:
    """A run as lists give it: what it is and its figures, without questions."""
    body = run_json(run)
    known = {key: body[key] for key in body if key not in {"results", "curve", "curveScale"}}
    return {**known, "questions": len(run.results), "figures": values(run)}


def part_of(measure: str, result: QuestionResult, *, k: int) -> tuple[float, float] | None:
    """What a question adds to a measure's numerator and denominator; None if it does not count."""
    return _MEASURES[RECALL if measure == f"{RECALL}@{k}" else measure](result, k)


def _sums(measure: str, results: Sequence[QuestionResult], *, k: int) -> Sums:
    parts = [part_of(measure, result, k=k) for result in results]
    counted = [part for part in parts if part is not None]
    return shares([part[0] for part in counted], [part[1] for part in counted])


def latency(took_ms: Sequence[float]) -> Latency:
    """p50 and p95 by nearest rank: values that were measured."""
    ordered = sorted(took_ms)
    return Latency(p50_ms=_percentile(ordered, 50), p95_ms=_percentile(ordered, 95))


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[-(-percent * len(ordered) // 100) - 1]


# --- what a team demands


def parse_floors(demands: Sequence[str], *, k: int) -> dict[str, float]:
    """``MEASURE=VALUE`` texts as numbers in [0, 1] by measure. Errors: InvalidInput."""
    floors: dict[str, float] = {}
    for demand in demands:
        name, _, value = demand.partition("=")
        if name not in measures(k):
            raise InvalidInput(
                f"{name!r} is no measure that can be too low",
                remedy=f"measures are {', '.join(measures(k))}; write ndcg@{NDCG_DEPTH}=0.6",
            )
        try:
            floors[name] = float(value)
        except ValueError:
            floors[name] = math.nan
        if not 0 <= floors[name] <= 1:
            raise InvalidInput(
                f"{demand!r}: the least value is a number from 0 to 1",
                remedy=f"write {name}=0.6",
            )
    return floors


def unmet(summary: Summary, floors: Mapping[str, float]) -> list[str]:
    """A line for each demand that the figures over all questions do not meet."""
    said: list[str] = []
    for name, least in floors.items():
        value = summary.overall.figures[name].value
        if value is None:
            said.append(f"{name} was demanded to be at least {least:g}, and nothing measures it")
        elif value < least:
            said.append(f"{name} is {value:.4f}, below {least:g}")
    return said


# --- groups


def _groups(
    results: Sequence[QuestionResult],
) -> Iterator[tuple[str, str, Sequence[QuestionResult]]]:
    for name, derived in (("human", False), ("derived", True)):
        yield "origin", name, [r for r in results if r.derived is derived]
    keys: Mapping[str, Callable[[QuestionResult], Iterable[str]]] = {
        "language": lambda r: (r.language,),
        "scope": lambda r: r.scopes,
        "difficulty": lambda r: () if r.difficulty is None else (r.difficulty,),
    }
    for by, key in keys.items():
        for name in sorted({name for r in results for name in key(r)}):
            yield by, name, [r for r in results if name in key(r)]


def _group(by: str, name: str, results: Sequence[QuestionResult], run: Run) -> Group:
    figures = {
        measure: _figure(_sums(measure, results, k=run.k), seed=run.seed)
        for measure in measures(run.k)
    }
    complements = {name: _complement(figures[of]) for name, of in COMPLEMENTS.items()}
    return Group(
        by=by,
        name=name,
        questions=len(results),
        unanswerable=sum(result.unanswerable for result in results),
        hits=sum(len(result.hits) for result in results),
        figures={**figures, **complements},
    )


def _figure(sums: Sums, *, seed: int) -> Figure:
    bounds = unit_interval(sums, seed=seed)
    n = sums.numerators.size
    return Figure(
        value=sums.ratio,
        low=None if bounds is None else bounds.low,
        high=None if bounds is None else bounds.high,
        n=n,
        few=n < FEW_QUESTIONS,
    )


def _complement(figure: Figure) -> Figure:
    def rest(share: float | None) -> float | None:
        return None if share is None else 1 - share

    return replace(figure, value=rest(figure.value), low=rest(figure.high), high=rest(figure.low))
