"""An entry to the rows that are stored, all but their vectors. Pure.

Ids follow from key and content, so that storing the same entry again changes none.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from lastro.chunking import Chunk, chunk_markdown, chunk_text
from lastro.documents import Pipeline, embedded_text
from lastro.entity import Entity, entity_json
from lastro.language import detect_language
from lastro.lexical import content_extra, heading_extra, storable, token_count
from lastro.markdown import parse_markdown
from lastro.store import DocumentRow, UnembeddedChunk

# Raise it when this module makes other rows of the same entry.
ENTITY_ROWS = "1"
_IDS = UUID("8a1d6f0e-4c27-4f58-9d0b-6b0d3f2f7a11")
# Below it a `real`, as rule weights are stored, cannot go.
_LEAST_WEIGHT = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEntity:
    """An entry ready to be embedded and stored: column and value of each chunk, and its text."""

    document: DocumentRow
    chunks: tuple[dict[str, Any], ...]
    texts: tuple[str, ...]


def entity_hash(entity: Entity) -> str:
    """Changes whenever any field of the entry does."""
    said = json.dumps([ENTITY_ROWS, entity_json(entity)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def entity_document_id(project_id: int, key: str) -> UUID:
    """The id of an entry's document: by project and key."""
    return _id(str(project_id), key)


def prepare_entity(entity: Entity, pipeline: Pipeline, *, project_id: int) -> PreparedEntity:
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
    rows = list(_rows(entity, document, pipeline, project_id=project_id))
    return PreparedEntity(
        document=document,
        chunks=tuple(row for row, _ in rows),
        texts=tuple(text for _, text in rows),
    )


def _rows(
    entity: Entity, document: DocumentRow, pipeline: Pipeline, *, project_id: int
) -> Iterator[tuple[dict[str, Any], str]]:
    chunks = chunk_markdown(parse_markdown(entity.text), pipeline.sizes).chunks
    # Front matter alone has no section.
    for chunk in chunks or chunk_text(entity.text, pipeline.sizes).chunks:
        own = _chunk(chunk, document, project_id=project_id)
        yield _row(entity, chunk, own, language=document.language), embedded_text(own)


def _chunk(chunk: Chunk, document: DocumentRow, *, project_id: int) -> UnembeddedChunk:
    headings = [storable(heading) for heading in chunk.heading_path]
    content = storable(chunk.content)
    return UnembeddedChunk(
        id=_id(str(project_id), str(document.id), str(chunk.ordinal), content),
        document_id=document.id,
        ordinal=chunk.ordinal,
        place=document.place,
        line_start=chunk.line_start,
        line_end=chunk.line_end,
        title=document.title or "",
        heading_text=" > ".join(h for h in headings if h and h != document.title),
        context=storable(chunk.context),
        content=content,
    )


def _row(entity: Entity, chunk: Chunk, own: UnembeddedChunk, *, language: str) -> dict[str, Any]:
    weight = entity.rule_weight if abs(entity.rule_weight) > _LEAST_WEIGHT else 0.0
    return {
        "id": str(own.id),
        "document_id": str(own.document_id),
        "ordinal": own.ordinal,
        "scope": "entity",
        "entity_key": entity.key,
        "entity_type": entity.type,
        "attributes": dict(entity.attributes),
        "status": entity.status,
        "rule_weight": weight,
        "effective_at": entity.effective_at.isoformat() if entity.effective_at else None,
        "char_start": chunk.start,
        "char_end": chunk.end,
        "title": own.title,
        "heading_text": own.heading_text,
        "content": own.content,
        "context": own.context,
        "heading_extra": heading_extra(
            own.title, heading_text=own.heading_text, path="", language=language
        ),
        "lexical_extra": content_extra(
            own.content, repeated_header=chunk.context, language=language
        ),
        "token_count": token_count(f"{own.title} {own.heading_text} {own.content}"),
        "language": language,
    }


def _id(*parts: str) -> UUID:
    return uuid5(_IDS, "\0".join(parts))
