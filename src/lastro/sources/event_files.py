"""Files of events in any format, opened one after the other as they are read."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from lastro.errors import InvalidInput, NotFound
from lastro.event import Event
from lastro.json_lines import ReadLine, RefusedLine
from lastro.sources.transcripts import TranscriptFormat, check_format, read_transcript

STDIN = Path("-")
# The endings of transcripts in a folder. A file that is named outright may have any.
ENDINGS = (".jsonl", ".json")
_READABLE = "give files of events that you may read"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file to be read; ``name`` stands for the session where it names none itself."""

    path: Path
    name: str
    is_named: bool


def read_files(
    paths: Sequence[Path], *, format_: str = "auto", stdin: BinaryIO | None = None
) -> Iterator[ReadLine[Event] | RefusedLine]:
    """What each line of the files says, with the file's name; ``-`` stands for ``stdin``.

    Of a folder these are the files below it that end in ``.jsonl`` or ``.json``; one of no format
    that is known is passed over there, and a folder that cannot be read is refused as a line is.
    No link is followed.
    Errors: InvalidInput for a format that nobody knows or a file that cannot be read, NotFound for
    a path that is not there or cannot be reached.
    """
    check_format(format_)
    for path in paths:  # before the first of them is stored
        if path != STDIN:
            _require_there(path)
    return _read(paths, format_=cast("TranscriptFormat", format_), stdin=stdin)


def _require_there(path: Path) -> None:
    """Errors: NotFound."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # a NUL in it
        raise NotFound(
            f"there is no file {path}", remedy="give files of events, or a folder"
        ) from error
    except OSError as error:
        raise NotFound(f"{path} cannot be reached: {error.strerror}", remedy=_READABLE) from error


def _read(
    paths: Sequence[Path], *, format_: TranscriptFormat, stdin: BinaryIO | None
) -> Iterator[ReadLine[Event] | RefusedLine]:
    for path in paths:
        for file in _files(path):
            if isinstance(file, RefusedLine):
                yield file
                continue
            for read in _read_one(file, format_=format_, stdin=stdin):
                yield read if path == STDIN else replace(read, file=str(file.path))


def _read_one(
    file: _File, *, format_: TranscriptFormat, stdin: BinaryIO | None
) -> Iterator[ReadLine[Event] | RefusedLine]:
    """Of many files one that cannot be read is told, and the others go in. Errors: InvalidInput."""
    try:
        stream = _opened(file.path, stdin=stdin)
    except InvalidInput as error:
        if file.is_named:
            raise
        yield RefusedLine(line=1, reason=error.message)
        return
    with stream as lines:
        yield from read_transcript(lines, name=file.name, format_=format_, is_named=file.is_named)


def _files(path: Path) -> Iterator[_File | RefusedLine]:
    """The file, or those of a folder by name, and what of it cannot be looked into."""
    if path == STDIN or not path.is_dir():
        yield _File(path=path, name=path.stem, is_named=True)
        return
    shut: list[OSError] = []
    for folder, folders, names in os.walk(path, onerror=shut.append):
        yield from _refused(shut)
        folders.sort()
        for name in sorted(names):
            file = Path(folder) / name
            if name.endswith(ENDINGS) and _is_file(file, shut):
                inside = file.relative_to(path).with_suffix("").as_posix()
                yield _File(path=file, name=inside, is_named=False)
    yield from _refused(shut)


def _is_file(path: Path, shut: list[OSError]) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError as error:  # its folder tells names, and nothing else
        shut.append(error)
        return False


def _refused(shut: list[OSError]) -> Iterator[RefusedLine]:
    """What could not be read until now, once."""
    for error in shut:
        place = os.fsdecode(error.filename)
        yield RefusedLine(file=place, line=1, reason=_unreadable(place, error).message)
    shut.clear()


def _opened(path: Path, *, stdin: BinaryIO | None) -> AbstractContextManager[BinaryIO]:
    if path == STDIN:
        if stdin is None:
            raise InvalidInput("standard input is closed", remedy=_READABLE)
        return nullcontext(stdin)
    try:
        return path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(place: Path | str, error: OSError) -> InvalidInput:
    return InvalidInput(f"{place} cannot be read: {error.strerror}", remedy=_READABLE)
