"""What a reader sees of a text: whether anything, and where it may be cut between characters."""

import unicodedata
from bisect import bisect_left

import regex

# Only these join with a neighbour (Unicode Standard Annex 29; composed Hangul joins only next to
# loose letters, which are among them). Everything else is a cluster of its own, so that plain
# text of any script costs one fast scan.
_JOINING = (
    r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}\p{GCB=Prepend}\p{GCB=Regional_Indicator}"
    r"\p{GCB=L}\p{GCB=V}\p{GCB=T}]"
)
# A flag before another is matched by hand: `\X` counts all regional indicators before each one,
# which grows with the square of a run of flags.
_FLAG = r"\p{GCB=Regional_Indicator}{2}(?=\p{GCB=Regional_Indicator})"
_CLUSTER = regex.compile(rf"(?s){_FLAG}|(?={_JOINING}|.{_JOINING})\X")

# Blanks, controls (NUL among them), and marks that are never seen, such as U+200B.
_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


def is_blank(text: str) -> bool:
    """Tell whether ``text`` shows nothing to a reader, so that no embedder may be asked for it."""
    return all(unicodedata.category(char) in _INVISIBLE for char in text)


class GraphemeIndex:
    """The extended grapheme clusters of ``text``; a cut between them is a boundary."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []
        self._ends: list[int] = []
        if not text.isascii():
            spans = (cluster.span() for cluster in _CLUSTER.finditer(text))
            for start, end in spans:
                if end - start > 1:
                    self._starts.append(start)
                    self._ends.append(end)

    def cluster_around(self, offset: int) -> tuple[int, int]:
        """Start and end of the cluster that ``offset`` falls inside; (offset, offset) if none."""
        if self._text[offset - 1 : offset + 1] == "\r\n" and offset > 0:
            return offset - 1, offset + 1
        index = bisect_left(self._starts, offset) - 1
        if index >= 0 and self._ends[index] > offset:
            return self._starts[index], self._ends[index]
        return offset, offset

    def is_boundary(self, offset: int) -> bool:
        """Whether a cut at ``offset`` splits no cluster."""
        return self.cluster_around(offset)[0] == offset
