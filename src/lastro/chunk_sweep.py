"""The sweep over chunk sizes: sources or passages indexed anew with each, and asked alike."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.db.scratch import scratch_database, settle
from lastro.documents import Pipeline
from lastro.errors import InvalidInput
from lastro.evaluation import PROJECT
from lastro.golden_evaluation import load_golden
from lastro.indexing import index
from lastro.intervals import CONFIDENCE, Interval, check_seed, difference_interval
from lastro.leg_cache import cache_golden, captured, human_questions, with_answers
from lastro.profiles import Profile
from lastro.projects import project_sources
from lastro.replay import CachedQuestion, ndcg_matrix
from lastro.search import Engine, profile_of
from lastro.sources.clones import Clones
from lastro.sources.files import FilePatterns
from lastro.types import DEFAULT_REF, IndexRequest, Progress
from lastro.writing import Writer

DEFAULT_TARGETS = (600, 900, 1200, 1800)
DEFAULT_OVERLAPS = (0, 150)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """Which sizes to try on which set, a golden one or a BEIR folder."""

    golden: str
    profile: str = "default"
    target_chars: tuple[int, ...] = DEFAULT_TARGETS
    overlap_chars: tuple[int, ...] = DEFAULT_OVERLAPS
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One size; ``gain`` is over the current one, with an interval that allows for all tried."""

    target_chars: int
    overlap_chars: int
    ndcg: float
    gain: float
    interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Every size that was tried, the current one first.

    ``recommended`` is the best of those whose gain's interval lies above zero; None where there is
    none, and the current size should stay.
    """

    questions: int
    sizes: tuple[Swept, ...]
    recommended: Swept | None


def sweep(
    engine: Engine,
    request: SweepRequest,
    *,
    project: str,
    pipeline: Pipeline,
    patterns: FilePatterns,
    admin_url: str,
    progress: Progress,
    clones: Clones | None = None,
) -> Sweep:
    """Measure nDCG@10 at every size, each in a scratch database of its own.

    Only the embedding cache of the project's database is written. Of a project its files are
    indexed, and neither sessions nor entries. Errors: as ``calibrating.calibrate``, InvalidInput
    for sizes that exclude each other.
    """
    check_seed(request.seed)
    tried = chunk_settings(pipeline.chunking, request)
    figures: list[NDArray[np.float32]] = []
    for number, chunking in enumerate(tried):
        progress(number, len(tried))
        profile, cached = _asked(
            engine,
            request,
            project=project,
            pipeline=replace(pipeline, chunking=chunking),
            patterns=patterns,
            admin_url=admin_url,
            clones=clones,
        )
        figures.append(ndcg_matrix(with_answers(cached), [profile])[0])
    progress(len(tried), len(tried))
    return compared(tried, figures, seed=request.seed)


def chunk_settings(current: ChunkSettings, request: SweepRequest) -> list[ChunkSettings]:
    """The current sizes, then every other target with every overlap of at most half of it. Pure.

    Errors: InvalidInput for a size that goes with none of the others.
    """
    for target in request.target_chars:
        if min(request.overlap_chars) > target // 2 or target < 1:
            raise InvalidInput(
                f"chunks of {target} characters go with no overlap that is to be tried",
                remedy="an overlap is at most half of the size; give other --target or --overlap",
            )
    sizes = product(request.target_chars, request.overlap_chars)
    others = [
        replace(current, target_chars=target, overlap_chars=overlap)
        for target, overlap in sizes
        if overlap <= target // 2
    ]
    return list(dict.fromkeys([current, *others]))


def compared(
    tried: Sequence[ChunkSettings], figures: Sequence[NDArray[np.float32]], *, seed: int
) -> Sweep:
    """Sizes against the first, over the same questions. Pure.

    Each interval is as wide as it takes for all of them to hold together (Bonferroni).
    """
    confidence = 1 - (1 - CONFIDENCE) / max(len(tried) - 1, 1)
    sizes: list[Swept] = []
    for chunking, values in zip(tried, figures, strict=True):
        around = difference_interval(figures[0], values, seed=seed, confidence=confidence)
        sizes.append(
            Swept(
                target_chars=chunking.target_chars,
                overlap_chars=chunking.overlap_chars,
                ndcg=float(values.mean()),
                gain=float(values.mean() - figures[0].mean()),
                interval=around or Interval(0.0, 0.0),
            )
        )
    better = [size for size in sizes if size.interval.low > 0]
    return Sweep(
        questions=len(figures[0]),
        sizes=tuple(sizes),
        recommended=max(better, key=lambda size: size.gain, default=None),
    )


def _asked(
    engine: Engine,
    request: SweepRequest,
    *,
    project: str,
    pipeline: Pipeline,
    patterns: FilePatterns,
    admin_url: str,
    clones: Clones | None,
) -> tuple[Profile, list[CachedQuestion]]:
    if Path(request.golden).is_dir():
        profile = engine.profiles.get(request.profile)
        if profile is None:
            profile = profile_of(engine, request.profile, project=project)
        _, cached = captured(
            engine,
            request.golden,
            profile=profile,
            project=project,
            pipeline=pipeline,
            admin_url=admin_url,
            by_set=False,
            progress=lambda _done, _total: None,
        )
        return profile, cached
    profile = profile_of(engine, request.profile, project=project)
    golden, _ = human_questions(load_golden(engine, request.golden, project=project))
    with _indexed_anew(
        engine, project, pipeline=pipeline, patterns=patterns, admin_url=admin_url, clones=clones
    ) as scratch:
        return profile, cache_golden(
            scratch, golden, project=PROJECT, profile=profile, progress=lambda _done: None
        )


@contextmanager
def _indexed_anew(
    engine: Engine,
    project: str,
    *,
    pipeline: Pipeline,
    patterns: FilePatterns,
    admin_url: str,
    clones: Clones | None,
) -> Generator[Engine]:
    """What searches the project's sources as ``pipeline`` cuts them, in a scratch database."""
    own, sources = project_sources(engine.database, project)
    with scratch_database(admin_url) as url, Database(url) as database:
        writer = Writer(
            database=database,
            admin_url=url,
            embedder=engine.embedder,
            pipeline=pipeline,
            cache=engine.database,
            cache_project=own.id,
        )
        for source in sources:
            index(
                database,
                IndexRequest(
                    path=source.root,
                    project=PROJECT,
                    ref=source.ref or DEFAULT_REF,
                    worktree=source.kind == "worktree",
                ),
                writer=writer,
                patterns=patterns,
                progress=lambda _done, _total: None,
                clones=clones,
            )
        settle(url)
        yield replace(engine, database=database, cache=engine.database, cache_project=own.id)
