"""JSON Schemas of what the service answers, made from the values that ``wire`` writes.

So the documented shape is the shape: camelCase keys, optional ones left out, nulls kept.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from lastro.wire import camel_case

Schema = dict[str, Any]
_PLAIN: Mapping[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Decimal: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    Path: {"type": "string"},
    UUID: {"type": "string"},
    Any: {},
    object: {},
}
PLACE = "#/components/schemas/"


def schema_of(kind: object, definitions: dict[str, Schema]) -> Schema:
    """The schema of a value of ``kind``; those of its dataclasses are added to ``definitions``."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in {Union, types.UnionType}:
        return {"anyOf": [schema_of(one, definitions) for one in arguments]}
    if origin is tuple and arguments[-1] is not Ellipsis:
        of = [schema_of(one, definitions) for one in arguments]
        return {"type": "array", "prefixItems": of, "minItems": len(of), "maxItems": len(of)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1], definitions)}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return {"type": "array", "items": schema_of(arguments[0], definitions)}
    if isinstance(kind, type) and is_dataclass(kind):
        return _reference(kind, definitions)
    raise TypeError(f"no JSON is known of {kind!r}")


def may_be_untold(kind: Schema, name: str) -> None:
    """Document that the field ``name`` of ``kind`` is null for some who ask."""
    properties: Schema = kind["properties"]
    properties[name] = {"anyOf": [properties[name], {"type": "null"}]}


def line_of(kind: type, definitions: dict[str, Schema], *, optional: Sequence[str] = ()) -> Schema:
    """The schema of ``kind`` as a line of a file says it, by the names of its fields."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind) if field.init]
    definitions[f"{kind.__name__}Line"] = {
        "type": "object",
        "properties": {name: schema_of(hints[name], definitions) for name in names},
        "required": [name for name in names if name not in optional],
    }
    return {"$ref": f"{PLACE}{kind.__name__}Line"}


def page_of(name: str, item: Schema) -> Schema:
    """The schema of one page of a list: its items under ``name``, and where the next one begins."""
    return {
        "type": "object",
        "properties": {
            name: {"type": "array", "items": item},
            "nextCursor": {"type": ["string", "null"]},
        },
        "required": [name, "nextCursor"],
    }


def _reference(kind: type, definitions: dict[str, Schema]) -> Schema:
    if kind.__name__ not in definitions:
        made = definitions[kind.__name__] = Schema(type="object")  # before its fields: it may nest
        hints = get_type_hints(kind)
        properties: Schema = {}
        for field in fields(kind):
            shape = schema_of(hints[field.name], definitions)
            properties[camel_case(field.name)] = shape
        made["properties"] = properties
        made["required"] = [
            camel_case(field.name) for field in fields(kind) if not field.metadata.get("optional")
        ]
    return {"$ref": f"{PLACE}{kind.__name__}"}
