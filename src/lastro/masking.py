"""What looks like a secret is masked in a text or a value, so that it is never stored. Pure.

The forms are those that providers publish for their keys, and names that are followed by a value
that no word is. What only looks odd stays: git hashes, UUIDs, base64 of pictures and hashes of
lock files have no such name before them. See docs/adr/0032.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import re2  # pyright: ignore[reportMissingTypeStubs]

from lastro.secret_breaks import BROKEN_LOOK, broken_keys, end_of_rest
from lastro.secret_fields import (
    CREDENTIALS_NAME,
    HOLDING,
    NAMED,
    NAMING,
    SECRET_NAME,
    is_option,
    names_secret,
    secret_held,
)
from lastro.secret_forms import ALL_HINTS, LOOKS, SECRET_NAMES, forms_in
from lastro.secret_markup import MARKUP_LOOKS, markup_in
from lastro.secret_pairs import PAIR_LOOK, pairs_in
from lastro.secret_values import looks_random

# More levels than these are masked as the JSON text of what lies below.
MAX_DEPTH = 100
# What is shorter is masked where it was found, and may be a word elsewhere.
MIN_SPREAD_CHARS = 8


class Masked(NamedTuple):
    """A text without its secrets, and how many were masked in it."""

    text: str
    secrets: int


class MaskedValue(NamedTuple):
    """A JSON value without its secrets, and how many were masked in it."""

    value: Any
    secrets: int


def mask(text: str) -> Masked:
    """The text with every secret as ``[masked:KIND]``; lines stay as many as they were.

    A secret that was found is masked wherever it stands in the text. Masking a masked text
    changes nothing.
    """
    total = 0
    if not may_have_form(text):
        return Masked(text, 0)
    # What is masked can bring two parts together that look like a secret in turn.
    while True:
        found = _found(text)
        if not found:
            return Masked(text, total)
        text, count = _replaced(text, found)
        total += count


def mask_json(value: object) -> MaskedValue:
    """The JSON value without its secrets, in texts and in the names of its fields.

    What a field holds that is named as secrets are, alone or in a list, is masked whole where it
    looks like one; so is the ``value`` of an object whose ``name`` or ``key`` is such a name.
    """
    return _mask_value(value, depth=0)


# --- masking -----------------------------------------------------------------------------------


class _Found(NamedTuple):
    start: int
    end: int
    kind: str


# JSON writes a tab as two characters.
_HINTS = ("pass", *(hint.strip() for hint in ALL_HINTS))


def may_have_secret(text: str) -> bool:
    """Whether the text has the beginning of any form: most have none, and are done with soon."""
    if not may_have_form(text):
        return False
    lowered = _lowered(text)
    return any(hint in lowered for hint in _HINTS)


# All forms in one pass, in time that is linear in the text's length whatever it says: 4 µs for
# 500 characters, where hint by hint took 21 to 70. See docs/adr/0038.
_LOOK = re2.compile("|".join([*LOOKS, BROKEN_LOOK, PAIR_LOOK, *MARKUP_LOOKS]))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_first_look = cast("Callable[[bytes], object]", _LOOK.search)  # pyright: ignore[reportUnknownMemberType]
# What has neither need not be read sign by sign, which takes as long as all forms together.
_PAIRS = re2.compile("|".join([PAIR_LOOK, *MARKUP_LOOKS]))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_look_for_pairs = cast("Callable[[bytes], object]", _PAIRS.search)  # pyright: ignore[reportUnknownMemberType]


def may_have_form(text: str) -> bool:
    """Whether a text, or what it says in JSON, may have any of the forms: hardly one has.

    False is certain. Half of a pair counts as a question mark, which no form tells from it.
    """
    return _first_look(text.encode(errors="replace")) is not None


def _lowered(text: str) -> str:
    """With ASCII in lower case alone, so that places stay those of the text."""
    return text.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")


def _found(text: str) -> list[_Found]:
    """The secrets of a text, in its order; those that overlap are one, of the first one's kind."""
    lowered = _lowered(text)
    spans = [
        _Found(*match.span("secret"), form.name)
        for form in forms_in(text, lowered=lowered)
        for match in form.find(text, lowered=lowered)
    ]
    spans += [_Found(*key) for key in broken_keys(text, lowered=lowered)]
    if _look_for_pairs(text.encode(errors="replace")) is not None:
        spans += [_Found(*secret) for secret in (*pairs_in(text), *markup_in(text))]
    spans.sort(key=lambda found: found.start)  # stable: the earlier form first
    merged: list[_Found] = []
    for found in spans:
        if not merged or found.start >= merged[-1].end:
            merged.append(found)
        elif found.end > merged[-1].end:
            merged[-1] = merged[-1]._replace(end=found.end)
    return [_whole(found, text) for found in merged]


def _whole(found: _Found, text: str) -> _Found:
    """With what of it stands in the next lines; the form of a private key has its own."""
    if found.kind == "private-key":
        return found
    return found._replace(end=end_of_rest(text, found.end))


def _replaced(text: str, found: list[_Found]) -> Masked:
    parts: list[str] = []
    end = 0
    for start, stop, kind in found:
        parts += [text[end:start], f"[masked:{kind}]", "\n" * text.count("\n", start, stop)]
        end = stop
    masked = "".join([*parts, text[end:]])
    return _spread(masked, {text[f.start : f.end]: f.kind for f in found}, count=len(found))


def _spread(text: str, secrets: Mapping[str, str], *, count: int) -> Masked:
    """Mask what was found in one place wherever it stands, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= MIN_SPREAD_CHARS and looks_random(secret) and secret in text:
            count += text.count(secret)
            mark = f"[masked:{secrets[secret]}]" + "\n" * secret.count("\n")
            text = text.replace(secret, mark)
    return Masked(text, count)


_LIST_NAME = re.compile(rf"{SECRET_NAMES}s?\Z", re.IGNORECASE)
# Numbers of fewer digits are codes and positions, and those of tokens are counts of them.
_NUMBER_DIGITS, _TOKEN_DIGITS = 6, 10


def _mask_value(
    value: object, *, depth: int, name: str = "", is_in_list: bool = False
) -> MaskedValue:
    """``name`` is that of the field which holds the value, or the list that the value is in."""
    if isinstance(value, str):
        return _mask_text(value, name=name)
    if depth > MAX_DEPTH and isinstance(value, dict | list):
        return MaskedValue(*mask(json.dumps(value, ensure_ascii=False)))
    if isinstance(value, list):
        items = cast("list[object]", value)
        return _mask_list(items, depth=depth, name=name, is_in_list=is_in_list)
    if isinstance(value, dict):
        return _mask_object(cast("Mapping[str, object]", value), depth=depth, name=name)
    if isinstance(value, int) and not isinstance(value, bool) and _is_secret_number(value, name):
        return MaskedValue("[masked:secret]", 1)
    return MaskedValue(value, 0)


def _mask_text(held: str, *, name: str) -> MaskedValue:
    if CREDENTIALS_NAME.search(name):  # its form is known with its name before it
        said = mask(f"{name}: {held}")
        if said.secrets:
            return MaskedValue(said.text.removeprefix(f"{name}: "), said.secrets)
    elif secret_held(name, held) is not None:
        return MaskedValue("[masked:secret]", 1)
    return MaskedValue(*mask(held))


def _mask_list(value: list[object], *, depth: int, name: str, is_in_list: bool) -> MaskedValue:
    """Each of them is what the list's name says, or what the text before it does.

    Numbers below a plural, as in ``tokens``, are counts and codes.
    """
    is_plural = SECRET_NAME.search(name) is None and _LIST_NAME.search(name) is not None
    is_row = is_in_list and len(value) == 2
    items: list[MaskedValue] = []
    before: object = None
    for item in value:
        own = name[:-1] if is_plural and isinstance(item, str) else name
        if isinstance(before, str) and (is_option(before) or (is_row and names_secret(before))):
            own = before
        items.append(_mask_value(item, depth=depth + 1, name=own, is_in_list=True))
        before = item
    return MaskedValue([item.value for item in items], sum(item.secrets for item in items))


def _mask_object(value: Mapping[str, object], *, depth: int, name: str) -> MaskedValue:
    masked: dict[str, Any] = {}
    total = 0
    told = _name_told(value) or name
    for own, held in value.items():
        key = mask(own)
        inner = _mask_value(held, depth=depth + 1, name=_name_of(own, told=told, holder=name))
        total += key.secrets + inner.secrets
        masked[_free_name(key.text, masked)] = inner.value
    return MaskedValue(masked, total)


def _name_of(own: str, *, told: str, holder: str) -> str:
    """Whose value a field has: of the name that its object tells, of its holder, or its own."""
    lowered = own.lower()
    if lowered in NAMED:
        return told
    return holder if holder and lowered in HOLDING else own


def _name_told(value: Mapping[str, object]) -> str | None:
    """The name of a secret that an object says its value is."""
    said = (held for own, held in value.items() if own.lower() in NAMING)
    return next((held for held in said if isinstance(held, str) and names_secret(held)), None)


def _is_secret_number(value: int, name: str) -> bool:
    if SECRET_NAME.search(name) is None:
        return False
    digits = _TOKEN_DIGITS if name.lower().endswith("token") else _NUMBER_DIGITS
    return abs(value) >= 10 ** (digits - 1)


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """Two secrets that were names of fields stay two fields."""
    number = 2
    free = name
    while free in taken:
        free = f"{name} {number}"
        number += 1
    return free
