"""Batches for an embedder: what is asked, who is left out, and when to stop."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro.batching import PROBE, Fed, feed
from lastro.embedders import Limits, Meter
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedders.protocol import Role
from lastro.errors import ProviderError
from lastro.metering_settings import MeteringSettings
from lastro.types import DegradedReason


class Fussy(DeterministicEmbedder):
    """Fails for batches that ``fails`` names, and keeps what it was asked for."""

    def __init__(self, fails: Callable[[Sequence[str]], DegradedReason | None]) -> None:
        super().__init__()
        self.fails = fails
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str], role: Role):
        self.asked.append(list(texts))
        reason = self.fails(texts)
        if reason is not None:
            raise ProviderError("no", reason=reason)
        return super().embed(texts, role)


class Remote(Fussy):
    """The same behind a server, with limits of its own."""

    configured = "remote"
    metering = MeteringSettings()

    def __init__(self, fails: Callable, limits: Limits) -> None:
        super().__init__(fails)
        self.limits = limits

    def recall(self, *, version: str, dimension: int) -> None:
        pass

    def identify(self) -> None:
        pass

    def outage(self) -> None:
        pass

    def metered(self, meter: Meter) -> AbstractContextManager[None]:
        return nullcontext()


def fed_to(embedder: Fussy, texts: Sequence[str]) -> tuple[dict[str, np.ndarray], Fed[str]]:
    kept: dict[str, np.ndarray] = {}
    fed = feed(embedder, {text: text for text in texts}, role="document", keep=kept.update)
    return kept, fed


def holding(*poisons: str, reason: DegradedReason = "embedder_refused"):
    return lambda texts: reason if any(p in text for p in poisons for text in texts) else None


TEXTS = [f"wave {number:03}" for number in range(64)]


@pytest.mark.parametrize("reason", ["embedder_refused", "embedder_bad_reply"])
@pytest.mark.parametrize("place", [0, 31, 32, 63])
def test_one_bad_text_costs_no_other_its_vector(reason: DegradedReason, place: int):
    kept, fed = fed_to(Fussy(holding(TEXTS[place], reason=reason)), TEXTS)
    assert set(TEXTS) - kept.keys() == {TEXTS[place]}
    assert [(key, why.reason) for key, why in fed.refused.items()] == [(TEXTS[place], reason)]
    assert fed.failure is None


@settings(max_examples=25)
@given(bad=st.sets(st.integers(0, 39), max_size=12))
def test_whatever_texts_are_bad_the_others_have_their_own_vectors(bad: set[int]):
    texts = TEXTS[:40]
    poisons = {texts[number] for number in bad}
    kept, fed = fed_to(
        Fussy(lambda batch: "embedder_refused" if poisons & set(batch) else None), texts
    )
    assert fed.refused.keys() == poisons
    assert kept.keys() == set(texts) - poisons
    for text, vector in kept.items():
        assert np.array_equal(vector, DeterministicEmbedder().embed([text], "document")[0])


def test_an_embedder_that_refuses_everything_is_not_asked_about_every_text():
    embedder = Fussy(lambda _texts: "embedder_refused")
    kept, fed = fed_to(embedder, TEXTS)
    # 64, 32, 16, 8, 4, 2, 1, and the word that nobody has a reason to refuse.
    assert [len(batch) for batch in embedder.asked] == [64, 32, 16, 8, 4, 2, 1, 1]
    assert embedder.asked[-1] == [PROBE]
    assert (kept, fed.refused) == ({}, {})
    assert fed.failure is not None


@pytest.mark.parametrize(
    "reason", ["embedder_unreachable", "embedder_model_missing", "embedder_budget"]
)
def test_an_embedder_that_is_down_is_asked_once(reason: DegradedReason):
    embedder = Fussy(lambda _texts: reason)
    _, fed = fed_to(embedder, [f"text {n}" for n in range(300)])
    assert len(embedder.asked) == 1
    assert fed.failure is not None
    assert fed.failure.reason == reason


def test_what_was_made_before_a_failure_is_kept():
    texts = [f"text {n:03}" for n in range(200)]
    kept, fed = fed_to(Fussy(holding("text 150", reason="embedder_unreachable")), texts)
    # Two whole batches of 64; the third one holds text 150.
    assert list(kept) == texts[:128]
    assert fed.failure is not None


def test_a_batch_that_is_late_is_tried_again_as_single_texts():
    embedder = Fussy(lambda texts: "embedder_timeout" if len(texts) > 1 else None)
    kept, fed = fed_to(embedder, TEXTS[:5])
    assert [len(batch) for batch in embedder.asked] == [5, 1, 1, 1, 1, 1]
    assert (len(kept), fed.failure) == (5, None)


def test_a_single_text_that_is_late_ends_the_work():
    embedder = Fussy(lambda _texts: "embedder_timeout")
    _, fed = fed_to(embedder, TEXTS)
    assert [len(batch) for batch in embedder.asked] == [64, 1]
    assert fed.failure is not None


def test_batches_begin_small_and_double_up_to_the_limit():
    embedder = Remote(lambda _texts: None, Limits(texts=16, first_texts=4, pace_s=60.0))
    fed_to(embedder, TEXTS)
    assert [len(batch) for batch in embedder.asked] == [4, 8, 16, 16, 16, 4]


def test_batches_shrink_where_a_call_takes_too_long():
    embedder = Remote(lambda _texts: time.sleep(0.02), Limits(texts=16, first_texts=8, pace_s=0.01))
    fed_to(embedder, TEXTS[:12])
    assert [len(batch) for batch in embedder.asked] == [8, 4]


def test_a_batch_holds_at_most_the_characters_of_the_limit():
    embedder = Remote(lambda _texts: None, Limits(texts=16, first_texts=16, chars=25))
    fed_to(embedder, [*TEXTS[:4], "a" * 60, "b"])
    # "wave 000" has 8: three of them are 24. A longer text than the limit goes alone.
    assert [len(batch) for batch in embedder.asked] == [3, 1, 1, 1]


def test_a_question_alone_is_not_followed_by_a_probe():
    embedder = Fussy(lambda _texts: "embedder_refused")
    _, fed = fed_to(embedder, ["why"])
    assert (len(embedder.asked), list(fed.refused)) == (1, ["why"])
