"""A file's text to the rows that are stored, all but their vectors. Pure.

Ids follow from place and content, so that indexing the same text again changes none.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from uuid import UUID, uuid5

from lastro.adr import parse_adr
from lastro.chunk_settings import ChunkSettings
from lastro.chunking import Chunk, chunk_markdown, chunk_text
from lastro.language import detect_language
from lastro.lexical import (
    LEXICAL_RULES,
    content_extra,
    heading_extra,
    storable,
    token_count,
)
from lastro.markdown import parse_markdown
from lastro.store import ChunkRow, DocumentRow, UnembeddedChunk
from lastro.types import Scope

# PostgreSQL indexes at most 1 MB of lexemes in a row. Measured over distinct words, hyphens, URLs,
# identifiers and 23 scripts and mixtures, with their extras: at most 10.6 bytes a character.
MAX_CHUNK_CHARS = 60_000
# Raise it when this module or the chunker makes other rows of the same text.
PIPELINE = "1"
_IDS = UUID("3c0f5c1e-6d0f-4b86-9f0a-1a2b6d7e9c55")


_TOO_LONG = (
    f"cut into chunks of at most {MAX_CHUNK_CHARS:,} characters, the most that PostgreSQL indexes "
    "in a row"
)
_LARGEST = ChunkSettings(
    target_chars=MAX_CHUNK_CHARS - MAX_CHUNK_CHARS // 10,
    overlap_chars=0,
    window_chars=MAX_CHUNK_CHARS // 10,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The settings that decide what rows a text becomes."""

    chunking: ChunkSettings
    languages: tuple[str, ...]
    embedder: str

    @property
    def sizes(self) -> ChunkSettings:
        """The chunk sizes that are used: those set, as far as a row can hold such a chunk."""
        chunking = self.chunking
        return chunking if chunking.limit_chars <= MAX_CHUNK_CHARS else _LARGEST

    @property
    def fingerprint(self) -> str:
        """Changes whenever rows or vectors of the same text would."""
        parts = {
            "pipeline": PIPELINE,
            "lexical": LEXICAL_RULES,
            "chunking": asdict(self.sizes),
            "languages": self.languages,
            "embedder": self.embedder,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """Which file of which project a text is."""

    project_id: int
    source: str
    path: str
    scope: Scope
    revision: str | None
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A document ready to be embedded and stored; ``texts`` are what is embedded, by chunk.

    With ``extends`` it is stored already, and its chunks come to those that it has.
    """

    document: DocumentRow
    chunks: tuple[ChunkRow, ...]
    texts: tuple[str, ...]
    warnings: tuple[str, ...]
    extends: bool = False


def prepare_file(text: str, identity: FileIdentity, pipeline: Pipeline) -> Prepared:
    """Rows of a Markdown or plain text file."""
    markdown = parse_markdown(text)
    chunked = chunk_markdown(markdown, pipeline.sizes)
    title = storable(markdown.title or PurePosixPath(identity.path).stem)
    language = detect_language(text[markdown.body_start :], languages=pipeline.languages)
    document = replace(
        _document(identity, pipeline, title=title, language=language),
        adr=parse_adr(identity.path, markdown) if identity.scope == "adr" else None,
        metadata=markdown.metadata,
    )
    rows = _rows(
        document, chunked.chunks, project_id=identity.project_id, searched_path=identity.path
    )
    return _prepared(document, rows, warnings=(*chunked.warnings, *_cut_short(text, pipeline)))


def prepare_passage(
    text: str, identity: FileIdentity, pipeline: Pipeline, *, title: str, language: str, whole: bool
) -> Prepared:
    """Rows of a passage that came with its title, as in a retrieval set; ``whole`` keeps one.

    Its path is an id, which is not searched. A passage that is too long for a row is cut all the
    same, and the warnings say so.
    """
    body = text if text.strip() else title
    is_cut = whole and len(body.strip()) > MAX_CHUNK_CHARS
    if whole and not is_cut:
        chunks = (_whole(body),)
    else:
        chunks = chunk_text(body, _LARGEST if whole else pipeline.sizes).chunks
    document = _document(identity, pipeline, title=storable(title), language=language)
    rows = _rows(document, chunks, project_id=identity.project_id, searched_path="")
    return _prepared(
        document, rows, warnings=(_TOO_LONG,) if is_cut else _cut_short(body, pipeline)
    )


def _cut_short(text: str, pipeline: Pipeline) -> tuple[str, ...]:
    """A warning where the sizes that are set would have made a chunk that no row can hold."""
    is_cut = pipeline.sizes is not pipeline.chunking and len(text) > MAX_CHUNK_CHARS
    return (_TOO_LONG,) if is_cut else ()


def _document(
    identity: FileIdentity, pipeline: Pipeline, *, title: str, language: str
) -> DocumentRow:
    return DocumentRow(
        id=document_id(identity),
        kind="file",
        scope=identity.scope,
        source=identity.source,
        place=identity.path,
        title=title,
        language=language,
        revision=identity.revision,
        content_hash=identity.content_hash,
        fingerprint=pipeline.fingerprint,
        state="complete",
        adr=None,
        metadata={},
    )


def _prepared(
    document: DocumentRow, rows: tuple[ChunkRow, ...], *, warnings: tuple[str, ...]
) -> Prepared:
    return Prepared(
        document=document, chunks=rows, texts=tuple(map(embedded_text, rows)), warnings=warnings
    )


def document_id(identity: FileIdentity) -> UUID:
    """The id of a file's document: by project, source and path."""
    return _id(str(identity.project_id), "file", identity.source, identity.path)


def embedded_text(chunk: ChunkRow | UnembeddedChunk) -> str:
    """What the embedder reads of a chunk: title and headings, a repeated header, the content."""
    lead = " > ".join(part for part in (chunk.title, chunk.heading_text) if part)
    return "\n".join(part for part in (lead, chunk.context, chunk.content) if part)


def _whole(text: str) -> Chunk:
    start = len(text) - len(text.lstrip())
    content = text.strip()
    return Chunk(
        ordinal=0,
        start=start,
        end=start + len(content),
        content=content,
        heading_path=(),
        anchor=None,
        line_start=1,
        line_end=1 + content.count("\n"),
    )


def _rows(
    document: DocumentRow, chunks: Sequence[Chunk], *, project_id: int, searched_path: str
) -> tuple[ChunkRow, ...]:
    return tuple(
        chunk_row(document, chunk, project_id=project_id, searched_path=searched_path)
        for chunk in chunks
    )


def chunk_row(
    document: DocumentRow, chunk: Chunk, *, project_id: int, searched_path: str
) -> ChunkRow:
    """The row of a chunk of a file; ``searched_path`` gives words to its headings."""
    title = document.title or ""
    headings = tuple(storable(heading) for heading in chunk.heading_path)
    heading_text = " > ".join(heading for heading in headings if heading and heading != title)
    content, language = storable(chunk.content), document.language
    return ChunkRow(
        id=_id(str(project_id), str(document.id), str(chunk.ordinal), content),
        document_id=document.id,
        ordinal=chunk.ordinal,
        scope=document.scope,
        source_path=document.place,
        heading_path=headings,
        anchor=chunk.anchor,
        line_start=chunk.line_start,
        line_end=chunk.line_end,
        char_start=chunk.start,
        char_end=chunk.end,
        title=title,
        heading_text=heading_text,
        content=content,
        context=storable(chunk.context),
        heading_extra=heading_extra(
            title, heading_text=heading_text, path=searched_path, language=language
        ),
        lexical_extra=content_extra(content, repeated_header=chunk.context, language=language),
        token_count=token_count(f"{title} {heading_text} {content}"),
        language=language,
    )


def _id(*parts: str) -> UUID:
    return uuid5(_IDS, "\0".join(parts))
