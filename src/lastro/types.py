"""The values that use cases take and return; JSON forms are made from them by ``wire``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

Scope = Literal["docs", "adr", "session", "entity"]
SCOPES: tuple[Scope, ...] = ("docs", "adr", "session", "entity")

# What the log of searches keeps of a question.
LogQueries = Literal["off", "hash", "text"]
LOG_QUERIES: tuple[LogQueries, ...] = get_args(LogQueries)

# More is no question, and its words would fill a statement.
MAX_QUERY_CHARS = 100_000
# Left out of the JSON form when None; every other None is written as null.
OPTIONAL: Mapping[str, bool] = {"optional": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adr:
    """What an architecture decision record says of itself; ``status`` is lower case."""

    number: int | None
    status: str | None
    date: str | None = field(default=None, metadata=OPTIONAL)
    superseded_by: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOrigin:
    """A place in a file: lines count from 1, both ends included, at ``revision``.

    ``source`` names the repository and ref within the project; ``revision`` is the full commit
    id, or None for files read as they lie.
    """

    kind: Literal["file"] = "file"
    source: str
    source_path: str
    heading_path: tuple[str, ...]
    title: str | None = field(default=None, metadata=OPTIONAL)
    line_start: int
    line_end: int
    revision: str | None
    anchor: str | None = field(default=None, metadata=OPTIONAL)
    adr: Adr | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOrigin:
    """One event of a session."""

    kind: Literal["session"] = "session"
    session_id: str
    event_id: str
    title: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityOrigin:
    """A knowledge-base entry."""

    kind: Literal["entity"] = "entity"
    entity_key: str
    entity_type: str
    title: str | None = field(default=None, metadata=OPTIONAL)


Origin = FileOrigin | SessionOrigin | EntityOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A chunk found, with the scores that found it; a signal that gave none is None.

    ``vector_score`` is a cosine in [-1, 1], ``lexical_score`` lies in [0, 1]; ``highlights`` are
    half-open character ranges of ``content`` that matched a query word.
    """

    chunk_id: str
    content: str
    score: float
    vector_score: float | None
    lexical_score: float | None
    scope: Scope
    origin: Origin
    highlights: tuple[tuple[int, int], ...] = ()
    explain: Mapping[str, Any] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageStatistics:
    """Published rows of one language and their mean lengths, at the last refresh.

    ``mean_length`` counts tokens, ``mean_lexemes`` different lexemes.
    """

    language: str
    chunk_count: int
    mean_length: float
    mean_lexemes: float


DegradedReason = Literal[
    "embedder_unreachable",
    "embedder_timeout",
    "embedder_refused",
    "embedder_model_missing",
    "embedder_bad_reply",
    "embedder_budget",
    "vectors_missing",
    "index_incomplete",
    "lexical_no_terms",
    "lexical_sampled",
    "rerank_late",
    "statement_timeout",
    "replica_behind",
    "gap_not_recorded",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Degraded:
    """One part of an answer that was less than it should be."""

    part: str
    reason: DegradedReason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRef:
    """Which ranking numbers answered, and whether a golden set stands behind them."""

    name: str
    version: int
    calibrated: bool | Literal["self"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The hits of one search, best first, and what must be said about them.

    ``next_cursor`` asks the same again for the hits after these; absent where there are none.
    """

    hits: tuple[Hit, ...]
    vector_available: bool
    degraded: tuple[Degraded, ...]
    profile: ProfileRef
    abstained: bool
    gap_id: str | None = field(default=None, metadata=OPTIONAL)
    took_ms: float
    next_cursor: str | None = field(default=None, metadata=OPTIONAL)
    explain: Mapping[str, Any] | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNote:
    """A file and what is to be said of it."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentCounts:
    """What an index run did, counted in documents; a rename counts once, as renamed."""

    added: int = 0
    changed: int = 0
    renamed: int = 0
    removed: int = 0
    unchanged: int = 0
    skipped: tuple[FileNote, ...] = ()
    warnings: tuple[FileNote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingCounts:
    """Vectors made (or taken from the cache) and texts left without one in an index run."""

    available: bool
    embedded: int
    skipped: int
    reason: DegradedReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What an index run found and did; ``chunks`` is the project's number after it."""

    project: str
    revision: str | None
    documents: DocumentCounts
    chunks: int
    embedding: EmbeddingCounts
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSummary:
    """A project as listed; ``revision`` is that of its first source."""

    slug: str
    name: str
    scopes: tuple[Scope, ...]
    revision: str | None
    documents: int
    chunks: int
    indexed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeCoverage:
    """How much of a scope is indexed, counted in documents.

    ``sources`` are the files that lie there now, or the sessions of the log in which something was
    said, and ``stale`` the documents that a fresh index would not hold as they are; both None where
    a source cannot be read, or the scope has none.
    """

    scope: Scope
    sources: int | None
    indexed: int
    with_vectors: int
    incomplete: int
    stale: int | None
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCoverage:
    """Where one source stands; ``unknown`` says why ``head`` cannot be told.

    ``behind`` are the documents that came, went or changed between ``revision`` and ``head``, in so
    many ``commits``; both None where that is not known.
    """

    name: str
    root: str
    ref: str | None
    revision: str | None
    head: str | None
    behind: int | None
    commits: int | None
    indexed_at: datetime | None
    unknown: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What a project's index holds of its sources, and how far these have moved on.

    ``revision``, ``head`` and ``indexed_at`` are those of all sources, ``behind`` the documents
    that changed between, together; None where that is not known or sources differ.
    """

    project: str
    scopes: tuple[ScopeCoverage, ...]
    revision: str | None
    head: str | None
    behind: int | None
    indexed_at: datetime | None
    skipped: tuple[FileNote, ...]
    running: bool
    sources: tuple[SourceCoverage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at, how it is, and what mends it."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str | None = field(default=None, metadata=OPTIONAL)


# Work done, and all there is to do.
Progress = Callable[[int, int], None]
DEFAULT_REF = "HEAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """What to index into which project; ``worktree`` reads files as they lie, not at ``ref``.

    ``path`` is a folder, or as text the address of a remote repository. Without a name the project
    is the one this folder or address was indexed as, else its own name. ``scopes`` and ``sessions``
    are what a rebuild makes again; without either these are the documents of the place.
    """

    path: Path | str
    project: str | None = None
    ref: str = DEFAULT_REF
    worktree: bool = False
    rebuild: bool = False
    repair: bool = False
    scopes: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexRequest:
    """What of a project is indexed again from what it has; by default all that changed.

    ``scopes`` limits it. ``ref`` moves a project with one source to another branch, tag or commit.
    ``source`` is the folder or address of the only source that is meant.
    """

    project: str | None = None
    scopes: tuple[str, ...] = ()
    ref: str | None = None
    rebuild: bool = False
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """Which set to measure, and how.

    ``language`` is that of every passage (None: found for each); ``qrels`` names other judgements;
    ``collapse`` makes one document of ids that are equal before it; ``whole`` keeps passages
    unsplit.
    """

    folder: Path
    profile: str = "default"
    language: str | None = None
    qrels: Path | None = None
    collapse: str | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Means over every judged question, in [0, 1]; one without an answer counts as 0."""

    ndcg_at_10: float
    recall_at_100: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Half of the questions, and 95 of 100, took at most so long."""

    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Figures of the fused ranking and of each leg's own, and what they were measured with.

    ``languages`` counts documents by their language; ``degraded`` counts the questions whose
    search was less than it should be, by reason.
    """

    fused: Quality
    legs: Mapping[str, Quality]
    latency: Latency
    queries: int
    profile: ProfileRef
    embedder: str
    documents: int
    chunks: int
    languages: Mapping[str, int]
    whole: bool
    degraded: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenCounts:
    """Questions of a set: all, those by people and by programs, those that nothing answers."""

    questions: int
    human: int
    derived: int
    unanswerable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotIndexed:
    """A judged place where the index has nothing, and the question that it answers."""

    id: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenImport:
    """What an import did; ``imported`` is False where the newest version has this content."""

    name: str
    version: int
    content_hash: str
    imported: bool
    counts: GoldenCounts
    not_indexed: tuple[NotIndexed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSummary:
    """A version of a golden set; ``current`` is the one that its name alone means."""

    name: str
    version: int
    content_hash: str
    current: bool
    counts: GoldenCounts
    languages: tuple[str, ...]
    imported_at: datetime
