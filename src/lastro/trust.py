"""How far an embedder can be trusted on a corpus, told from the corpus itself. Pure.

A sentence of a passage is asked. For an embedder that knows the texts, the passages that share its
words lie nearer to it than others; for one to which they are noise, they lie anywhere.
Source: docs/adr/0020.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np
import regex
from numpy.typing import NDArray

from lastro.profiles import Profile

# A sentence that says enough to be told from others, and is no paragraph, in characters.
SENTENCE_CHARS = (40, 240)
CJK_SENTENCE_CHARS = (10, 100)
LETTER_SHARE = 0.6
# Agreement, in spreads of a question's cosines, at which an embedder knows nothing of a corpus, and
# at which it is at home. Source: docs/adr/0020.
NOISE = 0.5
HOME = 1.0
# Fewer rows agree less by themselves: factor of both bounds at 50 rows, and its rise per doubling.
SMALL_FACTOR = 0.57
SMALL_RISE = 0.215
SMALL_ROWS = 50
# Mean reciprocal rank of a sentence's own passage by words, below which the words are noise and
# agreement with them says nothing; .86 to 1 on eight public sets. Source: docs/adr/0020.
LEAST_LEXICAL_MRR = 0.5
# Fewer say nothing.
LEAST_ROWS = 20
LEAST_QUESTIONS = 16

_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
_LETTER = regex.compile(r"\p{L}")
_PIECE_END = regex.compile(r"(?<=[.!?;:])\s+|(?<=[。！？；])|\n+")


def sentence_of(content: str, *, id_: UUID) -> str | None:
    """One sentence of a passage, the same one each time; None where it has none to ask."""
    pieces = (piece.strip() for piece in _PIECE_END.split(content))
    found = [piece for piece in pieces if _is_sentence(piece)]
    return found[id_.int % len(found)] if found else None


def _is_sentence(piece: str) -> bool:
    low, high = CJK_SENTENCE_CHARS if _CJK.search(piece) else SENTENCE_CHARS
    letters = len(_LETTER.findall(piece))
    return low <= len(piece) <= high and letters > LETTER_SHARE * len(piece)


def agreement(near: Sequence[float], pool: NDArray[np.float32]) -> float | None:
    """How much nearer some rows lie than the corpus, in spreads of a question's cosines.

    ``near`` are the cosines of the rows that share its words, ``pool`` those of rows by chance, its
    own passage left out of both; None where these are all alike.
    """
    spread = float(pool.std())
    if not spread > 0:
        return None
    return (sum(near) / len(near) - float(pool.mean())) / spread


def trust(agreements: Sequence[float], *, row_count: int, lexical_mrr: float) -> float | None:
    """The share of its weight that the vector leg deserves, in [0, 1]; None if nobody can tell.

    The mean agreement, from ``NOISE`` to ``HOME``; with few rows both bounds are lower, and below
    ``SMALL_ROWS`` the estimate counts in part. Nobody can where too few were asked, or the words do
    not even find the passages that the sentences were taken from.
    """
    if row_count < LEAST_ROWS or len(agreements) < LEAST_QUESTIONS:
        return None
    if lexical_mrr < LEAST_LEXICAL_MRR:
        return None
    doublings = math.log2(max(row_count, SMALL_ROWS) / SMALL_ROWS)
    factor = min(1.0, SMALL_FACTOR + SMALL_RISE * doublings)
    mean = sum(agreements) / len(agreements)
    measured = min(max((mean / factor - NOISE) / (HOME - NOISE), 0.0), 1.0)
    return 1 + min(1.0, row_count / SMALL_ROWS) * (measured - 1)


def trusted(profile: Profile, share: float, *, provenance: str) -> Profile:
    """``profile`` with that share of its vector weight; the words get the rest."""
    vector = profile.vector_weight * share
    return replace(
        profile,
        vector_weight=vector,
        lexical_weight=profile.lexical_weight + profile.vector_weight - vector,
        calibrated="self",
        provenance=provenance,
    )
