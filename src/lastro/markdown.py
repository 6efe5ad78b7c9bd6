"""Markdown to sections with heading paths, anchors and exact places; pure."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import regex
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block import blockquote as quote_rule
from markdown_it.token import Token

from lastro.anchors import AnchorCounter
from lastro.frontmatter import Json, read_front_matter
from lastro.html_headings import html_headings

BlockKind = Literal[
    "heading",
    "paragraph",
    "fence",
    "code",
    "table",
    "list",
    "item",
    "quote",
    "html",
    "rule",
]

_BOM = "\ufeff"
# As CommonMark and markdown-it: form feed, U+2028 and the rest of str.splitlines do not end lines.
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_BLOCK_KINDS: Mapping[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "fence": "fence",
    "code_block": "code",
    "table_open": "table",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "list_item_open": "item",
    "blockquote_open": "quote",
    "html_block": "html",
    "hr": "rule",
}
_TITLE_KEYS = ("title", "titulo", "título", "标题")
# A heading is repeated on each of its chunks, so it is cut.
_MAX_HEADING_CHARS = 300
# Inline markup of longer or denser headings is not parsed: they are mishaps, and the cost of
# parsing may grow with the square (600 characters of `[*a_` took 27 ms).
_MAX_INLINE_CHARS = 600
_MAX_INLINE_MARKS = 64
_INLINE_MARK = re.compile(r"[\\`*_~\[\]<>&\n]")
# Lists and quotes nested deeper are read as plain lines; a list counts two levels.
_MAX_NESTING = 24


class LineIndex:
    """Offsets of a text to lines counted from 1; a line ends with CRLF, LF or a lone CR."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(found.end() for found in _LINE_BREAK.finditer(text))]
        self._length = len(text)

    def line_of(self, offset: int) -> int:
        """Line, from 1, that holds the character at ``offset``."""
        return bisect_right(self.starts, offset)

    def start_of(self, line: int) -> int:
        """Offset where ``line`` (from 1) starts; beyond the last line, the text's length."""
        return self.starts[line - 1] if line <= len(self.starts) else self._length


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block as offsets of the text, from the start of its first line to that of the next block.

    ``header_end`` is the end of a table's header and delimiter rows, or of a fence's first line.
    """

    kind: BlockKind
    start: int
    end: int
    header_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Text from one heading (its line included) to the next; sections do not nest.

    ``heading_path`` is () and ``anchor`` None before the first heading. ``blocks`` are the
    top-level ones in order; ``nested`` those inside lists and quotes, at any depth.
    """

    heading_path: tuple[str, ...]
    anchor: str | None
    start: int
    end: int
    blocks: tuple[Block, ...]
    nested: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownDocument:
    """A parsed file: every non-blank character from ``body_start`` on lies in one section."""

    text: str
    title: str | None
    metadata: Mapping[str, Json]
    body_start: int
    sections: tuple[Section, ...]
    lines: LineIndex = field(repr=False, compare=False)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heading:
    start: int
    level: int
    text: str
    anchor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Headings:
    sections: tuple[_Heading, ...]
    html_title: str | None


def parse_markdown(text: str) -> MarkdownDocument:
    """Split ``text`` at its CommonMark headings; any text is legal.

    The title is the metadata's (``title``, ``titulo``, ``título``, ``标题``), else the first
    heading of level 1, else the first heading.
    """
    lines = LineIndex(text)
    bom = len(_BOM) if text.startswith(_BOM) else 0
    front = read_front_matter(text, bom)
    body_start = bom if front is None else front.end
    metadata: Mapping[str, Json] = {} if front is None else front.metadata
    env: dict[str, Any] = {}
    tokens = _block_tokens(text[body_start:], env)
    place = _Places(lines=lines, first_line=lines.line_of(body_start), body_start=body_start)
    headings = _headings(tokens, env, place)
    return MarkdownDocument(
        text=text,
        title=_metadata_title(metadata) or _heading_title(headings),
        metadata=metadata,
        body_start=body_start,
        sections=tuple(_sections(text, body_start, headings.sections, _blocks(tokens, place))),
        lines=lines,
        warnings=(front.warning,) if front is not None and front.warning else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Lines of the body, as the parser counts them (from 0), to offsets of the whole text."""

    lines: LineIndex
    first_line: int
    body_start: int

    def offset(self, body_line: int) -> int:
        return max(self.body_start, self.lines.start_of(self.first_line + body_line))


def _deep_line(state: StateBlock, start_line: int, _end_line: int, silent: bool) -> bool:  # noqa: FBT001
    """Read one line as text where nesting is too deep.

    The parser's own guard would drop everything to the end of the document instead.
    """
    if silent or state.level < _MAX_NESTING:
        return False
    state.line = start_line + 1
    return True


def _bounded_quote(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:  # noqa: FBT001
    """Block quotes, as long as looking for their ends stays linear in the text.

    The rule reads ahead to the next blank line, and lines that then turn out not to belong to
    the quote are read ahead again by the next one.
    """
    is_quote = quote_rule(state, start_line, end_line, silent=True)
    if silent or not is_quote:
        return is_quote
    line, budget = start_line, state.env["quote_budget"]
    while line < end_line and budget > 0 and not state.isEmpty(line):
        line, budget = line + 1, budget - 1
    state.env["quote_budget"] = budget
    return budget > 0 and quote_rule(state, start_line, end_line, silent=False)


def _plain_paragraph(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:  # noqa: FBT001
    """Read at once a paragraph whose lines all start with a letter, up to a blank line.

    Every other rule, and each that may end a paragraph, asks for a first character that is not
    a letter; asking them all for each line is most of the cost of parsing prose.
    """
    if silent or state.level > 0:
        return False
    line = start_line
    while line < end_line and not state.isEmpty(line):
        if not state.src[state.bMarks[line] + state.tShift[line]].isalpha() or (
            line == start_line and state.sCount[line] > 3
        ):
            return False
        line += 1
    state.line = line
    state.push("paragraph_open", "p", 1).map = [start_line, line]
    state.push("paragraph_close", "p", -1)
    return True


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": 2 * _MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.block.ruler.before("table", "deep_line", _deep_line)
    parser.block.ruler.before("table", "plain_paragraph", _plain_paragraph)
    parser.block.ruler.at(
        "blockquote", _bounded_quote, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    return parser


_PARSER = _parser()


def _block_tokens(body: str, env: dict[str, Any]) -> list[Token]:
    normal = _LINE_BREAK.sub("\n", body)
    # Quotes within quotes are read ahead once per level; nobody nests them this deep throughout.
    env["quote_budget"] = 1_000 + 5 * normal.count("\n")
    tokens: list[Token] = []
    _PARSER.block.parse(normal, _PARSER, env, tokens)
    return tokens


def _headings(tokens: Sequence[Token], env: dict[str, Any], place: _Places) -> _Headings:
    """Headings that open sections; those inside lists, quotes and HTML only use up anchors."""
    counter = AnchorCounter()
    found: list[_Heading] = []
    html_title: str | None = None
    for index, token in enumerate(tokens):
        if token.type == "html_block":
            for tag, content in html_headings(token.content):
                counter.take(content)
                if tag == "h1" and html_title is None:
                    html_title = _one_line(content) or None
        elif token.type == "heading_open":
            text, slug_text = _heading_texts(tokens[index + 1].content, env)
            anchor = counter.take(slug_text)
            if token.level == 0 and token.map is not None:
                start = place.offset(token.map[0])
                level = int(token.tag[1:])
                found.append(_Heading(start=start, level=level, text=text, anchor=anchor or None))
    return _Headings(sections=tuple(found), html_title=html_title)


def _heading_texts(content: str, env: dict[str, Any]) -> tuple[str, str]:
    """A heading as people read it, and as GitHub makes its anchor (without pictures' texts)."""
    marks = len(_INLINE_MARK.findall(content[:_MAX_INLINE_CHARS]))
    if marks == 0 or marks > _MAX_INLINE_MARKS or len(content) > _MAX_INLINE_CHARS:
        return _clip(_one_line(content)), content
    children: list[Token] = []
    _PARSER.inline.parse(content, _PARSER, env, children)
    rendered = "".join(_rendered(child) for child in children)
    text = _one_line(rendered) or _one_line(
        " ".join(child.content for child in children if child.type == "image")
    )
    return _clip(text), rendered


def _rendered(token: Token) -> str:
    if token.type in {"softbreak", "hardbreak"}:
        return "\n"
    return token.content if token.type in {"text", "text_special", "code_inline"} else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _clip(text: str) -> str:
    if len(text) <= _MAX_HEADING_CHARS:
        return text
    clusters = regex.findall(r"\X", text[:_MAX_HEADING_CHARS])
    return "".join(clusters[:-1]).rstrip() + "…"


def _blocks(tokens: Sequence[Token], place: _Places) -> list[tuple[int, Block]]:
    """Every block with its nesting level, in the order of the text."""
    found: list[tuple[int, Block]] = []
    for token in tokens:
        kind = _BLOCK_KINDS.get(token.type)
        if kind is None or token.map is None:
            continue
        first, after = token.map
        header_lines = {"table": 2, "fence": 1}.get(kind)
        block = Block(
            kind=kind,
            start=place.offset(first),
            end=place.offset(after),
            header_end=None if header_lines is None else place.offset(first + header_lines),
        )
        found.append((token.level, block))
    return found


def _sections(
    text: str, body_start: int, headings: Sequence[_Heading], blocks: Sequence[tuple[int, Block]]
) -> Iterator[Section]:
    starts = [heading.start for heading in headings]
    ends = [*starts[1:], len(text)][: len(starts)]
    preamble_end = starts[0] if starts else len(text)
    taken = _Taken(blocks)
    before = taken.up_to(preamble_end)
    if not text[body_start:preamble_end].isspace() and body_start < preamble_end:
        yield _section((), None, body_start, preamble_end, before)
    path: list[tuple[int, str]] = []
    for heading, end in zip(headings, ends, strict=True):
        path = [entry for entry in path if entry[0] < heading.level]
        path.append((heading.level, heading.text))
        names = tuple(name for _, name in path if name)
        yield _section(names, heading.anchor, heading.start, end, taken.up_to(end))


class _Taken:
    """Hands out blocks in order, each once."""

    def __init__(self, blocks: Sequence[tuple[int, Block]]) -> None:
        self._blocks = blocks
        self._next = 0

    def up_to(self, end: int) -> Sequence[tuple[int, Block]]:
        first = self._next
        while self._next < len(self._blocks) and self._blocks[self._next][1].start < end:
            self._next += 1
        return self._blocks[first : self._next]


def _section(
    path: tuple[str, ...],
    anchor: str | None,
    start: int,
    end: int,
    blocks: Sequence[tuple[int, Block]],
) -> Section:
    return Section(
        heading_path=path,
        anchor=anchor,
        start=start,
        end=end,
        blocks=tuple(block for level, block in blocks if level == 0),
        nested=tuple(block for level, block in blocks if level > 0),
    )


def _metadata_title(metadata: Mapping[str, Json]) -> str | None:
    by_key: dict[str, Json] = {}
    for key, value in metadata.items():
        by_key.setdefault(key.casefold(), value)
    for key in _TITLE_KEYS:
        value = by_key.get(key)
        is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if is_text and (title := _clip(_one_line(str(value)))):
            return title
    return None


def _heading_title(headings: _Headings) -> str | None:
    named = [heading for heading in headings.sections if heading.text]
    first_level = next((heading.text for heading in named if heading.level == 1), None)
    return first_level or headings.html_title or (named[0].text if named else None)
