"""``make calibrate-default``: the ranking numbers of an embedder's ``default``, from public sets.

The folder that ``LASTRO_BENCH_DATA`` names holds a folder for each set. Every set is loaded in
chunks into a scratch database, asked its own questions and others, and left out whole once while
the others choose. The run is written beside this file; what Lastro ships is typed from it, and a
test holds both equal.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.__main__ import data_folder
from benchmarks.default_figures import (
    crossing_figures,
    numbers_of,
    of_kinds,
    ranking_figures,
    speed_figures,
    target_figures,
    threshold_figures,
)
from benchmarks.default_page import write_page
from benchmarks.default_sets import KINDS, OWN, SEED, Captured, capture, kind_of, load_all
from benchmarks.machine import commit
from lastro.app import build
from lastro.calibration import (
    DEFAULT_SETTINGS,
    Choice,
    recommend,
    settings_of,
    share_of,
    space_of,
    trials,
)
from lastro.config import load_settings
from lastro.embedders import fingerprint
from lastro.errors import LastroError, exit_code
from lastro.profiles import Profile, Thresholds
from lastro.replay import CachedQuestion, ndcg_matrix
from lastro.thresholds import Point, ThresholdChoice, choose_thresholds
from lastro.wire import to_json

RESULTS = Path(__file__).parent / "results"
# Where the search starts: the weights of docs/adr/0005 and the bars of docs/adr/0019, which were
# chosen on these sets by hand.
START = Profile(
    name="default",
    version=1,
    calibrated=False,
    provenance="docs/adr/0005 and docs/adr/0019",
    vector_weight=0.3,
    lexical_weight=0.7,
    threshold=Thresholds(both=0.26, vector_only=0.34, lexical_only=0.27),
)


def main() -> int:
    """Capture, choose, judge and write the run; the page is written from it."""
    options = _options()
    try:
        sets = load_all(data_folder())
        with build(load_settings()) as app:
            captured = [capture(app, source, sets, profile=START, say=_say) for source in sets]
            made = run(
                captured,
                embedder=fingerprint(app.embedder),
                seed=options.seed,
                settings=options.settings,
            )
            path = RESULTS / f"default-{app.embedder.id}.json"
    except LastroError as error:
        _say(f"error: {error.message}" + (f"\nremedy: {error.remedy}" if error.remedy else ""))
        return exit_code(error)
    keep(made, path)
    write_page(made)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.default_profile", description=(__doc__ or "").replace("`", "")
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", type=int, default=DEFAULT_SETTINGS)
    return parser.parse_args()


def keep(made: dict[str, Any], path: Path) -> None:
    """Write a run as JSON that a reader can compare line by line."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _say(f"wrote {path}")


def run(captured: Sequence[Captured], *, embedder: str, seed: int, settings: int) -> dict[str, Any]:
    """Choose the numbers on every set, and judge each set by numbers that the others chose."""
    everything = list(chain.from_iterable(one.questions for one in captured))
    own = of_kinds(everything, OWN)
    _say(f"{len(own)} questions of the sets' own, {len(everything)} in all")
    choice = choose_ranking(own, seed=seed, settings=settings)
    ranking = choice.setting if choice.recommended else START
    assert isinstance(START.threshold, Thresholds)
    start = START.threshold
    thresholds = choose_thresholds(everything, ranking, base=start, by_group=True, seed=seed)
    numbers = thresholds.thresholds if thresholds.recommended else start
    _say(f"ranking: {choice.refusal or 'recommended'}; thresholds: {numbers}")
    chosen = replace(ranking, threshold=numbers)
    return {
        "embedder": embedder,
        "lastro": version("lastro"),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "seed": seed,
        "questionSeed": SEED,
        "passages": "in chunks",
        "sets": [_set_json(one) for one in captured],
        "chosen": numbers_of(chosen),
        "ranking": _choice_json(choice),
        "leftOut": ranking_figures(own, choice, START, seed=seed),
        "crossing": crossing_figures(everything, chosen, START, seed=seed),
        "thresholds": _thresholds_json(thresholds),
        "evidence": threshold_figures(everything, thresholds, chosen, start=start, seed=seed),
        "targets": target_figures(everything, chosen, start=start, seed=seed),
        "speed": speed_figures(own, START, settings=settings, seed=seed),
    }


def choose_ranking(own: Sequence[CachedQuestion], *, seed: int, settings: int) -> Choice:
    """What ``lastro calibrate`` does with three sets or more: each is left out whole."""
    space = space_of(own, START)
    tried = settings_of(space, START, count=settings, seed=seed)
    judged = trials(tried, ndcg_matrix(own, tried), own, space=space, balance=True)
    return recommend(judged, by_group=True, seed=seed)


def _set_json(one: Captured) -> dict[str, Any]:
    kinds = [kind_of(question) for question in one.questions]
    return {
        "name": one.name,
        "contentHash": one.content_hash,
        "documents": one.documents,
        "chunks": one.chunks,
        "questions": {kind: kinds.count(kind) for kind in KINDS if kind in kinds},
    }


def _choice_json(choice: Choice) -> dict[str, Any]:
    return {
        "recommended": choice.recommended,
        "refusal": choice.refusal,
        "settings": choice.settings,
        "questions": choice.questions,
        "start": numbers_of(START),
        "best": numbers_of(choice.setting),
        "vectorShare": round(share_of(choice.setting), 4),
        "ndcg@10": {
            "start": round(choice.base, 4),
            "heldOut": round(choice.held_out, 4),
            "fitted": round(choice.fitted, 4),
        },
        "gain": round(choice.gain, 4),
        "interval": [round(choice.interval.low, 4), round(choice.interval.high, 4)],
    }


def _thresholds_json(choice: ThresholdChoice) -> dict[str, Any]:
    return {
        "recommended": choice.recommended,
        "refusal": choice.refusal,
        "best": to_json(choice.thresholds),
        "answerable": choice.answerable,
        "unanswerable": choice.unanswerable,
        "start": _point_json(choice.base),
        "heldOut": _point_json(choice.held_out),
        "fitted": _point_json(choice.fitted),
        "gain": round(choice.gain, 4),
        "interval": [round(choice.interval.low, 4), round(choice.interval.high, 4)],
    }


def _point_json(point: Point) -> dict[str, Any]:
    rates: dict[str, Any] = to_json(point)
    return {key: round(value, 4) for key, value in rates.items() if isinstance(value, float)}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
