"""A client of its own that asks at a fixed pace, whatever the answers take.

The time of an answer begins when its question was due, so that one slow answer is counted for all
the questions that had to wait for it. It is set to the embedder that is searched and, for a switch,
knows the next: refused by the first it asks the next, and that is in the answer's time.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import islice
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any, Protocol

from benchmarks.drawn_pages import questions
from lastro.app import App, build
from lastro.config import load_settings
from lastro.errors import EmbedderMismatch, LastroError
from lastro.search import SearchRequest
from lastro.types import FileOrigin, Outcome

WARMING = 20
# Whoever is still behind so long after the end answers less than is asked.
BACKLOG_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, whose answer it got and how long after it was due; ``error`` where it got none.

    ``hits`` are path, content and vector score of each hit, best first; ``refused`` counts the
    embedders that were no longer searched when it was asked.
    """

    question: str
    took_ms: float
    embedder: str
    refused: int
    error: str | None
    degraded: tuple[str, ...]
    vector_available: bool
    hits: tuple[tuple[str, str, float | None], ...]


class Client:
    """A client process between its warming and its end; a context manager that leaves none."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        embedders: Sequence[str],
        project: str,
        chunks: int,
        per_second: float,
        seed: int,
    ) -> None:
        said = {
            "embedders": list(embedders),
            "project": project,
            "chunks": chunks,
            "per_second": per_second,
            "seed": seed,
        }
        self._process = Popen(
            [sys.executable, "-m", "benchmarks.asking", json.dumps(said)],
            env=dict(environment),
            stdin=PIPE,
            stdout=PIPE,
            text=True,
            # As one who searches from elsewhere: Linux may share processors out by session.
            start_new_session=True,
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self) -> None:
        """Wait until it is warm, and let it ask."""
        assert self._process.stdin
        assert self._process.stdout
        if self._process.stdout.readline().strip() != "warm":
            raise SystemExit("the asking client failed")
        self._process.stdin.write("ask\n")
        self._process.stdin.flush()

    def end(self) -> list[Asked]:
        """Let it answer what is due, and return all answers."""
        try:
            said, _ = self._process.communicate(timeout=BACKLOG_S)
        except TimeoutExpired as late:
            raise SystemExit(
                f"{BACKLOG_S:g} s after the end not every question was answered: no machine as "
                "busy as this one holds the pace"
            ) from late
        if self._process.returncode != 0:
            raise SystemExit("the asking client failed")
        return [_read(line) for line in said.splitlines()]


def _read(line: str) -> Asked:
    said = json.loads(line)
    hits = tuple((path, content, score) for path, content, score in said.pop("hits"))
    return Asked(**{**said, "degraded": tuple(said["degraded"]), "hits": hits})


# --- inside the client


class Ask(Protocol):
    """Asks a question that was due at a moment of the monotonic clock."""

    def __call__(self, question: str, *, due: float) -> Asked:
        """Its answer, or the error that it got instead."""
        ...


class _Asker:
    """Asks with the first of its apps whose embedder is searched."""

    def __init__(self, apps: Sequence[App], *, project: str) -> None:
        self._apps = list(apps)
        self._project = project

    def ask(self, question: str, *, due: float) -> Asked:
        """Ask, and ask the next app where the embedder of this one is no longer searched."""
        refused = 0
        error: str | None = None
        outcome: Outcome | None = None
        while outcome is None and error is None:
            try:
                outcome = self._apps[0].search(SearchRequest(query=question), project=self._project)
            except EmbedderMismatch as mismatch:
                if len(self._apps) == 1:
                    error = mismatch.message
                else:
                    refused += 1
                    del self._apps[0]
            except LastroError as failed:
                error = f"{failed.code}: {failed.message}"
        return Asked(
            question=question,
            took_ms=(time.monotonic() - due) * 1000,
            embedder=self._apps[0].embedder.id,
            refused=refused,
            error=error,
            degraded=() if outcome is None else tuple(d.reason for d in outcome.degraded),
            vector_available=outcome is not None and outcome.vector_available,
            hits=() if outcome is None else tuple(_hits(outcome)),
        )


def _hits(outcome: Outcome) -> Iterator[tuple[str, str, float | None]]:
    for hit in outcome.hits:
        assert isinstance(hit.origin, FileOrigin)
        yield hit.origin.source_path, hit.content, hit.vector_score


def ask_on(
    ask: "Ask", drawn: Iterable[str], *, per_second: float, ended: Callable[[float], bool]
) -> list[Asked]:
    """Ask at the pace until ``ended`` before a question is due; what was due by then is answered.

    ``ended`` waits for that moment, and not at all where it has passed.
    """
    asked: list[Asked] = []
    begun = time.monotonic()
    for number, question in enumerate(drawn):
        due = begun + number / per_second
        if ended(due):
            break
        asked.append(ask(question, due=due))
    return asked


class Ended:
    """The moment at which whoever started this process closes its input."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._at = float("inf")
        threading.Thread(target=self._listen, daemon=True).start()

    def before(self, due: float) -> bool:
        """Wait until ``due``; whether the end came before it."""
        self._event.wait(max(0.0, due - time.monotonic()))
        return self._at <= due

    def _listen(self) -> None:
        sys.stdin.read()
        self._at = time.monotonic()
        self._event.set()


def main() -> int:
    """Ask until standard input ends, and print the answers, one in a line."""
    said: dict[str, Any] = json.loads(sys.argv[1])
    drawn = questions(said["chunks"], seed=said["seed"])
    with ExitStack() as stack:
        settings = [replace(load_settings(), embedder=name) for name in said["embedders"]]
        apps = [stack.enter_context(build(one)) for one in settings]
        for app in apps:
            app.embedder.embed(["ballast"], "query")  # its model is loaded
        asker = _Asker(apps, project=said["project"])
        for question in islice(drawn, WARMING):
            asker.ask(question, due=time.monotonic())
        print("warm", flush=True)  # noqa: T201
        sys.stdin.readline()
        asked = ask_on(asker.ask, drawn, per_second=said["per_second"], ended=Ended().before)
    for one in asked:
        print(json.dumps(asdict(one)))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
