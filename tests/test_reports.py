"""Reports: nothing is left out, nothing from a question becomes markup, nothing is fetched."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from made_runs import a_result, a_run, unanswerable

from lastro.comparing import compare
from lastro.figures import summarise
from lastro.profiles import KB_RRF
from lastro.reports.markdown import comparison_markdown, run_markdown
from lastro.reports.page import run_page
from lastro.reports.plots import curve_plot, interval_plot, latency_plot, question_plot
from lastro.reports.wording import warnings
from lastro.runs import Run

HOSTILE = "<script>alert(1)</script> | [a](http://x) `b` *c*"


def page(run: Run) -> str:
    return run_page(run, summarise(run))


def a_full_run() -> Run:
    return a_run(
        a_result("a", ranks=(1, None), difficulty="easy", took_ms=12.0),
        a_result("b", language="pt", scopes=("adr",), hits=(0, 1), took_ms=48.0),
        a_result("c", derived=True, hits=(), degraded=("vectors_missing",)),
        unanswerable("u", hits=(0,)),
        number=7,
    )


# --- the page


class Addresses(HTMLParser):
    """Elements of a page, and every attribute that names another file."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found += [f"{k}={v}" for k, v in attrs if k in {"src", "href", "xlink:href", "action"}]


def test_the_page_needs_no_script_and_no_other_file() -> None:
    read = Addresses()
    read.feed(page(a_full_run()))
    assert (read.found, "script" in read.tags, "link" in read.tags) == ([], False, False)
    assert not re.search(r"url\(|@import|https?://", page(a_full_run()))


def test_what_a_question_says_is_text_on_the_page() -> None:
    said = page(a_run(a_result("a", question=HOSTILE)))
    assert "<script" not in said
    assert "&lt;script&gt;" in said


def test_no_control_character_of_a_question_reaches_a_page_or_a_table() -> None:
    before = a_run(a_result("a", question="Is it \x1b[31mred\x07\x9b2J?"))
    after = a_run(a_result("a", question="Is it \x1b[31mred\x07\x9b2J?", ranks=(9,)))
    table = comparison_markdown(compare(before, after, names=("1", "2")))
    assert "red" in table
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", page(before) + table)


def test_every_drawing_is_well_formed() -> None:
    drawings = re.findall(r"<svg.*?</svg>", page(a_full_run()), re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        assert ElementTree.fromstring(drawing).tag == "svg"


@pytest.mark.parametrize(
    "run",
    [
        a_run(unanswerable("u")),
        a_run(a_result("a", ranks=(None,), hits=())),
        a_run(a_result("a", took_ms=0.0), curve=()),
        a_run(a_result("a"), profile=KB_RRF, curve_scale="score"),
    ],
    ids=["nothing to rank", "nothing found", "no curve", "no threshold"],
)
def test_a_page_is_made_of_a_run_that_lacks_something(run: Run) -> None:
    assert page(run).rstrip().endswith("</html>")


# --- the plots


def test_a_figure_stands_on_the_axis_where_it_belongs() -> None:
    run = a_run(a_result("a", ranks=(2,)), a_result("b", ranks=(None,)))
    plot = interval_plot(summarise(run), "mrr")
    zero, one = plot.ticks[0].at, plot.ticks[-1].at
    # 1/2 and 0: a quarter of the way
    assert plot.rows[0].x == pytest.approx(zero + (one - zero) / 4, abs=0.01)


def test_a_bar_is_as_high_as_its_question_scored_and_the_best_comes_first() -> None:
    bars = question_plot(a_run(a_result("a", ranks=(None,)), a_result("b"), unanswerable())).bars
    assert [bar.title.split("(")[1].split(")")[0] for bar in bars] == ["b", "a"]
    assert bars[0].height > 100 * bars[1].height
    assert bars[0].x < bars[1].x


def test_a_line_of_the_curve_breaks_where_nothing_is_shown() -> None:
    # at the second level no hit is shown, so no citation can be right
    lines = {line.name: line.path for line in curve_plot(a_full_run()).lines}
    assert (lines["citation precision"].count("M"), lines["citation precision"].count("L")) == (
        1,
        0,
    )
    assert lines["false refusals"].count("L") == 1


def test_every_search_is_in_one_bar_of_the_latency() -> None:
    run = a_full_run()
    bars = latency_plot(run, summarise(run)).bars
    assert sum(int(bar.title.split()[0]) for bar in bars) == len(run.results)


# --- Markdown and words


def test_no_text_of_a_question_becomes_markup_or_a_column() -> None:
    before, after = a_run(a_result("a", question=HOSTILE)), a_run(a_result("a", ranks=(9,)))
    text = comparison_markdown(compare(after, before, names=("1", "2")))
    (row,) = [line for line in text.splitlines() if "alert" in line]
    assert r"\<script\>" in row
    assert r"\[a](http" in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 4


def test_markdown_shows_every_group_and_what_it_was_measured_with() -> None:
    run = a_full_run()
    text = run_markdown(run, summarise(run))
    for said in ("Written by: derived", "Language of the question: pt", "run 7", "pilots@ababab"):
        assert said in text


def test_what_a_reader_must_know_is_warned_of() -> None:
    run = a_full_run()
    lost = replace(run.results[0].answers[0], indexed=False)
    results = (replace(run.results[0], answers=(lost,)), *run.results[1:])
    run = replace(run, results=results, corpus=replace(run.corpus, outdated=2))
    said = "\n".join(warnings(run, summarise(run)))
    for part in (
        "vectors_missing in 1 of 4",
        "2 of 4 documents",
        "1 judged answers are not in the index",
        "1 of 4 questions were drafted",
    ):
        assert part in said
    assert list(warnings(a_run(a_result()), summarise(a_run(a_result())))) == []
