"""The three numbers of the evidence threshold, chosen on judged questions, with their curve. Pure.

What speaks for a hit is ``ranking.evidence``; here the same sums are taken over cached legs, and
the bars are moved. Hits are counted as a search shows them: those that pass, one for each place, at
most ten; places are told apart before the threshold, which for a search is the other way round and
differs only where a hit that fails hides one that passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastro.calibration import FOLDS
from lastro.intervals import LEAST_QUESTIONS, Interval, mean_interval
from lastro.profiles import Profile, Thresholds
from lastro.ranking import DEFAULT_K, DEFAULT_MAX_PER_DOCUMENT
from lastro.replay import CachedQuestion, fused, lexical_scores, vector_scores

# Places of a ranking that are judged: few that stand deeper reach any bar.
DEPTH = 40
# A target that takes more than this share of answers away is out of reach.
MOST_REFUSED = 0.5
# The worse of the two rates counts, and their sum a little, so that no worse one is traded for
# nothing. Source: docs/adr/0019.
SUM_PART = 0.1
# Objectives as near as this are equal. Source: docs/adr/0019.
NEAR = 0.005
# What the words alone must say matters most while the vector leg is absent, which is rare.
OUTAGE_PART = 0.2
# The grids of the search: a bar of both legs, what the vector alone needs above it, one of words.
BARS = tuple(step / 100 for step in range(101))
GAPS = (0.0, 0.03, 0.06, 0.09, 0.12, 0.15)
WORD_BARS = tuple(step / 40 for step in range(4, 37))

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hits:
    """The places of every question's ranking, best first, (questions, DEPTH).

    ``joint``, ``unseen`` and ``words`` are as of ``ranking.Evidence``; a signal that is missing, or
    a place that is not there, is -inf. ``right`` says whether the hit covers a judged answer.
    """

    joint: Floats
    unseen: Floats
    words: Floats
    right: Flags
    answerable: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a search shows at some thresholds, as shares; None where there is nothing to count.

    ``precision`` is of all hits shown, ``first_precision`` of first hits; ``false_answers`` are of
    unanswerable questions, ``false_refusals`` of answerable ones, ``answered`` of all. Questions
    count alike, or every group does.
    """

    thresholds: Thresholds
    precision: float | None
    first_precision: float | None
    false_answers: float | None
    false_refusals: float | None
    answered: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdChoice:
    """The numbers that were chosen, and what they do on questions that had no part in choosing.

    ``fitted`` is on all questions, ``held_out`` on each by numbers chosen without it, ``base`` with
    the profile's own. ``gain`` is how much smaller the sum of false answers and false refusals is
    than the base's, held out, with its ``interval``. ``folds`` are the numbers that the parts left
    out saw; whole groups stand in the order of their names. ``curve`` moves the bar of both legs
    and keeps the rest. ``target`` is the precision asked for; ``reached`` says whether it could be
    had. ``refusal`` says why the base's numbers should stay; None where these are recommended.
    """

    thresholds: Thresholds
    target: float | None
    reached: bool
    fitted: Point
    held_out: Point
    base: Point
    gain: float
    interval: Interval
    folds: tuple[Thresholds, ...]
    curve: tuple[Point, ...]
    answerable: int
    unanswerable: int
    refusal: str | None

    @property
    def recommended(self) -> bool:
        """Whether these numbers should replace the base's."""
        return self.refusal is None

    @property
    def abstention_measured(self) -> bool:
        """Whether there were questions without an answer to tell false answers by."""
        return self.unanswerable > 0


def hits_of(questions: Sequence[CachedQuestion], profile: Profile) -> Hits:
    """What every question's ranking under ``profile`` offers to a threshold."""
    shape = (len(questions), DEPTH)
    made = Hits(
        joint=np.full(shape, -np.inf),
        unseen=np.zeros(shape),
        words=np.full(shape, -np.inf),
        right=np.zeros(shape, dtype=np.bool_),
        answerable=np.array([question.answerable for question in questions], dtype=np.bool_),
    )
    for number, question in enumerate(questions):
        rows = _one_per_place(question, fused(question, profile)[0])
        joint, unseen, words = _evidence(question, rows, profile)
        made.joint[number, : len(rows)] = joint
        made.unseen[number, : len(rows)] = unseen
        made.words[number, : len(rows)] = words
        made.right[number, : len(rows)] = question.unit_grade[question.unit[rows]] > 0
    return made


def _evidence(
    question: CachedQuestion, rows: Ints, profile: Profile
) -> tuple[Floats, Floats, Floats]:
    """The two sums of ``ranking.evidence``, and the share of the query that moves the bar."""
    vector = vector_scores(question, cosine=profile.cosine)[rows]
    scores = lexical_scores(question, length_exponent=profile.length_exponent)[rows]
    words = scores * question.mass
    unseen = question.unseen[rows] if "lexical" in question.legs else np.ones(len(rows))
    joint = (0.5 + 0.5 * unseen) * vector + 0.5 * np.nan_to_num(words)
    if not profile.vector_weight:
        joint = np.full(len(rows), np.nan)
    return _or_nothing(joint), unseen, _or_nothing(words)


def _or_nothing(values: Floats) -> Floats:
    return np.where(np.isnan(values), -np.inf, values)


def _one_per_place(question: CachedQuestion, rows: Ints) -> Ints:
    """As ``ranking.one_per_place``, the first DEPTH."""
    kept: list[int] = []
    seen: dict[int, list[int]] = {}
    starts, ends = question.char_start, question.char_end
    for row in rows.tolist():
        others = seen.setdefault(int(question.document[row]), [])
        overlaps = any(starts[o] < ends[row] and starts[row] < ends[o] for o in others)
        if not overlaps and len(others) < DEFAULT_MAX_PER_DOCUMENT:
            others.append(row)
            kept.append(row)
        if len(kept) == DEPTH:
            break
    return np.array(kept, dtype=np.int64)


# --- what is shown


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shown:
    """Hits shown, right ones, and whether the first is right, (thresholds, questions)."""

    hits: NDArray[np.int16]
    right: NDArray[np.int16]
    first: Flags


def _passes(hits: Hits, thresholds: Thresholds) -> Flags:
    bar = thresholds.both + hits.unseen * (thresholds.vector_only - thresholds.both)
    return (hits.joint >= bar) | (hits.words >= thresholds.lexical_only)


def _shown(hits: Hits, tried: Sequence[Thresholds]) -> _Shown:
    shape = (len(tried), len(hits.answerable))
    made = _Shown(
        hits=np.zeros(shape, dtype=np.int16),
        right=np.zeros(shape, dtype=np.int16),
        first=np.zeros(shape, dtype=np.bool_),
    )
    for number, thresholds in enumerate(tried):
        passed = _passes(hits, thresholds)
        passed &= passed.cumsum(axis=1, dtype=np.int16) <= DEFAULT_K
        made.hits[number] = passed.sum(axis=1)
        made.right[number] = (passed & hits.right).sum(axis=1)
        first = passed.argmax(axis=1)
        rows = np.arange(len(passed))
        made.first[number] = passed[rows, first] & hits.right[rows, first]
    return made


def _point(
    thresholds: Thresholds,
    hits: NDArray[np.int16],
    right: NDArray[np.int16],
    first: Flags,
    answerable: Flags,
    worth: Floats,
) -> Point:
    shown = hits > 0
    return Point(
        thresholds=thresholds,
        precision=_share(right, hits, worth),
        first_precision=_share(first, shown, worth),
        false_answers=_share(shown & ~answerable, ~answerable, worth),
        false_refusals=_share(~shown & answerable, answerable, worth),
        answered=_share(shown, np.ones_like(shown), worth) or 0.0,
    )


def _share(part: NDArray[Any], whole: NDArray[Any], worth: Floats) -> float | None:
    counted = float((whole * worth).sum())
    return float((part * worth).sum()) / counted if counted else None


def points(hits: Hits, tried: Sequence[Thresholds], *, worth: Floats | None = None) -> list[Point]:
    """What a search shows at each of ``tried``; ``worth`` is what a question counts (None: 1)."""
    shown = _shown(hits, tried)
    worth = np.ones(len(hits.answerable)) if worth is None else worth
    return [
        _point(t, shown.hits[at], shown.right[at], shown.first[at], hits.answerable, worth)
        for at, t in enumerate(tried)
    ]


# --- choosing


def choose_thresholds(
    questions: Sequence[CachedQuestion],
    profile: Profile,
    *,
    base: Thresholds,
    precision: float | None = None,
    by_group: bool = False,
    seed: int = 0,
) -> ThresholdChoice:
    """Choose the three numbers for a stated precision of citations, or for balance.

    With ``precision`` the lowest bars at which that share of the hits shown is right. Without it
    the bars that balance false answers and false refusals, which needs unanswerable questions.
    With ``by_group`` every group counts alike, and where there are three or more each is left out
    whole. Errors: ValueError where there are neither a precision nor unanswerable questions.
    """
    answerable = np.array([question.answerable for question in questions], dtype=np.bool_)
    if precision is None and answerable.all():
        raise ValueError("without unanswerable questions a precision must be stated")
    full = hits_of(questions, profile)
    words = hits_of([_without_vector(question) for question in questions], profile)
    groups = [question.group for question in questions]
    worth = _worth(groups) if by_group else np.ones(len(groups))
    search = _Search(full=full, words=words, base=base, precision=precision, worth=worth)
    chosen, reached = search.choose(np.arange(len(questions)))
    is_grouped = by_group and len(set(groups)) >= 3
    parts = np.unique(groups, return_inverse=True)[1] if is_grouped else _parts(answerable, seed)
    picks = [search.choose(np.flatnonzero(parts != part))[0] for part in np.unique(parts)]
    shown = _shown(full, [*picks, chosen, base])
    where = np.searchsorted(np.unique(parts), parts)
    everyone = np.arange(len(questions))
    held = (shown.hits[where, everyone], shown.right[where, everyone], shown.first[where, everyone])
    errors = _errors(shown.hits[-1], answerable, worth) - _errors(held[0], answerable, worth)
    around = mean_interval(errors, seed=seed) or Interval(0.0, 0.0)
    return ThresholdChoice(
        thresholds=chosen,
        target=precision,
        reached=reached,
        fitted=points(full, [chosen], worth=worth)[0],
        held_out=_point(chosen, *held, answerable, worth),
        base=points(full, [base], worth=worth)[0],
        gain=float(errors.mean()),
        interval=around,
        folds=tuple(picks),
        curve=tuple(
            points(full, [_with_both(chosen, bar) for bar in _curve_bars(full)], worth=worth)
        ),
        answerable=int(answerable.sum()),
        unanswerable=int((~answerable).sum()),
        refusal=_refusal(len(questions), precision, reached=reached, around=around),
    )


def _refusal(count: int, precision: float | None, *, reached: bool, around: Interval) -> str | None:
    if count < LEAST_QUESTIONS:
        return f"{count} questions are too few; give {LEAST_QUESTIONS} or more"
    if precision is not None:
        if reached:
            return None
        return f"a precision of {precision:g} is out of reach: over half would go unanswered"
    if around.low <= 0:
        return f"the gain's interval touches zero ({around.low:+.4f} to {around.high:+.4f})"
    return None


def _errors(hits: NDArray[np.int16], answerable: Flags, worth: Floats) -> Floats:
    """Each question's part of the two rates; their mean is the sum of both rates."""
    wrong = (hits > 0) != answerable
    own, others = float(worth[answerable].sum()), float(worth[~answerable].sum())
    return wrong * worth * np.where(answerable, 1 / (own or 1), 1 / (others or 1)) * len(worth)


def _worth(groups: Sequence[str]) -> Floats:
    """What each question counts so that groups count alike; 1 on average."""
    sizes = {group: groups.count(group) for group in set(groups)}
    return np.array([len(groups) / len(sizes) / sizes[group] for group in groups])


def _parts(answerable: Flags, seed: int) -> Ints:
    """A fold for each question, with its share of either kind."""
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(answerable))
    part = np.empty(len(answerable), dtype=np.int64)
    order = shuffled[np.argsort(answerable[shuffled], kind="stable")]
    part[order] = np.arange(len(answerable)) % FOLDS
    return part


def _without_vector(question: CachedQuestion) -> CachedQuestion:
    """The question as asked while the vector leg is absent."""
    return replace(
        question,
        legs=tuple(leg for leg in question.legs if leg != "vector"),
        cosine=np.full_like(question.cosine, np.nan),
        vector_rank=np.zeros_like(question.vector_rank),
    )


def _with_both(thresholds: Thresholds, both: float) -> Thresholds:
    """Another bar of both legs; that of the vector alone keeps its distance, within [0, 1]."""
    gap = thresholds.vector_only - thresholds.both
    return replace(thresholds, both=both, vector_only=round(min(max(both + gap, 0.0), 1.0), 4))


def _curve_bars(hits: Hits) -> tuple[float, ...]:
    """The bars at which something changes: up to the best evidence there is."""
    most = float(hits.joint.max(initial=0.0))
    return tuple(bar for bar in BARS if bar <= most + 0.01)


class _Search:
    """Every threshold that may be chosen, with what it does, computed once for all folds."""

    def __init__(
        self,
        *,
        full: Hits,
        words: Hits,
        base: Thresholds,
        precision: float | None,
        worth: Floats,
    ) -> None:
        self._answerable = full.answerable
        self._worth = worth
        self._precision = precision
        outage = [replace(base, lexical_only=bar) for bar in WORD_BARS]
        self._outage_shown = _shown(words, outage)
        bars = _curve_bars(full)
        if precision is None:
            gaps = sorted({*GAPS, max(0.0, base.vector_only - base.both)})
            self._tried = [
                Thresholds(both=bar, vector_only=min(bar + gap, 1.0), lexical_only=lexical)
                for gap in gaps
                for lexical in WORD_BARS
                for bar in bars
            ]
            self._answered = np.concatenate([_answered(full, gap, bars) for gap in gaps])
        else:
            self._tried = [
                replace(_with_both(base, bar), lexical_only=lexical)
                for lexical in WORD_BARS
                for bar in bars
            ]
            self._shown = _shown(full, self._tried)

    def choose(self, questions: Ints) -> tuple[Thresholds, bool]:
        """The numbers to take by these questions, and whether the target was met there."""
        if self._precision is None:
            return self._balanced(questions), True
        return self._precise(questions, self._precision)

    def _balanced(self, questions: Ints) -> Thresholds:
        """The least of the worse rate, with the outage's; the middle of near equals.

        The middle of a flat optimum is far from either edge of it, whichever way new questions
        move it.
        """
        outage = self._objective(self._outage_shown.hits > 0, questions)
        at = dict(zip(WORD_BARS, outage.tolist(), strict=True))
        objective = self._objective(self._answered, questions) + OUTAGE_PART * np.array(
            [at[tried.lexical_only] for tried in self._tried]
        )
        near = [self._tried[n] for n in np.flatnonzero(objective <= objective.min() + NEAR)]
        return Thresholds(
            both=_middle([t.both for t in near]),
            vector_only=_middle([t.vector_only for t in near]),
            lexical_only=_middle([t.lexical_only for t in near]),
        )

    def _objective(self, answered: Flags, questions: Ints) -> Floats:
        """The worse of both rates and a little of their sum, (thresholds,)."""
        own = questions[self._answerable[questions]]
        others = questions[~self._answerable[questions]]
        false_answers = _mean(answered[:, others], self._worth[others])
        false_refusals = _mean(~answered[:, own], self._worth[own])
        worse = np.maximum(false_answers, false_refusals)
        return worse + SUM_PART * (false_answers + false_refusals)

    def _precise(self, questions: Ints, target: float) -> tuple[Thresholds, bool]:
        """The lowest bars with the precision, one number after the other: words, then both."""
        words_at = _lowest(_precision(self._outage_shown, questions, self._worth), target)
        words = WORD_BARS[-1] if words_at is None else WORD_BARS[words_at]
        numbers: Ints = np.flatnonzero([tried.lexical_only == words for tried in self._tried])
        own = questions[self._answerable[questions]]
        refused = _mean(self._shown.hits[numbers][:, own] == 0, self._worth[own])
        precision = _precision(self._shown, questions, self._worth)[numbers]
        precision[refused > MOST_REFUSED] = -1.0
        at = _lowest(precision, target)
        best = int(precision.argmax()) if at is None else at
        return self._tried[int(numbers[best])], at is not None


def _answered(hits: Hits, gap: float, bars: Sequence[float]) -> Flags:
    """Whether anything is shown: (word bars times bars, questions), as ``_Search`` orders them.

    A question's best hit decides: the one with most above what its unseen share asks for.
    """
    joint = (hits.joint - hits.unseen * gap).max(axis=1)
    words = hits.words.max(axis=1)
    by_both = joint >= np.array(bars)[:, None]
    by_words = words >= np.array(WORD_BARS)[:, None]
    return (by_words[:, None, :] | by_both[None, :, :]).reshape(-1, len(joint))


def _mean(flags: Flags, worth: Floats) -> Floats:
    """The share of the questions that are marked, in each row; 0 of none."""
    return flags @ worth / (float(worth.sum()) or 1.0)


def _precision(shown: _Shown, questions: Ints, worth: Floats) -> Floats:
    hits = shown.hits[:, questions] @ worth[questions]
    return shown.right[:, questions] @ worth[questions] / np.where(hits == 0, 1.0, hits)


def _lowest(precision: Floats, target: float) -> int | None:
    enough = np.flatnonzero(precision >= target)
    return int(enough[0]) if len(enough) else None


def _middle(values: Sequence[float]) -> float:
    return round(float(np.median(values)), 3)
