"""The sets behind the shipped ``default`` profile, each with questions that it cannot answer.

A set is asked its own questions, and half as many that belong to other sets, so that a third has no
answer. The three trees of FastAPI's documentation are parallel: each is asked the questions of the
other two as well, which the page with the same path answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lastro.app import App, owner_url
from lastro.beir import Question, RetrievalSet, collapsed, load_set
from lastro.evaluation import loaded
from lastro.leg_cache import cache_set, set_hash
from lastro.profiles import Profile
from lastro.replay import CachedQuestion

# What is asked of a set. Foreign questions are another set's, in the set's language or in another.
OWN, CROSS = "own", "cross-language"
FOREIGN, FOREIGN_LANGUAGE = "foreign", "foreign, other language"
CROSS_FOREIGN = "cross-language, foreign"
KINDS = (OWN, FOREIGN, FOREIGN_LANGUAGE, CROSS, CROSS_FOREIGN)
_MARK = " / "
SEED = 5

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A public set: its folder's name, its language, and the subject that it shares with others.

    ``collapse`` and ``qrels`` are those of ``load_set``.
    """

    name: str
    language: str
    subject: str
    collapse: str | None = None
    qrels: str | None = None


def _tree(language: str) -> Source:
    name = f"fastapi-docs-{language}"
    return Source(
        name=name, language=language, subject="fastapi", collapse="#", qrels="qrels_page.tsv"
    )


SOURCES: Sequence[Source] = (
    Source(name="scifact", language="en", subject="scifact"),
    Source(name="cranfield", language="en", subject="cranfield"),
    Source(name="receita-pt", language="pt", subject="receita"),
    Source(name="anthropic-docs", language="en", subject="anthropic"),
    Source(name="tidb-faq-zh", language="zh", subject="tidb"),
    _tree("en"),
    _tree("pt"),
    _tree("zh"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Captured:
    """A set's questions with both legs' candidates, and what they were captured from."""

    name: str
    content_hash: str
    documents: int
    chunks: int
    questions: Sequence[CachedQuestion]


def kind_of(question: CachedQuestion) -> str:
    """Which of KINDS a captured question is."""
    return question.id.partition(_MARK)[0]


def load_all(folder: Path) -> dict[Source, RetrievalSet]:
    """Every set that ``folder`` holds by its name. Errors: NotFound, InvalidInput."""
    return {
        source: load_set(
            folder / source.name,
            qrels=None if source.qrels is None else folder / source.name / source.qrels,
            collapse=source.collapse,
        )
        for source in SOURCES
    }


def asked(own: Source, sets: Mapping[Source, RetrievalSet], *, seed: int = SEED) -> RetrievalSet:
    """The set of ``own`` with every question that is put to it, its kind before its id. Pure."""
    data = sets[own]
    random = np.random.default_rng([seed, [s.name for s in sets].index(own.name)])
    near = [s for s in sets if s.subject != own.subject and s.language == own.language]
    far = [s for s in sets if s.subject != own.subject and s.language != own.language]
    made = _own(data)
    wanted = len(data.questions) // 2
    foreign = _drawn(FOREIGN, near, sets, count=wanted, random=random)
    made += foreign
    made += _drawn(FOREIGN_LANGUAGE, far, sets, count=wanted - len(foreign), random=random)
    crossing = [
        entry
        for other in sets
        if other.subject == own.subject and other is not own
        for entry in _crossing(other.name, sets[other], data, collapse=own.collapse)
    ]
    made += crossing
    made += _drawn(CROSS_FOREIGN, far, sets, count=len(crossing) // 2, random=random)
    return replace(
        data,
        questions=tuple(entry.question for entry in made),
        judgements={entry.question.id: entry.grades for entry in made},
        excluded={entry.question.id: entry.excluded for entry in made},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    question: Question
    grades: Mapping[str, int]
    excluded: frozenset[str]


def _own(data: RetrievalSet) -> list[_Entry]:
    return [
        _Entry(
            question=Question(f"{OWN}{_MARK}{question.id}", question.text),
            grades=data.judgements[question.id],
            excluded=data.excluded.get(question.id, frozenset()),
        )
        for question in data.questions
    ]


def _drawn(
    kind: str,
    sources: Sequence[Source],
    sets: Mapping[Source, RetrievalSet],
    *,
    count: int,
    random: np.random.Generator,
) -> list[_Entry]:
    """Up to ``count`` questions of ``sources``, as even among them as their sizes allow."""
    left = {source.name: list(sets[source].questions) for source in sources}
    for questions in left.values():
        random.shuffle(questions)
    made: list[_Entry] = []
    while len(made) < count and any(left.values()):
        for name, questions in left.items():
            if questions and len(made) < count:
                question = questions.pop()
                id_ = f"{kind}{_MARK}{name}{_MARK}{question.id}"
                made.append(
                    _Entry(question=Question(id_, question.text), grades={}, excluded=frozenset())
                )
    return made


def _crossing(
    name: str, other: RetrievalSet, data: RetrievalSet, *, collapse: str | None
) -> list[_Entry]:
    """The questions of a parallel tree of which this one has every page that answers."""
    ids = {passage.id for passage in data.passages}
    pages = {collapsed(id_, collapse) for id_ in ids}
    return [
        _Entry(
            question=Question(f"{CROSS}{_MARK}{name}{_MARK}{question.id}", question.text),
            grades=other.judgements[question.id],
            excluded=other.excluded.get(question.id, frozenset()) & ids,
        )
        for question in other.questions
        if pages.issuperset(other.judgements[question.id])
    ]


def capture(
    app: App, source: Source, sets: Mapping[Source, RetrievalSet], *, profile: Profile, say: Say
) -> Captured:
    """Load a set in chunks into a scratch database, as users index, and ask it everything."""
    data = asked(source, sets)
    with loaded(
        app.engine,
        data,
        language=None,
        whole=False,
        pipeline=app.writer().pipeline,
        admin_url=owner_url(app.settings),
        progress=lambda _done: None,
    ) as (scratch, stored):
        say(f"{source.name}: {stored.chunks} chunks of {len(data.passages)} passages")
        questions = cache_set(
            scratch,
            data,
            profile=profile,
            group=source.name,
            collapse=source.collapse,
            progress=lambda _done: None,
        )
    say(f"{source.name}: {len(questions)} questions")
    return Captured(
        name=source.name,
        content_hash=set_hash(sets[source]),
        documents=len(data.passages),
        chunks=stored.chunks,
        questions=questions,
    )
