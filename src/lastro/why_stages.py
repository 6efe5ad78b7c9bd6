"""Where the chunks of an expected place stand in each stage of one search."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from lastro import store
from lastro.db.pool import savepoint
from lastro.entry_filter import each_clause
from lastro.errors import StatementTimeout
from lastro.filters import HardFilter, Predicate, compile_filter
from lastro.legs import LexicalLeg
from lastro.lexical_sql import match_any
from lastro.profiles import Thresholds
from lastro.ranking import Ranked, evidence, fusion_parts, one_per_place
from lastro.search import Found, SearchRequest, shown
from lastro.store import AppConnection, ExpectedChunk, LegRank
from lastro.terms import Term
from lastro.types import Degraded
from lastro.why_findings import AskedWord, Bar, LegStanding, Passage, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """What each step of one search kept, best first, and the rank of every candidate."""

    request: SearchRequest
    found: Found
    passed: Sequence[Ranked]
    unique: Sequence[Ranked]
    ranks: Mapping[UUID, int]

    def reached(self, id_: UUID) -> int:
        """How far a candidate came: 1 fused, 2 with evidence, 3 beside no other, 4 a hit."""
        stages = [self.found.ranked, self.passed, self.unique, self.unique[: self.request.k]]
        return sum(any(item.candidate.id == id_ for item in stage) for stage in stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactRanks:
    """Ranks of chunks that no leg may have found; ``late`` says that there was no time for them."""

    vector: Mapping[UUID, LegRank]
    lexical: Mapping[UUID, LegRank]
    late: Degraded | None = None

    def best(self, id_: UUID) -> int | None:
        """The better of a chunk's ranks; None where neither leg can rank it."""
        return min(
            (leg[id_].rank for leg in (self.vector, self.lexical) if id_ in leg), default=None
        )


def stages_of(request: SearchRequest, found: Found) -> Stages:
    """What the steps after fusion keep of ``found``, as ``search`` does."""
    passed = list(shown(found))
    return Stages(
        request=request,
        found=found,
        passed=passed,
        unique=list(one_per_place(passed, max_per_document=request.max_per_document)),
        ranks={item.candidate.id: rank for rank, item in enumerate(found.ranked, start=1)},
    )


def exact_ranks(
    connection: AppConnection, predicate: Predicate, ids: Sequence[UUID], *, found: Found
) -> ExactRanks:
    """Rank of each of ``ids`` among all that either leg could have found."""
    vector: Mapping[UUID, LegRank] = {}
    lexical: Mapping[UUID, LegRank] = {}
    late = None
    try:
        with savepoint(connection):
            if found.vector.embedding is not None:
                vector = store.vector_ranks(
                    connection, predicate, ids, embedding=found.vector.embedding
                )
            if found.lexical.scoring is not None:
                lexical = store.lexical_ranks(
                    connection, predicate, ids, scoring=found.lexical.scoring
                )
    except StatementTimeout as error:
        late = Degraded(part="ranks", reason="statement_timeout", detail=error.message)
    return ExactRanks(vector=vector, lexical=lexical, late=late)


def furthest(
    chunks: Iterable[ExpectedChunk], kept: frozenset[UUID], *, stages: Stages, exact: ExactRanks
) -> ExpectedChunk:
    """The chunk that came furthest; what no leg found is ordered by its exact ranks."""

    def key(chunk: ExpectedChunk) -> tuple[int, bool, bool, float]:
        rank = stages.ranks.get(chunk.id, exact.best(chunk.id))
        depth = -float("inf") if rank is None else -float(rank)
        return stages.reached(chunk.id), chunk.id in kept, chunk.has_vector, depth

    return max(chunks, key=key)


def in_legs(
    chunk: ExpectedChunk, *, found: Found, exact: ExactRanks
) -> tuple[LegStanding | None, LegStanding | None]:
    """A chunk in the vector and in the lexical leg; None for a leg that did not run."""
    profile = found.profile
    vector = _in_leg(chunk, found.vector.rows, exact.vector, depth=profile.vector_depth)
    lexical = _in_leg(chunk, found.lexical.rows, exact.lexical, depth=profile.lexical_depth)
    return (
        vector if "vector" in found.legs else None,
        lexical if "lexical" in found.legs else None,
    )


def _in_leg(
    chunk: ExpectedChunk,
    rows: Sequence[store.LegRow],
    exact: Mapping[UUID, LegRank],
    *,
    depth: int,
) -> LegStanding:
    own = next(((n, row) for n, row in enumerate(rows, start=1) if row.id == chunk.id), None)
    at = exact.get(chunk.id)
    if own is not None:
        rank, score = own[0], own[1].score
    else:
        rank, score = (None, None) if at is None else (at.rank, at.score)
    return LegStanding(
        found=own is not None,
        rank=rank,
        score=score,
        rows=None if at is None else at.total,
        depth=depth,
    )


def words_of(
    connection: AppConnection, chunk: ExpectedChunk, *, found: Found
) -> tuple[AskedWord, ...]:
    """The query's words, the rarest first; ties in the query's order."""
    terms = found.lexical.terms or _lexemes_as_terms(found.lexical)
    if not terms:
        return ()
    held = store.held_words(
        connection,
        [chunk.id],
        project_id=found.project.id,
        matches=[
            match_any([term], languages=list(term.forms), name=f"word_{number}")
            for number, term in enumerate(terms)
        ],
    ).get(chunk.id, [False] * len(terms))
    counted = bool(found.lexical.terms)
    words = [
        AskedWord(
            text=term.text,
            held=is_held,
            df=term.df if counted else None,
            idf=term.idf if counted else None,
        )
        for term, is_held in zip(terms, held, strict=True)
    ]
    return tuple(sorted(words, key=lambda word: -(word.idf or 0.0)))


def _lexemes_as_terms(leg: LexicalLeg) -> list[Term]:
    """Where every lexeme must match, each is a word of its own, and none has a weight."""
    lexemes: Mapping[str, Sequence[str]] = leg.explain.get("lexemes", {})
    forms: dict[str, dict[str, tuple[str, ...]]] = {}
    for language, found in lexemes.items():
        for lexeme in found:
            forms.setdefault(lexeme, {})[language] = (lexeme,)
    return [Term(lexeme, 0, 0.0, by_language) for lexeme, by_language in forms.items()]


def filters_against(
    connection: AppConnection, chunk: ExpectedChunk, hard: HardFilter
) -> tuple[str, ...]:
    """Which conditions shut a chunk out: ``status``, ``scopes``, ``pathPrefix``, ``filter``.

    Of a filter each clause that does, as ``filter.types`` or ``filter.forbid.avoid``.
    """
    if chunk.status != "published":
        return ("status",)
    alone = {
        "scopes": replace(hard, path_prefix=None, entries=None),
        "pathPrefix": replace(hard, scopes=None, entries=None),
        **{
            f"filter.{name}": replace(hard, scopes=None, path_prefix=None, entries=one)
            for name, one in ({} if hard.entries is None else each_clause(hard.entries)).items()
        },
    }
    return tuple(
        name
        for name, one in alone.items()
        if chunk.id not in store.kept_chunks(connection, compile_filter(one), [chunk.id])
    )


def nearest_bar(item: Ranked, found: Found) -> Bar | None:
    """The rule with the least shortfall; None where none applies or no signal is there."""
    threshold = found.profile.threshold
    if threshold is None:
        return None
    if not isinstance(threshold, Thresholds):
        return Bar(rule="score", value=item.score, needed=threshold)
    told = evidence(item.candidate, threshold, found.profile, legs=found.legs, scale=found.scale)
    bars: list[Bar] = []
    if told.joint is not None and told.bar is not None:
        bars.append(Bar(rule="joint", value=told.joint, needed=told.bar))
    if told.words is not None and told.words_bar is not None:
        bars.append(Bar(rule="words", value=told.words, needed=told.words_bar))
    return min(bars, key=lambda bar: bar.needed - bar.value, default=None)


def in_its_way(item: Ranked, stages: Stages) -> tuple[Sequence[Ranked], Sequence[Ranked]]:
    """Better ones of the same document, and those of them that overlap."""
    better = [
        other
        for other in stages.unique
        if other.candidate.document_id == item.candidate.document_id
        and stages.ranks[other.candidate.id] < stages.ranks[item.candidate.id]
    ]
    over = [
        other for other in better if len(list(one_per_place([other, item], max_per_document=2))) < 2
    ]
    return better, over


def standings(
    connection: AppConnection, items: Sequence[Ranked], *, stages: Stages, name_source: bool
) -> tuple[Standing, ...]:
    """Candidates as ``why`` tells of them, with their places."""
    rows = store.fetch_hits(
        connection, [item.candidate.id for item in items], project_id=stages.found.project.id
    )
    told: list[Standing] = []
    for item in items:
        row = rows.get(item.candidate.id)
        lines = "" if row is None or row.line_start is None else f":{row.line_start}-{row.line_end}"
        source = row.source if row is not None and name_source else None
        place = f"{item.candidate.place}{lines}{_of_source(source)}"
        if row is not None and row.entity_key is not None:
            place = _entry(row.entity_key)
        elif row is not None and row.session_id is not None:
            place = _event(row.session_id, row.event_id)
        told.append(standing_of(item, place, stages=stages))
    return tuple(told)


def standing_of(item: Ranked, place: str, *, stages: Stages) -> Standing:
    """A candidate that lies at ``place``, after fusion."""
    found = stages.found
    return Standing(
        rank=stages.ranks[item.candidate.id],
        place=place,
        score=item.score,
        parts=fusion_parts(item.candidate, found.profile, scale=found.scale),
    )


def passage_of(chunk: ExpectedChunk, *, name_source: bool) -> Passage:
    """An expected chunk as ``why`` tells of it."""
    return Passage(
        place=_place_of(chunk, source=chunk.source if name_source else None),
        source=chunk.source,
        heading_path=tuple(chunk.heading_path),
        anchor=chunk.anchor,
        scope=chunk.scope,
        status=chunk.status,
        has_vector=chunk.has_vector,
    )


def _place_of(chunk: ExpectedChunk, *, source: str | None) -> str:
    if chunk.entity is not None:
        return _entry(chunk.entity)
    if chunk.session is not None:
        return _event(chunk.session, chunk.event)
    return f"{chunk.path}:{chunk.line_start}-{chunk.line_end}{_of_source(source)}"


def _event(session: str, event: str | None) -> str:
    return f"{session}#{event}"


def _entry(key: str) -> str:
    return f"entry {key}"


def _of_source(name: str | None) -> str:
    return "" if name is None else f" of {name}"
