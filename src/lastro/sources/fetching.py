"""A conversation of git with a server, with an end: what it says is read, silence is counted."""

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from lastro.db.work import require_wanted
from lastro.sources.running import no_git

# What is kept of git's and the server's messages: enough for any error, and no more.
_SAID_MAX_BYTES = 64 * 1024
# Between two looks whether anybody still waits for it.
LOOK_S = 0.5
# A helper that stays (an ssh master) may hold the pipe open after git has ended.
_LAST_WORDS_S = 0.5


class Failed(Exception):
    """Git ended with an error; ``said`` is what it printed."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


class TimedOut(Exception):
    """The server was silent, or the whole took too long."""


def converse(
    command: Sequence[str], environment: Mapping[str, str], *, silence_s: float, longest_s: float
) -> None:
    """Run git until it ends, and end it when it says nothing for too long.

    It has no terminal, so that nothing it starts can ask for a password, and what it started ends
    with it. Errors: Failed, TimedOut, ConfigError (no git),
    WorkStopped.
    """
    try:
        process = subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise no_git() from error
    try:
        said = _listen(process, silence_s=silence_s, longest_s=longest_s)
    finally:
        _end(process)
    if process.returncode != 0:
        raise Failed(said.decode("utf-8", "replace"))


def _listen(process: "subprocess.Popen[bytes]", *, silence_s: float, longest_s: float) -> bytes:
    heard: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(process, heard), daemon=True)
    reader.start()
    threading.Thread(target=_wait, args=(process, heard), daemon=True).start()
    ends_at = time.monotonic() + longest_s
    quiet_until = time.monotonic() + silence_s
    said = b""
    while True:
        require_wanted()
        left_s = min(ends_at, quiet_until) - time.monotonic()
        try:
            words = heard.get(timeout=max(0.0, min(LOOK_S, left_s)))
        except queue.Empty:
            if left_s > LOOK_S:
                continue
            if ends_at <= quiet_until:
                raise TimedOut(f"took longer than {longest_s:.0f} s") from None
            raise TimedOut(f"did not answer for {silence_s:.0f} s") from None
        if words is None:
            break
        quiet_until = time.monotonic() + silence_s
        said = (said + words)[-_SAID_MAX_BYTES:]
    reader.join(_LAST_WORDS_S)
    while not heard.empty():
        said += heard.get() or b""
    return said[-_SAID_MAX_BYTES:]


def _read(process: "subprocess.Popen[bytes]", heard: "queue.SimpleQueue[bytes | None]") -> None:
    assert process.stderr is not None
    with contextlib.suppress(OSError, ValueError):
        while words := os.read(process.stderr.fileno(), 8192):
            heard.put(words)


def _wait(process: "subprocess.Popen[bytes]", heard: "queue.SimpleQueue[bytes | None]") -> None:
    process.wait()
    heard.put(None)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End git with all that it started; nothing happens where it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stderr is not None
    process.stderr.close()
