"""Figures to Markdown, and Markdown into its place in the documentation. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lastro.errors import InvalidInput


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; every column but the first stands to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number beside its floor; ``at_least`` says which side is good."""

    name: str
    value: float
    floor: float | None = None
    at_least: bool = True
    digits: int = 0

    @property
    def missed(self) -> bool:
        """Whether the floor was missed."""
        if self.floor is None:
            return False
        return self.value < self.floor if self.at_least else self.value > self.floor


def figure_table(figures: Sequence[Figure]) -> str:
    """A row for each figure, with its floor."""
    return markdown_table(
        ("figure", "floor", "measured"),
        [
            [
                f.name,
                "" if f.floor is None else f"{'≥' if f.at_least else '≤'} {f.floor:g}",
                f"{f.value:,.{f.digits}f}" + (" **missed**" if f.missed else ""),
            ]
            for f in figures
        ],
    )


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
