"""``lastro why``: where an expected passage fell out of a search."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.hits import number
from lastro.cli.options import (
    FilterOption,
    Format,
    FormatOption,
    KOption,
    PathOption,
    ProfileOption,
    ProjectOption,
    ScopeOption,
    filter_of,
)
from lastro.cli.output import (
    escaped,
    print_data,
    print_json,
    print_warning,
    stdout,
    text_width,
)
from lastro.cli.tables import table, wrapped
from lastro.config import load_settings
from lastro.ranking import DEFAULT_K
from lastro.search import SearchRequest
from lastro.why_findings import RULES, Counts, LegStanding, Standing, Why
from lastro.wire import to_json

LABEL_COLUMNS = 10


def why(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question, in any words.")],
    *,
    expect: Annotated[
        str,
        typer.Option(
            "--expect",
            metavar="PLACE",
            help="What should be found: PATH, PATH#SECTION, PATH:10-20 or an entry's KEY.",
        ),
    ],
    project: ProjectOption = None,
    k: KOption = DEFAULT_K,
    scope: ScopeOption = None,
    path: PathOption = None,
    filter_: FilterOption = None,
    profile: ProfileOption = "default",
    format_: FormatOption = Format.TABLE,
) -> None:
    """Say where an expected passage fell out of a search, and what would bring it back."""
    request = SearchRequest(
        query=query,
        k=k,
        scopes=scope,
        path_prefix=path,
        filter=filter_of(filter_),
        profile=profile,
    )
    with build(load_settings()) as app:
        told = app.why(request, expect=expect, project=project, keeper=True)
    for part in told.degraded:
        print_warning(f"{part.reason}: {part.detail}")
    if format_ is Format.JSON:
        print_json(to_json(told))
    else:
        print_data(why_lines(told, width=text_width(stdout())))


def why_lines(told: Why, *, width: int) -> Iterator[Text]:
    """The point and its remedy, then each step with its numbers."""
    yield from _labelled(told.point, told.said, width=width, style="bold")
    if told.remedy is not None:
        yield from _labelled("remedy", told.remedy, width=width)
    for label, text in _steps(told):
        yield from _labelled(label, text, width=width)
    if told.words:
        yield Text()
        yield from table(
            ("word", "in the passage", "df", "idf"),
            [(word.text, word.held, word.df, _rounded(word.idf)) for word in told.words],
        )
    for standing in told.above:
        yield Text()
        yield Text(f"above: {number(standing.score)}  {escaped(standing.place)}")
        yield from _wrapped(_parts(standing), indent=LABEL_COLUMNS, width=width)


def _steps(told: Why) -> Iterator[tuple[str, str]]:
    if told.passage is None:
        return
    section = " › ".join(told.passage.heading_path)
    yield "passage", f"{told.passage.place}{f' ({section})' if section else ''}"
    yield "chunks", _counted(told.counts)
    no_vector = "" if told.passage.has_vector else "; the passage has no vector yet"
    lexical_unscored = "not scored" if told.filtered_by else "does not match"
    yield "vector", _in_leg(told.vector, unscored="not scored") + no_vector
    yield "lexical", _in_leg(told.lexical, unscored=lexical_unscored)
    if told.fused is not None:
        at = f"rank {told.fused.rank} of {told.candidates}"
        yield "fused", f"{at}, score {number(told.fused.score)}: {_parts(told.fused)}"
    if told.bar is not None:
        needed = f"and {number(told.bar.needed)} is needed"
        yield "evidence", f"{RULES[told.bar.rule]}: {number(told.bar.value)}, {needed}"


def _counted(counts: Counts) -> str:
    return (
        f"{counts.at_place} at the place: {counts.kept} kept by the filter, "
        f"{counts.candidates} candidates, {counts.with_evidence} with evidence, "
        f"{counts.hits} hits"
    )


def _parts(standing: Standing) -> str:
    return " · ".join(f"{name} {number(value)}" for name, value in standing.parts.items())


def _in_leg(leg: LegStanding | None, *, unscored: str) -> str:
    if leg is None:
        return "did not run"
    if leg.rank is None:
        return unscored
    rows = "" if leg.rows is None else f" of {leg.rows}"
    taken = "found" if leg.found else f"not among the {leg.depth} that are taken"
    return f"rank {leg.rank}{rows}, score {number(leg.score)}, {taken}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _labelled(label: str, text: str, *, width: int, style: str = "") -> Iterator[Text]:
    """``text`` behind ``label``, or below one that is longer than its column."""
    rows = wrapped(escaped(text), width=width - LABEL_COLUMNS)
    if len(label) >= LABEL_COLUMNS:
        yield Text(label, style=style)
        label = ""
    for at, row in enumerate(rows):
        yield Text.assemble((f"{label if not at else '':<{LABEL_COLUMNS}}", style), row)


def _wrapped(text: str, *, indent: int, width: int) -> Iterator[Text]:
    for row in wrapped(escaped(text), width=width - indent):
        yield Text(f"{'':{indent}}{row}")
