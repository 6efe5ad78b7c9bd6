"""``lastro profiles``: the ranking numbers of a project, adopted and rolled back."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from lastro.adoption import KnownProfile, known_json
from lastro.app import build
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import escaped, print_data, print_json, screen_width
from lastro.cli.tables import moment, pairs
from lastro.config import load_settings
from lastro.profiles import Profile, Thresholds
from lastro.wire import to_json

app = typer.Typer(help="Show, adopt and roll back ranking profiles.")
VersionArgument = Annotated[
    str, typer.Argument(metavar="NAME@VERSION", help="A version that `lastro profiles` shows.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A profile, such as default.")]


@app.callback(invoke_without_command=True)
def profiles(
    context: typer.Context, *, project: ProjectOption = None, format_: FormatOption = Format.TABLE
) -> None:
    """Show every profile with its numbers and where they come from; * marks what answers."""
    if context.invoked_subcommand is not None:
        return
    with build(load_settings()) as lastro:
        found = lastro.profiles(project).list()
    if format_ is Format.JSON:
        print_json({"profiles": [known_json(known) for known in found]})
    else:
        print_data(_lines(found))


@app.command()
def adopt(
    version: VersionArgument, *, project: ProjectOption = None, format_: FormatOption = Format.TABLE
) -> None:
    """Answer with this version where a search asks for its name."""
    with build(load_settings()) as lastro:
        profile = lastro.profiles(project).adopt(version)
    _print_answering(profile, format_)


@app.command()
def rollback(
    name: NameArgument, *, project: ProjectOption = None, format_: FormatOption = Format.TABLE
) -> None:
    """Undo the last adoption of this name."""
    with build(load_settings()) as lastro:
        profile = lastro.profiles(project).roll_back(name)
    _print_answering(profile, format_)


def _print_answering(profile: Profile, format_: Format) -> None:
    if format_ is Format.JSON:
        print_json({"profile": to_json(profile.ref)})
    else:
        print_data([f"{profile.name} v{profile.version} answers now"])


def _lines(found: Sequence[KnownProfile]) -> Iterator[Text]:
    for known in found:
        profile = known.profile
        mark = " *" if known.adopted else ""
        yield Text.assemble((escaped(profile.name), "bold"), f" v{profile.version}{mark}")
        yield pairs(_shown(known), indent=4, width=screen_width())
        yield Text()


def _shown(known: KnownProfile) -> dict[str, Any]:
    """The numbers that play a part: of ranks or of scores, and of weights above 0."""
    profile = known.profile
    idle = {"name", "version", "rrfK" if profile.fusion == "weighted" else "cosine"}
    if not profile.rule_weight:
        idle.add("ruleWeight")
    if not profile.freshness_weight:
        idle |= {"freshnessWeight", "halfLifeDays"}
    values: dict[str, Any] = to_json(profile)
    shown = {key: entry for key, entry in values.items() if key not in idle}
    if isinstance(known.profile.threshold, Thresholds):
        shown["threshold"] = ", ".join(
            f"{key} {entry}" for key, entry in values["threshold"].items()
        )
    if known.created_at is not None:
        shown["made"] = moment(known.created_at)
    return shown
