"""Runs of golden sets, for people: tables, and what must be said beside them."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from lastro.cli.output import escaped
from lastro.cli.tables import moment, pairs, short, table
from lastro.comparing import Comparison, Moved
from lastro.figures import Group, Summary, values
from lastro.reports.markdown import COMPARISON_HEADER, comparison_rows
from lastro.reports.wording import (
    CITATION_MEASURES,
    comparison_notes,
    conditions,
    few_note,
    figure_text,
    moved_text,
    number,
    ranking_measures,
    shown_groups,
    title_of,
)
from lastro.runs import Run


def run_lines(run: Run, summary: Summary, *, width: int | None = None) -> Iterator[Text]:
    """The figures of a run, overall and by group, then what it was measured with."""
    groups = shown_groups(summary)
    stored = "not stored" if run.number is None else f"run {run.number}"
    yield Text.assemble((escaped(run.golden.name), "bold"), f" on {escaped(run.project)}, {stored}")
    yield Text()
    yield from _groups("ranking", groups, ranking_measures(run.k), width=width)
    yield Text()
    yield from _groups("shown", groups, CITATION_MEASURES, width=width)
    note = few_note(groups)
    if note is not None:
        yield Text(note, style="dim")
    yield Text()
    yield pairs(conditions(run, summary), width=width)
    if summary.not_indexed:
        yield Text()
        yield from table(("not indexed", "answer"), summary.not_indexed)


def _groups(
    title: str, groups: Sequence[Group], measures: Sequence[str], *, width: int | None
) -> Iterator[Text]:
    header = (title, "", "n", *(title_of(measure) for measure in measures))
    return table(
        header,
        [
            (
                "" if group.by == "all" else group.by,
                escaped(group.name),
                group.questions,
                *(figure_text(group.figures[measure]) for measure in measures),
            )
            for group in groups
        ],
        width=width,
        keys=2,
    )


def comparison_lines(comparison: Comparison, *, width: int | None = None) -> Iterator[Text]:
    """What changed, with p, then the questions that moved, the worst first."""
    yield Text(f"{escaped(comparison.before)} to {escaped(comparison.after)}", style="bold")
    for note in comparison_notes(comparison):
        yield Text(f"    {escaped(note)}")
    yield Text()
    yield from table(COMPARISON_HEADER, comparison_rows(comparison), width=width)
    for title, moved in (("worse", comparison.worse), ("better", comparison.better)):
        yield Text()
        yield from _moved(title, moved)


def _moved(title: str, moved: Sequence[Moved]) -> Iterator[Text]:
    count = f"{len(moved)} {'question' if len(moved) == 1 else 'questions'}"
    yield Text(f"{title}: {count}", style="bold")
    for entry in moved:
        yield Text(f"    {escaped(entry.id)}  {escaped(entry.question)}")
        yield Text(f"        {escaped(moved_text(entry))}", style="dim")


def runs_lines(runs: Sequence[Run], *, width: int | None = None) -> Iterator[Text]:
    """Runs with their headline figures, the newest first."""
    header = (
        "run",
        "golden set",
        "started",
        "questions",
        "profile",
        "revision",
        "nDCG@10",
        "citation precision",
        "false answers",
        "false refusals",
    )
    shown = ("ndcg@10", "citationPrecision", "falseAnswers", "falseRefusals")
    return table(header, [_run_row(run, shown) for run in runs], width=width)


def _run_row(run: Run, shown: Sequence[str]) -> tuple[object, ...]:
    found = values(run)
    return (
        run.number,
        f"{run.golden.name}@{short(run.golden.content_hash)}",
        moment(run.started_at),
        len(run.results),
        f"{run.profile.name} v{run.profile.version}",
        ", ".join(short(source.revision) for source in run.corpus.sources),
        *(number(found[measure]) for measure in shown),
    )
