"""A project's own words: synonyms and protected terms, as lines of JSON and in a query. Pure.

What they mean to a search is told in docs/how-to/teach-it-your-words.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from lastro.errors import InvalidInput
from lastro.json_lines import LineCounts, ReadLines, read_lines
from lastro.lexical import KnownTerm, Unit, is_cjk, storable, units

# A name, or a phrase of some words: longer is a sentence, which nobody types the same twice.
MAX_TERM_CHARS = 100
# Pieces of words and CJK characters; each length is looked up at each place of a query.
MAX_TERM_UNITS = 12
# Each is scored in every candidate row.
MAX_MEANS = 16
MAX_QUERY_MEANS = 64
# Of a query; a question has about ten.
MAX_QUERY_UNITS = 256
# One import reads them all.
MAX_WORDS = 10_000
SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A term of a project: what else counts as it, and whether it means itself alone."""

    term: str
    means: tuple[str, ...] = ()
    protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WordLine:
    """What one line says: as people read it, and by term."""

    line: str
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WordReport:
    """What an import did; ``total`` are the project's terms after it."""

    project: str
    words: LineCounts
    total: int


@dataclass(slots=True)
class Vocabulary:
    """A project's words by key, while lines are added to them or terms taken out."""

    words: dict[str, Word]
    touched: set[str] = field(default_factory=set[str])

    def read(self, lines: Iterable[bytes]) -> ReadLines[WordLine]:
        """Add what lines of JSON say; those that say nothing, or too much, change nothing."""

        def parse(said: object) -> WordLine:
            line = parse_line(said)
            self._add(line)
            return line

        return read_lines(lines, parse, key="line")

    def remove(self, term: str) -> bool:
        """Take a term out, and out of what others mean; whether it was there."""
        key = key_of(term)
        changed = {key} if key in self.words else set[str]()
        for at, word in self.words.items():
            kept = tuple(text for text in word.means if key_of(text) != key)
            if len(kept) < len(word.means):
                self.words[at] = replace(word, means=kept)
                changed.add(at)
        for at in changed:
            if at == key or not (self.words[at].means or self.words[at].protected):
                del self.words[at]
        self.touched |= changed
        return bool(changed)

    def _add(self, line: WordLine) -> None:
        made = {key: _joined(self.words.get(key), word) for key, word in _by_key(line.words)}
        for word in made.values():
            if len(word.means) > MAX_MEANS:
                raise InvalidInput(f"{word.term!r} would have more than {MAX_MEANS} synonyms")
        if len(self.words.keys() | made.keys()) > MAX_WORDS:
            raise InvalidInput(f"the project would have more than {MAX_WORDS:,} terms")
        self.words |= made
        self.touched |= made.keys()


def key_of(text: str) -> str:
    """What a term is compared by: its words without case, accents and marks."""
    return _key(units(text))


def keys_in(query: str) -> list[str]:
    """The key of every term that could stand in a query."""
    found = units(query)[:MAX_QUERY_UNITS]
    return list(
        {
            _key(found[start:end]): None
            for start in range(len(found))
            for end in range(start + 1, min(start + MAX_TERM_UNITS, len(found)) + 1)
        }
    )


def terms_in(query: str, words: Iterable[Word]) -> tuple[KnownTerm, ...]:
    """Where terms stand in a query, from left to right; of those at one place the longest.

    A protected term with a capital is meant where it is written so; elsewhere it is a word like
    any other.
    """
    known = {key_of(word.term): word for word in words}
    found = units(query)[:MAX_QUERY_UNITS] if known else []
    terms: list[KnownTerm] = []
    start, room = 0, MAX_QUERY_MEANS
    while start < len(found):
        ends = range(min(start + MAX_TERM_UNITS, len(found)), start, -1)
        end = next((end for end in ends if _key(found[start:end]) in known), None)
        if end is None:
            start += 1
            continue
        span = found[start:end]
        word = known[_key(span)]
        terms.append(
            KnownTerm(
                text=word.term,
                start=span[0].start,
                end=span[-1].end,
                means=word.means[:room],
                protected=word.protected and _is_meant(word.term, span),
            )
        )
        start, room = end, max(room - len(word.means), 0)
    return tuple(terms)


def parse_line(said: object) -> WordLine:
    """The words that a JSON object says. Errors: InvalidInput."""
    if not isinstance(said, dict):
        raise InvalidInput("it is no JSON object")
    values = cast("dict[str, object]", said)
    match sorted(values):
        case ["synonyms"]:
            group = _texts(values["synonyms"], "synonyms", least=2)
            words = (
                Word(term=term, means=tuple(text for text in group if text != term))
                for term in group
            )
            return WordLine(line=" = ".join(group), words=tuple(words))
        case ["means", "term"]:
            term, means = _text(values["term"], "term"), _texts(values["means"], "means", least=1)
            _require_different([term, *means])
            line = f"{term} → {', '.join(means)}"
            return WordLine(line=line, words=(Word(term=term, means=means),))
        case ["protect"]:
            term = _text(values["protect"], "protect")
            return WordLine(line=f"protect {term}", words=(Word(term=term, protected=True),))
        case _:
            raise InvalidInput("it has to have either synonyms, or term and means, or protect")


def _texts(said: object, name: str, *, least: int) -> tuple[str, ...]:
    if not isinstance(said, list):
        raise InvalidInput(f"{name} is no list")
    texts = tuple(_text(text, name) for text in cast("list[object]", said))
    if len(texts) < least:
        raise InvalidInput(f"{name} has to have at least {least}")
    # A term of a group means all the others.
    if len(texts) > MAX_MEANS + least - 1:
        raise InvalidInput(f"{name} has more than {MAX_MEANS + least - 1} terms")
    _require_different(texts)
    return texts


def _require_different(texts: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for text in texts:
        before = seen.setdefault(key_of(text), text)
        if before is not text:
            raise InvalidInput(f"{before!r} and {text!r} are the same term to a search")


def _text(said: object, name: str) -> str:
    """A term without the blanks around it. Errors: InvalidInput."""
    if not isinstance(said, str):
        raise InvalidInput(f"{name} is no text")
    text = said.strip()
    fault = _fault(text)
    if fault is not None:
        shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
        raise InvalidInput(f"{name}: {shown!r} {fault}")
    return text


def _fault(text: str) -> str | None:
    if not text:
        return "is blank"
    if storable(text) != text:
        return "has a character that cannot be stored: NUL, or half of a pair"
    if len(text) > MAX_TERM_CHARS:
        return f"is longer than {MAX_TERM_CHARS} characters"
    found = units(text)
    if not found or key_of(text[0]) == "" or key_of(text[-1]) == "":
        return "begins or ends with a mark, which no search looks up"
    if len(found) > MAX_TERM_UNITS:
        return f"has more than {MAX_TERM_UNITS} words or Chinese characters"
    if len(found) == 1 and len(found[0].text) == 1 and is_cjk(found[0].text):
        return "is one character, which stands within many words"
    return None


def _key(found: Sequence[Unit]) -> str:
    return " ".join(unit.folded for unit in found)


def _is_meant(term: str, span: Sequence[Unit]) -> bool:
    if term == term.lower():
        return True
    return [unit.text for unit in span] == [unit.text for unit in units(term)]


def _by_key(words: Iterable[Word]) -> Iterator[tuple[str, Word]]:
    return ((key_of(word.term), word) for word in words)


def _joined(known: Word | None, word: Word) -> Word:
    """Both: spelt as it was, unless the capitals of a protected term say otherwise."""
    if known is None:
        return word
    means = {key: text for text in reversed(known.means + word.means) if (key := key_of(text))}
    return Word(
        term=word.term if word.protected else known.term,
        means=tuple(reversed(means.values())),
        protected=known.protected or word.protected,
    )
