"""``lastro calibrate``: ranking numbers chosen on judged questions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lastro.app import build
from lastro.calibration import DEFAULT_SETTINGS, Choice
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import print_data, print_json, progress_bar, screen_width
from lastro.cli.tables import pairs, table
from lastro.config import load_settings
from lastro.errors import InvalidInput
from lastro.profiles import Profile
from lastro.reports.wording import thresholds_text
from lastro.wire import to_json

if TYPE_CHECKING:
    from lastro.calibrating import Calibrated, SelfCalibrated
    from lastro.chunk_sweep import Sweep
    from lastro.thresholds import Point, ThresholdChoice

# Rows of the curve that a table shows.
CURVE_ROWS = 12

GoldenArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[GOLDEN]...",
        help="A golden set's file or name, or a folder in the BEIR layout.",
        show_default=False,
    ),
]
BaseOption = Annotated[
    str, typer.Option("--profile", metavar="NAME", help="The profile to start from.")
]
NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of the new version.", show_default=False),
]
PrecisionOption = Annotated[
    float | None,
    typer.Option(
        "--precision",
        metavar="P",
        help="Share of right hits that the threshold shall give; by default it balances "
        "false answers and false refusals.",
        show_default=False,
    ),
]
SettingsOption = Annotated[
    int, typer.Option("--settings", metavar="N", help="How many settings are tried.")
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="S", help="Seed of all chance.")]
AdoptOption = Annotated[bool, typer.Option("--adopt", help="Answer with the new version at once.")]
SelfOption = Annotated[
    bool,
    typer.Option("--self", help="Without a golden set: ask the project's own texts."),
]
ChunkingOption = Annotated[
    bool, typer.Option("--chunking", help="Try chunk sizes instead of ranking numbers.")
]
TargetOption = Annotated[
    list[int] | None,
    typer.Option(
        "--target", metavar="CHARS", help="A chunk size to try; repeat it.", show_default=False
    ),
]
OverlapOption = Annotated[
    list[int] | None,
    typer.Option(
        "--overlap", metavar="CHARS", help="An overlap to try; repeat it.", show_default=False
    ),
]


def calibrate(
    golden: GoldenArgument = None,
    *,
    project: ProjectOption = None,
    profile: BaseOption = "default",
    name: NameOption = None,
    precision: PrecisionOption = None,
    settings: SettingsOption = DEFAULT_SETTINGS,
    seed: SeedOption = 0,
    adopt: AdoptOption = False,
    self_: SelfOption = False,
    chunking: ChunkingOption = False,
    target: TargetOption = None,
    overlap: OverlapOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Choose ranking numbers on judged questions, or say that none is certainly better."""
    from lastro.calibrating import CalibrationRequest

    if self_ == bool(golden):
        raise InvalidInput(
            "calibrate on golden sets, or on the project's own texts",
            remedy="name a golden set's file or name or a BEIR folder, or give --self",
        )
    if self_:
        if chunking or target or overlap or precision is not None or name is not None:
            raise InvalidInput(
                "--self takes no --name, --precision, --chunking, --target or --overlap",
                remedy="name a golden set, or give --self without them",
            )
        _self(project=project, adopt=adopt, format_=format_)
        return
    sets = tuple(golden or ())
    if chunking:
        _sweep(
            sets,
            project=project,
            profile=profile,
            target=target,
            overlap=overlap,
            seed=seed,
            format_=format_,
        )
        return
    if target or overlap:
        raise InvalidInput("--target and --overlap are of --chunking", remedy="add --chunking")
    request = CalibrationRequest(
        golden=sets,
        profile=profile,
        name=name,
        precision=precision,
        settings=settings,
        seed=seed,
        adopt=adopt,
    )
    with build(load_settings()) as lastro, progress_bar("calibrating") as progress:
        made = lastro.calibrator(project).calibrate(request, progress=progress)
    if format_ is Format.JSON:
        print_json(calibrated_json(made))
    else:
        print_data(_lines(made))


def _self(*, project: str | None, adopt: bool, format_: Format) -> None:
    with build(load_settings()) as lastro:
        found = lastro.calibrator(project).self_calibrate(adopt=adopt)
    check, profile = found.check, found.profile
    if format_ is Format.JSON:
        print_json({"check": to_json(check), "profile": to_json(profile), "adopted": found.adopted})
        return
    print_data(
        [
            pairs(
                {
                    "asked": f"{check.questions} sentences of {check.row_count} passages",
                    "agreement": "too few to tell"
                    if check.agreement is None
                    else f"{check.agreement:.2f}",
                    "own passage by words": "-"
                    if check.lexical_mrr is None
                    else f"{check.lexical_mrr:.2f} (mean of 1/rank)",
                    "trust": _trust(found),
                    "verdict": "nothing is changed"
                    if profile is None
                    else _kept(profile, adopted=found.adopted),
                },
                width=screen_width(),
            )
        ]
    )


def _trust(found: "SelfCalibrated") -> str:
    from lastro.trust import LEAST_LEXICAL_MRR

    check = found.check
    if check.trust is not None:
        return f"{check.trust:.0%} of the vector's weight"
    if check.lexical_mrr is not None and check.lexical_mrr < LEAST_LEXICAL_MRR:
        return "cannot be told: the words do not find the passages of their own sentences"
    return "cannot be told: too few rows or sentences"


def _sweep(
    golden: tuple[str, ...],
    *,
    project: str | None,
    profile: str,
    target: list[int] | None,
    overlap: list[int] | None,
    seed: int,
    format_: Format,
) -> None:
    from lastro.chunk_sweep import DEFAULT_OVERLAPS, DEFAULT_TARGETS, SweepRequest

    if len(golden) != 1:
        raise InvalidInput(
            "chunk sizes are tried on one set at a time",
            remedy="name one golden set, or one folder in the BEIR layout",
        )
    request = SweepRequest(
        golden=golden[0],
        profile=profile,
        target_chars=tuple(target or DEFAULT_TARGETS),
        overlap_chars=tuple(DEFAULT_OVERLAPS if overlap is None else overlap),
        seed=seed,
    )
    with build(load_settings()) as lastro, progress_bar("indexing anew") as progress:
        swept = lastro.calibrator(project).sweep_chunking(request, progress=progress)
    if format_ is Format.JSON:
        print_json(to_json(swept))
    else:
        print_data(_sweep_lines(swept))


# --- JSON


def calibrated_json(made: "Calibrated") -> dict[str, Any]:
    """What was found and made, in camelCase."""
    choice, thresholds = made.choice, made.thresholds
    return {
        "golden": to_json(made.golden),
        "base": to_json(made.base.ref),
        "ranking": _choice_json(choice),
        "thresholds": None if thresholds is None else _thresholds_json(thresholds),
        "thresholdsKept": made.thresholds_kept,
        "profile": None if made.profile is None else to_json(made.profile),
        "stored": made.stored,
        "adopted": made.adopted,
        "embedder": made.embedder,
        "seed": made.seed,
        "tookMs": made.took_ms,
    }


def _choice_json(choice: Choice) -> dict[str, Any]:
    written: dict[str, Any] = to_json(choice)
    # By question and fold they are for programs that call the library.
    return {key: value for key, value in written.items() if key not in {"gains", "folds"}} | {
        "recommended": choice.recommended
    }


def _thresholds_json(choice: "ThresholdChoice") -> dict[str, Any]:
    written: dict[str, Any] = to_json(choice)
    return {key: value for key, value in written.items() if key != "folds"} | {
        "recommended": choice.recommended,
        "abstentionMeasured": choice.abstention_measured,
    }


# --- tables


def _lines(made: "Calibrated") -> Iterator[Text]:
    choice = made.choice
    around = choice.interval
    yield pairs(
        {
            "questions": f"{choice.questions} with an answer, "
            f"{sum(one.unanswerable for one in made.golden)} without",
            "settings": choice.settings,
            "base": f"{made.base.name} v{made.base.version}, nDCG@10 {choice.base:.4f}",
            "held out": f"nDCG@10 {choice.held_out:.4f}, gain {choice.gain:+.4f} "
            f"({around.low:+.4f} to {around.high:+.4f})",
            "ranking": choice.refusal or _changes(made.base, choice.setting),
        },
        width=screen_width(),
    )
    left_out = sum(one.left_out for one in made.golden)
    if left_out:
        yield Text(f"{left_out} derived questions were left out")
    yield Text()
    if made.thresholds is None:
        yield Text(f"thresholds kept: {made.thresholds_kept}")
    else:
        yield from _threshold_lines(made.thresholds)
    yield Text()
    yield Text(_result(made))


def _changes(base: Profile, made: Profile) -> str:
    before, after = to_json(base), to_json(made)
    changed = (
        f"{key} {_number(before[key])} -> {_number(after[key])}"
        for key in after
        if before[key] != after[key]
    )
    return ", ".join(changed)


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _threshold_lines(choice: "ThresholdChoice") -> Iterator[Text]:
    yield pairs(
        {
            "thresholds": thresholds_text(choice.thresholds),
            "held out": _said(choice.held_out),
            "base": f"{thresholds_text(choice.base.thresholds)}: {_said(choice.base)}",
            "verdict": choice.refusal or "recommended",
        },
        width=screen_width(),
    )
    if not choice.abstention_measured:
        yield Text("abstention was not measured: no question is unanswerable")
    yield Text()
    step = max(1, len(choice.curve) // CURVE_ROWS)
    yield from table(
        ("both", "precision", "first right", "false answers", "false refusals", "answered"),
        [
            (
                f"{point.thresholds.both:.2f}",
                _share(point.precision),
                _share(point.first_precision),
                _share(point.false_answers),
                _share(point.false_refusals),
                _share(point.answered),
            )
            for point in choice.curve[::step]
        ],
    )


def _said(point: "Point") -> str:
    return (
        f"precision {_share(point.precision)}, first hit right {_share(point.first_precision)}, "
        f"false answers {_share(point.false_answers)}, "
        f"false refusals {_share(point.false_refusals)}"
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _result(made: "Calibrated") -> str:
    if made.profile is None:
        return f"nothing is recommended: {made.base.name} v{made.base.version} stays"
    if not made.stored:
        return "not stored: there is no such project; name one with --project"
    return _kept(made.profile, adopted=made.adopted)


def _kept(profile: Profile, *, adopted: bool) -> str:
    version = f"{profile.name}@{profile.version}"
    if adopted:
        return f"{version} is stored and answers now"
    return f"{version} is stored; adopt it with `lastro profiles adopt {version}`"


def _sweep_lines(swept: "Sweep") -> Iterator[Text]:
    yield from table(
        ("chunks of", "overlap", "nDCG@10", "gain", "from", "to"),
        [
            (
                size.target_chars,
                size.overlap_chars,
                f"{size.ndcg:.4f}",
                f"{size.gain:+.4f}",
                f"{size.interval.low:+.4f}",
                f"{size.interval.high:+.4f}",
            )
            for size in swept.sizes
        ],
    )
    yield Text()
    best = swept.recommended
    yield Text(
        f"{swept.questions} questions; no size is certainly better than the current one"
        if best is None
        else f"{swept.questions} questions; recommended: chunks of {best.target_chars} characters "
        f"with an overlap of {best.overlap_chars}"
    )
