"""The search use case: embed the query, run both legs, fuse, judge the evidence, cite."""

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from lastro import ruling, store
from lastro.adoption import resolve
from lastro.citing import highlighter, to_hit
from lastro.db.pool import Database, retried
from lastro.db.translation import translated
from lastro.embedders import Embedder
from lastro.embedding import embed_texts, require_same, require_space
from lastro.entry_filter import parse_filter
from lastro.errors import InvalidInput, StatementTimeout
from lastro.filters import HardFilter, Predicate, compile_filter, parse_scopes
from lastro.legs import (
    HNSW_SETTINGS,
    LexicalLeg,
    VectorLeg,
    held_synonyms,
    join_legs,
    read_query,
    run_lexical_leg,
    run_vector_leg,
)
from lastro.lexical import asked_query
from lastro.metering import UsageLater
from lastro.paging import Cursor, mark_of, read_cursor
from lastro.profiles import Profile, Thresholds
from lastro.projects import project_id_of
from lastro.ranking import (
    DEFAULT_K,
    DEFAULT_MAX_PER_DOCUMENT,
    MAX_K,
    Candidate,
    Ranked,
    VectorScale,
    evidence,
    fuse,
    fused_cosine,
    fusion_parts,
    has_evidence,
    one_per_place,
    weights,
)
from lastro.rules import RuleFunction, Ruling, ruling_json
from lastro.store import AppConnection, Corpus, HitRow, Project
from lastro.types import MAX_QUERY_CHARS, Degraded, Outcome

T = TypeVar("T")

# Longer than any statement takes on a healthy server; a leg that needs more is left out.
STATEMENT_TIMEOUT_S = 30.0

Stage = Literal["open", "embed", "lexical", "vector", "join", "rules", "fuse", "fetch"]
# Told how many seconds a stage of a search took; of one that is made again, each time.
Observe = Callable[[Stage, float], None]


def unobserved(_stage: Stage, _took_s: float) -> None:
    """The observer that looks away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A question and what may answer it; every field as in the contract.

    ``filter`` is an object of the filter language: docs/reference/filters.md. ``profile`` is a
    name, ``name@version``, or the ranking numbers themselves. ``rules`` are asked beside those
    that the project keeps, where the profile gives rules a weight: docs/reference/rules.md.
    ``cursor`` is the ``next_cursor`` of an outcome of the same request: the hits after those.
    ``record_gap`` lets ``App.search`` count the question where nothing answers it.
    """

    query: str
    k: int = DEFAULT_K
    scopes: Sequence[str] | None = None
    path_prefix: str | None = None
    filter: Mapping[str, Any] | None = None
    profile: str | Profile = "default"
    rules: Sequence[RuleFunction] = ()
    explain: bool = False
    max_per_document: int = DEFAULT_MAX_PER_DOCUMENT
    cursor: str | None = None
    record_gap: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What every search of a process works with.

    ``languages`` are those that a question may be asked in, beside the project's own; ``cache``
    is the database whose embedding cache is used, ``database`` where none is named, and
    ``cache_project`` whose questions these are there; ``usage`` writes there what they cost. A leg
    of which a statement takes longer than ``statement_timeout_s`` is absent from the outcome.
    ``observe`` is told how long stages took.
    """

    database: Database
    embedder: Embedder
    profiles: Mapping[str, Profile]
    languages: Sequence[str]
    cache: Database | None = None
    cache_project: int | None = None
    usage: UsageLater | None = None
    statement_timeout_s: float = STATEMENT_TIMEOUT_S
    observe: Observe = unobserved

    def charged(self, project_id: int | None) -> int | None:
        """Which project of the cache's database pays for questions of ``project_id``, if any."""
        return project_id if self.cache is None else self.cache_project


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The fused candidates of one query, best first, before any threshold.

    ``scale`` is that of the project's cosines; None where too few rows have one. ``rulings`` are
    what rules say of entries, by document; empty where none was asked.
    """

    project: Project
    profile: Profile
    ranked: Sequence[Ranked]
    legs: Sequence[str]
    scale: VectorScale | None
    vector: VectorLeg
    lexical: LexicalLeg
    degraded: Sequence[Degraded]
    rulings: Mapping[UUID, Ruling]


def search(engine: Engine, request: SearchRequest, *, project: str) -> Outcome:
    """Answer ``request`` from ``project``: hits best first, ties by place.

    Errors: InvalidInput and InvalidFilter for a request that cannot be answered, NotFound for the
    project, EmbedderMismatch where another embedder made the index. A dead embedder is not an
    error: the lexical leg answers, and the outcome says so.
    """
    return searched(engine, request, project=project)[0]


def searched(engine: Engine, request: SearchRequest, *, project: str) -> tuple[Outcome, Found]:
    """What ``search`` answers, and the candidates that it was chosen from; the same errors."""
    started = time.perf_counter()
    cursor = None if request.cursor is None else read_cursor(request.cursor)

    def answer(found: Found, connection: AppConnection) -> tuple[Outcome, Found]:
        best, next_cursor = _page(found, request, after=cursor)
        ids, project_id = [r.candidate.id for r in best], found.project.id
        with _observed(engine, "fetch"):
            rows = store.fetch_hits(connection, ids, project_id=project_id)
        explained = None
        if request.explain:
            by = held_synonyms(connection, ids, found.lexical, project_id=project_id)
            explained = {r.candidate.id: _explain(r, found, by.get(r.candidate.id)) for r in best}
        outcome = _outcome(best, rows, found, explained=explained, started=started)
        return replace(outcome, next_cursor=next_cursor), found

    return _find(engine, request, project=project, use=answer)


def _page(
    found: Found, request: SearchRequest, *, after: Cursor | None
) -> tuple[list[Ranked], str | None]:
    """The hits of one page, and the cursor of the next one, if there is one.

    Errors: Conflict where other hits came before than those that were shown.
    """
    begin = 0 if after is None else after.shown
    end = begin + request.k
    places = one_per_place(shown(found), max_per_document=request.max_per_document)
    best = list(islice(places, end + 1))
    question = replace(request, cursor=None, k=0, explain=False, rules=())
    if after is not None:
        after.check(question, (item.candidate.id for item in best[:begin]))
    if len(best) <= end:
        return best[begin:], None
    mark = mark_of(question, (item.candidate.id for item in best[:end]))
    return best[begin:end], Cursor(end, mark).text()


def _outcome(
    best: Sequence[Ranked],
    rows: Mapping[UUID, HitRow],
    found: Found,
    *,
    explained: Mapping[UUID, dict[str, Any]] | None,
    started: float,
) -> Outcome:
    highlight = highlighter(found.lexical.marks)
    return Outcome(
        hits=tuple(
            to_hit(
                rows[item.candidate.id],
                item.candidate,
                score=item.score,
                highlight=highlight,
                explain=None if explained is None else explained[item.candidate.id],
            )
            for item in best
            if item.candidate.id in rows
        ),
        vector_available="vector" in found.legs,
        degraded=tuple(found.degraded),
        profile=found.profile.ref,
        abstained=bool(found.ranked) and not best,
        took_ms=(time.perf_counter() - started) * 1000,
        explain=None if explained is None else _explain_legs(found),
    )


def profile_of(engine: Engine, name: str, *, project: str) -> Profile:
    """The profile that a name means in a project now. Errors: NotFound, InvalidInput."""
    project_id = project_id_of(engine.database, project)
    with engine.database.transaction(projects=[project_id]) as connection:
        profile, _scale = resolve(
            connection, engine.profiles, name, project_id=project_id, embedder=engine.embedder.id
        )
    return profile


def shown(found: Found) -> Iterator[Ranked]:
    """The candidates whose evidence is enough, best first."""
    return (
        r
        for r in found.ranked
        if has_evidence(r, found.profile, legs=found.legs, scale=found.scale)
    )


def find(engine: Engine, request: SearchRequest, *, project: str) -> Found:
    """Run both legs and fuse them; the same errors as ``search``."""
    return _find(engine, request, project=project, use=lambda found, _connection: found)


def hard_filter(request: SearchRequest, *, project_id: int) -> HardFilter:
    """What of a project may answer ``request``. Errors: InvalidFilter."""
    return HardFilter(
        project_id=project_id,
        scopes=parse_scopes(request.scopes),
        path_prefix=request.path_prefix,
        entries=parse_filter(request.filter),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request that can be answered: its words, its vector, its filter, and whose rows.

    ``space`` is that of the vector, by its embedder's fingerprint.
    """

    query: str
    predicate: Predicate
    project: Project
    profile: str | Profile
    space: str | None
    embedding: NDArray[np.float32] | None
    rules: ruling.Asked


class _Late(Exception):
    """A part of a search took longer than a statement may; its transaction is lost."""

    def __init__(self, part: str, detail: str) -> None:
        super().__init__(detail)
        self.degraded = Degraded(part=part, reason="statement_timeout", detail=detail)


def _find(
    engine: Engine,
    request: SearchRequest,
    *,
    project: str,
    use: Callable[[Found, AppConnection], T],
) -> T:
    """What ``use`` makes of the fused candidates, in the snapshot in which they were found.

    An index run may swap a document meanwhile: of each, all is seen old or all is seen new. A part
    that is late is left out the second time.
    """
    query = _checked_query(request)
    with _observed(engine, "open"), engine.database.session() as connection:
        tenant, space = _opening(connection, engine.embedder, project)
    hard = hard_filter(request, project_id=tenant.id)
    predicate = compile_filter(hard)  # what is refused is refused before it is embedded
    with _observed(engine, "embed"):
        embedding, degraded = _embed_query(engine, query, project=tenant, space=space)
    asked = _Asked(
        query=query,
        predicate=predicate,
        project=tenant,
        profile=request.profile,
        space=space,
        embedding=embedding,
        rules=ruling.asked(query, request.filter, entries=hard.entries, functions=request.rules),
    )
    timeout_ms = round(engine.statement_timeout_s * 1000)
    limits = {**HNSW_SETTINGS, "statement_timeout": f"{timeout_ms}ms"}

    def work() -> T:
        with engine.database.transaction(
            projects=[tenant.id], settings=limits, snapshot=True
        ) as connection:
            return use(_found(connection, engine, asked, degraded), connection)

    while True:
        try:
            return retried(work)
        except _Late as late:
            degraded = [*degraded, late.degraded]


def _found(
    connection: AppConnection, engine: Engine, asked: _Asked, degraded: Sequence[Degraded]
) -> Found:
    """Both legs, fused; those of ``degraded`` that were late before are left out."""
    late = {d.part for d in degraded if d.reason == "statement_timeout"}
    project_id = asked.project.id
    profile, scale = resolve(
        connection,
        engine.profiles,
        asked.profile,
        project_id=project_id,
        embedder=engine.embedder.id,
    )
    corpus = store.corpus(connection, project_id)
    if asked.space is not None:
        require_space(connection, corpus, space=asked.space, embedder=engine.embedder)
    vector, lexical = _legs(connection, engine, asked, corpus=corpus, profile=profile, late=late)
    with _observed(engine, "join"):
        candidates = join_legs(vector, lexical)
    rulings = dict[UUID, Ruling]()
    if profile.rule_weight and "rules" not in late:
        with _in_time(engine, "rules"):
            rulings = ruling.rulings(connection, candidates, asked.rules, project_id=project_id)
        candidates = ruling.ruled(candidates, rulings)
    said = [*degraded, *lexical.degraded, *_index_state(corpus)]
    ran = {"vector": vector.embedding is not None, "lexical": lexical.scoring is not None}
    legs = [name for name, did in ran.items() if did]
    if said and len(legs) < 2 and isinstance(profile.threshold, float):
        detail = f"the threshold of {profile.name} is for both legs and was not applied"
        said.append(Degraded(part="threshold", reason=said[0].reason, detail=detail))
    with _observed(engine, "fuse"):
        ranked = fuse(candidates, profile, legs=legs, scale=scale)
    return Found(
        project=asked.project,
        profile=profile,
        ranked=ranked,
        legs=legs,
        scale=scale,
        vector=vector,
        lexical=lexical,
        degraded=said,
        rulings=rulings,
    )


def _legs(
    connection: AppConnection,
    engine: Engine,
    asked: _Asked,
    *,
    corpus: Corpus,
    profile: Profile,
    late: Collection[str],
) -> tuple[VectorLeg, LexicalLeg]:
    """Both legs; one of those that are ``late`` is absent."""
    project_id = asked.project.id
    embedding = None if "vector" in late else asked.embedding
    vector, lexical = VectorLeg(), LexicalLeg()
    if "lexical" not in late:
        with _in_time(engine, "lexical"):
            read = read_query(
                connection,
                asked.query,
                corpus=corpus,
                project_id=project_id,
                profile=profile,
                languages=engine.languages,
            )
            lexical = run_lexical_leg(
                connection,
                asked.predicate,
                read,
                corpus=corpus,
                depth=profile.lexical_depth,
                embedding=embedding,
            )
    if embedding is not None:
        with _in_time(engine, "vector"):
            vector = run_vector_leg(
                connection,
                asked.predicate,
                corpus=corpus,
                embedding=embedding,
                depth=profile.vector_depth,
                scoring=lexical.scoring,
            )
    return vector, lexical


@contextmanager
def _observed(engine: Engine, stage: Stage) -> Generator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        engine.observe(stage, time.perf_counter() - began)


@contextmanager
def _in_time(engine: Engine, part: Stage) -> Generator[None]:
    try:
        with _observed(engine, part), translated(url=engine.database.url):
            yield
    except StatementTimeout as error:
        raise _Late(part, error.message) from error


def _checked_query(request: SearchRequest) -> str:
    query = asked_query(request.query)
    if not query.strip():
        raise InvalidInput("the query is blank", remedy="ask with at least one word")
    if len(query) > MAX_QUERY_CHARS:
        raise InvalidInput(
            f"the query has {len(query)} characters; at most {MAX_QUERY_CHARS} are read",
            remedy="shorten it",
        )
    if not 1 <= request.k <= MAX_K:
        raise InvalidInput(f"k is {request.k}", remedy=f"give a number from 1 to {MAX_K}")
    if request.max_per_document < 1:
        raise InvalidInput("maxPerDocument is below 1", remedy="give a number from 1")
    return query


def _opening(
    connection: AppConnection, embedder: Embedder, slug: str
) -> tuple[Project, str | None]:
    """The project, and whose vectors its database has, which must be those of ``embedder``.

    Errors: NotFound, EmbedderMismatch.
    """
    project, active, width = store.opening(connection, slug)
    if active is not None:
        require_same(active, embedder)
    return project, None if active is None or width is None else active.fingerprint


def _embed_query(
    engine: Engine, query: str, *, project: Project, space: str | None
) -> tuple[NDArray[np.float32] | None, list[Degraded]]:
    if space is None:
        detail = "the index has no vectors yet; run `lastro index`"
        return None, [Degraded(part="vector", reason="vectors_missing", detail=detail)]
    embedded = embed_texts(
        engine.cache or engine.database,
        engine.embedder,
        [query],
        role="query",
        project_id=engine.charged(project.id),
        later=engine.usage,
    )
    return embedded.vectors[0], [embedded.why] if embedded.why else []


def _index_state(corpus: Corpus) -> list[Degraded]:
    said: list[Degraded] = []
    if corpus.incomplete:
        detail = (
            f"{corpus.incomplete} documents have chunks without vectors; "
            "run `lastro index --repair`"
        )
        said.append(Degraded(part="vector", reason="vectors_missing", detail=detail))
    if corpus.unfinished:
        detail = "an index run is working or was interrupted; run `lastro index`"
        said.append(Degraded(part="index", reason="index_incomplete", detail=detail))
    return said


def _explain(
    item: Ranked, found: Found, synonyms: Sequence[Mapping[str, str]] | None
) -> dict[str, Any]:
    candidate = item.candidate
    said: dict[str, Any] = {
        "vectorRank": candidate.vector_rank,
        "lexicalRank": candidate.lexical_rank,
        "unreached": candidate.unreached,
        "parts": fusion_parts(candidate, found.profile, scale=found.scale),
        "evidence": _explain_evidence(candidate, found),
    }
    if synonyms is not None:
        said["synonyms"] = synonyms
    if found.profile.rule_weight:
        own = Ruling(own=candidate.rule)
        said["rules"] = ruling_json(found.rulings.get(candidate.document_id, own))
    return said


def _explain_evidence(candidate: Candidate, found: Found) -> dict[str, float | None] | None:
    threshold = found.profile.threshold
    if not isinstance(threshold, Thresholds):
        return None
    said = evidence(candidate, threshold, found.profile, legs=found.legs, scale=found.scale)
    return {
        "joint": said.joint,
        "bar": said.bar,
        "words": said.words,
        "wordsBar": said.words_bar,
    }


def _explain_legs(found: Found) -> dict[str, Any]:
    vector, lexical = weights(found.profile, legs=found.legs)
    return {
        "legs": list(found.legs),
        "vector": dict(found.vector.explain),
        "lexical": dict(found.lexical.explain),
        "weights": {
            "vector": vector,
            "lexical": lexical,
            "rule": found.profile.rule_weight,
            "freshness": found.profile.freshness_weight,
        },
        "cosines": {
            "fused": fused_cosine(found.profile, scale=found.scale),
            "mean": None if found.scale is None else found.scale.mean,
            "spread": None if found.scale is None else found.scale.spread,
        },
        "candidates": len(found.ranked),
    }
