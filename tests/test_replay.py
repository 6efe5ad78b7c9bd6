"""Replayed fusion equals fusion: the same rows, scores, ties and nDCG, for any pool."""

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pools import a_question, a_setting, as_candidates, random_question, random_settings

from lastro.metrics import ndcg
from lastro.profiles import DEFAULT, KB_RRF, Profile
from lastro.ranking import Candidate, fuse
from lastro.replay import CachedQuestion, fused, lexical_scores, ndcg_matrix

EIGHTHS = st.integers(0, 8).map(lambda eighth: eighth / 8)


def plain_ndcg(question: CachedQuestion, setting: Profile) -> float:
    """What the pure functions say of one question under one setting."""
    ranked = fuse(
        within(as_candidates(question, setting), setting),
        setting,
        legs=question.legs,
        scale=question.scale,
    )
    units = dict.fromkeys(int(question.unit[item.candidate.ordinal]) for item in ranked)
    return ndcg([question.unit_grade[unit] for unit in units], list(question.ideal_gains))


def within(candidates: list[Candidate], setting: Profile) -> list[Candidate]:
    """The candidates of legs cut at the setting's depths."""

    def cut(rank: int | None, depth: int) -> int | None:
        return None if rank is None or rank > depth else rank

    shallow = [
        candidate._replace(
            vector_rank=cut(candidate.vector_rank, setting.vector_depth),
            lexical_rank=cut(candidate.lexical_rank, setting.lexical_depth),
        )
        for candidate in candidates
    ]
    return [c for c in shallow if c.vector_rank or c.lexical_rank]


@pytest.mark.parametrize("seed", range(6))
def test_the_matrix_equals_fusion_and_measure_one_by_one(seed: int) -> None:
    question = random_question(seed, rows=120, units=90)
    tried = random_settings(seed, count=40)
    matrix = ndcg_matrix([question], tried)
    expected = [plain_ndcg(question, setting) for setting in tried]
    assert matrix[:, 0].tolist() == pytest.approx(expected, abs=1e-6)
    assert 0 < max(expected) <= 1


def test_rows_without_a_chance_are_left_out_and_change_nothing() -> None:
    question = random_question(3, rows=600, units=600)
    shares = [
        replace(DEFAULT, vector_weight=w, lexical_weight=1 - w) for w in np.linspace(0, 1, 60)
    ]
    matrix = ndcg_matrix([question], shares)
    assert matrix[:, 0].tolist() == pytest.approx(
        [plain_ndcg(question, setting) for setting in shares], abs=1e-6
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    data=st.data(),
    legs=st.sampled_from([("vector", "lexical"), ("vector",), ("lexical",)]),
    copies=st.integers(1, 12),
)
def test_equal_scores_fall_by_place_as_in_fusion(data, legs, copies) -> None:
    # Eighths are exact in binary, so that equal sums are equal numbers.
    rows = data.draw(st.integers(2, 14))
    question = a_question(
        legs=legs,
        cosine=data.draw(st.lists(EIGHTHS, min_size=rows, max_size=rows)),
        coverage=data.draw(st.lists(EIGHTHS, min_size=rows, max_size=rows)),
        unreached=data.draw(st.lists(st.sampled_from([0, 0, 0.5]), min_size=rows, max_size=rows)),
        unit=data.draw(st.lists(st.integers(0, rows - 1), min_size=rows, max_size=rows)),
        relevant={0: 1, rows // 2: 2},
    )
    tried = [
        a_setting(vector=share, lexical=1 - share)
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
        for _ in range(copies)
    ]
    assert ndcg_matrix([question], tried)[:, 0].tolist() == pytest.approx(
        [plain_ndcg(question, setting) for setting in tried], abs=1e-6
    )


@pytest.mark.parametrize("profile", [DEFAULT, KB_RRF, replace(DEFAULT, cosine="scaled")])
def test_one_setting_gives_the_order_and_scores_of_fusion(profile: Profile) -> None:
    question = random_question(11, rows=80, units=80)
    ranked = fuse(
        within(as_candidates(question, profile), profile),
        profile,
        legs=question.legs,
        scale=question.scale,
    )
    rows, scores = fused(question, profile)
    assert rows.tolist() == [item.candidate.ordinal for item in ranked]
    assert scores.tolist() == [item.score for item in ranked]


def test_a_leg_that_is_absent_leaves_its_weight_to_the_other() -> None:
    question = a_question(
        legs=("vector",), cosine=[0.2, 0.8], coverage=[np.nan, np.nan], relevant={1: 1}
    )
    _, scores = fused(question, a_setting(vector=0.25, lexical=0.75))
    assert scores.tolist() == [0.8, 0.2]


def test_words_that_a_language_cannot_hold_leave_their_weight_to_the_vector() -> None:
    question = a_question(cosine=[0.5], coverage=[np.nan], unreached=[1.0], relevant={0: 1})
    _, scores = fused(question, a_setting(vector=0.25, lexical=0.75))
    # (0.25 + 0.75 * 1) * 0.5
    assert scores.tolist() == [0.5]


def test_the_length_factor_divides_the_coverage_and_is_bounded() -> None:
    question = a_question(
        cosine=[0.0] * 3, coverage=[0.4, 0.4, 0.05], length_ratio=[4.0, 0.25, 1e-9], relevant={0: 1}
    )
    # 0.4 / 4^0.5; 0.4 / 0.25^0.5; 0.05 / the floor of 0.3
    assert lexical_scores(question, length_exponent=0.5) == pytest.approx([0.2, 0.8, 0.05 / 0.3])


def test_another_length_exponent_orders_the_lexical_leg_anew() -> None:
    question = a_question(
        cosine=[0.0, 0.0], coverage=[0.4, 0.3], length_ratio=[4.0, 1.0], relevant={1: 1}
    )
    flat, steep = (
        replace(
            a_setting(vector=0.5, lexical=0.5), fusion="rrf", length_exponent=e, lexical_depth=1
        )
        for e in (0.2, 1.0)
    )
    # At 0.2 the first row leads, 0.4 / 4^0.2 = 0.303; at 1 it has 0.1. One row is handed over,
    # and the vector leg hands over both.
    question = replace(question, vector_rank=np.array([0, 0]))
    assert ndcg_matrix([question], [flat, steep])[:, 0].tolist() == [0.0, 1.0]


def test_a_question_whose_answer_is_no_candidate_scores_nothing() -> None:
    question = replace(
        a_question(cosine=[0.4], coverage=[0.4], relevant={}), ideal_gains=np.array([1.0])
    )
    assert ndcg_matrix([question], [DEFAULT]).tolist() == [[0.0]]


def test_settings_tried_together_score_as_one_by_one() -> None:
    tried = random_settings(1, count=300)
    question = random_question(1, rows=200, units=200)
    together = ndcg_matrix([question], tried)[:, 0]
    one_by_one = [ndcg_matrix([question], [one])[0, 0] for one in tried]
    assert together.tolist() == one_by_one


def test_candidates_of_the_pools_are_told_apart() -> None:
    question = random_question(0, rows=5, units=5)
    assert len({c.id for c in as_candidates(question, DEFAULT)} - {UUID(int=0)}) >= 4
