"""Vectors for texts: from the cache where they are known, from the embedder where not."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lastro import store
from lastro.db.pool import Database
from lastro.embedders import Embedder, Role, checked, fingerprint, is_blank
from lastro.errors import ProviderError
from lastro.types import Degraded

# Texts in one call of an embedder: enough to amortise it, few enough to lose little.
BATCH_TEXTS = 64


@dataclass(frozen=True, slots=True)
class Embedded:
    """A vector for each text, in order, or None where there is none, and why not."""

    vectors: list[NDArray[np.float32] | None]
    failure: Degraded | None


def embed_texts(
    cache: Database,
    embedder: Embedder,
    texts: Sequence[str],
    *,
    role: Role,
    first_project: int | None = None,
) -> Embedded:
    """Embed ``texts``; a provider's failure is a value, never an exception.

    ``cache`` is the database that keeps the vectors for the next time; ``first_project`` whose
    texts these are there.
    No transaction is open while the embedder works. A blank text has no vector.
    """
    identity = fingerprint(embedder)
    hashes = [_text_hash(embedder.prefixes[role] + text) for text in texts]
    with cache.transaction() as connection:
        known = store.cached_embeddings(connection, list(set(hashes)), fingerprint=identity)
    missing = {
        key: text
        for key, text in zip(hashes, texts, strict=True)
        if key not in known and not is_blank(text)
    }
    failure: Degraded | None = None
    keys = list(missing)
    for start in range(0, len(keys), BATCH_TEXTS):
        batch = keys[start : start + BATCH_TEXTS]
        try:
            made = _embed_batch(embedder, [missing[key] for key in batch], role=role)
        except ProviderError as error:
            failure = _failure_of(error)
            break
        fresh = dict(zip(batch, made, strict=True))
        with cache.transaction() as connection:
            store.cache_embeddings(
                connection,
                fresh,
                fingerprint=identity,
                first_project=store.QUESTIONS if role == "query" else first_project,
            )
        known.update(fresh)
    return Embedded([known.get(key) for key in hashes], failure)


def _failure_of(error: ProviderError) -> Degraded:
    return Degraded(part="vector", reason=error.reason, detail=error.message)


def _embed_batch(embedder: Embedder, texts: Sequence[str], *, role: Role) -> NDArray[np.float32]:
    vectors = embedder.embed(texts, role)
    return checked(vectors, texts=texts, dimension=embedder.dimension, embedder=embedder.id)


def _text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest()
