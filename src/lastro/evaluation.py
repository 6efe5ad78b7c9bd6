"""The evaluation use case: a retrieval set in a scratch database, searched as users search.

A ranking is judged before any threshold, which says whether to answer and not in what order.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lastro import store
from lastro.adoption import refresh_vector_scale
from lastro.beir import Passage, Question, RetrievalSet, collapsed, load_set
from lastro.db.pool import Database
from lastro.db.scratch import scratch_database, settle
from lastro.documents import FileIdentity, Pipeline, Prepared, prepare_passage
from lastro.embedders import Embedder, fingerprint
from lastro.embedding import embed_texts
from lastro.errors import InvalidInput, ProviderError
from lastro.figures import latency
from lastro.language import detect_language
from lastro.metrics import gains_of, mean, ndcg, recall, scored
from lastro.search import Engine, Found, SearchRequest, find, profile_of, search
from lastro.types import (
    DegradedReason,
    Evaluation,
    EvaluationRequest,
    ProfileRef,
    Progress,
    Quality,
)
from lastro.writing import Writer

PROJECT = "evaluation"
SOURCE = "set"
# Passages stored at once, and the texts that the cache is asked for at once.
BATCH_PASSAGES = 500
# Documents of a ranking that are judged: what recall@100 reads.
JUDGED_DEPTH = 100
FUSED, VECTOR, LEXICAL = "fused", "vector", "lexical"

Ranking = Sequence[str]
_LANGUAGE = re.compile(r"[a-z]{2}")


def evaluate(
    engine: Engine,
    request: EvaluationRequest,
    *,
    pipeline: Pipeline,
    admin_url: str,
    progress: Progress,
) -> Evaluation:
    """Measure the ranking on a retrieval set, in a scratch database beside ``engine``'s own.

    Only the embedding cache of ``engine``'s database is read and written. Searches run as the
    application's role, under row-level security.
    Errors: NotFound and InvalidInput for the set, DatabaseUnavailable where the owner may not
    create databases, ProviderError where the embedder fails.
    """
    if request.profile not in engine.profiles:
        raise InvalidInput(
            f"there is no profile {request.profile!r}",
            remedy=f"profiles are {', '.join(sorted(engine.profiles))}",
        )
    data = load_set(request.folder, qrels=request.qrels, collapse=request.collapse)
    total = len(data.passages) + len(data.questions)
    with loaded(
        engine,
        data,
        language=request.language,
        whole=request.whole,
        pipeline=pipeline,
        admin_url=admin_url,
        progress=lambda n: progress(n, total),
    ) as (scratch, stored):
        asked = _ask(
            scratch,
            data.questions,
            profile=request.profile,
            progress=lambda n: progress(len(data.passages) + n, total),
        )
    qualities = {
        name: judge(_rankings(run, data, collapse=request.collapse), data.judgements)
        for name, run in asked.runs.items()
    }
    return Evaluation(
        fused=qualities.pop(FUSED),
        legs=qualities,
        latency=latency(asked.took_ms),
        queries=len(data.questions),
        profile=asked.profile,
        embedder=fingerprint(engine.embedder),
        documents=len(data.passages),
        chunks=stored.chunks,
        languages=stored.languages,
        whole=request.whole,
        degraded=asked.degraded,
    )


# --- loading


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What passages became; ``languages`` counts documents."""

    chunks: int
    languages: Mapping[str, int]


@contextmanager
def loaded(
    engine: Engine,
    data: RetrievalSet,
    *,
    language: str | None,
    whole: bool,
    pipeline: Pipeline,
    admin_url: str,
    progress: Callable[[int], None],
) -> Generator[tuple[Engine, Stored]]:
    """A retrieval set as the project PROJECT of a scratch database, and what searches it.

    Only the embedding cache of ``engine``'s database is read and written. Errors: as ``evaluate``.
    """
    if language is not None and not _LANGUAGE.fullmatch(language):
        raise InvalidInput(
            f"{language!r} is no language", remedy="give an ISO 639-1 code, such as pt"
        )
    with scratch_database(admin_url) as url, Database(url) as database:
        writer = Writer(
            database=database,
            admin_url=url,
            embedder=engine.embedder,
            pipeline=pipeline,
            cache=engine.database,
        )
        stored = store_passages(
            writer, data.passages, language=language, whole=whole, progress=progress
        )
        settle(url)
        spoken = dict.fromkeys(filter(None, (language, *engine.languages)))
        yield (
            replace(engine, database=database, cache=engine.database, languages=tuple(spoken)),
            stored,
        )


def store_passages(
    writer: Writer,
    passages: Sequence[Passage],
    *,
    language: str | None,
    whole: bool,
    progress: Callable[[int], None],
) -> Stored:
    """Store every passage that says something, and count words once at the end.

    Errors: ProviderError where the embedder fails.
    """
    with writer.database.transaction() as connection:
        project_id = store.ensure_project(connection, PROJECT).id
    languages: Counter[str] = Counter()
    chunks = 0
    for start in range(0, len(passages), BATCH_PASSAGES):
        progress(start)
        batch = [
            _prepare(
                passage, writer.pipeline, project_id=project_id, language=language, whole=whole
            )
            for passage in passages[start : start + BATCH_PASSAGES]
            if (passage.title + passage.text).strip()
        ]
        writer.write(batch, project_id=project_id, stale=())
        reason = writer.counts.reason
        if reason is not None:
            raise _without_vectors(writer.embedder, reason)
        languages.update(item.document.language for item in batch)
        chunks += sum(len(item.chunks) for item in batch)
    progress(len(passages))
    writer.finish()
    with writer.database.transaction(projects=[project_id]) as connection:
        store.refresh_statistics(connection, project_id)
        refresh_vector_scale(connection, project_id)
    return Stored(chunks=chunks, languages=dict(languages.most_common()))


def _prepare(
    passage: Passage, pipeline: Pipeline, *, project_id: int, language: str | None, whole: bool
) -> Prepared:
    text = f"{passage.title}\n{passage.text}"
    return prepare_passage(
        passage.text,
        FileIdentity(
            project_id=project_id,
            source=SOURCE,
            path=passage.id,
            scope="docs",
            revision=None,
            content_hash="",
        ),
        pipeline,
        title=passage.title,
        language=language or detect_language(text, languages=pipeline.languages),
        whole=whole,
    )


# --- asking


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Passage ids by run and question, best first and as often as chunks were found."""

    profile: ProfileRef
    runs: Mapping[str, Mapping[str, Sequence[str]]]
    took_ms: Sequence[float]
    degraded: Mapping[str, int]


def _ask(
    engine: Engine,
    questions: Sequence[Question],
    *,
    profile: str,
    progress: Callable[[int], None],
) -> _Asked:
    """Ask every question twice: for its candidates, which warms everything, then on the clock."""
    embed_questions(engine, [question.text for question in questions])
    runs: dict[str, dict[str, Sequence[str]]] = {FUSED: {}, VECTOR: {}, LEXICAL: {}}
    degraded: Counter[str] = Counter()
    numbers = profile_of(engine, profile, project=PROJECT)
    for number, question in enumerate(questions):
        progress(number)
        found = find(engine, SearchRequest(query=question.text, profile=profile), project=PROJECT)
        for name, places in _places(found).items():
            runs[name][question.id] = places
        degraded.update({part.reason for part in found.degraded})
    took_ms = [_time_ms(engine, question, profile=profile) for question in questions]
    progress(len(questions))
    return _Asked(profile=numbers.ref, runs=runs, took_ms=took_ms, degraded=dict(degraded))


def _places(found: Found) -> dict[str, Sequence[str]]:
    return {
        FUSED: [ranked.candidate.place for ranked in found.ranked],
        VECTOR: [row.place for row in found.vector.rows],
        LEXICAL: [row.place for row in found.lexical.rows],
    }


def embed_questions(engine: Engine, texts: Sequence[str], *, project_id: int | None = None) -> None:
    """Embed every question at once, and refuse to go on without: then searches find it cached.

    Errors: ProviderError where the embedder fails.
    """
    made = embed_texts(
        engine.cache or engine.database,
        engine.embedder,
        texts,
        role="query",
        project_id=engine.charged(project_id),
    )
    if made.why is not None:
        raise _without_vectors(engine.embedder, made.why.reason)


def _without_vectors(embedder: Embedder, reason: DegradedReason) -> ProviderError:
    return ProviderError(
        f"the embedder {embedder.id} failed ({reason}), and figures without its vectors would "
        "mislead",
        reason=reason,
        remedy="see `lastro doctor`",
    )


def _time_ms(engine: Engine, question: Question, *, profile: str) -> float:
    started = time.perf_counter()
    search(engine, SearchRequest(query=question.text, profile=profile), project=PROJECT)
    return (time.perf_counter() - started) * 1000


# --- judging


def _rankings(
    run: Mapping[str, Sequence[str]], data: RetrievalSet, *, collapse: str | None
) -> dict[str, Ranking]:
    return {
        question: distinct(ids, excluded=data.excluded.get(question, frozenset()), mark=collapse)
        for question, ids in run.items()
    }


def distinct(ids: Iterable[str], *, excluded: frozenset[str], mark: str | None) -> Ranking:
    """Documents in the order of their best chunk, without those excluded, at most 100. Pure."""
    kept = (collapsed(id_, mark) for id_ in ids if id_ not in excluded)
    return tuple(dict.fromkeys(kept))[:JUDGED_DEPTH]


def judge(rankings: Mapping[str, Ranking], judgements: Mapping[str, Mapping[str, int]]) -> Quality:
    """nDCG@10 and recall@100 of distinct documents, with the grade as gain. Pure.

    Every judged question counts, one without a ranking as 0.
    """
    gains = {q: gains_of(rankings.get(q, ()), grades) for q, grades in judgements.items()}
    ideal = {q: tuple(grades.values()) for q, grades in judgements.items()}
    questions = tuple(judgements)
    ndcgs = {q: ndcg(gains[q], ideal[q]) for q in questions}
    recalls = {q: recall(gains[q], ideal[q], k=JUDGED_DEPTH) for q in questions}
    return Quality(
        ndcg_at_10=mean(scored(ndcgs, questions)),
        recall_at_100=mean(scored(recalls, questions)),
    )
