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


# A password of several words is told by one of them, which no language has: letters, a digit and a
# sign, or pieces as short as these.
_LEAST_PIECES, _WORD_PIECE_CHARS, _MOST_WORDS = 3, 2.0, 8


def is_whole_secret(held: str, *, is_password: bool) -> bool:
    """Whether all of what a field holds is a secret; passwords may have blanks and digits alone."""
    if len(held) < 6 or held[0] == "$" or any(char in held for char in "\n[]{}()<>"):
        return False
    if " " in held:
        return is_password and _is_password_of_words(held)
    return (is_password and held.isdigit()) or is_secret_value(held, is_password=is_password)


def _is_password_of_words(held: str) -> bool:
    words = held.split(" ")
    return len(words) <= _MOST_WORDS and any(map(_is_no_word, words))


def _is_no_word(word: str) -> bool:
    word = word.strip(".,:;!?'\"`")
    if not any(map(str.isdigit, word)) or not any(map(str.isalpha, word)):
        return False
    if any(not char.isalnum() and char not in "-_./:'" for char in word):
        return True
    pieces = len(_PIECES.findall(word))
    return pieces >= _LEAST_PIECES and len(word) / pieces < _WORD_PIECE_CHARS


def is_pass(held: str) -> bool:
    """Whether a field named ``pass`` holds a password, and no name, version or count of what did.

    Names of several parts have a digit in them too, as in ``test_login2``.
    """
    if not is_whole_secret(held, is_password=True):
        return False
    is_one = len(_SEPARATORS.split(held)) == 1
    has_sign = any(not char.isalnum() and char not in "-_./:" for char in held)
    return is_one or has_sign or looks_random(held)
