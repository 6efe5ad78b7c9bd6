"""Holds numpy's matrix library to one thread while an embedder shares out the work itself.

OpenBLAS's own threads spin while they wait: on two busy cores a batch took seven times as long
with two of them as with one. One thread also gives the same bits whatever the machine has.

``threadpoolctl`` is not used: since 3.8 it obeys only the first thread that sets a limit, and a
service embeds in any of its threads.
"""

import ctypes
import functools
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Where numpy's wheels keep their libraries, beside and inside the package.
_FOLDERS = ("../numpy.libs", ".dylibs")
# As those wheels name the functions, newest first.
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)

_lock = threading.Lock()
_users = 0
_before = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenBlas:
    get_threads: Callable[[], int]
    set_threads: Callable[[int], object]


@contextmanager
def one_blas_thread() -> Generator[None, None, None]:
    """Limit the library to one thread in this process until the last such block ends.

    The limit belongs to the process, so blocks that overlap in several threads are counted: the
    first one sets it and the last one gives back what was before. A numpy that does not bring
    its own OpenBLAS (Accelerate, a distribution's build) is left as it is.
    """
    global _users, _before
    blas = _openblas()
    if blas is None:
        yield
        return
    with _lock:
        if _users == 0:
            _before = blas.get_threads()
            blas.set_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                blas.set_threads(_before)


def blas_threads() -> int | None:
    """Number of threads the library may use now; None where it cannot be told."""
    blas = _openblas()
    return None if blas is None else blas.get_threads()


@functools.cache
def _openblas() -> _OpenBlas | None:
    package = Path(np.__file__).parent
    for folder in _FOLDERS:
        for path in sorted((package / folder).glob("*openblas*")):
            # numpy has loaded it already: this is a second handle on the same library.
            library = ctypes.CDLL(str(path))
            for name in _NAMES:
                if hasattr(library, name.format("set")):
                    return _OpenBlas(
                        get_threads=getattr(library, name.format("get")),
                        set_threads=getattr(library, name.format("set")),
                    )
    return None
