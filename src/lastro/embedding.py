"""Vectors for texts: from the cache where they are known, from the embedder where not."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lastro import store
from lastro.batching import Fed, as_degraded, feed
from lastro.db.pool import Database
from lastro.embedders import Embedder, Role, Served, fingerprint
from lastro.errors import Contention, EmbedderMismatch, ProviderError
from lastro.graphemes import is_blank
from lastro.metering import ProjectMeter, UsageLater, identifying
from lastro.store import ActiveEmbedder, AppConnection, Corpus
from lastro.types import Degraded

# No search waits for the disk, several milliseconds: a crash of the server costs the vectors of the
# last questions, which are made again.
QUESTION_KEPT = {"synchronous_commit": "off"}


@dataclass(frozen=True, slots=True)
class Embedded:
    """A vector for each text, in order, or None where there is none, and why not.

    ``failure`` ended the work; ``refused`` are single texts that the embedder would not take, by
    position. A blank text has neither.
    """

    vectors: list[NDArray[np.float32] | None]
    failure: Degraded | None
    refused: Mapping[int, Degraded] = field(default_factory=dict[int, Degraded])

    @property
    def why(self) -> Degraded | None:
        """What kept a text from its vector; None where nothing did."""
        return self.failure or next(iter(self.refused.values()), None)


def embed_texts(
    cache: Database,
    embedder: Embedder,
    texts: Sequence[str],
    *,
    role: Role,
    project_id: int | None = None,
    outage: Degraded | None = None,
    later: UsageLater | None = None,
) -> Embedded:
    """Embed ``texts``; a provider's failure is a value, never an exception.

    ``cache`` is the database that keeps the vectors for the next time; ``project_id`` whose texts
    these are there, None for no project's. It is charged for them; ``later`` may write that down.
    No transaction is open while the embedder works. A blank text has no vector. During an
    ``outage`` the cache alone is asked.
    Errors: EmbedderMismatch where a server's weights are no longer those of the index.
    """
    is_question = role == "query"
    meter = ProjectMeter(
        database=cache,
        embedder=embedder,
        role=role,
        project_id=project_id,
        kept=QUESTION_KEPT if is_question else None,
        later=later,
    )
    try:
        with identifying(embedder, meter):
            identity = fingerprint(embedder)
    except ProviderError as error:
        return Embedded([None] * len(texts), as_degraded(error))
    meter.version = embedder.version
    hashes = [_text_hash(embedder.prefixes[role] + text) for text in texts]
    with cache.session() as connection:
        known = store.cached_embeddings(connection, list(set(hashes)), fingerprint=identity)
    missing = {
        key: text
        for key, text in zip(hashes, texts, strict=True)
        if key not in known and not is_blank(text)
    }

    if not missing:
        return Embedded([known.get(key) for key in hashes], None)

    def keep(fresh: Mapping[bytes, NDArray[np.float32]]) -> None:
        with meter.transaction() as connection:
            store.cache_embeddings(
                connection,
                fresh,
                fingerprint=identity,
                first_project=store.QUESTIONS if is_question else project_id,
            )
        known.update(fresh)

    fed: Fed[bytes] = Fed(failure=outage)
    if outage is None:
        try:
            fed = feed(embedder, missing, role=role, keep=keep, meter=meter)
        finally:
            meter.finish()
    return Embedded(
        [known.get(key) for key in hashes],
        fed.failure,
        {n: fed.refused[key] for n, key in enumerate(hashes) if key in fed.refused},
    )


def require_same(active: ActiveEmbedder, embedder: Embedder) -> None:
    """Refuse to mix vector spaces. Errors: EmbedderMismatch.

    A served embedder is told which weights the index holds, so that a server that is down does
    not keep a search from being answered; it compares them when it next asks the server.
    """
    if active.id != embedder.id:
        raise mismatch(active, embedder)
    if isinstance(embedder, Served):
        embedder.recall(version=active.version, dimension=active.dimension)
    if active.fingerprint != fingerprint(embedder):
        raise mismatch(active, embedder)


def require_space(
    connection: AppConnection, corpus: Corpus, *, space: str, embedder: Embedder
) -> None:
    """Refuse to compare a vector of ``space``, a fingerprint, with those of another embedder.

    ``corpus`` was read in this transaction, in which the answer then stays true.
    Errors: Contention where the embedder was switched since its snapshot, EmbedderMismatch.
    """
    if not corpus.is_current:
        raise Contention("the embedder was switched meanwhile", remedy="run it again")
    if corpus.embedder != space:
        active = store.active_embedder(connection)
        assert active is not None
        raise mismatch(active, embedder)


def mismatch(active: ActiveEmbedder, embedder: Embedder) -> EmbedderMismatch:
    """The error that names both embedders and the way out."""
    way_out = f"switch with `lastro embedder switch {embedder.id}`"
    return EmbedderMismatch(
        f"this database holds vectors of {active.id} {active.version} "
        f"({active.dimension} dimensions), but {_named(active, embedder)} is configured",
        remedy=f"set LASTRO_EMBEDDER={active.id}, or {way_out}"
        if active.id != embedder.id
        else f"undo the change of its weights, prefixes or release, or {way_out}",
    )


def _named(active: ActiveEmbedder, embedder: Embedder) -> str:
    if isinstance(embedder, Served):
        # Its weights are the server's to tell, which may be down.
        same = active.id == embedder.id
        return f"{embedder.id} with other prefixes" if same else embedder.id
    return f"{embedder.id} {embedder.version} ({embedder.dimension})"


def _text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest()
