"""How far vectors can be trusted on a corpus: sentences, agreement and the share that follows."""

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest

from lastro.profiles import DEFAULT
from lastro.trust import LEAST_QUESTIONS, agreement, sentence_of, trust, trusted

LONG = "A crane lifts forty containers an hour when the wind is low."


def test_a_sentence_is_prose_of_a_middle_length() -> None:
    content = f"# Cranes\n\nShort.\n\n{LONG} {'word ' * 60}.\n\n{'| 12 ' * 12}|\n"
    assert sentence_of(content, id_=UUID(int=7)) == LONG


def test_a_chinese_sentence_may_be_shorter() -> None:
    assert (
        sentence_of("起重机每小时吊四十个集装箱。", id_=UUID(int=1))
        == "起重机每小时吊四十个集装箱。"
    )


def test_a_passage_without_prose_is_not_asked() -> None:
    assert sentence_of("# Cranes\n\n`x = 1`\n", id_=UUID(int=1)) is None


def test_agreement_counts_spreads_above_the_mean() -> None:
    # mean 0.2, spread 0.1; (0.4 - 0.2) / 0.1
    pool = np.array([0.1, 0.3], dtype=np.float32)
    assert agreement([0.35, 0.45], pool) == pytest.approx(2.0)


def test_cosines_that_are_all_alike_say_nothing() -> None:
    assert agreement([0.3], np.full(5, 0.3, dtype=np.float32)) is None


@pytest.mark.parametrize(
    ("mean", "share"), [(0.0, 0.0), (0.5, 0.0), (0.75, 0.5), (1.0, 1.0), (2.0, 1.0)]
)
def test_trust_rises_from_noise_to_home(mean, share) -> None:
    assert trust([mean] * LEAST_QUESTIONS, row_count=200, lexical_mrr=1.0) == pytest.approx(share)


def test_a_hundred_rows_agree_less_by_themselves() -> None:
    # both bounds times 0.57 + 0.215 = 0.785
    assert trust([0.75 * 0.785] * LEAST_QUESTIONS, row_count=100, lexical_mrr=1.0) == pytest.approx(
        0.5
    )


def test_a_measure_of_few_rows_counts_in_part() -> None:
    # 1 + 25 / 50 · (0 - 1)
    assert trust([0.0] * LEAST_QUESTIONS, row_count=25, lexical_mrr=1.0) == pytest.approx(0.5)


@pytest.mark.parametrize(("questions", "rows"), [(15, 200), (16, 19), (0, 0)])
def test_too_little_to_ask_says_nothing(questions, rows) -> None:
    assert trust([0.0] * questions, row_count=rows, lexical_mrr=1.0) is None


@pytest.mark.parametrize(("lexical_mrr", "told"), [(0.49, None), (0.5, 0.5)])
def test_words_that_do_not_find_their_own_passage_say_nothing(lexical_mrr, told) -> None:
    agreements = [0.75] * LEAST_QUESTIONS
    assert trust(agreements, row_count=200, lexical_mrr=lexical_mrr) == told


def test_the_words_get_the_weight_that_the_vector_does_not_deserve() -> None:
    profile = trusted(replace(DEFAULT, vector_weight=0.3, lexical_weight=0.7), 0.5, provenance="p")
    assert (profile.vector_weight, profile.lexical_weight) == pytest.approx((0.15, 0.85))
    assert (profile.calibrated, profile.provenance) == ("self", "p")
