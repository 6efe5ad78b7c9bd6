"""The evidence threshold: what is shown at a bar, and which bars are chosen."""

from dataclasses import replace

import numpy as np
import pytest
from pools import a_question, as_candidates, random_question

from lastro.profiles import DEFAULT, Profile, Thresholds
from lastro.ranking import fuse, has_evidence, one_per_place
from lastro.replay import CachedQuestion
from lastro.thresholds import choose_thresholds, hits_of, points

BASE = Thresholds(both=0.2, vector_only=0.3, lexical_only=0.4)
BASE_PROFILE = replace(DEFAULT, cosine="raw")


def at(thresholds: Thresholds) -> Profile:
    return replace(DEFAULT, threshold=thresholds)


def shown_by_hand(question: CachedQuestion, profile: Profile) -> list[bool]:
    """For each hit that the plain functions show, whether it is right."""
    ranked = fuse(
        as_candidates(question, profile), profile, legs=question.legs, scale=question.scale
    )
    places = list(one_per_place(ranked, max_per_document=3))
    passed = [
        item
        for item in places
        if has_evidence(item, profile, legs=question.legs, scale=question.scale)
    ]
    return [
        bool(question.unit_grade[question.unit[item.candidate.ordinal]] > 0) for item in passed[:10]
    ]


def told(
    count: int, *, right: float, wrong: float, unanswerable: int = 0, seed: int = 0
) -> list[CachedQuestion]:
    """Questions whose answer has about ``right`` of either signal, all else about ``wrong``.

    The first ``unanswerable`` have no answer.
    """
    random = np.random.default_rng(seed)
    made: list[CachedQuestion] = []
    for number in range(count):
        answerable = number >= unanswerable
        signal = np.clip(random.normal(wrong, 0.05, (2, 12)), 0, 1)
        if answerable:
            signal[:, 4] = np.clip(random.normal(right, 0.05, 2), 0, 1)
        made.append(
            a_question(
                cosine=signal[0].tolist(),
                coverage=signal[1].tolist(),
                relevant={4: 1} if answerable else {},
                id_=str(number),
            )
        )
    return made


@pytest.mark.parametrize("cosine", ["raw", "scaled"])
@pytest.mark.parametrize("legs", [("vector", "lexical"), ("vector",), ("lexical",)])
def test_what_passes_is_what_has_evidence_for_a_search(cosine, legs) -> None:
    question = random_question(5, rows=60, units=60)
    question = replace(question, mass=0.7, document=np.arange(60) // 5)
    question = replace(
        question, char_start=np.arange(60) % 5 * 8, char_end=np.arange(60) % 5 * 8 + 10
    )
    question = replace(question, vector_rank=np.maximum(question.vector_rank, 1))
    if "vector" not in legs:
        question = replace(question, legs=legs, cosine=np.full(60, np.nan))
    if "lexical" not in legs:
        question = replace(question, legs=legs, coverage=np.full(60, np.nan))
    profile = replace(DEFAULT, cosine=cosine)
    for both in (0.0, 0.2, 0.3, 0.45):
        thresholds = Thresholds(both=both, vector_only=both + 0.1, lexical_only=0.5)
        shown = shown_by_hand(question, replace(profile, threshold=thresholds))
        (point,) = points(hits_of([question], profile), [thresholds])
        assert point.answered == bool(shown)
        assert point.precision == (pytest.approx(sum(shown) / len(shown)) if shown else None)
        assert point.first_precision == (float(shown[0]) if shown else None)


def test_rates_count_questions_and_precision_counts_hits() -> None:
    # Joint evidence is the mean of both signals.
    two_hits = a_question(cosine=[0.5, 0.5, 0.1], coverage=[0.5, 0.3, 0.1], relevant={0: 1})
    refused = a_question(cosine=[0.1], coverage=[0.1], relevant={0: 1})
    answered = a_question(cosine=[0.6], coverage=[0.6], relevant={})
    hits = hits_of([two_hits, refused, answered], DEFAULT)
    (point,) = points(hits, [Thresholds(both=0.4, vector_only=0.4, lexical_only=1)])
    # Three hits are shown, one of them right; two questions are answered, one with a right hit.
    assert point.precision == pytest.approx(1 / 3)
    assert point.first_precision == 1 / 2
    assert (point.false_answers, point.false_refusals) == (1, 1 / 2)
    assert point.answered == pytest.approx(2 / 3)


def test_balance_puts_the_bar_between_answers_and_the_rest() -> None:
    questions = told(90, right=0.6, wrong=0.2, unanswerable=30)
    choice = choose_thresholds(questions, DEFAULT, base=BASE)
    assert 0.3 < choice.thresholds.both < 0.55
    assert choice.held_out.false_answers == pytest.approx(0, abs=0.05)
    assert choice.held_out.false_refusals == pytest.approx(0, abs=0.05)
    # The base's 0.2 lets nearly every unanswerable question through.
    assert (choice.base.false_answers or 0) > 0.5
    assert choice.recommended
    assert choice.abstention_measured


def test_the_bases_numbers_stay_where_others_are_no_better() -> None:
    good = Thresholds(both=0.4, vector_only=0.45, lexical_only=0.4)
    choice = choose_thresholds(told(90, right=0.6, wrong=0.2, unanswerable=30), DEFAULT, base=good)
    assert not choice.recommended
    assert "touches zero" in (choice.refusal or "")


@pytest.mark.parametrize("target", [0.3, 0.6])
def test_a_stated_precision_is_met_on_questions_that_had_no_part(target: float) -> None:
    # Wrong rows reach nearly as high as right ones: the higher the bar, the fewer of them.
    questions = told(240, right=0.5, wrong=0.36, seed=3)
    choice = choose_thresholds(questions, DEFAULT, base=BASE, precision=target)
    assert choice.reached
    assert choice.held_out.precision == pytest.approx(target, abs=0.05)


def test_a_target_above_what_can_be_had_is_said_and_not_recommended() -> None:
    questions = told(60, right=0.3, wrong=0.3)
    choice = choose_thresholds(questions, DEFAULT, base=BASE, precision=0.9)
    assert not choice.reached
    assert not choice.recommended
    assert "out of reach" in (choice.refusal or "")


@pytest.mark.parametrize("precision", [None, 0.5])
def test_nothing_is_recommended_on_fewer_than_twenty_questions(precision) -> None:
    questions = told(19, right=0.9, wrong=0.1, unanswerable=9)
    choice = choose_thresholds(questions, DEFAULT, base=BASE, precision=precision)
    assert "19 questions are too few" in (choice.refusal or "")


def test_without_unanswerable_questions_abstention_is_not_measured() -> None:
    choice = choose_thresholds(told(40, right=0.6, wrong=0.2), DEFAULT, base=BASE, precision=0.5)
    assert not choice.abstention_measured
    assert choice.held_out.false_answers is None


def test_without_unanswerable_questions_and_without_a_target_nothing_can_be_chosen() -> None:
    with pytest.raises(ValueError, match="precision"):
        choose_thresholds(told(10, right=0.6, wrong=0.2), DEFAULT, base=BASE)


def test_the_curve_gives_up_answers_as_the_bar_rises() -> None:
    choice = choose_thresholds(told(60, right=0.6, wrong=0.2, unanswerable=20), DEFAULT, base=BASE)
    answered = [point.answered for point in choice.curve]
    refused = [point.false_refusals or 0.0 for point in choice.curve]
    assert answered == sorted(answered, reverse=True)
    assert refused == sorted(refused)
    assert {point.thresholds.lexical_only for point in choice.curve} == {
        choice.thresholds.lexical_only
    }


def test_a_question_in_another_language_is_told_by_its_vector_alone() -> None:
    random = np.random.default_rng(1)
    own = told(60, right=0.6, wrong=0.2, unanswerable=20)
    foreign = [
        a_question(
            # Joint evidence is the cosine alone where no word is known.
            cosine=[float(random.normal(0.55 if n % 2 else 0.35, 0.02)), 0.1],
            coverage=[np.nan, np.nan],
            unseen=[1.0, 1.0],
            relevant={0: 1} if n % 2 else {},
            id_=f"foreign{n}",
        )
        for n in range(60)
    ]
    choice = choose_thresholds([*own, *foreign], DEFAULT, base=BASE)
    assert 0.38 < choice.thresholds.vector_only < 0.54
    assert choice.thresholds.both <= choice.thresholds.vector_only
    assert (choice.held_out.false_answers or 0) < 0.1
    assert (choice.held_out.false_refusals or 0) < 0.1


def test_the_choice_is_the_same_for_a_seed() -> None:
    questions = told(60, right=0.45, wrong=0.3, unanswerable=20)
    first = choose_thresholds(questions, DEFAULT, base=BASE, seed=4)
    again = choose_thresholds(questions, DEFAULT, base=BASE, seed=4)
    assert first == again


def in_group(questions: list[CachedQuestion], group: str) -> list[CachedQuestion]:
    return [replace(question, group=group) for question in questions]


def three_groups() -> list[CachedQuestion]:
    """Two small groups whose answers stand high, and a large one whose answers stand low."""
    return [
        *in_group(told(24, right=0.7, wrong=0.3, unanswerable=8, seed=1), "a"),
        *in_group(told(24, right=0.7, wrong=0.3, unanswerable=8, seed=2), "b"),
        *in_group(told(240, right=0.4, wrong=0.1, unanswerable=80, seed=3), "c"),
    ]


def test_each_of_three_groups_is_left_out_whole() -> None:
    choice = choose_thresholds(three_groups(), BASE_PROFILE, base=BASE, by_group=True)
    assert len(choice.folds) == 3
    without_c = three_groups()[:48]
    alone = choose_thresholds(without_c, BASE_PROFILE, base=BASE, by_group=True)
    # Nothing of the group left out had a part in the numbers it is judged by.
    assert choice.folds[2] == alone.thresholds


def test_groups_count_alike_whatever_their_size() -> None:
    questions = three_groups()
    choice = choose_thresholds(questions, BASE_PROFILE, base=BASE, by_group=True)
    # The base's bars answer what has no answer in the two small groups, and not in the large one.
    by_group = [
        points(hits_of([q for q in questions if q.group == name], BASE_PROFILE), [BASE])[0]
        for name in ("a", "b", "c")
    ]
    mean = sum(point.false_answers or 0.0 for point in by_group) / 3
    assert choice.base.false_answers == pytest.approx(mean)
