"""The language of a document, among those its project may hold."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import regex
from py3langid import langid  # pyright: ignore[reportMissingTypeStubs]

SAMPLE_CHARS = 20_000
"""Head of a document in which prose is looked for."""

MIN_LETTERS = 20
"""Fewer letters say too little: the fallback stands. Measured on headings and first lines of
English and Portuguese documentation: below, one decision in thirteen was wrong."""

PROSE_CHARS = 4_000
"""Prose that is classified; the answer settles long before."""

CJK_SHARE = 0.12
"""Share of CJK characters among letters above which a text is CJK, since one of them says as
much as several Latin letters, and technical Chinese is half Latin."""

TITLE_SHARE = 0.3
"""The same for the first line, which is a title: it is written in the document's language where
the rest is code or output. 138 of 140 sections of a Chinese manual that were taken for English
had such a title."""

# Possessive, and anchored where a word begins: a page of one mark must not take a minute.
_CODE = regex.compile(r"(?ms)^(`{3,}+|~{3,}+).*?^\1[^\n]*$|`[^`\n]++`|https?://\S++|<[^<>\n]++>")
_LETTER = regex.compile(r"\p{L}")
_HAN = regex.compile(r"\p{Han}")
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
_HANGUL = regex.compile(r"\p{Hangul}")
_NOT_PROSE = regex.compile(r"(?<!\S)[^\s\d_/\\@#=(){}\[\]|]*+[\d_/\\@#=(){}\[\]|]\S*+")
_CJK_LANGUAGES = ("zh", "ja", "ko")


def detect_language(text: str, *, languages: Sequence[str]) -> str:
    """Return the language of a text among `languages` (ISO 639-1); the first is the fallback.

    Code, addresses and identifiers are left out. Script decides for Chinese, Japanese and Korean,
    that of the first line before that of the rest.
    """
    fallback = languages[0]
    if len(languages) == 1:
        return fallback
    sample = _CODE.sub(" ", text[:SAMPLE_CHARS])
    title = sample.lstrip().partition("\n")[0]
    by_script = _cjk_language(title, languages=languages, share=TITLE_SHARE) or _cjk_language(
        sample, languages=languages, share=CJK_SHARE
    )
    if by_script:
        return by_script
    prose = " ".join(_NOT_PROSE.sub(" ", sample).split())
    others = tuple(sorted(language for language in languages if language not in _CJK_LANGUAGES))
    if not others or len(_LETTER.findall(prose)) < MIN_LETTERS:
        return fallback
    return _classify(prose[:PROSE_CHARS], others) or fallback


def _cjk_language(sample: str, *, languages: Sequence[str], share: float) -> str | None:
    letters = len(_LETTER.findall(sample))
    counts = {
        "zh": len(_HAN.findall(sample)),
        "ja": len(_KANA.findall(sample)),
        "ko": len(_HANGUL.findall(sample)),
    }
    if not letters or sum(counts.values()) < share * letters:
        return None
    if counts["ko"] > counts["zh"] + counts["ja"] and "ko" in languages:
        return "ko"
    # Japanese is half kana; Chinese has none, but for a quoted name.
    if 5 * counts["ja"] > counts["zh"] and "ja" in languages:
        return "ja"
    return next((language for language in _CJK_LANGUAGES if language in languages), None)


def _classify(prose: str, languages: tuple[str, ...]) -> str | None:
    ranking = _ranking(languages)
    return ranking(prose)[0][0] if ranking else None


@functools.cache
def _ranking(languages: tuple[str, ...]) -> Callable[[str], list[tuple[str, float]]] | None:
    """Rank by likelihood, of those languages that the model knows; None when it knows none."""
    # The library is untyped.
    model: Any = langid.LanguageIdentifier
    identifier: Any = model.from_model_file(langid.MODEL_FILE)
    usable = [language for language in languages if language in identifier.labels]
    if not usable:
        return None
    identifier.set_languages(usable)
    return identifier.rank
