"""Commands that only look: coverage, doctor."""

from lastro.app import build, diagnose
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import print_data, print_json
from lastro.cli.tables import check_lines, coverage_lines
from lastro.config import load_settings
from lastro.doctor import failed
from lastro.errors import EXIT_DONE, EXIT_FAILED, ConfigError
from lastro.wire import to_json


def coverage(*, project: ProjectOption = None, format_: FormatOption = Format.TABLE) -> None:
    """Show what a project's index holds, and how far its sources have moved on."""
    with build(load_settings()) as app:
        found = app.coverage(project)
    if format_ is Format.JSON:
        print_json(to_json(found))
    else:
        print_data(coverage_lines(found))


def doctor(*, format_: FormatOption = Format.TABLE) -> int:
    """Look for trouble, and say what mends it."""
    try:
        checks = diagnose(load_settings())
    except ConfigError as error:
        checks = [failed("settings", error)]
    is_well = all(check.status != "fail" for check in checks)
    if format_ is Format.JSON:
        print_json({"ok": is_well, "checks": to_json(checks)})
    else:
        print_data(line for check in checks for line in check_lines(check))
    return EXIT_DONE if is_well else EXIT_FAILED
