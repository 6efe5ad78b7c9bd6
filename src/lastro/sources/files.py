"""Which files are documents, what is told of the others, and how bytes become text (pure)."""

import codecs
import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lastro.errors import ConfigError, NotFound
from lastro.types import FileNote

if TYPE_CHECKING:
    from pathspec import PathSpec

FileScope = Literal["docs", "adr"]

DOCS_PATTERNS = ("docs/**", "doc/**")
# Where MADR, adr-tools, log4brains and the ADR organisation's own pages put records.
ADR_PATTERNS = (
    "docs/adr/**",
    "docs/adrs/**",
    "docs/decisions/**",
    "docs/architecture/adr/**",
    "docs/architecture/decisions/**",
    "docs/architecture-decisions/**",
    "doc/adr/**",
    "doc/adrs/**",
    "doc/decisions/**",
    "doc/architecture/decisions/**",
    "adr/**",
    "adrs/**",
)
MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd")
# Plain text and reStructuredText read as Markdown: underlined headings are headings in both.
SUFFIXES = (*MARKDOWN_SUFFIXES, ".txt", ".rst")
# Names that end like prose and are input for programs, all of them of one suffix.
NOT_PROSE_SUFFIX = ".txt"
NOT_PROSE = ("requirements*.txt", "constraints*.txt", "cmakelists.txt", "robots.txt")
# About 2,000 chunks; prose above it is nearly always generated.
MAX_BYTES = 2 * 1024 * 1024
# A place is a key: PostgreSQL's B-trees hold rows of at most 2,704 bytes, other columns among them.
MAX_PATH_BYTES = 2_000
# No list of patterns, no target of a link (Linux's PATH_MAX) is longer.
IGNORE_FILE_MAX_BYTES = 1024 * 1024
LINK_MAX_BYTES = 4_096

IGNORE_FILE = ".lastroignore"
_WILD = re.compile(r"[*?\[\\#! ]")
_WHOLE_FOLDER = re.compile(r"[^*?\[\\#! /]+(?:/[^*?\[\\#! /]+)*/\*\*")
# Folders that a folder without docs/ holds beside its own texts.
_NOT_OURS = (".*/", "node_modules/", "vendor/", "third_party/", "venv/", "site-packages/")
_WHOLE_TREE_ADR = ("**/adr/**", "**/adrs/**", "**/decisions/**")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatterns:
    """Where documents lie, in .gitignore's syntax (last match wins, ``!`` takes out again).

    ``whole_tree`` allows every Markdown file to be taken where nothing matches the default
    ``docs``; patterns of one's own are never widened.
    """

    docs: tuple[str, ...] = DOCS_PATTERNS
    adr: tuple[str, ...] = ADR_PATTERNS
    suffixes: tuple[str, ...] = SUFFIXES
    max_bytes: int = MAX_BYTES
    whole_tree: bool = True

    def scope_of(self, path: str) -> FileScope | None:
        """Scope of whatever lies at ``path``, judged by its place alone."""
        if _matches(self.adr, path):
            return "adr"
        return "docs" if _matches(self.docs, path) else None

    def is_in_docs(self, path: str) -> bool:
        """Tell whether ``path`` matches ``docs``, whatever ``adr`` says."""
        return _matches(self.docs, path)

    def may_take_whole_tree(self) -> bool:
        """Tell whether all Markdown may be taken: allowed, and nobody said where documents lie."""
        return self.whole_tree and self.docs == DOCS_PATTERNS

    def is_document_name(self, path: str) -> bool:
        """Tell whether the name ends like a text that people read."""
        name = path.rpartition("/")[2].lower()
        if not name.endswith(self.suffixes):
            return False
        return not name.endswith(NOT_PROSE_SUFFIX) or not any(
            fnmatchcase(name, pattern) for pattern in NOT_PROSE
        )

    def for_whole_tree(self) -> "FilePatterns":
        """Patterns that take every Markdown file but other people's and hidden ones."""
        others = tuple(f"!{folder}" for folder in _NOT_OURS)
        return FilePatterns(
            docs=("*", *others),
            adr=(*self.adr, *_WHOLE_TREE_ADR, *others),
            suffixes=MARKDOWN_SUFFIXES,
            max_bytes=self.max_bytes,
            whole_tree=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A document found: ``path`` is shown and stored, ``raw`` is its true name in bytes."""

    path: str
    raw: bytes
    blob_id: str
    size: int
    scope: FileScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All documents of a source at one moment, sorted by path; never empty.

    ``revision`` is the full commit id, None for a worktree. ``skipped`` are documents that
    cannot be taken, each with its reason; ``ignored`` counts by reason what is no document.
    ``unreadable`` names places (folders end in ``/``) that could not be read this time: what is
    indexed from there must stay. ``address`` is that of the remote repository whose clone ``root``
    is.
    """

    root: Path
    ref: str | None
    revision: str | None
    files: tuple[SourceFile, ...]
    skipped: tuple[FileNote, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict[str, int])
    unreadable: tuple[str, ...] = ()
    whole_tree: bool = False
    max_bytes: int = MAX_BYTES
    address: str | None = None

    @property
    def place(self) -> str:
        """Where the source lies, for people and for the database."""
        return self.address or str(self.root)

    def is_unread(self, path: str) -> bool:
        """Tell whether ``path`` lies where this listing could not look."""
        return any(
            path == place or (place.endswith("/") and path.startswith(place))
            for place in self.unreadable
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """A file's text without its byte-order mark, and what was mended in it."""

    text: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Why a file has no text."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """What reading a file gave; ``file`` carries blob id and size of the bytes that were read."""

    file: SourceFile
    text: FileText | Unreadable


Reader = Callable[[SourceFile], FileContent]


# --- names -------------------------------------------------------------------------------------


def shown_name(raw: bytes) -> str:
    r"""Show a file's name as text: UTF-8 as it is, other bytes as ``\xNN``, backslashes doubled.

    A name that is UTF-8 is never changed, so only names that are not can hold an escape.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def is_safe_name(raw: bytes) -> bool:
    """Tell whether a relative name stays below its root: no empty, ``.`` or ``..`` part."""
    return not any(part in (b"", b".", b"..") for part in raw.split(b"/"))


# --- selection ---------------------------------------------------------------------------------

EntryKind = Literal["file", "link", "submodule", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a tree; ``size`` is None where the source does not know it."""

    raw: bytes
    kind: EntryKind
    blob_id: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An entry that matches the patterns."""

    entry: Entry
    path: str
    scope: FileScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Entries sorted into what to read, what to tell and what to count."""

    files: tuple[Candidate, ...]
    links: tuple[Candidate, ...]
    skipped: tuple[FileNote, ...]
    ignored: Mapping[str, int]
    whole_tree: bool


def select(
    entries: Iterable[Entry], patterns: FilePatterns, *, is_ignored: Callable[[str], bool]
) -> Selection:
    """Sort a tree's entries by the patterns; the whole tree is taken where ``docs`` is empty."""
    named = sorted(((shown_name(entry.raw), entry) for entry in entries), key=itemgetter(0))
    whole_tree = patterns.may_take_whole_tree() and not any(
        entry.kind == "file" and patterns.is_document_name(path) and patterns.is_in_docs(path)
        for path, entry in named
    )
    used = patterns.for_whole_tree() if whole_tree else patterns
    files: list[Candidate] = []
    links: list[Candidate] = []
    skipped: list[FileNote] = []
    ignored: Counter[str] = Counter()
    before: str | None = None
    for path, entry in named:
        if whole_tree and entry.kind == "file" and not used.is_document_name(path):
            continue
        scope = used.scope_of(path)
        if scope is None:
            continue
        if is_ignored(path):
            ignored[IGNORE_FILE] += 1
        elif entry.kind == "link":
            links.append(Candidate(entry=entry, path=path, scope=scope))
        elif entry.kind == "file" and not used.is_document_name(path):
            ignored[f"not a document ({PurePosixPath(path).suffix.lower() or 'no suffix'})"] += 1
        elif path == before:
            skipped.append(FileNote(path=path, reason="its name is shown like another file's"))
        elif reason := _refusal(entry, path, used):
            skipped.append(FileNote(path=path, reason=reason))
        else:
            files.append(Candidate(entry=entry, path=path, scope=scope))
        before = path
    return Selection(
        files=tuple(files),
        links=tuple(links),
        skipped=tuple(skipped),
        ignored=dict(sorted(ignored.items())),
        whole_tree=whole_tree,
    )


def _refusal(entry: Entry, path: str, patterns: FilePatterns) -> str | None:
    if not is_safe_name(entry.raw):
        return "its name leads outside the root"
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"its path is longer than {MAX_PATH_BYTES:,} bytes"
    if entry.kind == "submodule":
        return "submodule: its files belong to another repository"
    if entry.kind == "other":
        return "not a regular file"
    if entry.size is None:
        return MISSING_CONTENT
    if entry.size > patterns.max_bytes:
        return f"{entry.size:,} bytes, above the limit of {patterns.max_bytes:,} (max_bytes)"
    return None


def link_reason(path: str, target: bytes, *, files: Container[str]) -> str:
    """Say of a symbolic link at ``path`` where it leads and that it is not followed."""
    shown = shown_name(target)
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), shown))
    if posixpath.isabs(place) or place == ".." or place.startswith("../"):
        return f"symbolic link out of the root (to {shown}), not followed"
    if place in files:
        return f"symbolic link to {place}, which is read under its own name"
    return f"symbolic link to {shown}, not followed"


def require_some(listing: Listing, *, patterns: FilePatterns) -> Listing:
    """Return ``listing``; an empty one raises NotFound, so that nothing is pruned by accident."""
    if listing.files:
        return listing
    where = f"{listing.place} at {listing.ref}" if listing.ref else listing.place
    left_out = len(listing.skipped) + sum(listing.ignored.values())
    raise NotFound(
        f"no document found in {where} under {', '.join(patterns.docs)}"
        + (f" ({left_out} files there were left out)" if left_out else ""),
        remedy="say in lastro.toml where the documents lie (patterns in .gitignore's syntax), "
        "or give another folder or ref; nothing in the index was changed",
    )


def _matches(patterns: tuple[str, ...], path: str) -> bool:
    name = unicodedata.normalize("NFC", path)
    spec, folders = _pattern_spec(patterns), _folders(patterns)
    if folders.are_all:
        return name.startswith(folders.within)
    if folders.first is not None and name.partition("/")[0] not in folders.first:
        return False
    return spec.match_file(name)


class _Folders(NamedTuple):
    """Folders ``within`` which files match, with their closing slash, and whether they ``are_all``.

    ``first`` are the outermost ones of all matches; None where a pattern may match elsewhere.
    """

    within: tuple[str, ...]
    are_all: bool
    first: frozenset[str] | None


@cache
def _folders(patterns: tuple[str, ...]) -> _Folders:
    """What patterns say without wild cards; a match of theirs takes 15 µs and more a file."""
    heads = [
        unicodedata.normalize("NFC", pattern.removeprefix("/"))
        for pattern in patterns
        if not pattern.startswith("!")
    ]
    within = tuple(head.removesuffix("**") for head in heads if _WHOLE_FOLDER.fullmatch(head))
    firsts = [head.partition("/") for head in heads]
    is_tied = all(slash and rest and not _WILD.search(first) for first, slash, rest in firsts)
    return _Folders(
        within=within,
        are_all=len(within) == len(patterns),
        first=frozenset(first for first, _, _ in firsts) if is_tied else None,
    )


@cache
def _pattern_spec(patterns: tuple[str, ...]) -> "PathSpec[Any]":
    from pathspec import PathSpec  # 0.1 s that reading settings need not wait for

    lines = [unicodedata.normalize("NFC", pattern) for pattern in patterns]
    try:
        return PathSpec.from_lines("gitignore", lines)
    except ValueError as error:
        raise ConfigError(
            f"not a pattern: {error}", remedy="write file patterns as in .gitignore"
        ) from error


# --- text --------------------------------------------------------------------------------------

MISSING_CONTENT = "its content is not in this clone (a partial clone); fetch it"
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
# The specification allows no pointer of 1,024 bytes or more.
_LFS_POINTER_MAX_BYTES = 1024
# UTF-32's little-endian mark begins with UTF-16's, so it is tried first.
_MARKED_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Prose has a stray NUL or two; UTF-16 without a mark has one in every second byte.
_BINARY_MIN_NULS = 3
_BINARY_NUL_SHARE = 0.1


def decode(data: bytes) -> FileText | Unreadable:
    """Read bytes as text: UTF-8, or UTF-16 and UTF-32 by their mark; a stray NUL becomes a blank.

    Offsets count from after the mark, and a blank for a NUL keeps those behind it.
    """
    if data.startswith(_LFS_POINTER) and len(data) < _LFS_POINTER_MAX_BYTES:
        return Unreadable(reason="git-lfs pointer, content not in the repository")
    mark, encoding = next(
        (pair for pair in _MARKED_ENCODINGS if data.startswith(pair[0])), (b"", "utf-8")
    )
    body = data[len(mark) :]
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        if not mark and b"\0" in body:
            return Unreadable(reason="binary")
        line = body[: error.start].decode(encoding, "replace").count("\n") + 1
        return Unreadable(reason=f"not {encoding.upper()}: undecodable bytes in line {line}")
    nuls = text.count("\0")
    if nuls == 0:
        return FileText(text=text)
    if nuls >= _BINARY_MIN_NULS and nuls >= _BINARY_NUL_SHARE * len(text):
        return Unreadable(reason="binary")
    warning = f"{nuls} NUL character{'s' if nuls > 1 else ''} read as blank"
    return FileText(text=text.replace("\0", " "), warnings=(warning,))
