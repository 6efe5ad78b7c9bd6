"""A run as one page of HTML with its plots: no script, no network, nothing beside the file."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from lastro.figures import Summary
from lastro.metrics import ndcg
from lastro.reports import plots
from lastro.reports.wording import (
    CITATION_MEASURES,
    conditions,
    few_note,
    figure_text,
    printable,
    ranking_measures,
    shown_groups,
    title_of,
    warnings,
)
from lastro.runs import QuestionResult, Run


def run_page(run: Run, summary: Summary) -> str:
    """The page of a run; every text in it is escaped."""
    template = _environment().get_template("run.html.j2")
    groups = shown_groups(summary)
    page = template.render(
        run=run,
        summary=summary,
        groups=groups,
        ranking=ranking_measures(run.k),
        citations=CITATION_MEASURES,
        few_note=few_note(groups),
        warnings=list(warnings(run, summary)),
        conditions=conditions(run, summary),
        intervals=plots.interval_plot(summary, "ndcg@10"),
        questions=plots.question_plot(run),
        curve=plots.curve_plot(run),
        latency=plots.latency_plot(run, summary),
        results=sorted(run.results, key=_worst_first),
        plots=plots,
        title_of=title_of,
        figure_text=figure_text,
        ndcg_of=_ndcg,
    )
    return "\n".join(printable(line) for line in page.split("\n"))


def _worst_first(result: QuestionResult) -> tuple[bool, float, str]:
    """Questions that nothing answers stand last."""
    return result.unanswerable, _ndcg(result) or 0.0, result.id


def _ndcg(result: QuestionResult) -> float | None:
    return None if result.unanswerable else ndcg(result.gains, result.ideal)


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("lastro", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
