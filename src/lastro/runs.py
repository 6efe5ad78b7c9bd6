"""A run of a golden set: what every question got, and all that is needed to repeat it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, cast

from lastro.errors import InvalidInput
from lastro.intervals import check_seed
from lastro.profiles import Profile, profile_from_json
from lastro.types import OPTIONAL
from lastro.wire import to_json

# Units of a ranking that are judged: an answer that stands further down was not found.
JUDGED_DEPTH = 100
# As many as a search shows by default.
DEFAULT_HITS = 10
LISTED_RUNS = 50
_CAPITAL = re.compile(r"[A-Z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRequest:
    """Which golden set to ask, and how.

    ``golden`` is a file of lines, or the name (or ``name@hash``) of an imported set; ``k`` is the
    number of hits shown, and the depth of recall; ``seed`` is that of the intervals.
    """

    golden: str
    profile: str = "default"
    k: int = DEFAULT_HITS
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerResult:
    """A judged answer: its grade, and the rank of its first chunk before any threshold.

    ``rank`` is None where it is not among the first hundred; ``indexed`` says whether any chunk of
    the index lies there, ``merged`` whether every one of them counts as a better answer.
    """

    place: str
    grade: int
    rank: int | None
    indexed: bool
    merged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HitResult:
    """A hit that was shown; ``grade`` is that of the answer it covers, 0 for none."""

    place: str
    score: float
    grade: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionResult:
    """What one question got; ``scopes`` are those of its answers' documents."""

    id: str
    question: str
    language: str
    scopes: tuple[str, ...]
    difficulty: str | None
    derived: bool
    unanswerable: bool
    answers: tuple[AnswerResult, ...]
    hits: tuple[HitResult, ...]
    degraded: tuple[str, ...]
    took_ms: float

    @property
    def gains(self) -> list[int]:
        """Gain by rank, down to the last answer found."""
        ranks = {a.rank: a.grade for a in self.answers if a.rank is not None}
        return [ranks.get(rank, 0) for rank in range(1, max(ranks, default=0) + 1)]

    @property
    def ideal(self) -> list[int]:
        """The grades of every judged answer that can have a rank of its own."""
        return [answer.grade for answer in self.answers if not answer.merged]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """What would be shown at another threshold: hits, and questions with a hit.

    ``level`` multiplies the profile's threshold, or is a least fused score where it has none.
    """

    level: float
    hits: int
    right_hits: int
    answered: int
    first_right: int
    false_answers: int
    false_refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A source as it was indexed."""

    name: str
    ref: str | None
    revision: str | None
    indexed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusState:
    """What was searched; ``changed_at`` is when a document was last stored.

    ``outdated`` counts documents that other settings than the present ones made.
    """

    sources: tuple[SourceState, ...]
    documents: int
    chunks: int
    changed_at: datetime | None
    outdated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRef:
    """Which version of a golden set; the hash is that of its content.

    ``stored`` says whether the project held that version when it was asked.
    """

    name: str
    content_hash: str
    stored: bool = True


@dataclass(frozen=True, kw_only=True)
class Run:
    """Every question of a golden set asked once, and what with.

    ``number`` counts a project's runs; None for one that is not stored. ``profile_name`` is what
    was asked for, ``profile`` what it meant.
    """

    number: int | None = field(default=None, metadata=OPTIONAL)
    project: str
    golden: GoldenRef
    profile_name: str
    profile: Profile
    k: int
    seed: int
    embedder: str
    pipeline: str
    chunking: Mapping[str, int]
    corpus: CorpusState
    version: str
    started_at: datetime
    curve_scale: Literal["factor", "score"]
    curve: tuple[CurvePoint, ...]
    results: tuple[QuestionResult, ...]

    @cached_property
    def by_id(self) -> Mapping[str, QuestionResult]:
        """The results by question."""
        return {result.id: result for result in self.results}


def changes(before: Run, after: Run) -> list[str]:
    """In what ``after`` was asked of something else than ``before``, each a short sentence."""
    pairs: dict[str, tuple[object, object]] = {
        "golden set": (before.golden.content_hash, after.golden.content_hash),
        "embedder": (before.embedder, after.embedder),
        "settings of the index": (before.pipeline, after.pipeline),
        "k": (before.k, after.k),
        "Lastro": (before.version, after.version),
    }
    said = [
        f"{name}: {_short(was)}, then {_short(now)}"
        for name, (was, now) in pairs.items()
        if was != now
    ]
    return [
        *said,
        *_profile_changes(before.profile, after.profile),
        *_corpus_changes(before.corpus, after.corpus),
    ]


def _profile_changes(before: Profile, after: Profile) -> list[str]:
    old, new = to_json(before), to_json(after)
    keys = [key for key in new if old[key] != new[key]]
    return [f"profile: {', '.join(keys)} of {after.name} v{after.version}"] if keys else []


def _short(value: object) -> str:
    text = str(value)
    return text[:12] if re.fullmatch(r"[0-9a-f]{32,}", text) else text


def _corpus_changes(before: CorpusState, after: CorpusState) -> list[str]:
    said: list[str] = []
    old, new = ({s.name: s for s in state.sources} for state in (before, after))
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if was is None or now is None:
            said.append(f"source {name}: {'new' if was is None else 'gone'}")
        elif was.revision != now.revision:
            revisions = f"{_short(was.revision)}, then {_short(now.revision)}"
            said.append(f"source {name}: revision {revisions}")
        elif was.indexed_at != now.indexed_at:
            said.append(f"source {name}: indexed again")
    if not said and before.changed_at != after.changed_at:
        said.append("documents: stored again")
    return said


# --- JSON


def run_json(run: Run) -> dict[str, Any]:
    """The run as ``run_from_json`` reads it back, in camelCase."""
    return to_json(run)


def run_from_json(body: object) -> Run:
    """The run that a file or a row describes; what else it holds is not read.

    Errors: InvalidInput.
    """
    try:
        return _run(cast("dict[str, Any]", body))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"this is no run of a golden set ({type(error).__name__}: {error})",
            remedy="give a file that `lastro eval run --format json` wrote",
        ) from error


def _run(body: dict[str, Any]) -> Run:
    golden = body["golden"]
    check_seed(int(body["seed"]))
    return Run(
        number=body.get("number"),
        project=str(body["project"]),
        golden=GoldenRef(
            name=str(golden["name"]),
            content_hash=str(golden["contentHash"]),
            stored=bool(golden.get("stored", True)),
        ),
        profile_name=str(body["profileName"]),
        profile=profile_from_json(_snake(body["profile"])),
        k=int(body["k"]),
        seed=int(body["seed"]),
        embedder=str(body["embedder"]),
        pipeline=str(body["pipeline"]),
        chunking=dict(body["chunking"]),
        corpus=_corpus(body["corpus"]),
        version=str(body["version"]),
        started_at=datetime.fromisoformat(body["startedAt"]),
        curve_scale="score" if body["curveScale"] == "score" else "factor",
        curve=tuple(_point(point) for point in body["curve"]),
        results=tuple(_result(result) for result in body["results"]),
    )


def _corpus(body: dict[str, Any]) -> CorpusState:
    return CorpusState(
        sources=tuple(
            SourceState(
                name=str(s["name"]),
                ref=s["ref"],
                revision=s["revision"],
                indexed_at=_moment(s["indexedAt"]),
            )
            for s in body["sources"]
        ),
        documents=int(body["documents"]),
        chunks=int(body["chunks"]),
        changed_at=_moment(body["changedAt"]),
        outdated=int(body["outdated"]),
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _result(body: dict[str, Any]) -> QuestionResult:
    known: dict[str, Any] = {
        **_snake(body),
        "scopes": tuple(str(scope) for scope in body["scopes"]),
        "answers": tuple(_answer(answer) for answer in body["answers"]),
        "hits": tuple(
            HitResult(place=str(h["place"]), score=float(h["score"]), grade=int(h["grade"]))
            for h in body["hits"]
        ),
        "degraded": tuple(str(reason) for reason in body["degraded"]),
        "took_ms": float(body["tookMs"]),
    }
    return QuestionResult(**known)


def _answer(body: dict[str, Any]) -> AnswerResult:
    rank = None if body["rank"] is None else int(body["rank"])
    if rank is not None and not 1 <= rank <= JUDGED_DEPTH:
        raise ValueError(f"the rank {rank} does not lie between 1 and {JUDGED_DEPTH}")
    return AnswerResult(
        place=str(body["place"]),
        grade=int(body["grade"]),
        rank=rank,
        indexed=bool(body["indexed"]),
        merged=bool(body.get("merged", False)),
    )


def _point(body: dict[str, Any]) -> CurvePoint:
    counts = {name: int(count) for name, count in _snake(body).items() if name != "level"}
    return CurvePoint(level=float(body["level"]), **counts)


def _snake(value: Any) -> Any:
    """Keys back to Python's names, as deep as objects lie in objects."""
    if not isinstance(value, dict):
        return value
    table = cast("dict[str, Any]", value)
    return {
        _CAPITAL.sub(lambda m: f"_{m[0].lower()}", key): _snake(entry)
        for key, entry in table.items()
    }
