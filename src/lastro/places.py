"""Places that judgements and people name, and which chunks lie there; pure.

A place outlives re-chunking: it names a file with a heading or lines, an event of a session, or an
entry, never a chunk.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from lastro.anchors import github_slug
from lastro.errors import InvalidInput

# docs/a.md, docs/a.md#decision, docs/a.md:12, docs/a.md:10-20, docs/a.md#L10-L20
_PART = (
    r"(?:#(?![Ll]\d+(?:-|$))(?P<heading>.+?))?"
    r"(?:(?::|#[Ll])(?P<first>\d+)(?:-[Ll]?(?P<last>\d+))?)?"
)
_PLACE = re.compile(rf"(?P<path>.+?){_PART}", re.DOTALL)
# No file has a line of ten digits, and Python reads no number of 5,000.
MAX_LINE_DIGITS = 9
_WRITE_A_PLACE = "write docs/a.md, docs/a.md#section or docs/a.md:10-20"
# As reports write a session, and an event of one.
_SESSION, _EVENT = "session ", ", event "
# What github-slugger appends to the anchor of a repeated heading.
_REPEAT = re.compile(r"-\d+")
# "Install { #install }": attributes that MkDocs and Pandoc read behind a heading's text.
_ATTRIBUTES = re.compile(r"\s*\{:?\s*#(?P<id>[^\s{}]+)[^{}]*\}\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """A file of the project, or a part of it; ``lines`` count from 1, both ends included.

    ``heading`` holds one text or anchor, or a run of headings from the outer to the inner one.
    """

    path: str
    heading: tuple[str, ...] | None = None
    lines: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlace:
    """A session, or one event of it."""

    session: str
    event: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPlace:
    """An entry of the knowledge base, by its key."""

    entity: str


Place = FilePlace | SessionPlace | EntityPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlace:
    """Where a chunk lies; what its origin does not have is None or ()."""

    path: str | None = None
    heading_path: tuple[str, ...] = ()
    anchor: str | None = None
    line_start: int | None = None
    line_end: int | None = None
    session: str | None = None
    event: str | None = None
    entity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A chunk as drafts are made from it; ``content`` is None where it has no link.

    An entry has its key and no path, and its title is its one heading.
    """

    path: str
    entity: str | None = None
    is_adr: bool
    title: str
    language: str
    heading_path: tuple[str, ...]
    anchor: str | None
    content: str | None


def parse_place(text: str, *, paths: Iterable[str] = ()) -> FilePlace:
    """The place in a file that a person writes as ``path``, ``path#section`` or ``path:10-20``.

    A ``#`` or ``:`` may be part of a name: the longest of the known ``paths`` with which the text
    begins is the path. Errors: InvalidInput.

    >>> parse_place("docs/a.md:10-20")
    FilePlace(path='docs/a.md', heading=None, lines=(10, 20))
    """
    found = _within(text.strip(), paths) or _PLACE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput("an empty place names nothing", remedy=_WRITE_A_PLACE)
    path, heading, first, last = found.group("path", "heading", "first", "last")
    if max(len(first or ""), len(last or "")) > MAX_LINE_DIGITS:
        raise InvalidInput("no file has so many lines", remedy=_WRITE_A_PLACE)
    lines = None if first is None else (int(first), int(last or first))
    fault = path_fault(path) or (None if lines is None else lines_fault(lines))
    if fault is not None:
        raise InvalidInput(f"{text!r} is no place: {fault}", remedy=_WRITE_A_PLACE)
    return FilePlace(
        path=normal_path(path),
        heading=None if heading is None else (unquote(heading),),
        lines=lines,
    )


def session_readings(text: str) -> tuple[SessionPlace, ...]:
    """What a text may mean as a session or an event of one, the longest name of a session first.

    Hits show ``SESSION#EVENT``, and reports ``session SESSION, event EVENT``. A ``#`` may be part
    of either name.

    >>> session_readings("talk#m-3")
    (SessionPlace(session='talk#m-3', event=None), SessionPlace(session='talk', event='m-3'))
    """
    body = text.removeprefix(_SESSION)
    mark = "#" if body == text else _EVENT
    parts = body.split(mark)
    split = range(len(parts) - 1, 0, -1)
    return (
        SessionPlace(session=body),
        *(SessionPlace(session=mark.join(parts[:n]), event=mark.join(parts[n:])) for n in split),
    )


def _within(text: str, paths: Iterable[str]) -> re.Match[str] | None:
    """``text`` as a part of the longest of ``paths`` that it begins with."""
    written = normal_path(text)
    begun = {path for path in map(normal_path, paths) if written.startswith(path)}
    for path in sorted(begun, key=len, reverse=True):
        found = re.fullmatch(rf"(?P<path>{re.escape(path)}){_PART}", written, re.DOTALL)
        if found is not None:
            return found
    return None


def path_fault(path: str) -> str | None:
    """Why ``path`` cannot be a file's path within a project; None where it can."""
    if not path.strip():
        return "the path is blank"
    if "\0" in path:
        return "the path holds a NUL"
    if path.startswith("/"):
        return f"the path {path!r} is absolute; paths start at the project's root"
    if ".." in path.split("/"):
        return f"the path {path!r} leads out with .."
    if posixpath.normpath(path) != path.removeprefix("./"):
        return f"the path {path!r} names no file; write it as `git ls-files` does"
    return None


def lines_fault(lines: tuple[int, int]) -> str | None:
    """Why ``lines`` are no range; None where they are one."""
    first, last = lines
    if first < 1:
        return "lines count from 1"
    return f"lines {first} to {last} are reversed" if last < first else None


def normal_path(path: str) -> str:
    """A path as places compare it: composed (NFC), without a leading ``./``."""
    return unicodedata.normalize("NFC", path.removeprefix("./"))


def covers(place: Place, chunk: ChunkPlace) -> bool:
    """Whether a chunk that lies at ``chunk`` answers what is judged at ``place``.

    A path alone is any chunk of the file; a section covers its sub-sections; lines must overlap;
    where both are given both must hold.
    """
    match place:
        case EntityPlace(entity=entity):
            return chunk.entity == entity
        case SessionPlace(session=session, event=event):
            return chunk.session == session and event in {None, chunk.event}
        case FilePlace():
            return (
                chunk.path is not None
                and normal_path(chunk.path) == normal_path(place.path)
                and (place.heading is None or _under_heading(place.heading, chunk))
                and (place.lines is None or _overlap(place.lines, chunk))
            )


def _overlap(lines: tuple[int, int], chunk: ChunkPlace) -> bool:
    if chunk.line_start is None or chunk.line_end is None:
        return False
    return chunk.line_start <= lines[1] and lines[0] <= chunk.line_end


def _under_heading(heading: Sequence[str], chunk: ChunkPlace) -> bool:
    if len(heading) == 1:
        return _under_one(heading[0], chunk)
    wanted = [folded(plain_heading(part)) for part in heading]
    path = [folded(plain_heading(part)) for part in chunk.heading_path]
    starts = range(len(path) - len(wanted) + 1)
    return any(path[start : start + len(wanted)] == wanted for start in starts)


def _under_one(name: str, chunk: ChunkPlace) -> bool:
    """By anchor or by text; ``decision`` is the first Decision of a file, ``decision-1`` the next.

    The anchor of a section above is not known, so it is taken as that of a first occurrence.
    """
    named, text = _nfc(name.removeprefix("#")), folded(plain_heading(name))
    *above, own = chunk.heading_path or ("",)
    own_anchors = {_nfc(chunk.anchor or ""), _written_id(own)}
    if named in own_anchors.union(*map(_anchors, above)):
        return True
    if text in {folded(plain_heading(heading)) for heading in above}:
        return True
    is_text = text == folded(plain_heading(own)) != ""
    return is_text and not (_nfc(own) != named and _is_repeat_of(named, chunk.anchor))


def plain_heading(text: str) -> str:
    """A heading without attributes behind it, such as ``{ #install }``."""
    return _ATTRIBUTES.sub("", text)


def _written_id(heading: str) -> str:
    found = _ATTRIBUTES.search(heading)
    return "" if found is None else _nfc(found["id"])


def _anchors(heading: str) -> set[str]:
    return {github_slug(_nfc(heading)), _written_id(heading)}


def _is_repeat_of(named: str, anchor: str | None) -> bool:
    """Whether ``named`` is the anchor of an earlier heading with the same text."""
    if anchor is None or not _nfc(anchor).startswith(named):
        return False
    return _REPEAT.fullmatch(_nfc(anchor)[len(named) :]) is not None


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """A text as headings and questions are compared: NFC, case-folded, blanks collapsed."""
    return " ".join(_nfc(_nfc(text).casefold()).split())
