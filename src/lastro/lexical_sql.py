"""Query terms to SQL over one row of ``searchable``: does it match, and how well. Pure.

A row is judged by the terms of its own language, so each expression has one branch a language.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import LiteralString, cast

from psycopg.sql import SQL, Composable, Literal, Placeholder

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


# Texts of parts of a score that are kept: by language, term and form there are few.
KEPT_TEXTS = 4_096

_TEXT_WEIGHT, _COUNT_OFFSET = Literal(TEXT_WEIGHT), Literal(COUNT_OFFSET)
_RANK_WEIGHTS = Literal(RANK_WEIGHTS)


@dataclass(frozen=True, slots=True)
class Expression:
    """SQL over a row, and what its placeholders stand for."""

    sql: Composable
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalScore:
    """What judges any row: ``match`` is a condition, ``score`` a number in [0, 1].

    ``coverage`` and ``length_ratio`` are what a coverage score is made of: the share of the query
    that the row covers, and its distinct lexemes over their mean; None for other scores.
    ``parameters`` are those of all four.
    """

    match: Composable
    score: Composable
    coverage: Composable | None = None
    length_ratio: Composable | None = None
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])


def match_any(terms: Sequence[Term], *, languages: Iterable[str], name: str) -> Expression:
    """Whether a row holds any of ``terms`` in its own language; served by the GIN index.

    ``name`` is what its parameters' names begin with: one statement may have several.
    """
    queries = {language: tsquery(_lexemes(terms, language)) for language in languages}
    return _matches(queries, name=name)


def match_pairs(
    first: Term, others: Sequence[Term], *, languages: Iterable[str], name: str
) -> Expression:
    """Whether a row holds ``first`` and any of ``others``; ``name`` as in ``match_any``."""
    queries: dict[str, str] = {}
    for language in languages:
        one, rest = _lexemes([first], language), _lexemes(others, language)
        if one and rest:
            queries[language] = f"({tsquery(one)}) & ({tsquery(rest)})"
    return _matches(queries, name=name)


def coverage(
    terms: Sequence[Term], *, statistics: Sequence[LanguageStatistics], length_exponent: float
) -> LexicalScore:
    """Share of the query's idf that a row covers, over its scope, in [0, 1].

    ``(Σ idf(t)·sat(t) + 0.2·Σ min(idf(t), idf(t+1))·near(t, t+1)) / Σ idf(t)``, divided by
    ``max(0.3, (n / mean n)^length_exponent)`` and clipped to 1; ``sat`` is BM25's saturation of the
    term's count, which ``ts_rank`` holds. A term counts once, by its best form.
    Source: docs/adr/0004, measured in docs/explanation/how-ranking-is-measured.md.
    """
    match = match_any(terms, languages=[row.language for row in statistics], name="match")
    parameters = {**match.parameters, **_shares(terms), "exponent": length_exponent}
    sums: dict[int, str] = {}
    for number, row in enumerate(statistics):
        parameters |= _of_language(row, number)
        parts = list(_parts(terms, row.language, number=number, parameters=parameters))
        if parts:
            sums[number] = f"({' + '.join(parts)})"
    ratios = {number: _length_ratio(number) for number in range(len(statistics))}
    scores = {number: f"{total} / {_scope(number)}" for number, total in sums.items()}
    score = f"least(1.0, {_by_language(scores)})" if scores else _by_language(scores)
    return LexicalScore(
        match=match.sql,
        score=_written(score),
        coverage=_written(_by_language(sums)),
        length_ratio=_written(_by_language(ratios)),
        parameters=parameters,
    )


# --- the parts of a coverage: texts that are composed once, and the parameters of one query


def _shares(terms: Sequence[Term]) -> dict[str, object]:
    """The share of the query's idf that each term has, and each pair of neighbours."""
    total = sum(term.idf for term in terms) or 1.0
    shares: dict[str, object] = {f"share_{at}": t.idf / total for at, t in enumerate(terms)}
    for at, (one, two) in enumerate(pairwise(terms)):
        shares[f"nearness_{at}"] = NEARNESS * min(one.idf, two.idf) / total
    return shares


def _of_language(row: LanguageStatistics, number: int) -> dict[str, object]:
    return {
        f"language_{number}": row.language,
        f"slope_{number}": COUNT_SCALE * VERBOSITY / max(row.mean_length, 1.0),
        f"mean_{number}": max(row.mean_lexemes, 1.0),
    }


def _parts(
    terms: Sequence[Term], language: str, *, number: int, parameters: dict[str, object]
) -> Iterator[str]:
    """What each term and each pair adds in a row of ``language``, the ``number``-th of all."""
    forms = [term.forms.get(language, ()) for term in terms]
    for at, lexemes in enumerate(forms):
        if lexemes:
            for form, lexeme in enumerate(lexemes):
                parameters |= _of_form(lexeme, name=f"form_{number}_{at}_{form}")
            yield _saturated(number, at, tuple(map(_width, lexemes)))
    for at, (one, two) in enumerate(pairwise(forms)):
        if one and two:
            parameters[f"pair_{number}_{at}"] = f"{tsquery(one[:1])} & {tsquery(two[:1])}"
            yield _near(number, at)


def _of_form(lexeme: Lexeme, *, name: str) -> dict[str, object]:
    said: dict[str, object] = {name: tsquery([lexeme])}
    if isinstance(lexeme, Phrase):
        said |= {f"{name}_{at}": tsquery([one]) for at, one in enumerate(lexeme.lexemes)}
    return said


def _width(lexeme: Lexeme) -> int:
    """How many lexemes a phrase has; 0 for what is none."""
    return len(lexeme.lexemes) if isinstance(lexeme, Phrase) else 0


@lru_cache(KEPT_TEXTS)
def _saturated(number: int, at: int, widths: tuple[int, ...]) -> str:
    names = [f"form_{number}_{at}_{form}" for form in range(len(widths))]
    ranks = [
        _phrase_rank(name, width) if width else _rank(name)
        for name, width in zip(names, widths, strict=True)
    ]
    best = ranks[0] if len(ranks) == 1 else SQL("greatest({})").format(SQL(", ").join(ranks))
    # Where no form matches the rank is 0, and the share falls to nothing (10⁻⁹) without a branch.
    return (
        SQL(
            "{share}::float8 / (1 + ({base}::float8 + {slope}::float8 * token_count)"
            " * (greatest(1, {weight}::float8 / greatest({best}, 1e-9)) - {offset}::float8))"
        )
        .format(
            share=Placeholder(f"share_{at}"),
            base=Literal(COUNT_SCALE * (1 - VERBOSITY)),
            slope=Placeholder(f"slope_{number}"),
            best=best,
            weight=_TEXT_WEIGHT,
            offset=_COUNT_OFFSET,
        )
        .as_string(None)
    )


def _rank(name: str) -> Composable:
    return SQL("ts_rank({weights}::real[], search_vector, {form}::tsquery)").format(
        weights=_RANK_WEIGHTS, form=Placeholder(name)
    )


def _phrase_rank(name: str, width: int) -> Composable:
    """A phrase counts as often as the rarest of its lexemes in a row that holds it.

    Its own ts_rank is on another scale, and is above 0 wherever its lexemes are.
    """
    ranks = SQL(", ").join([_rank(f"{name}_{at}") for at in range(width)])
    return SQL(
        "CASE WHEN search_vector @@ {phrase}::tsquery THEN least({ranks}) ELSE 0 END"
    ).format(phrase=Placeholder(name), ranks=ranks)


@lru_cache(KEPT_TEXTS)
def _near(number: int, at: int) -> str:
    return (
        SQL("{share}::float8 * ts_rank('{{1,1,1,1}}'::real[], search_vector, {pair}::tsquery)")
        .format(share=Placeholder(f"nearness_{at}"), pair=Placeholder(f"pair_{number}_{at}"))
        .as_string(None)
    )


@lru_cache(KEPT_TEXTS)
def _length_ratio(number: int) -> str:
    mean = Placeholder(f"mean_{number}")
    return SQL("length(search_vector) / {}::float8").format(mean).as_string(None)


@lru_cache(KEPT_TEXTS)
def _scope(number: int) -> str:
    return (
        SQL("greatest({floor}::float8, ({ratio}) ^ {exponent}::float8)")
        .format(
            floor=Literal(SCOPE_FLOOR),
            ratio=_written(_length_ratio(number)),
            exponent=Placeholder("exponent"),
        )
        .as_string(None)
    )


def _by_language(expressions: Mapping[int, str]) -> str:
    """The expression of a row's language, by its number; null where it has none."""
    if not expressions:
        return "NULL::double precision"
    branches = " ".join(f"{_when(number)} {text}" for number, text in expressions.items())
    return f"CASE language {branches} END"


@lru_cache(KEPT_TEXTS)
def _when(number: int) -> str:
    return SQL("WHEN {} THEN").format(Placeholder(f"language_{number}")).as_string(None)


def _written(text: str) -> SQL:
    """What was composed before, as a part of what is composed now."""
    return SQL(cast("LiteralString", text))


# --- other conditions and scores


def ts_rank_of_content(lexemes: Mapping[str, Sequence[str]]) -> LexicalScore:
    """``ts_rank(to_tsvector(language, content), query, 32)`` where every lexeme must match.

    ``lexemes`` are the query's, by language. Source: decision record 0080.
    """
    queries = {
        language: " & ".join(tsquery([lexeme]) for lexeme in found)
        for language, found in lexemes.items()
        if found
    }
    if not queries:
        return LexicalScore(match=_NEVER, score=_NO_SCORE)
    match = _matches(queries, name="match")
    branches = [
        SQL("WHEN {language} THEN {query}::tsquery").format(language=language, query=query)
        for language, query in _named("match", len(queries))
    ]
    # Content is read from the table, under the policy; the view has none.
    score = SQL(
        "(SELECT ts_rank(lastro.text_vector(c.language, c.content), CASE c.language {} END, {})"
        " FROM lastro.chunks AS c"
        " WHERE c.project_id = %(project_id)s::bigint AND c.id = r.id)"
    ).format(SQL(" ").join(branches), Literal(ADR_0080_NORMALISATION))
    return LexicalScore(match=match.sql, score=score, parameters=match.parameters)


_NEVER = SQL("false")
_NO_SCORE = SQL("NULL::double precision")


def _matches(queries: Mapping[str, str], *, name: str) -> Expression:
    """One branch a language, so that a stem of one never matches a row of another."""
    asked = [(language, query) for language, query in queries.items() if query]
    if not asked:
        return Expression(_NEVER)
    parameters: dict[str, object] = {}
    for number, (language, query) in enumerate(asked):
        parameters |= {f"{name}_language_{number}": language, f"{name}_query_{number}": query}
    return Expression(_written(_any_branch(name, len(asked))), parameters)


@lru_cache(KEPT_TEXTS)
def _any_branch(name: str, count: int) -> str:
    branches = [
        SQL("(language = {language} AND search_vector @@ {query}::tsquery)").format(
            language=language, query=query
        )
        for language, query in _named(name, count)
    ]
    return SQL("({})").format(SQL(" OR ").join(branches)).as_string(None)


def _named(name: str, count: int) -> list[tuple[Placeholder, Placeholder]]:
    """The placeholders of each language and of its query, as ``_matches`` names them."""
    return [
        (Placeholder(f"{name}_language_{number}"), Placeholder(f"{name}_query_{number}"))
        for number in range(count)
    ]


def _lexemes(terms: Sequence[Term], language: str) -> list[Lexeme]:
    found = {lexeme for term in terms for lexeme in term.forms.get(language, ())}
    return sorted(found, key=lambda lexeme: tsquery([lexeme]))
