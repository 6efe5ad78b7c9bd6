"""A file that a command reads, or standard input."""

import contextlib
import sys
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from lastro.errors import InvalidInput, NotFound

# Stands for standard input, and output, where a file is named.
STREAM = Path("-")


@contextlib.contextmanager
def opened(file: Path, *, wanted: str, readable: str) -> Generator[BinaryIO]:
    """The bytes of ``file``, or of standard input where it is ``-``.

    ``wanted`` and ``readable`` say what to give where it is not there and where it cannot be read.
    Errors: NotFound, InvalidInput.
    """
    if file == STREAM:
        if sys.stdin is None:  # it was closed before the command began
            raise InvalidInput("standard input is closed", remedy=readable)
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"there is no file {file}", remedy=wanted) from error
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", remedy=readable) from error
    with stream:
        yield stream
