"""Files of events, opened one after the other as they are read."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from lastro.errors import InvalidInput, NotFound
from lastro.event import Event, read_events
from lastro.json_lines import ReadLine, RefusedLine

FORMATS = ("auto", "lastro")
STDIN = Path("-")
_READABLE = "give files of events that you may read"


def read_files(
    paths: Sequence[Path], *, format_: str = "auto", stdin: BinaryIO | None = None
) -> Iterator[ReadLine[Event] | RefusedLine]:
    """What each line of the files says, with the file's name; ``-`` stands for ``stdin``.

    Errors: InvalidInput for a format that nobody knows or a file that cannot be read, NotFound.
    """
    if format_ not in FORMATS:
        raise InvalidInput(
            f"there is no format {format_!r} of events", remedy=f"use {', '.join(FORMATS)}"
        )
    for path in paths:  # before the first of them is stored
        if path != STDIN and not path.exists():
            raise NotFound(f"there is no file {path}", remedy="give a file of events")
    return _read(paths, stdin=stdin)


def _read(
    paths: Sequence[Path], *, stdin: BinaryIO | None
) -> Iterator[ReadLine[Event] | RefusedLine]:
    for path in paths:
        with _opened(path, stdin=stdin) as stream:
            for read in read_events(stream):
                yield read if path == STDIN else replace(read, file=str(path))


def _opened(path: Path, *, stdin: BinaryIO | None) -> AbstractContextManager[BinaryIO]:
    if path == STDIN:
        if stdin is None:
            raise InvalidInput("standard input is closed", remedy=_READABLE)
        return nullcontext(stdin)
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}", remedy=_READABLE) from error
