"""Every other result, for people: aligned columns without boxes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lastro.cli.hits import NONE, SHORT_REVISION_CHARS
from lastro.cli.output import escaped
from lastro.types import Coverage, FileNote, IndexReport, SourceCoverage


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


def pairs(values: Mapping[str, object], *, indent: int = 0) -> Text:
    """A line for each name and its value."""
    width = max((len(name) for name in values), default=0)
    return Text("\n".join(f"{'':{indent}}{name:<{width}}  {cell(v)}" for name, v in values.items()))


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


def coverage_lines(coverage: Coverage) -> Iterator[RenderableType]:
    """A project's scopes, then each source and where it stands."""
    running = ", being indexed now" if coverage.running else ""
    yield Text.assemble("project ", (escaped(coverage.project), "bold"), running)
    header = ("scope", "sources", "indexed", "with vectors", "incomplete", "stale", "chunks")
    yield table(
        header,
        [
            (s.scope, s.sources, s.indexed, s.with_vectors, s.incomplete, s.stale, s.chunks)
            for s in coverage.scopes
        ],
    )
    for source in coverage.sources:
        yield from _source(source)
    yield from _notes("skipped", coverage.skipped)


def _source(source: SourceCoverage) -> Iterator[Text]:
    ref = f" at {escaped(source.ref)}" if source.ref else ""
    yield Text(f"{escaped(source.root)}{ref}")
    if source.indexed_at is None:
        yield Text("    never indexed to the end; run `lastro index` again")
    else:
        when = f"{source.indexed_at.astimezone():%Y-%m-%d %H:%M}"
        yield Text(
            f"    indexed  {short(source.revision) if source.revision else 'as it lay'}, {when}"
        )
    if source.unknown is not None:
        yield Text(f"    now      not known: {escaped(source.unknown)}")
    elif source.head is not None:
        yield Text(f"    now      {short(source.head)}, {_behind(source.behind)}")


def _behind(commits: int | None) -> str:
    if commits is None:
        return "how many commits further is not known"
    return (
        "the same"
        if commits == 0
        else f"{commits} {'commit' if commits == 1 else 'commits'} further"
    )
