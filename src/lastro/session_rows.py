"""The events of a session to the rows that are stored, all but their vectors. Pure.

Rows of an event follow from it and from those before it alone, so that a session that grew at its
end keeps the rows that it has.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from uuid import UUID, uuid5

from lastro.chunking import Chunk, chunk_markdown, chunk_text
from lastro.documents import Pipeline, Prepared, chunk_row, embedded_text
from lastro.event import Event, event_json, first_line
from lastro.graphemes import is_blank
from lastro.language import detect_language
from lastro.markdown import parse_markdown
from lastro.store import ChunkRow, DocumentRow, SessionState

# Raise it when this module makes other rows of the same events.
SESSION_ROWS = "1"
_IDS = UUID("5f0b4c0e-51d6-4a53-9a8e-0d1c7f3b2e64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far a session is indexed: its document's metadata, from which its rows go on."""

    events: int = 0
    last_seq: int = -1
    chunks: int = 0
    chars: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a session's document says; that of a session without rows is the default."""

    extent: Extent = Extent()
    content_hash: str = hashlib.sha256(SESSION_ROWS.encode()).hexdigest()
    title: str | None = None
    language: str | None = None


def begun_of(state: SessionState) -> Begun:
    """How far a session's document goes."""
    if state.document_id is None or state.metadata is None:
        return Begun()
    return Begun(
        extent=Extent(**state.metadata),
        content_hash=state.content_hash or "",
        title=state.document_title,
        language=state.language,
    )


def is_current(state: SessionState, *, fingerprint: str) -> bool:
    """Whether a session's document is what a fresh index would make of the log."""
    if state.document_id is None:
        return state.indexed_count == 0
    return (
        state.fingerprint == fingerprint
        and begun_of(state).extent.events == state.indexed_count
        and state.title in {None, state.document_title}
    )


def session_document_id(project_id: int, session: str) -> UUID:
    """The id of a session's document: by project and session."""
    return _id(str(project_id), session)


class SessionRows:
    """Gathers the rows of a session's events, which come in the order of their numbers."""

    def __init__(
        self, session: str, pipeline: Pipeline, *, project_id: int, begun: Begun | None = None
    ) -> None:
        self.chunks: list[ChunkRow] = []
        self._session = session
        self._pipeline = pipeline
        self._project_id = project_id
        self._extends = begun is not None
        self._begun = begun or Begun()
        self._extent = self._begun.extent

    def add(self, event: Event) -> None:
        """Take in the next event that searches may find."""
        assert event.seq is not None
        assert event.seq > self._extent.last_seq
        begun, extent = self._begun, self._extent
        said = json.dumps(event_json(event), sort_keys=True, ensure_ascii=False)
        digest = hashlib.sha256(f"{begun.content_hash}\0{said}".encode()).hexdigest()
        self._begun = replace(begun, content_hash=digest)
        extent = replace(extent, events=extent.events + 1, last_seq=event.seq)
        if not is_blank(event.content):
            language = detect_language(event.content, languages=self._pipeline.languages)
            self._begun = replace(
                self._begun,
                title=begun.title or first_line(event.content),
                language=begun.language or language,
            )
            rows = self._rows(event, language)
            self.chunks += rows
            extent = replace(
                extent,
                chunks=extent.chunks + len(rows),
                # as if the events stood below each other: no range of one overlaps another's
                chars=extent.chars + len(event.content) + 1,
            )
        self._extent = extent

    def prepared(self, *, title: str | None) -> Prepared:
        """The document with the rows so far; ``title`` is the session's own, where it has one."""
        return Prepared(
            document=self._document(title=title or self._begun.title),
            chunks=tuple(self.chunks),
            texts=tuple(map(embedded_text, self.chunks)),
            warnings=(),
            extends=self._extends,
        )

    def _document(self, *, title: str | None) -> DocumentRow:
        return DocumentRow(
            id=session_document_id(self._project_id, self._session),
            kind="session",
            scope="session",
            source=None,
            place=self._session,
            title=title,
            language=self._begun.language or self._pipeline.languages[0],
            revision=None,
            content_hash=self._begun.content_hash,
            fingerprint=self._pipeline.fingerprint,
            state="complete",
            adr=None,
            metadata=asdict(self._extent),
        )

    def _rows(self, event: Event, language: str) -> list[ChunkRow]:
        # A session's title is shown and not searched: else each of its rows would match it.
        document = replace(self._document(title=None), language=language)
        return [self._row(event, document, chunk) for chunk in self._cut(event.content)]

    def _cut(self, content: str) -> tuple[Chunk, ...]:
        sizes = self._pipeline.sizes
        # Front matter alone has no section.
        return (
            chunk_markdown(parse_markdown(content), sizes).chunks
            or chunk_text(content, sizes).chunks
        )

    def _row(self, event: Event, document: DocumentRow, chunk: Chunk) -> ChunkRow:
        row = chunk_row(document, chunk, project_id=self._project_id, searched_path="")
        return replace(
            row,
            id=_id(
                str(self._project_id), str(document.id), event.id, str(chunk.ordinal), row.content
            ),
            ordinal=self._extent.chunks + chunk.ordinal,
            source_path=None,
            heading_path=None,
            anchor=None,
            line_start=None,
            line_end=None,
            char_start=self._extent.chars + chunk.start,
            char_end=self._extent.chars + chunk.end,
            session_id=event.session,
            event_id=event.id,
            effective_at=event.time,
        )


def _id(*parts: str) -> UUID:
    return uuid5(_IDS, "\0".join(parts))
