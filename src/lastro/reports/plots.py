"""Where the marks of a run's plots stand, in the units of their drawings; pure.

The template draws them. Y grows downwards, as in SVG.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lastro.figures import Figure, Group, Summary
from lastro.metrics import ndcg
from lastro.reports.wording import GROUPS, figure_text, shown_groups
from lastro.runs import CurvePoint, Run

WIDTH = 720
# Room for names at the left and for values at the right of the interval plot.
NAME_WIDTH, VALUE_WIDTH = 170, 190
ROW_HEIGHT = 26
# The other plots: height, and room for the axes.
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 250, 44, 16, 24, 40
LATENCY_BINS = 24


@dataclass(frozen=True, slots=True)
class Tick:
    """A value on an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """A figure as a dot on its interval; ``heading`` begins a new kind of group."""

    y: float
    heading: str
    name: str
    text: str
    x: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Intervals:
    """A figure of every group."""

    height: float
    bottom: float
    ticks: tuple[Tick, ...]
    rows: tuple[IntervalRow, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar and what it says when pointed at."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the curve: its path, and its name where it ends."""

    kind: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars or lines over two axes; ``marks`` are vertical lines with a name."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()
    marks: tuple[Tick, ...] = ()


def interval_plot(summary: Summary, measure: str) -> Intervals:
    """A measure over all questions and by group, with its intervals."""
    rows: list[IntervalRow] = []
    kind, y = "", 6.0
    for group in shown_groups(summary):
        heading = GROUPS.get(group.by, "") if group.by != kind else ""
        y += ROW_HEIGHT * (1.8 if heading else 1)
        kind = group.by
        rows.append(_interval_row(group, group.figures[measure], heading=heading, y=y))
    bottom = y + ROW_HEIGHT / 2
    return Intervals(
        height=bottom + 24,
        bottom=bottom,
        ticks=tuple(Tick(_share_x(at / 5), f"{at / 5:.1f}") for at in range(6)),
        rows=tuple(rows),
    )


def _interval_row(group: Group, figure: Figure, *, heading: str, y: float) -> IntervalRow:
    return IntervalRow(
        y=y,
        heading=heading,
        name="all questions" if group.by == "all" else group.name,
        text=figure_text(figure),
        x=None if figure.value is None else _share_x(figure.value),
        low=None if figure.low is None else _share_x(figure.low),
        high=None if figure.high is None else _share_x(figure.high),
    )


def _share_x(share: float) -> float:
    return round(NAME_WIDTH + share * (WIDTH - NAME_WIDTH - VALUE_WIDTH), 2)


def question_plot(run: Run) -> Plot:
    """nDCG@10 of every question that has an answer, the best first."""
    judged = [result for result in run.results if not result.unanswerable]
    scores = [(ndcg(result.gains, result.ideal), result) for result in judged]
    scores.sort(key=lambda score: (-score[0], score[1].id))
    step = (WIDTH - LEFT - RIGHT) / max(len(scores), 1)
    bars = tuple(
        Bar(
            x=round(LEFT + at * step, 2),
            # A score of nothing is seen as a line.
            y=round(_y(score) - 1, 2),
            width=round(step * 0.86, 2),
            height=round(_y(0) - _y(score) + 1, 2),
            title=f"{result.question} ({result.id}): {score:.3f}",
        )
        for at, (score, result) in enumerate(scores)
    )
    ends = {1, len(scores)} - {0}
    return Plot(
        x_ticks=tuple(Tick(round(LEFT + (at - 0.5) * step, 2), str(at)) for at in sorted(ends)),
        y_ticks=_share_ticks(),
        bars=bars,
    )


def curve_plot(run: Run) -> Plot:
    """Precision of citations and both errors of abstention over the evidence threshold."""
    answerable = sum(not result.unanswerable for result in run.results)
    unanswerable = len(run.results) - answerable
    most = max((point.level for point in run.curve), default=0) or 1.0

    def line(kind: str, name: str, values: Sequence[float | None]) -> Line:
        return Line(kind, name, _path(run.curve, values, most=most))

    lines = [
        line("a", "citation precision", [_share(p.right_hits, p.hits) for p in run.curve]),
        line("b", "false refusals", [_share(p.false_refusals, answerable) for p in run.curve]),
        line("c", "false answers", [_share(p.false_answers, unanswerable) for p in run.curve]),
    ]
    steps = [step * most / 6 for step in range(7)]
    factor = "× " if run.curve_scale == "factor" else ""
    mark = (Tick(_x(1 / most), "the profile's"),) if run.curve_scale == "factor" else ()
    return Plot(
        x_ticks=tuple(Tick(_x(step / most), f"{factor}{step:g}"[:6]) for step in steps),
        y_ticks=_share_ticks(),
        lines=tuple(line for line in lines if line.path),
        marks=mark,
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _path(points: Sequence[CurvePoint], values: Sequence[float | None], *, most: float) -> str:
    """A line through the values that there are; a gap begins a new one."""
    parts: list[str] = []
    joined = False
    for point, value in zip(points, values, strict=True):
        if value is not None:
            step = "L" if joined else "M"
            parts.append(f"{step}{_x(point.level / most):.1f} {_y(value):.1f}")
        joined = value is not None
    return " ".join(parts)


def latency_plot(run: Run, summary: Summary) -> Plot:
    """How many searches took how long, up to the slowest."""
    took = [result.took_ms for result in run.results]
    step_ms = _round_step(max(took, default=0.0) / 6)
    most = 6 * step_ms
    width = most / LATENCY_BINS
    counts = [0] * LATENCY_BINS
    for value in took:
        counts[min(int(value / width), LATENCY_BINS - 1)] += 1
    tallest = max(counts) or 1
    step = (WIDTH - LEFT - RIGHT) / LATENCY_BINS
    bars = [
        Bar(
            x=round(LEFT + at * step, 2),
            y=round(_y(count / tallest), 2),
            width=round(step * 0.92, 2),
            height=round(_y(0) - _y(count / tallest), 2),
            title=f"{count} searches took {at * width:.1f} to {(at + 1) * width:.1f} ms",
        )
        for at, count in enumerate(counts)
        if count
    ]
    p50, p95 = summary.latency.p50_ms, summary.latency.p95_ms
    return Plot(
        x_ticks=tuple(Tick(_x(at / 6), f"{at * step_ms:g}") for at in range(7)),
        y_ticks=(Tick(_y(0), "0"), Tick(_y(1), str(tallest))),
        bars=tuple(bars),
        marks=(Tick(_x(p50 / most), "p50"), Tick(_x(p95 / most), "p95")),
    )


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20 …, no smaller than ``least``."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999999)


def _share_ticks() -> tuple[Tick, ...]:
    return tuple(Tick(_y(at / 4), f"{at / 4:g}") for at in range(5))


def _x(share: float) -> float:
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 2)


def _y(share: float) -> float:
    return round(TOP + (1 - share) * (HEIGHT - TOP - BOTTOM), 2)
