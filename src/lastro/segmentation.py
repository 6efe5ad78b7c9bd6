"""Chinese, Japanese and Korean text cut into words.

Indexing cuts Chinese with a dictionary; a query is cut with the words the project has, so that
no dictionary is loaded for it.
"""

import functools
import importlib.util
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import regex

from lastro import stopwords

CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}ー"
"""Scripts written without blanks, or (Korean) with endings a stemmer does not cut."""

MAX_WORD_CHARS = 6
"""Longest word cut from a run; 99% of the dictionary is shorter."""

MAX_RUN_CHARS = 64
"""Characters of one run of a query that are looked up."""

UNKNOWN = ""
"""What stands for a character that is no word, among words with their likelihoods."""

_HAN = regex.compile(r"(?P<han>\p{Han}+)|[^\p{Han}]+")


def index_words(run: str) -> Iterator[str]:
    """Yield the words of a run and the shorter words inside them; bigrams outside Chinese."""
    for match in _HAN.finditer(run):
        piece = match.group()
        if not match["han"]:
            yield from _bigrams(piece)
            continue
        words = _dictionary()
        for word in _cut(piece, words):
            if word not in stopwords.CHINESE:
                yield from _inner_words(word, words)
                yield word


def candidates(run: str) -> tuple[str, ...]:
    """Return every different piece of a run that may be a word, shortest first."""
    head = run[:MAX_RUN_CHARS]
    pieces = (
        head[start : start + size]
        for size in range(1, MAX_WORD_CHARS + 1)
        for start in range(len(head) - size + 1)
    )
    return tuple(dict.fromkeys(pieces))


def query_words(run: str, frequencies: Mapping[str, int]) -> tuple[str, ...]:
    """Return the likeliest cut of a run into words the project has, less stop words.

    `frequencies` are the project's document frequencies of the run's `candidates`.
    """
    # The index leaves stop words out; the cut has to know them, as frequent ones.
    frequent = max([1, *frequencies.values()])
    known = {**frequencies, **dict.fromkeys(stopwords.CHINESE, frequent)}
    total = max(sum(frequencies.values()), 2)
    cut = _cut(run[:MAX_RUN_CHARS], _log_likelihoods(known, total=total))
    return tuple(word for word in cut if word not in stopwords.CHINESE)


def _log_likelihoods(frequencies: Mapping[str, int], *, total: int) -> dict[str, float]:
    """The logarithm of each word's share of ``total``; under "" that of a character unknown."""
    log_total = math.log(total)
    found = {word: math.log(count) - log_total for word, count in frequencies.items() if count}
    found[UNKNOWN] = math.log(0.5) - log_total
    return found


def _cut(run: str, words: Mapping[str, float]) -> list[str]:
    """Cut where the product of the words' likelihoods is greatest; ties: the longer last word."""
    unknown = words[UNKNOWN]
    best = [0.0] + [-math.inf] * len(run)
    starts = [0] * (len(run) + 1)
    for end in range(1, len(run) + 1):
        for start in range(max(0, end - MAX_WORD_CHARS), end):
            likelihood = words.get(run[start:end])
            if likelihood is None:
                if end - start > 1:
                    continue
                likelihood = unknown
            score = best[start] + likelihood
            if score > best[end]:
                best[end], starts[end] = score, start
    words_found: list[str] = []
    end = len(run)
    while end:
        words_found.append(run[starts[end] : end])
        end = starts[end]
    return words_found[::-1]


def _inner_words(word: str, words: Mapping[str, float]) -> Iterator[str]:
    for size in range(2, min(len(word), 4)):
        for start in range(len(word) - size + 1):
            piece = word[start : start + size]
            if piece in words:
                yield piece


def _bigrams(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


@functools.cache
def _dictionary() -> Mapping[str, float]:
    """The words of jieba's dictionary with their log likelihoods.

    Only its data is read: importing the package would load a cache of its own from a shared
    temporary folder.
    """
    spec = importlib.util.find_spec("jieba")
    assert spec is not None
    assert spec.origin is not None
    frequencies: dict[str, int] = {}
    with Path(spec.origin).with_name("dict.txt").open(encoding="utf-8") as lines:
        for line in lines:
            word, count, _ = line.split(" ", 2)
            if len(word) <= MAX_WORD_CHARS:
                frequencies[word] = int(count)
    return _log_likelihoods(frequencies, total=sum(frequencies.values()))
