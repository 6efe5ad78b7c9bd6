"""An entry to the rows that are stored, all but their vectors. Pure.

Ids follow from key and content, so that storing the same entry again changes none.
"""

import hashlib
import json
from dataclasses import replace
from uuid import UUID, uuid5

from lastro.chunking import Chunk, chunk_markdown, chunk_text
from lastro.documents import Pipeline, Prepared, chunk_row, embedded_text
from lastro.entity import Entity, entity_json
from lastro.language import detect_language
from lastro.markdown import parse_markdown
from lastro.store import ChunkRow, DocumentRow

# Raise it when this module makes other rows of the same entry.
ENTITY_ROWS = "1"
_IDS = UUID("8a1d6f0e-4c27-4f58-9d0b-6b0d3f2f7a11")
# Below it a `real`, as rule weights are stored, cannot go.
_LEAST_WEIGHT = 1e-30


def entity_hash(entity: Entity) -> str:
    """Changes whenever any field of the entry does."""
    said = json.dumps([ENTITY_ROWS, entity_json(entity)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def entity_document_id(project_id: int, key: str) -> UUID:
    """The id of an entry's document: by project and key."""
    return _id(str(project_id), key)


def prepare_entity(entity: Entity, pipeline: Pipeline, *, project_id: int) -> Prepared:
    """Rows of an entry, whose text is cut as Markdown.

    The whole entry, as it was given, is the document's metadata.
    """
    document = DocumentRow(
        id=entity_document_id(project_id, entity.key),
        kind="entity",
        scope="entity",
        source=None,
        place=entity.key,
        title=entity.title,
        language=detect_language(entity.text, languages=pipeline.languages),
        revision=None,
        content_hash=entity_hash(entity),
        fingerprint=pipeline.fingerprint,
        state="complete",
        adr=None,
        metadata=entity_json(entity),
    )
    cut = chunk_markdown(parse_markdown(entity.text), pipeline.sizes).chunks
    # Front matter alone has no section.
    chunks = cut or chunk_text(entity.text, pipeline.sizes).chunks
    rows = tuple(_row(entity, document, chunk, project_id=project_id) for chunk in chunks)
    return Prepared(
        document=document, chunks=rows, texts=tuple(map(embedded_text, rows)), warnings=()
    )


def _row(entity: Entity, document: DocumentRow, chunk: Chunk, *, project_id: int) -> ChunkRow:
    row = chunk_row(document, chunk, project_id=project_id, searched_path="")
    return replace(
        row,
        id=_id(str(project_id), str(document.id), str(chunk.ordinal), row.content),
        source_path=None,
        heading_path=None,
        anchor=None,
        line_start=None,
        line_end=None,
        entity_key=entity.key,
        entity_type=entity.type,
        attributes=entity.attributes,
        status=entity.status,
        rule_weight=entity.rule_weight if abs(entity.rule_weight) > _LEAST_WEIGHT else 0.0,
        effective_at=entity.effective_at,
    )


def _id(*parts: str) -> UUID:
    return uuid5(_IDS, "\0".join(parts))
