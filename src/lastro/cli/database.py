"""``lastro init`` and ``lastro db``: the schema, and the embedded server."""

import typer

from lastro.app import embedded, prepare_database
from lastro.cli.options import Format, FormatOption
from lastro.cli.output import print_data, print_json, print_warning
from lastro.cli.tables import pairs
from lastro.config import load_settings
from lastro.db.embedded import EmbeddedStatus
from lastro.errors import ConfigError
from lastro.wire import to_json

app = typer.Typer(help="Start, stop or describe the embedded server.")


def init(*, format_: FormatOption = Format.TABLE) -> None:
    """Create or migrate the schema; needed only on your own server."""
    applied = prepare_database(load_settings())
    if format_ is Format.JSON:
        print_json({"migrationsApplied": applied})
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


def _print_status(status: EmbeddedStatus, format_: Format) -> None:
    value = to_json(status)
    if format_ is Format.JSON:
        print_json(value)
        return
    print_data([pairs(value)])
