"""``lastro rules``: what suits a search better, kept in a project."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.keeping import counted, print_removed, print_stored
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import escaped, print_data, print_json, screen_width
from lastro.cli.reading import opened
from lastro.cli.tables import table
from lastro.config import load_settings
from lastro.rules import RuleReport, rule_json

app = typer.Typer(help="Rules of what suits a search better, kept in a project.")
WANTED = "give a file with a rule on each line"
READABLE = "give a file of rules that you may read"


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rules in JSON Lines; - is stdin.")],
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Store nothing if any line is no rule.")
    ] = False,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Store rules over those of the same names; searches follow them at once."""
    with (
        opened(file, wanted=WANTED, readable=READABLE) as lines,
        build(load_settings()) as lastro,
    ):
        report = lastro.rules(project).import_lines(lines, strict=strict)
    return print_stored(report, _stored(report), refused=report.rules.refused, format_=format_)


def _stored(report: RuleReport) -> Iterator[Text]:
    yield Text.assemble("project ", (escaped(report.project), "bold"))
    yield Text(f"rules      {counted(report.rules)}")


@app.command("list")
def list_(*, project: ProjectOption = None, format_: FormatOption = Format.TABLE) -> None:
    """List the rules of a project by name."""
    with build(load_settings()) as lastro:
        found = lastro.rules(project).list()
    if format_ is Format.JSON:
        print_json({"rules": [rule_json(rule) for rule in found]})
        return
    rows = [(r.name, r.weight, _said(r.when), _said(r.entry), r.reason) for r in found]
    header = ("name", "weight", "when", "entry", "reason")
    nothing = "no rule; store some with `lastro rules import FILE`"
    print_data(table(header, rows, width=screen_width()) if rows else [nothing])


def _said(condition: Mapping[str, Any] | None) -> str | None:
    return None if condition is None else json.dumps(condition, ensure_ascii=False)


@app.command("rm")
def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The rules.")],
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Remove rules."""
    with build(load_settings()) as lastro:
        removed = lastro.rules(project).remove(names)
    return print_removed(removed, names, noun="rule", format_=format_)
