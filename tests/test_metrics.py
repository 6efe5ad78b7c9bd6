"""Ranking measures: arithmetic that a reader can check, and the judgement of an outside oracle."""

import math
from typing import Any

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, R, Success, nDCG

from lastro.metrics import gains_of, mean, ndcg, recall, reciprocal_rank, scored, success

# --- by hand


def test_ndcg_divides_the_discounted_gains_by_those_of_the_best_order() -> None:
    # found: grade 2 at rank 3; the best order: 2 at rank 1, 1 at rank 2
    expected = (2 / math.log2(4)) / (2 / math.log2(2) + 1 / math.log2(3))
    assert ndcg([0, 0, 2], [1, 2]) == pytest.approx(expected)


def test_ndcg_reads_no_further_than_its_depth() -> None:
    assert ndcg([0] * 10 + [1], [1]) == 0
    assert ndcg([0] * 10 + [1], [1], k=11) == pytest.approx(1 / math.log2(12))


def test_recall_counts_judged_units_and_not_their_grades() -> None:
    assert recall([3, 0, 1], [3, 1, 1, 1], k=2) == 1 / 4
    assert recall([3, 0, 1], [3, 1, 1, 1], k=3) == 2 / 4


def test_the_reciprocal_rank_is_that_of_the_first_judged_unit() -> None:
    assert reciprocal_rank([0, 0, 1, 5]) == 1 / 3


def test_success_asks_for_one_judged_unit_at_the_top() -> None:
    assert (success([1]), success([0, 1]), success([0, 1], k=2)) == (1, 0, 1)


@pytest.mark.parametrize("gains", [[], [0, 0]])
def test_a_ranking_without_an_answer_is_worth_nothing(gains: list[int]) -> None:
    assert ndcg(gains, [1]) == recall(gains, [1], k=5) == reciprocal_rank(gains) == 0
    assert success(gains) == 0


def test_a_question_that_nothing_answers_has_no_gain_to_reach() -> None:
    assert (ndcg([], []), recall([], [], k=5)) == (0, 0)


def test_a_missing_question_scores_nothing_and_counts() -> None:
    values = scored({"a": 1.0, "b": 0.5}, ["a", "b", "missing"])
    assert mean(values) == pytest.approx((1 + 0.5 + 0) / 3)


# --- against an outside implementation

UNITS = [f"u{number}" for number in range(30)]
grades_of = st.dictionaries(st.sampled_from(UNITS), st.integers(0, 3), min_size=1, max_size=12)
rankings = st.permutations(UNITS).flatmap(
    lambda order: st.integers(0, len(order)).map(lambda size: order[:size])
)


@given(
    st.dictionaries(
        st.sampled_from(["q1", "q2", "q3"]), st.tuples(grades_of, st.none() | rankings), min_size=1
    ),
    st.integers(1, 15),
)
def test_measures_are_those_of_ir_measures(
    questions: dict[str, tuple[dict[str, int], list[str] | None]], k: int
) -> None:
    expected: dict[Any, float] = ir_measures.calc_aggregate(
        [nDCG @ 10, R @ k, RR, Success @ 1],
        [
            ir_measures.Qrel(question, unit, grade)
            for question, (grades, _) in questions.items()
            for unit, grade in grades.items()
        ],
        [
            # Free of ties: the rank is the score.
            ir_measures.ScoredDoc(question, unit, -float(rank))
            for question, (_, ranking) in questions.items()
            for rank, unit in enumerate(ranking or [])
        ],
    )
    gains = {q: gains_of(ranking, grades) for q, (grades, ranking) in questions.items() if ranking}
    ideal = {q: [*grades.values()] for q, (grades, _) in questions.items()}
    own = {
        nDCG @ 10: {q: ndcg(g, ideal[q]) for q, g in gains.items()},
        R @ k: {q: recall(g, ideal[q], k=k) for q, g in gains.items()},
        RR: {q: reciprocal_rank(g) for q, g in gains.items()},
        Success @ 1: {q: success(g) for q, g in gains.items()},
    }
    for measure, values in own.items():
        assert mean(scored(values, [*questions])) == pytest.approx(expected[measure], abs=1e-9)


@given(grades_of, rankings)
def test_measures_lie_between_nothing_and_all(grades: dict[str, int], ranking: list[str]) -> None:
    gains, ideal = gains_of(ranking, grades), [*grades.values()]
    for value in (ndcg(gains, ideal), recall(gains, ideal, k=10), reciprocal_rank(gains)):
        assert 0 <= value <= 1 + 1e-12
