"""``lastro embedder``: whose vectors are searched, and the switch to another embedder."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.options import Format, FormatOption
from lastro.cli.output import (
    escaped,
    print_data,
    print_json,
    print_step,
    print_warning,
    progress_bar,
)
from lastro.cli.tables import moment, pairs
from lastro.config import load_settings
from lastro.errors import EXIT_DONE, EXIT_PARTIAL, InvalidInput
from lastro.precedence import behind_others
from lastro.wire import to_json

if TYPE_CHECKING:
    from lastro.switching import EmbedderRef, EmbedderStatus, SwitchReport, SwitchState

app = typer.Typer(help="Whose vectors are searched, and the switch to another embedder.")


@app.callback(invoke_without_command=True)
def embedder(context: typer.Context, *, format_: FormatOption = Format.TABLE) -> None:
    """Show whose vectors are searched, and how far a switch is."""
    if context.invoked_subcommand is None:
        status(format_=format_)


@app.command("status")
def status(*, format_: FormatOption = Format.TABLE) -> None:
    """Show whose vectors are searched, and how far a switch is."""
    with build(load_settings()) as lastro:
        found = lastro.embedder_switch().status()
    if format_ is Format.JSON:
        print_json(to_json(found))
    else:
        print_data([pairs(_described(found))])


@app.command("switch")
def switch(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NEW]", help="The embedder, as in LASTRO_EMBEDDER."),
    ] = None,
    *,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Give up a switch that is under way.")
    ] = False,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Search with another embedder, while searches go on; goes on where it stopped."""
    if abandon == (name is not None):
        raise InvalidInput(
            "name the new embedder, or say --abandon", remedy="see `lastro embedder status`"
        )
    with build(load_settings()) as lastro:
        if name is None:
            given_up = lastro.embedder_switch().abandon()
            if format_ is Format.JSON:
                print_json({"abandoned": to_json(given_up)})
            else:
                print_data([Text(f"the switch to {_said(given_up)} is given up")])
            return EXIT_DONE
        with behind_others(), progress_bar("switching") as progress:
            report = lastro.embedder_switch().run(name, progress=progress, say=print_step)
    for refused in report.refused:
        print_warning(f"{refused.path}: {refused.reason}")
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        print_data(_done(report))
    return EXIT_PARTIAL if report.refused else EXIT_DONE


def _described(found: "EmbedderStatus") -> dict[str, object]:
    told: dict[str, object] = {
        "set": found.configured,
        "searched": "no vector yet" if found.active is None else _said(found.active),
    }
    if found.switch is not None:
        told["switch"] = _progress(found.switch)
    return told


def _progress(state: "SwitchState") -> str:
    if state.phase == "swapped":
        return f"to {_said(state.to)}: swapped; run it again to measure the new vectors"
    share = 100 * state.done // state.total if state.total else 100
    working = "at work now" if state.running else "interrupted; run it again to go on"
    return (
        f"to {_said(state.to)}: {state.done} of {state.total} rows ({share}%), "
        f"since {moment(state.started_at)}, {working}"
    )


def _done(report: "SwitchReport") -> Iterator[Text]:
    if report.before == report.active:
        yield Text(f"vectors of {_said(report.active)} are searched already")
    else:
        yield Text(
            f"switched from {_said(report.before)} to {_said(report.active)}: "
            f"{report.chunks} rows in {report.took_ms / 1000:.1f} s"
        )
    yield Text(
        f"set LASTRO_EMBEDDER={escaped(report.active.id)} now, wherever Lastro runs, and start "
        "again what runs on"
    )


def _said(ref: "EmbedderRef") -> str:
    return f"{escaped(ref.id)} {escaped(ref.version)} ({ref.dimension})"
