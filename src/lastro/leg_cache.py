"""Both legs' candidates of judged questions, captured once: settings are then tried without SQL."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import numpy as np

from lastro import store
from lastro.beir import RetrievalSet, collapsed, load_set
from lastro.documents import Pipeline
from lastro.errors import InvalidInput
from lastro.evaluation import PROJECT, embed_questions, loaded
from lastro.golden import GoldenSet, golden_set
from lastro.golden_evaluation import load_golden
from lastro.intervals import LEAST_QUESTIONS
from lastro.judging import JudgedQuestion, judged_chunks
from lastro.profiles import Profile
from lastro.projects import project_id_of
from lastro.ranking import Candidate
from lastro.replay import CachedQuestion
from lastro.search import Engine, Found, SearchRequest, find
from lastro.types import Progress

Parts = Mapping[UUID, tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenUsed:
    """A set that was calibrated on; ``left_out`` counts derived questions beside human ones."""

    name: str
    content_hash: str
    answerable: int
    unanswerable: int
    left_out: int


# --- a set, wherever it lies


def captured(
    engine: Engine,
    reference: str,
    *,
    profile: Profile,
    project: str,
    pipeline: Pipeline,
    admin_url: str,
    by_set: bool,
    progress: Progress,
) -> tuple[GoldenUsed, list[CachedQuestion]]:
    """A set's questions with their legs; a folder's are asked in a scratch database.

    With ``by_set`` the whole set is one group, else every language of a golden set is. Errors: as
    ``calibrating.calibrate``.
    """
    folder = Path(reference)
    if folder.is_dir():
        return _captured_folder(
            engine,
            folder,
            profile=profile,
            pipeline=pipeline,
            admin_url=admin_url,
            progress=progress,
        )
    golden, left_out = human_questions(load_golden(engine, reference, project=project))
    questions = cache_golden(
        engine,
        golden,
        project=project,
        profile=profile,
        group=golden.name if by_set else None,
        progress=lambda done: progress(done, len(golden.questions)),
    )
    return _used(golden.name, golden.content_hash, questions, left_out=left_out), questions


def _captured_folder(
    engine: Engine,
    folder: Path,
    *,
    profile: Profile,
    pipeline: Pipeline,
    admin_url: str,
    progress: Progress,
) -> tuple[GoldenUsed, list[CachedQuestion]]:
    data = load_set(folder)
    total = len(data.passages) + len(data.questions)
    name = folder.resolve().name
    with loaded(
        engine,
        data,
        language=None,
        whole=False,
        pipeline=pipeline,
        admin_url=admin_url,
        progress=lambda done: progress(done, total),
    ) as (scratch, _stored):
        questions = cache_set(
            scratch,
            data,
            profile=profile,
            group=name,
            progress=lambda done: progress(len(data.passages) + done, total),
        )
    return _used(name, set_hash(data), questions, left_out=0), questions


def _used(
    name: str, content_hash: str, questions: Sequence[CachedQuestion], *, left_out: int
) -> GoldenUsed:
    answerable = sum(question.answerable for question in questions)
    return GoldenUsed(
        name=name,
        content_hash=content_hash,
        answerable=answerable,
        unanswerable=len(questions) - answerable,
        left_out=left_out,
    )


def human_questions(golden: GoldenSet) -> tuple[GoldenSet, int]:
    """The set without its derived questions, and how many these are; all where none is human."""
    human = tuple(question for question in golden.questions if not question.derived)
    if not human:
        return golden, 0
    kept = replace(golden_set(golden.name, human), content_hash=golden.content_hash)
    return kept, len(golden.questions) - len(human)


def set_hash(data: RetrievalSet) -> str:
    """A hash of a retrieval set's passages, questions and judgements, in any order. Pure."""
    parts = {
        "passages": sorted((p.id, p.title, p.text) for p in data.passages),
        "questions": sorted((q.id, q.text) for q in data.questions),
        "judgements": {q: dict(sorted(grades.items())) for q, grades in data.judgements.items()},
        "excluded": {q: sorted(ids) for q, ids in data.excluded.items()},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def with_answers(questions: Sequence[CachedQuestion]) -> list[CachedQuestion]:
    """Those that have a judged answer. Pure. Errors: InvalidInput where none has."""
    answerable = [question for question in questions if question.answerable]
    if not answerable:
        raise InvalidInput(
            "no question has a judged answer",
            remedy=f"judge {LEAST_QUESTIONS} or more questions",
        )
    return answerable


# --- its questions, one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a question's candidates are worth.

    ``unit_of`` names the unit that a row counts as, ``grades`` are the gains of units that answer,
    ``ideal`` those of every answer, found or not. Rows of a place in ``excluded`` do not count.
    """

    id: str
    group: str
    unit_of: Callable[[Candidate], str]
    grades: Mapping[str, float]
    ideal: Sequence[float]
    excluded: frozenset[str] = frozenset()


def cache_golden(
    engine: Engine,
    golden: GoldenSet,
    *,
    project: str,
    profile: Profile,
    group: str | None = None,
    progress: Callable[[int], None],
) -> list[CachedQuestion]:
    """The legs of every question of ``golden``, run as ``profile`` runs them, in the set's order.

    Rules are asked whatever their weight, since a setting that is replayed may give them one.
    A question's group is its language, unless ``group`` names one.
    Errors: NotFound for the project, EmbedderMismatch, ProviderError where the embedder fails.
    """
    project_id = project_id_of(engine.database, project)
    with engine.database.transaction(projects=[project_id]) as connection:
        judged = judged_chunks(connection, golden, project_id=project_id)
    embed_questions(engine, [entry.question.question for entry in judged], project_id=project_id)
    made: list[CachedQuestion] = []
    asking = replace(profile, rule_weight=profile.rule_weight or 1.0)
    for number, entry in enumerate(judged):
        progress(number)
        request = SearchRequest(
            query=entry.question.question,
            scopes=entry.question.scopes,
            path_prefix=entry.question.path_prefix,
            filter=entry.question.entry_filter,
            profile=asking,
        )
        judgement = _golden_judgement(entry, group=group or entry.question.language)
        made.append(_capture(engine, request, judgement, project=project))
    return made


def cache_set(
    engine: Engine,
    data: RetrievalSet,
    *,
    profile: Profile,
    group: str,
    collapse: str | None = None,
    progress: Callable[[int], None],
) -> list[CachedQuestion]:
    """The legs of every question of a retrieval set that ``evaluation.loaded`` stored.

    Chunks of one passage count as one unit, and with ``collapse`` passages of one collapsed id. A
    question that is judged to have no relevant passage is unanswerable.
    Errors: ProviderError where the embedder fails.
    """
    embed_questions(engine, [question.text for question in data.questions])
    made: list[CachedQuestion] = []
    for number, question in enumerate(data.questions):
        progress(number)
        grades = {d: float(g) for d, g in data.judgements[question.id].items() if g > 0}
        judgement = Judgement(
            id=question.id,
            group=group,
            unit_of=lambda candidate: collapsed(candidate.place, collapse),
            grades=grades,
            ideal=tuple(grades.values()),
            excluded=data.excluded.get(question.id, frozenset()),
        )
        request = SearchRequest(query=question.text, profile=profile)
        made.append(_capture(engine, request, judgement, project=PROJECT))
    return made


def _golden_judgement(entry: JudgedQuestion, *, group: str) -> Judgement:
    def unit_of(candidate: Candidate) -> str:
        answer = entry.chunks.get(candidate.id)
        return str(candidate.id) if answer is None else f"answer {answer}"

    answers = entry.question.answers
    return Judgement(
        id=entry.question.id,
        group=group,
        unit_of=unit_of,
        grades={f"answer {at}": float(answer.grade) for at, answer in enumerate(answers)},
        ideal=tuple(
            float(answer.grade) for at, answer in enumerate(answers) if at not in entry.merged
        ),
    )


def _capture(
    engine: Engine, request: SearchRequest, judgement: Judgement, *, project: str
) -> CachedQuestion:
    found = find(engine, request, project=project)
    parts: Parts = {}
    if found.lexical.scoring is not None:
        with engine.database.transaction(projects=[found.project.id]) as connection:
            parts = store.lexical_parts(
                connection,
                [ranked.candidate.id for ranked in found.ranked],
                project_id=found.project.id,
                scoring=found.lexical.scoring,
            )
    return cached_question(found, parts, judgement)


def cached_question(found: Found, parts: Parts, judgement: Judgement) -> CachedQuestion:
    """The candidates of one search as arrays; ``parts`` are coverage and length ratio by row. Pure.

    A lexical score that is no coverage stands as one of a row of mean length.
    """
    rows = sorted(
        (r.candidate for r in found.ranked if r.candidate.place not in judgement.excluded),
        key=lambda c: (c.place, c.ordinal, str(c.id)),
    )
    names = [judgement.unit_of(candidate) for candidate in rows]
    units = {name: number for number, name in enumerate(dict.fromkeys(names))}
    documents = {id_: number for number, id_ in enumerate({c.document_id: 0 for c in rows})}
    words = [parts.get(c.id, (_or_nan(c.lexical_score), 1.0)) for c in rows]
    return CachedQuestion(
        id=judgement.id,
        group=judgement.group,
        answerable=bool(judgement.ideal),
        legs=tuple(found.legs),
        scale=found.scale,
        length_exponent=found.profile.length_exponent,
        cosine=np.array([_or_nan(c.vector_score) for c in rows], dtype=np.float64),
        coverage=np.array([covered for covered, _ in words], dtype=np.float64),
        length_ratio=np.array([ratio for _, ratio in words], dtype=np.float64),
        unreached=np.array([c.unreached for c in rows], dtype=np.float64),
        unseen=np.array([c.unseen for c in rows], dtype=np.float64),
        mass=found.lexical.mass,
        vector_rank=np.array([c.vector_rank or 0 for c in rows], dtype=np.int64),
        lexical_rank=np.array([c.lexical_rank or 0 for c in rows], dtype=np.int64),
        rule=np.array([c.rule for c in rows], dtype=np.float64),
        age_days=np.array([_or_nan(c.age_days) for c in rows], dtype=np.float64),
        document=np.array([documents[c.document_id] for c in rows], dtype=np.int64),
        char_start=np.array([c.char_start for c in rows], dtype=np.int64),
        char_end=np.array([c.char_end for c in rows], dtype=np.int64),
        unit=np.array([units[name] for name in names], dtype=np.int64),
        unit_grade=np.array([judgement.grades.get(name, 0.0) for name in units], dtype=np.float64),
        ideal_gains=np.sort(np.array(judgement.ideal, dtype=np.float64))[::-1],
    )


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
