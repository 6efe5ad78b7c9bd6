"""Front matter (YAML between ``---``, TOML between ``+++``) to JSON-able metadata."""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, cast

import yaml

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

# Real front matter is a few hundred characters; beyond this only its place is kept.
_MAX_CHARS = 65_536
_MAX_DEPTH = 32
# Above this, integers are neither printable by Python (4,300 digits) nor meant as numbers.
_MAX_INTEGER_BITS = 1_024

_OPENING = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n|\n|\r)")
_CLOSING = {
    "---": re.compile(r"(?:(?<=\n)|(?<=\r))(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)"),
    "+++": re.compile(r"(?:(?<=\n)|(?<=\r))\+\+\+[ \t]*(?:\r\n|\n|\r|\Z)"),
}
# The first line that is neither blank nor a comment has the look of a setting.
_SETTING = re.compile(r"(?:\s*\n|[ \t]*#[^\n]*\n)*(?:[\w\"'.-][^\n:=]*\s*[:=](?:\s|\Z)|\[)")
_BREAK = re.compile(r"\r\n?")
_IMPOSSIBLE = re.compile("[\x00\ud800-\udfff]")
# What PyYAML and tomllib raise on hostile input, besides their own errors.
_READ_ERRORS = (
    yaml.YAMLError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """Metadata and the offset where the body starts; a warning when it could not be read."""

    metadata: Mapping[str, Json]
    end: int
    warning: str | None = None


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases, so that a small text cannot describe a huge or endless value."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # pyright: ignore[reportUnknownMemberType]
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)  # pyright: ignore[reportUnknownMemberType]


def read_front_matter(text: str, start: int) -> FrontMatter | None:
    """Front matter that opens at ``start``, or None where the text begins with its body.

    A block that is a rule, a list or prose between two rules is body: it stays searchable.
    """
    opening = _OPENING.match(text, start)
    if opening is None:
        return None
    marker = opening[1]
    closing = _CLOSING[marker].search(text, opening.end())
    if closing is None:
        return None
    source = _BREAK.sub("\n", text[opening.end() : closing.start()])
    if len(source) > _MAX_CHARS:
        return _unread(source, closing.end(), f"it is longer than {_MAX_CHARS:,} characters")
    try:
        value = _load(source, toml=marker == "+++")
        if isinstance(value, dict):
            metadata = _mapping(cast("dict[Any, Any]", value), depth=0)
            return FrontMatter(metadata=metadata, end=closing.end())
    except _READ_ERRORS as error:
        return _unread(source, closing.end(), _first_line(error))
    is_empty = not source.strip()
    return FrontMatter(metadata={}, end=closing.end()) if is_empty else None


def _unread(source: str, end: int, reason: str) -> FrontMatter | None:
    if not _SETTING.match(source):
        return None
    return FrontMatter(metadata={}, end=end, warning=f"Front matter was not read: {reason}.")


def _first_line(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


def _load(source: str, *, toml: bool) -> object:
    if toml:
        return tomllib.loads(source)
    return yaml.load(source, Loader=_Loader)  # noqa: S506 (a SafeLoader, stricter still)


def _mapping(value: Mapping[Any, Any], *, depth: int) -> dict[str, Json]:
    return {_key(key): _json(item, depth=depth + 1) for key, item in value.items()}


def _key(key: object) -> str:
    plain = _json(key, depth=0)
    return plain if isinstance(plain, str) else str(plain)


def _json(value: object, *, depth: int) -> Json:
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(value, dict):
        return _mapping(cast("dict[Any, Any]", value), depth=depth)
    if isinstance(value, set):
        return _json(sorted(cast("set[Any]", value), key=str), depth=depth)
    if isinstance(value, (list, tuple)):
        return [_json(item, depth=depth + 1) for item in cast("list[Any]", value)]
    return _scalar(value)


def _scalar(value: object) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_INTEGER_BITS else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return _clean(value.decode("utf-8", "replace"))
    return _clean(str(value))


def _clean(text: str) -> str:
    """Without the characters that neither UTF-8 nor PostgreSQL can hold."""
    return _IMPOSSIBLE.sub("", text)
