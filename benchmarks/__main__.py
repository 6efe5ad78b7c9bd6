"""``make bench``: figures of quality and speed, printed, and written into the documentation.

The folder that ``LASTRO_BENCH_DATA`` names holds a folder for each set, in the BEIR layout. With
``--what scale`` a project of 100,000 rows is loaded and searched, which takes some minutes.
"""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import REPOSITORY, conditions
from benchmarks.quality import TARGETS, measure, quality_table
from benchmarks.report import between_markers, bullets
from benchmarks.speed import command_table, scale_table
from lastro.app import App, build
from lastro.config import load_settings
from lastro.errors import ConfigError, LastroError, exit_code

PAGE = REPOSITORY / "docs/explanation/how-ranking-is-measured.md"
HEADING = "## The figures of this release"
DATA_VARIABLE = "LASTRO_BENCH_DATA"
PARTS = ("quality", "speed", "scale")


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
        "--sets", nargs="+", choices=[target.name for target in TARGETS], metavar="SET"
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
    block = "\n\n".join([*blocks, f"Measured with:\n\n{conditions_now}"])
    print(block)  # noqa: T201
    is_whole = {"quality", "speed"} <= set(options.what) and len(targets) == len(TARGETS)
    if is_whole and not options.print_only:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(between_markers(page, block, heading=HEADING), encoding="utf-8")
    return faults


def _today() -> str:
    return datetime.now(tz=UTC).date().isoformat()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
