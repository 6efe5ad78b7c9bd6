"""Documents of a Git repository at a ref, read from its objects; nothing is checked out or run.

Git runs without the caller's GIT_* variables, network, hooks, filters or replaced objects, so
what is read is what the commit holds.
"""

import os
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from lastro.errors import InvalidInput, LastroError, NotFound
from lastro.sources.files import (
    IGNORE_FILE,
    IGNORE_FILE_MAX_BYTES,
    LINK_MAX_BYTES,
    MISSING_CONTENT,
    Candidate,
    Entry,
    EntryKind,
    FileContent,
    FilePatterns,
    Listing,
    Reader,
    SourceFile,
    Unreadable,
    decode,
    link_reason,
    require_some,
    select,
)
from lastro.sources.ignoring import IgnoreRules, parse_rules
from lastro.sources.running import (
    WORKTREE_REMEDY,
    GitFailed,
    git_command,
    local_environment,
    no_git,
    run_git,
)
from lastro.types import FileNote


def list_ref(
    path: Path,
    *,
    ref: str = "HEAD",
    patterns: FilePatterns | None = None,
    address: str | None = None,
) -> Listing:
    """List the documents of the repository that holds ``path``, at the commit ``ref`` names.

    ``address`` is that of the remote repository whose clone ``path`` is; messages name it.
    Errors: NotFound (no repository, ref, commit or document), InvalidInput, ConfigError.
    """
    patterns = patterns or FilePatterns()
    repository = _find_repository(path, address=address)
    commit = _resolve(repository, ref)
    entries = _read_tree(repository, commit)
    _check_tracked(repository, entries, ref)
    with _Blobs(repository.root) as blobs:
        rules = _ignore_rules(entries, blobs)
        selection = select(entries, patterns, is_ignored=rules.ignores)
        files = tuple(_source_file(candidate) for candidate in selection.files)
        paths = {file.path for file in files}
        links = tuple(_link_note(link, blobs, paths) for link in selection.links)
    listing = Listing(
        root=repository.root,
        ref=ref,
        revision=commit,
        files=files,
        skipped=tuple(sorted((*selection.skipped, *links), key=lambda note: note.path)),
        ignored=selection.ignored,
        whole_tree=selection.whole_tree,
        max_bytes=patterns.max_bytes,
        address=address,
    )
    return require_some(listing, patterns=patterns)


@contextmanager
def open_ref(listing: Listing) -> Generator[Reader]:
    """Open the repository of ``listing`` for reading its files, by one git process.

    A file whose blob is missing is Unreadable; InvalidInput is raised when git itself fails.
    """
    with _Blobs(listing.root) as blobs:

        def read(file: SourceFile) -> FileContent:
            data = blobs.read(file.blob_id)
            if data is None:
                return FileContent(file=file, text=Unreadable(reason=MISSING_CONTENT))
            return FileContent(file=replace(file, size=len(data)), text=decode(data))

        yield read


def head_of(path: Path, *, ref: str = "HEAD") -> str:
    """The commit that a ref of the repository names now. Errors: as ``list_ref``."""
    return _resolve(_find_repository(path, address=None), ref)


def count_commits(root: Path, *, since: str, until: str) -> int | None:
    """Count the commits of ``until`` that ``since`` does not have.

    None where history does not tell: it was cut off (a shallow clone) or no longer has ``since``.
    """
    if since == until:
        return 0
    try:
        if _line(run_git(root, "rev-parse", "--is-shallow-repository")) == b"true":
            return None
        return int(run_git(root, "rev-list", "--count", "--end-of-options", f"{since}..{until}"))
    except GitFailed:
        return None


# --- the repository ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    """``root`` is the top folder (the git folder of a bare one), ``prefix`` ends in ``/``.

    ``address`` is None where no remote repository is meant.
    """

    root: Path
    prefix: bytes
    asked: Path
    address: str | None


def repository_root(path: Path) -> Path:
    """The top folder of the repository that holds ``path``.

    Errors: NotFound, InvalidInput, ConfigError.
    """
    return _find_repository(path, address=None).root


def _find_repository(path: Path, *, address: str | None) -> _Repository:
    if not path.exists():
        raise NotFound(f"no such folder: {path}", remedy="give the path of a Git repository")
    if not path.is_dir():
        raise InvalidInput(f"not a folder: {path}", remedy="give the repository's folder")
    asked = path.resolve()
    if _line(run_git(asked, "rev-parse", "--is-inside-work-tree")) == b"true":
        top, prefix = "--show-toplevel", _line(run_git(asked, "rev-parse", "--show-prefix"))
    else:
        top, prefix = "--absolute-git-dir", b""
    root = Path(os.fsdecode(_line(run_git(asked, "rev-parse", top))))
    if address is not None and root != asked:
        # Git looked above a clone that is none and found somebody else's repository.
        raise GitFailed(asked, b"the clone is damaged; run again")
    return _Repository(root=root, prefix=prefix, asked=asked, address=address)


def check_ref(ref: str) -> None:
    """Refuse what can name no commit. Errors: InvalidInput."""
    if not ref.strip() or "\0" in ref:
        raise InvalidInput("the ref is blank", remedy="name a branch, a tag or a commit")
    if ref.startswith("^"):
        raise InvalidInput(
            f"{ref!r} is every commit but one", remedy="name a branch, a tag or a commit"
        )


def _resolve(repository: _Repository, ref: str) -> str:
    check_ref(ref)
    try:
        # --end-of-options: a ref that looks like an option stays a ref.
        found = run_git(
            repository.root, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}"
        )
    except GitFailed as error:
        if repository.address:
            raise NotFound(
                f"no commit named {ref!r} in {repository.address}",
                remedy="name a branch, a tag or a commit that is there; nothing in the index was "
                "changed",
            ) from error
        if ref == "HEAD":
            raise NotFound(
                f"{repository.root} has no commit yet",
                remedy=f"commit first, or {WORKTREE_REMEDY}",
            ) from error
        raise NotFound(
            f"no commit named {ref!r} in {repository.root}",
            remedy="name a branch, a tag or a commit that this clone has; fetch it first if it "
            "is on the remote only",
        ) from error
    return _line(found).decode("ascii")


def _check_tracked(repository: _Repository, entries: Sequence[Entry], ref: str) -> None:
    prefix = repository.prefix
    if prefix and not any(entry.raw.startswith(prefix) for entry in entries):
        raise NotFound(
            f"{repository.asked} lies in the repository {repository.root}, "
            f"which has nothing there at {ref}",
            remedy=f"{WORKTREE_REMEDY}, or give {repository.root} to index the repository",
        )


# --- trees and blobs ---------------------------------------------------------------------------

_LINK_MODE = b"120000"


def _read_tree(repository: _Repository, commit: str) -> tuple[Entry, ...]:
    arguments = ("ls-tree", "-r", "-z", "--full-tree", commit)
    try:
        listed = run_git(repository.root, *arguments, "--long")
    except GitFailed as error:
        if "promisor" not in error.message:
            raise
        # A partial clone: git dies on the size of a blob that it would have to fetch.
        sizes = _present_sizes(repository.root, commit)
        names = run_git(repository.root, *arguments)
        entries = (_parse_entry(record, sizes) for record in names.split(b"\0") if record)
    else:
        entries = (_parse_entry(record, {}) for record in listed.split(b"\0") if record)
    return tuple(entries)


def _present_sizes(root: Path, commit: str) -> dict[bytes, bytes]:
    """Sizes of the objects of a commit's tree that this clone holds, by id."""
    listed = run_git(
        root, "rev-list", "--objects", "--no-object-names", "--missing=print", f"{commit}^{{tree}}"
    )
    present = b"".join(b"%b\n" % name for name in listed.split() if not name.startswith(b"?"))
    checked = run_git(root, "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=present)
    return dict(_pair(line) for line in checked.splitlines())


def _pair(line: bytes) -> tuple[bytes, bytes]:
    name, size = line.split()
    return name, size


def _parse_entry(record: bytes, sizes: Mapping[bytes, bytes]) -> Entry:
    """Parse ``<mode> <type> <id> [<size>]TAB<name>``; ``sizes`` stand in for the size."""
    header, _, raw = record.partition(b"\t")
    mode, kind, blob_id, *sized = header.split()
    size = sized[0] if sized else sizes.get(blob_id, b"")
    return Entry(
        raw=raw,
        kind=_entry_kind(mode, kind),
        blob_id=blob_id.decode("ascii"),
        size=int(size) if size.isdigit() else None,
    )


def _entry_kind(mode: bytes, kind: bytes) -> EntryKind:
    if kind == b"commit":
        return "submodule"
    return "link" if mode == _LINK_MODE else "file"


def _source_file(candidate: Candidate) -> SourceFile:
    entry = candidate.entry
    return SourceFile(
        path=candidate.path,
        raw=entry.raw,
        blob_id=entry.blob_id,
        size=entry.size or 0,
        scope=candidate.scope,
    )


def _ignore_rules(entries: Sequence[Entry], blobs: "_Blobs") -> IgnoreRules:
    name = IGNORE_FILE.encode()
    levels = {
        entry.raw[: -len(name)].decode("utf-8", "surrogateescape"): blobs.read(entry.blob_id)
        for entry in entries
        if entry.kind == "file"
        and (entry.raw == name or entry.raw.endswith(b"/" + name))
        and (entry.size or 0) <= IGNORE_FILE_MAX_BYTES
    }
    return IgnoreRules(
        levels={folder: parse_rules(data) for folder, data in levels.items() if data}
    )


def _link_note(link: Candidate, blobs: "_Blobs", paths: set[str]) -> FileNote:
    if (link.entry.size or 0) > LINK_MAX_BYTES:
        return FileNote(path=link.path, reason="symbolic link to no possible name, not followed")
    target = blobs.read(link.entry.blob_id)
    reason = MISSING_CONTENT if target is None else link_reason(link.path, target, files=paths)
    return FileNote(path=link.path, reason=reason)


class _Blobs:
    """One ``git cat-file --batch`` process, asked for a blob at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # A file, because nobody drains a pipe while git writes its complaints.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                git_command(root, "cat-file", "--batch"),
                env=local_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except FileNotFoundError as error:
            self._errors.close()
            raise no_git() from error

    def __enter__(self) -> "_Blobs":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__(None, None, None)
        self._errors.close()

    def read(self, blob_id: str) -> bytes | None:
        """Bytes of a blob, or None where the repository does not hold it."""
        stdin, stdout = _pipes(self._process)
        try:
            stdin.write(f"{blob_id}\n".encode("ascii"))
            stdin.flush()
        except BrokenPipeError as error:
            raise self._failure() from error
        header = stdout.readline().split()
        if header[1:] == [b"missing"]:
            return None
        if len(header) != 3:
            raise self._failure()
        size = int(header[2])
        data = stdout.read(size + 1)
        if len(data) != size + 1:
            raise self._failure()
        return data[:-1]

    def _failure(self) -> LastroError:
        self._errors.seek(0)
        return GitFailed(self._root, self._errors.read())


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _line(output: bytes) -> bytes:
    return output.removesuffix(b"\n").removesuffix(b"\r")
