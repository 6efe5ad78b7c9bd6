"""A project of drawn pages, in editions, and questions about them. Pure but for the words' source.

Words are drawn as often as these documents use them, so that rows are as long, and their words as
common, as those of a real project. Everything follows from a seed.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from benchmarks.machine import REPOSITORY

SECTIONS_OF_A_PAGE = 4
# About 900 characters: one chunk each, since a chunk never crosses a section.
WORDS_OF_A_SECTION = 140
# What all sections of a page speak of, and how often each says so.
TOPICS, TOPIC_MENTIONS = 3, 2
TOPICS_ASKED, OTHER_WORDS_ASKED = 2, 4
SEED = 7

_WORD = re.compile(r"[A-Za-z]{2,}")
_EDITION = re.compile(r"Edition (\d+)\.$")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Different words and how often each is used; ``rare`` are those that name a topic."""

    words: tuple[str, ...]
    uses: tuple[int, ...]
    rare: tuple[str, ...]


@cache
def vocabulary() -> Vocabulary:
    """The words of this repository's documents."""
    counted: Counter[str] = Counter()
    for page in sorted((REPOSITORY / "docs").rglob("*.md")):
        counted.update(word.lower() for word in _WORD.findall(page.read_text(encoding="utf-8")))
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    rare = tuple(word for word, uses in ordered if uses <= 3 and len(word) > 5)
    return Vocabulary(tuple(word for word, _ in ordered), tuple(uses for _, uses in ordered), rare)


def pages(chunks: int, *, edition: int) -> Iterator[tuple[str, str]]:
    """Path and text of each page, ``chunks`` sections in all; an edition changes every section."""
    for number in range(-(-chunks // SECTIONS_OF_A_PAGE)):
        first = number * SECTIONS_OF_A_PAGE
        count = min(SECTIONS_OF_A_PAGE, chunks - first)
        yield f"docs/part{number // 100}/page{number}.md", _page(number, count, edition=edition)


def edition_of(content: str) -> int | None:
    """The edition that a section says it is of."""
    found = _EDITION.search(content.rstrip())
    return None if found is None else int(found[1])


def questions(chunks: int, *, seed: int) -> Iterator[str]:
    """Questions about pages, without end, each a new one."""
    draw, known = random.Random(seed), vocabulary()  # noqa: S311
    while True:
        topics = _topics(draw.randrange(-(-chunks // SECTIONS_OF_A_PAGE)))
        others = draw.choices(known.words, known.uses, k=OTHER_WORDS_ASKED)
        yield " ".join([*topics[:TOPICS_ASKED], *others])


def _page(number: int, sections: int, *, edition: int) -> str:
    known, topics = vocabulary(), _topics(number)
    parts = [f"# {' '.join(topics)}\n"]
    for section in range(sections):
        draw = random.Random(f"{SEED} {number} {section}")  # noqa: S311
        words = draw.choices(known.words, known.uses, k=WORDS_OF_A_SECTION)
        for topic in topics * TOPIC_MENTIONS:
            words[draw.randrange(len(words))] = topic
        parts.append(f"## Part {section}\n\n{' '.join(words)}. Edition {edition}.\n")
    return "\n".join(parts)


def _topics(number: int) -> list[str]:
    return random.Random(f"{SEED} {number}").choices(vocabulary().rare, k=TOPICS)  # noqa: S311
