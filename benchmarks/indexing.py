"""What indexing costs: an unchanged repository, and the embedder's share of a first run."""

import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import Figure
from lastro.app import App
from lastro.documents import FileIdentity, Pipeline, prepare_file
from lastro.embedders import UseM3Embedder

REPOSITORIES = "repos"
PAGES = 10_000
WORDS_OF_A_PAGE = 120
BATCH_TEXTS = 64
UNCHANGED_RUNS = 5
# Source: the targets of the release.
UNCHANGED_FLOOR_S, THROUGHPUT_FLOOR, MEMORY_FLOOR_MB = 1.5, 0.9, 600.0

Say = Callable[[str], None]


def measure_indexing(app: App, data: Path, *, say: Say) -> list[Figure]:
    """Figures of whole commands, each in a home of its own."""
    with tempfile.TemporaryDirectory(prefix="lastro-bench-") as folder:
        Path(folder).chmod(0o755)
        return [
            *_unchanged(Path(folder), say=say),
            *_throughput(app, data / REPOSITORIES, Path(folder), say=say),
        ]


# --- unchanged


def _unchanged(folder: Path, *, say: Say) -> list[Figure]:
    repository = folder / "pages"
    say(f"writing and indexing {PAGES:,} pages")
    _write_pages(repository)
    with home(folder / "unchanged-home", embedder="deterministic") as environment:
        _index(repository, environment)
        runs = [_timed_index(repository, environment) for _ in range(UNCHANGED_RUNS)]
    median_s = statistics.median(took_s for took_s, _ in runs)
    embedded = max(report["embedding"]["embedded"] for _, report in runs)
    return [
        Figure(
            name=f"{PAGES:,} unchanged files, whole command, median of {UNCHANGED_RUNS}, s",
            value=median_s,
            floor=UNCHANGED_FLOOR_S,
            at_least=False,
            digits=2,
        ),
        Figure(name="texts embedded then", value=embedded, floor=0, at_least=False),
    ]


def _write_pages(repository: Path) -> None:
    words = [f"word{number}" for number in range(5_000)]
    draw = random.Random(7)  # noqa: S311
    for number in range(PAGES):
        page = repository / "docs" / f"part{number // 100}" / f"page{number}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        text = " ".join(draw.choices(words, k=WORDS_OF_A_PAGE))
        page.write_text(f"# Page {number}\n\n{text}\n", encoding="utf-8")
    commit_all(repository)


def commit_all(repository: Path) -> None:
    """Commit what lies in ``repository``, and make it one where it is none."""
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-q", "-m", "pages")):
        subprocess.run(["git", *words], cwd=repository, check=True)


# --- against the bare embedder


def _throughput(app: App, source: Path, folder: Path, *, say: Say) -> list[Figure]:
    say("indexing the Markdown trees, in turn with the bare embedder")
    with home(folder / "throughput-home", embedder="use-m3") as environment:
        # The model is prepared, and its pages are read, before the clock runs; what runs under it
        # is the first index run of a new database.
        _index(_one_page(folder / "warm"), environment)
        lastro_command(("db", "stop"), environment)
        shutil.rmtree(folder / "throughput-home" / "postgres")
        lastro_command(("projects",), environment)
        before_mb = _peak_mb()
        started = time.perf_counter()
        report = _index(source, environment, "--worktree")
        took_s = time.perf_counter() - started
    texts = _texts(app, source)
    bare_s = _embed_bare(app, texts)
    return [
        Figure(
            name=f"indexing {report['chunks']:,} chunks with use-m3, chunks/s",
            value=report["chunks"] / took_s,
            digits=1,
        ),
        Figure(
            name="the bare embedder on the same texts, texts/s", value=len(texts) / bare_s, digits=1
        ),
        Figure(
            name="share of the bare embedder's throughput, whole command",
            value=(report["chunks"] / took_s) / (len(texts) / bare_s),
            floor=THROUGHPUT_FLOOR,
            digits=2,
        ),
        Figure(
            name="memory of the command at its peak, MB",
            value=max(_peak_mb(), before_mb),
            floor=MEMORY_FLOOR_MB,
            at_least=False,
        ),
    ]


def _one_page(folder: Path) -> Path:
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "page.md").write_text("# Warm\n\nA page.\n", encoding="utf-8")
    commit_all(folder)
    return folder


def _texts(app: App, source: Path) -> list[str]:
    """What the embedder is given of every file of the trees, each text once."""
    pipeline: Pipeline = app.writer().pipeline
    texts: dict[str, None] = {}
    for path in sorted(source.rglob("*.md")):
        identity = FileIdentity(
            project_id=1,
            source="bench",
            path=str(path.relative_to(source)),
            scope="docs",
            revision=None,
            content_hash="",
        )
        prepared = prepare_file(path.read_text(encoding="utf-8"), identity, pipeline)
        texts.update(dict.fromkeys(prepared.texts))
    return list(texts)


def _embed_bare(app: App, texts: list[str]) -> float:
    embedder = UseM3Embedder(cache_dir=app.settings.home / "cache")
    embedder.embed(texts[:1], "document")
    started = time.perf_counter()
    for start in range(0, len(texts), BATCH_TEXTS):
        embedder.embed(texts[start : start + BATCH_TEXTS], "document")
    return time.perf_counter() - started


# --- commands


@contextmanager
def home(folder: Path, *, embedder: str) -> Iterator[Mapping[str, str]]:
    """An environment with a home of its own, whose database is stopped at the end."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LASTRO_")}
    environment = {**kept, "LASTRO_HOME": str(folder), "LASTRO_EMBEDDER": embedder}
    try:
        yield environment
    finally:
        lastro_command(("db", "stop"), environment)


def _index(repository: Path, environment: Mapping[str, str], *options: str) -> dict[str, Any]:
    words = ("index", str(repository), "--project", "bench", "--format", "json", *options)
    return json.loads(lastro_command(words, environment))


def _timed_index(repository: Path, environment: Mapping[str, str]) -> tuple[float, dict[str, Any]]:
    started = time.perf_counter()
    report = _index(repository, environment)
    return time.perf_counter() - started, report


def lastro_command(words: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """Run ``lastro`` and return what it prints; a failure ends the run."""
    program = Path(sys.executable).parent / "lastro"
    done = subprocess.run(
        [program, *words], env=dict(environment), capture_output=True, text=True, check=False
    )
    # 6: some files were skipped, with their reasons
    if done.returncode not in {0, 6}:
        raise SystemExit(f"lastro {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _peak_mb() -> float:
    """The most memory that any child held so far."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
