"""How long the command takes, on this repository's documents."""

import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from benchmarks.machine import REPOSITORY
from benchmarks.report import markdown_table

DOCS_PROJECT = "lastro-docs"
COMMAND_RUNS = 5
QUESTION = "why HNSW and not IVFFlat?"
# What one command may take, with a new question and with one asked before. Source: the targets of
# the first release.
NEW_S, KNOWN_S = 1.5, 0.8

Say = Callable[[str], None]


def measure_command(*, say: Say) -> tuple[str, list[str]]:
    """Wall time of ``lastro search`` from the shell, database running, and what was missed."""
    _lastro("index", str(REPOSITORY), "--project", DOCS_PROJECT, "--worktree")
    say(f"{COMMAND_RUNS} new questions and as many known ones, from the shell")
    marks = [uuid.uuid4().hex[:8] for _ in range(COMMAND_RUNS)]
    rows: list[list[str]] = []
    missed: list[str] = []
    for kind, limit_s in (("new question", NEW_S), ("known question", KNOWN_S)):
        took_s = [_search_s(f"{QUESTION} {mark}") for mark in marks]
        median_s = statistics.median(took_s)
        rows.append([kind, f"{limit_s:g}", f"{median_s:.2f}", f"{max(took_s):.2f}"])
        if median_s > limit_s:
            missed.append(f"a {kind} took {median_s:.2f} s, and may take {limit_s:g} s")
    header = ("`lastro search`", "at most, s", "median, s", "worst, s")
    return markdown_table(header, rows), missed


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
