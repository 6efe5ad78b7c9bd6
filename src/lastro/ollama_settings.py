"""How Ollama is asked: deadlines, sizes of a request, prefixes. Pure."""

import math
from dataclasses import dataclass

from lastro.errors import InvalidInput

# What stands before a model's name in the name of an embedder.
PREFIX = "ollama:"
# Where Ollama listens by itself. Source: its documentation of OLLAMA_HOST.
DEFAULT_HOST = "http://127.0.0.1:11434"


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaSettings:
    """Everything beside the address and the model.

    ``query_timeout_s`` is the whole time that a search may lose; ``document_timeout_s`` is that
    of one request with a batch of documents. ``retry_after_s``: a server that was not reached or
    was late is not asked again by searches for so long. ``keep_alive`` is how long the server
    keeps the model in memory, in Ollama's words; empty leaves it to the server. A prefix of None
    is the one known for the model.
    """

    connect_timeout_s: float = 2.0
    # A model of 0.3 GB loads in one or two seconds; a search without vectors beats a longer wait.
    query_timeout_s: float = 5.0
    document_timeout_s: float = 120.0
    retry_after_s: float = 30.0
    batch_texts: int = 64
    batch_chars: int = 65_536
    # Ollama's own default is 5 minutes, after which the next search would wait for a load.
    keep_alive: str = "30m"
    query_prefix: str | None = None
    document_prefix: str | None = None

    def __post_init__(self) -> None:
        for name in (
            "connect_timeout_s",
            "query_timeout_s",
            "document_timeout_s",
            "retry_after_s",
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidInput(f"{name} must be seconds above 0, not {value!r}")
        for name in ("batch_texts", "batch_chars"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, not {getattr(self, name)!r}")
        for name in ("keep_alive", "query_prefix", "document_prefix"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InvalidInput(f"{name} must be text, not {value!r}")
