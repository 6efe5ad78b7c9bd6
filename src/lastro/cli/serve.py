"""``lastro serve``."""

from dataclasses import replace
from typing import Annotated

import typer

from lastro.cli.output import print_note
from lastro.config import load_settings


def serve(
    *,
    host: Annotated[
        str | None, typer.Option("--host", metavar="H", help="Address to listen on.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", help="Port to listen on.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="Processes that answer.")
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open", help="Ask for no key; only on this machine.")
    ] = False,
) -> None:
    """Answer requests over HTTP until it is stopped."""
    from lastro.http.serving import serve as serve_http

    settings = load_settings()
    said = {"host": host, "port": port, "workers": workers}
    http = replace(
        settings.http, **{key: value for key, value in said.items() if value is not None}
    )
    serve_http(replace(settings, http=http), is_open=open_, say=print_note)
