"""Git servers for tests: a real web server over ``git http-backend``, and a stand-in for ssh."""

import base64
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from repositories import git


class _Server(ThreadingHTTPServer):
    def shutdown_request(self, request: Any) -> None:
        """End the connection, over TLS with a farewell: clients take its lack for a cut."""
        if isinstance(request, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                request.unwrap()
        super().shutdown_request(request)


class WebServer:
    """Serves the bare repositories below ``root``; with a token only to who sends it."""

    def __init__(
        self, root: Path, *, token: str | None = None, certificate: Path | None = None
    ) -> None:
        self.root = root
        self.token = token
        self.asked: list[tuple[str, str | None]] = []
        self.redirect: str | None = None
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._scheme = "https" if certificate else "http"
        if certificate:
            self._server.socket = _tls(certificate).wrap_socket(
                self._server.socket, server_side=True
            )
        self.host = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def address(self, name: str) -> str:
        return f"{self._scheme}://{self.host}/{name}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def web_server(
    root: Path, *, token: str | None = None, certificate: Path | None = None
) -> Iterator[WebServer]:
    """A running ``WebServer``, over TLS where it has a certificate."""
    server = WebServer(root, token=token, certificate=certificate)
    try:
        yield server
    finally:
        server.close()


def self_signed(file: Path) -> Path:
    """``file`` with a new key and a certificate for this machine's own address."""
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
        f" -keyout {file} -out {file}".split(),
        check=True,
        capture_output=True,
    )
    return file


def publish(repository: Path, root: Path, name: str) -> Path:
    """A bare repository below ``root`` that mirrors ``repository``, as it is now."""
    bare = root / name
    if not bare.exists():
        bare.mkdir(parents=True)
        git(bare, "init", "--quiet", "--bare", "--initial-branch=main", ".")
        git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(repository, "push", "--quiet", "--mirror", str(bare))
    return bare


def fake_ssh(folder: Path) -> str:
    """A value of GIT_SSH_COMMAND that runs the wanted program here; its arguments are logged."""
    script = folder / "ssh.py"
    script.write_text(
        "import os, subprocess, sys\n"
        f"open({str(folder / 'ssh.log')!r}, 'a').write(repr(sys.argv[1:]) + '\\n')\n"
        "sys.exit(subprocess.call(['sh', '-c', sys.argv[-1]]))\n"
    )
    return f'"{sys.executable}" "{script}"'


def _tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """The host of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            try:
                while True:
                    held.append(server.accept()[0])
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for one in held:
                one.close()


def _handler(server: WebServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self) -> None:
            sent = self.headers.get("Authorization")
            server.asked.append((self.path, sent))
            if server.redirect is not None:
                self.send_response(302)
                self.send_header("Location", server.redirect + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if server.token is not None and not _holds(sent, server.token):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = self._chunks()
            answer = subprocess.run(
                ["git", "http-backend"],
                input=body,
                env={
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(server.root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "GIT_CONFIG_COUNT": "1",
                    "GIT_CONFIG_KEY_0": "safe.directory",
                    "GIT_CONFIG_VALUE_0": "*",
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "REMOTE_ADDR": "127.0.0.1",
                },
                capture_output=True,
                check=False,
            ).stdout
            head, _, content = answer.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _chunks(self) -> bytes:
            parts: list[bytes] = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

    return Handler


def _holds(sent: str | None, token: str) -> bool:
    if sent is None or not sent.startswith("Basic "):
        return False
    return base64.b64decode(sent[6:]).decode().endswith(f":{token}")
