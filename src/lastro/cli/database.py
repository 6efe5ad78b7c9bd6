"""``lastro init`` and ``lastro db``: the schema, and the embedded server."""

from pathlib import Path
from typing import Annotated

import typer

from lastro.app import embedded, prepare_database, waiting_migrations
from lastro.cli.options import Format, FormatOption
from lastro.cli.output import print_data, print_json, print_step, print_warning
from lastro.cli.tables import pairs
from lastro.config import load_settings
from lastro.db.embedded import EmbeddedStatus
from lastro.errors import ConfigError
from lastro.wire import to_json

app = typer.Typer(help="Start, stop or describe the embedded server.")


def init(
    *,
    finish: Annotated[
        bool,
        typer.Option("--finish", help="Also do what waits until the former release is gone."),
    ] = False,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Create or migrate the schema; needed only on your own server."""
    settings = load_settings()
    applied = prepare_database(settings, finish=finish)
    waiting = waiting_migrations(settings)
    if waiting:
        print_warning(
            f"migrations that wait: {waiting}; when no process of the former release runs any "
            "more, run `lastro init --finish`"
        )
    if format_ is Format.JSON:
        print_json({"migrationsApplied": applied, "migrationsWaiting": waiting})
    elif applied:
        print_data([f"the schema is ready; migrations applied: {applied}"])
    else:
        print_data(["the schema was ready; nothing was done"])


@app.command()
def start(*, format_: FormatOption = Format.TABLE) -> None:
    """Create, start and migrate the embedded database."""
    settings = load_settings()
    if settings.database_url is not None:
        raise ConfigError(
            "LASTRO_DATABASE_URL names a server, so no embedded one is started",
            remedy="unset it (see `lastro config`) to use the embedded database",
        )
    prepare_database(settings)
    _print_status(embedded(settings).status(), format_)


@app.command()
def stop(*, format_: FormatOption = Format.TABLE) -> None:
    """Stop the embedded server; the index is kept."""
    stopped = embedded(load_settings()).stop()
    if format_ is Format.JSON:
        print_json({"stopped": stopped})
    else:
        print_data(["stopped" if stopped else "was not running"])


@app.command()
def status(*, format_: FormatOption = Format.TABLE) -> None:
    """Describe the embedded server without starting it."""
    settings = load_settings()
    if settings.database_url is not None:
        print_warning("LASTRO_DATABASE_URL names a server; commands use that, not this one")
    _print_status(embedded(settings).status(), format_)


@app.command()
def upgrade(
    *,
    old_programs: Annotated[
        Path | None,
        typer.Option(help="The bin folder of the PostgreSQL that made the database."),
    ] = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Copy an older PostgreSQL's embedded database into one of the present PostgreSQL."""
    settings = load_settings()
    if settings.database_url is not None:
        raise ConfigError(
            "LASTRO_DATABASE_URL names a server, whose administrator upgrades it",
            remedy="unset it (see `lastro config`) to upgrade the embedded database",
        )
    done = embedded(settings).upgrade(old_programs=old_programs, say=print_step)
    if format_ is Format.JSON:
        print_json(to_json(done))
    elif done.from_version == done.to_version:
        print_data([f"the database is of PostgreSQL {done.to_version} already; nothing was done"])
    else:
        copied = f"copied and counted: {done.tables} tables, {done.rows} rows"
        print_data([f"upgraded from PostgreSQL {done.from_version} to {done.to_version}; {copied}"])


def _print_status(status: EmbeddedStatus, format_: Format) -> None:
    value = to_json(status)
    if format_ is Format.JSON:
        print_json(value)
        return
    print_data([pairs(value)])
