"""Secrets in the lines of YAML and the tags of XML. Pure."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from lastro.secret_fields import LOOK_NAMES, NAMED, NAMING, names_secret, secret_held

_LINE = re.compile(
    r"^(?P<indent>[ \t]*+(?:-[ \t]++)*+)(?P<key>[\"']?[A-Za-z_][\w.-]{0,80}+[\"']?)[ \t]*+:"
    r"(?:[ \t]++(?P<value>[^\n]*+))?$",
    re.MULTILINE,
)
_QUOTED = re.compile(r"([\"'])(?P<secret>[^\"'\n]{1,512})\1[ \t\r]*,?[ \t\r]*(?:#.*)?")
_PLAIN = re.compile(r"(?P<secret>[^\s\"'#,|>&*][^\s]{0,511})[ \t\r]*(?:[ \t]#.*)?")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?[ \t\r]*(?:#.*)?")
_BLOCK_LINE = re.compile(r"\r?\n(?P<indent>[ \t]*+)(?P<secret>[^\n]*)")
# Of the text below a secret's name: a key of one line, and one or two more.
_MOST_BLOCK_LINES = 16

_ELEMENT = re.compile(
    r"<(?P<name>[A-Za-z_][\w:.-]{0,80}+)(?:[ \t\r\n][^<>]{0,400}+)?>(?:<!\[CDATA\[)?"
    r"[ \t\r\n]*+(?P<secret>[^<>\n\]]{1,512}+)[ \t\r\n]*+(?:\]\]>)?</"
)
_TAG = re.compile(r"<[A-Za-z][^<>]{0,2000}+>")
_ATTRIBUTE = re.compile(
    r"(?<![\w:.-])(?P<name>[A-Za-z_][\w:.-]{0,80}+)[ \t\r\n]*+=[ \t\r\n]*+"
    r"\\*([\"'])(?P<value>[^\"'\\]{1,512}+)\\*\2"
)

# In RE2's syntax.
_NAME_FIELDS = f"(?i:{'|'.join(sorted(NAMING)).replace('i', '[iıİ]')})"
MARKUP_LOOKS = (
    # A name in YAML, whose value is anywhere near.
    rf"{_NAME_FIELDS}\\*[\"']?[ \t]*:(?:[ \t]|\\t)+\\*[\"']?[^\s\"']*{LOOK_NAMES}",
    # A block, a text in quotes, and what the name `pass` has after it.
    rf"{LOOK_NAMES}\\*[\"']?(?:[ \t]|\\t)*:(?:[ \t]|\\t)+(?:[|>]|\\*[\"'][^\"'])",
    r"(?i:pass)\\*[\"']?(?:[ \t]|\\t)*:(?:[ \t]|\\t)+\S{6}",
    # An element, and an attribute before another or at the end of its tag.
    rf"{LOOK_NAMES}(?:(?:[ \t\r\n]|\\+[trn])[^<>]*)?>(?:<!\[CDATA\[)?[^<>]*(?:\]\]>)?</",
    rf"{LOOK_NAMES}\\*[\"'](?:[ \t\r\n]|\\+[trn])*(?:/?>|[A-Za-z_][A-Za-z0-9_:.-]*[ \t]*=)",
)


class MarkedSecret(NamedTuple):
    """A secret from its first character to its last."""

    start: int
    end: int
    kind: str


def markup_in(text: str) -> Iterator[MarkedSecret]:
    """The secrets that lines of YAML and tags of XML tell."""
    yield from _yaml_in(text)
    if "<" in text:
        yield from _elements_in(text)
        yield from _attributes_in(text)


def _secret_at(name: str, held: str, *, start: int) -> Iterator[MarkedSecret]:
    place = secret_held(name, held)
    if place is not None:
        yield MarkedSecret(start + place[0], start + place[1], "secret")


# --- YAML --------------------------------------------------------------------------------------


class _Fields(NamedTuple):
    """The lines of one mapping, and the column of its keys."""

    column: int
    lines: list[re.Match[str]]


def _yaml_in(text: str) -> Iterator[MarkedSecret]:
    mappings: list[_Fields] = []
    end = 0
    for line in _LINE.finditer(text):
        yield from _value_of(line, _key(line))
        column = len(line["indent"])
        is_apart = _is_apart(text, end, line.start())
        while mappings and (is_apart or mappings[-1].column > column):
            yield from _pair_in(mappings.pop().lines)
        if mappings and mappings[-1].column == column and "-" in line["indent"]:
            yield from _pair_in(mappings.pop().lines)
        if not mappings or mappings[-1].column < column:
            mappings.append(_Fields(column, []))
        mappings[-1].lines.append(line)
        end = line.end()
    for mapping in mappings:
        yield from _pair_in(mapping.lines)


def _is_apart(text: str, start: int, end: int) -> bool:
    """Whether a line of prose stands between, or a bracket, which is not read here."""
    return re.search(r"\n(?:[^\s#]|[ \t]*[{}\[\]])", text[start:end]) is not None


def _key(line: re.Match[str]) -> str:
    return line["key"].strip("\"'")


def _pair_in(lines: list[re.Match[str]]) -> Iterator[MarkedSecret]:
    """The value of a mapping that says which secret it is."""
    said = (_text_of(line) for line in lines if _key(line).lower() in NAMING)
    name = next(filter(names_secret, said), None)
    if name is not None:
        for line in lines:
            if _key(line).lower() in NAMED:
                yield from _value_of(line, name, is_told=True)


def _text_of(line: re.Match[str]) -> str:
    value = line["value"] or ""
    match = _QUOTED.fullmatch(value) or _PLAIN.fullmatch(value)
    return "" if match is None else match["secret"]


def _value_of(line: re.Match[str], name: str, *, is_told: bool = False) -> Iterator[MarkedSecret]:
    """What the line says where its name is a secret's, in quotes, in a block, or as it stands."""
    value = line["value"]
    if value is None or not names_secret(name):
        return
    start = line.start("value")
    quoted, plain = _QUOTED.fullmatch(value), _PLAIN.fullmatch(value)
    if quoted is not None:
        yield from _secret_at(name, quoted["secret"], start=start + quoted.start("secret"))
    elif _BLOCK.fullmatch(value) is not None:
        yield from _block_of(line, name)
    elif plain is not None and not plain["secret"].isdigit() and (is_told or _is_pass(name)):
        yield from _secret_at(name, plain["secret"], start=start)


def _is_pass(name: str) -> bool:
    """Of other names the forms tell; with a capital it is a word of a program's report."""
    return name == "pass" or (len(name) > 4 and name.lower().endswith("pass"))


def _block_of(line: re.Match[str], name: str) -> Iterator[MarkedSecret]:
    """The lines below the name's that stand deeper than it does."""
    at, column = line.end(), len(line["indent"])
    for _ in range(_MOST_BLOCK_LINES):
        below = _BLOCK_LINE.match(line.string, at)
        if below is None or (below["secret"].strip() and len(below["indent"]) <= column):
            return
        secret = below["secret"].rstrip()
        if len(secret) <= 512:
            yield from _secret_at(name, secret, start=below.start("secret"))
        at = below.end()


# --- XML ---------------------------------------------------------------------------------------


def _elements_in(text: str) -> Iterator[MarkedSecret]:
    for element in _ELEMENT.finditer(text):
        name = element["name"].rpartition(":")[2]
        if names_secret(name) or name == "pass":
            secret = element["secret"].rstrip()
            yield from _secret_at(name, secret, start=element.start("secret"))


def _attributes_in(text: str) -> Iterator[MarkedSecret]:
    """The value of a tag that says which secret it is."""
    for tag in _TAG.finditer(text):
        found = list(islice(_ATTRIBUTE.finditer(text, *tag.span()), 40))
        said = (one["value"] for one in found if one["name"].lower() in NAMING)
        name = next(filter(names_secret, said), None)
        for one in found if name is not None else ():
            if name is not None and one["name"].lower() in NAMED:
                yield from _secret_at(name, one["value"], start=one.start("value"))
