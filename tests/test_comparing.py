"""Two runs compared: paired by question, with differences to check, and the worst first."""

import json

import pytest
from made_runs import a_result, a_run, unanswerable

from lastro.comparing import Comparison, Difference, compare, comparison_json
from lastro.errors import InvalidInput
from lastro.reports.wording import moved_text, verdict
from lastro.runs import Run

NAMES = ("before", "after")


def difference(comparison: Comparison, measure: str) -> Difference:
    (found,) = (d for d in comparison.differences if d.measure == measure)
    return found


def many(rank: int | None, *, count: int = 12, hits: tuple[int, ...] = (1,)) -> Run:
    return a_run(*(a_result(f"q{n}", ranks=(rank,), hits=hits) for n in range(count)))


def test_equal_runs_differ_in_nothing() -> None:
    found = compare(many(1), many(1), names=NAMES)
    assert (found.worse, found.better, found.got_worse) == ((), (), False)
    assert {d.difference for d in found.differences if d.n} == {0}
    assert difference(found, "mrr").p == 1


def test_a_seed_below_zero_is_refused() -> None:
    with pytest.raises(InvalidInput, match="seed is -1"):
        compare(many(1), many(2), names=NAMES, seed=-1)


def test_a_measure_that_one_run_does_not_have_is_not_called_the_same() -> None:
    shown, silent = many(1), many(1, hits=())
    found = difference(compare(shown, silent, names=NAMES), "citationPrecision")
    assert (found.before, found.after, verdict(found)) == (1, None, "not in both")


def test_a_question_that_is_not_asked_any_more_was_neither_refused_nor_answered() -> None:
    before = a_run(a_result("a"), a_result("b"), unanswerable("u"))
    found = compare(before, a_run(a_result("a")), names=NAMES)
    assert {moved.id: moved_text(moved) for moved in found.worse} == {
        "b": "nDCG@10 1.000 to –; no longer counted",
        "u": "no longer counted",
    }


def test_a_difference_is_after_minus_before_with_its_p() -> None:
    found = difference(compare(many(1), many(2), names=NAMES), "mrr")
    assert (found.before, found.after, found.difference) == (1, 0.5, -0.5)
    assert (found.low, found.high) == (-0.5, -0.5)
    # every question fell: 2 of 2^12 swaps are as extreme
    assert found.p == 2 / 2**12


def test_what_fell_for_sure_is_worse_and_what_rose_is_better() -> None:
    fell, rose = (compare(a, b, names=NAMES) for a, b in ((many(1), many(9)), (many(9), many(1))))
    assert fell.got_worse
    assert difference(fell, "ndcg@10").is_worse
    assert not rose.got_worse
    assert difference(rose, "ndcg@10").is_better


def test_one_question_of_many_that_fell_could_be_chance() -> None:
    after = a_run(*many(1).results[1:], a_result("q0", ranks=(9,)))
    found = compare(many(1), after, names=NAMES)
    assert not found.got_worse
    assert [moved.id for moved in found.worse] == ["q0"]


def test_p_is_corrected_for_the_number_of_measures() -> None:
    found = compare(many(1), many(2), names=NAMES)
    counted = [d for d in found.differences if d.n]
    # refused counts no question here; ndcg, mrr and success fell with the least p there is
    assert len(counted) == 7
    assert difference(found, "mrr").p_corrected == pytest.approx(7 * 2 / 2**12)


def test_a_question_that_one_run_lacks_scores_nothing_there_and_is_named() -> None:
    both, one = a_run(a_result("a"), a_result("b")), a_run(a_result("a"))
    found = compare(both, one, names=NAMES)
    assert (found.missing_before, found.missing_after) == ((), ("b",))
    assert difference(found, "ndcg@10").after == 1 / 2
    assert difference(found, "answered").after == 1 / 2
    # of what was shown, nothing is missing
    assert difference(found, "citationPrecision").after == 1
    assert compare(one, both, names=NAMES).missing_before == ("b",)


def test_a_missing_unanswerable_question_is_no_right_refusal() -> None:
    found = compare(a_run(unanswerable("u")), a_run(a_result("a")), names=NAMES)
    assert (difference(found, "refused").before, difference(found, "refused").after) == (1, 0)


def test_questions_are_paired_by_id_and_not_by_their_order() -> None:
    first, second = a_result("a", ranks=(1,)), a_result("b", ranks=(3,))
    found = compare(a_run(first, second), a_run(second, first), names=NAMES)
    assert {d.difference for d in found.differences if d.n} == {0}
    assert found.worse == ()


def test_the_question_that_lost_most_stands_first() -> None:
    before = a_run(*(a_result(id_, ranks=(1,)) for id_ in "abc"))
    after = a_run(a_result("a", ranks=(2,)), a_result("b", ranks=(None,)), a_result("c"))
    worse = compare(before, after, names=NAMES).worse
    assert [moved.id for moved in worse] == ["b", "a"]
    assert worse[0].measures["ndcg@10"] == (1, 0)


def test_an_answer_that_is_refused_and_one_that_is_false_are_told() -> None:
    before = a_run(a_result("a"), unanswerable("u"))
    after = a_run(a_result("a", hits=()), unanswerable("u", hits=(0,)))
    worse = {moved.id: moved.measures for moved in compare(before, after, names=NAMES).worse}
    assert worse == {"a": {"answered": (1, 0)}, "u": {"refused": (1, 0)}}


def test_a_question_that_gained_and_lost_is_in_both_lists() -> None:
    before, after = a_run(a_result("a", ranks=(2,))), a_run(a_result("a", ranks=(1,), hits=(0,)))
    found = compare(before, after, names=NAMES)
    assert [m.id for m in found.worse] == [m.id for m in found.better] == ["a"]


def test_recall_is_taken_at_the_later_runs_k_in_both() -> None:
    before, after = a_run(a_result("a", ranks=(7,))), a_run(a_result("a", ranks=(7,)), k=5)
    found = difference(compare(before, after, names=NAMES), "recall@5")
    assert (found.before, found.after) == (0, 0)


def test_the_json_carries_the_verdict_and_loses_nothing() -> None:
    written = comparison_json(compare(many(1), many(9), names=NAMES))
    assert json.loads(json.dumps(written)) == written
    assert written["gotWorse"] is True
    assert {"before", "after", "changed", "differences", "missingAfter"} <= written.keys()
    assert written["worse"][0]["measures"]["ndcg@10"][0] == 1
