"""Settings, read once: environment first, then ``lastro.toml``, then the defaults."""

import math
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from lastro.chunk_settings import ChunkSettings
from lastro.db.postmaster import IDLE_S
from lastro.errors import ConfigError, InvalidInput
from lastro.http_settings import HttpSettings
from lastro.iso_639 import LANGUAGE_CODES
from lastro.job import PROBE_INTERVAL_S, WORKER_LOST_S
from lastro.metering_settings import MeteringSettings
from lastro.ollama_settings import DEFAULT_HOST, OllamaSettings
from lastro.sources.files import FilePatterns
from lastro.types import LOG_QUERIES, LogQueries

CONFIG_FILE = "lastro.toml"
ROOT_HOME = Path("/var/lib/lastro")
DEFAULT_EMBEDDER = "use-m3"
DEFAULT_LANGUAGES = ("en", "pt", "zh")
# Silence of a Git server after which it is given up.
GIT_TIMEOUT_S = 120.0
# Equal questions can be counted, and none can be read: see docs/adr/0044.
DEFAULT_LOG_QUERIES: LogQueries = "hash"
# Long enough to look back at last week from a holiday; MOST: no interval of PostgreSQL overflows.
DEFAULT_SEARCH_LOG_DAYS = 30
MOST_SEARCH_LOG_DAYS = 36_500

_KEYS = frozenset(
    {
        "home",
        "database_url",
        "admin_database_url",
        "embedder",
        "ollama_host",
        "ollama",
        "metering",
        "http",
        "project",
        "languages",
        "postgres_bin",
        "idle_stop_s",
        "git_timeout_s",
        "worker_lost_s",
        "probe_interval_s",
        "log_queries",
        "search_log_days",
        "chunking",
        "files",
        "profiles",
    }
)
_TABLES = frozenset({"chunking", "files", "http", "metering", "ollama", "profiles"})
# Those of which the environment may set single entries.
_SET_BY_ENTRY: Mapping[str, type] = {
    "http": HttpSettings,
    "metering": MeteringSettings,
    "ollama": OllamaSettings,
}
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a process needs to know before it starts.

    ``idle_stop_s`` None keeps the embedded server up for good; ``search_log_days`` 0 keeps no row
    of the log of searches. ``origins`` says where each setting that is not a default came from.
    """

    home: Path
    database_url: str | None = None
    admin_database_url: str | None = None
    embedder: str = DEFAULT_EMBEDDER
    ollama_host: str = DEFAULT_HOST
    ollama: OllamaSettings = field(default_factory=OllamaSettings)
    metering: MeteringSettings = field(default_factory=MeteringSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    project: str | None = None
    languages: tuple[str, ...] = DEFAULT_LANGUAGES
    postgres_bin: Path | None = None
    idle_stop_s: float | None = IDLE_S
    git_timeout_s: float = GIT_TIMEOUT_S
    worker_lost_s: float = WORKER_LOST_S
    probe_interval_s: float = PROBE_INTERVAL_S
    log_queries: LogQueries = DEFAULT_LOG_QUERIES
    search_log_days: int = DEFAULT_SEARCH_LOG_DAYS
    chunking: ChunkSettings = field(default_factory=ChunkSettings)
    files: FilePatterns = field(default_factory=FilePatterns)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    config_file: Path | None = None
    origins: Mapping[str, str] = field(default_factory=dict[str, str])


def default_home() -> Path:
    """The platform's data folder; as root ``/var/lib/lastro``."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return ROOT_HOME
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "lastro"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "lastro"
    # The XDG base directory specification: a relative path is to be ignored.
    stated = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (stated if stated.is_absolute() else Path.home() / ".local" / "share") / "lastro"


def load_settings(
    environ: Mapping[str, str] | None = None, *, folder: Path | None = None
) -> Settings:
    """Read settings from ``environ`` and the ``lastro.toml`` of ``folder``.

    Errors: ConfigError for an unknown key, a wrong type or an unreadable file.
    """
    env = os.environ if environ is None else environ
    path = (folder or Path.cwd()) / CONFIG_FILE
    table = _read_table(path)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key in sorted(_KEYS):
        if key not in _TABLES and env.get(f"LASTRO_{key.upper()}"):
            values[key], origins[key] = env[f"LASTRO_{key.upper()}"], "environment"
        elif key in table:
            values[key], origins[key] = table[key], str(path)
    if env.get("OLLAMA_HOST") and origins.get("ollama_host") != "environment":
        values["ollama_host"], origins["ollama_host"] = env["OLLAMA_HOST"], "environment"
    for key, kind in _SET_BY_ENTRY.items():
        for name in (entry.name for entry in fields(kind)):
            variable = f"LASTRO_{key}_{name}".upper()
            if env.get(variable):
                default = getattr(kind(), name)
                entry = _entry_of_text(env[variable], default=default, variable=variable)
                values[key] = _with_entry(values.get(key, {}), name, entry)
                origins[f"{key}.{name}"] = "environment"
    return _build(values, origins=origins, config_file=path if table else None)


def _with_entry(table: object, name: str, entry: object) -> object:
    """A table with a variable's value in it."""
    if not isinstance(table, dict):
        return table  # refused later, as what it is
    return {**cast("dict[str, object]", table), name: entry}


def _entry_of_text(text: str, *, default: object, variable: str) -> object:
    """What a variable says; a number where the setting is one. Errors: ConfigError."""
    if not isinstance(default, int | float):
        return text
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError as error:
        raise ConfigError(f"{variable} must be a number, not {text!r}") from error


def _read_table(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", remedy="mend the file") from error
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise ConfigError(
            f"{path} has unknown keys: {', '.join(unknown)}",
            remedy=f"known keys are {', '.join(sorted(_KEYS))}",
        )
    return table


def _build(
    values: Mapping[str, Any], *, origins: Mapping[str, str], config_file: Path | None
) -> Settings:
    return Settings(
        home=(_path(values, "home") or default_home()).expanduser().absolute(),
        database_url=_text(values, "database_url"),
        admin_database_url=_text(values, "admin_database_url"),
        embedder=_text(values, "embedder") or DEFAULT_EMBEDDER,
        ollama_host=_text(values, "ollama_host") or DEFAULT_HOST,
        ollama=_section(OllamaSettings, values.get("ollama", {}), name="ollama"),
        metering=_section(MeteringSettings, values.get("metering", {}), name="metering"),
        http=_section(HttpSettings, values.get("http", {}), name="http"),
        project=_text(values, "project"),
        languages=_languages(values.get("languages", DEFAULT_LANGUAGES)),
        postgres_bin=_path(values, "postgres_bin"),
        idle_stop_s=_idle(values.get("idle_stop_s", IDLE_S)),
        git_timeout_s=_positive(values, "git_timeout_s", GIT_TIMEOUT_S, example="300"),
        worker_lost_s=_positive(values, "worker_lost_s", WORKER_LOST_S, example="30"),
        probe_interval_s=_positive(values, "probe_interval_s", PROBE_INTERVAL_S, example="60"),
        log_queries=_log_queries(values.get("log_queries", DEFAULT_LOG_QUERIES)),
        search_log_days=_days(values.get("search_log_days", DEFAULT_SEARCH_LOG_DAYS)),
        chunking=_section(ChunkSettings, values.get("chunking", {}), name="chunking"),
        files=_section(FilePatterns, values.get("files", {}), name="files"),
        profiles=_profiles(values.get("profiles", {})),
        config_file=config_file,
        origins=origins,
    )


def _text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{key} must be text, not {value!r}")
    return value or None


def _path(values: Mapping[str, Any], key: str) -> Path | None:
    value = _text(values, key)
    return Path(value) if value else None


def _idle(value: object) -> float | None:
    seconds = _seconds(value, name="idle_stop_s", remedy="0 keeps the server up")
    return seconds if seconds > 0 else None


def _positive(values: Mapping[str, Any], key: str, default: float, *, example: str) -> float:
    remedy = f"for example {example}"
    seconds = _seconds(values.get(key, default), name=key, remedy=remedy)
    if seconds <= 0:
        raise ConfigError(f"{key} must be above 0", remedy=remedy)
    return seconds


def _seconds(value: object, *, name: str, remedy: str) -> float:
    try:
        seconds = float(str(value))
    except ValueError as error:
        raise ConfigError(f"{name} must be seconds, not {value!r}", remedy=remedy) from error
    if not math.isfinite(seconds):
        raise ConfigError(f"{name} must be seconds, not {value!r}", remedy=remedy)
    return seconds


def _log_queries(value: object) -> LogQueries:
    for known in LOG_QUERIES:
        if known == value:
            return known
    raise ConfigError(
        f"log_queries must be one of {', '.join(LOG_QUERIES)}, not {value!r}",
        remedy="`hash` keeps no question that can be read",
    )


def _days(value: object) -> int:
    text = str(value)
    days = int(text) if text.isascii() and text.isdecimal() else -1
    if not 0 <= days <= MOST_SEARCH_LOG_DAYS:
        raise ConfigError(
            f"search_log_days must be a whole number up to {MOST_SEARCH_LOG_DAYS}, not {value!r}",
            remedy="for example 30; 0 keeps no search",
        )
    return days


def _languages(value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise ConfigError(f"languages must be a list of ISO 639-1 codes, not {value!r}")
    codes = tuple(dict.fromkeys(str(part).strip() for part in cast("list[object]", parts)))
    wrong = [code for code in codes if code not in LANGUAGE_CODES]
    if wrong or not codes:
        raise ConfigError(
            f"languages must be ISO 639-1 codes of two letters, not {wrong or 'nothing'}",
            remedy="for example LASTRO_LANGUAGES=en,pt,zh",
        )
    return codes


def _profiles(value: object) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, dict) or not all(
        isinstance(entry, dict) for entry in cast("dict[str, object]", value).values()
    ):
        raise ConfigError("profiles must be tables, for example [profiles.mine]")
    return cast("Mapping[str, Mapping[str, Any]]", value)


def _section(kind: type[T], value: object, *, name: str) -> T:
    if not isinstance(value, dict):
        raise ConfigError(f"[{name}] must be a table")
    defaults = kind()
    entries = {
        str(key): _entry(getattr(defaults, str(key), None), entry, name=f"[{name}] {key}")
        for key, entry in cast("dict[object, object]", value).items()
    }
    try:
        return kind(**entries)
    except (TypeError, InvalidInput) as error:
        raise ConfigError(f"[{name}] is not understood: {error}") from error


def _entry(default: object, value: object, *, name: str) -> object:
    """A value of the same kind as its default; an unknown key has none and is refused later."""
    match default:
        case bool():
            is_right, kind = isinstance(value, bool), "true or false"
        case int():
            is_right, kind = type(value) is int, "a whole number"
        case float():
            is_right = isinstance(value, int | float) and not isinstance(value, bool)
            kind = "a number"
        case tuple():
            items = cast("list[object]", value) if isinstance(value, list) else []
            value = tuple(items)
            is_right = bool(items) and all(isinstance(item, str) for item in items)
            kind = "a list of texts"
        case _:
            return value
    if not is_right:
        raise ConfigError(f"{name} must be {kind}, not {value!r}")
    return value
