"""What PostgreSQL's parser misses in a text, and the words of a query.

The database stems plain words by itself. This module adds, on both sides of a search by the
same rules, what its parser keeps glued (paths, hosts, camelCase, `cache/queue`), loses (accents,
numbers after a hyphen, `v` before a version) or cannot cut (Chinese).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

import regex

from lastro import segmentation, stopwords

LEXICAL_RULES = "1"
"""Version of the rules below, part of the pipeline fingerprint: raise it when output changes."""

MAX_QUERY_WORDS = 64
"""Different words of a query that are looked up; a question has about ten."""

MAX_JOINED_CHARS = 40
"""A longer joined form would be a whole path or address, which nobody types without its marks."""

_CJK = segmentation.CJK
_UNSTORABLE = regex.compile(r"[\x00\uD800-\uDFFF]")
_INVISIBLE = regex.compile(r"\p{Cf}+")
_APOSTROPHES = regex.compile(r"[\u2018\u2019\u201B\u02BC\u2032´]")
_JOINTS = r"[-_./\\@\u2010\u2011]"
_ATOM = rf"[\w--_--[{_CJK}]]+"
_TOKEN = regex.compile(rf"(?V1)[{_CJK}]+|{_ATOM}(?:{_JOINTS}{{1,2}}{_ATOM})*")
# The same for ASCII, four times as fast: most text by far is.
_ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+(?:[-_./\\@]{1,2}[A-Za-z0-9]+)*")
_CJK_START = regex.compile(rf"[{_CJK}]")
_SEPARATORS = regex.compile(rf"{_JOINTS}+")
_PIECE = regex.compile(rf"[^{_JOINTS[1:-1]}]+")
_RUNS = regex.compile(rf"(?P<cjk>[{_CJK}]+)|[^{_CJK}]+")
_HUMP = regex.compile(r"\p{Lu}+(?!\p{Ll})\d*|\p{Lu}?[\p{Ll}\p{M}]+\d*|\d+|[^\p{Lu}\p{Ll}\d]+")
_VERSION = regex.compile(r"[vV]?(\d+(?:\.\d+)+)")
_NUMBER = regex.compile(r"\d+(?:\.\d+)*")
_PREFIXED_NUMBER = regex.compile(r"([^\W\d_]+)0*(\d+)")
_NUMBERED_RECORD = regex.compile(r"\b(\p{Lu}{2,8}) (\d{1,6})\b")
_RECORD_FILE = regex.compile(r"(?:^|/)(adr|rfc|pep)s?/0*(\d{1,6})[-_.]", regex.IGNORECASE)

# Letters that Unicode does not decompose, spelt as people without the key type them.
_UNDECOMPOSED = str.maketrans(
    {"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "đ": "d", "ł": "l", "ı": "i", "ð": "d", "þ": "th"}
)

# Irregular Portuguese plurals after folding, which the Snowball stemmer keeps apart
# (`decisão` and `decisões` have the stems `decisã` and `decisõ`).
_PORTUGUESE_PLURALS = (
    ("coes", "cao"),
    ("soes", "sao"),
    ("oes", "ao"),
    ("aes", "ao"),
    ("aos", "ao"),
    ("ais", "al"),
    ("eis", "el"),
    ("ois", "ol"),
    ("uis", "ul"),
    ("ns", "m"),
)

# Tokens whose pieces are kept: a project's words come again and again. Some 10 MB when full.
KNOWN_TOKENS = 65_536
# The chunks of a document come one after another, and have one path.
KNOWN_PATHS = 8

Kind = Literal["word", "joined", "field", "cjk", "protected"]


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a query with every spelling to look up; the first is the word as written.

    A `joined` word is an identifier without its marks, a `field` what stands before a colon as in
    `team:orders`: search engines take it for a field's name. Both count only where the project has
    them;
    a `cjk` word is a run of characters, its forms all pieces that may be words. `means` are texts
    that count as the word wherever they stand whole; a `protected` word has no other form.
    """

    text: str
    forms: tuple[str, ...]
    kind: Kind = "word"
    means: tuple[str, ...] = ()


class Unit(NamedTuple):
    """The least that a term may consist of: a piece of a word or one CJK character.

    `start` and `end` are its place in the cleaned text; `folded` is without case and accents.
    """

    text: str
    folded: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class KnownTerm:
    """A term of the project's own words, as it stands in a query; the place is that of units."""

    text: str
    start: int
    end: int
    means: tuple[str, ...] = ()
    protected: bool = False


def storable(text: str) -> str:
    """Return the text without NUL and lone surrogates, which PostgreSQL cannot store."""
    return _UNSTORABLE.sub("", text)


def asked_query(query: str) -> str:
    """Return a question as it is asked and kept: a NUL parts words, as a blank does."""
    return storable(query.replace("\0", " "))


def heading_extra(title: str, *, heading_text: str, path: str, language: str) -> str:
    """Return the words of title, headings and path that PostgreSQL's parser misses."""
    headings = _extra(f"{title} {heading_text}", language=language)
    return " ".join(part for part in (headings, _path_words(path, language=language)) if part)


def content_extra(content: str, *, repeated_header: str = "", language: str) -> str:
    """Return the words of a chunk that PostgreSQL's parser misses, and its repeated header."""
    extra = _extra(f"{content} {repeated_header}", language=language)
    return f"{storable(repeated_header)} {extra}".strip()


def token_count(text: str) -> int:
    """Return the number of words in a text, stop words too; two CJK characters are a word."""
    tokens = _tokens(text)
    if text.isascii():
        return len(tokens)
    return sum((len(token) + 1) // 2 if is_cjk(token) else 1 for token in tokens)


def query_words(query: str, *, terms: Sequence[KnownTerm] = ()) -> tuple[QueryWord, ...]:
    """Return the different words of a query, in order; none for blanks and punctuation.

    Any text is legal. At most `MAX_QUERY_WORDS` are returned. `terms` do not overlap: the words
    within one have its meanings, and those of a protected one are one word.
    """
    words: dict[tuple[str, Kind], QueryWord] = {}
    for found, start, end in _query_words(_clean(query), terms):
        word = _as_known(found, start, end, terms) if terms else found
        key = (word.forms[0] if word.forms else word.text).lower(), word.kind
        before = words.setdefault(key, word)
        if before.means != word.means:
            words[key] = replace(before, means=tuple(dict.fromkeys(before.means + word.means)))
        if len(words) == MAX_QUERY_WORDS:
            break
    return tuple(words.values())


def units(text: str) -> list[Unit]:
    """Return what terms are compared by: pieces of words, and CJK characters one by one."""
    cleaned = _clean(text)
    return [
        Unit(piece, fold(piece), match.start() + at, match.start() + at + len(piece))
        for match in _token_matches(cleaned)
        for piece, at in _unit_pieces(match.group())
    ]


def whole(text: str, *, exact: bool) -> tuple[QueryWord, ...]:
    """Return what a text is looked up by where all of it must be there: its runs, in order.

    Each form of a run is a spelling of all of it, and the `exact` one is that as written; but for
    CJK, whose forms are all pieces.
    """
    runs = [(m.group().strip(), m.lastgroup == "cjk") for m in _RUNS.finditer(_clean(text))]
    return tuple(
        QueryWord(run, segmentation.candidates(run), "cjk")
        if is_cjk
        else QueryWord(run, (run,) if exact else _spellings(run))
        for run, is_cjk in runs
        if _tokens(run)
    )


@lru_cache(KNOWN_TOKENS)
def fold(word: str) -> str:
    """Return the word in lower case without the accents of Latin letters."""
    lowered = word.lower()
    if lowered.isascii():
        return lowered
    kept: list[str] = []
    latin = False
    for char in unicodedata.normalize("NFD", lowered):
        if unicodedata.combining(char):
            if not latin:
                kept.append(char)
            continue
        latin = "a" <= char <= "z"
        kept.append(char)
    return unicodedata.normalize("NFC", "".join(kept)).translate(_UNDECOMPOSED)


def _clean(text: str) -> str:
    """NFKC without what cannot be stored or seen; typographic apostrophes made plain."""
    if text.isascii():
        return storable(text)
    visible = _INVISIBLE.sub("", storable(text))
    # Before NFKC, which would split an acute accent standing for an apostrophe into two.
    return unicodedata.normalize("NFKC", _APOSTROPHES.sub("'", visible))


def _tokens(text: str) -> list[str]:
    """Words, identifiers and paths with their inner marks, and runs of CJK characters."""
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


def is_cjk(token: str) -> bool:
    """Return whether a token is a run of CJK characters."""
    return not token.isascii() and _CJK_START.match(token) is not None


def _extra(text: str, *, language: str) -> str:
    cleaned = _clean(text)
    raw: frozenset[str] = frozenset() if cleaned == text else frozenset(_tokens(text))
    found: list[str] = []
    for token in _tokens(cleaned):
        if raw and token not in raw:
            found.append(token)
        found += _missed(token, language)
    found.extend(_joined(match.groups()) for match in _NUMBERED_RECORD.finditer(cleaned))
    return " ".join(found)


@lru_cache(KNOWN_TOKENS)
def _missed(token: str, language: str) -> tuple[str, ...]:
    """What PostgreSQL's parser does not make of a token: nothing, mostly."""
    if is_cjk(token):
        return tuple(segmentation.index_words(token))
    return tuple(_missed_of(token, language=language))


def _missed_of(token: str, *, language: str) -> Iterator[str]:
    if token.isalpha() and (token.islower() or token[1:].islower()):
        yield from _variants(token, language=language)
        return
    version = _VERSION.fullmatch(token)
    if version:
        if token[0] in "vV":
            yield version[1]
        return
    pieces = _SEPARATORS.split(token)
    glued = any(mark in token for mark in "./\\@")
    words = [hump for piece in pieces for hump in _humps(piece)]
    for number, piece in enumerate(pieces):
        humps = _humps(piece)
        if glued or (number and piece.isdigit()):
            yield piece
        if len(humps) > 1:
            yield from humps
    for word in words:
        yield from _variants(word, language=language)
    if len(pieces) > 1 or _PREFIXED_NUMBER.fullmatch(token):
        joined = _joined(pieces)
        if joined != token.lower() and not joined.isdigit() and len(joined) <= MAX_JOINED_CHARS:
            yield joined


def _humps(word: str) -> list[str]:
    """The parts of a camelCase word; a lone capital stays with its neighbour (OAuth2, iPhone)."""
    if word.isdigit() or word.islower() or word.isupper() or word[1:].islower():
        return [word]
    parts: list[str] = []
    for part in _HUMP.findall(word):
        if parts and (len(part) == 1 or len(parts[-1]) == 1):
            parts[-1] += part
        else:
            parts.append(part)
    return parts


def _joined(parts: Iterable[str]) -> str:
    """Identifier without its marks; a number at its end loses leading zeros: ADR-0079 → adr79."""
    joined = "".join(parts).lower()
    match = _PREFIXED_NUMBER.fullmatch(joined)
    return match[1] + match[2] if match else joined


def _variants(word: str, *, language: str) -> Iterator[str]:
    """Spellings of one word that the stemmer does not join to it."""
    if word.isdigit():
        if word[0] == "0" and word.strip("0"):
            yield word.lstrip("0")
        return
    folded = fold(word)
    if language == "pt":
        folded = _portuguese_singular(folded)
    if folded != word.lower() and folded not in stopwords.FOLDED.get(language, ()):
        yield folded


def _portuguese_singular(folded: str) -> str:
    if len(folded) > 4:
        for plural, singular in _PORTUGUESE_PLURALS:
            if folded.endswith(plural):
                return folded[: -len(plural)] + singular
    return folded


@lru_cache(KNOWN_PATHS)
def _path_words(path: str, *, language: str) -> str:
    cleaned = _clean(path)
    found: list[str] = []
    for token in _tokens(cleaned):
        if is_cjk(token):
            found.extend(segmentation.index_words(token))
            continue
        for piece in _SEPARATORS.split(token):
            humps = _humps(piece)
            found.append(piece)
            found.extend(humps if len(humps) > 1 else ())
            for word in humps:
                found.extend(_variants(word, language=language))
    name = cleaned.rpartition("/")[2]
    if name:
        found.append(_joined(_SEPARATORS.split(name)))
    record = _RECORD_FILE.search(cleaned)
    if record:
        found.append(record[1].lower() + record[2])
    return " ".join(found)


def _as_known(word: QueryWord, start: int, end: int, terms: Sequence[KnownTerm]) -> QueryWord:
    """The word as the term that it lies in has it, if any."""
    term = next((t for t in terms if t.start <= start and end <= t.end), None)
    if term is None:
        return word
    if term.protected:
        return QueryWord(term.text, (), "protected", term.means)
    return replace(word, means=term.means)


# A word of a query, and where it begins and ends in the cleaned text.
_Placed = tuple[QueryWord, int, int]


def _query_words(cleaned: str, terms: Sequence[KnownTerm]) -> Iterator[_Placed]:
    before, before_at = "", 0
    for match in _token_matches(cleaned):
        token, start, end = match.group(), match.start(), match.end()
        if is_cjk(token):
            for run, at in _cut_at(token, start, terms):
                yield QueryWord(run, segmentation.candidates(run), "cjk"), at, at + len(run)
            before = ""
            continue
        if before and token.isdigit():
            yield _joined_word(f"{before} {token}", (before, token)), before_at, end
        words = _token_words(token, start, end)
        yield from _as_field(words) if _names_field(cleaned, token, end) else words
        before, before_at = token if token.isalpha() else "", start


def _names_field(cleaned: str, token: str, end: int) -> bool:
    """Whether a word stands before a colon, and another right behind that."""
    behind = cleaned[end : end + 2]
    return token.isalpha() and len(behind) == 2 and behind[0] == ":" and behind[1].isalnum()


def _as_field(words: Iterable[_Placed]) -> Iterator[_Placed]:
    for word, start, end in words:
        yield replace(word, kind="field") if word.kind == "word" else word, start, end


def _token_matches(cleaned: str) -> Iterator["re.Match[str] | regex.Match[str]"]:
    yield from (_ASCII_TOKEN if cleaned.isascii() else _TOKEN).finditer(cleaned)


def _unit_pieces(token: str) -> Iterator[tuple[str, int]]:
    """The pieces of a token, each with its place in it."""
    if is_cjk(token):
        yield from ((char, at) for at, char in enumerate(token))
    else:
        yield from ((piece.group(), piece.start()) for piece in _PIECE.finditer(token))


def _cut_at(run: str, start: int, terms: Sequence[KnownTerm]) -> Iterator[tuple[str, int]]:
    """The parts of a run that starts there, cut where a term begins or ends."""
    places = {t.start - start for t in terms} | {t.end - start for t in terms}
    cuts = [0, *sorted(at for at in places if 0 < at < len(run)), len(run)]
    yield from ((run[one:two], start + one) for one, two in pairwise(cuts))


def _token_words(token: str, start: int, end: int) -> Iterator[_Placed]:
    if _NUMBER.fullmatch(token):
        yield QueryWord(token, _number_forms(token)), start, end
        return
    version = _VERSION.fullmatch(token)
    if version:
        yield QueryWord(token, (version[1], token)), start, end
        return
    pieces = list(_PIECE.finditer(token))
    if len(pieces) > 1:
        yield _joined_word(token, (piece.group() for piece in pieces)), start, end
    for piece in pieces:
        for word in _piece_words(piece.group()):
            yield word, start + piece.start(), start + piece.end()


def _piece_words(piece: str) -> Iterator[QueryWord]:
    humps = _humps(piece)
    if len(humps) == 1:
        yield QueryWord(piece, _word_forms(piece))
        return
    yield _joined_word(piece, (piece,))
    for hump in humps:
        yield QueryWord(hump, _word_forms(hump))


def _spellings(run: str) -> tuple[str, ...]:
    """Spellings of all of a run: of several words with all accents typed, or none."""
    if run.isalpha():
        return _word_forms(run)
    folded = fold(run)
    return (run,) if folded == run.lower() else (run, folded)


def _joined_word(text: str, parts: Iterable[str]) -> QueryWord:
    return QueryWord(text, (_joined(parts)[:MAX_JOINED_CHARS],), "joined")


def _number_forms(number: str) -> tuple[str, ...]:
    stripped = number.lstrip("0")
    return (number, stripped) if stripped[:1].isdigit() and stripped != number else (number,)


def _word_forms(word: str) -> tuple[str, ...]:
    if word.isdigit():
        return _number_forms(word)
    folded = fold(word)
    forms = [word, folded, _portuguese_singular(folded)]
    if _PREFIXED_NUMBER.fullmatch(word):
        forms.append(_joined((word,)))
    lowered = word.lower()
    return (word, *dict.fromkeys(form for form in forms if form != lowered and form != word))
