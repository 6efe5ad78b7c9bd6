"""Every other result, for people: aligned columns without boxes."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lastro.cli.hits import NONE, SHORT_REVISION_CHARS
from lastro.cli.output import escaped
from lastro.types import FileNote, IndexReport


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Rows under a header; numbers stand to the right, and nothing is cut off."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    rows = [list(row) for row in rows]
    for at, name in enumerate(header):
        is_number = bool(rows) and all(isinstance(row[at], int | float | None) for row in rows)
        drawn.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(entry if isinstance(entry, Text) else Text(cell(entry)) for entry in row))
    return drawn


def cell(value: object) -> str:
    """A value in a table; a dash for none."""
    return NONE if value is None else escaped(str(value))


def short(revision: str | None) -> str:
    """A revision's first characters; a dash for none."""
    return NONE if revision is None else revision[:SHORT_REVISION_CHARS]


def report_lines(report: IndexReport) -> Iterator[RenderableType]:
    """What an index run did; each file that was skipped or mended with its reason."""
    counts = report.documents
    revision = f" at {short(report.revision)}" if report.revision else ""
    yield Text.assemble("project ", (escaped(report.project), "bold"), revision)
    yield Text(
        f"documents  {counts.added} added, {counts.changed} changed, {counts.renamed} renamed, "
        f"{counts.removed} removed, {counts.unchanged} unchanged"
    )
    yield Text(
        f"chunks     {report.chunks} in all; {report.embedding.embedded} embedded, "
        f"{report.embedding.skipped} left without a vector"
    )
    yield from _notes("skipped", counts.skipped)
    yield from _notes("mended", counts.warnings)
    yield Text(f"took       {report.took_ms / 1000:.1f} s")


def _notes(title: str, notes: Sequence[FileNote]) -> Iterator[Text]:
    if notes:
        yield Text(f"{title:<10} {len(notes)} {'file' if len(notes) == 1 else 'files'}")
    for note in notes:
        yield Text(f"    {escaped(note.path)}: {escaped(note.reason)}")
