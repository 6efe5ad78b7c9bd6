"""A server on a real socket that speaks Ollama's documented API, and misbehaves where told to.

Source: docs/api.md of Ollama, "Generate Embeddings" and "List Local Models".
"""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from lastro.embedders.deterministic import DeterministicEmbedder

DIGEST = "0a109f422b47e3a30ba2b10eca18548e944e8a23073ee3f3e947efcf3c45e59f"
OTHER_DIGEST = "f" * 64


def vectors_of(texts: Sequence[str], width: int) -> list[list[float]]:
    """Equal texts have equal vectors, of no particular length; others nearly orthogonal ones."""
    made = DeterministicEmbedder().embed([text or "nothing" for text in texts], "document")
    return (3.0 * made[:, :width].astype(np.float64)).tolist()


@dataclass
class Script:
    """What the server is and does; every list of requests grows as they come.

    ``widths`` are those of single models, each with vectors of its own; ``answer`` may replace a
    reply's list of vectors; ``refuse`` names texts (by a part of them) that are answered with
    ``refuse_status``; ``fail_after`` texts every request is a 500; ``gone``, it answers nothing at
    all; ``only_embeds`` is an older or other server, without the list of models;
    ``counts_tokens`` says whether a reply counts them.
    """

    models: dict[str, str] = field(default_factory=lambda: {"nomic-embed-text:latest": DIGEST})
    width: int = 768
    widths: dict[str, int] = field(default_factory=dict)
    delay_s: float = 0.0
    delay_per_text_s: float = 0.0
    answer: Callable[[list[Any]], Any] = lambda vectors: vectors
    refuse: str | None = None
    refuse_status: int = 400
    refuse_message: str = "the input length exceeds the context length"
    fail_after: int | None = None
    status: int = 200
    body: bytes | None = None
    cut: bool = False
    drop: bool = False
    gone: bool = False
    trickle: bool = False
    stall: bool = False
    location: str | None = None
    only_embeds: bool = False
    tokens: int | None = None
    counts_tokens: bool = True
    requests: list[dict[str, Any]] = field(default_factory=list)
    looks: int = 0
    connections: int = 0
    embedded: int = 0

    @property
    def inputs(self) -> list[str]:
        """Every text that was asked for, in order."""
        return [text for request in self.requests for text in request["input"]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def log_message(self, *args: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.server.script.connections += 1

    def do_GET(self) -> None:
        script = self.server.script
        script.looks += 1
        if script.gone:
            self.close_connection = True
            return
        self._wait(script.delay_s)
        if self.path != "/api/tags" or script.only_embeds:
            self._send(404, b"404 page not found")
            return
        models = [
            {"name": name, "model": name, "digest": digest}
            for name, digest in script.models.items()
        ]
        self._send(200, json.dumps({"models": models}).encode())

    def do_POST(self) -> None:
        script = self.server.script
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/api/embed":
            self._send(404, b"404 page not found")
            return
        script.requests.append(asked)
        texts = asked["input"]
        self._wait(script.delay_s + script.delay_per_text_s * len(texts))
        if script.drop or script.gone:
            self.close_connection = True
            return
        status, reply = self._reply(asked, texts)
        self._send(status, reply)

    def _reply(self, asked: dict[str, Any], texts: list[str]) -> tuple[int, bytes]:
        script = self.server.script
        if script.status != 200 or script.body is not None:
            return script.status, script.body or json.dumps({"error": "as told"}).encode()
        known = {name.removesuffix(":latest") for name in script.models}
        if asked["model"].removesuffix(":latest") not in known:
            message = f"model '{asked['model']}' not found"
            return 404, json.dumps({"error": message}).encode()
        if script.refuse is not None and any(script.refuse in text for text in texts):
            return script.refuse_status, json.dumps({"error": script.refuse_message}).encode()
        if script.fail_after is not None and script.embedded + len(texts) > script.fail_after:
            return 500, json.dumps({"error": "llama runner process has terminated"}).encode()
        script.embedded += len(texts)
        said = {
            "model": asked["model"],
            "embeddings": script.answer(self._vectors(asked["model"], texts)),
            "total_duration": 14_143_917,
            "load_duration": 1_019_500,
        }
        if script.counts_tokens:
            said["prompt_eval_count"] = script.tokens or sum(len(t) // 4 for t in texts)
        return 200, json.dumps(said).encode()

    def _vectors(self, model: str, texts: list[str]) -> list[list[float]]:
        width = self.server.script.widths.get(model)
        if width is None:
            return vectors_of(texts, self.server.script.width)
        return vectors_of([f"{model} {text}" for text in texts], width)

    def _wait(self, seconds: float) -> None:
        self.server.stopping.wait(seconds)

    def _send(self, status: int, body: bytes) -> None:
        script = self.server.script
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if script.location is not None and self.command == "POST":
            self.send_header("Location", script.location)
        self.end_headers()
        if script.cut and self.command == "POST":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif script.stall and self.command == "POST":
            self.wfile.write(body[: len(body) // 2])
            self._wait(60.0)
        elif script.trickle and self.command == "POST":
            for position in range(len(body)):
                if self.server.stopping.wait(0.02):
                    return
                self.wfile.write(body[position : position + 1])
        else:
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.stopping = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that gave up


@contextmanager
def ollama(script: Script) -> Iterator[str]:
    """Serve ``script``; yields the address for OLLAMA_HOST."""
    server = _Server(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


def shuffled(vectors: list[Any]) -> list[Any]:
    """The same vectors in another order, wherever there are two."""
    return vectors[1:] + vectors[:1]


def with_first(value: object) -> Callable[[list[Any]], list[Any]]:
    """The vectors, of which the first begins with ``value``."""

    def change(vectors: list[Any]) -> list[Any]:
        return [[value, *vectors[0][1:]], *vectors[1:]]

    return change


def is_unit(vector: Sequence[float]) -> bool:
    """Whether a vector has length 1, to float32's precision."""
    return math.isclose(sum(x * x for x in vector), 1.0, abs_tol=1e-5)


def free_port() -> int:
    """A port of this machine where nothing listens."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def elapsed_s(work: Callable[[], object]) -> float:
    """Seconds that ``work`` takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started
