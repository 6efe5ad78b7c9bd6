"""The benchmark of trust: what it makes foreign, and what it calls a fault."""

import numpy as np
import pytest
from pools import a_question

from benchmarks.trust import WAYS, Answer, Trusted, held_against_legs, trust_summary, trust_table
from lastro.profiles import DEFAULT
from lastro.store import SelfCheck
from lastro.trust import trusted

CHECK = SelfCheck(
    embedder="e", row_count=200, questions=64, agreement=0.8, lexical_mrr=0.9, trust=0.6
)
EVEN = Answer(weight=0.1, ndcg=0.5, gain=0.0, p=1.0)


def looked(**answers: Answer) -> Trusted:
    given = {"own": EVEN, "generic": EVEN, "fixed": EVEN, **answers}
    return Trusted(name="ships, swapped", vector=0.1, words=0.5, check=CHECK, **given)


def test_a_cipher_keeps_words_apart_and_together() -> None:
    told, _ = WAYS["cipher"]
    assert told("Abc abc ção") == told("abc ABC cao")
    assert told("船长 ship") != "船长 ship"
    assert len(set(told("abcdefghijklmnopqrstuvwxyz"))) == 26


def test_swapped_documents_keep_all_vectors_and_none_its_own() -> None:
    _, altered = WAYS["swapped"]
    vectors = np.eye(4, dtype=np.float32)
    swapped = altered(vectors, list("abcd"), "document")
    assert not (swapped * vectors).any()
    assert sorted(map(tuple, swapped)) == sorted(map(tuple, vectors))
    assert (altered(vectors, list("abcd"), "query") == vectors).all()


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_noise_leaves_its_share_of_a_vector(share) -> None:
    _, altered = WAYS["noise, 1/4 left" if share == 0.25 else "noise, 1/2 left"]
    vectors = np.zeros((2, 4_096), dtype=np.float32)
    vectors[:, 0] = 1
    # Noise of 4,096 numbers has a cosine of 0 with any vector, give or take 1/64
    assert (altered(vectors, ["a", "b"], "query") @ vectors[0]).tolist() == pytest.approx(
        [share] * 2, abs=0.06
    )


def test_a_hybrid_is_held_against_the_better_leg_of_the_mean() -> None:
    # The words find the answer of both questions, the vector that of one: 1, and 0.5 · 1 + 0.5 · 0
    rows = [np.eye(12)[0].tolist(), np.eye(12)[1].tolist()]
    questions = [
        a_question(cosine=rows[0], coverage=rows[0], relevant={0: 1}, id_="a"),
        a_question(cosine=(-np.arange(12.0)).tolist()[::-1], coverage=rows[0], relevant={0: 1}),
    ]
    (vector, words), answers = held_against_legs(
        questions, {"words": trusted(DEFAULT, 0.0, provenance="test")}
    )
    assert (vector, words) == (0.5, 1.0)
    assert (answers["words"].ndcg, answers["words"].gain) == (1.0, 0.0)


def test_a_significant_loss_is_a_fault_and_a_fixed_weight_is_none_of_ours() -> None:
    loss = Answer(weight=0.3, ndcg=0.4, gain=-0.1, p=0.01)
    chance = Answer(weight=0.3, ndcg=0.4, gain=-0.1, p=0.05)
    assert looked(own=chance, generic=chance, fixed=loss).faults == []
    assert len(looked(own=loss, generic=loss).faults) == 2


def test_the_tables_have_a_cell_for_every_column() -> None:
    for table in (trust_table([looked()]), trust_summary([looked()])):
        assert len({line.count("|") for line in table.splitlines()}) == 1
