"""What looks like a secret is masked in a text or a value, so that it is never stored. Pure.

The forms are those that providers publish for their keys, and names that are followed by a value
that no word is. What only looks odd stays: git hashes, UUIDs, base64 of pictures and hashes of
lock files have no such name before them. See docs/adr/0032.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from lastro.secret_forms import (
    SECRET_NAMES,
    forms_in,
    is_secret_value,
    looks_random,
    may_have_form,
)

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

    The text of a field that is named as secrets are is masked whole where it looks like one.
    """
    return _mask_value(value, depth=0)


# --- masking -----------------------------------------------------------------------------------


class _Found(NamedTuple):
    start: int
    end: int
    kind: str


def may_have_secret(text: str) -> bool:
    """Whether the text has the beginning of any form: most have none, and are done with soon."""
    if not may_have_form(text):
        return False
    lowered = _lowered(text)
    return any(
        hint.strip() in lowered  # JSON writes a tab as two characters
        for form in forms_in(text, lowered=lowered)
        for hint in form.hints
    )


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
    spans.sort(key=lambda found: found.start)  # stable: the earlier form first
    merged: list[_Found] = []
    for found in spans:
        if not merged or found.start >= merged[-1].end:
            merged.append(found)
        elif found.end > merged[-1].end:
            merged[-1] = merged[-1]._replace(end=found.end)
    return merged


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


_SECRET_NAME = re.compile(rf"{SECRET_NAMES}\Z", re.IGNORECASE)
_CREDENTIALS_NAME = re.compile(r"authorization\Z", re.IGNORECASE)


def _mask_value(value: object, *, depth: int) -> MaskedValue:
    if isinstance(value, str):
        return MaskedValue(*mask(value))
    if depth > MAX_DEPTH and isinstance(value, dict | list):
        return MaskedValue(*mask(json.dumps(value, ensure_ascii=False)))
    if isinstance(value, list):
        items = [_mask_value(item, depth=depth + 1) for item in cast("list[object]", value)]
        return MaskedValue([item.value for item in items], sum(item.secrets for item in items))
    if isinstance(value, dict):
        return _mask_object(cast("Mapping[str, object]", value), depth=depth)
    return MaskedValue(value, 0)


def _mask_object(value: Mapping[str, object], *, depth: int) -> MaskedValue:
    masked: dict[str, Any] = {}
    total = 0
    for name, held in value.items():
        key = mask(name)
        inner = _mask_field(name, held, depth=depth)
        total += key.secrets + inner.secrets
        masked[_free_name(key.text, masked)] = inner.value
    return MaskedValue(masked, total)


def _mask_field(name: str, held: object, *, depth: int) -> MaskedValue:
    if isinstance(held, str):
        if _CREDENTIALS_NAME.search(name):  # its form is known with its name before it
            said = mask(f"{name}: {held}")
            if said.secrets:
                return MaskedValue(said.text.removeprefix(f"{name}: "), said.secrets)
        named = _SECRET_NAME.search(name)
        if named is not None and _is_whole_secret(held, named):
            return MaskedValue("[masked:secret]", 1)
    return _mask_value(held, depth=depth + 1)


def _is_whole_secret(held: str, named: re.Match[str]) -> bool:
    if len(held) < 6 or any(char in held for char in "\n[]{}()<>$ "):
        return False
    return is_secret_value(held, is_password=named["password"] is not None)


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """Two secrets that were names of fields stay two fields."""
    number = 2
    free = name
    while free in taken:
        free = f"{name} {number}"
        number += 1
    return free
