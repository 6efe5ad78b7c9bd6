"""``make bench``: figures of quality and speed, printed, and written into the documentation.

The folder that ``LASTRO_BENCH_DATA`` names holds a folder for each set, in the BEIR layout. With
``--what scale`` a project of 100,000 rows is loaded and searched, which takes some minutes, and
with ``--what trust`` each set with embedders that were made foreign to it, which takes an hour.
"""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.default_sets import SOURCES
from benchmarks.machine import REPOSITORY, conditions
from benchmarks.quality import TARGETS, measure, quality_table
from benchmarks.report import between_markers, bullets
from benchmarks.speed import command_table, scale_table
from benchmarks.trust import Trusted, measure_trust, trust_summary, trust_table
from lastro.app import App, build
from lastro.config import load_settings
from lastro.errors import ConfigError, LastroError, exit_code

PAGE = REPOSITORY / "docs/explanation/how-ranking-is-measured.md"
HEADING = "## The figures of this release"
DATA_VARIABLE = "LASTRO_BENCH_DATA"
TRUST_PAGE = REPOSITORY / "docs/explanation/how-far-vectors-are-trusted.md"
TRUST_HEADING = "## The figures"
PARTS = ("quality", "speed", "scale", "trust")


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
    parser.add_argument("--what", nargs="+", choices=PARTS, default=["quality", "speed"])
    parser.add_argument(
        "--sets", nargs="+", choices=[source.name for source in SOURCES], metavar="SET"
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
    blocks: list[str] = []
    faults: list[str] = []
    targets = [t for t in TARGETS if not options.sets or t.name in options.sets]
    conditions_now = bullets(conditions(app))
    if "quality" in options.what:
        measured = measure(app, data, targets, say=_say)
        faults += [fault for item in measured for fault in item.faults]
        blocks.append(
            f"nDCG@10, {_today()}, by `make bench`. Latency is that of documents in chunks:\n\n"
            f"{quality_table(measured)}"
        )
    if "speed" in options.what:
        blocks.append(f"From the shell:\n\n{command_table(say=_say)}")
    if "scale" in options.what:
        blocks.append(f"In a large project:\n\n{scale_table(app, data, say=_say)}")
    if "trust" in options.what:
        names = options.sets or [source.name for source in SOURCES]
        looks = _trusted(app, data, names)
        faults += [fault for look in looks for fault in look.faults]
        block = f"{_today()}, by `python -m benchmarks --what trust`:\n\n{trust_summary(looks)}"
        blocks.append(f"{block}\n\n{trust_table(looks)}")
        if not (options.sets or options.print_only):
            _write(TRUST_PAGE, f"{blocks[-1]}\n\n{conditions_now}", heading=TRUST_HEADING)
    block = "\n\n".join([*blocks, f"Measured with:\n\n{conditions_now}"])
    print(block)  # noqa: T201
    is_whole = {"quality", "speed"} <= set(options.what) and len(targets) == len(TARGETS)
    if is_whole and not options.print_only:
        _write(PAGE, block, heading=HEADING)
    return faults


def _trusted(app: App, data: Path, names: list[str]) -> list[Trusted]:
    looks: list[Trusted] = []
    for look in measure_trust(app, data, names):
        _say(trust_table([look]).splitlines()[-1])
        looks.append(look)
    return looks


def _write(page: Path, block: str, *, heading: str) -> None:
    text = between_markers(page.read_text(encoding="utf-8"), block, heading=heading)
    page.write_text(text, encoding="utf-8")


def _today() -> str:
    return datetime.now(tz=UTC).date().isoformat()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
