"""The search over ranking numbers: which settings are tried, and which is recommended. Pure.

A setting is a whole profile. Settings are judged by a matrix of measures, (settings, questions), as
``replay.ndcg_matrix`` makes it; row 0 is the base profile's own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastro.intervals import LEAST_QUESTIONS, Interval, mean_interval
from lastro.profiles import Cosine, Fusion, Profile
from lastro.replay import CachedQuestion

DEFAULT_SETTINGS = 10_000
FOLDS = 5
# How many numbers may differ from the base's, tried in this order; the last is: any.
FREEDOMS = (1, 2, 99)
# Rounds of drawing after which a space is taken to hold no more settings.
_ROUNDS = 8

Matrix = NDArray[np.float32]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The values that each number may take; the base's own are among them.

    ``vector_share`` is the vector's part of the two legs' weights, whose sum stays the base's.
    """

    fusion: tuple[Fusion, ...]
    vector_share: tuple[float, ...]
    cosine: tuple[Cosine, ...]
    length_exponent: tuple[float, ...]
    rrf_k: tuple[float, ...]
    vector_depth: tuple[int, ...]
    lexical_depth: tuple[int, ...]
    rule_weight: tuple[float, ...]
    freshness_weight: tuple[float, ...]
    half_life_days: tuple[float, ...]


_AXES = tuple(field.name for field in fields(Space))
_SHARES = tuple(step / 50 for step in range(51))


def space_of(
    questions: Sequence[CachedQuestion], base: Profile, *, move_cosine: bool = True
) -> Space:
    """What these questions can tell about ``base``: a number that no row has a part in stays.

    Depths only shrink, since the legs were run at the base's. ``move_cosine`` lets the scale of the
    cosines change, and with it the meaning of the thresholds.
    """
    lengths = any(np.nanmax(q.length_ratio, initial=1.0) != 1.0 for q in questions)
    rules = any(q.rule.any() for q in questions)
    dates = any(not np.isnan(q.age_days).all() for q in questions)
    scales = move_cosine and any(q.scale is not None for q in questions)
    return Space(
        fusion=_with(base.fusion, ("weighted", "rrf")),
        vector_share=_with(share_of(base), _SHARES),
        cosine=_with(base.cosine, ("raw", "scaled") if scales else ()),
        length_exponent=_with(base.length_exponent, (0.0, 0.1, 0.2, 0.3, 0.45) if lengths else ()),
        rrf_k=_with(base.rrf_k, (10.0, 30.0, 60.0, 120.0)),
        vector_depth=_with(base.vector_depth, _shallower(base.vector_depth)),
        lexical_depth=_with(base.lexical_depth, _shallower(base.lexical_depth)),
        rule_weight=_with(base.rule_weight, (0.0, 0.1, 0.2, 0.35) if rules else ()),
        freshness_weight=_with(base.freshness_weight, (0.0, 0.05, 0.1, 0.2) if dates else ()),
        half_life_days=_with(base.half_life_days, (30.0, 90.0, 180.0, 365.0) if dates else ()),
    )


def _with(own: Any, others: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted({own, *others}))


def _shallower(depth: int) -> tuple[int, ...]:
    return tuple(part for part in (depth // 4, depth // 2) if part >= 1)


def share_of(profile: Profile) -> float:
    """The vector's part of the two legs' weights, in [0, 1]."""
    return profile.vector_weight / (profile.vector_weight + profile.lexical_weight)


# --- the settings that are tried


def settings_of(space: Space, base: Profile, *, count: int, seed: int) -> list[Profile]:
    """At most ``count`` distinct settings, the base's own first.

    The whole grid where it is no larger. Else every change of one number, every share of the vector
    with one other number changed, and a Latin hypercube of the rest, which spreads each number's
    values evenly. Source: McKay, Beckman, Conover, Technometrics 1979.
    """
    values: Mapping[str, tuple[Any, ...]] = {axis: getattr(space, axis) for axis in _AXES}
    tried: dict[Profile, None] = {base: None}
    drawn = (
        product(*values.values())
        if prod(len(axis) for axis in values.values()) <= count
        else _drawn(values, base, count=count, seed=seed)
    )
    for point in drawn:
        if len(tried) >= count:
            break
        tried.setdefault(_setting(base, dict(zip(_AXES, point, strict=True))))
    return list(tried)


def _drawn(
    values: Mapping[str, tuple[Any, ...]], base: Profile, *, count: int, seed: int
) -> Iterator[tuple[Any, ...]]:
    own = _position(base)
    for axis in _AXES:
        for value in values[axis]:
            yield tuple({**own, axis: value}.values())
    for axis in _AXES:
        for value, share in product(values[axis], values["vector_share"]):
            yield tuple({**own, "vector_share": share, axis: value}.values())
    random = np.random.default_rng(seed)
    for _ in range(_ROUNDS):
        strata = [random.permutation(count) * len(values[axis]) // count for axis in _AXES]
        for places in zip(*strata, strict=True):
            yield tuple(values[axis][at] for axis, at in zip(_AXES, places, strict=True))


def _position(profile: Profile) -> dict[str, Any]:
    return {
        axis: share_of(profile) if axis == "vector_share" else getattr(profile, axis)
        for axis in _AXES
    }


def _setting(base: Profile, at: dict[str, Any]) -> Profile:
    """The base with these numbers; one that nothing reads stays, so that equals meet."""
    both = base.vector_weight + base.lexical_weight
    share = at.pop("vector_share")
    if share != share_of(base):
        at |= {"vector_weight": both * share, "lexical_weight": both * (1 - share)}
    if at["fusion"] == "rrf":
        at |= {"cosine": base.cosine, "length_exponent": base.length_exponent}
    else:
        at["rrf_k"] = base.rrf_k
    if not at["freshness_weight"]:
        at["half_life_days"] = base.half_life_days
    return replace(base, **at)


def distances(settings: Sequence[Profile], space: Space, base: Profile) -> tuple[Ints, Floats]:
    """How many numbers of each setting differ from the base's, and how far in all.

    A number's way from one end of its values to the other is 1.
    """
    own = _position(base)
    steps: dict[str, dict[Any, float]] = {}
    for axis in _AXES:
        values: tuple[Any, ...] = getattr(space, axis)
        at, last = values.index(own[axis]), max(len(values) - 1, 1)
        steps[axis] = {value: abs(place - at) / last for place, value in enumerate(values)}
    shares = np.array(space.vector_share)
    ways = np.array(
        [
            [
                steps[axis][_nearest(shares, share_of(s)) if axis == "vector_share" else value]
                for axis, value in ((axis, getattr(s, axis, None)) for axis in _AXES)
            ]
            for s in settings
        ]
    )
    return (ways > 0).sum(axis=1), ways.sum(axis=1)


def _nearest(shares: Floats, share: float) -> float:
    """The space's own value: a share that went through two weights may differ in the last digit."""
    return float(shares[np.abs(shares - share).argmin()])


# --- choosing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trials:
    """Settings with their measure on every question, and what the choice may prefer.

    ``matrix`` has the shape (settings, questions); ``importance`` (questions,) adds up to 1;
    ``changed`` and ``distance`` (settings,) are as ``distances`` returns them. Row 0 is the base.
    """

    settings: Sequence[Profile]
    matrix: Matrix
    importance: Floats
    groups: Sequence[str]
    changed: Ints
    distance: Floats


def trials(
    settings: Sequence[Profile],
    matrix: Matrix,
    questions: Sequence[CachedQuestion],
    *,
    space: Space,
    balance: bool = False,
) -> Trials:
    """Trials of ``settings``; with ``balance`` every group counts alike, whatever its size."""
    groups = [question.group for question in questions]
    sizes = {group: groups.count(group) for group in set(groups)}
    counts = [1 / sizes[group] if balance else 1.0 for group in groups]
    changed, distance = distances(settings, space, settings[0])
    return Trials(
        settings=settings,
        matrix=matrix,
        importance=np.array(counts) / sum(counts),
        groups=groups,
        changed=changed,
        distance=distance,
    )


def choose(trials: Trials, questions: Ints, *, freedom: int) -> int:
    """The setting to take by these questions, of those that change ``freedom`` numbers at most.

    Among the settings that lie within one standard error of the best (of their difference on the
    same questions) the one nearest to the base: the optimum is flat, the best of thousands is best
    by luck as well, and what is near the base was chosen on other questions too.
    Source: the one-standard-error rule, Breiman et al., Classification and Regression Trees, 1984,
    with pairs. Ties: higher mean, then the earlier setting.
    """
    allowed = np.flatnonzero(trials.changed <= freedom)
    share = trials.importance[questions] / trials.importance[questions].sum()
    tried = trials.matrix[np.ix_(allowed, questions)]
    means = tried @ share.astype(np.float32)
    behind = tried[means.argmax()] - tried
    loss = behind @ share.astype(np.float32)
    squares = np.square(behind - loss[:, None]) @ np.square(share).astype(np.float32)
    near = np.flatnonzero(loss <= np.sqrt(squares))
    return int(allowed[near[np.lexsort((-means[near], trials.distance[allowed[near]]))[0]]])


def choose_freely(trials: Trials, questions: Ints, *, by_group: bool, seed: int) -> tuple[int, int]:
    """The setting to take and how many numbers it might change, which inner folds decide.

    The fewest that lose nothing on the questions that a fold had not seen.
    """
    inner = folds(trials, questions, by_group=by_group, seed=seed)
    worth = [
        sum(
            float(trials.importance[held] @ trials.matrix[choose(trials, rest, freedom=n), held])
            for rest, held in inner
        )
        for n in FREEDOMS
    ]
    freedom = FREEDOMS[int(np.argmax(worth))]
    return choose(trials, questions, freedom=freedom), freedom


def folds(trials: Trials, questions: Ints, *, by_group: bool, seed: int) -> list[tuple[Ints, Ints]]:
    """Pairs of (kept, held out) that hold each question out once.

    Whole groups where ``by_group`` and there are three or more; else five parts, each with its
    share of every group.
    """
    groups = np.array(trials.groups)[questions]
    names = sorted(set(groups.tolist()))
    if by_group and len(names) >= 3:
        part = np.searchsorted(names, groups)
    else:
        random = np.random.default_rng(seed)
        part = np.empty(len(questions), dtype=np.int64)
        shuffled = random.permutation(len(questions))
        part[shuffled[np.argsort(groups[shuffled], kind="stable")]] = (
            np.arange(len(questions)) % FOLDS
        )
    return [(questions[part != n], questions[part == n]) for n in np.unique(part)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen, and what it gains over the base on questions that had no part in choosing.

    ``fitted`` is the mean of ``setting`` on all questions, on which it was chosen. ``base`` and
    ``held_out`` are means of the base and of the settings that were chosen without each question;
    ``gain`` is their difference with its interval, by question as ``gains``. ``folds`` are the
    settings that the parts left out saw. ``refusal`` says why nothing is recommended; None where it
    is.
    """

    setting: Profile
    changed: int
    fitted: float
    base: float
    held_out: float
    gain: float
    interval: Interval
    gains: tuple[float, ...]
    folds: tuple[Profile, ...]
    questions: int
    settings: int
    refusal: str | None

    @property
    def recommended(self) -> bool:
        """Whether the gain's interval lies above zero."""
        return self.refusal is None


def recommend(trials: Trials, *, by_group: bool = False, seed: int = 0) -> Choice:
    """Choose a setting by nested cross-validation, or say why the base should stay.

    Outer folds estimate the gain: a setting chosen without a question answers it. Inner folds
    choose how many numbers may move. The interval is a paired bootstrap over questions.
    """
    everything = np.arange(len(trials.groups))
    held_out = np.zeros(len(everything))
    seen: list[Profile] = []
    for rest, held in folds(trials, everything, by_group=by_group, seed=seed):
        at, _ = choose_freely(trials, rest, by_group=by_group, seed=seed + 1)
        held_out[held] = trials.matrix[at, held]
        seen.append(trials.settings[at])
    at, _ = choose_freely(trials, everything, by_group=by_group, seed=seed + 1)
    gains = held_out - trials.matrix[0]
    weighted = gains * trials.importance * len(everything)
    around = mean_interval(weighted, seed=seed) or Interval(0.0, 0.0)
    return Choice(
        setting=trials.settings[at],
        changed=int(trials.changed[at]),
        fitted=float(trials.importance @ trials.matrix[at]),
        base=float(trials.importance @ trials.matrix[0]),
        held_out=float(trials.importance @ held_out),
        gain=float(weighted.mean()),
        interval=around,
        gains=tuple(gains.tolist()),
        folds=tuple(seen),
        questions=len(everything),
        settings=len(trials.settings),
        refusal=_refusal(trials, at, around),
    )


def _refusal(trials: Trials, at: int, around: Interval) -> str | None:
    count = len(trials.groups)
    if count < LEAST_QUESTIONS:
        return f"{count} questions are too few; give {LEAST_QUESTIONS} or more"
    if at == 0:
        return "no setting is better than the base by more than one standard error"
    if around.low <= 0:
        return f"the gain's interval touches zero ({around.low:+.4f} to {around.high:+.4f})"
    return None
