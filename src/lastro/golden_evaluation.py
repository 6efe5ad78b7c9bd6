"""The evaluation use case on a project itself: a golden set asked as users ask, and judged.

A ranking is judged before any threshold, which says whether to answer and not in what order;
citations are judged as a search shows them.
"""

import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from lastro import store
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedding import embed_texts
from lastro.golden import Answer, GoldenQuestion, GoldenSet
from lastro.golden_sets import find_golden, place_text, read_golden
from lastro.intervals import check_seed
from lastro.judging import JudgedQuestion, judged_chunks
from lastro.places import EntityPlace, FilePlace, SessionPlace, normal_path
from lastro.profiles import Profile, Thresholds
from lastro.projects import project_id_of
from lastro.ranking import DEFAULT_MAX_PER_DOCUMENT, has_evidence, one_per_place
from lastro.runs import (
    JUDGED_DEPTH,
    AnswerResult,
    CorpusState,
    CurvePoint,
    GoldenRef,
    GoldenRequest,
    HitResult,
    QuestionResult,
    Run,
)
from lastro.search import (
    Engine,
    Found,
    SearchRequest,
    find,
    search,
)
from lastro.types import FileOrigin, Hit, Origin, Progress, SessionOrigin
from lastro.wire import camel_case

GOLDEN_SUFFIX = ".jsonl"
# Where the curve is drawn: parts and multiples of the profile's threshold, or fused scores.
FACTORS = (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0)
SCORES = tuple(step / 20 for step in range(20))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What a run stands on: judgements as chunks, what is searched, and a scope for each path."""

    golden: GoldenRef
    judged: Sequence[JudgedQuestion]
    corpus: CorpusState
    scopes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question's candidates as judged, without their texts."""

    profile: Profile
    ranks: Mapping[int, int]
    degraded: tuple[str, ...]
    curve: tuple[tuple[int, int, bool], ...]


def load_golden(engine: Engine, reference: str, *, project: str) -> GoldenSet:
    """The set that a file holds, or that a project knows by name.

    A name that ends in ``.jsonl`` or has a slash is a file; any other is an imported set, or else
    a file of that name. Errors: NotFound, InvalidInput.
    """
    is_file = reference.endswith(GOLDEN_SUFFIX) or "/" in reference
    if is_file:
        return read_golden(Path(reference))
    project_id = project_id_of(engine.database, project)
    with engine.database.transaction(projects=[project_id]) as connection:
        name = reference.partition("@")[0]
        known = store.golden_versions(connection, project_id=project_id, name=name)
        if not known and Path(reference).is_file():
            return read_golden(Path(reference))
        return find_golden(connection, reference, project_id=project_id)


def run_golden(
    engine: Engine,
    request: GoldenRequest,
    golden: GoldenSet,
    *,
    project: str,
    pipeline: Pipeline,
    progress: Progress,
) -> Run:
    """Ask every question of ``golden`` twice: for its candidates, then on the clock for its hits.

    Questions are embedded beforehand, so that the clock measures searches. Nothing is stored.
    Errors: NotFound for the project, InvalidInput for the profile and k, EmbedderMismatch. An
    embedder that fails is no error: the results say that their searches were degraded.
    """
    check_seed(request.seed)
    started_at = datetime.now(UTC)
    ground = _ground(engine, golden, project=project, pipeline=pipeline)
    judged = ground.judged
    questions = [entry.question for entry in judged]
    texts = [question.question for question in questions]
    embed_texts(
        engine.cache or engine.database,
        engine.embedder,
        texts,
        role="query",
        project_id=engine.charged(project_id_of(engine.database, project)),
    )
    total = 2 * len(judged)
    asked: list[_Asked] = []
    for done, entry in enumerate(judged):
        progress(done, total)
        asked.append(_candidates(engine, request, entry, project=project))
    # The numbers that were asked with, whoever adopts others meanwhile.
    profile = asked[0].profile
    results: list[QuestionResult] = []
    for done, (entry, candidates) in enumerate(zip(judged, asked, strict=True)):
        progress(len(judged) + done, total)
        results.append(
            _hits(engine, request, entry, candidates, scopes=ground.scopes, project=project)
        )
    progress(total, total)
    return Run(
        project=project,
        golden=ground.golden,
        profile_name=request.profile,
        profile=profile,
        k=request.k,
        seed=request.seed,
        corpus=ground.corpus,
        started_at=started_at,
        curve_scale="score" if profile.threshold is None else "factor",
        curve=tuple(_curve(questions, asked)),
        results=tuple(results),
        **identity(engine, pipeline),
    )


def identity(engine: Engine, pipeline: Pipeline) -> dict[str, Any]:
    """What a run says of the program that made it."""
    return {
        "embedder": fingerprint(engine.embedder),
        "pipeline": pipeline.fingerprint,
        "chunking": {camel_case(name): chars for name, chars in asdict(pipeline.chunking).items()},
        "version": version("lastro"),
    }


def corpus_of(engine: Engine, *, project: str, pipeline: Pipeline) -> CorpusState:
    """What searches of a project read now. Errors: NotFound."""
    project_id = project_id_of(engine.database, project)
    with engine.database.transaction(projects=[project_id]) as connection:
        return store.corpus_state(connection, project_id=project_id, pipeline=pipeline.fingerprint)


def _ground(engine: Engine, golden: GoldenSet, *, project: str, pipeline: Pipeline) -> _Ground:
    project_id = project_id_of(engine.database, project)
    with engine.database.transaction(projects=[project_id]) as connection:
        versions = store.golden_versions(connection, project_id=project_id, name=golden.name)
        judged = judged_chunks(connection, golden, project_id=project_id)
        paths = [
            answer.place.path
            for question in golden.questions
            for answer in question.answers
            if isinstance(answer.place, FilePlace)
        ]
        spelled = {*paths, *(unicodedata.normalize("NFD", path) for path in paths)}
        found = store.document_scopes(connection, sorted(spelled), project_id=project_id)
        corpus = store.corpus_state(
            connection, project_id=project_id, pipeline=pipeline.fingerprint
        )
    return _Ground(
        golden=GoldenRef(
            name=golden.name,
            content_hash=golden.content_hash,
            stored=any(known.content_hash == golden.content_hash for known in versions),
        ),
        judged=judged,
        corpus=corpus,
        scopes={normal_path(path): scope for path, scope in found.items()},
    )


# --- one question


def _request(request: GoldenRequest, question: GoldenQuestion) -> SearchRequest:
    return SearchRequest(
        query=question.question,
        k=request.k,
        scopes=question.scopes,
        path_prefix=question.path_prefix,
        filter=question.entry_filter,
        profile=request.profile,
    )


def _candidates(
    engine: Engine, request: GoldenRequest, entry: JudgedQuestion, *, project: str
) -> _Asked:
    found = find(engine, _request(request, entry.question), project=project)
    return _Asked(
        profile=found.profile,
        ranks=answer_ranks([ranked.candidate.id for ranked in found.ranked], entry.chunks),
        degraded=tuple(dict.fromkeys(part.reason for part in found.degraded)),
        curve=tuple(_shown_at(found, entry, k=request.k)),
    )


def answer_ranks(chunks: Sequence[UUID], answers: Mapping[UUID, int]) -> dict[int, int]:
    """The rank of each answer that was found, in a ranking of units. Pure.

    Every chunk of one answer is one unit, which stands where the first of them does; any other
    chunk is a unit of its own. Ranks count to 100.
    """
    ranks: dict[int, int] = {}
    seen: set[UUID | int] = set()
    for chunk in chunks:
        answer = answers.get(chunk)
        unit = chunk if answer is None else answer
        if unit in seen:
            continue
        seen.add(unit)
        if len(seen) > JUDGED_DEPTH:
            break
        if answer is not None:
            ranks[answer] = len(seen)
    return ranks


def _shown_at(found: Found, entry: JudgedQuestion, *, k: int) -> Iterator[tuple[int, int, bool]]:
    """Hits, right ones, and whether the first is right, at each level of the curve."""
    for profile in levels(found.profile).values():
        passed = [
            ranked
            for ranked in found.ranked
            if has_evidence(ranked, profile, legs=found.legs, scale=found.scale)
        ]
        best = list(islice(one_per_place(passed, max_per_document=DEFAULT_MAX_PER_DOCUMENT), k))
        right = [entry.grade(ranked.candidate.id) > 0 for ranked in best]
        yield len(right), sum(right), any(right[:1])


def levels(profile: Profile) -> dict[float, Profile]:
    """The profile with its threshold at each level of the curve. Pure."""
    threshold = profile.threshold
    if threshold is None:
        return {score: replace(profile, threshold=score) for score in SCORES}
    if isinstance(threshold, Thresholds):
        return {
            factor: replace(
                profile,
                threshold=Thresholds(
                    both=threshold.both * factor,
                    vector_only=threshold.vector_only * factor,
                    lexical_only=threshold.lexical_only * factor,
                ),
            )
            for factor in FACTORS
        }
    return {factor: replace(profile, threshold=threshold * factor) for factor in FACTORS}


def _hits(
    engine: Engine,
    request: GoldenRequest,
    entry: JudgedQuestion,
    asked: _Asked,
    *,
    scopes: Mapping[str, str],
    project: str,
) -> QuestionResult:
    question = entry.question
    started = time.perf_counter()
    outcome = search(
        engine, replace(_request(request, question), profile=asked.profile), project=project
    )
    took_ms = (time.perf_counter() - started) * 1000
    late = [part.reason for part in outcome.degraded]
    return QuestionResult(
        id=question.id,
        question=question.question,
        language=question.language,
        scopes=tuple(sorted({_scope(answer, scopes) for answer in question.answers} - {""})),
        difficulty=question.difficulty,
        derived=question.derived,
        unanswerable=question.unanswerable,
        answers=tuple(
            AnswerResult(
                place=place_text(answer),
                grade=answer.grade,
                rank=asked.ranks.get(at),
                indexed=at not in entry.not_indexed,
                merged=at in entry.merged,
            )
            for at, answer in enumerate(question.answers)
        ),
        hits=tuple(_hit(hit, entry) for hit in outcome.hits),
        degraded=tuple(dict.fromkeys([*asked.degraded, *late])),
        took_ms=round(took_ms, 3),
    )


def _scope(answer: Answer, scopes: Mapping[str, str]) -> str:
    """Scope of an answer's document; empty for a file that is not indexed."""
    match answer.place:
        case FilePlace(path=path):
            return scopes.get(normal_path(path), "")
        case SessionPlace():
            return "session"
        case EntityPlace():
            return "entity"


def _hit(hit: Hit, entry: JudgedQuestion) -> HitResult:
    return HitResult(
        place=origin_text(hit.origin),
        score=round(hit.score, 6),
        grade=entry.grade(UUID(hit.chunk_id)),
    )


def origin_text(origin: Origin) -> str:
    """A hit's place as judged places are written. Pure."""
    if isinstance(origin, FileOrigin):
        return f"{origin.source_path}:{origin.line_start}-{origin.line_end}"
    if isinstance(origin, SessionOrigin):
        return f"session {origin.session_id}, event {origin.event_id}"
    return f"entry {origin.entity_key}"


# --- all questions


def _curve(questions: Sequence[GoldenQuestion], asked: Sequence[_Asked]) -> Iterator[CurvePoint]:
    for at, level in enumerate(levels(asked[0].profile)):
        shown = [
            (question.unanswerable, *candidates.curve[at])
            for question, candidates in zip(questions, asked, strict=True)
        ]
        yield CurvePoint(
            level=level,
            hits=sum(hits for _, hits, _, _ in shown),
            right_hits=sum(right for _, _, right, _ in shown),
            answered=sum(hits > 0 for _, hits, _, _ in shown),
            first_right=sum(first for _, _, _, first in shown),
            false_answers=sum(hits > 0 for unanswerable, hits, _, _ in shown if unanswerable),
            false_refusals=sum(hits == 0 for unanswerable, hits, _, _ in shown if not unanswerable),
        )
