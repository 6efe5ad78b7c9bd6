"""Reports as Markdown, for an issue or a pull request; pure."""

import re
from collections.abc import Iterable, Iterator, Sequence

from lastro.comparing import Comparison, Moved
from lastro.figures import Group, Summary
from lastro.reports.wording import (
    CITATION_MEASURES,
    GROUPS,
    comparison_notes,
    conditions,
    few_note,
    figure_text,
    moved_text,
    number,
    p_text,
    printable,
    ranking_measures,
    shown_groups,
    signed,
    title_of,
    verdict,
    warnings,
)
from lastro.runs import Run

# A bracket matters only as the beginning of a link.
_SPECIAL = re.compile(r"([\\`*_{}<>|#]|\[(?=[^\]]*\][(\[:]))")


def run_markdown(run: Run, summary: Summary) -> str:
    """A run: figures, groups, what it was measured with, and answers that are not indexed."""
    name = "" if run.number is None else f", run {run.number}"
    groups = shown_groups(summary)
    lines = [f"# {escaped(run.golden.name)} on {escaped(run.project)}{name}", ""]
    notes = [f"- **{escaped(note)}**" for note in warnings(run, summary)]
    lines += [*notes, ""] if notes else []
    lines += ["## Ranking", "", *_groups(groups, ranking_measures(run.k)), ""]
    lines += ["## Citations and abstention", "", *_groups(groups, CITATION_MEASURES), ""]
    note = few_note(groups)
    lines += [escaped(note), ""] if note else []
    lines += ["Values with 95% bootstrap intervals.", ""]
    said = conditions(run, summary).items()
    lines += ["## Measured with", "", *table(("", ""), said), ""]
    if summary.not_indexed:
        lines += ["## Not in the index", ""]
        lines += [*table(("question", "place"), summary.not_indexed), ""]
    return "\n".join(lines).rstrip() + "\n"


def _groups(groups: Sequence[Group], measures: Sequence[str]) -> Iterator[str]:
    header = ("", "questions", *(title_of(measure) for measure in measures))
    return table(
        header,
        [
            (
                "all" if group.by == "all" else f"{GROUPS[group.by]}: {group.name}",
                group.questions,
                *(figure_text(group.figures[measure]) for measure in measures),
            )
            for group in groups
        ],
    )


def comparison_markdown(comparison: Comparison) -> str:
    """A comparison: measures with intervals and p, then the questions that moved."""
    lines = [f"# {escaped(comparison.before)} to {escaped(comparison.after)}", ""]
    notes = [f"- {escaped(note)}" for note in comparison_notes(comparison)]
    lines += [*notes, ""] if notes else []
    lines += [*table(COMPARISON_HEADER, comparison_rows(comparison)), ""]
    for title, moved in (("Worse", comparison.worse), ("Better", comparison.better)):
        lines += [f"## {title}: {len(moved)} questions", "", *_moved(moved)]
    return "\n".join(lines).rstrip() + "\n"


COMPARISON_HEADER = ("", "n", "before", "after", "difference", "95%", "p", "p (Holm)", "")


def comparison_rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    """A row for each measure that was counted."""
    for d in comparison.differences:
        if d.n:
            bounds = "" if d.low is None else f"[{signed(d.low)}, {signed(d.high)}]"
            yield (
                title_of(d.measure),
                d.n,
                number(d.before),
                number(d.after),
                signed(d.difference),
                bounds,
                p_text(d.p),
                p_text(d.p_corrected),
                verdict(d),
            )


def _moved(moved: Sequence[Moved]) -> list[str]:
    rows = [(entry.id, entry.question, moved_text(entry)) for entry in moved]
    return [*table(("id", "question", "what"), rows), ""] if rows else []


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table; every cell on one line."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(escaped(str(cell)) for cell in row)} |"


def escaped(text: str) -> str:
    """Text that neither a Markdown reader nor a terminal takes for markup, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(printable(text).split()))
