"""Runs written down by hand, for tests of what is made of them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lastro.profiles import DEFAULT, Thresholds
from lastro.runs import (
    AnswerResult,
    CorpusState,
    CurvePoint,
    GoldenRef,
    HitResult,
    QuestionResult,
    Run,
    SourceState,
)

PROFILE = replace(DEFAULT, threshold=Thresholds(both=0.2, vector_only=0.3, lexical_only=0.4))


def a_result(
    id_: str = "q",
    *,
    ranks: tuple[int | None, ...] = (1,),
    grades: tuple[int, ...] | None = None,
    hits: tuple[int, ...] = (1,),
    **changes: Any,
) -> QuestionResult:
    """A question whose answers stood at ``ranks``; ``hits`` are the grades of what was shown."""
    fields: dict[str, Any] = {
        "question": f"What of {id_}?",
        "language": "en",
        "scopes": ("docs",),
        "difficulty": None,
        "derived": False,
        "unanswerable": False,
        "degraded": (),
        "took_ms": 10.0,
        **changes,
    }
    return QuestionResult(
        id=id_,
        answers=tuple(
            AnswerResult(place=f"docs/{id_}{at}.md", grade=grade, rank=rank, indexed=True)
            for at, (rank, grade) in enumerate(zip(ranks, grades or (1,) * len(ranks), strict=True))
        ),
        hits=tuple(
            HitResult(place=f"docs/{id_}.md:{at}-{at}", score=0.5, grade=grade)
            for at, grade in enumerate(hits, start=1)
        ),
        **fields,
    )


def unanswerable(id_: str = "u", *, hits: tuple[int, ...] = (), **changes: Any) -> QuestionResult:
    """A question that nothing answers; every hit is wrong."""
    return a_result(id_, ranks=(), hits=hits, scopes=(), unanswerable=True, **changes)


def a_run(*results: QuestionResult, **changes: Any) -> Run:
    """A run of these results."""
    moment = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    fields: dict[str, Any] = {
        "project": "harbour",
        "golden": GoldenRef(name="pilots", content_hash="ab" * 32),
        "profile_name": "default",
        "profile": PROFILE,
        "k": 10,
        "seed": 0,
        "embedder": "deterministic@1/8",
        "pipeline": "cd" * 16,
        "chunking": {"targetChars": 1200},
        "corpus": CorpusState(
            sources=(SourceState(name="main", ref="HEAD", revision="e" * 40, indexed_at=moment),),
            documents=4,
            chunks=9,
            changed_at=moment,
            outdated=0,
        ),
        "version": "0.1.0",
        "started_at": moment,
        "curve_scale": "factor",
        "curve": (
            CurvePoint(
                level=0.0,
                hits=8,
                right_hits=4,
                answered=3,
                first_right=2,
                false_answers=1,
                false_refusals=0,
            ),
            CurvePoint(
                level=2.0,
                hits=0,
                right_hits=0,
                answered=0,
                first_right=0,
                false_answers=0,
                false_refusals=3,
            ),
        ),
        **changes,
    }
    return Run(results=results, **fields)
