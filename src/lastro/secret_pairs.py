"""Secrets apart from their names, in lists and objects as JSON and code write them. Pure.

One pass over the brackets, quotes, colons and commas of a text. What is cut off, or has words of
another language between, is read as far as it goes.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from lastro.secret_fields import (
    HOLDING,
    LOOK_NAMES,
    NAMED,
    NAMING,
    is_option,
    names_secret,
    secret_held,
)

_TOKEN = re.compile(r"[{}\[\],:\n]|\\*[\"']")
_BARE_NAME = re.compile(r"[A-Za-z_][\w.-]{0,80}", re.ASCII)
_QUOTES = "\"'"
_CLOSING = {"}": "{", "]": "["}
# The backslashes before the quotes of a string, of one within it, and of one within that.
_SLASHES = (0, 1, 3)
# Of lists and objects within each other; what is deeper is read as if it began there.
_MOST_DEPTH = 32
_MOST_NAME_CHARS, _MOST_SECRET_CHARS = 200, 512

# In RE2's syntax: a secret's name that is a string of a list, or the name or the text of a field.
_BLANKS = r"(?:[ \t\r\n]|\\+[trn])*"
PAIR_LOOK = rf"{LOOK_NAMES}\\*[\"']{_BLANKS}(?:[,}}\]]|:{_BLANKS}\\*[\"'][^\"'])"


class PairedSecret(NamedTuple):
    """A secret from its first character to its last."""

    start: int
    end: int
    kind: str


class _Part(NamedTuple):
    """A sign, or a string without its quotes, which has the sign of a quote."""

    sign: str
    start: int
    end: int
    slashes: int = 0
    is_whole: bool = True


@dataclass(slots=True)
class _Frame:
    """A list or an object as far as it is read; outside of all there is one without a bracket.

    ``held`` are the strings that are a secret where the field that has the frame is named so.
    """

    bracket: str = ""
    key: str = ""
    value: "_Part | _Frame | None" = None
    fields: "list[tuple[str, _Part | _Frame | None]]" = field(
        default_factory=list["tuple[str, _Part | _Frame | None]"]
    )
    held: list[_Part] = field(default_factory=list[_Part])


def pairs_in(text: str) -> Iterator[PairedSecret]:
    """The secrets that lists and objects tell: by a field's name, in pairs and after options."""
    places: list[tuple[int, int, tuple[int, ...]]] = [(0, len(text), _SLASHES)]
    while places:
        start, end, slashes = places.pop()
        frames, after = [_Frame()], start
        for part in _parts(text, start, end, slashes=slashes):
            if part.sign in _QUOTES and text.find("\\", part.start, part.end) >= 0:
                places.append((part.start, part.end, (2 * part.slashes + 1,)))
            yield from _secrets_with(part, frames, text, after=after)
            after = part.end


# --- strings and signs -------------------------------------------------------------------------


def _parts(text: str, start: int, end: int, *, slashes: tuple[int, ...]) -> Iterator[_Part]:
    opened: _Part | None = None
    for token in _TOKEN.finditer(text, start, end):
        sign = token[0]
        if opened is not None:
            closed = _closed(opened, token)
            if closed is not None:
                yield closed
                opened = None
        elif sign[-1] in _QUOTES:
            opened = _opened(text, token, start=start, slashes=slashes)
        elif sign != "\n":
            yield _Part(sign, token.start(), token.end())
    if opened is not None:
        yield opened._replace(end=end, is_whole=False)


def _opened(
    text: str, token: re.Match[str], *, start: int, slashes: tuple[int, ...]
) -> _Part | None:
    """The string that a quote begins; one behind a word or another quote begins none."""
    at, before = token.start(), len(token[0]) - 1
    if before not in slashes:
        return None
    is_behind = at > start and (text[at - 1].isalnum() or text[at - 1] in "_)]}\"'")
    is_blank = at - 1 > start and text[at - 2 : at] in {"\\n", "\\r", "\\t"}
    if is_behind and not is_blank:
        return None
    return _Part(token[0][-1], token.end(), token.end(), before)


def _closed(opened: _Part, token: re.Match[str]) -> _Part | None:
    """The string, where it ends here: at a quote with the backslashes of its own, or its line."""
    sign, slashes = token[0], opened.slashes
    if sign == "\n":
        return opened._replace(end=token.start(), is_whole=False)
    # More of them are those of a quote within, or of a backslash that ends the string.
    if sign[-1] != opened.sign or (len(sign) - 1) % (2 * slashes + 2) != slashes:
        return None
    return opened._replace(end=token.end() - 1 - slashes)


# --- lists and objects -------------------------------------------------------------------------


def _secrets_with(
    part: _Part, frames: list[_Frame], text: str, *, after: int
) -> Iterator[PairedSecret]:
    """What the part makes known; ``after`` is where the part before it ends."""
    frame = frames[-1]
    if part.sign in _QUOTES:
        frame.value = part if part.is_whole else None
        if frame.key and part.is_whole:
            yield from _secret_in(text, frame.key, part)
    elif part.sign == ":":
        frame.key, frame.value = _key(text, frame.value, after=after, until=part.start), None
    elif part.sign == ",":
        _end_field(frame)
    elif part.sign in _CLOSING:
        yield from _close(frames, text, _CLOSING[part.sign])
    else:
        if len(frames) > _MOST_DEPTH:
            frames[:] = [_Frame()]
        frames.append(_Frame(part.sign))


def _key(text: str, value: "_Part | _Frame | None", *, after: int, until: int) -> str:
    """The string or the word before a colon."""
    if until - after > _MOST_NAME_CHARS:
        return ""
    between = text[after:until].lstrip("\\\"'").strip()
    if isinstance(value, _Part):
        return "" if between else _said(text, value)
    return between if _BARE_NAME.fullmatch(between) else ""


def _said(text: str, part: _Part) -> str:
    return text[part.start : part.end] if part.end - part.start <= _MOST_NAME_CHARS else ""


def _end_field(frame: _Frame) -> None:
    if frame.bracket:
        frame.fields.append((frame.key, frame.value))
    frame.key, frame.value = "", None


def _close(frames: list[_Frame], text: str, bracket: str) -> Iterator[PairedSecret]:
    frame = frames[-1]
    if frame.bracket != bracket:  # no JSON
        frames[:] = [_Frame()]
        return
    _end_field(frame)
    frames.pop()
    name = _name_told(frame, text) if bracket == "{" else None
    if name is not None:
        yield from _secrets_of_object(frame, text, name=name)
    elif bracket == "[":
        yield from _secrets_of_list(frame, text, is_row=frames[-1].bracket == "[")
    if name is None:  # else the nearest name has told of them, and each is looked at once
        frame.held += _held_by(frame)
    frame.fields.clear()
    frames[-1].value = frame


def _held_by(frame: _Frame) -> Iterator[_Part]:
    for key, value in frame.fields:
        if frame.bracket == "[" or key.lower() in HOLDING:
            yield from _strings_of(value)


def _strings_of(value: "_Part | _Frame | None") -> list[_Part]:
    if isinstance(value, _Frame):
        return value.held
    return [] if value is None else [value]


def _name_told(frame: _Frame, text: str) -> str | None:
    """The name of a secret that an object says its value is, wherever the name stands."""
    said = (
        _said(text, value)
        for key, value in frame.fields
        if isinstance(value, _Part) and key.lower() in NAMING
    )
    return next(filter(names_secret, said), None)


def _secrets_of_object(frame: _Frame, text: str, *, name: str) -> Iterator[PairedSecret]:
    for key, value in frame.fields:
        for part in _strings_of(value) if key.lower() in NAMED else ():
            yield from _secret_in(text, name, part)


def _secrets_of_list(frame: _Frame, text: str, *, is_row: bool) -> Iterator[PairedSecret]:
    """What follows an option; in a list of lists, what stands in two with the name of a secret."""
    values = [value for _, value in frame.fields]
    for one, other in itertools.pairwise(values):
        if isinstance(one, _Part) and isinstance(other, _Part):
            name = _said(text, one)
            if is_option(name) or (is_row and len(values) == 2 and names_secret(name)):
                yield from _secret_in(text, name, other)


def _secret_in(text: str, name: str, part: _Part) -> Iterator[PairedSecret]:
    if part.end - part.start > _MOST_SECRET_CHARS:
        return
    place = secret_held(name, text[part.start : part.end])
    if place is not None:
        yield PairedSecret(part.start + place[0], part.start + place[1], "secret")
