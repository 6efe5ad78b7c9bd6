"""Every other result, for people: aligned columns without boxes."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from rich.cells import cell_len
from rich.text import Text

from lastro.cli.hits import NONE, SHORT_REVISION_CHARS
from lastro.cli.output import escaped
from lastro.types import Check, Coverage, FileNote, IndexReport, SourceCoverage

GAP = "  "


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    width: int | None = None,
    keys: int = 1,
) -> Iterator[Text]:
    """Rows under a header, aligned; numbers stand to the right, and nothing is cut off.

    Columns that do not fit into ``width`` stand below the others, behind the first ``keys`` again.
    These leave room for one: what is longer goes on to the right, and moves no other row.
    """
    rows = list(rows)
    lines = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(cell_len(line[at]) for line in lines) for at in range(len(header))]
    if width is not None:
        widths[:keys] = [min(wide, width // (keys + 1)) for wide in widths[:keys]]
    right = [_is_numbers([row[at] for row in rows]) for at in range(len(header))]
    for block, columns in enumerate(_blocks(widths, width=width, keys=keys)):
        if block:
            yield Text()
        for number, line in enumerate(lines):
            cells = [_aligned(line[at], widths[at], is_number=right[at]) for at in columns]
            yield Text(GAP.join(cells).rstrip(), style="" if number else "bold")


def _blocks(widths: Sequence[int], *, width: int | None, keys: int) -> list[list[int]]:
    """Which columns stand beside each other."""
    first = list(range(min(keys, len(widths))))
    blocks = [list(first)]
    for at in range(len(first), len(widths)):
        block = [*blocks[-1], at]
        wide = sum(widths[column] + len(GAP) for column in block) - len(GAP)
        if width is not None and wide > width and len(blocks[-1]) > len(first):
            blocks.append([*first, at])
        else:
            blocks[-1] = block
    return blocks


def _is_numbers(values: Sequence[object]) -> bool:
    """Whether a column has numbers and nothing else; some may be missing."""
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )


def _aligned(text: str, width: int, *, is_number: bool) -> str:
    room = " " * (width - cell_len(text))
    return f"{room}{text}" if is_number else f"{text}{room}"


def pairs(values: Mapping[str, object], *, indent: int = 0, width: int | None = None) -> Text:
    """A line for each name and its value, which goes on below itself where it is too long."""
    begin = indent + max((len(name) for name in values), default=0) + len(GAP)
    lines: list[str] = []
    for name, value in values.items():
        text = cell(value)
        rows = [text] if width is None else wrapped(text, width=width - begin)
        lines += [f"{'':{indent}}{name}".ljust(begin) + rows[0]]
        lines += [f"{'':{begin}}{row}" for row in rows[1:]]
    return Text("\n".join(lines))


def wrapped(text: str, *, width: int) -> list[str]:
    """Rows of a text, broken at blanks alone: a path can be copied whole."""
    rows = textwrap.wrap(text, width=width, break_long_words=False, break_on_hyphens=False)
    return rows or [""]


def cell(value: object) -> str:
    """A value in a table; a dash for none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NONE if value is None else escaped(str(value))


def short(revision: str | None) -> str:
    """A revision's first characters; a dash for none."""
    return NONE if revision is None else revision[:SHORT_REVISION_CHARS]


def moment(when: datetime | None) -> str | None:
    """A time to the minute, as it is here."""
    return None if when is None else f"{when.astimezone():%Y-%m-%d %H:%M}"


def report_lines(report: IndexReport) -> Iterator[Text]:
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
    yield from _notes("remarks", counts.warnings)
    yield Text(f"took       {report.took_ms / 1000:.1f} s")


def _notes(title: str, notes: Sequence[FileNote]) -> Iterator[Text]:
    if notes:
        yield Text(f"{title:<10} {len(notes)} {'file' if len(notes) == 1 else 'files'}")
    for note in notes:
        yield Text(f"    {escaped(note.path)}: {escaped(note.reason)}")


def coverage_lines(coverage: Coverage) -> Iterator[Text]:
    """A project's scopes, then each source and where it stands."""
    running = ", being indexed now" if coverage.running else ""
    yield Text.assemble("project ", (escaped(coverage.project), "bold"), running)
    header = ("scope", "sources", "indexed", "with vectors", "incomplete", "stale", "chunks")
    yield from table(
        header,
        [
            (s.scope, s.sources, s.indexed, s.with_vectors, s.incomplete, s.stale, s.chunks)
            for s in coverage.scopes
        ],
    )
    for source in coverage.sources:
        yield from _source(source, running=coverage.running)
    yield from _notes("skipped", coverage.skipped)


def _source(source: SourceCoverage, *, running: bool) -> Iterator[Text]:
    ref = f" at {escaped(source.ref)}" if source.ref else ""
    yield Text(f"{escaped(source.root)}{ref}")
    if source.indexed_at is None:
        remedy = "" if running else "; run `lastro index` again"
        yield Text(f"    never indexed to the end{remedy}")
    else:
        revision = short(source.revision) if source.revision else "as it lay"
        yield Text(f"    indexed  {revision}, {moment(source.indexed_at)}")
    if source.unknown is not None:
        yield Text(f"    now      not known: {escaped(source.unknown)}")
    elif source.head is not None:
        yield Text(f"    now      {short(source.head)}, {_behind(source)}")


def _behind(source: SourceCoverage) -> str:
    if source.head == source.revision:
        return "the same"
    if source.behind is None:
        return "how many documents changed is not known"
    changed = f"{counted(source.behind, 'document')} changed"
    if source.commits is None:
        return changed
    return f"{changed}, in {counted(source.commits, 'commit')}"


def counted(count: int, thing: str) -> str:
    """So many of a thing, whose name takes an s."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def lacking(skipped: int, reason: str) -> str:
    """How many texts have no vector, and why."""
    return f"without a vector: {counted(skipped, 'text')} ({reason})"


STATUS_STYLES: Mapping[str, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def check_lines(check: Check) -> Iterator[Text]:
    """A check's state, and under it what mends it."""
    status = (f"{check.status:<4}", STATUS_STYLES[check.status])
    yield Text.assemble(status, f"  {check.name:<14}  ", escaped(check.detail))
    if check.remedy is not None:
        yield Text(f"{'':22}{escaped(check.remedy)}")
