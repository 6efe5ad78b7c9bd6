"""What 100,000 rows cost: loading them, searching beside the bare statements, recall under filters.

The vectors are those of the configured embedder, made before any clock runs; they stay in the
embedding cache for the next time. Everything runs as the application's role, under row-level
security, with both indexes.
"""

import resource
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.rows import TupleRow

from benchmarks.report import Figure
from lastro import store
from lastro.app import App, owner_url
from lastro.beir import Passage, load_passages, load_questions
from lastro.db.pool import AppConnection, Database
from lastro.db.scratch import scratch_database, settle
from lastro.documents import FileIdentity, Prepared, prepare_passage
from lastro.embedders import Embedder, Role, fingerprint
from lastro.embedding import embed_texts
from lastro.figures import latency
from lastro.filters import HardFilter, Predicate, compile_filter
from lastro.legs import HNSW_SETTINGS, run_vector_leg
from lastro.search import Engine, SearchRequest, search
from lastro.types import Latency
from lastro.writing import Writer

SET = "cpp-docs-scale"
PROJECT = "scale"
QUESTIONS = 347
COMMON_WORDS = 50
RECALL_QUESTIONS = 100
RECALL_K = 10
DEPTH = 100
BATCH = 500
# Texts asked of the cache at once.
LEARNT = 2_000
# Rows of further projects: what a filter by project keeps, beside the set's 100,296.
OTHER_PROJECTS = (("tenth", 10_000), ("hundredth", 1_000), ("thousandth", 100))
# Nested path prefixes with the share of rows below each.
PREFIXES = (("half/", 0.5), ("half/tenth/", 0.1), ("half/tenth/hundredth/", 0.01),
            ("half/tenth/hundredth/thousandth/", 0.001))  # fmt: skip
DELETED = 1_000
DELETION_QUESTIONS = 40
# Source: the targets of the release.
FIRST_LOAD_FLOOR, LIVE_LOAD_FLOOR = 3_000.0, 700.0
SEARCH_P95_FLOOR_MS, COMMON_WORD_P95_FLOOR_MS, BARE_RATIO_FLOOR = 20.0, 40.0, 1.3
RECALL_FLOOR = 0.99

Say = Callable[[str], None]
Vector = NDArray[np.float32]
# What was executed, with its parameters and options.
Statement = tuple[Any, Any, dict[str, Any]]


def measure_scale(app: App, data: Path, *, say: Say) -> list[Figure]:
    """Load the set into a scratch database, and measure everything there."""
    passages = load_passages(data / SET)
    questions = [question.text for question in load_questions(data / SET)][:QUESTIONS]
    embedder = Given(app.embedder, app.database)
    with scratch_database(owner_url(app.settings)) as url, Recording(url) as database:
        pipeline = replace(app.writer().pipeline, embedder=fingerprint(embedder))
        writer = Writer(database=database, admin_url=url, embedder=embedder, pipeline=pipeline)
        say(f"preparing {len(passages):,} rows")
        engine = replace(app.engine, database=database, embedder=embedder)
        figures = _load_all(writer, passages, url=url, say=say)
        words = _common_words(database)
        embedder.learn([*questions, *words], role="query", say=say)
        say("searching")
        figures += _search_figures(engine, questions, words)
        say("recall")
        figures += _recall_figures(database, embedder, questions)
    return figures


# --- loading


class Given:
    """An embedder's vectors, made before the clock runs."""

    def __init__(self, embedder: Embedder, cache: Database) -> None:
        self.id = embedder.id
        self.version = embedder.version
        self.dimension = embedder.dimension
        self.max_chars = embedder.max_chars
        self.prefixes = embedder.prefixes
        self._embedder, self._cache = embedder, cache
        self._known: dict[str, Vector] = {}

    def learn(self, texts: Sequence[str], *, role: Role, say: Say) -> None:
        """Make the vectors of ``texts``, or take them from the cache."""
        for start in range(0, len(texts), LEARNT):
            say(f"vectors: {start:,} of {len(texts):,}")
            part = texts[start : start + LEARNT]
            made = embed_texts(self._cache, self._embedder, part, role=role)
            for text, vector in zip(part, made.vectors, strict=True):
                assert vector is not None, made.why
                self._known[text] = vector

    def embed(self, texts: Sequence[str], role: Role) -> Vector:  # noqa: ARG002
        """Return one unit vector a text, shape (n, dimension)."""
        return np.stack([self._known[text] for text in texts])


def _load_all(writer: Writer, passages: Sequence[Passage], *, url: str, say: Say) -> list[Figure]:
    first_s = load(writer, passages, project=PROJECT, say=say)
    live_s = [
        load(writer, passages[:count], project=name, say=say) for name, count in OTHER_PROJECTS
    ]
    settle(url)
    live_rows = OTHER_PROJECTS[0][1]
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        Figure(
            name="first load, both indexes at the end, rows/s",
            value=len(passages) / first_s,
            floor=FIRST_LOAD_FLOOR,
        ),
        Figure(
            name=f"{live_rows:,} more rows with both indexes live, rows/s",
            value=live_rows / live_s[0],
            floor=LIVE_LOAD_FLOOR,
        ),
        Figure(
            name="memory at its peak, with all rows and vectors held ready, MB", value=memory_mb
        ),
    ]


def load(writer: Writer, passages: Sequence[Passage], *, project: str, say: Say) -> float:
    """Seconds that storing takes, of rows and vectors made before."""
    with writer.database.transaction() as connection:
        project_id = store.ensure_project(connection, project).id
    prepared = [_prepare(p, n, writer, project_id) for n, p in enumerate(passages)]
    assert isinstance(writer.embedder, Given)
    texts = [text for item in prepared for text in item.texts]
    writer.embedder.learn(texts, role="document", say=say)
    say(f"storing {len(prepared):,} rows")
    started = time.perf_counter()
    for start in range(0, len(prepared), BATCH):
        writer.write(prepared[start : start + BATCH], project_id=project_id, stale=())
    writer.finish()
    took_s = time.perf_counter() - started
    with writer.database.transaction(projects=[project_id]) as connection:
        store.refresh_statistics(connection, project_id)
    return took_s


def _prepare(passage: Passage, number: int, writer: Writer, project_id: int) -> Prepared:
    identity = FileIdentity(
        project_id=project_id,
        source=SET,
        path=f"{_folder(number)}{passage.id}",
        scope="docs",
        revision=None,
        content_hash="",
    )
    return prepare_passage(
        passage.text, identity, writer.pipeline, title=passage.title, language="en", whole=True
    )


def _folder(number: int) -> str:
    """The deepest prefix that a row belongs under, so that each keeps its share."""
    place = (number * 0.6180339887498949) % 1.0
    kept = [prefix for prefix, share in PREFIXES if place < share]
    return kept[-1] if kept else "rest/"


# --- searching


class Recording(Database):
    """A database that notes the statements of a search, to repeat them bare."""

    statements: list[Statement] | None = None

    @contextmanager
    def session(self) -> Generator[AppConnection]:
        """A connection whose cursors note what they execute while ``statements`` is a list."""
        recording = self

        class Noting(psycopg.Cursor[Any]):
            def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
                if recording.statements is not None:
                    recording.statements.append((query, params, options))
                return super().execute(query, params, **options)

        with super().session() as connection:
            usual = connection.cursor_factory
            connection.cursor_factory = Noting
            try:
                yield connection
            finally:
                connection.cursor_factory = usual

    def recorded(self, work: Callable[[], object]) -> list[Statement]:
        """The statements that ``work`` executes."""
        self.statements = []
        work()
        noted, self.statements = self.statements, None
        return noted


def _common_words(database: Database) -> list[str]:
    """The most frequent lexemes that are words of their own."""
    with database.transaction() as connection:
        project_id = store.find_project(connection, PROJECT).id
    with database.transaction(projects=[project_id]) as connection:
        rows = connection.execute(
            "SELECT lexeme FROM lastro.lexeme_stats WHERE project_id = %s AND language = 'en'"
            " AND lexeme ~ '^[a-z]{4,}$' ORDER BY df DESC, lexeme LIMIT %s",
            [project_id, COMMON_WORDS],
        )
        return [str(row[0]) for row in rows]


def _search_figures(engine: Engine, questions: Sequence[str], words: Sequence[str]) -> list[Figure]:
    took, bare, ratio = _timed(engine, questions)
    common, _, _ = _timed(engine, words)
    limit = SEARCH_P95_FLOOR_MS
    return [
        Figure(name="search, p50, ms", value=took.p50_ms, digits=1),
        Figure(name="search, p95, ms", value=took.p95_ms, floor=limit, at_least=False, digits=1),
        Figure(name="its statements bare, p95, ms", value=bare.p95_ms, digits=1),
        Figure(
            name="search to its bare statements, median of the ratios",
            value=ratio,
            floor=BARE_RATIO_FLOOR,
            at_least=False,
            digits=2,
        ),
        Figure(
            name=f"search for one of the {len(words)} commonest words, p95, ms",
            value=common.p95_ms,
            floor=COMMON_WORD_P95_FLOOR_MS,
            at_least=False,
            digits=1,
        ),
    ]


def _timed(engine: Engine, questions: Sequence[str]) -> tuple[Latency, Latency, float]:
    """Latency of searches, of their statements bare, and the median of their ratios.

    Each is done once to warm everything; then the two are timed in turn, question by question.
    """
    database = engine.database
    assert isinstance(database, Recording)
    took: list[float] = []
    bare: list[float] = []
    with _bare(database) as connection:
        for question in questions:
            request = SearchRequest(query=question)
            search(engine, request, project=PROJECT)
            noted = database.recorded(lambda: search(engine, request, project=PROJECT))  # noqa: B023
            repeat(connection, noted)
            took.append(elapsed_ms(lambda: search(engine, request, project=PROJECT)))  # noqa: B023
            bare.append(elapsed_ms(lambda: repeat(connection, noted)))  # noqa: B023
    ratio = float(np.median(np.array(took) / np.array(bare)))
    return latency(took), latency(bare), ratio


@contextmanager
def _bare(database: Database) -> Iterator[psycopg.Connection[TupleRow]]:
    """A connection as a search has it, held for many transactions."""
    with database.session() as connection:
        yield connection


def repeat(connection: psycopg.Connection[TupleRow], statements: Sequence[Statement]) -> None:
    """Execute noted statements again, among which is what began their transaction."""
    with connection.cursor() as cursor:
        for query, parameters, options in statements:
            cursor.execute(query, parameters, **options)
            if cursor.description is not None:
                cursor.fetchall()
    connection.commit()


def elapsed_ms(work: Callable[[], object]) -> float:
    """How long ``work`` takes."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


# --- recall


def _recall_figures(database: Database, embedder: Given, questions: Sequence[str]) -> list[Figure]:
    vectors = list(embedder.embed(questions[:RECALL_QUESTIONS], "query"))
    figures = [
        _recall_figure(database, f"project of {count:,} rows", vectors, project=name)
        for name, count in ((PROJECT, 100_296), *OTHER_PROJECTS)
    ]
    figures += [
        _recall_figure(database, f"path that keeps {share:.1%}", vectors, prefix=prefix)
        for prefix, share in PREFIXES
    ]
    recall = np.mean([_recall_after_deleting(database, v) for v in vectors[:DELETION_QUESTIONS]])
    return [*figures, _recall_of(f"right after deleting the {DELETED:,} nearest rows", recall)]


def _recall_figure(
    database: Database,
    what: str,
    vectors: Sequence[Vector],
    *,
    project: str = PROJECT,
    prefix: str | None = None,
) -> Figure:
    recalls: list[float] = []
    for vector in vectors:
        with _filtered(database, project=project, prefix=prefix) as (connection, predicate):
            recalls.append(_recall(connection, predicate, vector))
    return _recall_of(what, np.mean(recalls))


def _recall_of(what: str, recall: np.floating) -> Figure:
    return Figure(
        name=f"recall@{RECALL_K}, {what}", value=float(recall), floor=RECALL_FLOOR, digits=3
    )


def _recall(connection: AppConnection, predicate: Predicate, vector: Vector) -> float:
    """The share of the ten nearest rows, by exact search, among the leg's first ten."""
    project_id = int(str(predicate.parameters["project_id"]))
    leg = run_vector_leg(
        connection,
        predicate,
        corpus=store.corpus(connection, project_id),
        embedding=vector,
        depth=DEPTH,
    )
    exact = store.vector_leg(connection, predicate, embedding=vector, depth=RECALL_K, exact=True)
    found = {row.id for row in leg.rows[:RECALL_K]}
    return len(found & {row.id for row in exact}) / max(len(exact), 1)


def _recall_after_deleting(database: Database, vector: Vector) -> float:
    """Recall where the nearest rows have just been deleted; they come back afterwards."""
    with _filtered(database, project=PROJECT, prefix=None) as (connection, predicate):
        rows = store.vector_leg(connection, predicate, embedding=vector, depth=DELETED, exact=True)
        project_id = int(str(predicate.parameters["project_id"]))
        documents: list[UUID] = [row.document_id for row in rows]
        with connection.transaction(force_rollback=True):
            store.delete_documents(connection, documents, project_id=project_id)
            return _recall(connection, predicate, vector)


@contextmanager
def _filtered(
    database: Database, *, project: str, prefix: str | None
) -> Iterator[tuple[AppConnection, Predicate]]:
    with database.transaction() as connection:
        project_id = store.find_project(connection, project).id
    hard = HardFilter(project_id=project_id, path_prefix=prefix)
    settings = HNSW_SETTINGS
    with database.transaction(projects=[project_id], settings=settings) as connection:
        yield connection, compile_filter(hard)
