"""The two candidate queries: which rows each leg hands to the fusion, and how it chose them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from lastro import store
from lastro.db.pool import set_local
from lastro.filters import Predicate
from lastro.lexical import QueryWord, query_words, storable
from lastro.lexical_sql import (
    Expression,
    LexicalScore,
    coverage,
    match_any,
    match_pairs,
    ts_rank_of_content,
)
from lastro.profiles import Profile
from lastro.ranking import Candidate
from lastro.store import AppConnection, Corpus, LegRow
from lastro.terms import ParsedForm, Term, lookups, mass, query_terms, unreached, unseen
from lastro.types import Degraded, LanguageStatistics
from lastro.words import keys_in, terms_in

# Rows that the filter keeps, up to which the vector leg reads them all. Exact search over 1,000
# of 100,000 rows took 3.7 ms where the index took 22 ms and lost a quarter. Source: docs/adr/0003.
EXACT_ROWS, MOST_EXACT_ROWS = 5_000, 50_000
# Above that, the index must look at about depth·indexed/kept rows to let depth of them through, and
# one of them costs as much as reading this many: at 5,000 of 100,000 rows exact search was quicker,
# at 7,000 the index. A project among others is read whole further: its rows may have twins there,
# which fill the index's view; of 10,000 rows with twins among 111,000 the index found .87 of the
# nearest. Source: docs/adr/0029.
READS_PER_LOOK, PROJECT_READS_PER_LOOK = 4, 12
# Rows that are looked at to tell how many a filter keeps: a share of .1 is told to .013.
SAMPLED_ROWS = 500
# Rows that the index keeps in sight while it looks for the nearest. Of the ten nearest of 100,000
# sections it finds .993 with 200 of them; one that was built by a former release, with pgvector's
# own settings, finds .977 with 200 and .990 with 500. Where fewer than nearly all are kept, by a
# filter or for being the project's, it takes more, at most as many as pgvector can.
# Source: docs/adr/0003, docs/adr/0029.
EF_SEARCH, FORMER_EF_SEARCH, MOST_EF_SEARCH, NEARLY_ALL = 200, 500, 1_000, 0.8
# What a transaction sets so that the vector index finds what the filter keeps, to any depth.
HNSW_SETTINGS: Mapping[str, str] = {
    "hnsw.ef_search": str(EF_SEARCH),
    "hnsw.iterative_scan": "strict_order",
    "hnsw.max_scan_tuples": "200000",
}
# Lexical candidates come from the rarest terms, until their df add up to this. With 2,000 the mean
# nDCG@10 of eight sets was .0001 higher, and each row costs 10 µs. Source: docs/adr/0027.
CANDIDATE_BUDGET = 500
# No gate reads more rows than this (about 20 ms), and that of a single common word no more than the
# budget: with 500 or 1,000 of them 642 titles of 100,000 sections were found alike (nDCG@10 .7595),
# with 250 less (.7572). Reaching it is declared.
GATE_ROWS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorLeg:
    """Nearest rows to ``embedding``, best first; the leg is absent where that is None."""

    embedding: NDArray[np.float32] | None = None
    rows: Sequence[LegRow] = ()
    explain: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalLeg:
    """Rows that hold the query's rarest words, best first.

    ``scoring`` judges any other row alike; None when the query has no word to look up. ``marks``
    are the spellings to highlight; ``unreached`` and ``unseen`` are, by language, the share of the
    query that its rows cannot hold, and of which they know nothing; ``mass`` is how much the words
    can testify. ``terms`` are the words that count, in the query's order.
    """

    rows: Sequence[LegRow] = ()
    terms: Sequence[Term] = ()
    marks: Sequence[str] = ()
    unreached: Mapping[str, float] = field(default_factory=dict[str, float])
    unseen: Mapping[str, float] = field(default_factory=dict[str, float])
    mass: float = 1.0
    scoring: LexicalScore | None = None
    degraded: Sequence[Degraded] = ()
    explain: Mapping[str, Any] = field(default_factory=dict[str, Any])


def run_vector_leg(
    connection: AppConnection,
    predicate: Predicate,
    *,
    corpus: Corpus,
    embedding: NDArray[np.float32],
    depth: int,
    scoring: LexicalScore | None = None,
) -> VectorLeg:
    """The ``depth`` nearest rows that the filter keeps, each with its lexical score.

    Exact while few are kept, or few of those that are indexed, else through HNSW with strict
    iterative scan: the planner would take the index even where it finds almost nothing.
    """
    reads = READS_PER_LOOK if predicate.narrows else PROJECT_READS_PER_LOOK
    limit = exact_up_to(corpus.indexed, depth=depth, reads=reads)
    search = partial(
        store.vector_leg,
        connection,
        predicate,
        embedding=embedding,
        depth=depth,
        scoring=scoring,
    )
    kept = _kept(connection, predicate, corpus=corpus, limit=limit)
    rows, plan = None, "exact"
    if kept <= limit:
        # A sample is no count: where the filter keeps far more after all, the index is quicker.
        rows = search(exact=True, kept_limit=2 * limit if predicate.narrows else None)
    if rows is None or (predicate.narrows and rows and rows[0].matched == 2 * limit):
        set_sight(connection, corpus, kept=kept)
        rows, plan = search(exact=False), "hnsw"
    return VectorLeg(embedding=embedding, rows=rows, explain={"plan": plan, "found": len(rows)})


def _kept(connection: AppConnection, predicate: Predicate, *, corpus: Corpus, limit: int) -> float:
    """How many rows the filter keeps: by a sample, or by a count where they are few.

    Counting 11,000 rows took as long as searching them.
    """
    total = corpus.row_count
    if not total or corpus.unfinished:  # a run that works has changed the rows since then
        counted = store.count_up_to(connection, predicate, limit=limit + 1)
        if counted <= limit:
            return counted
        total = max(total, counted)
    if total <= limit or not predicate.narrows:
        return total
    kept, looked_at = store.kept_of_sample(connection, predicate, limit=SAMPLED_ROWS)
    return kept * total / max(looked_at, 1)


def set_sight(connection: AppConnection, corpus: Corpus, *, kept: float) -> None:
    """Have the index keep as many rows in sight as a filter needs that keeps ``kept``."""
    enough = FORMER_EF_SEARCH if is_former(corpus.ef_construction) else EF_SEARCH
    sight = in_sight(kept, of=max(corpus.indexed, corpus.row_count), enough=enough)
    if sight != EF_SEARCH:  # which the transaction began with
        set_local(connection, settings={"hnsw.ef_search": str(sight)})


def is_former(ef_construction: int | None) -> bool:
    """Whether an index that was built so is a former release's; None: by default. Pure."""
    return ef_construction is None or ef_construction < store.EF_CONSTRUCTION


def in_sight(kept: float, *, of: int, enough: int = EF_SEARCH) -> int:
    """Rows that the index keeps in sight so that ``enough`` of them are kept; pure.

    ``of`` are those of all projects: to the index a filter and a small project are the same.
    """
    share = min(kept / of, 1.0) if of else 0.0
    if share >= NEARLY_ALL:
        return enough
    return MOST_EF_SEARCH if share * MOST_EF_SEARCH <= enough else round(enough / share)


def exact_up_to(indexed: int, *, depth: int, reads: int) -> int:
    """How many kept rows are read whole where ``indexed`` could be searched; pure.

    ``reads`` is how many of them cost as much as one that the index looks at.
    """
    even = math.isqrt(reads * depth * max(indexed, 0))
    return min(max(EXACT_ROWS, even), MOST_EXACT_ROWS)


def read_query(
    connection: AppConnection,
    query: str,
    *,
    corpus: Corpus,
    project_id: int,
    profile: Profile,
    languages: Sequence[str],
) -> LexicalLeg:
    """The query's words as the profile reads them, and what judges a row by them; no rows yet.

    ``languages`` are read as the query's own too: its stop words may be of one that no row has.
    """
    statistics = corpus.statistics
    if profile.match == "all":
        return _all_words(connection, query, project_id=project_id, statistics=statistics)
    words = _words(connection, query, corpus=corpus, project_id=project_id)
    spoken = list(dict.fromkeys([*(row.language for row in statistics), *languages]))
    terms = _terms(connection, words, corpus=corpus, project_id=project_id, languages=spoken)
    if not terms:
        return LexicalLeg(degraded=[_NO_TERMS], explain={"terms": []})
    present = [row.language for row in statistics]
    beyond = {language: unreached(terms, language) for language in present}
    unknown = {language: unseen(terms, language) for language in present}
    testimony = mass(terms, row_count=corpus.row_count)
    return LexicalLeg(
        terms=terms,
        marks=_marks(words, terms),
        unreached=beyond,
        unseen=unknown,
        mass=testimony,
        scoring=coverage(terms, statistics=statistics, length_exponent=profile.length_exponent),
        explain={
            "terms": [_explained(term) for term in terms],
            "unreached": beyond,
            "unseen": unknown,
            "mass": testimony,
        },
    )


def held_synonyms(
    connection: AppConnection, ids: Sequence[UUID], leg: LexicalLeg, *, project_id: int
) -> Mapping[UUID, list[dict[str, str]]]:
    """By which synonyms each of some rows matches the words of the query."""
    meant = [(term, text) for term in leg.terms for text in term.means]
    if not meant:
        return {}
    alone = [replace(term, forms=term.means[text]) for term, text in meant]
    matches = [
        match_any([term], languages=term.forms, name=f"word_{number}")
        for number, term in enumerate(alone)
    ]
    held = store.held_words(connection, ids, project_id=project_id, matches=matches)
    return {
        id_: [
            {"word": term.text, "by": text}
            for (term, text), is_held in zip(meant, row, strict=True)
            if is_held
        ]
        for id_, row in held.items()
    }


def run_lexical_leg(
    connection: AppConnection,
    predicate: Predicate,
    read: LexicalLeg,
    *,
    corpus: Corpus,
    depth: int,
    embedding: NDArray[np.float32] | None,
) -> LexicalLeg:
    """``read`` with the rows that match its words, each with its cosine to ``embedding``."""
    if read.scoring is None:
        return read
    gated = _Gated(
        connection=connection,
        predicate=predicate,
        scoring=read.scoring,
        depth=depth,
        embedding=embedding,
    )
    said = dict(read.explain)
    if read.terms:
        languages = [row.language for row in corpus.statistics]
        passed, said["candidates"] = _rarest_first(gated, read.terms, languages=languages)
    else:
        passed = gated.rows(Expression(read.scoring.match))
    said["found"] = len(passed.rows)
    return replace(read, rows=passed.rows, degraded=_sampled(passed), explain=said)


class _Passed(NamedTuple):
    """The best rows that a gate let through, which read no more than ``limit``."""

    rows: list[LegRow]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gated:
    """What a gate lets through: the best ``depth`` rows."""

    connection: AppConnection
    predicate: Predicate
    scoring: LexicalScore
    depth: int
    embedding: NDArray[np.float32] | None

    def rows(
        self, gate: Expression, *, matches: int | None = None, limit: int = GATE_ROWS
    ) -> _Passed:
        """The best rows; ``matches`` is how many are let through at most, if that is known."""
        rows = store.lexical_leg(
            self.connection,
            self.predicate,
            gate=gate,
            scoring=self.scoring,
            depth=self.depth,
            row_limit=limit,
            counted=matches is None or matches > limit,
            embedding=self.embedding,
        )
        return _Passed(rows, limit)


def _marks(words: Sequence[QueryWord], terms: Sequence[Term]) -> list[str]:
    """Spellings of the words that counted, and what they mean: no stop words."""
    counted = {term.text for term in terms}
    spellings = [form for word in words if word.text in counted for form in word.forms]
    meant = [text for term in terms for text in term.means]
    return list(dict.fromkeys([*counted, *spellings, *meant]))


_NO_TERMS = Degraded(
    part="lexical", reason="lexical_no_terms", detail="the query has only stop words"
)


def _words(
    connection: AppConnection, query: str, *, corpus: Corpus, project_id: int
) -> tuple[QueryWord, ...]:
    """The words of a query, as the project's own words have them."""
    if not corpus.has_words:
        return query_words(query)
    known = store.words_at(connection, keys_in(query), project_id=project_id)
    return query_words(query, terms=terms_in(query, known))


def _explained(term: Term) -> dict[str, Any]:
    said: dict[str, Any] = {"text": term.text, "df": term.df, "idf": term.idf}
    if term.means:
        said["synonyms"] = list(term.means)
    return {**said, "protected": True} if term.protected else said


def _terms(
    connection: AppConnection,
    words: Sequence[QueryWord],
    *,
    corpus: Corpus,
    project_id: int,
    languages: Sequence[str],
) -> tuple[Term, ...]:
    parsed = store.parse_query(
        connection,
        lookups(words),
        project_id=project_id,
        languages=languages,
        placed=corpus.has_words,
    )
    return query_terms(
        words,
        (ParsedForm(*row) for row in parsed),
        languages=languages,
        row_count=corpus.row_count,
        row_counts={row.language: row.chunk_count for row in corpus.statistics},
    )


def _rarest_first(
    gated: _Gated, terms: Sequence[Term], *, languages: Sequence[str]
) -> tuple[_Passed, list[str]]:
    """Candidates of the rarest terms, and of more where the filter keeps few of their rows.

    Terms are taken while the rows that they are expected to add fit the budget: all of their ``df``
    at first, then the share of it that the filter let through.
    """
    ordered = sorted((t for t in terms if t.df), key=lambda t: (t.df, t.text))
    if not ordered:
        return _Passed([], GATE_ROWS), []
    chosen = _within(ordered, CANDIDATE_BUDGET)
    if not chosen:
        return _of_common_words(gated, ordered, languages=languages)
    while True:
        matches = sum(term.df for term in ordered[:chosen])
        gate = match_any(ordered[:chosen], languages=languages, name="gate")
        passed = gated.rows(gate, matches=matches)
        names = [term.text for term in ordered[:chosen]]
        if len(passed.rows) >= gated.depth:
            return passed, names
        # One more on both sides: that no row passed so far does not say that none will.
        kept = (len(passed.rows) + 1) / (matches + 1)
        widened = _within(ordered, CANDIDATE_BUDGET / kept)
        if widened <= chosen:
            return passed, names
        chosen = widened


def _of_common_words(
    gated: _Gated, ordered: Sequence[Term], *, languages: Sequence[str]
) -> tuple[_Passed, list[str]]:
    """Candidates where the rarest term alone is beyond the budget: pairs first, then its rows."""
    rarest = ordered[0]
    if len(ordered) > 1:
        pairs = match_pairs(rarest, ordered[1:], languages=languages, name="gate")
        passed = gated.rows(pairs)
        if len(passed.rows) >= gated.depth:
            return passed, [f"{rarest.text} with any other"]
    gate = match_any([rarest], languages=languages, name="gate")
    return gated.rows(gate, limit=CANDIDATE_BUDGET), [rarest.text]


def _within(ordered: Sequence[Term], budget: float) -> int:
    """How many of the rarest terms have a df that adds up to ``budget`` at most."""
    total = 0
    for number, term in enumerate(ordered):
        total += term.df
        if total > budget:
            return number
    return len(ordered)


def _sampled(passed: _Passed) -> list[Degraded]:
    if not passed.rows or passed.rows[0].matched < passed.limit:
        return []
    detail = f"more than {passed.limit} rows match; that many were scored"
    return [Degraded(part="lexical", reason="lexical_sampled", detail=detail)]


def _all_words(
    connection: AppConnection,
    query: str,
    *,
    project_id: int,
    statistics: Sequence[LanguageStatistics],
) -> LexicalLeg:
    """Every lexeme of the query must match, as ``plainto_tsquery`` joins them; no other counts."""
    languages = [row.language for row in statistics]
    parsed = store.parse_query(
        connection, [(0, 0, storable(query))], project_id=project_id, languages=languages
    )
    lexemes: dict[str, list[str]] = {}
    for _word, _form, language, lexeme, _df, _position in parsed:
        lexemes.setdefault(language, []).append(lexeme)
    if not lexemes:
        return LexicalLeg(degraded=[_NO_TERMS], explain={"terms": []})
    return LexicalLeg(
        marks=[form for word in query_words(query) for form in word.forms],
        scoring=ts_rank_of_content(lexemes),
        explain={"lexemes": lexemes},
    )


def join_legs(vector: VectorLeg, lexical: LexicalLeg) -> list[Candidate]:
    """The union of both legs' candidates, each with both signals. Pure."""
    by_words = {row.id: (rank, row) for rank, row in enumerate(lexical.rows, start=1)}
    nowhere = (None, None)
    return [
        *(
            _candidate(row, row.score, row.other, rank, by_words.pop(row.id, nowhere)[0], lexical)
            for rank, row in enumerate(vector.rows, start=1)
        ),
        *(
            _candidate(row, row.other, row.score, None, rank, lexical)
            for rank, row in by_words.values()
        ),
    ]


def _candidate(
    row: LegRow,
    vector_score: float | None,
    lexical_score: float | None,
    vector_rank: int | None,
    lexical_rank: int | None,
    lexical: LexicalLeg,
    /,
) -> Candidate:
    return Candidate(
        row.id,
        row.document_id,
        row.place,
        row.ordinal,
        row.char_start,
        row.char_end,
        vector_score,
        lexical_score,
        vector_rank,
        lexical_rank,
        lexical.unreached.get(row.language, 0.0),
        lexical.unseen.get(row.language, 0.0),
        lexical.mass,
        row.rule_weight,
        row.age_days,
    )
