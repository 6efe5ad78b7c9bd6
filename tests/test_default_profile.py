"""The shipped ``default``: its numbers are those of the run in the repository, and hold there."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.default_figures import DEFAULT, LEXICAL, RRF, SHARE, VECTOR, numbers_of
from benchmarks.default_page import MARK, PAGE, tables
from lastro.profiles import CALIBRATED

ROOT = Path(__file__).parent.parent
RUN_FILE = "benchmarks/results/default-use-m3.json"
RUN = json.loads((ROOT / RUN_FILE).read_text(encoding="utf-8"))
SHIPPED = CALIBRATED["use-m3"]


# --- what is shipped


def test_the_shipped_numbers_are_those_that_the_run_chose() -> None:
    assert numbers_of(SHIPPED) == RUN["chosen"]


def test_the_shipped_profile_says_that_it_is_calibrated_and_where() -> None:
    assert (SHIPPED.calibrated, SHIPPED.embedder) == (True, "use-m3")
    assert RUN["embedder"].startswith("use-m3@")
    for said in (RUN_FILE, RUN["date"], *(one["name"] for one in RUN["sets"])):
        assert said in SHIPPED.provenance


def test_the_page_shows_the_run_as_it_is_in_the_repository() -> None:
    page = PAGE.read_text(encoding="utf-8")
    _, _, rest = page.partition(f"<!-- {MARK}:begin -->")
    assert rest.partition(f"<!-- {MARK}:end -->")[0].strip() == tables(RUN)


@pytest.mark.parametrize("name", [DEFAULT, SHARE])
@pytest.mark.parametrize("other", [VECTOR, LEXICAL, RRF])
def test_numbers_of_other_sets_beat_each_leg_and_reciprocal_ranks(name: str, other: str) -> None:
    gain = RUN["leftOut"]["mean"]["gain"][name][other]
    assert gain["difference"] > 0
    assert gain["p"] < 0.05


@pytest.mark.parametrize("name", [DEFAULT, SHARE])
def test_numbers_of_other_sets_are_certainly_worse_on_none(name: str) -> None:
    worse = [
        (title, other)
        for title, figures in RUN["leftOut"]["sets"].items()
        for other, gain in figures["gain"][name].items()
        if gain["difference"] < 0 and gain["p"] < 0.05
    ]
    assert worse == []


def test_false_answers_and_refusals_stay_below_a_fifth_on_sets_held_out() -> None:
    for rate in ("falseAnswers", "falseRefusals"):
        rates = [figures["otherSets"]["own"][rate] for figures in RUN["evidence"].values()]
        assert np.mean(rates) <= 0.20
