"""What every embedder promises, and the checks that hold it to its word."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lastro.errors import InvalidInput, ProviderError
from lastro.graphemes import is_blank
from lastro.metering_settings import MeteringSettings

Role = Literal["query", "document"]
NO_PREFIXES: Mapping[Role, str] = {"query": "", "document": ""}

# float32 sums of 4,000 squares err by less than 1e-4; anything wider was never normalised.
NORM_TOLERANCE = 1e-3
# What UTF-8 or PostgreSQL cannot hold, and what is read in its place.
_UNENCODABLE = dict.fromkeys(range(0xD800, 0xE000), "\ufffd") | {0: " "}


class Embedder(Protocol):
    """Texts to vectors, offline or by a service; one object is shared by all threads.

    ``version`` changes whenever vectors would; ``max_chars`` is the longest text read whole, of
    a longer one only the beginning counts; ``prefixes`` is what each role puts before a text.
    """

    @property
    def id(self) -> str:
        """Name under which settings select it."""
        ...

    @property
    def version(self) -> str:
        """Code and weights behind the vectors."""
        ...

    @property
    def dimension(self) -> int:
        """Width of every vector."""
        ...

    @property
    def max_chars(self) -> int:
        """Characters (code points) read of a text."""
        ...

    @property
    def prefixes(self) -> Mapping[Role, str]:
        """Text put before each input, by role."""
        ...

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """Return one unit vector a text, in order: float32, shape (len(texts), dimension).

        Errors: InvalidInput for a blank text; ProviderError when the provider fails.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many texts an embedder is given at once.

    The first call has ``first_texts``; the number doubles while a call takes less than
    ``pace_s``, up to ``texts``. A call with more than one text has at most ``chars`` characters.
    """

    # Enough to amortise a call, few enough to lose little.
    texts: int = 64
    chars: int = 1_000_000
    first_texts: int = 64
    pace_s: float = math.inf


LOCAL = Limits()


@dataclass(slots=True)
class Call:
    """A request under way: who makes it says what came of it.

    ``tokens`` are those that the reply counted; ``is_free`` that the provider did nothing for it.
    """

    tokens: int | None = None
    is_free: bool = False
    was_made: bool = True


# Opened around each request with the texts that it carries; it may refuse the request.
Meter = Callable[[Sequence[str]], AbstractContextManager[Call]]


def unmetered(_texts: Sequence[str]) -> AbstractContextManager[Call]:
    """The meter that counts nothing and refuses nothing."""
    return nullcontext(Call())


@runtime_checkable
class Served(Protocol):
    """What an embedder behind a server has beside: its weights are known to the server alone."""

    limits: Limits
    metering: MeteringSettings

    @property
    def configured(self) -> str:
        """What of its identity follows from settings, without asking the server."""
        ...

    def recall(self, *, version: str, dimension: int) -> None:
        """Be told the weights behind an index: what counts while the server is not asked."""
        ...

    def metered(self, meter: Meter) -> AbstractContextManager[None]:
        """Within it, each request with texts that this thread makes goes through ``meter``."""
        ...

    def outage(self) -> ProviderError | None:
        """What keeps searches from asking the server now; None where nothing does."""
        ...

    def identify(self) -> None:
        """Ask the server for its weights now.

        Errors: ProviderError; EmbedderMismatch where they are not those that were recalled.
        """
        ...


def limits_of(embedder: Embedder) -> Limits:
    """How many texts ``embedder`` is given at once."""
    return embedder.limits if isinstance(embedder, Served) else LOCAL


def configured(embedder: Embedder) -> str:
    """The part of an embedder's identity that is known while its server is down.

    A document's fingerprint holds this one, so that a document stored without vectors is the same
    document when the server is back. The vectors themselves are held together by
    ``fingerprint``.
    """
    return embedder.configured if isinstance(embedder, Served) else fingerprint(embedder)


def fingerprint(embedder: Embedder) -> str:
    """Name everything that decides a vector: the cache's key and the index's identity.

    Errors: ProviderError where only a server knows its weights, and nobody told of them.
    """
    parts = {
        "id": embedder.id,
        "version": embedder.version,
        "dimension": embedder.dimension,
        "maxChars": embedder.max_chars,
        "prefixes": dict(embedder.prefixes),
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    return f"{embedder.id}@{embedder.version}/{embedder.dimension}#{digest}"


def readable(texts: Sequence[str], *, max_chars: int) -> list[str]:
    """Return what an embedder reads of each text: encodable as UTF-8, at most ``max_chars``.

    Lone surrogates become U+FFFD and NUL a blank; leading blanks of an overlong text do not
    count. Errors: InvalidInput for a blank text, naming its position.
    """
    return [_readable(text, index, max_chars=max_chars) for index, text in enumerate(texts)]


def _readable(text: str, index: int, *, max_chars: int) -> str:
    head = text if len(text) <= max_chars else text.lstrip()[:max_chars]
    if is_blank(head):
        raise InvalidInput(
            f"text {index} is blank and has no meaning to embed", remedy="leave blank texts out"
        )
    return head.translate(_UNENCODABLE)


def checked(
    vectors: object, *, texts: Sequence[str], dimension: int, embedder: str
) -> NDArray[np.float32]:
    """Return ``vectors`` as float32 once they fit ``texts``: count, width, finiteness, unit norm.

    ``embedder`` is the id named in the message. Errors: ProviderError, ``embedder_bad_reply``.
    """
    array = _as_matrix(vectors, embedder=embedder)
    if array.shape != (len(texts), dimension):
        raise _bad_reply(
            embedder,
            f"answered shape {array.shape} to {len(texts)} texts, not {(len(texts), dimension)}",
        )
    norms = np.sqrt(np.einsum("ij,ij->i", array, array, dtype=np.float64))
    wrong = np.flatnonzero(~(np.abs(norms - 1.0) <= NORM_TOLERANCE))
    if wrong.size:
        first = int(wrong[0])
        raise _bad_reply(
            embedder, f"answered text {first} with a vector of norm {norms[first]:g}, not 1"
        )
    return array


def _as_matrix(vectors: object, *, embedder: str) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            return np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise _bad_reply(embedder, f"did not answer a list of vectors: {error}") from error


def _bad_reply(embedder: str, what: str) -> ProviderError:
    return ProviderError(f"embedder {embedder} {what}", reason="embedder_bad_reply")
