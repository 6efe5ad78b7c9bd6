"""Ollama's embedding models, over POST /api/embed."""

import hashlib
import json
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from lastro.embedders.breaker import Breaker
from lastro.embedders.ollama_client import OllamaClient, Reply
from lastro.embedders.ollama_models import canonical, is_same, known_dimension, known_model
from lastro.embedders.outage import OutageNote
from lastro.embedders.protocol import Limits, Meter, Role, checked, readable, unmetered
from lastro.errors import ConfigError, EmbedderMismatch, ProviderError
from lastro.metering_settings import MeteringSettings
from lastro.ollama_settings import PREFIX, OllamaSettings

# Longer than any chunk; the server refuses what its model cannot hold (truncate: false).
MAX_CHARS = 100_000
# halfvec's index holds no wider vector. Source: pgvector's documentation.
MAX_DIMENSION = 4_000
# As `ollama list` shows it.
_VERSION_CHARS = 12
# In the folder for caches.
NOTE_NAME = "ollama-outage.json"
# The weights of a server that does not tell its digests.
UNDECLARED = "undeclared"
# A model may be pulled anew under a server that runs for months.
_IDENTITY_TTL_S = 60.0
_FIRST_TEXTS = 4
# A batch that takes a quarter of its deadline has room for longer texts.
_PACE = 0.25
_PROBES = ("anchor", "a chain of nine links", "farol", "high water at noon", "灯塔", "ballast 7")
# Some versions of Ollama gave a batch in another order, or drifted with its size.
_SAME_COSINE = 0.999
# A server that takes so long for a word gains nothing from batches.
_SLOW_S = 1.0
# Marks of the beginning and the end of a text are counted, or not.
_WINDOW_MARGIN = 2


@dataclass(frozen=True, slots=True)
class _Weights:
    version: str
    dimension: int


class OllamaEmbedder:
    """One model of one Ollama server; nothing is asked before its first text.

    ``version`` is the beginning of the model's digest. It and ``dimension`` are what an index
    recalled, else what the server says: reading them raises ProviderError where neither is known.
    In ``cache_dir`` an outage is noted for other processes.
    """

    max_chars: int = MAX_CHARS

    def __init__(
        self,
        model: str,
        *,
        host: str,
        settings: OllamaSettings | None = None,
        metering: MeteringSettings | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        if not model or model != model.strip():
            raise ConfigError(
                f"{PREFIX}{model} names no model", remedy=f"for example {PREFIX}nomic-embed-text"
            )
        self._model = model
        self._settings = settings or OllamaSettings()
        self._known = known_model(model)
        self._client = OllamaClient(host, connect_timeout_s=self._settings.connect_timeout_s)
        self._breaker = Breaker(
            retry_after_s=self._settings.retry_after_s, note=self._note(cache_dir)
        )
        self._lock = threading.Lock()
        self._asking = _Asking()
        self._recalled: _Weights | None = None
        self._learned: _Weights | None = None
        self._learned_at = 0.0
        self._batches: bool | None = None
        self._proven_texts = len(_PROBES)
        self.id = PREFIX + canonical(model)
        self.metering = metering or MeteringSettings()
        self.limits = Limits(
            texts=self._settings.batch_texts,
            chars=self._settings.batch_chars,
            first_texts=min(_FIRST_TEXTS, self._settings.batch_texts),
            pace_s=self._settings.document_timeout_s * _PACE,
        )
        own, known = self._settings, self._known
        self.prefixes: Mapping[Role, str] = {
            "query": known.query_prefix if own.query_prefix is None else own.query_prefix,
            "document": (
                known.document_prefix if own.document_prefix is None else own.document_prefix
            ),
        }

    @property
    def configured(self) -> str:
        """Model, prefixes and what is read of a text: all but the weights."""
        parts = json.dumps([self.max_chars, dict(self.prefixes)], sort_keys=True)
        return f"{self.id}#{hashlib.sha256(parts.encode()).hexdigest()[:16]}"

    @property
    def version(self) -> str:
        """The weights. Errors: ProviderError where the server must be asked and fails."""
        return self._weights().version

    @property
    def dimension(self) -> int:
        """Width of every vector. Errors: ProviderError, as ``version``."""
        return self._weights().dimension

    def recall(self, *, version: str, dimension: int) -> None:
        """Be told the weights behind an index."""
        told = _Weights(version, dimension)
        if told != self._recalled:
            self._recalled, self._learned = told, None

    @contextmanager
    def metered(self, meter: Meter) -> Generator[None]:
        """Within it, each request with texts that this thread makes goes through ``meter``."""
        before, self._asking.meter = self._asking.meter, meter
        try:
            yield
        finally:
            self._asking.meter = before

    def outage(self) -> ProviderError | None:
        """What keeps searches from asking the server now; None where nothing does."""
        return self._breaker.outage()

    def identify(self) -> None:
        """Ask the server for its weights now. Errors: ProviderError, EmbedderMismatch."""
        self._breaker.watch(self._learn_patiently)

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """Return one unit vector a text, in order.

        Errors: InvalidInput for a blank text; EmbedderMismatch where the server has other weights
        than the index; ProviderError otherwise.
        """
        read = [self.prefixes[role] + text for text in readable(texts, max_chars=MAX_CHARS)]
        if not read:
            return np.empty((0, self.dimension), dtype=np.float32)
        # Searches are spared an outage; an index run finds out for itself, once.
        ask = self._breaker.call if role == "query" else self._breaker.watch
        alone = role == "query" and len(read) == 1
        vectors = ask(lambda: (self._embed_question if alone else self._embed_many)(read))
        return checked(vectors, texts=texts, dimension=self.dimension, embedder=self.id)

    def _embed_question(self, read: list[str]) -> NDArray[np.float32]:
        """One text, identity and vector together within the time that a search may lose."""
        ends = time.monotonic() + self._settings.query_timeout_s
        self._stay_identified(deadline_s=self._settings.query_timeout_s)
        return self._request(read, deadline_s=max(ends - time.monotonic(), 0.001))

    def _embed_many(self, read: list[str]) -> NDArray[np.float32]:
        deadline_s = self._settings.document_timeout_s
        self._stay_identified(deadline_s=deadline_s)
        if len(read) > 1 and self._batches is None:
            self._batches = self._batches_agree()
        made: list[NDArray[np.float32]] = []
        for part in self._parts(read, size=self.limits.texts if self._batches else 1):
            made.append(self._request(part, deadline_s=deadline_s))
            if len(part) > self._proven_texts:
                self._batches = self._is_proven(part, made[-1])
                if not self._batches:
                    return self._embed_many(read)
                self._proven_texts = len(part)
        return np.concatenate(made)

    def _is_proven(self, part: list[str], vectors: NDArray[np.float32]) -> bool:
        """Whether the last text of the largest batch so far has the vector that it has alone.

        Servers have drifted with the size of a batch where small ones were right.
        """
        [alone] = self._request(part[-1:], deadline_s=self._settings.document_timeout_s)
        return bool(alone @ vectors[-1] > _SAME_COSINE)

    def _parts(self, read: list[str], *, size: int) -> Iterator[list[str]]:
        """Texts by request; one that may exceed the model's window is alone in its own."""
        part: list[str] = []
        chars = 0
        for text in read:
            alone = self._may_be_cut(text)
            full = len(part) >= size or chars + len(text) > self.limits.chars
            if part and (alone or full or self._may_be_cut(part[-1])):
                yield part
                part, chars = [], 0
            part.append(text)
            chars += len(text)
        yield part

    def _may_be_cut(self, text: str) -> bool:
        # A token is at least one byte.
        window = self._known.window_tokens
        return window is not None and len(text.encode()) >= window - _WINDOW_MARGIN

    def _note(self, cache_dir: Path | None) -> OutageNote | None:
        """Where an outage is told to other commands, each a process of its own."""
        own = self._settings
        asked = [self._client.url, self._model, own.connect_timeout_s, own.query_timeout_s]
        return cache_dir and OutageNote(path=cache_dir / NOTE_NAME, about=json.dumps(asked))

    # --- one request

    def _request(self, read: list[str], *, deadline_s: float) -> NDArray[np.float32]:
        reply = self._post(read, deadline_s=deadline_s)
        vectors = self._vectors(reply, count=len(read), width=self.dimension)
        self._refuse_cut(read, reply)
        return vectors

    def _post(self, read: list[str], *, deadline_s: float) -> Reply:
        body: dict[str, Any] = {"model": self._model, "input": read, "truncate": False}
        if self._settings.keep_alive:
            body["keep_alive"] = self._settings.keep_alive
        with self._asking.meter(read) as call:
            reply = self._client.post("/api/embed", body, deadline_s=deadline_s)
            call.is_free = reply.status != 200
            call.tokens = _count(reply.body.get("prompt_eval_count"))
        if reply.status != 200:
            self._raise_refusal(reply)
        return reply

    def _raise_refusal(self, reply: Reply) -> NoReturn:
        if reply.status == 404 and "model" in reply.said:
            self._learned = None
            raise ProviderError(
                f"Ollama at {self._client.url} has no model {self._model}",
                reason="embedder_model_missing",
                remedy=f"run `ollama pull {self._model}` where it runs",
            )
        what = "redirects" if 300 <= reply.status < 400 else f"refused: {reply.said}"
        raise ProviderError(
            f"Ollama at {self._client.url} {what} (HTTP {reply.status})",
            reason="embedder_refused",
            remedy="set OLLAMA_HOST to Ollama's own address" if what == "redirects" else None,
        )

    def _vectors(self, reply: Reply, *, count: int, width: int | None) -> NDArray[np.float32]:
        """The reply's vectors at unit length, checked before any is paired with a text."""
        rows = _as_list(reply.body.get("embeddings"))
        if rows is None or len(rows) != count:
            found = "no list of" if rows is None else str(len(rows))
            raise self._bad_reply(f"answered {found} vectors to {count} texts")
        try:
            array: NDArray[Any] = np.asarray(rows)
        except (ValueError, OverflowError) as error:
            raise self._bad_reply("answered vectors of several widths") from error
        if array.ndim != 2 or array.dtype.kind not in "fi":
            raise self._bad_reply("answered vectors that are not of numbers")
        if width is not None and array.shape[1] != width:
            raise self._bad_reply(f"answered {array.shape[1]} dimensions where {width} are due")
        return self._unit(array.astype(np.float64))

    def _unit(self, array: NDArray[np.float64]) -> NDArray[np.float32]:
        largest = np.abs(array).max(axis=1, initial=0.0, keepdims=True)
        if not np.isfinite(largest).all():
            raise self._bad_reply("answered a vector with numbers that are not finite")
        if not (largest > 0).all():
            raise self._bad_reply("answered a zero vector")
        scaled = array / largest
        return (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)

    def _refuse_cut(self, read: list[str], reply: Reply) -> None:
        """Refuse a text that fills the model's window although cutting was forbidden."""
        window, counted = self._known.window_tokens, _count(reply.body.get("prompt_eval_count"))
        if window is None or len(read) > 1 or not self._may_be_cut(read[0]):
            return
        if counted is not None and abs(counted - window) <= _WINDOW_MARGIN:
            raise ProviderError(
                f"{self.id} read {counted} tokens of a longer text: its window is full",
                reason="embedder_refused",
            )

    def _bad_reply(self, what: str) -> ProviderError:
        return ProviderError(
            f"Ollama at {self._client.url} {what}",
            reason="embedder_bad_reply",
            remedy="read the log of Ollama there, or install a newer one",
        )

    # --- identity

    def _weights(self) -> _Weights:
        known = self._recalled or self._learned
        if known is not None:
            return known
        return self._breaker.call(self._learn_patiently)

    def _learn_patiently(self) -> _Weights:
        """A look at the server's models, and the time for a model to load where it is probed."""
        own = self._settings
        return self._learn(deadline_s=own.query_timeout_s, probe_s=own.document_timeout_s)

    def _stay_identified(self, *, deadline_s: float) -> None:
        now = time.monotonic()
        if self._learned is None or now - self._learned_at > _IDENTITY_TTL_S:
            self._learn(deadline_s=deadline_s, probe_s=deadline_s)

    def _learn(self, *, deadline_s: float, probe_s: float) -> _Weights:
        before = self._recalled or self._learned
        version = self._digest(deadline_s=deadline_s)
        if before is not None:
            if UNDECLARED not in (version, before.version) and version != before.version:
                raise self._other_weights(before, version)
            learned = before
        else:
            dimension = known_dimension(self._model)
            if dimension is None:
                dimension = self._probe_width(deadline_s=probe_s)
            learned = _Weights(version, dimension)
        self._refuse_too_wide(learned.dimension)
        with self._lock:
            self._learned, self._learned_at = learned, time.monotonic()
        return learned

    def _digest(self, *, deadline_s: float) -> str:
        """The beginning of the model's digest; UNDECLARED where the server does not tell."""
        reply = self._client.get("/api/tags", deadline_s=deadline_s)
        if reply.status in (500, 502, 503, 504, 429):
            self._raise_refusal(reply)
        for entry in _as_list(reply.body.get("models")) or ():
            digest = _digest_of(entry, model=self._model)
            if digest is not None:
                return digest
        return UNDECLARED

    def _probe_width(self, *, deadline_s: float) -> int:
        reply = self._post([self.prefixes["document"] + _PROBES[0]], deadline_s=deadline_s)
        return self._vectors(reply, count=1, width=None).shape[1]

    def _refuse_too_wide(self, dimension: int) -> None:
        if dimension > MAX_DIMENSION:
            raise ConfigError(
                f"{self.id} makes {dimension} dimensions; an index holds at most {MAX_DIMENSION}",
                remedy="choose a smaller model of the family in LASTRO_EMBEDDER",
            )

    def _other_weights(self, before: _Weights, version: str) -> EmbedderMismatch:
        return EmbedderMismatch(
            f"this database holds vectors of {self.id} {before.version}, but the server's "
            f"{self.id} is {version} now: the model was pulled again",
            remedy="give the server the model that it had, or switch with "
            f"`lastro embedder switch {self.id}`",
        )

    # --- batches

    def _batches_agree(self) -> bool:
        """Whether a batch gives each text the vector that it has alone, in the texts' order."""
        deadline_s = self._settings.document_timeout_s
        alone: list[NDArray[np.float32]] = []
        for number, probe in enumerate(_PROBES):
            started = time.monotonic()
            alone.append(self._request([probe], deadline_s=deadline_s))
            # The first one may wait for the model to load.
            if number and time.monotonic() - started > _SLOW_S:
                return False
        try:
            together = self._request(list(_PROBES), deadline_s=deadline_s)
        except ProviderError as error:
            if error.reason == "embedder_bad_reply":
                return False
            raise
        cosines = np.einsum("ij,ij->i", np.concatenate(alone), together)
        return bool((cosines > _SAME_COSINE).all())


class _Asking(threading.local):
    """Who counts the requests of a thread."""

    def __init__(self) -> None:
        self.meter: Meter = unmetered


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None


def _as_list(value: object) -> list[object] | None:
    return cast("list[object]", value) if isinstance(value, list) else None


def _digest_of(entry: object, *, model: str) -> str | None:
    if not isinstance(entry, dict):
        return None
    told = cast("dict[str, object]", entry)
    digest = told.get("digest")
    if not isinstance(digest, str) or not digest:
        return None
    names = (told.get("name"), told.get("model"))
    if any(isinstance(name, str) and is_same(name, model) for name in names):
        return digest.removeprefix("sha256:")[:_VERSION_CHARS]
    return None
