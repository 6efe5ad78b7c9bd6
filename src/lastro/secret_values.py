"""What values are secrets, and what is only a name, a path or a word. Pure."""

import re

_SEPARATORS = re.compile(r"[-_./:\\@#~=+!?^]+")
_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[^\W\d_A-Za-z]+|\d+")
_HEX = re.compile(r"[0-9a-fA-F]{16,}")
# A part of a value is random where the words and numbers in it are shorter than these on the
# average: 1.4 characters in base 62, 2.5 in base 36, 5 in names of programs.
_MIN_PART_CHARS, _PIECE_CHARS = 8, 2.5
_LONG_PART_CHARS, _LONG_PIECE_CHARS = 20, 4.0
# Letters alone may be a word of camelCase; after the name of a password fewer are one.
_MIN_LETTERS, _MIN_PASSWORD_LETTERS = 16, 8

_REFERENCE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+", re.ASCII)
_PATH = re.compile(r"[~.]?/|\.\./|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]*://", re.ASCII)
_PLACEHOLDER = re.compile(
    r"x{4,}|(?:your|my|the|some|any|insert|changeme|change|example|dummy|placeholder|redacted"
    r"|masked|todo|none|null|true|false|undefined)(?:[^a-z0-9].*)?|[.…*•x-]+",
    re.IGNORECASE,
)


def looks_random(value: str, *, min_letters: int = _MIN_LETTERS) -> bool:
    """Whether a value is none that people or programs name things with.

    It has a part that falls into shorter pieces than words, numbers and versions do;
    ``min_letters`` is what such a part of letters alone has.
    """
    if is_placeholder(value):
        return False
    return any(_is_random_part(part, min_letters=min_letters) for part in _SEPARATORS.split(value))


def _is_random_part(part: str, *, min_letters: int) -> bool:
    least = min_letters if part.isalpha() else _MIN_PART_CHARS
    if len(part) < least or part.isdigit():
        return False
    if _HEX.fullmatch(part) is not None:
        return True
    piece_chars = len(part) / max(1, len(_PIECES.findall(part)))
    return piece_chars < (_PIECE_CHARS if len(part) < _LONG_PART_CHARS else _LONG_PIECE_CHARS)


def is_placeholder(value: str) -> bool:
    """Whether it only keeps a secret's place: ``your-key``, ``changeme``, ``xxxx``."""
    return _PLACEHOLDER.fullmatch(value) is not None


def is_secret_value(value: str, *, is_password: bool) -> bool:
    """Whether what stands after a secret's name is one, and no reference, path or word.

    Passwords are made by people: letters with a digit or a sign are enough.
    """
    value = value.rstrip(".:!?")
    if is_placeholder(value) or _REFERENCE.fullmatch(value) or _PATH.match(value):
        return False
    if not is_password:
        return looks_random(value)
    has_letter = any(char.isalpha() for char in value)
    has_digit = any(char.isdigit() for char in value)
    has_sign = any(not char.isalnum() and char not in "-_./:" for char in value)
    if has_letter and (has_digit or has_sign):
        return True
    return looks_random(value, min_letters=_MIN_PASSWORD_LETTERS)
