"""The terms of a query: what its words weigh in a corpus, and in rows of another language; pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lastro import segmentation, stopwords
from lastro.lexical import QueryWord, fold

REACHED_SHARE = 0.1
"""A word at least a tenth as frequent in a language's rows as in those of its best language is
one that they can hold. Measured with Portuguese and Chinese questions on English pages; flat from
0.05 to 0.1, and no other number moved questions in the language of the pages."""

# Unique words whose weight is half a testimony. Flat optimum from 1 to 2. Source: docs/adr/0019
HALF_TESTIMONY = 1.5
# A row's scope, (distinct lexemes / their mean) to the profile's exponent, is at least this.
SCOPE_FLOOR = 0.3
# In a project of one document a word that it lacks would weigh five times one that it holds.
LEAST_ROWS = 100


@dataclass(frozen=True, slots=True)
class ParsedForm:
    """A lexeme that PostgreSQL made of a form under a language.

    `df` is the number of rows that hold it: of that language where frequencies are kept by
    language, of the project otherwise.
    """

    word: int
    form: int
    language: str
    lexeme: str
    df: int


@dataclass(frozen=True, slots=True)
class Term:
    """A query word as it is scored: its weight, and its lexemes by the language of the row.

    `reach`, in [0, 1] by language, is how far its rows can hold the word at all: 0 for a
    Portuguese word in English rows, 1 for a name. A language that is missing counts as 1.
    """

    text: str
    df: int
    idf: float
    forms: Mapping[str, tuple[str, ...]]
    reach: Mapping[str, float] = field(default_factory=dict[str, float])


def query_terms(
    words: Sequence[QueryWord],
    parsed: Iterable[ParsedForm],
    *,
    languages: Sequence[str],
    row_count: int,
    row_counts: Mapping[str, int] | None = None,
) -> tuple[Term, ...]:
    """Return the terms a search scores; none when the query has only stop words.

    Stop words are those of the query's own language: the one in which it has most of them.
    A word counts in a language by its most frequent form. `row_counts`, by language, says that
    the frequencies are kept by language too, and is what `reach` comes from.
    """
    by_word: dict[int, list[ParsedForm]] = defaultdict(list)
    for form in parsed:
        by_word[form.word].append(form)
    stops = _stop_words(words, by_word, languages=languages)
    corpus = _Corpus(row_count, row_counts)
    terms: list[Term] = []
    for number, word in enumerate(words):
        if number in stops:
            continue
        found = by_word.get(number, [])
        if word.kind == "cjk":
            terms.extend(_cjk_terms(word, found, corpus=corpus))
        elif word.kind == "word" or any(form.df for form in found):
            terms.append(_term(word.text, found, corpus=corpus))
    return tuple({term.text: term for term in terms}.values())


def unreached(terms: Iterable[Term], language: str) -> float:
    """Return the share of a query's weight, in [0, 1], that rows of a language cannot hold.

    There the words say nothing, and their weight falls on the vector, as that of an absent leg.
    """
    held = [(term.idf, term.reach.get(language, 1.0)) for term in terms]
    return _share_lost(held, without_terms=0.0)


def unseen(terms: Iterable[Term], language: str) -> float:
    """Return the share of a query's weight, in [0, 1], of which rows of a language know nothing.

    That is the share which they cannot hold, and that of the words which no row holds.
    """
    held = [(term.idf, term.reach.get(language, 1.0) if term.df else 0.0) for term in terms]
    return _share_lost(held, without_terms=1.0)


def _share_lost(held: Sequence[tuple[float, float]], *, without_terms: float) -> float:
    """Of weights, each with the share of it that is held, the share that is not."""
    total = sum(weight for weight, _ in held)
    lost = sum(weight * (1 - share) for weight, share in held)
    return lost / total if total else without_terms


def mass(terms: Sequence[Term], *, row_count: int) -> float:
    """Return how much a query's words can testify of a row that holds them all, in [0, 1].

    ``T / (T + 1.5·I)`` for a weight of ``T``, ``I`` being that of a word which one row holds: any
    text has one or two common words. A word so rare that it names the row testifies alone:
    ``(idf / I)²`` of the rarest that is known; and so does a query's only word, which is all that
    was asked for. Source: docs/adr/0019.
    """
    if len(terms) < 2:
        return float(len(terms))
    total = sum(term.idf for term in terms)
    unique = idf(1, row_count=row_count)
    rarest = max((term.idf for term in terms if term.df), default=0.0)
    return max(total / (total + HALF_TESTIMONY * unique), min(rarest / unique, 1.0) ** 2)


def idf(df: int, *, row_count: int) -> float:
    """Return the weight of a term found in `df` of `row_count` rows; positive.

    Fewer rows than `LEAST_ROWS` count as that many: they cannot tell how rare a word is.
    Source: BM25 as in Lucene, `ln(1 + (N − df + 0.5)/(df + 0.5))`.
    """
    rows = max(row_count, LEAST_ROWS)
    seen = min(df, rows)
    return math.log(1 + (rows - seen + 0.5) / (seen + 0.5))


def tsquery(lexemes: Iterable[str]) -> str:
    """Return the text of a tsquery that matches any of the lexemes, quoted."""
    return " | ".join(
        "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'" for lexeme in lexemes
    )


def _stop_words(
    words: Sequence[QueryWord],
    by_word: Mapping[int, Sequence[ParsedForm]],
    *,
    languages: Sequence[str],
) -> frozenset[int]:
    """Numbers of the words that the query's language stops; where languages tie, of all those."""
    stops: dict[str, set[int]] = {}
    for language in languages:
        folded_stops = stopwords.FOLDED.get(language, frozenset())
        stops[language] = {
            number
            for number, word in enumerate(words)
            if word.kind == "word"
            and (
                fold(word.text) in folded_stops
                or not any(
                    form.language == language and form.form == 0 for form in by_word.get(number, ())
                )
            )
        }
    most = max((len(found) for found in stops.values()), default=0)
    return frozenset(number for found in stops.values() if len(found) == most for number in found)


@dataclass(frozen=True, slots=True)
class _Corpus:
    row_count: int
    row_counts: Mapping[str, int] | None


def _term(text: str, found: Iterable[ParsedForm], *, corpus: _Corpus) -> Term:
    lexemes: dict[str, dict[str, None]] = defaultdict(dict)
    frequencies: dict[str, int] = defaultdict(int)
    for form in found:
        if form.df:
            frequencies[form.language] = max(frequencies[form.language], form.df)
            lexemes[form.language][form.lexeme] = None
    forms = {language: tuple(seen) for language, seen in lexemes.items()}
    if corpus.row_counts is None:
        df = max(frequencies.values(), default=0)
        return Term(text, df, idf(df, row_count=corpus.row_count), forms)
    # A row has one language, so that rows are not counted twice.
    df = sum(frequencies.values())
    reach = _reach(frequencies, corpus.row_counts)
    return Term(text, df, idf(df, row_count=corpus.row_count), forms, reach)


def _reach(frequencies: Mapping[str, int], row_counts: Mapping[str, int]) -> dict[str, float]:
    """1 everywhere for a word that no language has: it tells none from another."""
    rates = {
        language: frequencies.get(language, 0) / count
        for language, count in row_counts.items()
        if count
    }
    best = max(rates.values(), default=0.0)
    return {
        language: min(1.0, rate / (REACHED_SHARE * best)) if best else 1.0
        for language, rate in rates.items()
    }


def _cjk_terms(word: QueryWord, found: Sequence[ParsedForm], *, corpus: _Corpus) -> Iterator[Term]:
    by_form: dict[str, list[ParsedForm]] = defaultdict(list)
    for form in found:
        by_form[word.forms[form.form]].append(form)
    frequencies = {text: max(form.df for form in forms) for text, forms in by_form.items()}
    for piece in segmentation.query_words(word.text, frequencies):
        yield _term(piece, by_form.get(piece, ()), corpus=corpus)
