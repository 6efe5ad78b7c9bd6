"""Captured legs: the arrays judge a ranking as the search itself does."""

from dataclasses import replace

import pytest

from lastro.beir import Passage, Question, RetrievalSet
from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.evaluation import PROJECT, store_passages
from lastro.golden import Answer, GoldenQuestion, golden_set
from lastro.leg_cache import cache_golden, cache_set
from lastro.metrics import ndcg
from lastro.places import FilePlace
from lastro.profiles import DEFAULT, SHIPPED
from lastro.replay import fused, lexical_scores, ndcg_matrix
from lastro.search import Engine, SearchRequest, find
from lastro.writing import Writer

SHIPS = ("barque", "brigantine", "caravel", "dhow", "felucca", "galleon", "junk", "ketch")
FILLER = "The crew kept the log and the captain signed it every evening. "


def passages() -> tuple[Passage, ...]:
    """A passage about each ship, every second one long; each names the next ship once."""
    return tuple(
        Passage(
            f"docs/{ship}.md",
            ship.title(),
            f"The {ship} sailed at dawn. {FILLER * (30 * (at % 2) + 1)} "
            f"A {SHIPS[(at + 1) % len(SHIPS)]} followed the {ship}.",
        )
        for at, ship in enumerate(SHIPS)
    )


@pytest.fixture
def engine(app_database: Database, owner_url: str, embedder: DeterministicEmbedder) -> Engine:
    writer = Writer(
        database=app_database,
        admin_url=owner_url,
        embedder=embedder,
        pipeline=Pipeline(
            chunking=ChunkSettings(), languages=("en",), embedder=fingerprint(embedder)
        ),
    )
    store_passages(writer, passages(), language="en", whole=False, progress=lambda _done: None)
    return Engine(database=app_database, embedder=embedder, profiles=SHIPPED, languages=("en",))


def golden() -> list[GoldenQuestion]:
    return [
        *(
            GoldenQuestion(
                id=ship,
                question=f"Which {ship} sailed at dawn?",
                language="en",
                answers=(Answer(place=FilePlace(path=f"docs/{ship}.md"), grade=2),),
            )
            for ship in SHIPS
        ),
        GoldenQuestion(
            id="none", question="Who brews the tea?", language="en", answers=(), unanswerable=True
        ),
    ]


def quiet(_done: int) -> None:
    """Nobody watches."""


def test_the_replayed_order_and_scores_are_those_of_the_search(engine: Engine) -> None:
    cached = cache_golden(
        engine,
        golden_set("ships", tuple(golden())),
        project=PROJECT,
        profile=DEFAULT,
        progress=quiet,
    )
    for question, asked in zip(cached, sorted(golden(), key=lambda q: q.id), strict=True):
        found = find(engine, SearchRequest(query=asked.question, profile=DEFAULT), project=PROJECT)
        _, scores = fused(question, DEFAULT)
        assert scores == pytest.approx([item.score for item in found.ranked], abs=1e-6)


def test_the_lexical_score_of_the_database_can_be_had_back(engine: Engine) -> None:
    profile = replace(DEFAULT, length_exponent=0.4)
    (question,) = cache_golden(
        engine,
        golden_set("ships", tuple(golden()[:1])),
        project=PROJECT,
        profile=profile,
        progress=quiet,
    )
    found = find(
        engine, SearchRequest(query=golden()[0].question, profile=profile), project=PROJECT
    )
    rows = sorted(
        (item.candidate for item in found.ranked),
        key=lambda c: (c.place, c.ordinal, str(c.id)),
    )
    again = lexical_scores(question, length_exponent=0.4)
    assert (question.length_ratio != 1).any()
    assert again.tolist() == pytest.approx(
        [float("nan") if c.lexical_score is None else c.lexical_score for c in rows],
        abs=1e-6,
        nan_ok=True,
    )


def test_chunks_of_one_answer_are_one_unit_and_an_unanswerable_question_has_none(engine) -> None:
    by_id = {
        question.id: question
        for question in cache_golden(
            engine,
            golden_set("ships", tuple(golden())),
            project=PROJECT,
            profile=DEFAULT,
            progress=quiet,
        )
    }
    long = by_id["brigantine"]
    assert long.answerable
    assert long.unit_grade.max() == 2
    assert long.ideal_gains.tolist() == [2]
    assert len(long.unit) > len(long.unit_grade)
    assert not by_id["none"].answerable
    assert by_id["none"].unit_grade.max() == 0


def test_an_answer_within_another_is_no_ideal_of_its_own(engine) -> None:
    path = f"docs/{SHIPS[0]}.md"
    places = (FilePlace(path=path), FilePlace(path=path, lines=(1, 2)))
    question = replace(golden()[0], answers=tuple(Answer(place=place) for place in places))
    (cached,) = cache_golden(
        engine,
        golden_set("twice", (question,)),
        project=PROJECT,
        profile=DEFAULT,
        progress=quiet,
    )
    assert cached.ideal_gains.tolist() == [1.0]


def test_a_set_is_judged_by_passage_and_excluded_ones_do_not_count(engine: Engine) -> None:
    questions = tuple(Question(ship, f"the {ship} at dawn") for ship in SHIPS)
    data = RetrievalSet(
        passages=passages(),
        questions=questions,
        judgements={ship: {f"docs/{ship}.md": 1} for ship in SHIPS},
        excluded={"junk": frozenset({"docs/junk.md"})},
    )
    cached = cache_set(engine, data, profile=DEFAULT, group="ships", progress=quiet)
    figures = ndcg_matrix(cached, [DEFAULT])[0].tolist()
    assert {question.group for question in cached} == {"ships"}
    for question, figure in zip(questions, figures, strict=True):
        found = find(engine, SearchRequest(query=question.text, profile=DEFAULT), project=PROJECT)
        kept = dict.fromkeys(
            item.candidate.place
            for item in found.ranked
            if item.candidate.place not in data.excluded.get(question.id, ())
        )
        gains = [data.judgements[question.id].get(place, 0) for place in kept]
        assert figure == pytest.approx(ndcg(gains, [1]), abs=1e-6)
    assert figures[SHIPS.index("junk")] == 0
    assert max(figures) == 1


def test_passages_of_one_page_count_once_and_a_question_may_have_no_answer(engine: Engine) -> None:
    data = RetrievalSet(
        passages=passages(),
        questions=(Question("page", f"the {SHIPS[0]} at dawn"), Question("none", "who sang?")),
        judgements={"page": {"docs": 2}, "none": {}},
        excluded={},
    )
    page, none = cache_set(
        engine, data, profile=DEFAULT, group="ships", collapse="/", progress=quiet
    )
    # Every place is docs/SHIP.md: one page, which answers.
    assert (page.unit_grade.tolist(), page.ideal_gains.tolist()) == ([2], [2])
    assert (page.answerable, none.answerable) == (True, False)
