"""What the shipped ``default`` does on sets that had no part in choosing it. Pure, but for a clock.

Every figure is of one set with numbers that the other sets chose, unless its name says otherwise.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.default_sets import CROSS, CROSS_FOREIGN, FOREIGN, FOREIGN_LANGUAGE, OWN, kind_of
from lastro.calibration import Choice, recommend, settings_of, share_of, space_of, trials
from lastro.intervals import randomisation_p
from lastro.profiles import Profile, Thresholds, profile_json
from lastro.replay import CachedQuestion, ndcg_matrix
from lastro.thresholds import ThresholdChoice, choose_thresholds, hits_of, points

# Shares of the hits shown that shall be right, as somebody might ask for them.
TARGETS = (0.3, 0.4, 0.5)
SHARES = tuple(step / 50 for step in range(51))
FINE_SHARES = tuple(step / 100 for step in range(101))
SPEED_QUESTIONS = 500
# Reciprocal rank fusion as it is written. Source: Cormack, Clarke, Büttcher, SIGIR 2009
RRF_K = 60.0
DEFAULT, SHARE, VECTOR, LEXICAL, RRF = "default", "share alone", "vector", "lexical", "rrf"

Floats = NDArray[np.float64]
Questions = Sequence[CachedQuestion]


def of_kinds(questions: Questions, *kinds: str) -> list[CachedQuestion]:
    """The questions of these kinds, in their order."""
    return [question for question in questions if kind_of(question) in kinds]


def by_set(questions: Questions) -> dict[str, list[CachedQuestion]]:
    """Questions by their set, sets in the order of their names."""
    names = sorted({question.group for question in questions})
    return {name: [q for q in questions if q.group == name] for name in names}


# --- ranking


def ranking_figures(own: Questions, choice: Choice, start: Profile, *, seed: int) -> dict[str, Any]:
    """nDCG@10 of each system on each set, and how far ``default`` is ahead of the others."""
    names = list(by_set(own))
    groups = np.array([question.group for question in own])
    legs = {
        VECTOR: _weighted(start, share=1.0),
        LEXICAL: _weighted(start, share=0.0),
        RRF: replace(_weighted(start, share=0.5), fusion="rrf", rrf_k=RRF_K),
    }
    matrix = ndcg_matrix(own, [*choice.folds, *legs.values()])
    shares = ndcg_matrix(own, [_weighted(start, share=share) for share in SHARES])
    fold = np.searchsorted(names, groups)
    everyone = np.arange(len(own))
    best = _best_elsewhere(shares, groups, names)
    values: dict[str, Floats] = {
        DEFAULT: matrix[fold, everyone].astype(np.float64),
        SHARE: shares[best[fold], everyone].astype(np.float64),
    }
    for at, name in enumerate(legs, start=len(choice.folds)):
        values[name] = matrix[at].astype(np.float64)
    sets = {
        name: {
            "questions": int((groups == name).sum()),
            "numbers": _numbers(choice.folds[at], start),
            "share": SHARES[best[at]],
            **_compared({key: value[groups == name] for key, value in values.items()}, seed=seed),
        }
        for at, name in enumerate(names)
    }
    worth = np.array([len(own) / len(names) / (groups == group).sum() for group in groups])
    mean = _compared({key: value * worth for key, value in values.items()}, seed=seed)
    return {"sets": sets, "mean": mean}


def _weighted(start: Profile, *, share: float) -> Profile:
    return replace(start, vector_weight=share, lexical_weight=1 - share)


def _best_elsewhere(
    matrix: NDArray[np.float32], groups: NDArray[np.str_], names: Sequence[str]
) -> NDArray[np.int64]:
    """For each set the setting with the best mean over the other sets."""
    means = np.stack([matrix[:, groups == name].mean(axis=1) for name in names])
    return np.array(
        [np.delete(means, at, axis=0).mean(axis=0).argmax() for at in range(len(means))]
    )


def _compared(values: Mapping[str, Floats], *, seed: int) -> dict[str, Any]:
    """Means, and what both ways of leaving a set out gain over the rest, with paired p.

    Signs are flipped by question, so that with weights that make sets alike the test is stratified.
    """
    return {
        "ndcg@10": {name: _round(value.mean()) for name, value in values.items()},
        "gain": {
            name: {
                other: {
                    "difference": _round((values[name] - values[other]).mean()),
                    "p": _round(randomisation_p(values[other], values[name], seed=seed)),
                }
                for other in (VECTOR, LEXICAL, RRF)
            }
            for name in (DEFAULT, SHARE)
        },
    }


def crossing_figures(
    questions: Questions, chosen: Profile, start: Profile, *, seed: int
) -> dict[str, Any]:
    """nDCG@10 of questions in another language than the documents, and of the legs alone."""
    made: dict[str, Any] = {}
    settings = [chosen, _weighted(start, share=1.0), _weighted(start, share=0.0)]
    for name, own in by_set(of_kinds(questions, CROSS)).items():
        hybrid, vector, lexical = ndcg_matrix(own, settings).astype(np.float64)
        made[name] = {
            "questions": len(own),
            "ndcg@10": {
                DEFAULT: _round(hybrid.mean()),
                VECTOR: _round(vector.mean()),
                LEXICAL: _round(lexical.mean()),
            },
            "p": _round(randomisation_p(vector, hybrid, seed=seed)),
        }
    return made


def _numbers(setting: Profile, start: Profile) -> dict[str, Any]:
    """What differs from the start, by name; the vector's share for the two weights."""
    changed = {
        field.name: getattr(setting, field.name)
        for field in fields(Profile)
        if getattr(setting, field.name) != getattr(start, field.name)
        and not field.name.endswith("_weight")
    }
    return {"vector_share": _round(share_of(setting)), **changed}


# --- thresholds


def threshold_figures(
    questions: Questions,
    choice: ThresholdChoice,
    profile: Profile,
    *,
    start: Thresholds,
    seed: int,
) -> dict[str, Any]:
    """False answers and false refusals of each set by kind of question, in three ways held out.

    ``otherSets``: numbers of the other sets. ``otherSubjects``: for the parallel trees, numbers of
    the sets with another subject. ``ownOtherPart``: numbers of the set's other questions. The
    numbers of ``profile`` are ``shipped``: they saw every set.
    """
    shipped = profile.threshold
    assert isinstance(shipped, Thresholds)
    sets = by_set(questions)
    rest = [question for question in questions if not question.group.startswith("fastapi")]
    apart = choose_thresholds(rest, profile, base=start, by_group=True, seed=seed).thresholds
    return {
        name: {
            "thresholds": _thresholds(choice.folds[at]),
            "otherSets": _rates(own, profile, choice.folds[at]),
            "otherSubjects": _rates(own, profile, apart) if name.startswith("fastapi") else None,
            "ownOtherPart": _nested(own, profile, start=start, seed=seed),
            "shipped": _rates(own, profile, shipped),
        }
        for at, (name, own) in enumerate(sets.items())
    }


def _rates(questions: Questions, profile: Profile, thresholds: Thresholds) -> dict[str, Any]:
    """Shares of each kind that were answered wrongly, or wrongly not; and the precision."""
    made: dict[str, Any] = {}
    for title, kinds in (("own", _OWN_KINDS), ("crossing", _CROSS_KINDS)):
        asked = of_kinds(questions, *kinds)
        if not asked:
            continue
        hits = hits_of(asked, profile)
        whole = points(hits, [thresholds])[0]
        made[title] = {
            "falseAnswers": _round(whole.false_answers),
            "falseRefusals": _round(whole.false_refusals),
            "precision": _round(whole.precision),
            "falseAnswersByKind": _by_kind(asked, profile, thresholds),
        }
    return made


_OWN_KINDS = (OWN, FOREIGN, FOREIGN_LANGUAGE)
_CROSS_KINDS = (CROSS, CROSS_FOREIGN)


def _by_kind(asked: Questions, profile: Profile, thresholds: Thresholds) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for kind in (FOREIGN, FOREIGN_LANGUAGE, CROSS_FOREIGN):
        own = of_kinds(asked, kind)
        if own:
            point = points(hits_of(own, profile), [thresholds])[0]
            made[kind] = {"questions": len(own), "rate": _round(point.false_answers)}
    return made


def _nested(
    questions: Questions, profile: Profile, *, start: Thresholds, seed: int
) -> dict[str, Any]:
    """The set's own questions in five parts, each judged by numbers of the other four."""
    asked = of_kinds(questions, *_OWN_KINDS)
    balanced = choose_thresholds(asked, profile, base=start, seed=seed).held_out
    made: dict[str, Any] = {
        "falseAnswers": _round(balanced.false_answers),
        "falseRefusals": _round(balanced.false_refusals),
        "precision": _round(balanced.precision),
        "targets": {},
    }
    for target in TARGETS:
        found = choose_thresholds(asked, profile, base=start, precision=target, seed=seed)
        made["targets"][f"{target:g}"] = {
            "reached": found.reached,
            "precision": _round(found.held_out.precision),
            "falseAnswers": _round(found.held_out.false_answers),
            "falseRefusals": _round(found.held_out.false_refusals),
        }
    return made


def target_figures(
    questions: Questions, profile: Profile, *, start: Thresholds, seed: int
) -> dict[str, Any]:
    """The precision on each set by numbers that reach a target on the other sets."""
    asked = of_kinds(questions, *_OWN_KINDS)
    made: dict[str, Any] = {}
    for target in TARGETS:
        found = choose_thresholds(
            asked, profile, base=start, precision=target, by_group=True, seed=seed
        )
        made[f"{target:g}"] = {
            name: _round(points(hits_of(own, profile), [fold])[0].precision)
            for fold, (name, own) in zip(found.folds, by_set(asked).items(), strict=True)
        }
    return made


def _thresholds(numbers: Thresholds) -> dict[str, float]:
    return {field.name: getattr(numbers, field.name) for field in fields(Thresholds)}


def numbers_of(profile: Profile) -> dict[str, Any]:
    """Every ranking number of a profile: what is compared with the one that is shipped."""
    aside = {"name", "version", "calibrated", "provenance", "embedder"}
    return {key: value for key, value in profile_json(profile).items() if key not in aside}


def _round(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)


# --- speed


def speed_figures(own: Questions, start: Profile, *, settings: int, seed: int) -> dict[str, Any]:
    """Seconds for ``settings`` settings on 500 questions of all sets: judged, and chosen among."""
    random = np.random.default_rng(seed)
    drawn = [own[at] for at in sorted(random.permutation(len(own))[:SPEED_QUESTIONS])]
    load = os.getloadavg()[0]
    started, busy = time.perf_counter(), time.process_time()
    # Twice as fine as a calibration's own grid, which has fewer settings than are timed.
    space = replace(space_of(drawn, start), vector_share=FINE_SHARES)
    tried = settings_of(space, start, count=settings, seed=seed)
    matrix = ndcg_matrix(drawn, tried)
    judged, judged_busy = time.perf_counter() - started, time.process_time() - busy
    recommend(trials(tried, matrix, drawn, space=space), seed=seed)
    return {
        "questions": len(drawn),
        "settings": len(tried),
        "candidatesPerQuestion": round(float(np.mean([len(q.cosine) for q in drawn]))),
        "judgedS": round(judged, 1),
        "judgedProcessorS": round(judged_busy, 1),
        "allS": round(time.perf_counter() - started, 1),
        "allProcessorS": round(time.process_time() - busy, 1),
        "load": round(load, 1),
    }
