"""The command ``lastro``: its parts, and how it ends."""

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from itertools import pairwise
from typing import Annotated

import typer

from lastro.cli import (
    calibrate,
    configuration,
    database,
    embedder,
    erasing,
    evaluate,
    gaps,
    golden,
    inspecting,
    jobs,
    kb,
    keys,
    moving,
    profiles,
    rules,
    searches,
    serve,
    sessions,
    triggers,
    usage,
    why,
    words,
    working,
)
from lastro.cli.options import Format
from lastro.cli.output import forget, prepare_streams, print_data, print_error
from lastro.errors import EXIT_DONE, EXIT_FAILED, InvalidInput, LastroError, exit_code

EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells say it

app = typer.Typer(
    name="lastro",
    help="Retrieval you can cite, on the PostgreSQL you already run.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("index")(working.index)
app.command("reindex")(working.reindex)
app.command("watch")(triggers.watch)
app.command("search")(working.search)
app.command("searches")(searches.searches)
app.command("why")(why.why)
app.command("calibrate")(calibrate.calibrate)
app.command("coverage")(inspecting.coverage)
app.command("export")(moving.export)
app.command("import")(moving.import_)
app.command("config")(configuration.config)
app.command("doctor")(inspecting.doctor)
app.command("usage")(usage.usage)
app.command("init")(database.init)
app.command("worker")(jobs.worker)
app.command("serve")(serve.serve)
app.add_typer(database.app, name="db")
app.add_typer(embedder.app, name="embedder")
app.add_typer(evaluate.app, name="eval")
app.add_typer(gaps.app, name="gaps")
app.add_typer(golden.app, name="golden")
app.add_typer(triggers.hook_app, name="hook")
app.add_typer(jobs.app, name="jobs")
app.add_typer(kb.app, name="kb")
app.add_typer(keys.app, name="keys")
app.add_typer(profiles.app, name="profiles")
app.add_typer(rules.app, name="rules")
app.add_typer(sessions.app, name="sessions")
app.add_typer(erasing.projects_app, name="projects")
app.add_typer(erasing.documents_app, name="documents")
app.add_typer(words.app, name="words")


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer's calling convention
    if asked:
        print_data([f"lastro {version('lastro')}"])
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the release and exit."
        ),
    ] = False,
) -> None:
    """Retrieval you can cite, on the PostgreSQL you already run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; never raises."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    prepare_streams()
    # The pool logs each failed attempt to connect; what it means is in the error that we print.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    code = _run(words)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            forget(stream)
        except OSError:
            forget(stream)
            code = code or EXIT_FAILED
    return code


def _run(words: list[str]) -> int:
    try:
        result = app(words, prog_name="lastro", standalone_mode=False)
    except LastroError as error:
        print_error(error, _format_of(words))
        return exit_code(error)
    except typer.TyperException as error:
        print_error(_usage_error(error), _format_of(words))
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one line, and how to see more
        if os.environ.get("LASTRO_DEBUG"):
            traceback.print_exc()
        print_error(_internal_error(error), _format_of(words))
        return EXIT_FAILED
    return result if isinstance(result, int) else EXIT_DONE


def _format_of(words: Sequence[str]) -> Format:
    """The format asked for, also where the words could not be parsed."""
    asked = [word.removeprefix("--format=") for word in words if word.startswith("--format=")]
    asked += [after for word, after in pairwise(words) if word == "--format"]
    return Format.JSON if Format.JSON in asked else Format.TABLE


def _usage_error(error: typer.TyperException) -> InvalidInput:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "lastro"
    return InvalidInput(" ".join(error.format_message().split()), remedy=f"see `{command} --help`")


def _internal_error(error: Exception) -> LastroError:
    said = str(error).strip().partition("\n")[0]
    if isinstance(error, OSError):
        return LastroError(said, remedy=None)
    return LastroError(
        f"this should not have happened: {type(error).__name__}: {said}",
        remedy="run the command again with LASTRO_DEBUG=1 to see where, and report it",
    )
