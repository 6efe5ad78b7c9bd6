"""Embedders: the Protocol, its checks, and one file for each provider."""

from pathlib import Path

from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedders.protocol import (
    Call,
    Embedder,
    Limits,
    Meter,
    Role,
    Served,
    checked,
    configured,
    fingerprint,
    limits_of,
    readable,
    unmetered,
)
from lastro.embedders.use_m3 import UseM3Embedder
from lastro.errors import ConfigError
from lastro.metering_settings import MeteringSettings
from lastro.ollama_settings import DEFAULT_HOST, OllamaSettings
from lastro.ollama_settings import PREFIX as OLLAMA

__all__ = [
    "SHIPPED",
    "Call",
    "DeterministicEmbedder",
    "Embedder",
    "Limits",
    "Meter",
    "Role",
    "Served",
    "UseM3Embedder",
    "build_embedder",
    "checked",
    "configured",
    "fingerprint",
    "limits_of",
    "readable",
    "unmetered",
]

SHIPPED = ("use-m3", "deterministic")
# Named in the contract, not carried by this release.
_PLANNED_NAMES = ("minilm", "e5-small")
_PLANNED_KINDS = ("onnx:", "openai:")


def build_embedder(
    name: str,
    *,
    cache_dir: Path,
    ollama_host: str = DEFAULT_HOST,
    ollama: OllamaSettings | None = None,
    metering: MeteringSettings | None = None,
) -> Embedder:
    """Return the embedder called ``name``; nothing is loaded or asked before its first text.

    ``cache_dir`` is where it may keep prepared forms of its model, or note an outage. Errors:
    ConfigError for an unknown name, for a known one that this release does not carry, and for
    Ollama's address.
    """
    if name == "use-m3":
        return UseM3Embedder(cache_dir=cache_dir)
    if name == "deterministic":
        return DeterministicEmbedder()
    if name.startswith(OLLAMA):
        # 10 ms that no other embedder's first search waits for.
        from lastro.embedders.ollama import OllamaEmbedder

        return OllamaEmbedder(
            name.removeprefix(OLLAMA),
            host=ollama_host,
            settings=ollama,
            metering=metering,
            cache_dir=cache_dir,
        )
    known = f"available: {', '.join(SHIPPED)}, {OLLAMA}<model>"
    if name in _PLANNED_NAMES or name.startswith(_PLANNED_KINDS):
        raise ConfigError(
            f"embedder {name!r} is not part of this release", remedy=f"{known}; set LASTRO_EMBEDDER"
        )
    raise ConfigError(f"embedder {name!r} is unknown", remedy=f"{known}; set LASTRO_EMBEDDER")
