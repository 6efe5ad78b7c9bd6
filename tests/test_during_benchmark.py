"""The benchmark of searches while the index changes: what it draws, times, and calls mixed."""

import time
from dataclasses import replace
from itertools import islice

import pytest

from benchmarks.asking import Asked, ask_on
from benchmarks.drawn_pages import edition_of, pages, questions
from benchmarks.during import Window, missed
from benchmarks.mixing import Judge
from lastro.chunk_settings import ChunkSettings
from lastro.documents import FileIdentity, Pipeline, prepare_file
from lastro.embedders import DeterministicEmbedder

EMBEDDER = DeterministicEmbedder()
# A page in two editions and another page in one, with vectors that stand for two embedders.
OLD, NEW, OTHER = "a. Edition 1.", "a. Edition 2.", "b. Edition 2."
QUESTION = "what is a?"
SPACE = dict(zip((OLD, NEW, OTHER), EMBEDDER.embed([OLD, NEW, OTHER], "document"), strict=True))
FOREIGN = {text: vector[::-1].copy() for text, vector in SPACE.items()}
ASKED = Asked(
    question=QUESTION,
    took_ms=20.0,
    embedder="this",
    refused=0,
    error=None,
    degraded=(),
    vector_available=True,
    hits=(),
)


def cosine(text, space=SPACE) -> float:
    return float(EMBEDDER.embed([QUESTION], "query")[0] @ space[text])


def judged(*hits, **answer):
    judge = Judge(
        spaces={"this": SPACE, "that": FOREIGN}, embedders={"this": EMBEDDER, "that": EMBEDDER}
    )
    return judge.all([replace(ASKED, hits=hits, **answer)])


def window(*took_ms, idle=None, **answer) -> Window:
    asked = [replace(ASKED, took_ms=took, **answer) for took in took_ms]
    judge = Judge(spaces={"this": SPACE}, embedders={"this": EMBEDDER})
    return Window(
        name="w", before="this", took_s=1.0, asked=asked, judged=judge.all(asked), idle=idle
    )


def test_pages_become_as_many_chunks_as_asked_for() -> None:
    pipeline = Pipeline(chunking=ChunkSettings(), languages=("en",), embedder="e")
    identity = FileIdentity(
        project_id=1, source="s", path="docs/p.md", scope="docs", revision=None, content_hash=""
    )
    prepared = [prepare_file(text, identity, pipeline) for _, text in pages(10, edition=3)]
    # Two pages of four sections and one of two; no chunk for the title alone
    assert [len(item.chunks) for item in prepared] == [4, 4, 2]


def test_every_section_of_an_edition_says_which_it_is() -> None:
    ((_, text),) = pages(4, edition=3)
    sections = text.split("\n## ")[1:]
    assert [edition_of(section) for section in sections] == [3, 3, 3, 3]


def test_no_question_is_asked_twice() -> None:
    drawn = list(islice(questions(1_000, seed=1), 500))
    assert len(set(drawn)) == 500


def test_documents_of_different_editions_may_stand_in_one_answer() -> None:
    hits = ("a.md", OLD, cosine(OLD)), ("b.md", OTHER, cosine(OTHER))
    assert judged(*hits).faults == []


def test_a_document_half_old_and_half_new_is_mixed() -> None:
    hits = ("a.md", OLD, cosine(OLD)), ("a.md", NEW, cosine(NEW))
    assert judged(*hits).faults == ["a.md is of editions 1 and 2 in one answer"]


def test_a_score_of_the_other_space_is_mixed() -> None:
    foreign = cosine(OLD, FOREIGN)
    assert abs(foreign - cosine(OLD)) > 0.001
    assert judged(("a.md", OLD, foreign)).mixed == 1
    assert judged(("a.md", OLD, foreign), embedder="that").mixed == 0


def test_a_text_that_was_never_stored_is_mixed() -> None:
    assert judged(("a.md", "a. Edition 7.", 0.1)).mixed == 1


@pytest.mark.parametrize(
    "lack",
    [
        {"error": "DATABASE_UNAVAILABLE: gone"},
        {"vector_available": False},
        {"degraded": ("vectors_missing",)},
    ],
)
def test_an_answer_that_lacks_something_is_an_error(lack) -> None:
    assert judged(**lack).errors == 1


def test_an_answer_may_say_that_an_index_run_is_at_work() -> None:
    assert judged(degraded=("index_incomplete",)).errors == 0


def test_questions_that_waited_for_a_slow_answer_count_their_wait() -> None:
    naps = iter([0.1, 0.0, 0.0])

    def ask(question: str, *, due: float) -> Asked:
        time.sleep(next(naps))
        return replace(ASKED, question=question, took_ms=(time.monotonic() - due) * 1000)

    def never(due: float) -> bool:
        time.sleep(max(0.0, due - time.monotonic()))
        return False

    took = [one.took_ms for one in ask_on(ask, "abc", per_second=100.0, ended=never)]
    # Due at 0, 10 and 20 ms; all are answered from 100 ms on
    assert took[0] >= 100
    assert took[1] >= 90
    assert took[2] >= 80


def test_more_than_twice_the_idle_time_is_missed() -> None:
    idle = window(*range(1, 101))  # p95 is 95 ms
    assert missed([idle, window(190.0, idle=idle)]) == []
    assert missed([window(190.1, idle=idle)]) == ["w: p95 2.00 times idle, floor 2"]


def test_one_error_is_missed() -> None:
    assert missed([window(1.0, error="gone")]) == ["w: gone"]
