"""Embedders: the Protocol, its checks, and one file for each provider."""

from pathlib import Path

from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedders.protocol import (
    Embedder,
    Role,
    checked,
    fingerprint,
    is_blank,
    readable,
)
from lastro.embedders.use_m3 import UseM3Embedder
from lastro.errors import ConfigError

__all__ = [
    "SHIPPED",
    "DeterministicEmbedder",
    "Embedder",
    "Role",
    "UseM3Embedder",
    "build_embedder",
    "checked",
    "fingerprint",
    "is_blank",
    "readable",
]

SHIPPED = ("use-m3", "deterministic")
# Named in the contract, not carried by this release.
_PLANNED_NAMES = ("minilm", "e5-small")
_PLANNED_KINDS = ("ollama:", "onnx:", "openai:")


def build_embedder(name: str, *, cache_dir: Path) -> Embedder:
    """Return the embedder called ``name``; nothing is loaded before its first text.

    ``cache_dir`` is where it may keep prepared forms of its model. Errors: ConfigError for an
    unknown name, and for a known one that this release does not carry.
    """
    if name == "use-m3":
        return UseM3Embedder(cache_dir=cache_dir)
    if name == "deterministic":
        return DeterministicEmbedder()
    known = f"available: {', '.join(SHIPPED)}"
    if name in _PLANNED_NAMES or name.startswith(_PLANNED_KINDS):
        raise ConfigError(
            f"embedder {name!r} is not part of this release", remedy=f"{known}; set LASTRO_EMBEDDER"
        )
    raise ConfigError(f"embedder {name!r} is unknown", remedy=f"{known}; set LASTRO_EMBEDDER")
