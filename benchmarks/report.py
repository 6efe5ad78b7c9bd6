"""Figures to Markdown, and Markdown into its place in the documentation. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from lastro.errors import InvalidInput

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; every column but the first stands to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def bullets(values: Mapping[str, str]) -> str:
    """A line for each name and its value."""
    return "\n".join(f"- {name}: {value}" for name, value in values.items())


def between_markers(page: str, block: str, *, heading: str) -> str:
    """``page`` with ``block`` between its markers.

    Without markers they come right below ``heading``. Errors: InvalidInput without either.
    """
    marked = f"{BEGIN}\n\n{block}\n\n{END}"
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        return before + marked + after
    before, found, after = page.partition(f"{heading}\n")
    if not found:
        raise InvalidInput(f"the page has neither {BEGIN} … {END} nor the heading {heading!r}")
    return f"{before}{found}\n{marked}\n{after}"
