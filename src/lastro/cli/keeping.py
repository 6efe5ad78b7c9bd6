"""What ``kb``, ``rules`` and ``words`` say alike of lines that they read, and of what is gone."""

from collections.abc import Iterable, Sequence

from rich.text import Text

from lastro.cli.options import Format
from lastro.cli.output import escaped, print_data, print_json, print_warning
from lastro.errors import EXIT_DONE, EXIT_PARTIAL
from lastro.json_lines import LineCounts, RefusedLine, place_of
from lastro.wire import to_json


def counted(counts: LineCounts) -> str:
    """What became of lines, in words."""
    refused = f", {len(counts.refused)} refused" if counts.refused else ""
    return f"{counts.added} added, {counts.changed} changed, {counts.unchanged} unchanged{refused}"


def warn_of_refused(refused: Sequence[RefusedLine]) -> int:
    """Warn of each refused line; the exit code that says whether there was one."""
    for line in refused:
        print_warning(f"{place_of(line)}: {line.reason}")
    return EXIT_PARTIAL if refused else EXIT_DONE


def print_stored(
    report: object, said: Iterable[Text], *, refused: Sequence[RefusedLine], format_: Format
) -> int:
    """Print what became of lines, ``said`` for people, and warn of the refused; the exit code."""
    code = warn_of_refused(refused)
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        print_data(said)
    return code


def print_removed(
    removed: Sequence[str], asked: Sequence[str], *, noun: str, format_: Format
) -> int:
    """Print what of ``asked`` was removed, and warn of the rest; the exit code that says so."""
    unknown = [name for name in dict.fromkeys(asked) if name not in removed]
    for name in unknown:
        print_warning(f"there is no {noun} {name!r}")
    if format_ is Format.JSON:
        print_json({"removed": removed, "unknown": unknown})
    else:
        print_data([Text(f"removed {escaped(name)}") for name in removed])
    return EXIT_PARTIAL if unknown else EXIT_DONE
