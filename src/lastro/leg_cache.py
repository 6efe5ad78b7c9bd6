"""Both legs' candidates of judged questions, captured once: settings are then tried without SQL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from lastro import store
from lastro.beir import RetrievalSet, collapsed
from lastro.embedding import embed_texts
from lastro.errors import ProviderError
from lastro.evaluation import PROJECT
from lastro.golden import GoldenSet
from lastro.judging import JudgedQuestion, judged_chunks
from lastro.profiles import Profile
from lastro.ranking import Candidate
from lastro.replay import CachedQuestion
from lastro.search import Engine, Found, SearchRequest, find

Parts = Mapping[UUID, tuple[float, float]]


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

    A question's group is its language, unless ``group`` names one.
    Errors: NotFound for the project, EmbedderMismatch, ProviderError where the embedder fails.
    """
    with engine.database.transaction() as connection:
        project_id = store.find_project(connection, project).id
    with engine.database.transaction(projects=[project_id]) as connection:
        judged = judged_chunks(connection, golden, project_id=project_id)
    _embed(engine, [entry.question.question for entry in judged])
    made: list[CachedQuestion] = []
    for number, entry in enumerate(judged):
        progress(number)
        request = SearchRequest(
            query=entry.question.question,
            scopes=entry.question.scopes,
            path_prefix=entry.question.path_prefix,
            profile=profile,
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
    _embed(engine, [question.text for question in data.questions])
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


def _embed(engine: Engine, texts: Sequence[str]) -> None:
    """Embed every question at once, and refuse to go on without."""
    made = embed_texts(engine.cache or engine.database, engine.embedder, texts, role="query")
    if made.why is not None:
        raise ProviderError(
            f"the embedder {engine.embedder.id} failed ({made.why.reason}), and numbers chosen "
            "without its vectors would mislead",
            reason=made.why.reason,
            remedy="see `lastro doctor`",
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
