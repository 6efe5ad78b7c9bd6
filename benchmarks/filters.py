"""What a filter over 100,000 entries costs and loses, asked through the library.

The entries are the sections of the large retrieval set, with attributes that keep known shares of
them. Their vectors are made before any clock runs; each question is embedded while it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Figure
from benchmarks.scale import BATCH, DEPTH, RECALL_K, SET, Given, Say, elapsed_ms
from lastro import store
from lastro.app import App, owner_url
from lastro.beir import Passage, load_passages, load_questions
from lastro.db.pool import Database
from lastro.db.scratch import scratch_database, settle
from lastro.documents import FileIdentity, Prepared, prepare_passage
from lastro.embedders import fingerprint
from lastro.entry_filter import parse_filter
from lastro.figures import latency
from lastro.filters import HardFilter, compile_filter
from lastro.legs import HNSW_SETTINGS, run_vector_leg
from lastro.search import Engine, SearchRequest, search
from lastro.writing import Writer

PROJECT = "entries"
QUESTIONS, WARMING = 100, 10
# Source: the targets of the release.
SEARCH_P95_FLOOR_MS, RECALL_FLOOR = 50.0, 0.99
# Attributes by the share of entries that have them; each includes the rarer ones.
SHARES = (("half", 0.5), ("tenth", 0.1), ("hundredth", 0.01), ("thousandth", 0.001))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """A filter, what it keeps in words, and whether its latency has a floor."""

    keeps: str
    filter: Mapping[str, Any]
    has_floor: bool = True


FILTERS = (
    *(
        Filtered(keeps=f"{share:.1%}, by require", filter={"require": {"tags": tag}})
        for tag, share in SHARES
    ),
    Filtered(keeps="0.1%, by type", filter={"types": ["thousandth"]}),
    Filtered(keeps="99.9%, by forbid", filter={"forbid": {"tags": "thousandth"}}),
    Filtered(
        keeps="about 33%, by types, allow and forbid",
        filter={
            "types": ["half", "rest"],
            "allow": {"region": "north"},
            "forbid": {"tags": "thousandth"},
        },
    ),
    # Neither has an index: each entry is read.
    Filtered(keeps="0.1%, by range alone", filter={"range": {"price": {"lt": 1}}}, has_floor=False),
)


def measure_filters(app: App, data: Path, *, say: Say) -> list[Figure]:
    """Load the set as entries into a scratch database, and ask under each filter there."""
    passages = load_passages(data / SET)
    questions = [question.text for question in load_questions(data / SET)]
    given = Given(app.embedder, app.database)
    with scratch_database(owner_url(app.settings)) as url, Database(url) as database:
        pipeline = replace(app.writer().pipeline, embedder=fingerprint(given))
        writer = Writer(database=database, admin_url=url, embedder=given, pipeline=pipeline)
        _load(writer, passages, say=say)
        settle(url)
        # The scratch database's own cache: no question is known there.
        engine = replace(app.engine, database=database, cache=database)
        asked, warming = questions[:QUESTIONS], questions[QUESTIONS : QUESTIONS + WARMING]
        figures = [_embedding_figure(engine, asked)]
        for filtered in FILTERS:
            say(f"searching: {filtered.keeps}")
            figures += _figures(engine, filtered, asked, warming)
    return figures


# --- loading


def _load(writer: Writer, passages: Sequence[Passage], *, say: Say) -> None:
    say(f"preparing {len(passages):,} entries")
    with writer.database.transaction() as connection:
        project_id = store.ensure_project(connection, PROJECT).id
    prepared = [
        _as_entry(_prepare(passage, writer, project_id), number)
        for number, passage in enumerate(passages)
    ]
    assert isinstance(writer.embedder, Given)
    texts = [text for item in prepared for text in item.texts]
    writer.embedder.learn(texts, role="document", say=say)
    say("storing them")
    for start in range(0, len(prepared), BATCH):
        writer.write(prepared[start : start + BATCH], project_id=project_id, stale=())
    writer.finish()
    with writer.database.transaction(projects=[project_id]) as connection:
        store.refresh_statistics(connection, project_id)


def _prepare(passage: Passage, writer: Writer, project_id: int) -> Prepared:
    """One row, of just the text whose vector is cached."""
    identity = FileIdentity(
        project_id=project_id,
        source=SET,
        path=passage.id,
        scope="docs",
        revision=None,
        content_hash="",
    )
    return prepare_passage(
        passage.text, identity, writer.pipeline, title=passage.title, language="en", whole=True
    )


def _as_entry(prepared: Prepared, number: int) -> Prepared:
    place = (number * 0.6180339887498949) % 1.0
    tags = [tag for tag, share in SHARES if place < share]
    attributes: dict[str, Any] = {
        "tags": tags,
        "price": round(place * 1_000, 2),
        "region": ["north", "south"] if number % 3 == 0 else "west",
        "updated": f"2026-{1 + number % 12:02}-{1 + number % 28:02}",
    }
    document = replace(prepared.document, kind="entity", scope="entity", source=None)
    return replace(
        prepared,
        document=document,
        chunks=tuple(
            replace(
                chunk,
                scope="entity",
                source_path=None,
                heading_path=None,
                anchor=None,
                line_start=None,
                line_end=None,
                entity_key=document.place,
                entity_type=tags[-1] if tags else "rest",
                attributes=attributes,
            )
            for chunk in prepared.chunks
        ),
    )


# --- asking


def _embedding_figure(engine: Engine, questions: Sequence[str]) -> Figure:
    took = [elapsed_ms(lambda: engine.embedder.embed([q], "query")) for q in questions]  # noqa: B023
    return Figure(name="embedding a question alone, p50, ms", value=latency(took).p50_ms, digits=1)


def _figures(
    engine: Engine, filtered: Filtered, questions: Sequence[str], warming: Sequence[str]
) -> list[Figure]:
    _forget_questions(engine.database)
    took = [
        elapsed_ms(lambda: search(engine, request, project=PROJECT))  # noqa: B023
        for request in (
            SearchRequest(query=question, filter=filtered.filter)
            for question in [*warming, *questions]
        )
    ][len(warming) :]
    figures = latency(took)
    keeps = filtered.keeps
    return [
        Figure(name=f"keeps {keeps}: search, p50, ms", value=figures.p50_ms, digits=1),
        Figure(
            name=f"keeps {keeps}: search, p95, ms",
            value=figures.p95_ms,
            floor=SEARCH_P95_FLOOR_MS if filtered.has_floor else None,
            at_least=False,
            digits=1,
        ),
        Figure(
            name=f"keeps {keeps}: recall@{RECALL_K}",
            value=_recall(engine, filtered, questions),
            floor=RECALL_FLOOR,
            digits=3,
        ),
    ]


def _forget_questions(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(
            "DELETE FROM lastro.embedding_cache WHERE first_project = %s", [store.QUESTIONS]
        )


def _recall(engine: Engine, filtered: Filtered, questions: Sequence[str]) -> float:
    """The share of the nearest rows, by exact search, that the vector leg finds."""
    with engine.database.transaction() as connection:
        project_id = store.find_project(connection, PROJECT).id
    predicate = compile_filter(
        HardFilter(project_id=project_id, entries=parse_filter(filtered.filter))
    )
    found: list[float] = []
    for vector in engine.embedder.embed(questions, "query"):
        with engine.database.transaction(
            projects=[project_id], settings=HNSW_SETTINGS
        ) as connection:
            leg = run_vector_leg(
                connection,
                predicate,
                corpus=store.corpus(connection, project_id),
                embedding=vector,
                depth=DEPTH,
            )
            exact = store.vector_leg(
                connection, predicate, embedding=vector, depth=RECALL_K, exact=True
            )
        nearest = {row.id for row in exact}
        found.append(len(nearest & {row.id for row in leg.rows[:RECALL_K]}) / len(nearest))
    return float(np.mean(found))
