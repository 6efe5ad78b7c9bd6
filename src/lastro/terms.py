"""The terms of a query: what its words weigh in a corpus, and in rows of another language; pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lastro import segmentation, stopwords
from lastro.lexical import QueryWord, fold, storable, whole

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
class Phrase:
    """Lexemes of which a row holds all, each so many places after the one before; 0 is anywhere."""

    lexemes: tuple[str, ...]
    gaps: tuple[int, ...]


Lexeme = str | Phrase


@dataclass(frozen=True, slots=True)
class ParsedForm:
    """A lexeme that PostgreSQL made of a form under a language, and its place in the form.

    `df` is the number of rows that hold it: of that language where frequencies are kept by
    language, of the project otherwise.
    """

    word: int
    form: int
    language: str
    lexeme: Lexeme
    df: int
    position: int = 1


@dataclass(frozen=True, slots=True)
class Term:
    """A query word as it is scored: its weight, and its lexemes by the language of the row.

    `reach`, in [0, 1] by language, is how far its rows can hold the word at all: 0 for a
    Portuguese word in English rows, 1 for a name. A language that is missing counts as 1.
    `means` are the lexemes, among these, of each synonym that some row holds.
    """

    text: str
    df: int
    idf: float
    forms: Mapping[str, tuple[Lexeme, ...]]
    reach: Mapping[str, float] = field(default_factory=dict[str, float])
    means: Mapping[str, Mapping[str, tuple[Lexeme, ...]]] = field(
        default_factory=dict[str, Mapping[str, tuple[Lexeme, ...]]]
    )
    protected: bool = False


def lookups(words: Sequence[QueryWord]) -> list[tuple[int, int, str]]:
    """Return the (word, form, text) rows that PostgreSQL parses for ``query_terms``.

    Behind the words come the runs of what they mean, numbered on.
    """
    runs = (run for meaning in _meanings(words).values() for run in meaning.runs)
    return [
        (number, form_number, storable(form))
        for number, word in enumerate([*words, *runs])
        for form_number, form in enumerate(word.forms)
    ]


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
    meanings = _meanings(words)
    known = {said: _held(meaning, by_word) for said, meaning in meanings.items()}
    stops = _stop_words(words, by_word, languages=languages)
    corpus = _Corpus(row_count, row_counts)
    terms: list[Term] = []
    for number, word in enumerate(words):
        if number in stops:
            continue
        found = by_word.get(number, [])
        means = {text: forms for text in word.means if (forms := known[text, False])}
        if word.kind == "protected":
            itself = known[word.text, True]
            if itself or means or meanings[word.text, True].is_spoken(by_word, languages):
                found = _as_found(itself)
                terms.append(_term(word.text, found, means, corpus=corpus, protected=True))
        elif word.kind == "cjk":
            terms.extend(_cjk_terms(word, found, means, corpus=corpus))
        elif word.kind == "word" or any(form.df for form in found):
            terms.append(_term(word.text, found, means, corpus=corpus))
    return tuple({term.text: term for term in terms}.values())


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A text of which a row holds all, as runs; the first has that number in ``lookups``."""

    runs: tuple[QueryWord, ...]
    first: int

    def is_spoken(
        self, by_word: Mapping[int, Sequence[ParsedForm]], languages: Sequence[str]
    ) -> bool:
        """Whether the index of every language could hold it: none takes it for stop words."""
        numbers = range(self.first, self.first + len(self.runs))
        parsed = {form.language for number in numbers for form in by_word.get(number, ())}
        return parsed.issuperset(languages)


def _meanings(words: Sequence[QueryWord]) -> dict[tuple[str, bool], _Meaning]:
    """What the words mean, once each, by text and whether it is looked up as written alone."""
    made: dict[tuple[str, bool], _Meaning] = {}
    number = len(words)
    for word in words:
        itself = [(word.text, True)] if word.kind == "protected" else []
        for text, exact in [*itself, *((text, False) for text in word.means)]:
            if (text, exact) not in made:
                made[text, exact] = _Meaning(whole(text, exact=exact), number)
                number += len(made[text, exact].runs)
    return made


# Lexemes that rows hold, each with how many do at most.
_Held = list[tuple[Lexeme, int]]


def _held(meaning: _Meaning, by_word: Mapping[int, Sequence[ParsedForm]]) -> dict[str, _Held]:
    """The spellings of a text that rows may hold whole, by language; none is left empty.

    A run without a lexeme is of stop words, and asks for nothing.
    """
    by_language: dict[str, list[_Held]] = defaultdict(list)
    for number, run in enumerate(meaning.runs, start=meaning.first):
        parsed: dict[str, list[ParsedForm]] = defaultdict(list)
        for form in by_word.get(number, ()):
            parsed[form.language].append(form)
        for language, forms in parsed.items():
            spelt = _cut_run if run.kind == "cjk" else _spelt_run
            by_language[language].append(spelt(run, forms))
    return {
        language: runs[0] if len(runs) == 1 else [_all_of([run[0] for run in runs])]
        for language, runs in by_language.items()
        if all(runs)
    }


def _spelt_run(_run: QueryWord, forms: Sequence[ParsedForm]) -> _Held:
    by_form: dict[int, list[ParsedForm]] = defaultdict(list)
    for form in forms:
        by_form[form.form].append(form)
    return [_in_order(one) for _, one in sorted(by_form.items()) if all(form.df for form in one)]


def _cut_run(run: QueryWord, forms: Sequence[ParsedForm]) -> _Held:
    """CJK as the words that rows have, in any order: the index has others between them."""
    by_piece = {run.forms[form.form]: form for form in forms}
    frequencies = {piece: form.df for piece, form in by_piece.items()}
    cut = [by_piece.get(piece) for piece in segmentation.query_words(run.text, frequencies)]
    held = [(form.lexeme, form.df) for form in cut if form is not None and form.df]
    return [_all_of(held)] if held and len(held) == len(cut) else []


def _in_order(forms: Sequence[ParsedForm]) -> tuple[Lexeme, int]:
    ordered = sorted(forms, key=lambda form: form.position)
    gaps = [two.position - one.position for one, two in pairwise(ordered)]
    return _phrase([(form.lexeme, form.df) for form in ordered], gaps)


def _all_of(lexemes: _Held) -> tuple[Lexeme, int]:
    return _phrase(lexemes, [0] * (len(lexemes) - 1))


def _phrase(lexemes: _Held, gaps: Sequence[int]) -> tuple[Lexeme, int]:
    """One lexeme, or a phrase, which no more rows hold than the rarest of its lexemes."""
    flat: list[str] = []
    places: list[int] = []
    for (lexeme, _), gap in zip(lexemes, [*gaps, 0], strict=True):
        flat += [lexeme] if isinstance(lexeme, str) else lexeme.lexemes
        places += [*(() if isinstance(lexeme, str) else lexeme.gaps), gap]
    df = min(df for _, df in lexemes)
    return (flat[0] if len(flat) == 1 else Phrase(tuple(flat), tuple(places[:-1]))), df


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


def tsquery(lexemes: Iterable[Lexeme]) -> str:
    """Return the text of a tsquery that matches any of the lexemes, quoted."""
    return " | ".join(
        _quoted(lexeme) if isinstance(lexeme, str) else _quoted_phrase(lexeme) for lexeme in lexemes
    )


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def _quoted_phrase(phrase: Phrase) -> str:
    joints = (f" <{gap}> " if gap else " & " for gap in phrase.gaps)
    parts = map("".join, zip(joints, map(_quoted, phrase.lexemes[1:]), strict=True))
    return f"({_quoted(phrase.lexemes[0])}{''.join(parts)})"


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


# What a word means, by text: what rows hold of it, by language.
_Means = Mapping[str, Mapping[str, _Held]]


def _term(
    text: str,
    found: Iterable[ParsedForm],
    means: _Means,
    *,
    corpus: _Corpus,
    protected: bool = False,
) -> Term:
    lexemes: dict[str, dict[Lexeme, None]] = defaultdict(dict)
    frequencies: dict[str, int] = defaultdict(int)
    own = [(form.language, form.lexeme, form.df) for form in found if form.df]
    meant = [(lang, *one) for held in means.values() for lang in held for one in held[lang]]
    for language, lexeme, df in [*own, *meant]:
        frequencies[language] = max(frequencies[language], df)
        lexemes[language][lexeme] = None
    # A row has one language, so that rows are not counted twice.
    df = (max if corpus.row_counts is None else sum)(frequencies.values() or [0])
    return Term(
        text,
        df,
        idf(df, row_count=corpus.row_count),
        {language: tuple(seen) for language, seen in lexemes.items()},
        reach={} if corpus.row_counts is None else _reach(frequencies, corpus.row_counts),
        means={said: _lexemes_of(held) for said, held in means.items()},
        protected=protected,
    )


def _lexemes_of(held: Mapping[str, _Held]) -> dict[str, tuple[Lexeme, ...]]:
    return {language: tuple(lexeme for lexeme, _ in one) for language, one in held.items()}


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


def _as_found(held: Mapping[str, _Held]) -> list[ParsedForm]:
    return [ParsedForm(0, 0, lang, lexeme, df) for lang in held for lexeme, df in held[lang]]


def _cjk_terms(
    word: QueryWord, found: Sequence[ParsedForm], means: _Means, *, corpus: _Corpus
) -> Iterator[Term]:
    by_form: dict[str, list[ParsedForm]] = defaultdict(list)
    for form in found:
        by_form[word.forms[form.form]].append(form)
    frequencies = {text: max(form.df for form in forms) for text, forms in by_form.items()}
    for piece in segmentation.query_words(word.text, frequencies):
        yield _term(piece, by_form.get(piece, ()), means, corpus=corpus)
