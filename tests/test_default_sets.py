"""What is asked of each set behind the shipped ``default``."""

from benchmarks.default_sets import (
    CROSS,
    CROSS_FOREIGN,
    FOREIGN,
    FOREIGN_LANGUAGE,
    OWN,
    Source,
    asked,
)
from lastro.beir import Passage, Question, RetrievalSet


def a_tree(language: str, pages: list[str]) -> tuple[Source, RetrievalSet]:
    source = Source(name=f"tree-{language}", language=language, subject="tree", collapse="#")
    return source, a_set(
        [f"{page}.md#part" for page in pages],
        {f"{language}{n}": f"{page}.md" for n, page in enumerate(pages)},
    )


def a_set(ids: list[str], answers: dict[str, str]) -> RetrievalSet:
    return RetrievalSet(
        passages=tuple(Passage(id_, "", "text") for id_ in ids),
        questions=tuple(Question(id_, f"what of {id_}?") for id_ in answers),
        judgements={question: {answer: 1} for question, answer in answers.items()},
        excluded={},
    )


def another(name: str, language: str, count: int) -> tuple[Source, RetrievalSet]:
    source = Source(name=name, language=language, subject=name)
    ids = [f"{name}{n}" for n in range(count)]
    return source, a_set(ids, {f"q{n}": id_ for n, id_ in enumerate(ids)})


SETS = dict(
    [
        a_tree("en", ["install", "deploy", "test", "route"]),
        a_tree("pt", ["install", "deploy", "test", "extra"]),
        another("ships", "en", 10),
        another("barcos", "pt", 10),
    ]
)
EN, PT, SHIPS, BARCOS = SETS


def kinds_asked(source: Source) -> dict[str, int]:
    kinds = [question.id.partition(" / ")[0] for question in asked(source, SETS).questions]
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def test_a_third_of_what_a_set_is_asked_has_no_answer() -> None:
    # The tree has 4 questions in English, so 1 of the 5 comes from another language.
    assert kinds_asked(SHIPS) == {OWN: 10, FOREIGN: 4, FOREIGN_LANGUAGE: 1}


def test_a_parallel_tree_is_asked_what_its_own_pages_answer_in_other_words() -> None:
    # Of the 4 Portuguese questions the page of one, extra.md, is not there in English.
    assert kinds_asked(EN) == {OWN: 4, FOREIGN: 2, CROSS: 3, CROSS_FOREIGN: 1}


def test_no_question_counts_as_foreign_to_its_own_subject() -> None:
    data = asked(EN, SETS)
    foreign = [question.id for question in data.questions if not data.judgements[question.id]]
    assert foreign
    assert not [id_ for id_ in foreign if "tree-" in id_]


def test_the_same_questions_are_drawn_again() -> None:
    assert asked(PT, SETS) == asked(PT, SETS)
