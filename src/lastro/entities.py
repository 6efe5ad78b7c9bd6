"""The knowledge-base use cases: entries stored, read back and deleted."""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from lastro import store
from lastro.counting import count_again, refresh_counts
from lastro.db.pool import Database, retried
from lastro.documents import Prepared
from lastro.entity import (
    Entity,
    EntityReport,
    EntitySummary,
    parse_entity,
)
from lastro.entity_rows import entity_hash, prepare_entity
from lastro.errors import InvalidInput, NotFound
from lastro.json_lines import LineCounts
from lastro.paging import check_limit
from lastro.projects import project_named
from lastro.store import StoredDocument
from lastro.turns import turn
from lastro.types import Progress
from lastro.writing import BATCH_CHUNKS, Writer

# Entries read at once.
BATCH_ENTITIES = 100
# Keys compared at once.
_COMPARED_KEYS = 10_000


def upsert_entities(
    database: Database,
    entities: Iterable[Entity],
    *,
    project: str,
    writer: Writer,
    progress: Progress | None = None,
) -> EntityReport:
    """Store entries over those of the same keys, and return when they can be searched.

    The project is made where it is not there. Of each entry the old chunks go and the new ones
    come in one transaction; one that is as it is stored costs nothing. A failed embedding stores
    rows without a vector, which the next call completes.
    Errors: InvalidInput for a key that comes twice, EmbedderMismatch, NotFound where the project
    was erased meanwhile.
    """
    started = time.perf_counter()
    entities = list(entities)
    _check_keys(entities)
    writer.require_embedder()
    with database.transaction() as connection:
        tenant = store.ensure_project(connection, project)
    with turn(database, tenant.id) as at_once:
        project_named(database, project)  # who came before may have erased it
        if not at_once:
            writer.require_embedder()  # or switched to another embedder
        # Before what is new, so that a text that is refused now is not asked for twice.
        writer.repair(tenant.id)
        stored = _stored(database, entities, project_id=tenant.id)
        fingerprint = writer.pipeline.fingerprint
        new = [e for e in entities if not _is_unchanged(e, stored, fingerprint=fingerprint)]
        done = 0
        try:
            for batch in _batches(new, writer, project_id=tenant.id):
                replaced = [item.document.id for item in batch if item.document.place in stored]
                writer.write(batch, project_id=tenant.id, stale=replaced)
                done += len(batch)
                if progress is not None:
                    progress(done, len(new))
        finally:
            writer.settle()  # nothing is stored any more when the next one's turn comes
        chunks = count_again(database, project_id=tenant.id, has_changed=bool(new))
        writer.finish()
    added = sum(entity.key not in stored for entity in new)
    return EntityReport(
        project=tenant.slug,
        entries=LineCounts(
            added=added, changed=len(new) - added, unchanged=len(entities) - len(new)
        ),
        chunks=chunks,
        embedding=writer.counts,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def rebuild_entities(
    database: Database, *, project: str, writer: Writer, only_stale: bool = False
) -> EntityReport:
    """Make every entry again from its text, whatever its status; each is swapped whole.

    ``only_stale`` leaves out what the present pipeline would make the same, and completes it.
    Errors: NotFound, EmbedderMismatch.
    """
    started = time.perf_counter()
    tenant = project_named(database, project)
    writer.require_embedder()
    done = 0
    with turn(database, tenant.id):
        kept = export_entities(database, project=project)
        if only_stale:
            writer.repair(tenant.id)
            kept = _stale(database, kept, writer=writer, project_id=tenant.id)
        try:
            for batch in _batches(kept, writer, project_id=tenant.id):
                replaced = [item.document.id for item in batch]
                writer.write(batch, project_id=tenant.id, stale=replaced)
                done += len(batch)
        finally:
            writer.settle()
        chunks = count_again(database, project_id=tenant.id, has_changed=bool(done))
        writer.finish()
    return EntityReport(
        project=tenant.slug,
        entries=LineCounts(added=0, changed=done, unchanged=0),
        chunks=chunks,
        embedding=writer.counts,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def delete_entities(database: Database, keys: Sequence[str], *, project: str) -> list[str]:
    """Delete the entries called ``keys`` with their chunks; returns those that there were.

    Errors: NotFound for the project, and where none of the keys is there.
    """
    tenant = project_named(database, project)

    def delete() -> list[str]:
        with database.transaction(projects=[tenant.id]) as connection:
            found = store.entity_documents(connection, keys, project_id=tenant.id)
            store.delete_documents(
                connection, [document.id for document in found.values()], project_id=tenant.id
            )
            if found:
                refresh_counts(connection, tenant.id)
            return sorted(found)

    with turn(database, tenant.id):
        found = retried(delete)
    if not found:
        raise _no_entity(keys, project=tenant.slug)
    return found


def get_entity(
    database: Database, key: str, *, project: str, published_only: bool = False
) -> Entity:
    """The entry called ``key``, of any status or only a published one. Errors: NotFound."""
    tenant = project_named(database, project)
    with database.transaction(projects=[tenant.id]) as connection:
        said = store.find_entity(connection, key, project_id=tenant.id)
    found = None if said is None else parse_entity(said)
    if found is None or (published_only and found.status != "published"):
        raise _no_entity([key], project=tenant.slug)
    return found


def list_entities(
    database: Database,
    *,
    project: str,
    type_: str | None = None,
    status: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[EntitySummary]:
    """A project's entries by key, behind ``after``; of one type or status where named.

    Errors: NotFound, InvalidInput.
    """
    check_limit(limit, of="entry")
    tenant = project_named(database, project)
    with database.transaction(projects=[tenant.id]) as connection:
        return store.entity_summaries(
            connection, tenant.id, type_=type_, status=status, after=after, limit=limit
        )


def export_entities(database: Database, *, project: str) -> Iterator[Entity]:
    """A project's entries whole, of any status, by key, a few at a time. Errors: NotFound."""
    tenant = project_named(database, project)
    after = ""
    while True:
        with database.transaction(projects=[tenant.id]) as connection:
            said = store.entities_after(
                connection, after, project_id=tenant.id, limit=BATCH_ENTITIES
            )
        yield from map(parse_entity, said)
        if len(said) < BATCH_ENTITIES:
            return
        after = said[-1]["key"]


def _check_keys(entities: Sequence[Entity]) -> None:
    seen: set[str] = set()
    for entity in entities:
        if entity.key in seen:
            raise InvalidInput(
                f"entry {entity.key!r}: key comes twice", remedy="give each entry once"
            )
        seen.add(entity.key)


def _stored(
    database: Database, entities: Sequence[Entity], *, project_id: int
) -> dict[str, StoredDocument]:
    found: dict[str, StoredDocument] = {}
    keys = iter([entity.key for entity in entities])
    with database.transaction(projects=[project_id]) as connection:
        while some := list(islice(keys, _COMPARED_KEYS)):
            found |= store.entity_documents(connection, some, project_id=project_id)
    return found


def _is_unchanged(entity: Entity, stored: dict[str, StoredDocument], *, fingerprint: str) -> bool:
    document = stored.get(entity.key)
    return (
        document is not None
        and document.fingerprint == fingerprint
        and document.content_hash == entity_hash(entity)
    )


def _stale(
    database: Database, entities: Iterator[Entity], *, writer: Writer, project_id: int
) -> Iterator[Entity]:
    fingerprint = writer.pipeline.fingerprint
    while some := list(islice(entities, BATCH_ENTITIES)):
        stored = _stored(database, some, project_id=project_id)
        yield from (e for e in some if not _is_unchanged(e, stored, fingerprint=fingerprint))


def _batches(
    entities: Iterable[Entity], writer: Writer, *, project_id: int
) -> Iterator[list[Prepared]]:
    batch: list[Prepared] = []
    chunks = 0
    for entity in entities:
        prepared = prepare_entity(entity, writer.pipeline, project_id=project_id)
        batch.append(prepared)
        chunks += len(prepared.chunks)
        if chunks >= BATCH_CHUNKS:
            yield batch
            batch, chunks = [], 0
    if batch:
        yield batch


def _no_entity(keys: Sequence[str], *, project: str) -> NotFound:
    named = f"no entry {keys[0]!r}" if len(keys) == 1 else f"none of the {len(keys)} entries"
    return NotFound(
        f"the project {project!r} has {named}",
        remedy="see its keys with `lastro kb list`",
    )
