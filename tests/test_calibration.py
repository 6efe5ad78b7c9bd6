"""The search over settings: what is tried, what is chosen, and when nothing is recommended."""

from dataclasses import replace

import numpy as np
import pytest
from pools import BASE, a_question, random_question

from lastro.calibration import (
    Space,
    Trials,
    choose,
    distances,
    folds,
    recommend,
    settings_of,
    share_of,
    space_of,
    trials,
)
from lastro.profiles import KB_RRF, Profile
from lastro.replay import CachedQuestion, ndcg_matrix

SHARES = tuple(step / 10 for step in range(11))


def small_space(base: Profile = BASE, **values) -> Space:
    """The base's own values, and those named."""
    own = {
        "fusion": (base.fusion,),
        "vector_share": (share_of(base),),
        "cosine": (base.cosine,),
        "length_exponent": (base.length_exponent,),
        "rrf_k": (base.rrf_k,),
        "vector_depth": (base.vector_depth,),
        "lexical_depth": (base.lexical_depth,),
        "rule_weight": (base.rule_weight,),
        "freshness_weight": (base.freshness_weight,),
        "half_life_days": (base.half_life_days,),
    }
    return Space(**{**own, **values})


def known_optimum(
    seed: int, *, vector: float, count: int = 150, noise: float = 0.06
) -> list[CachedQuestion]:
    """Questions whose answer has the best ``vector * cosine + (1 - vector) * coverage``.

    The more a leg weighs, the better it tells; noise hides the answer a little.
    """
    random = np.random.default_rng(seed)
    made: list[CachedQuestion] = []
    for number in range(count):
        cosine, coverage = random.uniform(0, 1, (2, 60))
        truth = vector * cosine + (1 - vector) * coverage + random.normal(0, noise, 60)
        made.append(
            a_question(
                cosine=cosine.tolist(),
                coverage=coverage.tolist(),
                relevant={int(truth.argmax()): 1},
                group="even" if number % 2 else "odd",
                id_=str(number),
            )
        )
    return made


def tried(questions: list[CachedQuestion], space: Space, base: Profile = BASE) -> Trials:
    settings = settings_of(space, base, count=500, seed=0)
    return trials(settings, ndcg_matrix(questions, settings), questions, space=space)


def by_hand(matrix: list[list[float]], distance: list[float]) -> Trials:
    """Trials with the figures written out."""
    settings = [replace(BASE, version=number + 1) for number in range(len(matrix))]
    count = len(matrix[0])
    return Trials(
        settings=settings,
        matrix=np.array(matrix, dtype=np.float32),
        importance=np.full(count, 1 / count),
        groups=["en"] * count,
        changed=np.array([int(far > 0) for far in distance]),
        distance=np.array(distance),
    )


# --- what is tried


def test_the_base_is_the_first_setting_of_every_search() -> None:
    space = space_of([random_question(1, rows=20, units=20)], BASE)
    for count in (1, 50, 2_000):
        assert settings_of(space, BASE, count=count, seed=3)[0] == BASE


def test_a_small_space_is_tried_whole() -> None:
    space = small_space(vector_share=(0.0, 0.3, 1.0), length_exponent=(0.1, 0.2))
    made = settings_of(space, BASE, count=100, seed=0)
    assert {(share_of(s), s.length_exponent) for s in made} == {
        (share, exponent) for share in (0.0, 0.3, 1.0) for exponent in (0.1, 0.2)
    }
    assert len(made) == 6


def test_a_large_space_is_drawn_without_repeats_and_the_same_for_a_seed() -> None:
    space = space_of([random_question(1, rows=20, units=20)], BASE)
    made = settings_of(space, BASE, count=3_000, seed=5)
    assert len(set(made)) == len(made) == 3_000
    assert made == settings_of(space, BASE, count=3_000, seed=5)
    assert made != settings_of(space, BASE, count=3_000, seed=6)


def test_every_change_of_one_number_is_tried() -> None:
    space = space_of([random_question(1, rows=20, units=20)], BASE)
    made = settings_of(space, BASE, count=1_000, seed=0)
    changed, _ = distances(made, space, BASE)
    single = [s for s, count in zip(made, changed, strict=True) if count == 1]
    assert {s.vector_depth for s in single} == {25, 50, 100}
    assert {s.cosine for s in single} == {"raw", "scaled"}
    assert len({round(share_of(s), 6) for s in single}) == 51


def test_a_number_that_no_row_has_a_part_in_stays() -> None:
    plain = a_question(cosine=[0.1, 0.2], coverage=[0.1, 0.2], relevant={0: 1})
    space = space_of([replace(plain, scale=None)], KB_RRF)
    assert space.rule_weight == (KB_RRF.rule_weight,)
    assert space.freshness_weight == (KB_RRF.freshness_weight,)
    assert space.length_exponent == (KB_RRF.length_exponent,)
    assert space.cosine == (KB_RRF.cosine,)


def test_the_sum_of_both_weights_stays_the_bases() -> None:
    made = settings_of(
        small_space(KB_RRF, vector_share=(0.0, 0.5, share_of(KB_RRF), 1.0)), KB_RRF, count=9, seed=0
    )
    sums = [s.vector_weight + s.lexical_weight for s in made]
    assert sums == pytest.approx([0.65] * 4)


def test_settings_that_differ_in_what_nothing_reads_are_one() -> None:
    space = small_space(
        rrf_k=(10.0, 60.0), fusion=("rrf", "weighted"), half_life_days=(30.0, 180.0)
    )
    made = settings_of(space, BASE, count=100, seed=0)
    assert {(s.fusion, s.rrf_k) for s in made} == {("weighted", 60), ("rrf", 10), ("rrf", 60)}
    assert len(made) == 3


def test_distance_counts_the_numbers_that_differ_and_how_far() -> None:
    space = small_space(vector_share=(0.1, 0.3, 0.5), vector_depth=(50, 100))
    other = replace(BASE, vector_weight=0.5, lexical_weight=0.5, vector_depth=50)
    changed, distance = distances([BASE, other], space, BASE)
    assert changed.tolist() == [0, 2]
    # half of the way over three shares, and the whole way over two depths
    assert distance.tolist() == [0, 0.5 + 1]


# --- choosing


def test_the_nearest_to_the_base_of_equals_is_taken() -> None:
    made = by_hand([[0.1, 0.2], [0.5, 0.6], [0.5, 0.6], [0.4, 0.5]], distance=[0, 0.8, 0.3, 0.1])
    # The fourth is 0.1 worse on both questions, with no error at all.
    assert choose(made, np.arange(2), freedom=9) == 2


def test_what_lies_within_one_standard_error_of_the_best_counts_as_equal() -> None:
    # Behind the best by 0.2, 0, 0, 0: mean 0.05, standard error sqrt(4 * (1/16) * 0.0075) = 0.043.
    # Behind by 0.2, -0.1, 0, 0: mean 0.025, standard error 0.0545.
    best, far, near = [0.5] * 4, [0.3, 0.5, 0.5, 0.5], [0.3, 0.6, 0.5, 0.5]
    made = by_hand([[0.0] * 4, best, far, near], distance=[0, 0.9, 0.1, 0.2])
    assert choose(made, np.arange(4), freedom=9) == 3


def test_no_more_numbers_move_than_may() -> None:
    made = by_hand([[0.1, 0.2], [0.9, 0.9]], distance=[0, 0.5])
    assert choose(made, np.arange(2), freedom=0) == 0


@pytest.mark.parametrize("vector", [0.2, 0.5, 0.8])
def test_a_known_optimum_is_recovered(vector: float) -> None:
    base = replace(BASE, vector_weight=0.0, lexical_weight=1.0)
    questions = known_optimum(7, vector=vector)
    choice = recommend(tried(questions, small_space(base, vector_share=SHARES), base))
    assert choice.recommended
    assert share_of(choice.setting) == pytest.approx(vector, abs=0.11)
    assert choice.interval.low < choice.gain < choice.interval.high
    assert choice.gain == pytest.approx(choice.held_out - choice.base)


def test_a_known_optimum_in_two_numbers_is_recovered() -> None:
    random = np.random.default_rng(2)
    questions = [
        replace(q, length_ratio=random.uniform(0.4, 3, 60))
        for q in known_optimum(3, vector=0.5, count=200, noise=0.01)
    ]
    # What is told is the coverage divided by the length to 0.3.
    questions = [replace(q, coverage=q.coverage * q.length_ratio**0.3) for q in questions]
    base = replace(BASE, vector_weight=0.1, lexical_weight=0.9, length_exponent=0.0)
    space = small_space(base, vector_share=SHARES, length_exponent=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5))
    choice = recommend(tried(questions, space, base))
    assert choice.recommended
    assert choice.changed == 2
    assert share_of(choice.setting) == pytest.approx(0.5, abs=0.11)
    assert choice.setting.length_exponent == pytest.approx(0.3, abs=0.11)


def test_nothing_is_recommended_where_the_base_is_the_optimum() -> None:
    base = replace(BASE, vector_weight=0.5, lexical_weight=0.5)
    questions = known_optimum(1, vector=0.5)
    choice = recommend(tried(questions, small_space(base, vector_share=SHARES), base))
    assert not choice.recommended
    assert choice.refusal is not None


def test_nothing_is_recommended_on_noise_however_many_settings_are_tried() -> None:
    random = np.random.default_rng(4)
    refused = 0
    for _ in range(10):
        matrix = random.random((400, 60)).tolist()
        made = by_hand(matrix, distance=[0.0, *random.random(399).tolist()])
        refused += not recommend(made).recommended
    # An interval of 95% lies above zero by chance once in forty.
    assert refused >= 9


def test_a_handful_of_questions_recommends_nothing() -> None:
    made = by_hand([[0.0] * 10, [1.0] * 10], distance=[0, 1])
    choice = recommend(made)
    assert (choice.gain, choice.recommended) == (1.0, False)
    assert "10 questions are too few" in (choice.refusal or "")


def test_the_gain_is_measured_on_questions_that_had_no_part_in_choosing() -> None:
    # Each setting wins on its own question alone: what is chosen on the others never helps.
    n = 25
    matrix = np.vstack([np.zeros(n), np.eye(n)]).tolist()
    choice = recommend(by_hand(matrix, distance=[0.0, *[0.5] * n]))
    assert choice.gain == 0


# --- folds


def test_folds_hold_every_question_out_once_and_share_every_group() -> None:
    made = tried(known_optimum(1, vector=0.5, count=50), small_space())
    pairs = folds(made, np.arange(50), by_group=False, seed=1)
    assert sorted(np.concatenate([held for _, held in pairs]).tolist()) == list(range(50))
    assert all(set(rest) & set(held) == set() for rest, held in pairs)
    assert {made.groups[at] for at in pairs[0][1]} == {"even", "odd"}


def test_whole_groups_are_left_out_where_there_are_three() -> None:
    questions = [
        replace(random_question(seed, rows=20, units=20), group=f"set{seed % 3}")
        for seed in range(9)
    ]
    made = tried(questions, small_space())
    held = [
        {made.groups[at] for at in out}
        for _, out in folds(made, np.arange(9), by_group=True, seed=0)
    ]
    assert held == [{"set0"}, {"set1"}, {"set2"}]


def test_balanced_groups_count_alike_whatever_their_size() -> None:
    questions = [
        random_question(n, rows=9, units=9, group="few" if n < 2 else "many") for n in range(10)
    ]
    space = small_space()
    settings = settings_of(space, BASE, count=5, seed=0)
    made = trials(settings, ndcg_matrix(questions, settings), questions, space=space, balance=True)
    assert made.importance[:2].sum() == pytest.approx(0.5)
    assert made.importance[2:].sum() == pytest.approx(0.5)
