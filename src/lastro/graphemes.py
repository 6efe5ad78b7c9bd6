"""Where a text may be cut without splitting what a reader sees as one character."""

from bisect import bisect_left

import regex

# Only these join with a neighbour (Unicode Standard Annex 29); everything else is a cluster of
# its own, so that plain text of any script costs one scan and no list.
_JOINING = r"[^\p{GCB=Other}\p{GCB=Control}\p{GCB=CR}\p{GCB=LF}]"
_RUN = regex.compile(rf"(?s).?{_JOINING}++(?:.{_JOINING}++)*.?")
_CLUSTER = regex.compile(r"\X")


class GraphemeIndex:
    """The extended grapheme clusters of ``text``; a cut between them is a boundary."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []
        self._ends: list[int] = []
        if not text.isascii():
            for run in _RUN.finditer(text):
                self._add_run(run.start(), run.end())

    def _add_run(self, start: int, end: int) -> None:
        for cluster in _CLUSTER.finditer(self._text, start, end):
            if cluster.end() - cluster.start() > 1:
                self._starts.append(cluster.start())
                self._ends.append(cluster.end())

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
