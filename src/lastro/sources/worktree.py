"""Documents of a folder as its files lie, whether or not it is a repository.

.gitignore and .lastroignore count at every level below the folder. Repositories inside a
repository are its submodules, and not entered. No link is followed, and files are opened part by
part from the root, so a folder swapped for a link leads nowhere.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from lastro.errors import InvalidInput, NotFound
from lastro.sources.files import (
    IGNORE_FILE,
    IGNORE_FILE_MAX_BYTES,
    Candidate,
    Entry,
    FileContent,
    FilePatterns,
    Listing,
    Reader,
    SourceFile,
    Unreadable,
    decode,
    is_safe_name,
    link_reason,
    require_some,
    select,
    shown_name,
)
from lastro.sources.ignoring import IgnoreRule, IgnoreRules, parse_rules
from lastro.types import FileNote

# Folders never entered unless the patterns name them: other people's files, by the thousand.
_HEAVY_FOLDERS = frozenset({"node_modules", "__pycache__"})
_GIT_FOLDER = b".git"
# Stands for whatever a folder may hold when its place is judged.
_ANY_DOCUMENT = "x.md"
_IGNORE_FILES = (b".gitignore", IGNORE_FILE.encode())


def list_worktree(path: Path, *, patterns: FilePatterns | None = None) -> Listing:
    """List the documents below the folder ``path``; blob ids are those git would give.

    Errors: NotFound (no such folder, no document), InvalidInput.
    """
    patterns = patterns or FilePatterns()
    root = existing_folder(path)
    tree = _walk(root, patterns)
    # A docs folder that cannot be read now is no reason to take the rest of the tree instead.
    blocked = any(patterns.scope_of(_inside(note.path)) for note in tree.unreadable)
    asked = replace(patterns, whole_tree=patterns.whole_tree and not blocked)
    selection = select(tree.entries, asked, is_ignored=lambda _: False)
    used = patterns.for_whole_tree() if selection.whole_tree else patterns
    unreadable = [note for note in tree.unreadable if used.scope_of(_inside(note.path))]
    files: list[SourceFile] = []
    for candidate in selection.files:
        found = _identify(root, candidate, patterns.max_bytes)
        if isinstance(found, SourceFile):
            files.append(found)
        else:
            unreadable.append(found)
    paths = {file.path for file in files}
    links = tuple(_link_note(root, link, paths) for link in selection.links)
    skipped = (*selection.skipped, *links, *unreadable)
    listing = Listing(
        root=root,
        ref=None,
        revision=None,
        files=tuple(files),
        skipped=tuple(sorted(skipped, key=lambda note: note.path)),
        ignored=selection.ignored,
        unreadable=tuple(sorted(note.path for note in unreadable)),
        whole_tree=selection.whole_tree,
        max_bytes=patterns.max_bytes,
    )
    return require_some(listing, patterns=patterns)


@contextmanager
def open_worktree(listing: Listing) -> Generator[Reader]:
    """Open the folder of ``listing`` for reading its files; a file that is gone is Unreadable."""

    def read(file: SourceFile) -> FileContent:
        try:
            data = _read_inside(listing.root, file.raw, max_bytes=listing.max_bytes)
        except OSError as error:
            return FileContent(file=file, text=Unreadable(reason=_os_reason(error)))
        if len(data) > listing.max_bytes:
            reason = f"grew above the limit of {listing.max_bytes:,} bytes since it was listed"
            return FileContent(file=file, text=Unreadable(reason=reason))
        current = replace(file, blob_id=blob_hash(data), size=len(data))
        return FileContent(file=current, text=decode(data))

    yield read


def worktree_state(path: Path, *, patterns: FilePatterns) -> str:
    """What the documents below ``path`` are now, by name, size and time, as one short text.

    Nothing is read but what is ignored. Errors: NotFound (no such folder), InvalidInput.
    """
    root = existing_folder(path)
    tree = _walk(root, patterns)
    selection = select(tree.entries, patterns, is_ignored=lambda _: False)
    made = hashlib.sha256()
    for candidate in sorted(selection.files, key=lambda one: one.entry.raw):
        made.update(candidate.entry.raw + b"\0" + _times(root, candidate.entry.raw) + b"\n")
    return made.hexdigest()


def _times(root: Path, raw: bytes) -> bytes:
    try:
        found = (root / os.fsdecode(raw)).stat(follow_symlinks=False)
    except OSError:
        return b"gone"
    return b"%d %d %d" % (found.st_size, found.st_mtime_ns, found.st_ino)


def blob_hash(data: bytes) -> str:
    """Id of ``data`` as a blob of git (SHA-1 repositories)."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def existing_folder(path: Path) -> Path:
    """The folder ``path``, resolved. Errors: NotFound, InvalidInput where it is none."""
    if not path.exists():
        raise NotFound(f"no such folder: {path}", remedy="give the path of a folder")
    if not path.is_dir():
        raise InvalidInput(f"not a folder: {path}", remedy="give the folder that holds the file")
    return path.resolve()


# --- walking -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """What a walk found; ``levels`` are the ignore rules by folder."""

    entries: list[Entry] = field(default_factory=list[Entry])
    unreadable: list[FileNote] = field(default_factory=list[FileNote])
    levels: dict[str, tuple[IgnoreRule, ...]] = field(
        default_factory=dict[str, tuple[IgnoreRule, ...]]
    )


def _walk(root: Path, patterns: FilePatterns) -> _Tree:
    tree = _Tree()
    pending = [b""]
    in_repository = False
    while pending:
        folder = pending.pop()
        try:
            names = _scan(root, folder)
        except OSError as error:
            if not folder:
                raise InvalidInput(
                    f"{root} cannot be read: {error.strerror}",
                    remedy="run as a user who may read it",
                ) from error
            note = FileNote(path=shown_name(folder), reason=_os_reason(error))
            tree.unreadable.append(note)
            continue
        if _GIT_FOLDER in {name for name, _ in names}:
            if folder and in_repository:
                tree.entries.append(Entry(raw=folder.removesuffix(b"/"), kind="submodule"))
                continue
            in_repository = in_repository or not folder
        _learn_rules(tree, root, folder, {name for name, _ in names})
        rules = IgnoreRules(levels=tree.levels)
        for name, entry in names:
            if name == _GIT_FOLDER:
                continue
            raw = folder + name
            path = shown_name(raw)
            if entry is None:
                if _is_entered(path, patterns) and not rules.decides(f"{path}/"):
                    pending.append(raw + b"/")
            elif not rules.decides(path):
                tree.entries.append(entry)
    return tree


def _scan(root: Path, folder: bytes) -> list[tuple[bytes, Entry | None]]:
    """Names in a folder with their entries; None stands for a folder."""
    descriptor = _open_inside(root, folder.removesuffix(b"/"), os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as found:
            return [
                (os.fsencode(one.name), _entry(folder + os.fsencode(one.name), one))
                for one in found
            ]
    finally:
        os.close(descriptor)


def _entry(raw: bytes, found: "os.DirEntry[str]") -> Entry | None:
    if found.is_symlink():
        return Entry(raw=raw, kind="link")
    if found.is_dir(follow_symlinks=False):
        return None
    if not found.is_file(follow_symlinks=False):
        return Entry(raw=raw, kind="other")
    try:
        return Entry(raw=raw, kind="file", size=found.stat(follow_symlinks=False).st_size)
    except FileNotFoundError:
        # Gone since it was listed; reading it will say so.
        return Entry(raw=raw, kind="file", size=0)


def _is_entered(path: str, patterns: FilePatterns) -> bool:
    name = PurePosixPath(path).name
    special = name.startswith(".") or name in _HEAVY_FOLDERS
    return not special or patterns.scope_of(f"{path}/{_ANY_DOCUMENT}") is not None


def _inside(path: str) -> str:
    return f"{path}{_ANY_DOCUMENT}" if path.endswith("/") else path


def _learn_rules(tree: _Tree, root: Path, folder: bytes, names: set[bytes]) -> None:
    contents: list[bytes] = []
    for name in _IGNORE_FILES:
        if name not in names:
            continue
        try:
            contents.append(_read_inside(root, folder + name, max_bytes=IGNORE_FILE_MAX_BYTES))
        except OSError as error:
            note = FileNote(path=shown_name(folder + name), reason=_os_reason(error))
            tree.unreadable.append(note)
    if contents:
        tree.levels[shown_name(folder)] = parse_rules(*contents)


# --- reading -----------------------------------------------------------------------------------


def _identify(root: Path, candidate: Candidate, max_bytes: int) -> SourceFile | FileNote:
    raw = candidate.entry.raw
    try:
        data = _read_inside(root, raw, max_bytes=max_bytes)
    except OSError as error:
        return FileNote(path=candidate.path, reason=_os_reason(error))
    return SourceFile(
        path=candidate.path,
        raw=raw,
        blob_id=blob_hash(data),
        size=len(data),
        scope=candidate.scope,
    )


def _link_note(root: Path, link: Candidate, paths: set[str]) -> FileNote:
    try:
        target = (root / os.fsdecode(link.entry.raw)).readlink()
    except OSError as error:
        return FileNote(path=link.path, reason=_os_reason(error))
    return FileNote(path=link.path, reason=link_reason(link.path, os.fsencode(target), files=paths))


def _read_inside(root: Path, raw: bytes, *, max_bytes: int) -> bytes:
    """Read a regular file, at most one byte more than ``max_bytes``; OSError for anything else."""
    descriptor = _open_inside(root, raw, os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return opened.read(max_bytes + 1)


def _open_inside(root: Path, raw: bytes, flags: int) -> int:
    """Open ``raw`` below ``root`` part by part, so that no link on the way is followed."""
    if raw and not is_safe_name(raw):
        raise OSError(errno.EINVAL, "its name leads outside the root")
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    parts = raw.split(b"/") if raw else []
    for number, part in enumerate(parts, start=1):
        wanted = flags if number == len(parts) else os.O_DIRECTORY
        try:
            below = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | wanted, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _os_reason(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "symbolic link, not followed"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "not readable by this user"
    if error.errno == errno.ENOENT:
        return "gone since it was listed"
    return error.strerror or "not readable"
