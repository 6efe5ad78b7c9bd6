"""What ``why`` finds of an expected passage: the point where it fell out, and its numbers; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lastro.types import Degraded, ProfileRef, Scope

Point = Literal[
    "hit",
    "not_indexed",
    "section_not_found",
    "filtered",
    "no_vector",
    "not_candidate",
    "threshold",
    "overlap",
    "max_per_document",
    "below_k",
]
Rule = Literal["joint", "words", "score"]
RULES: Mapping[Rule, str] = {
    "joint": "meaning and words together",
    "words": "the words alone",
    "score": "the fused score",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The chunk that came furthest of those at the expected place.

    ``place`` names its ``source`` too where the project has several; an entry has no source.
    """

    place: str
    source: str | None
    heading_path: tuple[str, ...]
    anchor: str | None
    scope: Scope
    status: str
    has_vector: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LegStanding:
    """A passage in one leg, which hands on ``depth`` rows.

    ``rank`` is the leg's own where it ``found`` the passage, else the exact one among the ``rows``
    that it could have found; ``score`` is None for a passage that the leg cannot score.
    """

    found: bool
    rank: int | None
    score: float | None
    rows: int | None
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedWord:
    """A word of the query, and whether the passage ``held`` it; rarer words have a greater idf."""

    text: str
    held: bool
    df: int | None
    idf: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A candidate after fusion: ``rank`` among all candidates, before any threshold."""

    rank: int
    place: str
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The rule of evidence that a passage is nearest to."""

    rule: Rule
    value: float
    needed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many chunks at the place came through each step."""

    at_place: int = 0
    kept: int = 0
    candidates: int = 0
    with_evidence: int = 0
    hits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The first ``point`` where a passage fell out, in words and numbers.

    ``rank`` counts among the hits, and what would be hits were ``k`` greater; ``missing`` is the
    fused score between a passage and the last hit; ``above`` are the hits or the overlapping one.
    """

    query: str
    expect: str
    project: str
    profile: ProfileRef
    k: int
    point: Point
    said: str
    remedy: str | None
    rank: int | None = None
    passage: Passage | None = None
    counts: Counts = Counts()
    nearest: tuple[str, ...] = ()
    filtered_by: tuple[str, ...] = ()
    vector: LegStanding | None = None
    lexical: LegStanding | None = None
    words: tuple[AskedWord, ...] = ()
    candidates: int = 0
    fused: Standing | None = None
    bar: Bar | None = None
    above: tuple[Standing, ...] = ()
    missing: float | None = None
    vector_available: bool
    degraded: tuple[Degraded, ...]
