"""Texts to an embedder in batches that keep its pace; a text it refuses is found and left out.

Touches no database: what is made is handed over batch by batch, so that a failure loses one.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lastro.embedders import Embedder, Meter, Role, checked, limits_of, unmetered
from lastro.errors import ProviderError
from lastro.metering import metered
from lastro.types import Degraded, DegradedReason

# Of these a single text of the batch may be the cause; of the others the server is.
_PERHAPS_THE_TEXT: frozenset[DegradedReason] = frozenset({"embedder_refused", "embedder_bad_reply"})
# No embedder has a reason to refuse it: where it fails too, the text was not the cause.
PROBE = "ballast"

K = TypeVar("K")
Keep = Callable[[Mapping[K, NDArray[np.float32]]], None]


@dataclass(slots=True)
class Fed(Generic[K]):
    """What an embedder would not embed, by key, and the failure that ended it all, if any."""

    refused: dict[K, Degraded] = field(default_factory=dict[K, Degraded])
    failure: Degraded | None = None


def as_degraded(error: ProviderError) -> Degraded:
    """A provider's failure as an outcome tells it."""
    return Degraded(part="vector", reason=error.reason, detail=error.message)


def feed(
    embedder: Embedder,
    texts: Mapping[K, str],
    *,
    role: Role,
    keep: Keep[K],
    meter: Meter = unmetered,
) -> Fed[K]:
    """Embed every text that can be; ``keep`` is called with the vectors of each batch.

    ``meter`` counts each call.

    A batch that is refused is halved until the text that is refused stands alone; the others get
    their vectors. A batch that is late is tried again as single texts, once. Any other failure
    ends the work: an embedder that is down is asked once.
    Errors: EmbedderMismatch; a provider's failure is a value.
    """
    feeder = _Feeder(embedder=embedder, texts=texts, role=role, keep=keep, meter=meter)
    try:
        feeder.run()
    except ProviderError as error:
        feeder.fed.failure = as_degraded(error)
    return feeder.fed


@dataclass(slots=True, kw_only=True)
class _Feeder(Generic[K]):
    embedder: Embedder
    texts: Mapping[K, str]
    role: Role
    keep: Keep[K]
    meter: Meter
    fed: Fed[K] = field(default_factory=Fed[K])

    def run(self) -> None:
        limits = limits_of(self.embedder)
        keys = list(self.texts)
        size, largest = limits.first_texts, limits.texts
        while keys:
            batch = self._first(keys, size, max_chars=limits.chars)
            started = time.monotonic()
            try:
                self._settle(batch)
            except ProviderError as error:
                if error.reason != "embedder_timeout" or len(batch) == 1:
                    raise
                size = largest = 1
                continue
            del keys[: len(batch)]
            took_s = time.monotonic() - started
            size = min(largest, size * 2) if took_s < limits.pace_s else max(1, size // 2)

    def _first(self, keys: Sequence[K], size: int, *, max_chars: int) -> list[K]:
        batch: list[K] = []
        chars = 0
        for key in keys[:size]:
            chars += len(self.texts[key])
            if batch and chars > max_chars:
                break
            batch.append(key)
        return batch

    def _settle(self, batch: Sequence[K]) -> None:
        """Embed a batch, in halves where it is refused. Errors: ProviderError of the server."""
        try:
            made = self._embed([self.texts[key] for key in batch])
        except ProviderError as error:
            if error.reason not in _PERHAPS_THE_TEXT:
                raise
            if len(batch) == 1:
                self._refuse(batch[0], error)
                return
            middle = len(batch) // 2
            self._settle(batch[:middle])
            self._settle(batch[middle:])
            return
        self.keep(dict(zip(batch, made, strict=True)))

    def _refuse(self, key: K, error: ProviderError) -> None:
        """Leave a text out, once the embedder has shown that it takes another."""
        if len(self.texts) > 1:
            self._embed([PROBE])
        self.fed.refused[key] = as_degraded(error)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        embedder = self.embedder
        with metered(embedder, texts, self.meter):
            vectors = embedder.embed(texts, self.role)
        return checked(vectors, texts=texts, dimension=embedder.dimension, embedder=embedder.id)
