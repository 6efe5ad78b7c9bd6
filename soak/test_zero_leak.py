"""A hundred thousand filters over drawn knowledge bases, and what searches with them show."""

import pytest
from leaking import check_rounds

ROUNDS, DRAWS, SEARCHES = 200, 500, 20


@pytest.mark.timeout(7_200)
def test_a_hundred_thousand_filters_show_nothing_that_they_shut_out_and_nothing_hidden(
    server_url: str, template: str
) -> None:
    kept, forbidden = check_rounds(
        server_url, template, rounds=ROUNDS, draws=DRAWS, searches=SEARCHES, seed=1984
    )
    print(f"\n{dict(kept)} of {ROUNDS * DRAWS:,} filters; {forbidden} of {ROUNDS} added entries")
    assert kept.total() == ROUNDS * DRAWS
    assert min(kept["none"], kept["some"], kept["all"]) >= ROUNDS * DRAWS // 20
    assert forbidden >= ROUNDS // 2
