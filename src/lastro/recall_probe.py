"""How much of an exact search the vector index finds, on a few of a project's own vectors."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lastro import store
from lastro.db.pool import Database
from lastro.errors import StatementTimeout
from lastro.filters import HardFilter, compile_filter
from lastro.legs import EXACT_ROWS, HNSW_SETTINGS, set_sight
from lastro.profiles import DEFAULT
from lastro.server_checks import REBUILD
from lastro.store import AppConnection, ProjectState
from lastro.types import Check

SAMPLES = 10
K = 10
# halfvec keeps 11 bits of a number: two sums over one row may differ by less than this.
SAME_SCORE = 1e-6
# The floor that the benchmarks hold the index to is .99, over hundreds of questions; ten of them
# with ten hits each are 100 places, of which chance alone may lose a few.
GOOD_RECALL = 0.95
# An exact search over 100,000 rows takes a tenth of a second.
PROBE_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A project's recall@10 in [0, 1] over ``samples`` questions; None where none was in time."""

    slug: str
    samples: int
    recall: float | None


def probe_recall(
    database: Database, states: Sequence[ProjectState], *, exact_rows: int = EXACT_ROWS
) -> list[Probe]:
    """One probe for each project that is searched through the index, the largest first.

    Those of ``exact_rows`` and fewer are read whole, so that nothing can be missed. All together
    take ``PROBE_LIMIT_S`` at most.
    """
    ends = time.monotonic() + PROBE_LIMIT_S
    large = [state for state in states if state.chunks - state.without_vector > exact_rows]
    large.sort(key=lambda state: (-state.chunks, state.slug))
    return [_probe(database, state, ends=ends) for state in large]


def _probe(database: Database, state: ProjectState, *, ends: float) -> Probe:
    found: list[float] = []
    limit_ms = max(1, round((ends - time.monotonic()) * 1000))
    settings = {**HNSW_SETTINGS, "statement_timeout": f"{limit_ms}ms"}
    with (
        suppress(StatementTimeout),  # what was found until then counts
        database.transaction(projects=[state.id], settings=settings) as connection,
    ):
        corpus = store.corpus(connection, state.id)
        set_sight(connection, corpus, kept=state.chunks)
        for vector in store.sample_vectors(connection, state.id, limit=SAMPLES):
            if time.monotonic() > ends:
                break
            found.append(_recall_of(connection, state.id, vector))
    recall = sum(found) / len(found) if found else None
    return Probe(slug=state.slug, samples=len(found), recall=recall)


def _recall_of(connection: AppConnection, project_id: int, vector: NDArray[np.float32]) -> float:
    predicate = compile_filter(HardFilter(project_id=project_id))
    scores = [
        [
            row.score
            for row in store.vector_leg(
                connection,
                predicate,
                embedding=vector,
                depth=DEFAULT.vector_depth,
                exact=exact,
            )
        ][:K]
        for exact in (False, True)
    ]
    return recall_of_scores(*scores)


def recall_of_scores(found: Sequence[float], best: Sequence[float]) -> float:
    """Share of the places of ``best`` that ``found`` fills as well; equal scores are as good.

    Both are best first. 1 where there is nothing to find.
    """
    if not best:
        return 1.0
    reached = sum(score >= best[-1] - SAME_SCORE for score in found[: len(best)])
    return reached / len(best)


def check_recall(probes: Sequence[Probe]) -> Check:
    """Whether the index finds what an exact search finds."""
    measured = [probe for probe in probes if probe.recall is not None]
    poor = [p for p in measured if p.recall is not None and p.recall < GOOD_RECALL]
    if poor:
        return Check(
            name="recall",
            status="warn",
            detail=f"the vector index misses near passages: {_listed(poor)}",
            remedy=f"the owner must run: {REBUILD}",
        )
    if len(measured) < len(probes):
        return Check(
            name="recall",
            status="warn",
            detail=f"not measured within {PROBE_LIMIT_S:g} s: "
            f"{', '.join(probe.slug for probe in probes if probe.recall is None)}",
            remedy="run it again when the server is idle",
        )
    if not measured:
        detail = f"exact: no project has more than {EXACT_ROWS} vectors"
        return Check(name="recall", status="ok", detail=detail)
    return Check(name="recall", status="ok", detail=f"against exact search: {_listed(measured)}")


def _listed(probes: Sequence[Probe]) -> str:
    return ", ".join(f"{p.slug} {p.recall:.2f} of {p.samples} samples" for p in probes)
