"""Headings within raw HTML blocks of Markdown; pure."""

from html.parser import HTMLParser

import regex

# Longer HTML blocks are not searched for headings: they are pages, not decoration.
_MAX_HTML_CHARS = 20_000
_HTML_HEADING_TAGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_HTML_HEADING = regex.compile(r"<h[1-6][\s>]", regex.IGNORECASE)


class _Collector(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[tuple[str, str]] = []
        self._tag: str | None = None
        self._parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if self._tag is None and tag in _HTML_HEADING_TAGS:
            self._tag, self._parts = tag, []

    def handle_data(self, data: str) -> None:
        if self._tag is not None:
            self._parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self._tag is not None and tag == self._tag:
            self.headings.append((tag, "".join(self._parts)))
            self._tag = None


def html_headings(fragment: str) -> list[tuple[str, str]]:
    """Headings of a raw HTML block, as (tag, text): they take anchors of the file too."""
    if len(fragment) > _MAX_HTML_CHARS or not _HTML_HEADING.search(fragment):
        return []
    collector = _Collector()
    collector.feed(fragment)
    collector.close()
    return collector.headings
