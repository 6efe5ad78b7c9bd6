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

from lastro.errors import ConfigError, InvalidInput, LastroError, NotFound
from lastro.sources.files import (
    IGNORE_FILE,
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
from lastro.types import FileNote

_WORKTREE_REMEDY = "add --worktree to read the files as they lie"


def list_ref(path: Path, *, ref: str = "HEAD", patterns: FilePatterns | None = None) -> Listing:
    """List the documents of the repository that holds ``path``, at the commit ``ref`` names.

    Errors: NotFound (no repository, ref, commit or document), InvalidInput, ConfigError.
    """
    patterns = patterns or FilePatterns()
    repository = _find_repository(path)
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


def count_commits(root: Path, *, since: str, until: str) -> int | None:
    """Count the commits of ``until`` that ``since`` does not have.

    None where history does not tell: it was cut off (a shallow clone) or no longer has ``since``.
    """
    if since == until:
        return 0
    try:
        if _line(_git(root, "rev-parse", "--is-shallow-repository")) == b"true":
            return None
        return int(_git(root, "rev-list", "--count", "--end-of-options", f"{since}..{until}"))
    except _GitFailed:
        return None


# --- the repository ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    """``root`` is the top folder (the git folder of a bare one), ``prefix`` ends in ``/``."""

    root: Path
    prefix: bytes
    asked: Path


def _find_repository(path: Path) -> _Repository:
    if not path.exists():
        raise NotFound(f"no such folder: {path}", remedy="give the path of a Git repository")
    if not path.is_dir():
        raise InvalidInput(f"not a folder: {path}", remedy="give the repository's folder")
    asked = path.resolve()
    if _line(_git(asked, "rev-parse", "--is-inside-work-tree")) == b"true":
        top, prefix = "--show-toplevel", _line(_git(asked, "rev-parse", "--show-prefix"))
    else:
        top, prefix = "--absolute-git-dir", b""
    root = Path(os.fsdecode(_line(_git(asked, "rev-parse", top))))
    return _Repository(root=root, prefix=prefix, asked=asked)


def _resolve(repository: _Repository, ref: str) -> str:
    if not ref.strip() or "\0" in ref:
        raise InvalidInput("the ref is blank", remedy="name a branch, a tag or a commit")
    try:
        # --end-of-options: a ref that looks like an option stays a ref.
        found = _git(
            repository.root, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}"
        )
    except _GitFailed as error:
        if ref == "HEAD":
            raise NotFound(
                f"{repository.root} has no commit yet",
                remedy=f"commit first, or {_WORKTREE_REMEDY}",
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
            remedy=f"{_WORKTREE_REMEDY}, or give {repository.root} to index the repository",
        )


# --- trees and blobs ---------------------------------------------------------------------------

_LINK_MODE = b"120000"


def _read_tree(repository: _Repository, commit: str) -> tuple[Entry, ...]:
    arguments = ("ls-tree", "-r", "-z", "--full-tree", commit)
    try:
        listed = _git(repository.root, *arguments, "--long")
    except _GitFailed as error:
        if "promisor" not in error.message:
            raise
        # A partial clone: git dies on the size of a blob that it would have to fetch.
        sizes = _present_sizes(repository.root, commit)
        names = _git(repository.root, *arguments)
        entries = (_parse_entry(record, sizes) for record in names.split(b"\0") if record)
    else:
        entries = (_parse_entry(record, {}) for record in listed.split(b"\0") if record)
    return tuple(entries)


def _present_sizes(root: Path, commit: str) -> dict[bytes, bytes]:
    """Sizes of the objects of a commit's tree that this clone holds, by id."""
    listed = _git(
        root, "rev-list", "--objects", "--no-object-names", "--missing=print", f"{commit}^{{tree}}"
    )
    present = b"".join(b"%b\n" % name for name in listed.split() if not name.startswith(b"?"))
    checked = _git(root, "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=present)
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
        if entry.kind == "file" and (entry.raw == name or entry.raw.endswith(b"/" + name))
    }
    return IgnoreRules(
        levels={folder: parse_rules(data) for folder, data in levels.items() if data}
    )


def _link_note(link: Candidate, blobs: "_Blobs", paths: set[str]) -> FileNote:
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
                _command(root, "cat-file", "--batch"),
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except FileNotFoundError as error:
            self._errors.close()
            raise _no_git() from error

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
        return _GitFailed(self._root, self._errors.read())


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


# --- git itself --------------------------------------------------------------------------------


class _GitFailed(InvalidInput):
    """Git refused; the message is git's own first line."""

    def __init__(self, root: Path, stderr: bytes) -> None:
        lines = stderr.decode("utf-8", "replace").splitlines()
        said = next((line for line in lines if line.startswith("fatal:")), "".join(lines[:1]))
        super().__init__(
            f"git could not read {root}: {said.removeprefix('fatal: ') or 'it ended early'}",
            remedy="run `git fsck` there, or clone the repository again",
        )


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            _command(folder, *arguments),
            env=_environment(),
            input=stdin,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise _no_git() from error
    if done.returncode == 0:
        return done.stdout
    if b"not a git repository" in done.stderr:
        raise NotFound(f"{folder} is not in a Git repository", remedy=_WORKTREE_REMEDY)
    if b"dubious ownership" in done.stderr or b"unsafe repository" in done.stderr:
        raise _foreign_owner(folder, done.stderr)
    raise _GitFailed(folder, done.stderr)


def _command(folder: Path, *arguments: str) -> list[str]:
    # A folder that was named outright may belong to someone else (root over a user's checkout):
    # none of the commands here runs anything that the repository configures.
    safe = f"safe.directory={folder.as_posix()}"
    return ["git", "--no-pager", "--no-optional-locks", "-c", safe, "-C", str(folder), *arguments]


def _environment() -> dict[str, str]:
    """Environment for git without what would redirect it, its network or its language."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "LC_ALL": "C",
        "LANGUAGE": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        # Replaced objects would put other text under a commit's name.
        "GIT_NO_REPLACE_OBJECTS": "1",
        # A partial clone must not fetch: the variable for git >= 2.45, no protocol for the others.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
    }


def _line(output: bytes) -> bytes:
    return output.removesuffix(b"\n").removesuffix(b"\r")


def _no_git() -> ConfigError:
    return ConfigError(
        "the program git is not on PATH", remedy=f"install git, or {_WORKTREE_REMEDY}"
    )


def _foreign_owner(folder: Path, stderr: bytes) -> ConfigError:
    parts = stderr.decode("utf-8", "replace").split("'")
    root = parts[1] if len(parts) > 1 else str(folder)
    return ConfigError(
        f"the repository {root} belongs to another user",
        remedy=f"give its top folder, {root}, or run as its owner; with git older than 2.38, "
        f"run: git config --global --add safe.directory '{root}'",
    )
