"""The calibration use case: legs captured once, numbers chosen, and stored as a new version."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version

from lastro import adoption
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
from lastro.intervals import check_seed
from lastro.leg_cache import GoldenUsed, captured, with_answers
from lastro.profiles import ADR_0080, KB_RRF, Profile, Thresholds
from lastro.projects import project_id_of
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
    used, cached = _captured(
        engine,
        request.golden,
        profile=base,
        project=project,
        pipeline=pipeline,
        admin_url=admin_url,
        progress=progress,
    )
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
        raise InvalidInput(
            f"a precision of {request.precision:g} is no share from 0 to 1",
            remedy="for example --precision 0.9",
        )
    if request.settings < 1:
        raise InvalidInput(
            f"{request.settings} settings leave none to try", remedy="give --settings 1 or more"
        )
    check_seed(request.seed)
    if request.name is not None and (not request.name.strip() or "@" in request.name):
        raise InvalidInput(
            f"{request.name!r} cannot name a profile", remedy="give a name without @"
        )
    verbatim = {ADR_0080.name, KB_RRF.name} - {request.profile.partition("@")[0]}
    if request.name in verbatim:
        raise InvalidInput(
            f"{request.name!r} means the numbers of a record, and these would be others",
            remedy="give them another name",
        )


def _exists(engine: Engine, project: str) -> bool:
    try:
        project_id_of(engine.database, project)
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


def _captured(
    engine: Engine,
    golden: Sequence[str],
    *,
    profile: Profile,
    project: str,
    pipeline: Pipeline,
    admin_url: str,
    progress: Progress,
) -> tuple[list[GoldenUsed], list[CachedQuestion]]:
    used: list[GoldenUsed] = []
    cached: list[CachedQuestion] = []
    for reference in golden:
        one, questions = captured(
            engine,
            reference,
            profile=profile,
            project=project,
            pipeline=pipeline,
            admin_url=admin_url,
            by_set=len(golden) > 1,
            progress=progress,
        )
        if one.content_hash in {other.content_hash for other in used}:
            raise InvalidInput(
                f"{one.name} is there twice; its questions would count double",
                remedy="name each set once",
            )
        used.append(one)
        cached += questions
    return used, cached


# --- choosing


def choose(
    cached: Sequence[CachedQuestion], base: Profile, request: CalibrationRequest
) -> tuple[Choice, ThresholdChoice | None, str | None]:
    """Ranking numbers, then thresholds for them; or why the thresholds are kept. Pure.

    Errors: InvalidInput where no question has an answer.
    """
    answerable = with_answers(cached)
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
    found = self_calibrate(engine, project=project)
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
        versions = adoption.ProfileVersions(
            database=engine.database,
            given=engine.profiles,
            project=project,
            embedder=engine.embedder.id,
        )
        versions.adopt(f"{saved.name}@{saved.version}")
    return saved
