"""Secrets that a narrow window, or a hand, broke over lines. Pure."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from lastro.secret_forms import PREFIXED_FORMS, SecretForm
from lastro.secret_values import looks_random

_RUN = re.compile(r"[A-Za-z0-9_.+/=-]+", re.ASCII)
_BREAK = re.compile(r"\\?\r?\n[ \t]*")
# A rest ends with its line, or where a quote, a bracket or a sign does.
_REST = re.compile(r"[A-Za-z0-9_+/=-]+(?=[\s\"'`,;)\]}]|\Z)", re.ASCII)
# Of a commit or a file, or an id: these begin lines.
_HASH = re.compile(r"[0-9a-fA-F-]+")
# A token of 255 characters in a window of 80 columns.
_MOST_BREAKS = 3
# Of a key in its first line, behind its beginning: a word in so short a line is none.
_LEAST_CHARS = 4

# In every text, and in the JSON of every text, that has a key which its line does not end, in RE2's
# syntax.
_STARTS = "|".join(re.escape(hint) for form in PREFIXED_FORMS for hint in form.hints)
BROKEN_LOOK = (
    rf"(?:\b|\\[nrtbf])(?i:{_STARTS})"
    rf"[A-Za-z0-9_.+/=-]{{{_LEAST_CHARS},}}\\*"
    r"(?:\r?\n|(?:\\r)?\\n)(?:[ \t]|\\t)*[A-Za-z0-9_.+/=-]"
)


class BrokenKey(NamedTuple):
    """A key from its first line to its last."""

    start: int
    end: int
    kind: str


def broken_keys(text: str, *, lowered: str) -> Iterator[BrokenKey]:
    """Keys that have the form of their beginning only when their lines are put together."""
    for form in PREFIXED_FORMS:
        for hint in form.hints:
            at = lowered.find(hint)
            while at >= 0:
                end = _end_of_broken(form, text, at, least_chars=len(hint) + _LEAST_CHARS)
                if end is not None:
                    yield BrokenKey(at, end, form.name)
                at = lowered.find(hint, at + 1 if end is None else end)


def _end_of_broken(form: SecretForm, text: str, at: int, *, least_chars: int) -> int | None:
    """Where a key of this form ends in another line; None where there is none that does."""
    run = _RUN.match(text, at)
    if run is None or len(run[0]) < least_chars or _is_found(form, text, at):
        return None
    # With the character before, by which the form tells whether it begins there.
    before = text[max(0, at - 1) : at]
    joined = before + run[0]
    for _ in range(_MOST_BREAKS):
        gap = _BREAK.match(text, run.end())
        run = None if gap is None else _RUN.match(text, gap.end())
        if run is None:
            return None
        joined += run[0]
        match = form.pattern.match(joined, len(before))
        if match is not None and form.is_secret(match):
            return run.end() - (len(joined) - match.end("secret"))
    return None


def _is_found(form: SecretForm, text: str, at: int) -> bool:
    match = form.pattern.match(text, at)
    return match is not None and form.is_secret(match)


def end_of_rest(text: str, end: int) -> int:
    """Where a secret that seems to end at ``end``, with its line, really does.

    What the next line begins with is the rest of it where that looks random and is no hash.
    """
    for _ in range(_MOST_BREAKS):
        gap = _BREAK.match(text, end)
        rest = None if gap is None else _REST.match(text, gap.end())
        if rest is None or not looks_random(rest[0]) or _HASH.fullmatch(rest[0]):
            break
        end = rest.end()
    return end
