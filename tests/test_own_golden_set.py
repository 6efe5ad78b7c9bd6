"""The project's own golden set: every judged place exists, and its questions fare no worse."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from databases import address, scratch_database

from lastro import store
from lastro.chunk_settings import ChunkSettings
from lastro.chunking import chunk_markdown
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import UseM3Embedder, fingerprint
from lastro.figures import COMPLEMENTS, Summary, summarise
from lastro.golden_evaluation import run_golden
from lastro.golden_sets import count_questions, read_golden
from lastro.indexing import index
from lastro.judging import JudgedQuestion, judged_chunks
from lastro.markdown import parse_markdown
from lastro.places import ChunkPlace, FilePlace, covers
from lastro.profiles import SHIPPED
from lastro.runs import GoldenRequest
from lastro.search import Engine
from lastro.sources.files import FilePatterns
from lastro.types import IndexRequest
from lastro.writing import Writer

ROOT = Path(__file__).parent.parent
GOLDEN = read_golden(ROOT / "docs" / "golden.jsonl")
ANSWERABLE = [question for question in GOLDEN.questions if not question.unanswerable]
PROJECT = "own-documents"
LANGUAGES = ("en", "pt", "zh")

# Measured on 2026-11-30 with use-m3 and `default` v2 on 80 pages; a group is a language, or all.
MEASURED = {
    ("en", "ndcg@10"): 0.447,
    ("pt", "ndcg@10"): 0.541,
    ("zh", "ndcg@10"): 0.371,
    ("all", "firstPrecision"): 0.645,
    ("all", "falseAnswers"): 0.150,
    ("all", "falseRefusals"): 0.330,
}
# For pages that are written next: one of 20 unanswerable questions, four of 88 answerable ones.
ROOM = 0.051


@dataclass(frozen=True)
class Library:
    """The repository's documents, indexed as they lie, and the golden set judged on them."""

    engine: Engine
    pipeline: Pipeline
    judged: tuple[JudgedQuestion, ...]


@pytest.fixture(scope="module")
def library(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Library]:
    embedder = UseM3Embedder(cache_dir=tmp_path_factory.getbasetemp().parent / "use-m3")
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with Database(url, max_size=2) as database:
            pipeline = Pipeline(
                chunking=ChunkSettings(), languages=LANGUAGES, embedder=fingerprint(embedder)
            )
            writer = Writer(database=database, admin_url=url, embedder=embedder, pipeline=pipeline)
            index(
                database,
                IndexRequest(path=ROOT, project=PROJECT, worktree=True),
                writer=writer,
                patterns=FilePatterns(),
                progress=lambda _done, _total: None,
            )
            with database.transaction() as connection:
                project_id = store.find_project(connection, PROJECT).id
            with database.transaction(projects=[project_id]) as connection:
                judged = judged_chunks(connection, GOLDEN, project_id=project_id)
            engine = Engine(
                database=database, embedder=embedder, profiles=SHIPPED, languages=LANGUAGES
            )
            yield Library(engine=engine, pipeline=pipeline, judged=judged)


@pytest.fixture(scope="module")
def summary(library: Library) -> Summary:
    """The figures of the whole set, asked as `lastro eval run` asks it."""
    run = run_golden(
        library.engine,
        GoldenRequest(golden="docs/golden.jsonl"),
        GOLDEN,
        project=PROJECT,
        pipeline=library.pipeline,
        progress=lambda _done, _total: None,
    )
    return summarise(run)


def test_the_set_asks_in_three_languages_and_a_fifth_has_no_answer() -> None:
    counts = count_questions(GOLDEN)
    asked = {question.language for question in ANSWERABLE}
    assert (counts.questions - counts.unanswerable >= 60, counts.unanswerable) == (True, 20)
    assert asked == {question.language for question in GOLDEN.questions} == set(LANGUAGES)
    assert counts.derived == 0


def test_every_question_that_has_an_answer_says_how_hard_it_is() -> None:
    assert {question.difficulty for question in ANSWERABLE} == {"easy", "medium", "hard"}


def test_every_language_asks_for_pages_of_another() -> None:
    pages = {"docs/pt/": "pt", "docs/zh/": "zh"}
    crossing = {
        question.language
        for question in ANSWERABLE
        for answer in question.answers
        if pages.get(answer.place.path[: len("docs/pt/")], "en") != question.language
    }
    assert crossing == set(LANGUAGES)


def test_every_judged_place_is_in_the_documents(library: Library) -> None:
    missing = [
        (entry.question.id, entry.question.answers[at].place)
        for entry in library.judged
        for at in entry.not_indexed
    ]
    assert missing == []


def test_every_question_with_an_answer_has_a_chunk_that_settles_it(library: Library) -> None:
    unsettled = [
        entry.question.id
        for entry in library.judged
        if not entry.question.unanswerable
        and max(map(entry.grade, entry.chunks), default=0)
        < max(answer.grade for answer in entry.question.answers)
    ]
    assert unsettled == []


@pytest.mark.parametrize("target_chars", [200, 600, 5_000])
def test_every_judged_place_outlives_another_chunking(target_chars: int) -> None:
    settings = ChunkSettings(target_chars=target_chars, overlap_chars=50, window_chars=50)
    places = {answer.place for question in ANSWERABLE for answer in question.answers}
    chunks = {
        path: chunks_of(path, settings)
        for path in {place.path for place in places if isinstance(place, FilePlace)}
    }
    lost = [
        place
        for place in places
        if isinstance(place, FilePlace)
        and not any(covers(place, chunk) for chunk in chunks[place.path])
    ]
    assert lost == []


def chunks_of(path: str, settings: ChunkSettings) -> list[ChunkPlace]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return [
        ChunkPlace(
            path=path,
            heading_path=chunk.heading_path,
            anchor=chunk.anchor,
            line_start=chunk.line_start,
            line_end=chunk.line_end,
        )
        for chunk in chunk_markdown(parse_markdown(text), settings).chunks
    ]


@pytest.mark.parametrize(("group", "measure"), MEASURED)
def test_own_questions_fare_about_as_well_as_when_last_measured(
    summary: Summary, group: str, measure: str
) -> None:
    groups = {found.name: found for found in (summary.overall, *summary.groups)}
    value = groups[group].figures[measure].value
    assert value is not None
    lost = MEASURED[group, measure] - value
    assert (-lost if measure in COMPLEMENTS else lost) <= ROOM
