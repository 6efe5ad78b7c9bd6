"""The two streams: data on stdout, everything else on stderr, whatever they lead to."""

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Generator, Iterable
from itertools import chain
from pathlib import Path
from textwrap import indent
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from lastro.cli.options import Format
from lastro.errors import InvalidInput, LastroError
from lastro.golden_lines import InvalidGolden
from lastro.types import Progress as ProgressCall
from lastro.wire import error_json

# Tables in a pipe are as wide as they need; 80 columns are for terminals that do not tell.
PIPE_WIDTH = 100_000
DEFAULT_WIDTH = 80
MAX_TEXT_WIDTH = 100
# Data that is written at once, of what comes bit by bit.
WRITTEN_CHARS = 2**18

# What a terminal would obey or draw over: C0 and C1 controls, and marks that turn text around.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# JSON escapes C0 by itself.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def prepare_streams() -> None:
    """Let no character stop a command: what a stream's encoding lacks is written escaped.

    A stream that was closed before the command began takes what is written, and keeps nothing.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def visible(text: str) -> str:
    """``text`` with each control character as one that is seen, of the same length."""
    return _UNSAFE.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] in "\t\n":
        return match[0]
    if code == 0x7F:
        return "\u2421"
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def escaped(name: str) -> str:
    r"""A file's name on one line, with controls and lone surrogates as ``\x1b`` or ``\udc80``."""
    safe = _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), name)
    return safe.encode("utf-8", "backslashreplace").decode("utf-8")


def text_width(console: Console) -> int:
    """Columns for running text on ``console``."""
    if console.is_terminal:
        return min(console.width, MAX_TEXT_WIDTH)
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) >= 40 else DEFAULT_WIDTH


def screen_width() -> int | None:
    """Columns of the screen that stdout leads to; None where it leads elsewhere."""
    console = stdout()
    return console.width if console.is_terminal else None


def stdout() -> Console:
    """The console for data; without colour where it is no terminal."""
    return _console(sys.stdout)


def stderr() -> Console:
    """The console for progress, warnings and errors."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    width = None if file.isatty() else PIPE_WIDTH
    return Console(file=file, highlight=False, markup=False, emoji=False, width=width)


def print_json(value: Any) -> None:
    """Print a JSON value as data."""
    _write(_json(value, sys.stdout) + "\n", sys.stdout)


def print_json_lines(values: Iterable[Any]) -> None:
    """Print JSON values as data, each on a line of its own."""
    _write_parts(f"{_json(value, sys.stdout, indent=None)}\n" for value in values)


def print_json_list(name: str, values: Iterable[Any]) -> None:
    """Print an object of one list as data, as ``print_json`` does, and hold little of it."""
    items = (indent(_json(value, sys.stdout), "    ") for value in values)
    first = next(items, None)
    parts: Iterable[str] = ["]"]
    if first is not None:
        parts = chain([f"\n{first}"], (f",\n{item}" for item in items), ["\n  ]"])
    _write_parts(chain([f"{{\n  {json.dumps(name)}: ["], parts, ["\n}\n"]))


def print_data(lines: Iterable[str | Text]) -> None:
    """Print data, a line for each part."""
    _write(_rendered(lines, stdout()), sys.stdout)


def emit_json(value: Any, out: Path | None) -> None:
    """Print a JSON value as data, or write it to ``out``. Errors: InvalidInput."""
    if out is None:
        print_json(value)
    else:
        emit_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", out)


def emit_data(lines: Iterable[str | Text], out: Path | None) -> None:
    """Print data, a line for each part, or write it to ``out``. Errors: InvalidInput."""
    if out is None:
        print_data(lines)
    else:
        emit_text(_rendered(lines, _console(io.StringIO())), out)


def emit_text(text: str, out: Path | None) -> None:
    """Print a text as data, or write it to ``out`` in UTF-8. Errors: InvalidInput."""
    if out is None:
        _write(text, sys.stdout)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"{out} cannot be written: {error.strerror}",
            remedy="name a file in a folder that is there and yours",
        ) from error


def _rendered(lines: Iterable[str | Text], console: Console) -> str:
    with console.capture() as captured:
        for line in lines:
            console.print(line, soft_wrap=True)
    return captured.get()


def _write_parts(parts: Iterable[str]) -> None:
    """Write data that may be longer than memory, some of it at a time."""
    held: list[str] = []
    chars = 0
    for part in parts:
        held.append(part)
        chars += len(part)
        if chars >= WRITTEN_CHARS:
            _write("".join(held), sys.stdout)
            held, chars = [], 0
    _write("".join(held), sys.stdout)


def _write(text: str, stream: TextIO) -> None:
    """Write and flush; a reader who has gone away ends the printing, not the command."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        forget(stream)


def forget(stream: TextIO) -> None:
    """Send what is still to be written nowhere: its reader has gone."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def print_step(text: str) -> None:
    """Print on stderr what is being done."""
    _say(Text(escaped(text)))


def print_warning(text: str) -> None:
    """Print one warning on stderr."""
    _say(Text.assemble(("warning: ", "yellow"), escaped(text)))


def print_note(text: str) -> None:
    """Print one line on stderr that is no trouble."""
    _say(Text(escaped(text)))


def print_failure(text: str) -> None:
    """Print on stderr one demand that was not met."""
    _say(Text.assemble(("failed: ", "bold red"), escaped(text)))


def print_error(error: LastroError, format_: Format) -> None:
    """Print an error on stderr: what happened and what to do, or the contract's JSON."""
    if format_ is Format.JSON:
        _say(Text(_json(error_json(error), sys.stderr)))
        return
    faults = error.faults if isinstance(error, InvalidGolden) else ()
    message = error.summary if isinstance(error, InvalidGolden) else error.message
    # What a log said follows on lines of its own, set in; any other line break is shown as such.
    shown = "\n  ".join(map(escaped, message.split("\n  ")))
    _say(Text.assemble(("error: ", "bold red"), shown))
    for fault in faults:
        _say(Text(f"    {escaped(fault)}"))
    if error.remedy is not None:
        _say(Text.assemble(("remedy: ", "bold"), escaped(error.remedy)))


def _say(text: Text) -> None:
    _write(_rendered([text], stderr()), sys.stderr)


def _json(value: Any, stream: TextIO, *, indent: int | None = 2) -> str:
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not utf8, indent=indent)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@contextlib.contextmanager
def progress_bar(what: str) -> Generator[ProgressCall]:
    """A bar on stderr while it is a terminal, and gone afterwards; nothing elsewhere."""
    console = stderr()
    columns = (TextColumn(what), BarColumn(bar_width=30), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as p:
        task = p.add_task(what, total=None)
        yield lambda done, total: p.update(task, completed=done, total=total)
