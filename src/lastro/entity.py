"""A knowledge-base entry: what it may hold, and its form as a line of JSON. Pure."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast, get_args

from lastro.entry_filter import MAX_NUMBER
from lastro.errors import InvalidInput
from lastro.graphemes import is_blank
from lastro.json_lines import LineCounts, ReadLines, read_lines
from lastro.lexical import storable
from lastro.line_fields import named, read_time, time_fault
from lastro.types import EmbeddingCounts

EntityStatus = Literal["draft", "published", "archived"]
STATUSES: tuple[EntityStatus, ...] = get_args(EntityStatus)
Scalar = str | int | float | bool
Attribute = Scalar | list[Scalar] | None

# Of a key, which stands in an index whose entries PostgreSQL limits to 2,700 bytes.
MAX_KEY_BYTES = 2_000
# As much as a file may have (sources.files.MAX_BYTES).
MAX_TEXT_BYTES = 2 * 2**20
# More is no title and no type; both are searched with, or shown for, every chunk.
MAX_TITLE_CHARS = 1_000
MAX_TYPE_CHARS = 200
# They are repeated in every chunk of the entry.
MAX_ATTRIBUTES_CHARS = 20_000
# Sums of weights are clipped to [0, 1]; more says nothing, and a `real` would lose it.
MAX_RULE_WEIGHT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """An entry of a knowledge base; ``text`` is Markdown.

    ``attributes`` are what filters ask for: texts, numbers, true, false, null, or lists of these.
    Only a published entry is ever found. ``rule_weight`` is the entry's own part of the rule score.
    Errors: InvalidInput, which names the key and the field.
    """

    key: str
    title: str
    text: str
    type: str
    status: EntityStatus = "published"
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    rule_weight: float = 0.0
    effective_at: datetime | None = None

    def __post_init__(self) -> None:
        for name, fault in _faults(self):
            raise InvalidInput(
                f"{named('entry', self.key)}{name} {fault}", remedy="correct the entry"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityReport:
    """What was stored; ``chunks`` are the project's published ones after it."""

    project: str
    entries: LineCounts
    chunks: int
    embedding: EmbeddingCounts
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySummary:
    """An entry as listed; ``complete`` is False while a chunk lacks its vector."""

    key: str
    title: str
    type: str
    status: EntityStatus
    chunks: int
    complete: bool
    updated_at: datetime


def _faults(entity: Entity) -> Iterable[tuple[str, str]]:
    limits = {"key": None, "title": MAX_TITLE_CHARS, "text": None, "type": MAX_TYPE_CHARS}
    for name, max_chars in limits.items():
        fault = _text_fault(getattr(entity, name), max_chars=max_chars)
        if fault is not None:
            yield name, fault
            return
    if len(entity.key.encode()) > MAX_KEY_BYTES:
        yield "key", f"is longer than {MAX_KEY_BYTES:,} bytes"
    if len(entity.text.encode()) > MAX_TEXT_BYTES:
        yield "text", f"is longer than {MAX_TEXT_BYTES:,} bytes"
    if entity.status not in STATUSES:
        yield "status", f"is {entity.status!r}; use {', '.join(STATUSES)}"
    yield from _attribute_faults(entity.attributes)
    weight = cast("object", entity.rule_weight)
    if not is_number(weight) or abs(entity.rule_weight) > MAX_RULE_WEIGHT:
        yield "rule_weight", f"is no number from -{MAX_RULE_WEIGHT:,} to {MAX_RULE_WEIGHT:,}"
    fault = time_fault(entity.effective_at)
    if fault is not None:
        yield "effective_at", fault


def _text_fault(value: object, *, max_chars: int | None = None) -> str | None:
    if not isinstance(value, str):
        return "is no text"
    if storable(value) != value:
        return "has a character that cannot be stored: NUL, or half of a pair"
    if is_blank(value):
        return "is blank"
    if max_chars is not None and len(value) > max_chars:
        return f"is longer than {max_chars:,} characters"
    return None


def _attribute_faults(attributes: object) -> Iterable[tuple[str, str]]:
    if not isinstance(attributes, Mapping):
        yield "attributes", "is no object"
        return
    for name, value in cast("Mapping[object, object]", attributes).items():
        fault = _text_fault(name)
        if fault is not None:
            yield "attributes", f"has a name that {fault}"
            return
        fault = _value_fault(value)
        if fault is not None:
            yield f"attributes.{name}", fault
            return
    if len(json.dumps(_written_out(cast("object", attributes)))) > MAX_ATTRIBUTES_CHARS:
        yield "attributes", f"are longer than {MAX_ATTRIBUTES_CHARS:,} characters of JSON"


def _value_fault(value: object) -> str | None:
    if isinstance(value, list):
        parts = cast("list[object]", value)
        if any(part is None for part in parts):
            return "has null in its list"
        return next((fault for part in parts if (fault := _scalar_fault(part))), None)
    return None if value is None else _scalar_fault(value)


def _written_out(value: object) -> object:
    """With its large numbers as they are read back: PostgreSQL keeps 1e300 with all its zeros."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_written_out(part) for part in cast("list[object]", value)]
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        return {name: _written_out(part) for name, part in table.items()}
    return value


def _scalar_fault(value: object) -> str | None:
    if isinstance(value, str):
        return None if storable(value) == value else _text_fault(value)
    if isinstance(value, bool) or is_number(value):
        return None
    return "is no text, number, true, false, null, or list of these"


def is_number(value: object) -> bool:
    """Whether it is a number of a size that JSON and PostgreSQL both keep."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not (isinstance(value, float) and math.isnan(value)) and abs(value) <= MAX_NUMBER


def entity_json(entity: Entity) -> dict[str, Any]:
    """An entry as its line says it; what is by default is left out."""
    said: dict[str, Any] = {
        "key": entity.key,
        "title": entity.title,
        "text": entity.text,
        "type": entity.type,
        "status": entity.status,
        "attributes": dict(entity.attributes),
    }
    if entity.rule_weight:
        said["rule_weight"] = entity.rule_weight
    if entity.effective_at is not None:
        said["effective_at"] = entity.effective_at.isoformat()
    return said


def parse_entity(said: object) -> Entity:
    """The entry that a JSON object says. Errors: InvalidInput, which names key and field."""
    if not isinstance(said, dict):
        raise InvalidInput("it is no JSON object")
    values = cast("dict[str, Any]", said)
    known = Entity.__dataclass_fields__
    about = named("entry", values.get("key"))
    unknown = [name for name in values if name not in known]
    if unknown:
        raise InvalidInput(f"{about}unknown field {unknown[0]!r}", remedy=f"use {', '.join(known)}")
    missing = [name for name in ("key", "title", "text", "type") if name not in values]
    if missing:
        raise InvalidInput(f"{about}there is no {missing[0]}")
    given = {name: value for name, value in values.items() if value is not None}
    if "effective_at" in given:
        given["effective_at"] = read_time(given["effective_at"], field="effective_at", named=about)
    absent = {name: None for name in ("key", "title", "text", "type") if name not in given}
    return Entity(**given, **cast("Any", absent))


def read_entities(lines: Iterable[bytes]) -> ReadLines[Entity]:
    """The entries of JSON Lines, each of a key of its own."""
    return read_lines(lines, parse_entity, key="key")
