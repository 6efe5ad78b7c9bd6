"""Query terms to SQL over one row of ``searchable``: does it match, and how well. Pure.

A row is judged by the terms of its own language, so each expression has one branch a language.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Composable, Literal

from lastro.lexical import Term, tsquery

# Weights of tsvector labels D, C, B, A: text 0.6, title and headings 1.
TEXT_RANK_WEIGHTS = "{0.6,0.6,0.6,1.0}"
# Length factor of the coverage score: a row of mean length divides by 1, an empty one by 0.25.
LENGTH_FLOOR = 0.25
# ts_rank's normalisation of the profile adr-0080: rank / (rank + 1).
ADR_0080_NORMALISATION = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalScore:
    """What judges any row: ``match`` is a condition, ``score`` a number in [0, 1]."""

    match: Composable
    score: Composable


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


def coverage(terms: Sequence[Term], *, mean_lengths: Mapping[str, float]) -> LexicalScore:
    """Share of the query's idf that a row covers, over its length factor, in [0, 1].

    ``Σ idf(t)·ts_rank(w, v, t) / Σ idf(t) / (0.25 + 0.75·ln(1+n)/ln(1+mean n))``, clipped to 1;
    a term counts once, by its best form. ``mean_lengths`` is by language, in tokens.
    """
    total = sum(term.idf for term in terms) or 1.0
    branches = [
        SQL("WHEN {language} THEN ({sum}) / {length}").format(
            language=Literal(language),
            sum=SQL(" + ").join(parts),
            length=_length_factor(mean_length),
        )
        for language, mean_length in mean_lengths.items()
        if (parts := [_term_score(t, language, total) for t in terms if t.forms.get(language)])
    ]
    score = SQL("least(1.0, CASE language {} END)").format(SQL(" ").join(branches))
    return LexicalScore(
        match=match_any(terms, languages=mean_lengths), score=score if branches else _NO_SCORE
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
            language=Literal(language), query=Literal(query)
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
        " WHERE c.project_id = searchable.project_id AND c.id = searchable.id)"
    ).format(SQL(" ").join(branches), Literal(ADR_0080_NORMALISATION))
    return LexicalScore(match=_matches(queries), score=score)


_NEVER = SQL("false")
_NO_SCORE = SQL("NULL::double precision")


def _matches(queries: Mapping[str, str]) -> Composable:
    """One branch a language, so that a stem of one never matches a row of another."""
    branches = [
        SQL("(language = {language} AND search_vector @@ {query}::tsquery)").format(
            language=Literal(language), query=Literal(query)
        )
        for language, query in queries.items()
        if query
    ]
    return SQL("({})").format(SQL(" OR ").join(branches)) if branches else _NEVER


def _term_score(term: Term, language: str, total: float) -> Composable:
    ranks = [
        SQL("ts_rank({weights}::real[], search_vector, {form}::tsquery)").format(
            weights=Literal(TEXT_RANK_WEIGHTS), form=Literal(tsquery([lexeme]))
        )
        for lexeme in term.forms[language]
    ]
    best = ranks[0] if len(ranks) == 1 else SQL("greatest({})").format(SQL(", ").join(ranks))
    return SQL("{share}::float8 * {best}").format(share=Literal(term.idf / total), best=best)


def _length_factor(mean_length: float) -> Composable:
    return SQL(
        "({floor}::float8 + {rest}::float8 * ln(1 + token_count) / ln(1 + {mean}::float8))"
    ).format(
        floor=Literal(LENGTH_FLOOR),
        rest=Literal(1 - LENGTH_FLOOR),
        mean=Literal(max(mean_length, 1.0)),
    )


def _lexemes(terms: Sequence[Term], language: str) -> list[str]:
    return sorted({lexeme for term in terms for lexeme in term.forms.get(language, ())})
