"""The outcome of a search, for people: each hit a citation with the lines that matched."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never, cast

from rich.cells import cell_len, chop_cells
from rich.text import Text

from lastro.cli.output import escaped, visible
from lastro.types import Adr, EntityOrigin, FileOrigin, Hit, Origin, Outcome, SessionOrigin

SNIPPET_ROWS = 4
SHORT_REVISION_CHARS = 10
SHORT_GAP_CHARS = 8
INDENT = "    "
NONE = "–"
CALIBRATED: Mapping[bool | str, str] = {
    True: "calibrated",
    "self": "calibrated on questions made from the index itself",
    False: "not calibrated",
}
MATCHED = "bold yellow"
FAINT = "dim"


def outcome_lines(outcome: Outcome, *, width: int) -> Iterator[Text]:
    """Every hit with a blank line after it, then what must be said of the whole."""
    for rank, hit in enumerate(outcome.hits, start=1):
        yield from hit_lines(hit, rank=rank, width=width)
        yield Text()
    if not outcome.hits:
        found = "candidates were found, and none is evidence enough" if outcome.abstained else ""
        yield Text("no hit" + (f": {found}" if found else ""))
    if outcome.explain is not None:
        yield from _explained(outcome.explain)
    yield _footer(outcome)


def hit_lines(hit: Hit, *, rank: int, width: int) -> Iterator[Text]:
    """One hit: place, section, snippet, and with explain the parts of its score."""
    place, section = place_of(hit.origin)
    yield Text.assemble(
        f"{rank:>2}  ", (f"{hit.score:.3f}", "bold"), f"  {hit.scope:<5} ", (place, "cyan")
    )
    for start, end in _rows(section, width=width - len(INDENT)):
        yield Text(INDENT + section[start:end], style=FAINT)
    if isinstance(hit.origin, FileOrigin) and hit.origin.adr is not None:
        yield _record(hit.origin.adr)
    if hit.explain is not None:
        yield Text(INDENT + _parts(hit), style=FAINT)
        yield from _ruled(hit.explain.get("rules", {"matched": (), "own": 0.0}))
    for row in snippet(hit.content, hit.highlights, width=width - len(INDENT)):
        yield Text(INDENT).append_text(row)


def place_of(origin: Origin) -> tuple[str, str]:
    """Where a hit is, to be copied, and under what heading."""
    match origin:
        case FileOrigin():
            path = f"{escaped(origin.source_path)}:{origin.line_start}-{origin.line_end}"
            headings = origin.heading_path or ((origin.title,) if origin.title else ())
            revision = (origin.revision or "as it lies")[:SHORT_REVISION_CHARS]
            return path, " · ".join([*_joined(headings), revision])
        case SessionOrigin():
            return escaped(f"{origin.session_id}#{origin.event_id}"), escaped(origin.title or "")
        case EntityOrigin():
            return escaped(origin.entity_key), escaped(origin.title or origin.entity_type)
        case _:
            assert_never(origin)


def short_gap(id_: str) -> str:
    """As much of a gap's id as people type."""
    return id_[:SHORT_GAP_CHARS]


def _joined(headings: Sequence[str]) -> list[str]:
    return [" › ".join(escaped(heading) for heading in headings)] if headings else []


def _record(adr: Adr) -> Text:
    name = "ADR" if adr.number is None else f"ADR {adr.number}"
    if is_superseded(adr):
        by = f" by {escaped(adr.superseded_by)}" if adr.superseded_by else ""
        return Text(f"{INDENT}{name}, SUPERSEDED{by}", style="bold red")
    status = escaped(adr.status) if adr.status else "of no stated status"
    return Text(f"{INDENT}{name}, {status}", style=FAINT)


def is_superseded(adr: Adr) -> bool:
    """Whether another record took this one's place."""
    return adr.superseded_by is not None or (adr.status or "").startswith("superseded")


def number(value: object) -> str:
    """A score with three digits; a dash for one that was not given."""
    if value is None:
        return NONE
    return f"{value:.3f}" if isinstance(value, float) else escaped(str(value))


def _parts(hit: Hit) -> str:
    explain = {key: value for key, value in (hit.explain or {}).items() if key != "rules"}
    vector_rank, lexical_rank = explain.pop("vectorRank", None), explain.pop("lexicalRank", None)
    parts = [
        f"vector {number(hit.vector_score)}, rank {number(vector_rank)}",
        f"lexical {number(hit.lexical_score)}, rank {number(lexical_rank)}",
        *(f"{key} {_flat(value)}" for key, value in explain.items()),
    ]
    return " · ".join(parts)


def _ruled(said: Mapping[str, Any]) -> Iterator[Text]:
    """A line for each rule that matched, and for the entry's own weight, where there are any."""
    for rule in said["matched"]:
        named = f"rule {rule['name']} {rule['weight']:+.3f}: {rule['reason']}"
        yield Text(INDENT + escaped(named), style=FAINT)
    if said["own"]:
        yield Text(f"{INDENT}own rule weight {said['own']:+.3f}", style=FAINT)


def snippet(content: str, highlights: Sequence[tuple[int, int]], *, width: int) -> list[Text]:
    """The few rows of ``content`` that hold the most highlighted characters, the first of equals.

    A row is at most ``width`` columns; a mark says where text was left out.
    """
    rows = _rows(visible(content), width=width - 2)
    marks = [_marked(start, end, highlights) for start, end in rows]
    weights = [sum(end - start for start, end in row) for row in marks]
    last = max(len(rows) - SNIPPET_ROWS, 0)
    first = max(range(last + 1), key=lambda n: (sum(weights[n : n + SNIPPET_ROWS]), -n))
    shown: list[Text] = []
    for at in range(first, min(first + SNIPPET_ROWS, len(rows))):
        start, end = rows[at]
        row = Text(visible(content[start:end]).replace("\t", " "))
        for mark_start, mark_end in marks[at]:
            row.stylize(MATCHED, mark_start - start, mark_end - start)
        shown.append(row)
    if shown and first > 0:
        shown[0] = Text("… ").append_text(shown[0])
    if shown and first + SNIPPET_ROWS < len(rows):
        shown[-1].append(" …")
    return shown


def _marked(start: int, end: int, highlights: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    cut = [(max(start, a), min(end, b)) for a, b in highlights]
    return [(a, b) for a, b in cut if a < b]


def _rows(text: str, *, width: int) -> list[tuple[int, int]]:
    """Ranges of ``text``, one for each row of at most ``width`` columns; blank rows are left out.

    Broken at blanks where there are any, else between characters, as Chinese is.
    """
    rows: list[tuple[int, int]] = []
    at = 0
    for line in text.split("\n"):
        start, end = at, at + len(line)
        at = end + 1
        while start < end:
            stop = start + _fitting(text[start:end], width)
            if text[start:stop].strip():
                rows.append((start, stop))
            start = stop
            while start < end and text[start] == " ":
                start += 1
    return rows


def _fitting(line: str, width: int) -> int:
    """How many characters of ``line`` make one row."""
    head = line[: width + 1]
    if cell_len(line[: 2 * width]) <= width and len(line) <= 2 * width:
        return len(line)
    fits = len(chop_cells(head, width)[0])
    blank = line.rfind(" ", 0, fits + 1)
    return blank if blank > fits // 2 else max(fits, 1)


def _footer(outcome: Outcome) -> Text:
    profile = outcome.profile
    parts = [
        f"{len(outcome.hits)} {'hit' if len(outcome.hits) == 1 else 'hits'}",
        f"profile {escaped(profile.name)} v{profile.version}, {CALIBRATED[profile.calibrated]}",
    ]
    if outcome.abstained:
        parts.append("abstained")
    if outcome.gap_id is not None:
        parts.append(f"recorded as gap {short_gap(outcome.gap_id)}")
    if outcome.degraded:
        reasons = dict.fromkeys(part.reason for part in outcome.degraded)
        parts.append(f"degraded: {', '.join(reasons)}")
    parts.append(f"{outcome.took_ms:.0f} ms")
    return Text(" · ".join(parts), style=FAINT)


def _explained(explain: Mapping[str, Any]) -> Iterator[Text]:
    """How the candidates were found, a line for each part; terms with df and idf."""
    for key, value in explain.items():
        if isinstance(value, Mapping):
            table = cast("Mapping[str, Any]", value)
            terms = table.get("terms")
            rest = {name: entry for name, entry in table.items() if name != "terms"}
            yield Text(f"{key}: {_flat(rest)}", style=FAINT)
            if isinstance(terms, Sequence) and not isinstance(terms, str):
                yield from map(_term, cast("Sequence[Mapping[str, Any]]", terms))
        else:
            yield Text(f"{key}: {_flat(value)}", style=FAINT)


def _term(term: Mapping[str, Any]) -> Text:
    rest = " · ".join(f"{key} {_flat(value)}" for key, value in term.items() if key != "text")
    return Text(f"{INDENT}{escaped(str(term.get('text')))} · {rest}", style=FAINT)


def _flat(value: object) -> str:
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        return " · ".join(f"{key} {_flat(entry)}" for key, entry in table.items())
    if isinstance(value, list | tuple):
        return ", ".join(_flat(entry) for entry in cast("list[object]", value)) or NONE
    return number(value)
