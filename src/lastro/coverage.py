"""The coverage use case: what a project's index holds, and how far its sources have moved on."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from lastro import store
from lastro.db.pool import Database
from lastro.errors import LastroError
from lastro.indexing import plan_changes
from lastro.projects import project_named
from lastro.session_rows import is_current
from lastro.sources.clones import Clones
from lastro.sources.files import FilePatterns, Listing
from lastro.sources.git import count_commits
from lastro.sources.listing import find_place, list_at, list_place
from lastro.store import ScopeCounts, SessionState, Source, StoredDocument
from lastro.types import (
    DEFAULT_REF,
    SCOPES,
    Coverage,
    FileNote,
    Scope,
    ScopeCoverage,
    SourceCoverage,
)

T = TypeVar("T")


# What should be indexed of a scope, and which of its documents are not as they should be; None
# where that cannot be told.
_Counts = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A source beside what lies there now; counts are None where that cannot be read."""

    coverage: SourceCoverage
    files: Counter[Scope] | None
    stale: Counter[Scope] | None


def coverage(
    database: Database,
    project: str,
    *,
    fingerprint: str,
    patterns: FilePatterns,
    clones: Clones | None = None,
) -> Coverage:
    """Compare a project's index with its sources as they are now; reads no text at a ref.

    A remote repository is fetched into ``clones``.
    ``fingerprint`` is the present pipeline's: documents made by another are stale.
    Errors: NotFound for the project. A source that cannot be read is a value, not an error.
    """
    tenant = project_named(database, project)
    with database.session() as connection:
        was_running = store.project_is_locked(connection, tenant.id)
    # A run that works in the moment of which all of this tells is seen before it or in it.
    with database.transaction(projects=[tenant.id], snapshot=True) as connection:
        running = was_running or store.project_is_locked(connection, tenant.id)
        sources = store.project_sources(connection, tenant.id)
        counts = store.scope_counts(connection, tenant.id)
        sessions = store.session_states(connection, tenant.id)
        stored = {
            source.name: store.source_documents(
                connection, project_id=tenant.id, source=source.name
            )
            for source in sources
        }
    seen = [
        _look(s, stored[s.name], fingerprint=fingerprint, patterns=patterns, clones=clones)
        for s in sources
    ]
    places = [look.coverage for look in seen]
    behind = _if_all_known([place.behind for place in places])
    times = _if_all_known([place.indexed_at for place in places])
    return Coverage(
        project=tenant.slug,
        scopes=_scopes(counts, seen, _session_counts(sessions, fingerprint=fingerprint)),
        revision=_same([place.revision for place in places]),
        head=_same([place.head for place in places]),
        behind=sum(behind) if behind else None,
        # the oldest: everything is at least as new as this
        indexed_at=min(times, default=None),
        skipped=tuple(FileNote(**note) for source in sources for note in source.skipped),
        running=running,
        sources=tuple(places),
    )


def _look(
    source: Source,
    stored: Sequence[StoredDocument],
    *,
    fingerprint: str,
    patterns: FilePatterns,
    clones: Clones | None,
) -> _Seen:
    try:
        listing = _listing(source, stored, patterns=patterns, clones=clones)
    except LastroError as error:
        return _Seen(coverage=_place(source, unknown=error.message), files=None, stale=None)
    plan = plan_changes(listing, stored, fingerprint=fingerprint, rebuild=False)
    return _Seen(
        coverage=_place(source, listing=listing, behind=_behind(source, listing, patterns)),
        files=Counter(file.scope for file in listing.files),
        stale=Counter(d.scope for d in (*plan.gone, *plan.replaced.values())),
    )


def _listing(
    source: Source,
    stored: Sequence[StoredDocument],
    *,
    patterns: FilePatterns,
    clones: Clones | None,
) -> Listing:
    """What a new index run would find; the same rule about whole trees as there."""
    if any(patterns.is_in_docs(document.place) for document in stored):
        patterns = replace(patterns, whole_tree=False)
    return list_place(
        find_place(source.root if source.kind == "remote" else Path(source.root)),
        ref=source.ref or DEFAULT_REF,
        worktree=source.kind == "worktree",
        patterns=patterns,
        clones=clones,
    )


def _behind(source: Source, listing: Listing, patterns: FilePatterns) -> int | None:
    """How many documents changed since the revision that is indexed; None where that is gone."""
    if source.revision is None or listing.revision is None:
        return None
    if source.revision == listing.revision:
        return 0
    try:
        before = list_at(listing, source.revision, patterns=patterns)
    except LastroError:
        return None
    return _count_moves(_blobs(before), _blobs(listing))


def _blobs(listing: Listing) -> dict[str, str]:
    return {file.path: file.blob_id for file in listing.files}


def _count_moves(before: Mapping[str, str], now: Mapping[str, str]) -> int:
    """Files that came, went or changed; one that only moved to another path counts once."""
    changed = sum(before[path] != now[path] for path in before.keys() & now.keys())
    gone = Counter(before[path] for path in before.keys() - now.keys())
    came = Counter(now[path] for path in now.keys() - before.keys())
    return changed + (gone | came).total()


def _place(
    source: Source,
    *,
    listing: Listing | None = None,
    behind: int | None = None,
    unknown: str | None = None,
) -> SourceCoverage:
    head = listing.revision if listing else None
    commits = None
    if listing is not None and head is not None and source.revision is not None:
        commits = count_commits(listing.root, since=source.revision, until=head)
    return SourceCoverage(
        name=source.name,
        root=source.root,
        ref=source.ref,
        revision=source.revision,
        head=head,
        behind=behind,
        commits=commits,
        indexed_at=source.indexed_at,
        unknown=unknown,
    )


def _session_counts(states: Iterable[SessionState], *, fingerprint: str) -> _Counts:
    """Sessions in which something was said, and those that said more since they were indexed."""
    told = [state for state in states if state.indexed_count]
    stale = [s for s in told if s.document_id and not is_current(s, fingerprint=fingerprint)]
    return len(told), len(stale)


def _scopes(
    counts: Iterable[ScopeCounts], seen: Sequence[_Seen], sessions: _Counts
) -> tuple[ScopeCoverage, ...]:
    """One for each scope that is indexed or lies in a source, in the contract's order."""
    indexed = {count.scope: count for count in counts}
    files, stale = [look.files for look in seen], [look.stale for look in seen]
    there: dict[Scope, _Counts] = {s: (_total(files, s), _total(stale, s)) for s in SCOPES}
    there |= {"session": sessions, "entity": (None, None)}
    present = {scope for counter in files if counter is not None for scope in counter}
    if sessions[0]:
        present.add("session")
    return tuple(
        _scope(scope, indexed.get(scope), sources=there[scope][0], stale=there[scope][1])
        for scope in SCOPES
        if scope in indexed or scope in present
    )


def _scope(
    scope: Scope, counts: ScopeCounts | None, *, sources: int | None, stale: int | None
) -> ScopeCoverage:
    return ScopeCoverage(
        scope=scope,
        sources=sources,
        indexed=counts.indexed if counts else 0,
        with_vectors=counts.with_vectors if counts else 0,
        incomplete=counts.incomplete if counts else 0,
        stale=stale,
        chunks=counts.chunks if counts else 0,
    )


def _total(counters: Sequence[Counter[Scope] | None], scope: Scope) -> int | None:
    known = [counter[scope] for counter in counters if counter is not None]
    return sum(known) if len(known) == len(counters) else None


def _if_all_known(values: Sequence[T | None]) -> list[T]:
    """The values, or none of them where one is not known."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _same(values: Sequence[T | None]) -> T | None:
    return values[0] if values and all(value == values[0] for value in values) else None
