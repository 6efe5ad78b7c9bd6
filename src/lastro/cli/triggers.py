"""``lastro watch`` and ``lastro hook``: an index that follows its repository."""

import shutil
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import escaped, print_data, print_json, print_json_lines, print_note
from lastro.cli.tables import short
from lastro.config import load_settings
from lastro.errors import EXIT_DONE, ConfigError, InvalidInput
from lastro.types import DEFAULT_REF, IndexReport, IndexRequest
from lastro.watching import Pace, Watched
from lastro.wire import to_json

HERE = "."
MIN_INTERVAL_S = 0.1
# A day: who looks more seldom than that need not keep a program running.
MAX_INTERVAL_S = 86_400.0
DEFAULT_PACE = Pace()

hook_app = typer.Typer(help="Index in the background after each commit, by hooks of Git.")
FolderArgument = Annotated[str, typer.Argument(metavar="[PATH]", help="The repository's folder.")]
RefOption = Annotated[str, typer.Option("--ref", metavar="R", help="Branch, tag or commit.")]


def watch(
    path: FolderArgument = HERE,
    *,
    project: ProjectOption = None,
    ref: RefOption = DEFAULT_REF,
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Follow the files as they lie, not a commit.")
    ] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", metavar="S", help="Seconds between two looks.")
    ] = DEFAULT_PACE.interval_s,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Index a folder now and whenever it moved, until Ctrl-C or SIGTERM."""
    from lastro.triggers import watch_folder

    if not MIN_INTERVAL_S <= interval_s <= MAX_INTERVAL_S:
        raise InvalidInput(
            f"--interval is {interval_s:g} seconds",
            remedy=f"give a number from {MIN_INTERVAL_S} to {MAX_INTERVAL_S:g}",
        )
    request = IndexRequest(path=path, project=project, ref=ref, worktree=worktree)
    with _until_ended():
        for seen in watch_folder(load_settings(), request, pace=Pace(interval_s=interval_s)):
            _tell(seen, format_=format_)
    print_note(f"{_now()} ended")
    return EXIT_DONE


@contextmanager
def _until_ended() -> Generator[None]:
    """A signal to end leaves the block, also in the middle of a run: what is stored is whole."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


def _now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")


def _tell(seen: Watched, *, format_: Format) -> None:
    """One line on stderr for what came of a look or a run; the report as data for programs."""
    if seen.report is not None:
        if format_ is Format.JSON:
            print_json_lines([to_json(seen.report)])
        print_note(f"{_now()} {_line(seen.report)}")
    elif seen.back:
        print_note(f"{_now()} there again, as it was indexed")
    elif seen.error is not None:
        what = "cannot look" if seen.lost else "failed"
        remedy = f"; {seen.error.remedy}" if seen.error.remedy else ""
        print_note(" ".join(f"{_now()} {what}: {seen.error.message}{remedy}".split()))


def _line(report: IndexReport) -> str:
    counts = report.documents
    done = [
        f"{number} {what}"
        for number, what in (
            (counts.added, "added"),
            (counts.changed, "changed"),
            (counts.renamed, "renamed"),
            (counts.removed, "removed"),
            (len(counts.skipped), "skipped"),
        )
        if number
    ]
    at = f" at {short(report.revision)}" if report.revision else ""
    lacking = report.embedding
    without = f", {lacking.skipped} without a vector ({lacking.reason})" if lacking.reason else ""
    what = ", ".join(done) or "nothing changed"
    return f"indexed {report.project}{at}: {what}{without}, in {report.took_ms / 1000:.1f} s"


@hook_app.command("install")
def install(
    path: FolderArgument = HERE,
    *,
    project: ProjectOption = None,
    ref: RefOption = DEFAULT_REF,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Have Git index a folder in the background after commits, merges and switches."""
    from lastro.triggers import install_hooks

    request = IndexRequest(path=path, project=project, ref=ref)
    hooks = install_hooks(request, program=_program())
    if format_ is Format.JSON:
        print_json(to_json(hooks))
        return
    print_data(
        [
            f"installed  {', '.join(hooks.hooks)}",
            f"in         {escaped(hooks.folder)}",
            f"log        {escaped(hooks.log)}",
        ]
    )


@hook_app.command("remove")
def remove(path: FolderArgument = HERE, *, format_: FormatOption = Format.TABLE) -> None:
    """Take out of Git's hooks what `install` put in."""
    from lastro.triggers import remove_hooks

    hooks = remove_hooks(path)
    if format_ is Format.JSON:
        print_json(to_json(hooks))
        return
    print_data([f"removed    {', '.join(hooks.hooks)}", f"in         {escaped(hooks.folder)}"])


@hook_app.command("run")
def run(
    path: FolderArgument = HERE,
    *,
    project: ProjectOption = None,
    ref: RefOption = DEFAULT_REF,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Index a folder for all hooks that ask for it meanwhile; this is what they call."""
    from lastro.triggers import run_hook

    request = IndexRequest(path=path, project=project, ref=ref)
    run_hook(load_settings(), request, tell=partial(_tell, format_=format_))


def _program() -> Path:
    """The command that runs now, which may not be on the PATH of whatever runs Git later."""
    named = Path(sys.argv[0])
    found = named if named.name == "lastro" and named.is_file() else shutil.which("lastro")
    if found is None:
        raise ConfigError(
            "the program lastro is not on PATH", remedy="install it, and run it there"
        )
    return Path(found).absolute()
