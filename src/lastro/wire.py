"""Results to the contract's JSON: camelCase keys, absent options left out, nulls kept. Pure."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from pathlib import PurePath
from typing import Any, cast

from lastro.errors import LastroError
from lastro.types import Evaluation, Quality

_UNDERSCORE = re.compile(r"_([a-z])")


def to_json(value: object) -> Any:
    """The JSON form of a result, a part of one, or a collection of them."""
    if value is None or isinstance(value, str | int | float):  # most of them
        return value
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in cast("list[object]", value)]
    if is_dataclass(value) and not isinstance(value, type):
        return {
            key: to_json(entry)
            for name, key, is_optional in _keys(type(value))
            if (entry := getattr(value, name)) is not None or not is_optional
        }
    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        return {str(key): to_json(entry) for key, entry in table.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    return value


@cache
def _keys(kind: type) -> tuple[tuple[str, str, bool], ...]:
    """Of each field of a dataclass its name, its key, and whether it is left out for None."""
    return tuple(
        (field.name, camel_case(field.name), bool(field.metadata.get("optional")))
        for field in fields(kind)
    )


def error_json(error: LastroError) -> dict[str, Any]:
    """The contract's shape of an error."""
    inner = {"code": error.code, "message": error.message}
    if error.remedy is not None:
        inner["remedy"] = error.remedy
    return {"error": inner}


def camel_case(name: str) -> str:
    """``source_path`` to ``sourcePath``."""
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """The contract's JSON: measures by their usual names, then what they were measured with."""
    profile = evaluation.profile
    return {
        **_quality_json(evaluation.fused),
        "queries": evaluation.queries,
        "legs": {name: _quality_json(quality) for name, quality in evaluation.legs.items()},
        "latency_ms": {
            "p50": round(evaluation.latency.p50_ms, 2),
            "p95": round(evaluation.latency.p95_ms, 2),
        },
        "profile": {
            "name": profile.name,
            "version": profile.version,
            "calibrated": profile.calibrated,
        },
        "embedder": evaluation.embedder,
        "documents": evaluation.documents,
        "chunks": evaluation.chunks,
        "languages": dict(evaluation.languages),
        "whole": evaluation.whole,
        "degraded": dict(evaluation.degraded),
    }


def _quality_json(quality: Quality) -> dict[str, float]:
    return {
        "ndcg@10": round(quality.ndcg_at_10, 6),
        "recall@100": round(quality.recall_at_100, 6),
    }
