"""Vectors for tests and development: no meaning, but always the same."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lastro.embedders.protocol import NO_PREFIXES, Role, checked, readable

DIMENSION = 1024
_VALUE_BYTES = 4
_BLOCKS = DIMENSION * _VALUE_BYTES // hashlib.sha256().digest_size


class DeterministicEmbedder:
    """Equal texts get equal vectors in either role, different texts nearly orthogonal ones.

    Cosines of different texts have mean 0 and spread 1/sqrt(1024) = 0.03.
    """

    id: str = "deterministic"
    version: str = "1"
    dimension: int = DIMENSION
    max_chars: int = 1_000_000
    prefixes: Mapping[Role, str] = NO_PREFIXES

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:  # noqa: ARG002
        """Return one unit vector a text, shape (n, 1024)."""
        read = readable(texts, max_chars=self.max_chars)
        vectors = np.empty((len(read), DIMENSION), dtype=np.float32)
        for row, text in zip(vectors, read, strict=True):
            row[:] = _unit_vector(text)
        return checked(vectors, texts=texts, dimension=DIMENSION, embedder=self.id)


def _unit_vector(text: str) -> NDArray[np.float64]:
    # SHA-256 in counter mode: unlike a numpy generator, the same in every version and machine.
    seed = hashlib.sha256(text.encode()).digest()
    stream = b"".join(
        hashlib.sha256(seed + block.to_bytes(4, "big")).digest() for block in range(_BLOCKS)
    )
    # Uniform in (-1, 1): the half step keeps clear of a zero.
    values = (np.frombuffer(stream, dtype=">u4").astype(np.float64) + 0.5) / 2.0**31 - 1.0
    return values / np.sqrt(values @ values)
