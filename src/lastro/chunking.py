"""Sections to chunks with exact offsets; pure.

Settings count characters. Source of 1,200/150/200: ADR 0080, uncalibrated.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import regex

from lastro.chunk_settings import ChunkSettings
from lastro.graphemes import GraphemeIndex
from lastro.markdown import Block, LineIndex, MarkdownDocument, Section

_NON_BLANK = re.compile(r"\S")
_BLANK_LINE = regex.compile(r"(?:\r\n|\n|\r)[^\S\r\n]*(?:\r\n|\n|\r)\s*(?=\S)")
_LINE = re.compile(r"\S(?:[^\r\n]*\S)?")
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
# Latin stops need a blank and no lower-case letter after them; full-width ones stand alone.
_SENTENCE_END = regex.compile(
    r"""[.!?…]["'”’»)\]*_`]*\s+(?=[^\s\p{Ll}])|[。！？；][”’」』）】》]*\s*(?=\S)"""
)
_WORD_START = re.compile(r"\s(?=\S)")
# Scripts written without spaces: a word may start at any letter, but not at closing punctuation.
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_UNSPACED_LETTER = regex.compile(_UNSPACED)
_UNSPACED_WORD_START = regex.compile(
    rf"\s(?=\S)|{_UNSPACED}(?=[^\s\p{{P}}\p{{M}}])|[^\s\p{{Ps}}\p{{Pi}}](?={_UNSPACED})"
)


DEFAULT_SETTINGS = ChunkSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a text: ``text[start:end] == content``; lines count from 1, both included.

    ``context`` is searched and embedded with the chunk but is not part of the cited text: the
    header of a table that the chunk continues.
    """

    ordinal: int
    start: int
    end: int
    content: str
    heading_path: tuple[str, ...]
    anchor: str | None
    line_start: int
    line_end: int
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedText:
    """Chunks in the order of the text, and what the reader of a report should know."""

    chunks: tuple[Chunk, ...]
    warnings: tuple[str, ...] = ()


def chunk_markdown(
    document: MarkdownDocument, settings: ChunkSettings = DEFAULT_SETTINGS
) -> ChunkedText:
    """Chunks of a Markdown document; none crosses a section.

    A heading with nothing below it but a deeper heading begins that one's first chunk.
    """
    sections = tuple(_with_bare_headings(document.sections))
    chunked = _chunk_sections(document.text, sections, document.lines, settings)
    return ChunkedText(chunks=chunked.chunks, warnings=document.warnings + chunked.warnings)


def chunk_text(text: str, settings: ChunkSettings = DEFAULT_SETTINGS) -> ChunkedText:
    """Chunks of a plain text, as one section without a heading."""
    start = 1 if text.startswith("\ufeff") else 0
    whole = Section(heading_path=(), anchor=None, start=start, end=len(text), blocks=())
    return _chunk_sections(text, (whole,), LineIndex(text), settings)


def _with_bare_headings(sections: Iterable[Section]) -> Iterator[Section]:
    """Sections, each with the bare headings above it that it belongs to.

    A hit that quotes a heading alone tells nobody anything, and being so short it ranks high.
    """
    bare: Section | None = None
    for section in sections:
        if bare is not None:
            depth = len(bare.heading_path)
            if section.heading_path[:depth] == bare.heading_path != section.heading_path:
                blocks = (*bare.blocks, *section.blocks)
                section = replace(section, start=bare.start, blocks=blocks)
            else:
                yield bare
        kinds = {block.kind for block in section.blocks}
        bare = section if kinds == {"heading"} else None
        if bare is None:
            yield section
    if bare is not None:
        yield bare


def _chunk_sections(
    text: str, sections: Iterable[Section], lines: LineIndex, settings: ChunkSettings
) -> ChunkedText:
    graphemes = GraphemeIndex(text)
    chunks: list[Chunk] = []
    warnings: list[str] = []
    for section in sections:
        splitter = _Splitter(text, section, graphemes=graphemes, settings=settings)
        for start, end in splitter.spans():
            chunk = Chunk(
                ordinal=len(chunks),
                start=start,
                end=end,
                content=text[start:end],
                heading_path=section.heading_path,
                anchor=section.anchor,
                line_start=lines.line_of(start),
                line_end=lines.line_of(end - 1),
                context=splitter.context_at(start),
            )
            chunks.append(chunk)
        warnings.extend(
            f"Line {lines.line_of(start)}: one character (grapheme cluster) of {end - start:,} "
            f"code points is longer than the limit of {settings.limit_chars:,} and was split."
            for start, end in splitter.split_clusters
        )
    return ChunkedText(chunks=tuple(chunks), warnings=tuple(warnings))


class _Intervals:
    """Disjoint half-open intervals in ascending order."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if start < end and (not self._ends or start >= self._ends[-1]):
                self._starts.append(start)
                self._ends.append(end)

    def around(self, offset: int) -> tuple[int, int] | None:
        """The interval with ``offset`` strictly inside it."""
        index = bisect_left(self._starts, offset) - 1
        if index >= 0 and self._ends[index] > offset:
            return self._starts[index], self._ends[index]
        return None


class _Splitter:
    """Cuts one section; all offsets are of the whole text."""

    def __init__(
        self, text: str, section: Section, *, graphemes: GraphemeIndex, settings: ChunkSettings
    ) -> None:
        self._text = text
        self._settings = settings
        self._limit = settings.limit_chars
        self._graphemes = graphemes
        self._start = section.start
        self._end = self._trimmed_end(section.start, section.end)
        blocks = (*section.blocks, *section.nested)
        self._block_starts = sorted({block.start for block in blocks})
        self._tables = sorted(
            (block for block in blocks if block.kind == "table"), key=lambda block: block.start
        )
        self._table_starts = [table.start for table in self._tables]
        self._code = _Intervals(
            (block.start, block.end) for block in blocks if block.kind in {"fence", "code"}
        )
        self._whole = _Intervals(
            (start, end) for start, end in self._atoms(blocks) if end - start <= self._limit
        )
        self.split_clusters: list[tuple[int, int]] = []

    def spans(self) -> Iterator[tuple[int, int]]:
        """Start and end of each chunk; starts and ends both ascend strictly."""
        fresh = self._next_non_blank(self._start)
        start = fresh
        while fresh < self._end:
            if self._end - start > self._limit >= self._end - fresh:
                start = fresh
            if self._end - start <= self._limit:
                yield start, self._end
                return
            cut, is_early = self._cut(start, fresh)
            if is_early and start < fresh:
                start = fresh
                continue
            end = self._trimmed_end(start, cut)
            if start < end:  # not so where a blank that carries marks was split from them
                yield start, end
            fresh = self._next_non_blank(cut)
            start = self._overlap_start(start, cut, fresh)

    def context_at(self, start: int) -> str:
        """Header of the table that a chunk starting here continues, or an empty text."""
        index = bisect_right(self._table_starts, start) - 1
        if index < 0:
            return ""
        table = self._tables[index]
        if table.header_end is None or not table.header_end <= start < table.end:
            return ""
        end = min(table.header_end, table.start + self._settings.target_chars)
        return self._text[table.start : self._graphemes.cluster_around(end)[0]].strip()

    def _atoms(self, blocks: Iterable[Block]) -> Iterator[tuple[int, int]]:
        """What is kept whole: code, and rows of tables (the first with the table's header)."""
        for block in blocks:
            if block.kind in {"fence", "code"}:
                start = self._next_non_blank(block.start)
                yield start, self._trimmed_end(start, block.end)
            elif block.kind == "table":
                yield from self._rows(block)

    def _rows(self, table: Block) -> Iterator[tuple[int, int]]:
        lines = [line.span() for line in _LINE.finditer(self._text, table.start, table.end)]
        for head in (3, 2):  # header, delimiter and first row; else without the row
            if len(lines) >= head and lines[head - 1][1] - lines[0][0] <= self._limit:
                yield lines[0][0], lines[head - 1][1]
                yield from lines[head:]
                return
        yield from lines

    def _next_non_blank(self, offset: int) -> int:
        found = _NON_BLANK.search(self._text, offset, self._end)
        if found is None:
            return self._end
        return max(offset, self._graphemes.cluster_around(found.start())[0])

    def _trimmed_end(self, start: int, end: int) -> int:
        trimmed = start + len(self._text[start:end].rstrip())
        return min(end, self._graphemes.cluster_around(trimmed)[1])

    def _may_cut(self, offset: int) -> bool:
        return self._whole.around(offset) is None and self._graphemes.is_boundary(offset)

    def _cut(self, start: int, fresh: int) -> tuple[int, bool]:
        """Where the chunk from ``start`` ends, after ``fresh``, the first character not seen yet.

        The nearest to the target wins (the earlier of two): paragraphs, then sentences, lines and
        words. True: what follows is kept whole and does not fit, so the cut had to come early; an
        overlap is then better given up.
        """
        settings = self._settings
        aim = start + settings.target_chars
        middle = max(fresh + 1, start + settings.target_chars // 2)
        window = min(settings.window_chars, settings.target_chars)
        low = max(middle, aim - window)
        # What is left for the last chunk is never less than a window.
        high = min(aim + window, self._end - settings.window_chars)
        for candidates in self._candidates(middle, low, aim, high):
            fitting = [offset for offset in candidates if self._may_cut(offset)]
            if fitting:
                return min(fitting, key=lambda offset: (abs(offset - aim), offset)), False
        return self._forced_cut(start, fresh, low)

    def _candidates(self, middle: int, low: int, aim: int, high: int) -> Iterator[list[int]]:
        yield [*self._joints(low, high), *self._matches(_BLANK_LINE, low, high)]
        lines = self._matches(_LINE_BREAK, low, high)
        if self._code.around(aim) is None:
            yield self._matches(_SENTENCE_END, low, high)
        yield lines
        yield self._words(low, high)
        yield self._words(middle, low)
        yield [offset for offset in self._graphemes.cluster_around(aim) if low <= offset <= high]

    def _joints(self, low: int, high: int) -> list[int]:
        first = bisect_left(self._block_starts, low)
        return self._block_starts[first : bisect_right(self._block_starts, high)]

    def _words(self, low: int, high: int) -> list[int]:
        has_unspaced = _UNSPACED_LETTER.search(self._text, low, high + 1)
        return self._matches(_UNSPACED_WORD_START if has_unspaced else _WORD_START, low, high)

    def _matches(
        self, pattern: "regex.Pattern[str] | re.Pattern[str]", low: int, high: int
    ) -> list[int]:
        """Ends of the pattern's matches from ``low`` to ``high``."""
        found = pattern.finditer(self._text, max(self._start, low - 4), high + 1)
        return [match.end() for match in found if low <= match.end() <= high]

    def _forced_cut(self, start: int, fresh: int, low: int) -> tuple[int, bool]:
        """A cut where a whole block or one huge character covers the window.

        Behind the block where it fits, else before it.
        """
        limit = start + self._limit
        behind = self._settled(low, backwards=False)
        if behind <= limit:
            return behind, False
        before = self._settled(low, backwards=True)
        if before > fresh or start < fresh:
            return before, True
        cluster_start, cluster_end = self._graphemes.cluster_around(limit)
        if cluster_start > fresh:
            return cluster_start, False
        if (cluster_start, cluster_end) not in self.split_clusters[-1:]:
            self.split_clusters.append((cluster_start, cluster_end))
        return limit, False

    def _settled(self, offset: int, *, backwards: bool) -> int:
        """The first offset from here on, or back, that cuts nothing kept whole."""
        side = 0 if backwards else 1
        while True:
            around = self._whole.around(offset) or self._graphemes.cluster_around(offset)
            if around[side] == offset:
                return offset
            offset = around[side]

    def _overlap_start(self, start: int, cut: int, fresh: int) -> int:
        """Where the next chunk starts: early in the overlap at a sentence or line, else at a word.

        Without any of these it starts at ``fresh``.
        """
        reach = min(self._settings.overlap_chars, (cut - start) // 2)
        low = max(start + 1, fresh - reach)  # blanks behind the cut count too
        if low >= cut:
            return fresh
        for candidates in self._overlap_candidates(low, low + reach // 2, cut - 1):
            fitting = [offset for offset in candidates if self._may_cut(offset)]
            if fitting:
                return self._next_non_blank(min(fitting))
        return fresh

    def _overlap_candidates(self, low: int, early: int, high: int) -> Iterator[list[int]]:
        if self._code.around(high) is not None:
            yield self._matches(_LINE_BREAK, low, high)
            return
        joints, sentences = self._joints(low, early), self._matches(_SENTENCE_END, low, early)
        yield [*joints, *sentences, *self._matches(_LINE_BREAK, low, early)]
        yield self._words(low, high)
