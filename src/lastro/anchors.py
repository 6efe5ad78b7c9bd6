"""Anchors of headings, as GitHub makes them."""

from html.parser import HTMLParser

import regex

# What GitHub drops from a heading: other numbers, punctuation, symbols, separators, control,
# format, private and unassigned characters; letters, marks, digits, `_`, `-` and the plain space
# stay. Source: github-slugger, script/generate-regex.
_DROPPED = regex.compile(
    r"(?V1)[[\p{No}\p{P}\p{S}\p{Z}\p{Cc}\p{Cf}\p{Co}\p{Cn}]--[\p{Pc}\p{Alphabetic}\- ]]"
)

# Longer HTML blocks are not searched for headings: they are pages, not decoration.
_MAX_HTML_CHARS = 20_000
_HTML_HEADING_TAGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_HTML_HEADING = regex.compile(r"<h[1-6][\s>]", regex.IGNORECASE)


def github_slug(text: str) -> str:
    """Anchor of a heading with this rendered text, before repetitions are told apart."""
    return _DROPPED.sub("", text.lower()).replace(" ", "-")


class AnchorCounter:
    """Anchors of one file's headings, taken in order, so that a repeated one gets its number."""

    def __init__(self) -> None:
        self._repeats: dict[str, int] = {}

    def take(self, heading_text: str) -> str:
        """Anchor of the next heading; never the same twice.

        Source: github-slugger: the number counts up per original slug and skips what is taken.
        """
        slug = anchor = github_slug(heading_text)
        while anchor in self._repeats:
            self._repeats[slug] += 1
            anchor = f"{slug}-{self._repeats[slug]}"
        self._repeats[anchor] = 0
        return anchor


class _HeadingCollector(HTMLParser):
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
    collector = _HeadingCollector()
    collector.feed(fragment)
    collector.close()
    return collector.headings
