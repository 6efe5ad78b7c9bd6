"""``lastro eval``: ranking measured on a set with judged answers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.options import Format, FormatOption
from lastro.cli.output import print_data, print_json, print_warning, progress_bar
from lastro.cli.tables import pairs, table
from lastro.config import load_settings
from lastro.types import Evaluation, EvaluationRequest
from lastro.wire import evaluation_json

app = typer.Typer(help="Measure ranking on a set with judged answers.")


@app.callback()
def evaluate() -> None:
    """Measure ranking on a set with judged answers."""


@app.command()
def beir(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder in the BEIR layout.")],
    *,
    profile: Annotated[
        str, typer.Option("--profile", metavar="NAME", help="Ranking profile.")
    ] = "default",
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
        }
    )
