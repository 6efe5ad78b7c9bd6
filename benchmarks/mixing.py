"""Whether an answer is of one piece: one embedder's vectors, and documents whole old or whole new.

Judged from outside, by what a client was given: the vector score of every hit must be the exact
cosine of the question and the row's text in the space of the embedder that answered, and all hits
of one document must be of one edition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.asking import Asked
from benchmarks.drawn_pages import edition_of
from lastro.embedders import Embedder

# Text of a row to its vector.
Spaces = dict[str, NDArray[np.float32]]
# What a search may say of itself while its project is indexed.
EXPECTED = frozenset({"index_incomplete", "lexical_sampled", "lexical_no_terms"})
# Vectors are stored and compared with eleven bits to a number.
TOLERANCE = 1e-3
# Questions that are embedded at once.
BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How many answers were errors or less than they should be, and how many were mixed.

    ``by_embedder`` and ``by_edition`` count answers; ``refused`` those that came from the next
    embedder because the first was no longer searched.
    """

    errors: int
    mixed: int
    hits: int
    refused: int
    by_embedder: Mapping[str, int]
    faults: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Knows the vectors of every text in every space, and the embedders that made them."""

    spaces: Mapping[str, Spaces]
    embedders: Mapping[str, Embedder]

    def all(self, asked: Sequence[Asked]) -> Judged:
        """Judge the answers of a window."""
        lacking = [lack for one in asked if (lack := _lack(one)) is not None]
        mixed = [
            fault
            for name in self.spaces
            for one, question in self._embedded([one for one in asked if one.embedder == name])
            if (fault := _mix(one, question, self.spaces[name])) is not None
        ]
        return Judged(
            errors=len(lacking),
            mixed=len(mixed),
            hits=sum(len(one.hits) for one in asked),
            refused=sum(one.refused for one in asked),
            by_embedder={n: sum(one.embedder == n for one in asked) for n in self.spaces},
            faults=[*lacking, *mixed],
        )

    def _embedded(self, asked: Sequence[Asked]) -> list[tuple[Asked, NDArray[np.float32]]]:
        pairs: list[tuple[Asked, NDArray[np.float32]]] = []
        for start in range(0, len(asked), BATCH):
            part = asked[start : start + BATCH]
            vectors = self.embedders[part[0].embedder].embed(
                [one.question for one in part], "query"
            )
            pairs += zip(part, vectors, strict=True)
        return pairs


def _lack(one: Asked) -> str | None:
    """What an answer lacks."""
    if one.error is not None:
        return one.error
    if not one.vector_available:
        return f"answered without vectors: {one.question}"
    unexpected = set(one.degraded) - EXPECTED
    return f"degraded: {', '.join(sorted(unexpected))}" if unexpected else None


def _mix(one: Asked, question: NDArray[np.float32], space: Spaces) -> str | None:
    """What in an answer does not belong together."""
    editions: dict[str, int | None] = {}
    for path, content, score in one.hits:
        edition = edition_of(content)
        if editions.setdefault(path, edition) != edition:
            return f"{path} is of editions {editions[path]} and {edition} in one answer"
        vector = space.get(content)
        if vector is None:
            return f"{path} has a text that {one.embedder} has no vector of"
        if score is not None and abs(score - _cosine(question, vector)) > TOLERANCE:
            exact = _cosine(question, vector)
            return f"{path}: vector score {score:.4f}, and {exact:.4f} with {one.embedder}"
    return None


def _cosine(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    return float(left @ right / np.sqrt((left @ left) * (right @ right)))
