"""``lastro eval``: ranking, citations and abstention measured on judged questions."""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.evaluations import comparison_lines, run_lines, runs_lines
from lastro.cli.options import Format, FormatOption, ProfileOption, ProjectOption
from lastro.cli.output import (
    emit_data,
    emit_json,
    emit_text,
    print_data,
    print_failure,
    print_json,
    print_warning,
    progress_bar,
    screen_width,
)
from lastro.cli.tables import pairs, table
from lastro.comparing import Comparison, comparison_json
from lastro.config import load_settings
from lastro.errors import EXIT_DONE, EXIT_FAILED
from lastro.figures import (
    Summary,
    parse_floors,
    run_entry,
    summarise,
    summary_json,
    unmet,
)
from lastro.reports.markdown import comparison_markdown, run_markdown
from lastro.reports.wording import warnings
from lastro.runs import DEFAULT_HITS, LISTED_RUNS, GoldenRequest, Run
from lastro.types import Evaluation, EvaluationRequest
from lastro.wire import evaluation_json

app = typer.Typer(help="Measure ranking, citations and abstention on judged questions.")


class ReportFormat(StrEnum):
    """How a report is written."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


class TextFormat(StrEnum):
    """How a comparison is written."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


GoldenArgument = Annotated[
    str,
    typer.Argument(metavar="GOLDEN", help="A .jsonl file, or the name of an imported golden set."),
]
KOption = Annotated[
    int, typer.Option("-k", metavar="N", help="Hits shown, and the depth of recall.")
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", help="Of the intervals and the tests.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Write there instead of stdout.", show_default=False
    ),
]
ReportOption = Annotated[
    ReportFormat, typer.Option("--format", help="For people, programs, or a page.")
]
ComparisonOption = Annotated[TextFormat, typer.Option("--format", help="For people or programs.")]


@app.callback()
def evaluate() -> None:
    """Measure ranking, citations and abstention on judged questions."""


@app.command()
def run(
    golden: GoldenArgument,
    *,
    profile: ProfileOption = "default",
    project: ProjectOption = None,
    k: KOption = DEFAULT_HITS,
    fail_below: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-below",
            metavar="MEASURE=VALUE",
            help="End with exit code 1 where the measure is below; may be repeated.",
            show_default=False,
        ),
    ] = None,
    format_: ReportOption = ReportFormat.TABLE,
    out: OutOption = None,
    seed: SeedOption = 0,
) -> int:
    """Ask a golden set on the project, report what came, and store the run."""
    floors = parse_floors(fail_below or (), k=k)
    request = GoldenRequest(golden=golden, profile=profile, k=k, seed=seed)
    with build(load_settings()) as lastro, progress_bar("asking") as progress:
        made = lastro.golden_runs(project).run(request, progress=progress)
    summary = summarise(made)
    _report(made, summary, format_=format_, out=out)
    failures = unmet(summary, floors)
    for failure in failures:
        print_failure(failure)
    return EXIT_FAILED if failures else EXIT_DONE


@app.command()
def show(
    run_: Annotated[str, typer.Argument(metavar="RUN", help="A run's number, or a JSON file.")],
    *,
    project: ProjectOption = None,
    format_: ReportOption = ReportFormat.TABLE,
    out: OutOption = None,
) -> None:
    """Report a stored run again."""
    from lastro.golden_runs import is_number, read_run

    if is_number(run_):
        with build(load_settings()) as lastro:
            found = lastro.golden_runs(project).find(run_)
    else:
        found = read_run(Path(run_))
    _report(found, summarise(found), format_=format_, out=out)


@app.command()
def runs(
    *,
    project: ProjectOption = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="The newest N.")
    ] = LISTED_RUNS,
    format_: FormatOption = Format.TABLE,
) -> None:
    """List the stored runs of the project, the newest first."""
    with build(load_settings()) as lastro:
        found = lastro.golden_runs(project).list(limit=limit)
    if format_ is Format.JSON:
        print_json({"runs": [run_entry(entry) for entry in found]})
        return
    nothing = "no run yet; make one with `lastro eval run GOLDEN`"
    print_data(runs_lines(found, width=screen_width()) if found else [nothing])


@app.command()
def compare(
    before: Annotated[str, typer.Argument(metavar="A", help="A run's number, or a JSON file.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The run to compare with A.")],
    *,
    project: ProjectOption = None,
    format_: ComparisonOption = TextFormat.TABLE,
    out: OutOption = None,
    seed: SeedOption = 0,
) -> None:
    """Compare two runs question by question: from A to B, with intervals and p."""
    from lastro.golden_runs import compare_files, is_number

    if is_number(before) or is_number(after):
        with build(load_settings()) as lastro:
            found = lastro.golden_runs(project).compare(before, after, seed=seed)
    else:
        found = compare_files(Path(before), Path(after), seed=seed)
    _compared(found, format_=format_, out=out)


@app.command()
def watch(
    golden: GoldenArgument,
    *,
    profile: ProfileOption = "default",
    project: ProjectOption = None,
    k: KOption = DEFAULT_HITS,
    force: Annotated[
        bool, typer.Option("--force", help="Ask again even if nothing changed.")
    ] = False,
    format_: ComparisonOption = TextFormat.TABLE,
    out: OutOption = None,
    seed: SeedOption = 0,
) -> int:
    """Ask a golden set again if anything changed since its last run, and say what got worse."""
    request = GoldenRequest(golden=golden, profile=profile, k=k, seed=seed)
    with build(load_settings()) as lastro, progress_bar("asking") as progress:
        watched = lastro.golden_runs(project).watch(request, force=force, progress=progress)
    _warn(watched.run)
    if watched.comparison is not None:
        _compared(watched.comparison, format_=format_, out=out)
        return EXIT_FAILED if watched.comparison.got_worse else EXIT_DONE
    if watched.run is None:
        assert watched.last is not None, "only a known run can stand unchanged"
        said = f"nothing changed since run {watched.last.number}"
    else:
        said = f"run {watched.run.number} is the first of this set; there is nothing to compare"
    if format_ is TextFormat.JSON:
        emit_json({"run": None if watched.run is None else watched.run.number, "said": said}, out)
    else:
        emit_text(said + "\n", out)
    return EXIT_DONE


def _report(run_: Run, summary: Summary, *, format_: ReportFormat, out: Path | None) -> None:
    for warning in warnings(run_, summary):
        print_warning(warning)
    match format_:
        case ReportFormat.JSON:
            emit_json(summary_json(run_, summary), out)
        case ReportFormat.MARKDOWN:
            emit_text(run_markdown(run_, summary), out)
        case ReportFormat.HTML:
            from lastro.reports.page import run_page

            emit_text(run_page(run_, summary), out)
        case ReportFormat.TABLE:
            emit_data(run_lines(run_, summary, width=_width(out)), out)


def _compared(comparison: Comparison, *, format_: TextFormat, out: Path | None) -> None:
    match format_:
        case TextFormat.JSON:
            emit_json(comparison_json(comparison), out)
        case TextFormat.MARKDOWN:
            emit_text(comparison_markdown(comparison), out)
        case TextFormat.TABLE:
            emit_data(comparison_lines(comparison, width=_width(out)), out)


def _width(out: Path | None) -> int | None:
    """A file is as wide as it needs."""
    return screen_width() if out is None else None


def _warn(run_: Run | None) -> None:
    if run_ is not None:
        for warning in warnings(run_, summarise(run_)):
            print_warning(warning)


@app.command()
def beir(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder in the BEIR layout.")],
    *,
    profile: ProfileOption = "default",
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="L",
            help="Language of every passage; by default it is found for each.",
            show_default=False,
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder",
            metavar="E",
            help="Another embedder than the one that is set.",
            show_default=False,
        ),
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option("--qrels", metavar="FILE", help="Other judgements.", show_default=False),
    ] = None,
    collapse: Annotated[
        str | None,
        typer.Option(
            "--collapse",
            metavar="MARK",
            help="Ids that are equal before this mark are one document.",
            show_default=False,
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Do not cut passages into chunks.")
    ] = False,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Measure a BEIR folder in a scratch database; your projects are not touched."""
    settings = load_settings()
    request = EvaluationRequest(
        folder=folder,
        profile=profile,
        language=language,
        qrels=qrels,
        collapse=collapse or None,
        whole=whole,
    )
    settings = replace(settings, embedder=embedder or settings.embedder)
    with build(settings) as lastro, progress_bar("evaluating") as progress:
        evaluation = lastro.evaluate(request, progress=progress)
    for reason, count in evaluation.degraded.items():
        print_warning(f"{reason} in {count} of {evaluation.queries} questions")
    if format_ is Format.JSON:
        print_json(evaluation_json(evaluation))
    else:
        print_data(_lines(evaluation))


def _lines(evaluation: Evaluation) -> Iterator[Text]:
    rankings = {"both legs": evaluation.fused, **evaluation.legs}
    yield from table(
        ("ranking", "nDCG@10", "recall@100"),
        [
            (name, round(quality.ndcg_at_10, 4), round(quality.recall_at_100, 4))
            for name, quality in rankings.items()
        ],
    )
    took, profile = evaluation.latency, evaluation.profile
    languages = (f"{language} {count}" for language, count in evaluation.languages.items())
    yield Text()
    yield pairs(
        {
            "questions": evaluation.queries,
            "documents": f"{evaluation.documents} ({', '.join(languages)})",
            "chunks": f"{evaluation.chunks}{', passages whole' if evaluation.whole else ''}",
            "latency": f"p50 {took.p50_ms:.1f} ms, p95 {took.p95_ms:.1f} ms",
            "profile": f"{profile.name} v{profile.version}",
            "embedder": evaluation.embedder,
        },
        width=screen_width(),
    )
