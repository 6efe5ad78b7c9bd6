"""Runs and their figures: kept whole, read back equal, and counted as a reader would count."""

import json
import math
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import PROFILE, a_result, a_run, unanswerable

from lastro import store
from lastro.db.pool import Database
from lastro.errors import InvalidInput
from lastro.figures import (
    Group,
    parse_floors,
    run_entry,
    summarise,
    summary_json,
    unmet,
    values,
)
from lastro.golden_runs import read_run
from lastro.profiles import ADR_0080, KB_RRF
from lastro.runs import Run, changes, run_from_json, run_json

# --- JSON and rows

results = st.builds(
    a_result,
    st.text("abc", min_size=1, max_size=4),
    ranks=st.lists(st.none() | st.integers(1, 100), unique=True, max_size=3).map(tuple),
    hits=st.lists(st.integers(0, 3), max_size=3).map(tuple),
    difficulty=st.none() | st.just("hard"),
    derived=st.booleans(),
    degraded=st.sampled_from([(), ("vectors_missing",)]),
)


@given(st.lists(results, max_size=4), st.sampled_from([PROFILE, ADR_0080, KB_RRF]))
def test_a_run_comes_back_from_json_as_it_was(asked: list, profile) -> None:
    run = a_run(*asked, profile=profile, number=3)
    assert run_from_json(json.loads(json.dumps(run_json(run)))) == run


def test_the_figures_in_the_json_do_not_hinder_reading_the_run_back() -> None:
    run = a_run(a_result("a"), unanswerable("b"))
    assert run_from_json(json.loads(json.dumps(summary_json(run, summarise(run))))) == run


@pytest.mark.parametrize("body", [[], {}, {"project": "p"}, None, "run", {"results": [{}]}])
def test_what_is_no_run_is_refused_with_what_to_give(body: object) -> None:
    with pytest.raises(InvalidInput, match="no run of a golden set") as caught:
        run_from_json(body)
    assert "--format json" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("results", 0, "tookMs"), "soon"),
        (("results", 0, "answers", 0, "rank"), 0),
        (("results", 0, "answers", 0, "rank"), 10**12),
        (("results", 0, "answers", 0, "grade"), "good"),
        (("results", 0, "hits", 0, "score"), None),
        (("curve", 0, "hits"), "<b>"),
        (("seed",), -1),
    ],
)
def test_a_run_whose_numbers_are_none_is_refused(path: tuple[str | int, ...], value) -> None:
    body = json.loads(json.dumps(run_json(a_run(a_result("a"), a_result("b")))))
    at = body
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(InvalidInput, match=r"no run of a golden set|seed"):
        run_from_json(body)


@pytest.mark.parametrize("ids", ["", "aa"])
def test_a_file_without_results_or_with_a_question_twice_is_no_run(ids: str, tmp_path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({**run_json(a_run()), "results": [
        run_json(a_run(a_result(id_)))["results"][0] for id_ in ids
    ]}))  # fmt: skip
    with pytest.raises(InvalidInput, match="each of another question"):
        read_run(file)


def test_runs_are_numbered_within_their_project_and_kept_whole(app_database: Database) -> None:
    with app_database.transaction() as connection:
        ids = [store.ensure_project(connection, slug).id for slug in ("one", "two")]
    first, second = a_run(a_result("a", ranks=(None,))), a_run(unanswerable("b"))
    for project_id in ids:
        with app_database.transaction(projects=[project_id]) as connection:
            numbers = [
                store.insert_run(connection, run, project_id=project_id) for run in (first, second)
            ]
            assert numbers == [1, 2]
            assert store.find_run(connection, 2, project_id=project_id) == replace(second, number=2)
            assert store.find_run(connection, 3, project_id=project_id) is None
            assert [
                r.number for r in store.list_runs(connection, project_id=project_id, limit=9)
            ] == [2, 1]


def test_the_last_run_is_that_of_the_set_and_the_profiles_name(app_database: Database) -> None:
    with app_database.transaction() as connection:
        project_id = store.ensure_project(connection, "one").id
    with app_database.transaction(projects=[project_id]) as connection:
        for name in ("default", "default", "kb-rrf"):
            store.insert_run(connection, a_run(profile_name=name), project_id=project_id)

        def last(golden: str, profile: str) -> int | None:
            found = store.last_run(
                connection, project_id=project_id, golden_name=golden, profile_name=profile
            )
            return None if found is None else found.number

        assert (last("pilots", "default"), last("pilots", "kb-rrf")) == (2, 3)
        assert (last("cranes", "default"), last("pilots", "mine")) == (None, None)


# --- figures


def group(run: Run, by: str, name: str) -> Group:
    (found,) = (g for g in summarise(run).groups if (g.by, g.name) == (by, name))
    return found


def test_ranking_measures_are_means_over_the_questions_that_have_an_answer() -> None:
    run = a_run(
        a_result("a", ranks=(2,)), a_result("b", ranks=(None, 11)), unanswerable("c", hits=(0,))
    )
    found = values(run)
    assert found["ndcg@10"] == pytest.approx((1 / math.log2(3) + 0) / 2)
    assert found["recall@10"] == pytest.approx((1 + 0) / 2)
    assert found["mrr"] == pytest.approx((1 / 2 + 1 / 11) / 2)
    assert found["success@1"] == 0


def test_an_answer_within_another_is_not_missed() -> None:
    found = a_result("a", ranks=(1, None))
    first, second = found.answers
    merged = replace(found, answers=(first, replace(second, merged=True)))
    assert [values(a_run(made))["recall@10"] for made in (found, merged)] == [0.5, 1.0]


def test_citation_precision_counts_every_hit_and_first_precision_every_first() -> None:
    run = a_run(a_result("a", hits=(1, 0, 2)), a_result("b", hits=()), unanswerable("c", hits=(0,)))
    found = values(run)
    assert found["citationPrecision"] == (2 + 0) / (3 + 1)
    assert found["firstPrecision"] == (1 + 0) / 2


def test_abstention_is_counted_apart_for_questions_with_and_without_an_answer() -> None:
    run = a_run(
        a_result("a"),
        a_result("b", hits=()),
        a_result("c", hits=(0,)),
        unanswerable("d", hits=(0,)),
        unanswerable("e"),
    )
    found = values(run)
    assert found["falseRefusals"] == pytest.approx(1 / 3)
    assert found["answered"] == pytest.approx(2 / 3)
    assert (found["falseAnswers"], found["refused"]) == (1 / 2, 1 / 2)


def test_what_nothing_measures_has_no_figure() -> None:
    figures = summarise(a_run(unanswerable("u"))).overall.figures
    assert figures["ndcg@10"].value is None
    assert figures["citationPrecision"].low is None
    assert figures["falseAnswers"].value == 0


def test_questions_of_people_and_drafts_are_figured_apart() -> None:
    run = a_run(a_result("a"), a_result("b", ranks=(None,), derived=True))
    assert group(run, "origin", "human").figures["success@1"].value == 1
    assert group(run, "origin", "derived").figures["success@1"].value == 0


def test_groups_are_those_of_language_scope_and_difficulty() -> None:
    run = a_run(
        a_result("a", scopes=("adr", "docs"), difficulty="hard"),
        a_result("b", language="pt"),
        unanswerable("c", language="pt"),
    )
    counts = {(g.by, g.name): (g.questions, g.unanswerable) for g in summarise(run).groups}
    assert counts == {
        ("origin", "human"): (3, 1),
        ("language", "en"): (1, 0),
        ("language", "pt"): (2, 1),
        # a question with answers in both scopes counts in each
        ("scope", "adr"): (1, 0),
        ("scope", "docs"): (2, 0),
        ("difficulty", "hard"): (1, 0),
    }


def test_few_questions_say_so() -> None:
    many = [a_result(f"q{n}") for n in range(20)]
    assert not summarise(a_run(*many)).overall.figures["ndcg@10"].few
    figures = summarise(a_run(*many[:19], unanswerable("u"))).overall.figures
    assert (figures["ndcg@10"].n, figures["ndcg@10"].few) == (19, True)
    assert figures["falseAnswers"].n == 1


def test_the_same_seed_gives_the_same_intervals() -> None:
    results_ = [a_result(f"q{n}", ranks=(n + 1,)) for n in range(25)]
    run = a_run(*results_)
    assert summarise(run) == summarise(run)
    other = summarise(replace(run, seed=1)).overall.figures["mrr"]
    own = summarise(run).overall.figures["mrr"]
    assert (own.value, own.low) != (other.value, other.low)
    assert own.low is not None
    assert own.high is not None
    assert own.low < (own.value or 0) < own.high


def test_the_complement_turns_its_interval_round() -> None:
    run = a_run(*(a_result(f"q{n}", hits=(1,) if n % 3 else ()) for n in range(30)))
    figures = summarise(run).overall.figures
    answered, refused = figures["answered"], figures["falseRefusals"]
    assert refused.low == pytest.approx(1 - (answered.high or 0))
    assert refused.high == pytest.approx(1 - (answered.low or 0))


def test_degraded_searches_and_answers_that_are_not_indexed_are_counted() -> None:
    lost = a_result("a", ranks=(None,), degraded=("vectors_missing",))
    lost = replace(lost, answers=(replace(lost.answers[0], indexed=False),))
    summary = summarise(a_run(lost, a_result("b", degraded=("vectors_missing",)), a_result("c")))
    assert summary.degraded == {"vectors_missing": 2}
    assert summary.not_indexed == (("a", "docs/a0.md"),)


def test_a_list_gives_a_run_without_its_questions() -> None:
    entry = run_entry(a_run(a_result("a"), number=4))
    assert (entry["number"], entry["questions"], entry["figures"]["ndcg@10"]) == (4, 1, 1)
    assert not {"results", "curve"} & entry.keys()


# --- demands


def test_a_demand_that_is_not_met_is_told_with_both_numbers() -> None:
    summary = summarise(a_run(a_result("a"), a_result("b", ranks=(None,))))
    floors = parse_floors(["success@1=0.6", "mrr=0.5", "recall@10=0.4"], k=10)
    assert unmet(summary, floors) == ["success@1 is 0.5000, below 0.6"]


def test_what_cannot_be_measured_does_not_pass() -> None:
    floors = parse_floors(["refused=0.5"], k=10)
    (said,) = unmet(summarise(a_run(a_result("a"))), floors)
    assert "nothing measures it" in said


@pytest.mark.parametrize(
    "demand", ["ndcg=0.5", "ndcg@10", "mrr=high", "mrr=1.5", "mrr=nan", "recall@5=0.1", ""]
)
def test_a_demand_that_cannot_be_meant_is_refused(demand: str) -> None:
    with pytest.raises(InvalidInput):
        parse_floors([demand], k=10)


# --- what changed between two


def test_a_run_differs_in_nothing_from_itself() -> None:
    assert changes(a_run(), a_run(a_result("a"))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"embedder": "other@2/8"}, "embedder: deterministic@1/8, then other@2/8"),
        ({"version": "0.2.0"}, "Lastro: 0.1.0, then 0.2.0"),
        ({"k": 5}, "k: 10, then 5"),
        ({"profile": replace(PROFILE, version=2, vector_weight=0.4)}, "vectorWeight of default v2"),
        ({"pipeline": "ef" * 16}, "settings of the index"),
    ],
)
def test_what_differs_is_named(change: dict, said: str) -> None:
    (found,) = changes(a_run(), a_run(**change))
    assert said in found


def test_a_source_that_moved_or_was_indexed_again_is_named() -> None:
    run = a_run()
    (source,) = run.corpus.sources

    def told(**change) -> list[str]:
        moved = replace(run.corpus, sources=(replace(source, **change),))
        return changes(run, replace(run, corpus=moved))

    assert told(revision="f" * 40) == [f"source main: revision {'e' * 12}, then {'f' * 12}"]
    assert source.indexed_at is not None
    assert told(indexed_at=source.indexed_at + timedelta(hours=1)) == ["source main: indexed again"]
    assert changes(run, replace(run, corpus=replace(run.corpus, sources=()))) == [
        "source main: gone"
    ]
