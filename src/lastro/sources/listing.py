"""Any source to its listing: a repository at a ref, a folder as it lies, a remote repository."""

from contextlib import AbstractContextManager
from pathlib import Path

from lastro.errors import ConfigError, InvalidInput
from lastro.sources.addresses import Address, parse_address
from lastro.sources.clones import Clones
from lastro.sources.files import FilePatterns, Listing, Reader
from lastro.sources.git import check_ref, list_ref, open_ref, repository_root
from lastro.sources.worktree import existing_folder, list_worktree, open_worktree
from lastro.types import DEFAULT_REF, SCOPES, IndexRequest

Place = Path | Address


def check_request(request: IndexRequest) -> None:
    """Refuse two options of which one would be ignored. Errors: InvalidInput."""
    if request.repair and request.rebuild:
        raise InvalidInput(
            "--repair and --rebuild cannot be given together",
            remedy="--rebuild completes everything, too",
        )
    if request.worktree and request.ref != DEFAULT_REF:
        raise InvalidInput(
            "--worktree and --ref cannot be given together",
            remedy="--worktree reads the files as they lie, --ref those of a commit",
        )
    if (request.scopes or request.sessions) and not request.rebuild:
        raise InvalidInput(
            "--scope and --session name what --rebuild makes again",
            remedy="add --rebuild, or leave them out",
        )
    unknown = [scope for scope in request.scopes if scope not in SCOPES]
    if unknown:
        raise InvalidInput(f"there is no scope {unknown[0]!r}", remedy=f"use {', '.join(SCOPES)}")


def find_place(path: Path | str) -> Place:
    """A folder, or the remote repository that a text is the address of. Errors: InvalidInput."""
    return path if isinstance(path, Path) else parse_address(path) or Path(path)


def require_folder(path: Path | str) -> Path:
    """A folder that is looked at as it changes. Errors: InvalidInput for a remote repository."""
    place = find_place(path)
    if isinstance(place, Address):
        raise InvalidInput(
            f"{place.url} is a remote repository, which tells nobody that it moved",
            remedy="watch a clone of it, or run `lastro index` at times",
        )
    return place.resolve()


def locate(place: Place, *, worktree: bool) -> Place:
    """The folder or repository that is meant, as its project keeps it; nothing is read or fetched.

    Errors: NotFound without a folder or repository, InvalidInput, ConfigError.
    """
    if not isinstance(place, Path):
        return place
    return existing_folder(place) if worktree else repository_root(place)


def list_place(
    place: Place, *, ref: str, worktree: bool, patterns: FilePatterns, clones: Clones | None
) -> Listing:
    """List the documents of a place; a remote repository is fetched first, and must be there.

    Errors: those of ``list_ref``, ``list_worktree`` and ``Clones.fetch``.
    """
    if isinstance(place, Path):
        if worktree:
            return list_worktree(place, patterns=patterns)
        return list_ref(place, ref=ref, patterns=patterns)
    if worktree:
        raise InvalidInput(
            f"--worktree reads a folder, and {place.url} is a remote repository",
            remedy="leave --worktree out, or clone the repository and give its folder",
        )
    if clones is None:
        raise ConfigError(
            f"{place.url} is a remote repository, and there is no folder for clones",
            remedy="give `clones`, as `App` does",
        )
    check_ref(ref)
    clone = clones.fetch(place, ref=ref)
    return list_ref(clone, ref=ref, patterns=patterns, address=place.url)


def list_again(listing: Listing, *, patterns: FilePatterns) -> Listing:
    """The same place with other patterns; nothing is fetched."""
    if listing.ref is None:
        return list_worktree(listing.root, patterns=patterns)
    return list_ref(listing.root, ref=listing.ref, patterns=patterns, address=listing.address)


def list_at(listing: Listing, revision: str, *, patterns: FilePatterns) -> Listing:
    """The same repository at another commit; nothing is fetched. Errors: those of ``list_ref``."""
    return list_ref(listing.root, ref=revision, patterns=patterns, address=listing.address)


def open_listing(listing: Listing) -> AbstractContextManager[Reader]:
    """Open a listing's source for reading its files."""
    return open_worktree(listing) if listing.ref is None else open_ref(listing)
