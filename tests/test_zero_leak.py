"""Zero leak: what is drafted, archived, forbidden or another project's changes no answer at all."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from leaking import OURS, answered, check_rounds, shelves
from numpy.typing import NDArray

from lastro.embedders import Role
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.entity import Entity
from lastro.errors import ProviderError
from lastro.search import SearchRequest

ROUNDS, DRAWS, SEARCHES = 4, 250, 10


def test_a_thousand_filters_show_nothing_that_they_shut_out_and_nothing_hidden(
    server_url: str, template: str
) -> None:
    kept, forbidden = check_rounds(
        server_url, template, rounds=ROUNDS, draws=DRAWS, searches=SEARCHES, seed=5
    )
    assert kept.total() == ROUNDS * DRAWS
    # The dice tried what they should.
    assert min(kept["none"], kept["some"], kept["all"]) >= DRAWS // 10
    assert forbidden >= ROUNDS // 2


class Down(DeterministicEmbedder):
    """Refuses every text of an entry, and embeds questions."""

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        if role == "document":
            raise ProviderError("no vectors today", reason="embedder_unreachable")
        return super().embed(texts, role)


@pytest.mark.parametrize("status", ["draft", "archived"])
def test_a_hidden_entry_that_lacks_its_vector_degrades_no_answer(
    server_url: str, template: str, status: Any
) -> None:
    with shelves(server_url, template) as both:
        shelf = both.whole
        shelf.replace([entry("s0", status="published")], project=OURS)
        request = SearchRequest(query="linen", explain=True)
        before = shelf.ask(request)
        shelf.embedder = Down()
        shelf.replace([entry("s0", status="published"), entry("h0", status=status)], project=OURS)
        assert answered(shelf.ask(request)) == answered(before)
        shelf.replace(
            [entry("s0", status="published"), entry("h0", status="published")], project=OURS
        )
        assert [part.reason for part in shelf.ask(request).degraded] == ["vectors_missing"]


def entry(key: str, *, status: Any) -> Entity:
    text = f"The linen number {key} is washed by hand."
    return Entity(key=key, title="Care", text=text, type="care", status=status)
