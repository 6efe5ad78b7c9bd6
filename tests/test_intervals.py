"""Intervals and tests: enumerations that a reader can repeat, and the coverage they promise."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.intervals import (
    Interval,
    difference_interval,
    holm,
    interval,
    mean_interval,
    randomisation_p,
    shares,
    unit_interval,
)

numbers = st.lists(st.floats(0, 1), min_size=1, max_size=20)
pairs = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12)


# --- intervals


def test_equal_values_leave_no_doubt() -> None:
    assert mean_interval([0.5] * 9, seed=0) == Interval(0.5, 0.5)


def test_there_is_no_interval_of_nothing() -> None:
    assert mean_interval([], seed=0) is None
    assert interval(shares([0, 0], [0, 0]), seed=0) is None


@given(numbers, st.integers(0, 5))
def test_the_same_seed_gives_the_same_interval_within_the_values(
    values: list[float], seed: int
) -> None:
    found = mean_interval(values, seed=seed, resamples=200)
    assert found == mean_interval(values, seed=seed, resamples=200)
    assert found is not None
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9


def test_two_values_are_drawn_as_often_as_chance_draws_them() -> None:
    # Of 0 and 1 a draw of two has the mean 0 in a quarter of the cases, .5 in half, 1 in a quarter:
    # the middle half ends at .5 on both sides, the middle 95 % at 0 and 1.
    assert mean_interval([0, 1], seed=1, confidence=0.4) == Interval(0.5, 0.5)
    assert mean_interval([0, 1], seed=1) == Interval(0, 1)


def test_ninety_five_of_a_hundred_intervals_hold_the_true_mean() -> None:
    random = np.random.default_rng(5)
    held = 0
    for trial in range(300):
        found = mean_interval(random.normal(0.4, 0.2, size=60), seed=trial, resamples=500)
        assert found is not None
        held += found.low <= 0.4 <= found.high
    # 285 expected; ± 3 standard errors of sqrt(300 · .95 · .05) = 3.8
    assert 285 - 12 <= held <= 285 + 12


def test_a_share_weighs_questions_by_what_they_showed() -> None:
    # 9 of 10 and 0 of 1: 9/11 together, where a mean of shares would be .45
    sums = shares([9, 0], [10, 1])
    assert sums.ratio == pytest.approx(9 / 11)
    assert interval(sums, seed=0) == Interval(0, 0.9)


def test_none_of_twenty_is_no_proof_of_none() -> None:
    # with a share of .168 none of twenty comes up in (1 - .168)^20 = .025 of the cases
    found = unit_interval(shares([0] * 20, [1] * 20), seed=0)
    assert found == Interval(0, pytest.approx(1 - 0.025 ** (1 / 20)))
    assert unit_interval(shares([1] * 20, [1] * 20), seed=0) == Interval(
        pytest.approx(0.025 ** (1 / 20)), 1
    )


def test_between_the_ends_the_interval_is_that_of_the_bootstrap() -> None:
    sums = shares([1, 0, 1, 1], [1, 1, 1, 1])
    assert unit_interval(sums, seed=3) == interval(sums, seed=3)


def test_a_paired_interval_sees_a_difference_that_every_question_shares() -> None:
    first = np.linspace(0, 1, 21)
    found = difference_interval(first, first + 0.1, seed=0)
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.1))


# --- the randomisation test


@given(pairs)
def test_few_pairs_are_tested_by_every_flip_of_a_sign(values: list[tuple[float, float]]) -> None:
    first, second = (np.array(side) for side in zip(*values, strict=True))
    differences = second - first
    flips = itertools.product((1, -1), repeat=len(values))
    sums = [abs(float(np.array(flip) @ differences)) / len(values) for flip in flips]
    observed = abs(float(differences.sum())) / len(values)
    expected = sum(value >= observed - 1e-12 for value in sums) / len(sums)
    assert randomisation_p(first, second, seed=0) == pytest.approx(expected)


def test_five_wins_of_five_could_be_chance_and_ten_of_ten_hardly() -> None:
    # 2 of 2^5 flips are as extreme, 2 of 2^10
    assert randomisation_p([0] * 5, [1] * 5, seed=0) == 2 / 2**5
    assert randomisation_p([0] * 10, [1] * 10, seed=0) == 2 / 2**10


def test_no_difference_is_no_evidence() -> None:
    assert randomisation_p([0.3] * 40, [0.3] * 40, seed=0) == 1
    assert randomisation_p([], [], seed=0) == 1


def test_the_side_does_not_matter() -> None:
    random = np.random.default_rng(2)
    first, second = random.random(30), random.random(30)
    forth, back = (randomisation_p(a, b, seed=3) for a, b in ((first, second), (second, first)))
    assert forth == pytest.approx(back)


def test_drawn_flips_agree_with_all_of_them() -> None:
    random = np.random.default_rng(4)
    first = random.random(12)
    second = np.clip(first + random.normal(0.1, 0.2, size=12), 0, 1)
    exact = randomisation_p(first, second, seed=0)
    drawn = randomisation_p(first, second, seed=0, permutations=4_000)
    assert drawn == pytest.approx(exact, abs=0.02)
    assert drawn != exact


def test_chance_alone_is_called_significant_once_in_twenty() -> None:
    random = np.random.default_rng(6)
    called = sum(
        randomisation_p(random.random(20), random.random(20), seed=trial, permutations=500) < 0.05
        for trial in range(300)
    )
    assert called <= 15 + 12


def test_shares_are_tested_by_swapping_what_each_question_showed() -> None:
    # Every question shows ten hits; one system is right in all, the other in none.
    first, second = shares([0] * 10, [10] * 10), shares([10] * 10, [10] * 10)
    assert randomisation_p(first, second, seed=0) == 2 / 2**10


# --- several at once


def test_the_smallest_of_three_is_multiplied_by_three_and_order_is_kept() -> None:
    # .01 · 3, then .02 · 2 = .04, then .03 · 1, not below the one before
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []
