"""Vectors without a model: a fixed one for each word, so that a benchmark embeds at no cost."""

import zlib
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lastro.embedders import Role, checked, readable


class WordVectors:
    """Texts as the sum of a fixed vector for each different word."""

    id: str = "words"
    version: str = "1"
    dimension: int = 512
    max_chars: int = 1_000_000
    prefixes: Mapping[Role, str] = {"query": "", "document": ""}

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:  # noqa: ARG002
        """Return one unit vector a text, shape (n, 512)."""
        sums = np.stack([self._sum(text) for text in readable(texts, max_chars=self.max_chars)])
        vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return checked(vectors, texts=texts, dimension=self.dimension, embedder=self.id)

    def _sum(self, text: str) -> NDArray[np.float32]:
        words = set(text.casefold().split()) or {""}
        return np.sum([_word_vector(word, self.dimension) for word in words], axis=0)


@cache
def _word_vector(word: str, dimension: int) -> NDArray[np.float32]:
    random = np.random.default_rng(zlib.crc32(word.encode("utf-8", "replace")))
    return random.standard_normal(dimension, dtype=np.float32)
