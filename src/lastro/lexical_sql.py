"""Query terms to SQL over one row of ``searchable``: does it match, and how well. Pure.

A row is judged by the terms of its own language, so each expression has one branch a language.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import LiteralString, cast

from psycopg.sql import SQL, Composable, Composed, Literal

from lastro.terms import SCOPE_FLOOR, Lexeme, Phrase, Term, tsquery
from lastro.types import LanguageStatistics

# Weights of tsvector labels D, C, B, A: text 0.9, title and headings 1.
TEXT_WEIGHT = 0.9
RANK_WEIGHTS = "{0.9,0.9,0.9,1.0}"
# A single term's ts_rank is the partial sum of 1/j² over 1.645, so its count can be had back:
# tf = y / (1.534·(1 − y/1.0067)), exact at 1 and 5 and within 6% from 1 to 8. BM25's
# tf/(tf + k1) with k1 = 1 is then 1 / (1 + 1.534·(1/y − 1/1.0067)).
COUNT_SCALE = 1.534
COUNT_OFFSET = 0.99334
# Length counts twice. Verbosity, by tokens, inside the saturation: BM25's b; scope, by distinct
# lexemes, outside. Source: Robertson & Walker, SIGIR 1994; Na, TOIS 2015.
VERBOSITY = 0.3
# Neighbours in the query that stand near each other in the row.
# Source: sequential dependence, Metzler & Croft, SIGIR 2005; the kernel is ts_rank's own.
NEARNESS = 0.2
# ts_rank's normalisation of the profile adr-0080: rank / (rank + 1).
ADR_0080_NORMALISATION = 32


_TEXT_WEIGHT, _COUNT_OFFSET = Literal(TEXT_WEIGHT), Literal(COUNT_OFFSET)
_RANK_WEIGHTS = Literal(RANK_WEIGHTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalScore:
    """What judges any row: ``match`` is a condition, ``score`` a number in [0, 1].

    ``coverage`` and ``length_ratio`` are what a coverage score is made of: the share of the query
    that the row covers, and its distinct lexemes over their mean; None for other scores.
    """

    match: Composable
    score: Composable
    coverage: Composable | None = None
    length_ratio: Composable | None = None


def match_any(terms: Sequence[Term], *, languages: Iterable[str]) -> Composable:
    """Whether a row holds any of ``terms`` in its own language; served by the GIN index."""
    return _matches({language: tsquery(_lexemes(terms, language)) for language in languages})


def match_pairs(first: Term, others: Sequence[Term], *, languages: Iterable[str]) -> Composable:
    """Whether a row holds ``first`` and any of ``others``."""
    queries: dict[str, str] = {}
    for language in languages:
        one, rest = _lexemes([first], language), _lexemes(others, language)
        if one and rest:
            queries[language] = f"({tsquery(one)}) & ({tsquery(rest)})"
    return _matches(queries)


def coverage(
    terms: Sequence[Term], *, statistics: Sequence[LanguageStatistics], length_exponent: float
) -> LexicalScore:
    """Share of the query's idf that a row covers, over its scope, in [0, 1].

    ``(Σ idf(t)·sat(t) + 0.2·Σ min(idf(t), idf(t+1))·near(t, t+1)) / Σ idf(t)``, divided by
    ``max(0.3, (n / mean n)^length_exponent)`` and clipped to 1; ``sat`` is BM25's saturation of the
    term's count, which ``ts_rank`` holds. A term counts once, by its best form.
    Source: docs/adr/0004, measured in docs/explanation/how-ranking-is-measured.md.
    """
    total = sum(term.idf for term in terms) or 1.0
    sums = {
        row.language: SQL("({})").format(SQL(" + ").join(parts))
        for row in statistics
        if (parts := _parts(terms, row, total=total))
    }
    ratios = {row.language: _length_ratio(row.mean_lexemes) for row in statistics}
    scores = {
        language: SQL("{} / {}").format(total, _scope(ratios[language], length_exponent))
        for language, total in sums.items()
    }
    return LexicalScore(
        match=match_any(terms, languages=[row.language for row in statistics]),
        score=_written(SQL("least(1.0, {})").format(_by_language(scores))) if scores else _NO_SCORE,
        coverage=_by_language(sums),
        length_ratio=_by_language(ratios),
    )


def _written(expression: Composed) -> Composable:
    """``expression`` composed once: two statements of a search use the score, which is long."""
    return SQL(cast("LiteralString", expression.as_string(None)))


def _by_language(expressions: Mapping[str, Composable]) -> Composable:
    branches = [
        SQL("WHEN {} THEN {}").format(Literal(language), expression)
        for language, expression in expressions.items()
    ]
    return SQL("CASE language {} END").format(SQL(" ").join(branches)) if branches else _NO_SCORE


def _parts(terms: Sequence[Term], row: LanguageStatistics, *, total: float) -> list[Composable]:
    language = row.language
    parts = [
        _saturated(term.forms[language], share=term.idf / total, mean_length=row.mean_length)
        for term in terms
        if term.forms.get(language)
    ]
    parts += [
        _near(one.forms[language][0], two.forms[language][0], share=min(one.idf, two.idf) / total)
        for one, two in pairwise(terms)
        if one.forms.get(language) and two.forms.get(language)
    ]
    return parts


def _saturated(lexemes: Sequence[Lexeme], *, share: float, mean_length: float) -> Composable:
    ranks = [_phrase_rank(one) if isinstance(one, Phrase) else _rank(one) for one in lexemes]
    best = ranks[0] if len(ranks) == 1 else SQL("greatest({})").format(SQL(", ").join(ranks))
    # Where no form matches the rank is 0, and the share falls to nothing (10⁻⁹) without a branch.
    return SQL(
        "{share}::float8 / (1 + ({base}::float8 + {slope}::float8 * token_count)"
        " * (greatest(1, {weight}::float8 / greatest({best}, 1e-9)) - {offset}::float8))"
    ).format(
        share=Literal(share),
        base=Literal(COUNT_SCALE * (1 - VERBOSITY)),
        slope=Literal(COUNT_SCALE * VERBOSITY / max(mean_length, 1.0)),
        best=best,
        weight=_TEXT_WEIGHT,
        offset=_COUNT_OFFSET,
    )


def _rank(lexeme: str) -> Composable:
    return SQL("ts_rank({weights}::real[], search_vector, {form}::tsquery)").format(
        weights=_RANK_WEIGHTS, form=_literal(tsquery([lexeme]))
    )


def _phrase_rank(phrase: Phrase) -> Composable:
    """A phrase counts as often as the rarest of its lexemes in a row that holds it.

    Its own ts_rank is on another scale, and is above 0 wherever its lexemes are.
    """
    return SQL(
        "CASE WHEN search_vector @@ {phrase}::tsquery THEN least({ranks}) ELSE 0 END"
    ).format(phrase=_literal(tsquery([phrase])), ranks=SQL(", ").join(map(_rank, phrase.lexemes)))


def _near(one: Lexeme, two: Lexeme, *, share: float) -> Composable:
    return SQL(
        "{share}::float8 * ts_rank('{{1,1,1,1}}'::real[], search_vector, {pair}::tsquery)"
    ).format(share=Literal(NEARNESS * share), pair=_literal(f"{tsquery([one])} & {tsquery([two])}"))


def _length_ratio(mean_lexemes: float) -> Composable:
    return SQL("length(search_vector) / {}::float8").format(Literal(max(mean_lexemes, 1.0)))


def _scope(length_ratio: Composable, exponent: float) -> Composable:
    return SQL("greatest({floor}::float8, ({ratio}) ^ {exponent}::float8)").format(
        floor=Literal(SCOPE_FLOOR), ratio=length_ratio, exponent=Literal(exponent)
    )


def ts_rank_of_content(lexemes: Mapping[str, Sequence[str]]) -> LexicalScore:
    """``ts_rank(to_tsvector(language, content), query, 32)`` where every lexeme must match.

    ``lexemes`` are the query's, by language. Source: decision record 0080.
    """
    queries = {
        language: " & ".join(tsquery([lexeme]) for lexeme in found)
        for language, found in lexemes.items()
    }
    branches = [
        SQL("WHEN {language} THEN {query}::tsquery").format(
            language=Literal(language), query=_literal(query)
        )
        for language, query in queries.items()
        if query
    ]
    if not branches:
        return LexicalScore(match=_NEVER, score=_NO_SCORE)
    # Content is read from the table, under the policy; the view has none.
    score = SQL(
        "(SELECT ts_rank(lastro.text_vector(c.language, c.content), CASE c.language {} END, {})"
        " FROM lastro.chunks AS c"
        " WHERE c.project_id = %(project_id)s::bigint AND c.id = r.id)"
    ).format(SQL(" ").join(branches), Literal(ADR_0080_NORMALISATION))
    return LexicalScore(match=_matches(queries), score=score)


_NEVER = SQL("false")
_NO_SCORE = SQL("NULL::double precision")


def _matches(queries: Mapping[str, str]) -> Composable:
    """One branch a language, so that a stem of one never matches a row of another."""
    branches = [
        SQL("(language = {language} AND search_vector @@ {query}::tsquery)").format(
            language=Literal(language), query=_literal(query)
        )
        for language, query in queries.items()
        if query
    ]
    return SQL("({})").format(SQL(" OR ").join(branches)) if branches else _NEVER


def _literal(query: str) -> Literal:
    """A tsquery within a statement that has parameters, where a percent sign is written twice."""
    return Literal(query.replace("%", "%%"))


def _lexemes(terms: Sequence[Term], language: str) -> list[Lexeme]:
    found = {lexeme for term in terms for lexeme in term.forms.get(language, ())}
    return sorted(found, key=lambda lexeme: tsquery([lexeme]))
