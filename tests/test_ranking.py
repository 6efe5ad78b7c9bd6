"""Fusion, evidence, order and profiles: arithmetic that can be checked by eye."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.errors import ConfigError
from lastro.profiles import (
    ADR_0080,
    DEFAULT,
    KB_RRF,
    RAW_THRESHOLDS,
    Profile,
    Thresholds,
    load_profiles,
    profile_from_json,
    profile_json,
    shipped_profiles,
    unscaled,
)
from lastro.ranking import (
    Candidate,
    Ranked,
    VectorScale,
    evidence,
    freshness,
    fuse,
    has_evidence,
    one_per_place,
    reciprocal_rank,
)

BOTH = ("vector", "lexical")
PROFILE = replace(
    DEFAULT,
    vector_weight=0.4,
    lexical_weight=0.6,
    threshold=Thresholds(both=0.2, vector_only=0.25, lexical_only=0.3),
)


def row(
    number: int,
    *,
    vector: float | None = None,
    lexical: float | None = None,
    place: str | None = None,
    document: int | None = None,
    chars: tuple[int, int] = (0, 10),
    ordinal: int = 0,
    unreached: float = 0.0,
) -> Candidate:
    return Candidate(
        id=UUID(int=number),
        document_id=UUID(int=number if document is None else document),
        place=place or f"docs/{number:03}.md",
        ordinal=ordinal,
        char_start=chars[0],
        char_end=chars[1],
        vector_score=vector,
        lexical_score=lexical,
        unreached=unreached,
    )


def scores(ranked: list[Ranked]) -> dict[int, float]:
    return {item.candidate.id.int: item.score for item in ranked}


def test_the_score_is_the_weighted_sum_of_both_signals() -> None:
    # 0.4 · 0.5 + 0.6 · 0.25 = 0.35
    ranked = fuse([row(1, vector=0.5, lexical=0.25)], PROFILE, legs=BOTH)
    assert scores(ranked) == {1: pytest.approx(0.35)}


def test_a_missing_signal_adds_nothing() -> None:
    # 0.4 · 0.5 and 0.6 · 0.5
    ranked = fuse([row(1, vector=0.5), row(2, lexical=0.5)], PROFILE, legs=BOTH)
    assert scores(ranked) == {1: pytest.approx(0.2), 2: pytest.approx(0.3)}


def test_with_one_leg_absent_the_other_carries_the_whole_weight() -> None:
    assert scores(fuse([row(1, lexical=0.5)], PROFILE, legs=["lexical"])) == {1: 0.5}
    assert scores(fuse([row(1, vector=0.5)], PROFILE, legs=["vector"])) == {1: 0.5}


def test_words_that_a_language_cannot_hold_give_their_weight_to_the_vector() -> None:
    # the words say nothing in the first row's language: (0.4 + 0.6 · 1) · 0.5 = 0.5;
    # half of them in the second's: (0.4 + 0.6 · 0.5) · 0.5 + 0.6 · 0.2 = 0.47
    rows = [row(1, vector=0.5, unreached=1.0), row(2, vector=0.5, lexical=0.2, unreached=0.5)]
    ranked = fuse(rows, PROFILE, legs=BOTH)
    assert scores(ranked) == {1: pytest.approx(0.5), 2: pytest.approx(0.47)}


def test_a_row_just_below_the_cut_in_both_lists_beats_the_heads_of_either() -> None:
    heads = [row(n, vector=0.5) for n in range(1, 11)]
    heads += [row(n, lexical=0.4) for n in range(11, 21)]
    # 0.4 · 0.45 + 0.6 · 0.35 = 0.39, above 0.4 · 0.5 = 0.2 and 0.6 · 0.4 = 0.24
    ranked = fuse([*heads, row(99, vector=0.45, lexical=0.35)], PROFILE, legs=BOTH)
    assert ranked[0].candidate.id.int == 99
    assert ranked[0].score == pytest.approx(0.39)


def test_ties_break_by_place_then_ordinal() -> None:
    tied = [
        row(1, vector=0.5, place="docs/b.md", ordinal=0),
        row(2, vector=0.5, place="docs/a.md", ordinal=1),
        row(3, vector=0.5, place="docs/a.md", ordinal=0),
    ]
    ranked = fuse(tied, PROFILE, legs=BOTH)
    assert [item.candidate.id.int for item in ranked] == [3, 2, 1]


candidates = st.lists(
    st.builds(
        row,
        st.integers(1, 10_000),
        vector=st.none() | st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0]),
        lexical=st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        document=st.integers(1, 5),
        ordinal=st.integers(0, 3),
    ),
    unique_by=lambda c: c.id,
    max_size=30,
)


@given(candidates, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_candidates(rows, random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert fuse(rows, PROFILE, legs=BOTH) == fuse(shuffled, PROFILE, legs=BOTH)


def shown(candidate: Candidate, *, legs: tuple[str, ...] = BOTH) -> bool:
    [item] = fuse([candidate], PROFILE, legs=legs)
    return has_evidence(item, PROFILE, legs=legs)


@pytest.mark.parametrize(
    ("vector", "lexical", "passes"),
    [
        (0.40, 0.00, True),  # 0.5 · 0.40 = 0.20
        (0.39, None, False),
        (0.20, 0.20, True),  # 0.5 · 0.20 + 0.5 · 0.20 = 0.20
        (0.20, 0.19, False),
        (None, 0.30, True),  # words alone: 0.30 reaches 0.30
        (None, 0.29, False),
        (-0.20, 0.30, True),  # a cosine below nothing takes nothing from the words
    ],
)
def test_meaning_and_words_count_half_each_and_words_may_pass_alone(
    vector, lexical, passes
) -> None:
    assert shown(row(1, vector=vector, lexical=lexical)) is passes


def test_words_of_little_mass_say_little() -> None:
    # 0.5 · 0.1 + 0.5 · 0.9 · 0.3 = 0.185, and 0.9 · 0.3 = 0.27 alone
    assert not shown(row(1, vector=0.1, lexical=0.9)._replace(mass=0.3))
    # 0.5 · 0.1 + 0.5 · 0.9 · 0.4 = 0.23
    assert shown(row(1, vector=0.1, lexical=0.9)._replace(mass=0.4))


@pytest.mark.parametrize(("vector", "passes"), [(0.25, True), (0.24, False)])
def test_where_no_word_is_known_the_cosine_must_reach_its_own_number(vector, passes) -> None:
    # (0.5 + 0.5 · 1) · 0.25 = 0.25 against 0.2 + 1 · (0.25 - 0.2)
    assert shown(row(1, vector=vector)._replace(unseen=1.0)) is passes
    assert shown(row(1, vector=vector), legs=("vector",)) is passes


def test_words_half_unknown_give_half_of_their_half_to_the_cosine() -> None:
    # 0.75 · 0.24 + 0.5 · 0.09 = 0.225 against 0.2 + 0.5 · 0.05 = 0.225
    said = evidence(
        row(1, vector=0.24, lexical=0.09)._replace(unseen=0.5),
        Thresholds(both=0.2, vector_only=0.25, lexical_only=0.3),
        PROFILE,
        legs=BOTH,
    )
    assert (said.joint, said.bar) == (pytest.approx(0.225), pytest.approx(0.225))


shares = st.floats(0, 1)


@given(st.floats(-1, 1), shares, shares, shares, shares)
def test_more_words_matched_never_take_a_hit_away(vector, lexical, more, mass, unseen) -> None:
    def passes(words: float | None) -> bool:
        return shown(row(1, vector=vector, lexical=words)._replace(mass=mass, unseen=unseen))

    assert passes(max(lexical, more)) >= passes(lexical) >= passes(None)


@given(st.none() | shares, st.floats(-1, 1), st.floats(-1, 1), shares, shares)
def test_a_nearer_meaning_never_takes_a_hit_away(lexical, vector, nearer, mass, unseen) -> None:
    def passes(cosine: float) -> bool:
        return shown(row(1, vector=cosine, lexical=lexical)._replace(mass=mass, unseen=unseen))

    assert passes(max(vector, nearer)) >= passes(vector)


@pytest.mark.parametrize(
    ("vector", "lexical", "shown"), [(0.5, None, True), (0.3, 0.0, False), (0.0, 0.5, True)]
)
def test_the_one_number_of_adr_0080_is_on_the_sum(vector, lexical, shown) -> None:
    # 0.6 · 0.5 = 0.30 and 0.6 · 0.3 = 0.18 and 0.4 · 0.5 = 0.20 against 0.2
    [item] = fuse([row(1, vector=vector, lexical=lexical)], ADR_0080, legs=BOTH)
    assert has_evidence(item, ADR_0080, legs=BOTH) is shown


def test_an_outage_does_not_make_adr_0080_answer_nothing() -> None:
    [item] = fuse([row(1, lexical=0.05)], ADR_0080, legs=["lexical"])
    assert has_evidence(item, ADR_0080, legs=["lexical"])


def test_overlapping_chunks_of_a_document_are_one_hit() -> None:
    ranked = fuse(
        [
            row(1, vector=0.9, document=7, chars=(0, 100)),
            row(2, vector=0.8, document=7, chars=(90, 200)),
            row(3, vector=0.7, document=7, chars=(200, 300)),
            row(4, vector=0.6, document=8, chars=(90, 200)),
        ],
        PROFILE,
        legs=BOTH,
    )
    kept = one_per_place(ranked, max_per_document=3)
    assert [item.candidate.id.int for item in kept] == [1, 3, 4]


def test_a_document_gives_at_most_its_share_of_hits() -> None:
    rows = [row(n, vector=0.5, document=7, chars=(n * 10, n * 10 + 5)) for n in range(1, 6)]
    assert len(list(one_per_place(fuse(rows, PROFILE, legs=BOTH), max_per_document=3))) == 3


def test_adr_0080_keeps_the_numbers_of_its_record() -> None:
    assert (ADR_0080.vector_weight, ADR_0080.lexical_weight, ADR_0080.threshold) == (0.6, 0.4, 0.2)
    assert ADR_0080.calibrated is False


def test_settings_define_profiles_beside_the_shipped_ones() -> None:
    profiles = load_profiles(
        {"words": {"base": "default", "vector_weight": 0, "threshold": 0.1}}, embedder="use-m3"
    )
    words: Profile = profiles["words"]
    assert set(profiles) == {"default", "adr-0080", "kb-rrf", "words"}
    assert (words.vector_weight, words.lexical_weight, words.threshold) == (
        0.0,
        shipped_profiles("use-m3")["default"].lexical_weight,
        0.1,
    )
    assert words.calibrated is False


@pytest.mark.parametrize(
    "table",
    [
        {"weight": 0.3},
        {"base": "bm25"},
        {"vector_weight": 1.5},
        {"vector_weight": True},
        {"vector_weight": 0, "lexical_weight": 0},
        {"threshold": 5},
        {"threshold": {"both": 0.2}},
        {"threshold": {"both": 0.2, "vector_only": 2, "lexical_only": 0.2}},
        {"version": 0},
    ],
)
def test_a_profile_with_an_impossible_number_is_refused(table) -> None:
    with pytest.raises(ConfigError, match="mine"):
        load_profiles({"mine": table}, embedder="use-m3")


def test_the_default_of_an_embedder_with_numbers_of_its_own_names_it() -> None:
    assert shipped_profiles("use-m3")["default"].embedder == "use-m3"
    assert shipped_profiles("another")["default"] == DEFAULT


def test_where_nobody_looked_at_the_vectors_the_cosines_and_their_bars_are_raw() -> None:
    plain = unscaled(DEFAULT)
    assert (plain.cosine, plain.threshold) == ("raw", RAW_THRESHOLDS)
    own = Thresholds(both=0.3, vector_only=0.3, lexical_only=0.3)
    assert unscaled(replace(DEFAULT, threshold=own)).threshold == own


def test_a_shipped_profile_cannot_be_redefined() -> None:
    with pytest.raises(ConfigError, match="default"):
        load_profiles({"default": {"vector_weight": 0.1}}, embedder="use-m3")


# --- parts of the sum

SCALE = VectorScale(mean=0.2, spread=0.1)
SCALED = replace(PROFILE, cosine="scaled")


def test_a_scaled_cosine_counts_spreads_above_the_mean_of_random_pairs() -> None:
    # (0.5 - 0.2) / (6 · 0.1) = 0.5; 0.4 · 0.5 + 0.6 · 0.25 = 0.35
    ranked = fuse([row(1, vector=0.5, lexical=0.25)], SCALED, legs=BOTH, scale=SCALE)
    assert scores(ranked) == {1: pytest.approx(0.35)}


def test_a_scaled_cosine_ends_three_spreads_below_chance_and_six_above() -> None:
    # (0.14 - 0.2) / 0.6 = -0.1 is told from -0.5, where four spreads below end; 0.9 is seven above
    rows = [row(1, vector=0.14), row(2, vector=-0.2), row(3, vector=0.9)]
    ranked = fuse(rows, SCALED, legs=BOTH, scale=SCALE)
    assert scores(ranked) == pytest.approx({1: 0.4 * -0.1, 2: 0.4 * -0.5, 3: 0.4})


def test_a_row_without_a_vector_stands_at_the_floor_of_a_scale() -> None:
    # 0.4 · -0.5 + 0.6 · 0.5; on no scale it adds nothing
    for scale, score in [(SCALE, 0.1), (None, 0.3)]:
        ranked = fuse([row(1, lexical=0.5)], SCALED, legs=BOTH, scale=scale)
        assert scores(ranked) == {1: pytest.approx(score)}


def test_a_corpus_without_a_scale_keeps_its_cosines() -> None:
    assert scores(fuse([row(1, vector=0.5)], SCALED, legs=BOTH)) == {1: pytest.approx(0.2)}


def test_evidence_reads_the_cosine_as_it_is_fused() -> None:
    # 0.5 · (0.44 - 0.2) / 0.6 = 0.2 reaches 0.2; 0.5 · (0.38 - 0.2) / 0.6 = 0.15 does not
    for cosine, passes in [(0.4401, True), (0.38, False)]:
        [item] = fuse([row(1, vector=cosine)], SCALED, legs=BOTH, scale=SCALE)
        assert has_evidence(item, SCALED, legs=BOTH, scale=SCALE) is passes


@pytest.mark.parametrize(("rank", "part"), [(1, 1.0), (2, 61 / 62), (61, 61 / 121), (None, 0.0)])
def test_a_rank_gives_its_reciprocal_over_the_best_possible_one(rank, part) -> None:
    assert reciprocal_rank(rank, k=60) == pytest.approx(part)


@pytest.mark.parametrize(
    ("age_days", "part"), [(0.0, 1.0), (180.0, 0.5), (360.0, 0.25), (-5.0, 1.0), (None, 0.5)]
)
def test_freshness_halves_with_every_half_life(age_days, part) -> None:
    assert freshness(age_days, half_life_days=180.0) == pytest.approx(part)


def test_kb_rrf_sums_ranks_rule_and_freshness() -> None:
    first = row(1)._replace(vector_rank=1, lexical_rank=2, rule=0.5, age_days=180.0)
    second = row(2)._replace(vector_rank=2, rule=3.0)
    ranked = fuse([first, second], KB_RRF, legs=BOTH)
    assert scores(ranked) == {
        # 0.45 · 1 + 0.20 · 61/62 + 0.25 · 0.5 + 0.10 · 0.5
        1: pytest.approx(0.45 + 0.2 * 61 / 62 + 0.125 + 0.05),
        # 0.45 · 61/62 + 0.25 · 1 + 0.10 · 0.5: the words did not find it, the rule is clipped to 1
        2: pytest.approx(0.45 * 61 / 62 + 0.25 + 0.05),
    }


def test_in_kb_rrf_an_absent_leg_leaves_its_weight_to_the_other() -> None:
    # 0.65 · 1 + 0.10 · 0.5
    ranked = fuse([row(1)._replace(lexical_rank=1)], KB_RRF, legs=["lexical"])
    assert scores(ranked) == {1: pytest.approx(0.70)}


@pytest.mark.parametrize("profile", [DEFAULT, ADR_0080, KB_RRF])
def test_a_profile_survives_being_stored(profile: Profile) -> None:
    assert profile_from_json(profile_json(profile)) == profile


def test_a_vector_without_weight_gets_none_from_words_beyond_a_language() -> None:
    words = replace(PROFILE, vector_weight=0.0, lexical_weight=1.0)
    ranked = fuse([row(1, vector=0.9, lexical=0.2, unreached=1.0)], words, legs=BOTH)
    assert scores(ranked) == {1: pytest.approx(0.2)}


def test_a_vector_without_weight_is_no_evidence() -> None:
    words = replace(PROFILE, vector_weight=0.0, lexical_weight=1.0)
    for lexical, passes in [(0.1, False), (0.3, True)]:
        [item] = fuse([row(1, vector=0.9, lexical=lexical)], words, legs=BOTH)
        assert has_evidence(item, words, legs=BOTH) is passes
