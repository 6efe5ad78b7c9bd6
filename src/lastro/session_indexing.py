"""Sessions to documents: what was said becomes chunks, and what is there already stays."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lastro import store
from lastro.counting import count_again
from lastro.db.pool import Database
from lastro.documents import Prepared
from lastro.event import INDEXED_TYPES, SessionCounts
from lastro.projects import project_named
from lastro.session_rows import Begun, SessionRows, begun_of, is_current
from lastro.store import AppConnection, Project, SessionState
from lastro.turns import turn
from lastro.types import Progress
from lastro.writing import BATCH_CHUNKS, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSessions:
    """What an index run over sessions did; ``chunks`` are the project's after it."""

    sessions: SessionCounts
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """Some rows of a session; ``is_last`` where no event was left."""

    prepared: Prepared
    replaced: SessionState | None
    is_last: bool


def index_sessions(
    database: Database,
    project: Project,
    *,
    writer: Writer,
    sessions: Sequence[str] | None = None,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> IndexedSessions:
    """Bring the index of the named sessions, or of all, to what the log holds now.

    A session that grew at its end keeps its rows; another that changed is swapped whole in one
    transaction. A failed embedding stores rows without a vector, which a later run completes.
    Errors: EmbedderMismatch, NotFound where the project was erased meanwhile.
    """
    writer.require_embedder()
    with turn(database, project.id) as at_once:
        project_named(database, project.slug)  # who came before may have erased it
        if not at_once:
            writer.require_embedder()  # or switched to another embedder
        # Before what is new, so that a text that is refused now is not asked for twice.
        writer.repair(project.id)
        with database.transaction(projects=[project.id]) as connection:
            states = store.session_states(connection, project.id, sessions=sessions)
        fingerprint = writer.pipeline.fingerprint
        indexed = [state for state in states if state.indexed_count or state.document_id]
        stale = [s for s in indexed if rebuild or not is_current(s, fingerprint=fingerprint)]
        try:
            _write(database, stale, project_id=project.id, writer=writer, rebuild=rebuild,
                   progress=progress)  # fmt: skip
        finally:
            writer.settle()  # nothing is stored any more when the next one's turn comes
        chunks = count_again(database, project_id=project.id, has_changed=bool(stale))
        writer.finish()
    known = Counter(state.document_id is not None for state in stale)
    return IndexedSessions(
        sessions=SessionCounts(
            added=known[False], changed=known[True], unchanged=len(indexed) - len(stale)
        ),
        chunks=chunks,
    )


def _write(
    database: Database,
    stale: Sequence[SessionState],
    *,
    project_id: int,
    writer: Writer,
    rebuild: bool,
    progress: Progress | None,
) -> None:
    """Write slices of sessions, a round for each, until every one of them is whole.

    A session that is new or that grew may come in parts, of which each is stored before the next
    is read.
    """
    left = [state.id for state in stale]
    while left:
        batch: list[_Slice] = []
        again: list[str] = []
        for session in left:
            part = _next_slice(
                database, session, project_id=project_id, writer=writer, rebuild=rebuild
            )
            if part is None:
                continue
            batch.append(part)
            if not part.is_last:
                again.append(session)
            if sum(len(one.prepared.chunks) for one in batch) >= BATCH_CHUNKS:
                _store(batch, project_id=project_id, writer=writer)
                batch = []
        _store(batch, project_id=project_id, writer=writer)
        writer.settle()
        # What is swapped whole is swapped in the first round.
        rebuild = False
        left = again
        if progress is not None:
            progress(len(stale) - len(left), len(stale))


def _store(batch: Sequence[_Slice], *, project_id: int, writer: Writer) -> None:
    replaced = [part.replaced.document_id for part in batch if part.replaced is not None]
    writer.write(
        [part.prepared for part in batch],
        project_id=project_id,
        stale=[id_ for id_ in replaced if id_ is not None],
    )


def _next_slice(
    database: Database, session: str, *, project_id: int, writer: Writer, rebuild: bool
) -> _Slice | None:
    """The rows that a session lacks, or all of them in place of those that it has.

    None where it lacks nothing, or is gone.
    """
    pipeline = writer.pipeline
    with database.transaction(projects=[project_id], snapshot=True) as connection:
        states = store.session_states(connection, project_id, sessions=[session])
        if not states or (not rebuild and is_current(states[0], fingerprint=pipeline.fingerprint)):
            return None
        (state,) = states
        begun = None
        if not rebuild:
            begun = _begun(connection, state, project_id=project_id, print_=pipeline.fingerprint)
        rows = SessionRows(session, pipeline, project_id=project_id, begun=begun)
        is_swapped = begun is None and state.document_id is not None
        after = -1 if begun is None else begun.extent.last_seq
        is_last = True
        for event in store.events_after(
            connection, session, after, project_id=project_id, types=INDEXED_TYPES
        ):
            if len(rows.chunks) >= BATCH_CHUNKS and not is_swapped:
                is_last = False
                break
            rows.add(event)
    return _Slice(
        prepared=rows.prepared(title=state.title),
        replaced=state if is_swapped else None,
        is_last=is_last,
    )


def _begun(
    connection: AppConnection, state: SessionState, *, project_id: int, print_: str
) -> Begun | None:
    """What the session's document says, where all that it lacks comes after it; else None."""
    if state.document_id is None or state.fingerprint != print_:
        return None
    begun = begun_of(state)
    if not begun.extent.chunks:  # its title and language are still to be found
        return None
    until = store.count_indexed_until(
        connection, state.id, begun.extent.last_seq, project_id=project_id
    )
    return begun if until == begun.extent.events else None
