"""``lastro config``: every setting with its value and where it came from; starts nothing."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from lastro.cli.options import Format, FormatOption
from lastro.cli.output import print_data, print_json
from lastro.cli.tables import table
from lastro.config import Settings, load_settings
from lastro.wire import to_json

MASK = "***"
NO_LIMIT = "no limit"
DEFAULT_ORIGIN = "default"
# Not settings: what was read, and from where.
_OTHER_FIELDS = frozenset({"config_file", "origins"})
_SECRETS = frozenset({"http.webhook_secret"})
_USER_INFO = re.compile(r"^(\w+://)?([^:@/]*):(?!//).*@", re.DOTALL)
_SECRET = re.compile(r"((?:ssl)?password\s*=\s*)('(?:\\.|[^'\\])*'?|[^\s&]+)", re.IGNORECASE)


def config(*, format_: FormatOption = Format.TABLE) -> None:
    """Show every setting with its value and where it came from; starts nothing."""
    settings = load_settings()
    rows = [
        {"name": name, "value": masked(value), "origin": origin}
        for name, value, origin in described(settings)
    ]
    if format_ is Format.JSON:
        told = [{**row, "value": _finite(row["value"])} for row in rows]
        print_json({"settings": told, "configFile": to_json(settings.config_file)})
    else:
        shown = [(row["name"], row["origin"], _shown(row["value"])) for row in rows]
        print_data(table(("setting", "from", "value"), shown))


def described(settings: Settings) -> Iterator[tuple[str, Any, str]]:
    """Name, JSON value and origin of each setting; sections as ``chunking.target``."""
    for field in fields(settings):
        if field.name in _OTHER_FIELDS:
            continue
        origin = settings.origins.get(field.name, DEFAULT_ORIGIN)
        for name, value in _parts(field.name, getattr(settings, field.name)):
            if name in _SECRETS and value:
                value = MASK
            yield name, to_json(value), settings.origins.get(name, origin)


def _parts(name: str, value: object) -> Iterator[tuple[str, object]]:
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield f"{name}.{field.name}", getattr(value, field.name)
    else:
        yield name, value


def masked(value: Any) -> Any:
    """A value without the passwords that an address may hold, however it is written."""
    if isinstance(value, str):
        hidden = _USER_INFO.sub(rf"\1\2:{MASK}@", value)
        return _SECRET.sub(rf"\1{MASK}", hidden)
    return value


def _finite(value: Any) -> Any:
    """A JSON value, which has no infinity: a limit that there is not is none."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return None if value == math.inf else value


def _shown(value: Any) -> str | None:
    if value == math.inf:
        return NO_LIMIT
    if isinstance(value, list):
        return ", ".join(str(entry) for entry in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, Mapping):
        return ", ".join(map(str, value)) or None  # pyright: ignore[reportUnknownArgumentType]
    return None if value is None else str(value)
