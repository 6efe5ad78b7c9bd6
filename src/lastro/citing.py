"""Rows to hits: the exact place of each, and the words in it that matched. Pure."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from lastro.lexical import fold
from lastro.ranking import Candidate
from lastro.store import HitRow
from lastro.types import Adr, EntityOrigin, FileOrigin, Hit, Origin, SessionOrigin

Highlight = Callable[[str], tuple[tuple[int, int], ...]]

# Words of a text, for highlights; scripts without spaces and synonyms of several words are matched
# as substrings.
_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")
# The same for ASCII, three times as fast: most text by far is.
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_UNSPACED = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff]")
# Two words that share this much of their beginning are shown as the same word: a rule of thumb
# for display alone, which decides no ranking.
_SHARED_STEM = 5


def to_hit(
    row: HitRow,
    candidate: Candidate,
    *,
    score: float,
    highlight: Highlight,
    explain: Mapping[str, Any] | None,
) -> Hit:
    """A hit with its citation."""
    return Hit(
        chunk_id=str(row.id),
        content=row.content,
        score=score,
        vector_score=candidate.vector_score,
        lexical_score=candidate.lexical_score,
        scope=row.scope,
        origin=to_origin(row),
        highlights=highlight(row.content),
        explain=explain,
    )


def to_origin(row: HitRow) -> Origin:
    """Where a chunk comes from, by its scope."""
    if row.scope == "session":
        return SessionOrigin(
            session_id=row.session_id or "", event_id=row.event_id or "", title=row.title
        )
    if row.scope == "entity":
        return EntityOrigin(
            entity_key=row.entity_key or "", entity_type=row.entity_type or "", title=row.title
        )
    return FileOrigin(
        source=row.source or "",
        source_path=row.source_path or "",
        heading_path=tuple(row.heading_path or ()),
        title=row.title,
        line_start=row.line_start or 1,
        line_end=row.line_end or 1,
        revision=row.revision,
        anchor=row.anchor,
        adr=_adr(row),
    )


def _adr(row: HitRow) -> Adr | None:
    if row.scope != "adr":
        return None
    return Adr(
        number=row.adr_number,
        status=row.adr_status,
        date=row.adr_date,
        superseded_by=row.adr_superseded_by,
    )


def highlighter(marks: Collection[str]) -> Highlight:
    """What finds, in a text, the half-open character ranges that show one of ``marks``, in order.

    One serves all hits of a search: what it knows of a word it need not find out again.
    """
    folded = {fold(mark) for mark in marks}
    beginnings = {mark[:-2] for mark in folded if len(mark) > _SHARED_STEM}
    lengths = {len(beginning) for beginning in beginnings}

    @cache
    def shows(word: str) -> bool:
        seen = fold(word)
        if len(seen) <= _SHARED_STEM:
            return seen in folded
        return seen in folded or not beginnings.isdisjoint([seen[:length] for length in lengths])

    phrases = [
        re.compile(r"\s+".join(map(re.escape, mark.split())), re.IGNORECASE)
        for mark in marks
        if _UNSPACED.search(mark) or " " in mark
    ]

    def highlight(content: str) -> tuple[tuple[int, int], ...]:
        word = _ASCII_WORD if content.isascii() else _WORD
        ranges = [m.span() for m in word.finditer(content) if shows(m.group())]
        for phrase in phrases:
            ranges += [m.span() for m in phrase.finditer(content)]
        return _merged(ranges)

    return highlight


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
