"""How long searches take: the command on this repository's documents, the library at 100,000 rows.

At scale the vectors are sums of word vectors, not a language model's: they cost nothing to make,
and texts that share words are near each other, as real ones are.
"""

import statistics
import subprocess
import sys
import time
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import REPOSITORY
from benchmarks.report import markdown_table
from lastro.app import App, owner_url
from lastro.beir import load_passages, load_questions
from lastro.db.pool import Database
from lastro.db.scratch import scratch_database, settle
from lastro.embedders import Role, checked, fingerprint, readable
from lastro.evaluation import PROJECT, store_passages
from lastro.figures import latency
from lastro.search import Engine, SearchRequest, search
from lastro.writing import Writer

SCALE_SET = "cpp-docs-scale"
SCALE_QUESTIONS = 300
DOCS_PROJECT = "lastro-docs"
COMMAND_RUNS = 5
QUESTION = "why HNSW and not IVFFlat?"
# What one command may take, with a new question and with one asked before. Source: the targets of
# the first release.
NEW_S, KNOWN_S = 1.5, 0.8

Say = Callable[[str], None]


class WordVectors:
    """Texts as the sum of a fixed vector for each different word."""

    id: str = "words"
    version: str = "1"
    dimension: int = 512
    max_chars: int = 1_000_000
    prefixes: Mapping[Role, str] = {"query": "", "document": ""}

    def embed(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:  # noqa: ARG002
        """Return one unit vector a text, shape (n, 512)."""
        sums = np.stack([self._sum(text) for text in readable(texts, max_chars=self.max_chars)])
        vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return checked(vectors, texts=texts, dimension=self.dimension, embedder=self.id)

    def _sum(self, text: str) -> NDArray[np.float32]:
        words = set(text.casefold().split()) or {""}
        return np.sum([_word_vector(word, self.dimension) for word in words], axis=0)


@cache
def _word_vector(word: str, dimension: int) -> NDArray[np.float32]:
    random = np.random.default_rng(zlib.crc32(word.encode("utf-8", "replace")))
    return random.standard_normal(dimension, dtype=np.float32)


def command_table(*, say: Say) -> str:
    """Wall time of ``lastro search`` from the shell, database running, its median and worst."""
    _lastro("index", str(REPOSITORY), "--project", DOCS_PROJECT, "--worktree")
    say(f"{COMMAND_RUNS} new questions and as many known ones, from the shell")
    marks = [uuid.uuid4().hex[:8] for _ in range(COMMAND_RUNS)]
    rows: list[list[str]] = []
    for kind, limit_s in (("new question", NEW_S), ("known question", KNOWN_S)):
        took_s = [_search_s(f"{QUESTION} {mark}") for mark in marks]
        rows.append(
            [kind, f"{limit_s:g}", f"{statistics.median(took_s):.2f}", f"{max(took_s):.2f}"]
        )
    return markdown_table(("`lastro search`", "at most, s", "median, s", "worst, s"), rows)


def _search_s(question: str) -> float:
    started = time.perf_counter()
    _lastro("search", question, "--project", DOCS_PROJECT, "-k", "3")
    return time.perf_counter() - started


def _lastro(*words: str) -> None:
    program = Path(sys.executable).parent / "lastro"
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    # 6: some files were skipped, with their reasons
    if done.returncode not in {0, 6}:
        raise SystemExit(f"lastro {words[0]} failed: {done.stderr.strip()}")


def scale_table(app: App, data: Path, *, say: Say) -> str:
    """Latency of searches in a project of 100,000 rows, and what loading it took."""
    passages = load_passages(data / SCALE_SET)
    questions = [q.text for q in load_questions(data / SCALE_SET)[:SCALE_QUESTIONS]]
    embedder = WordVectors()
    with scratch_database(owner_url(app.settings)) as url, Database(url) as database:
        pipeline = replace(app.writer().pipeline, embedder=fingerprint(embedder))
        writer = Writer(database=database, admin_url=url, embedder=embedder, pipeline=pipeline)
        started = time.perf_counter()
        store_passages(
            writer,
            passages,
            language="en",
            whole=True,
            progress=lambda n: say(f"loading: {n:,} of {len(passages):,}"),
        )
        settle(url)
        rate = len(passages) / (time.perf_counter() - started)
        engine = replace(app.engine, database=database, embedder=embedder)
        say("asking, once to warm everything and once on the clock")
        for question in questions:
            _ask_ms(engine, question)
        took = latency([_ask_ms(engine, question) for question in questions])
    return markdown_table(
        ("rows", "questions", "p50 ms", "p95 ms", "loaded, rows/s"),
        [
            [
                f"{len(passages):,}",
                str(len(questions)),
                f"{took.p50_ms:.1f}",
                f"{took.p95_ms:.1f}",
                f"{rate:,.0f}",
            ]
        ],
    )


def _ask_ms(engine: Engine, question: str) -> float:
    started = time.perf_counter()
    search(engine, SearchRequest(query=question), project=PROJECT)
    return (time.perf_counter() - started) * 1000
