"""Figures to Markdown, and Markdown into its place in the documentation. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from lastro.errors import InvalidInput


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; every column but the first stands to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def bullets(values: Mapping[str, str]) -> str:
    """A line for each name and its value."""
    return "\n".join(f"- {name}: {value}" for name, value in values.items())


def between_markers(page: str, block: str, *, heading: str, mark: str = "bench") -> str:
    """``page`` with ``block`` between the markers of ``mark``.

    Without markers they come right below ``heading``. Errors: InvalidInput without either.
    """
    begins, ends = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    marked = f"{begins}\n\n{block}\n\n{ends}"
    before, begin, rest = page.partition(begins)
    _, end, after = rest.partition(ends)
    if begin and end:
        return before + marked + after
    before, found, after = page.partition(f"{heading}\n")
    if not found:
        raise InvalidInput(f"the page has neither {begins} … {ends} nor the heading {heading!r}")
    return f"{before}{found}\n{marked}\n{after}"
