"""The calibration use case: legs captured once, numbers chosen, and stored as a new version."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from lastro import adoption, store
from lastro.beir import RetrievalSet, load_set
from lastro.calibration import (
    DEFAULT_SETTINGS,
    Choice,
    recommend,
    settings_of,
    space_of,
    trials,
)
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.errors import InvalidInput, NotFound
from lastro.evaluation import loaded
from lastro.golden import GoldenSet, golden_set
from lastro.golden_evaluation import load_golden
from lastro.intervals import LEAST_QUESTIONS, check_seed
from lastro.leg_cache import cache_golden, cache_set
from lastro.profiles import ADR_0080, KB_RRF, Profile, Thresholds
from lastro.replay import CachedQuestion, ndcg_matrix
from lastro.search import Engine, profile_of
from lastro.self_calibration import self_calibrate
from lastro.store import SelfCheck
from lastro.thresholds import ThresholdChoice, choose_thresholds
from lastro.types import Progress

HASH_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRequest:
    """What to calibrate on and how.

    ``golden`` are files of golden sets, names of imported ones, or folders in the BEIR layout;
    three or more are left out whole, one at a time. ``name`` is that of the new version (None: the
    base's), ``precision`` the share of right hits that the threshold shall give.
    """

    golden: tuple[str, ...]
    profile: str = "default"
    name: str | None = None
    precision: float | None = None
    settings: int = DEFAULT_SETTINGS
    seed: int = 0
    adopt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenUsed:
    """A set that was calibrated on; ``left_out`` counts derived questions beside human ones."""

    name: str
    content_hash: str
    answerable: int
    unanswerable: int
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What was found, and the version that was made of it.

    ``thresholds`` is None where none could be chosen, and ``thresholds_kept`` says why.
    ``profile`` is the new version; None where nothing is recommended, or no project is there to
    keep it.
    """

    golden: tuple[GoldenUsed, ...]
    base: Profile
    choice: Choice
    thresholds: ThresholdChoice | None
    thresholds_kept: str | None
    profile: Profile | None
    stored: bool
    adopted: bool
    embedder: str
    seed: int
    took_ms: float


def calibrate(
    engine: Engine,
    request: CalibrationRequest,
    *,
    project: str,
    pipeline: Pipeline,
    admin_url: str,
    progress: Progress,
) -> Calibrated:
    """Choose the numbers of a profile on judged questions, and store what is recommended.

    Nothing is stored where no gain is certain. Folders are loaded into scratch databases, and need
    the project only to keep the result in. Errors: NotFound and InvalidInput for sets, project and
    profile, DatabaseUnavailable where a folder wants a scratch database that may not be made,
    ProviderError where the embedder fails.
    """
    started = time.perf_counter()
    _check(request)
    is_stored = _exists(engine, project)
    base = _base(engine, request.profile, project=project if is_stored else None)
    used: list[GoldenUsed] = []
    cached: list[CachedQuestion] = []
    for reference in request.golden:
        one, questions = captured(
            engine,
            reference,
            profile=base,
            project=project,
            pipeline=pipeline,
            admin_url=admin_url,
            by_set=len(request.golden) > 1,
            progress=progress,
        )
        if one.content_hash in {other.content_hash for other in used}:
            raise InvalidInput(
                f"{one.name} is there twice; its questions would count double",
                remedy="name each set once",
            )
        used.append(one)
        cached += questions
    choice, thresholds, kept = choose(cached, base, request)
    profile = _made(base, choice, thresholds)
    if profile is not None:
        profile = replace(
            profile,
            name=request.name or base.name,
            calibrated=True,
            embedder=engine.embedder.id,
            provenance=_provenance(engine, request, base, used, choice, thresholds),
        )
    stored = profile is not None and is_stored
    if profile is not None and stored:
        profile = _store(engine, profile, project=project, adopt=request.adopt)
    return Calibrated(
        golden=tuple(used),
        base=base,
        choice=choice,
        thresholds=thresholds,
        thresholds_kept=kept,
        profile=profile,
        stored=stored,
        adopted=stored and request.adopt,
        embedder=fingerprint(engine.embedder),
        seed=request.seed,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def _check(request: CalibrationRequest) -> None:
    if not request.golden:
        raise InvalidInput(
            "there is nothing to calibrate on",
            remedy="name a golden set, its file or a BEIR folder, or use --self",
        )
    if request.precision is not None and not 0 < request.precision <= 1:
        raise InvalidInput(f"a precision of {request.precision:g} is no share from 0 to 1")
    if request.settings < 1:
        raise InvalidInput(f"{request.settings} settings leave none to try")
    check_seed(request.seed)
    if request.name is not None and (not request.name.strip() or "@" in request.name):
        raise InvalidInput(f"{request.name!r} cannot name a profile")
    verbatim = {ADR_0080.name, KB_RRF.name} - {request.profile.partition("@")[0]}
    if request.name in verbatim:
        raise InvalidInput(
            f"{request.name!r} means the numbers of a record, and these would be others",
            remedy="give them another name",
        )


def _exists(engine: Engine, project: str) -> bool:
    try:
        with engine.database.transaction() as connection:
            store.find_project(connection, project)
    except NotFound:
        return False
    return True


def _base(engine: Engine, name: str, *, project: str | None) -> Profile:
    if project is None:
        if name not in engine.profiles:
            known = ", ".join(sorted(engine.profiles))
            raise InvalidInput(f"there is no profile {name!r}", remedy=f"profiles are {known}")
        return engine.profiles[name]
    return profile_of(engine, name, project=project)


# --- capturing


def captured(
    engine: Engine,
    reference: str,
    *,
    profile: Profile,
    project: str,
    pipeline: Pipeline,
    admin_url: str,
    by_set: bool,
    progress: Progress,
) -> tuple[GoldenUsed, list[CachedQuestion]]:
    """A set's questions with their legs; a folder's in a scratch database. Errors: ``calibrate``.

    With ``by_set`` the whole set is one group, else every language of a golden set is.
    """
    folder = Path(reference)
    if folder.is_dir():
        return _captured_folder(
            engine,
            folder,
            profile=profile,
            pipeline=pipeline,
            admin_url=admin_url,
            progress=progress,
        )
    golden, left_out = human_questions(load_golden(engine, reference, project=project))
    questions = cache_golden(
        engine,
        golden,
        project=project,
        profile=profile,
        group=golden.name if by_set else None,
        progress=lambda done: progress(done, len(golden.questions)),
    )
    return _used(golden.name, golden.content_hash, questions, left_out=left_out), questions


def _captured_folder(
    engine: Engine,
    folder: Path,
    *,
    profile: Profile,
    pipeline: Pipeline,
    admin_url: str,
    progress: Progress,
) -> tuple[GoldenUsed, list[CachedQuestion]]:
    data = load_set(folder)
    total = len(data.passages) + len(data.questions)
    name = folder.resolve().name
    with loaded(
        engine,
        data,
        language=None,
        whole=False,
        pipeline=pipeline,
        admin_url=admin_url,
        progress=lambda done: progress(done, total),
    ) as (scratch, _stored):
        questions = cache_set(
            scratch,
            data,
            profile=profile,
            group=name,
            progress=lambda done: progress(len(data.passages) + done, total),
        )
    return _used(name, set_hash(data), questions, left_out=0), questions


def _used(
    name: str, content_hash: str, questions: Sequence[CachedQuestion], *, left_out: int
) -> GoldenUsed:
    answerable = sum(question.answerable for question in questions)
    return GoldenUsed(
        name=name,
        content_hash=content_hash,
        answerable=answerable,
        unanswerable=len(questions) - answerable,
        left_out=left_out,
    )


def human_questions(golden: GoldenSet) -> tuple[GoldenSet, int]:
    """The set without its derived questions, and how many these are; all where none is human."""
    human = tuple(question for question in golden.questions if not question.derived)
    if not human:
        return golden, 0
    kept = replace(golden_set(golden.name, human), content_hash=golden.content_hash)
    return kept, len(golden.questions) - len(human)


def set_hash(data: RetrievalSet) -> str:
    """A hash of a retrieval set's passages, questions and judgements, in any order. Pure."""
    parts = {
        "passages": sorted((p.id, p.title, p.text) for p in data.passages),
        "questions": sorted((q.id, q.text) for q in data.questions),
        "judgements": {q: dict(sorted(grades.items())) for q, grades in data.judgements.items()},
        "excluded": {q: sorted(ids) for q, ids in data.excluded.items()},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


# --- choosing


def choose(
    cached: Sequence[CachedQuestion], base: Profile, request: CalibrationRequest
) -> tuple[Choice, ThresholdChoice | None, str | None]:
    """Ranking numbers, then thresholds for them; or why the thresholds are kept. Pure.

    Errors: InvalidInput where no question has an answer.
    """
    answerable = [question for question in cached if question.answerable]
    if not answerable:
        raise InvalidInput(
            "no question has a judged answer",
            remedy=f"judge {LEAST_QUESTIONS} or more questions",
        )
    kept = _threshold_obstacle(cached, base, request.precision)
    space = space_of(answerable, base, move_cosine=kept is None)
    settings = settings_of(space, base, count=request.settings, seed=request.seed)
    by_set = len(request.golden) >= 3
    choice = recommend(
        trials(
            settings, ndcg_matrix(answerable, settings), answerable, space=space, balance=by_set
        ),
        by_group=by_set,
        seed=request.seed,
    )
    if kept is not None or not isinstance(base.threshold, Thresholds):
        return choice, None, kept
    thresholds = choose_thresholds(
        cached,
        choice.setting if choice.recommended else base,
        base=base.threshold,
        precision=request.precision,
        by_group=by_set,
        seed=request.seed,
    )
    return choice, thresholds, None


def _threshold_obstacle(
    cached: Sequence[CachedQuestion], base: Profile, precision: float | None
) -> str | None:
    if not isinstance(base.threshold, Thresholds):
        return f"{base.name} has no evidence thresholds"
    if precision is None and all(question.answerable for question in cached):
        return (
            "abstention was not measured: no question is unanswerable; "
            "add some, or state a --precision"
        )
    return None


def _made(base: Profile, choice: Choice, thresholds: ThresholdChoice | None) -> Profile | None:
    """The numbers that are recommended; None where all should stay."""
    numbers = choice.setting if choice.recommended else base
    if thresholds is None:
        return numbers if choice.recommended else None
    # On another scale of the cosines the base's thresholds mean nothing.
    if thresholds.recommended or numbers.cosine != base.cosine:
        return replace(numbers, threshold=thresholds.thresholds)
    return numbers if choice.recommended else None


def _provenance(
    engine: Engine,
    request: CalibrationRequest,
    base: Profile,
    used: Sequence[GoldenUsed],
    choice: Choice,
    thresholds: ThresholdChoice | None,
) -> str:
    sets = ", ".join(f"{one.name} {one.content_hash[:HASH_DIGITS]}" for one in used)
    unanswerable = sum(one.unanswerable for one in used)
    said = [
        f"calibrated {datetime.now(UTC).date()} from {base.name} v{base.version} on {sets}",
        f"{choice.questions} questions, {unanswerable} unanswerable",
        f"{choice.settings} settings, seed {request.seed}",
        f"nDCG@10 {choice.base:.4f} to {choice.held_out:.4f} on questions held out, gain "
        f"{choice.gain:+.4f} ({choice.interval.low:+.4f} to {choice.interval.high:+.4f})"
        + ("" if choice.recommended else ", weights kept"),
    ]
    if thresholds is not None:
        aim = "balance" if thresholds.target is None else f"a precision of {thresholds.target:g}"
        kept = "" if thresholds.recommended else ", kept"
        said.append(f"thresholds for {aim}{kept}")
    said.append(f"{fingerprint(engine.embedder)}, Lastro {version('lastro')}")
    return "; ".join(said)


# --- without a golden set


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCalibrated:
    """What a project's own texts say, and the version that was made of it.

    No version where nothing can be told, or the vectors deserve their whole weight.
    """

    check: SelfCheck
    profile: Profile | None
    adopted: bool


def keep_self(engine: Engine, *, project: str, adopt: bool) -> SelfCalibrated:
    """Look at the project's own texts, and keep what follows as a version. Errors: NotFound."""
    found = self_calibrate(
        engine.database,
        engine.embedder,
        engine.profiles,
        project=project,
        languages=engine.languages,
    )
    profile = None if found.check.trust == 1 else found.profile
    if profile is not None:
        profile = _store(engine, profile, project=project, adopt=adopt)
    return SelfCalibrated(check=found.check, profile=profile, adopted=profile is not None and adopt)


# --- keeping


def _store(engine: Engine, profile: Profile, *, project: str, adopt: bool) -> Profile:
    given = engine.profiles.get(profile.name)
    saved = adoption.save(
        engine.database, profile, project=project, after=0 if given is None else given.version
    )
    if adopt:
        adoption.adopt(
            engine.database,
            engine.profiles,
            f"{saved.name}@{saved.version}",
            project=project,
            embedder=engine.embedder.id,
        )
    return saved
