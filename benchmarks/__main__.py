"""``make bench``: figures of quality and speed, printed, and written into the documentation.

The folder that ``LASTRO_BENCH_DATA`` names holds a folder for each set, in the BEIR layout. With
``--what scale indexing`` a project of 100,000 rows is loaded and searched and whole repositories
are indexed, which takes a quarter of an hour, with ``--what filters`` 100,000 entries are searched
under filters, which takes as long, with ``--what events`` a million events are stored, with
``--what serving`` 100,000 rows are asked over HTTP, which takes five minutes, with
``--what during`` a project is searched while it is indexed again and while its embedder is
switched, which takes a quarter of an hour, and with ``--what trust`` each set with embedders that
were made foreign to it, which takes an hour.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.default_sets import SOURCES
from benchmarks.during import CHUNKS, during_table, measure_during, missed, swap_notes
from benchmarks.events import EVENTS, measure_events
from benchmarks.filters import measure_filters
from benchmarks.indexing import measure_indexing
from benchmarks.machine import REPOSITORY, conditions
from benchmarks.quality import TARGETS, measure, quality_table
from benchmarks.report import Figure, between_markers, bullets, figure_table
from benchmarks.scale import measure_scale
from benchmarks.serving import measure_serving
from benchmarks.speed import measure_command
from benchmarks.trust import Trusted, measure_trust, trust_summary, trust_table
from lastro.app import App, build
from lastro.config import load_settings
from lastro.errors import ConfigError, LastroError, exit_code

DATA_VARIABLE = "LASTRO_BENCH_DATA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Where the figures of some parts stand, once all of them are measured in one run."""

    path: Path
    heading: str
    parts: tuple[str, ...]
    mark: str = "bench"


EXPLANATION = REPOSITORY / "docs/explanation"
PAGES = (
    Page(
        path=EXPLANATION / "how-ranking-is-measured.md",
        heading="## The figures of this release",
        parts=("quality", "speed"),
    ),
    Page(
        path=EXPLANATION / "what-it-costs.md",
        heading="## The figures",
        parts=("scale", "indexing"),
    ),
    Page(
        path=EXPLANATION / "what-it-costs.md",
        heading="## Filters over entries",
        parts=("filters",),
        mark="bench-filters",
    ),
    Page(
        path=EXPLANATION / "what-it-costs.md",
        heading="## Events",
        parts=("events",),
        mark="bench-events",
    ),
    Page(
        path=EXPLANATION / "what-it-costs.md",
        heading="## Over HTTP",
        parts=("serving",),
        mark="bench-serving",
    ),
    Page(
        path=EXPLANATION / "what-it-costs.md",
        heading="## Search while the index changes",
        parts=("during",),
        mark="bench-during",
    ),
    Page(
        path=EXPLANATION / "how-far-vectors-are-trusted.md",
        heading="## The figures",
        parts=("trust",),
    ),
)


def main() -> int:
    """Measure what was asked for; 1 where a floor was missed."""
    options = _options()
    try:
        data = data_folder()
        with build(load_settings()) as app:
            faults = _run(app, data, options)
    except LastroError as error:
        _say(f"error: {error.message}" + (f"\nremedy: {error.remedy}" if error.remedy else ""))
        return exit_code(error)
    for fault in faults:
        _say(f"missed: {fault}")
    return 1 if faults else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").replace("`", "")
    )
    parser.add_argument("--what", nargs="+", choices=list(PARTS), default=["quality", "speed"])
    parser.add_argument(
        "--sets", nargs="+", choices=[source.name for source in SOURCES], metavar="SET"
    )
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N", help="how many to store")
    parser.add_argument(
        "--chunks", type=int, default=CHUNKS, metavar="N", help="how many are searched by during"
    )
    parser.add_argument("--print-only", action="store_true", help="leave the documentation alone")
    return parser.parse_args()


def data_folder() -> Path:
    """The folder that DATA_VARIABLE names. Errors: ConfigError where there is none."""
    named = os.environ.get(DATA_VARIABLE)
    if not named or not Path(named).is_dir():
        raise ConfigError(
            f"{DATA_VARIABLE} names no folder",
            remedy=f"set it to one that holds {', '.join(t.name for t in TARGETS)}",
        )
    return Path(named)


def _run(app: App, data: Path, options: argparse.Namespace) -> list[str]:
    faults: list[str] = []
    conditions_now = bullets(conditions(app))
    for page in PAGES:
        chosen = [part for part in page.parts if part in options.what]
        if not chosen:
            continue
        blocks: list[str] = []
        for part in chosen:
            block, missed = PARTS[part](app, data, options)
            blocks.append(block)
            faults += missed
        text = "\n\n".join([*blocks, f"Measured with:\n\n{conditions_now}"])
        print(text)  # noqa: T201
        is_whole = len(chosen) == len(page.parts) and not options.sets
        is_whole = is_whole and (options.events, options.chunks) == (EVENTS, CHUNKS)
        if is_whole and not options.print_only:
            written = between_markers(
                page.path.read_text(encoding="utf-8"),
                text,
                heading=page.heading,
                mark=page.mark,
            )
            page.path.write_text(written, encoding="utf-8")
    return faults


# --- the parts: a block of Markdown, and the floors that were missed

Part = tuple[str, list[str]]


def _quality(app: App, data: Path, options: argparse.Namespace) -> Part:
    targets = [t for t in TARGETS if not options.sets or t.name in options.sets]
    measured = measure(app, data, targets, say=_say)
    block = (
        f"nDCG@10, {_today()}, by `make bench`. Latency is that of documents in chunks:\n\n"
        f"{quality_table(measured)}"
    )
    return block, [fault for item in measured for fault in item.faults]


def _speed(_app: App, _data: Path, _options: argparse.Namespace) -> Part:
    table, missed = measure_command(say=_say)
    return f"From the shell:\n\n{table}", missed


def _scale(app: App, data: Path, _options: argparse.Namespace) -> Part:
    figures = measure_scale(app, data, say=_say)
    by = "`python -m benchmarks --what scale indexing`"
    return _figures(f"In a project of 100,000 rows, {_today()}, by {by}:", figures)


def _indexing(app: App, data: Path, _options: argparse.Namespace) -> Part:
    return _figures("Whole repositories:", measure_indexing(app, data, say=_say))


def _filters(app: App, data: Path, _options: argparse.Namespace) -> Part:
    title = f"In a knowledge base of 100,000 entries, {_today()}, by `make bench` with"
    figures = measure_filters(app, data, say=_say)
    return _figures(f'{title} `BENCH_ARGS="--what filters"`:', figures)


def _events(_app: App, _data: Path, options: argparse.Namespace) -> Part:
    title = f"Apart from indexing, {_today()}, by `python -m benchmarks --what events`:"
    return _figures(title, measure_events(count=options.events, say=_say))


def _serving(app: App, data: Path, _options: argparse.Namespace) -> Part:
    title = f"With 100,000 rows, {_today()}, by `python -m benchmarks --what serving`:"
    return _figures(title, measure_serving(app, data, say=_say))


def _during(_app: App, _data: Path, options: argparse.Namespace) -> Part:
    windows = measure_during(chunks=options.chunks, say=_say)
    title = f"In a project of {options.chunks:,} chunks, {_today()}, by"
    table = f"{during_table(windows)}\n\n{swap_notes(windows)}"
    return f"{title} `python -m benchmarks --what during`:\n\n{table}", missed(windows)


def _figures(title: str, figures: list[Figure]) -> Part:
    missed = [f"{f.name}: {f.value:.{f.digits}f}, floor {f.floor}" for f in figures if f.missed]
    return f"{title}\n\n{figure_table(figures)}", missed


def _trust(app: App, data: Path, options: argparse.Namespace) -> Part:
    looks: list[Trusted] = []
    for look in measure_trust(app, data, options.sets or [source.name for source in SOURCES]):
        _say(trust_table([look]).splitlines()[-1])
        looks.append(look)
    block = f"{_today()}, by `python -m benchmarks --what trust`:\n\n{trust_summary(looks)}"
    return f"{block}\n\n{trust_table(looks)}", [fault for look in looks for fault in look.faults]


PARTS: Mapping[str, Callable[[App, Path, argparse.Namespace], Part]] = {
    "quality": _quality,
    "speed": _speed,
    "scale": _scale,
    "indexing": _indexing,
    "filters": _filters,
    "events": _events,
    "serving": _serving,
    "during": _during,
    "trust": _trust,
}


def _today() -> str:
    return datetime.now(tz=UTC).date().isoformat()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
