"""Ollama's wire: addresses as its own client reads them, deadlines, and failures by reason."""

import ipaddress
import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from lastro.errors import ConfigError, ProviderError
from lastro.types import DegradedReason

if TYPE_CHECKING:
    from socket import socket

    from urllib3 import BaseHTTPResponse, PoolManager

DEFAULT_PORT = 11434
_SCHEME_PORTS = {"http": 80, "https": 443}
# Addresses that a server listens on, and the one under which it is then found here.
_LISTENING = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
# 64 vectors of 4,096 numbers of 22 characters are 6 MB.
MAX_REPLY_BYTES = 64 * 2**20
_PIECE_BYTES = 65_536
_MAX_SAID_CHARS = 200
_MAX_CONNECTIONS = 4
_REMEDIES: Mapping[DegradedReason, str] = {
    "embedder_unreachable": "start it with `ollama serve`, or set OLLAMA_HOST",
    "embedder_timeout": "see whether its machine is busy, or allow more time in [ollama]",
    "embedder_bad_reply": "see whether OLLAMA_HOST is Ollama, and read its log",
}
_HOST_REMEDY = "set OLLAMA_HOST to an address such as http://127.0.0.1:11434"
# What a resolver takes; container names have underscores. Source: RFC 1123, section 2.1.
_HOST_NAME = re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer's status and its body, which is a JSON object."""

    status: int
    body: dict[str, Any]

    @property
    def said(self) -> str:
        """The server's own word on a failure, short and on one line."""
        text = " ".join(str(self.body.get("error", "")).split())
        return text[:_MAX_SAID_CHARS] or "no reason given"


def base_url(host: str) -> str:
    """Read ``OLLAMA_HOST`` as Ollama's client does: scheme and port may be left out.

    An address that only a server can listen on is that of this machine. Errors: ConfigError.
    """
    text = host.strip().strip("\"'").strip()
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
    default_port = _SCHEME_PORTS.get(scheme) if separator else DEFAULT_PORT
    if default_port is None:
        raise ConfigError(f"OLLAMA_HOST has the scheme {scheme!r}", remedy=_HOST_REMEDY)
    place, _, path = rest.partition("/")
    if _is_ipv6(place):
        place = f"[{place}]"
    try:
        parts = urlsplit(f"{scheme}://{place}")
        name, port = parts.hostname or "", parts.port or default_port
    except ValueError as error:
        raise ConfigError(f"OLLAMA_HOST is not an address: {error}", remedy=_HOST_REMEDY) from error
    if re.search(r"[@?#\s]", place):
        raise ConfigError("OLLAMA_HOST is more than a host and a port", remedy=_HOST_REMEDY)
    name = _LISTENING.get(name, name)
    if not (_HOST_NAME.fullmatch(name) or _is_ipv6(name)):
        raise _no_host_name(name)
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme}://{shown}:{port}/{path.strip('/')}".rstrip("/")


def _no_host_name(name: str) -> ConfigError:
    if name.isascii() or not name.isprintable():
        return ConfigError(f"OLLAMA_HOST names no host: {name!r}", remedy=_HOST_REMEDY)
    return ConfigError(
        f"OLLAMA_HOST has the name {name!r}, with letters beyond ASCII",
        remedy="write it in the form that begins with xn--, or give the address in numbers",
    )


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


class OllamaClient:
    """Asks one server, over a few connections that are kept; shared by all threads."""

    def __init__(self, host: str, *, connect_timeout_s: float) -> None:
        self.url = base_url(host)
        self._connect_timeout_s = connect_timeout_s
        self._lock = threading.Lock()
        self._pool: PoolManager | None = None

    def get(self, path: str, *, deadline_s: float) -> Reply:
        """Ask with GET; the same errors as ``post``."""
        return self._ask("GET", path, None, deadline_s=deadline_s)

    def post(self, path: str, body: dict[str, Any], *, deadline_s: float) -> Reply:
        """Ask with POST, the whole exchange within ``deadline_s``.

        Errors: ProviderError with ``embedder_unreachable``, ``embedder_timeout``, or
        ``embedder_bad_reply`` where the answer is no JSON object, is cut or too large.
        """
        return self._ask("POST", path, json.dumps(body).encode(), deadline_s=deadline_s)

    def _ask(
        self, method: Literal["GET", "POST"], path: str, body: bytes | None, *, deadline_s: float
    ) -> Reply:
        # A third of this is the import of ssl; a search of another embedder never needs it.
        from urllib3 import Timeout, exceptions

        ends = time.monotonic() + deadline_s
        connect_s = min(self._connect_timeout_s, deadline_s)
        try:
            response = self._open_pool().request(
                method,
                self.url + path,
                body=body,
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                timeout=Timeout(connect=connect_s, read=deadline_s, total=deadline_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                content = _read(response, ends=ends)
            except BaseException:
                response.close()
                raise
            response.release_conn()
        except (exceptions.NewConnectionError, exceptions.SSLError) as error:
            what = f"cannot be reached: {_cause(error)}"
            raise self._failed(what, "embedder_unreachable") from error
        except exceptions.ConnectTimeoutError as error:
            what = f"did not take the connection within {connect_s:g} s"
            raise self._failed(what, "embedder_unreachable") from error
        except (exceptions.TimeoutError, TimeoutError) as error:
            what = f"did not answer within {deadline_s:g} s"
            raise self._failed(what, "embedder_timeout") from error
        except (exceptions.HTTPError, OSError) as error:
            what = f"broke off its answer: {_cause(error)}"
            raise self._failed(what, "embedder_bad_reply") from error
        return Reply(response.status, self._object(content, status=response.status))

    def _open_pool(self) -> "PoolManager":
        with self._lock:
            if self._pool is None:
                from urllib3 import PoolManager

                self._pool = PoolManager(num_pools=1, maxsize=_MAX_CONNECTIONS)
            return self._pool

    def _object(self, content: bytes, *, status: int) -> dict[str, Any]:
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as error:
            if status >= 300:
                # A proxy's page, or "404 page not found": the status says it.
                return {"error": content[: 4 * _MAX_SAID_CHARS].decode("utf-8", "replace")}
            raise self._failed("did not answer with JSON", "embedder_bad_reply") from error
        if not isinstance(found, dict):
            raise self._failed("did not answer with an object", "embedder_bad_reply")
        return cast("dict[str, Any]", found)

    def _failed(self, what: str, reason: DegradedReason) -> ProviderError:
        return ProviderError(
            f"Ollama at {self.url} {what}", reason=reason, remedy=_REMEDIES[reason]
        )


def _read(response: "BaseHTTPResponse", *, ends: float) -> bytes:
    """The whole body; a server that sends it drop by drop, or stops, is late all the same."""
    from urllib3 import exceptions

    pieces: list[bytes] = []
    size = 0
    while True:
        left_s = ends - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        # The library's own time-out begins anew with every piece. Once the last one is read the
        # connection is another thread's, or closed: it is asked for anew each time.
        sock = cast("socket | None", getattr(response.connection, "sock", None))
        if sock is not None:
            sock.settimeout(left_s)
        piece = response.read1(_PIECE_BYTES)
        if not piece:
            break
        size += len(piece)
        if size > MAX_REPLY_BYTES:
            raise exceptions.HTTPError(f"more than {MAX_REPLY_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _cause(error: BaseException) -> str:
    """What the network said, without the objects and addresses that the library adds."""
    inner = error.__cause__ or error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    return str(getattr(inner, "strerror", None) or inner)[:_MAX_SAID_CHARS]
