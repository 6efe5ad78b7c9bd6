"""The run behind the shipped ``default`` as tables of the documentation. Pure, but for writing."""

from collections.abc import Mapping
from typing import Any

from benchmarks.default_figures import DEFAULT, LEXICAL, RRF, SHARE, VECTOR
from benchmarks.default_sets import CROSS, CROSS_FOREIGN, FOREIGN, FOREIGN_LANGUAGE, OWN
from benchmarks.machine import REPOSITORY
from benchmarks.report import between_markers, markdown_table

PAGE = REPOSITORY / "docs/explanation/how-ranking-is-measured.md"
HEADING = "## The run behind `default`"
MARK = "calibrate"

Run = Mapping[str, Any]


# fmt: off
_LEFT_OUT = (
    "nDCG@10, numbers chosen on the other seven sets. In brackets the p of a paired test over "
    "questions, for the mean with every set alike:"
)
_SHARE = (
    "The same with the vector's share alone, the best of 51 on the other sets, wherever the search "
    "began:"
)
_TARGETS = (
    "Precision of the hits shown in percent where one was asked for, by numbers of the set's other "
    "four fifths (false answers / false refusals; – where it is out of reach):"
)
# fmt: on


def write_page(run: Run) -> None:
    """Put the run's tables into the documentation."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        between_markers(page, tables(run), heading=HEADING, mark=MARK), encoding="utf-8"
    )


def tables(run: Run) -> str:
    """Everything that the page says in numbers, of a run as it was written."""
    return "\n\n".join(
        [
            _head(run),
            _sets(run),
            _LEFT_OUT,
            _left_out(run, DEFAULT),
            _SHARE,
            _left_out(run, SHARE),
            "Questions in another language than the documents, with the numbers that are shipped:",
            _crossing(run),
            "False answers / false refusals in percent, and the precision of the hits shown:",
            _evidence(run),
            "Of which false answers in percent, by numbers of the other sets (of how many):",
            _kinds(run),
            _TARGETS,
            _targets(run),
            "The same by numbers of the other sets:",
            _targets_elsewhere(run),
            _speed(run),
        ]
    )


def _head(run: Run) -> str:
    ranking, thresholds, chosen = run["ranking"], run["thresholds"], run["chosen"]
    bars = chosen["threshold"]
    low, high = ranking["interval"]
    verdict = "taken" if ranking["recommended"] else f"the start stays: {ranking['refusal']}"
    other = "taken" if thresholds["recommended"] else f"the start's stay: {thresholds['refusal']}"
    return (
        f"{run['date']}, `make calibrate-default` at {run['commit']}, {run['embedder']}, documents "
        f"{run['passages']}, seed {run['seed']}. Shipped: vector {chosen['vector_weight']:g}, "
        f"lexical {chosen['lexical_weight']:g}, cosine {chosen['cosine']}, thresholds "
        f"{bars['both']:g}, {bars['vector_only']:g} and {bars['lexical_only']:g}.\n\n"
        f"- ranking: {ranking['settings']:,} settings on {ranking['questions']:,} questions; the "
        f"best has a vector's share of {ranking['vectorShare']:g} and gains "
        f"{ranking['gain']:+.4f} ({low:+.4f} to {high:+.4f}) on sets held out; {verdict}\n"
        f"- thresholds: {thresholds['answerable']:,} questions with an answer, "
        f"{thresholds['unanswerable']:,} without; {other}"
    )


def _sets(run: Run) -> str:
    kinds = (OWN, FOREIGN, FOREIGN_LANGUAGE, CROSS, CROSS_FOREIGN)
    return markdown_table(
        ("set", "hash", "documents", "chunks", *kinds),
        [
            [
                one["name"],
                one["contentHash"][:12],
                f"{one['documents']:,}",
                f"{one['chunks']:,}",
                *(str(one["questions"].get(kind, "")) for kind in kinds),
            ]
            for one in run["sets"]
        ],
    )


def _left_out(run: Run, name: str) -> str:
    rows = {**run["leftOut"]["sets"], "**mean of sets**": run["leftOut"]["mean"]}
    return markdown_table(
        (
            "set", "vector's share", "vector", "lexical", "RRF 60", "both",
            "to vector", "to lexical", "to RRF 60",
        ),
        [_left_out_row(title, figures, name) for title, figures in rows.items()],
    )  # fmt: skip


def _left_out_row(title: str, figures: Mapping[str, Any], name: str) -> list[str]:
    share = (
        (figures["share"] if name == SHARE else figures.get("numbers", {}).get("vector_share"))
        if "numbers" in figures
        else None
    )
    values, gains = figures["ndcg@10"], figures["gain"][name]
    return [
        title,
        "" if share is None else f"{share:g}",
        *(f"{values[other]:.4f}" for other in (VECTOR, LEXICAL, RRF)),
        f"**{values[name]:.4f}**",
        *(_difference(gains[other]) for other in (VECTOR, LEXICAL, RRF)),
    ]


def _difference(gain: Mapping[str, float]) -> str:
    return f"{gain['difference']:+.4f} ({gain['p']:.4f})"


def _crossing(run: Run) -> str:
    return markdown_table(
        ("set", "questions", "vector", "lexical", "both", "to vector, p"),
        [
            [
                name,
                str(figures["questions"]),
                *(f"{figures['ndcg@10'][key]:.4f}" for key in (VECTOR, LEXICAL, DEFAULT)),
                f"{figures['p']:.4f}",
            ]
            for name, figures in run["crossing"].items()
        ],
    )


def _evidence(run: Run) -> str:
    rows: list[list[str]] = []
    for name, figures in run["evidence"].items():
        for part, title in (("own", name), ("crossing", f"{name}, cross-language")):
            if part in figures["otherSets"]:
                apart = figures["otherSubjects"]
                rows.append(
                    [
                        title,
                        _rates(figures["otherSets"][part]),
                        "" if apart is None else _rates(apart[part]),
                        _rates(figures["ownOtherPart"]) if part == "own" else "",
                        _rates(figures["shipped"][part]),
                    ]
                )
    own = list(run["evidence"].values())
    rows.append(
        [
            "**mean of sets, own language**",
            _rates(_mean([figures["otherSets"]["own"] for figures in own])),
            "",
            _rates(_mean([figures["ownOtherPart"] for figures in own])),
            _rates(_mean([figures["shipped"]["own"] for figures in own])),
        ]
    )
    crossing = [f for f in own if "crossing" in f["otherSets"]]
    rows.append(
        [
            "**mean of trees, cross-language**",
            _rates(_mean([figures["otherSets"]["crossing"] for figures in crossing])),
            _rates(_mean([figures["otherSubjects"]["crossing"] for figures in crossing])),
            "",
            _rates(_mean([figures["shipped"]["crossing"] for figures in crossing])),
        ]
    )
    return markdown_table(
        ("set", "other sets", "other subjects", "own other part", "shipped, in sample"), rows
    )


def _mean(rates: list[Mapping[str, float]]) -> dict[str, float]:
    names = ("falseAnswers", "falseRefusals", "precision")
    return {name: sum(rate[name] or 0.0 for rate in rates) / len(rates) for name in names}


def _rates(rates: Mapping[str, Any]) -> str:
    said = f"{_percent(rates['falseAnswers'])} / {_percent(rates['falseRefusals'])}"
    return f"{said}, {_percent(rates['precision'])}" if "precision" in rates else said


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}"


def _kinds(run: Run) -> str:
    rows: list[list[str]] = []
    for name, figures in run["evidence"].items():
        parts = figures["otherSets"]
        found = {
            kind: rate
            for part in parts.values()
            for kind, rate in part["falseAnswersByKind"].items()
        }
        rows.append(
            [
                name,
                *(
                    f"{_percent(found[kind]['rate'])} ({found[kind]['questions']})"
                    if kind in found
                    else ""
                    for kind in (FOREIGN, FOREIGN_LANGUAGE, CROSS_FOREIGN)
                ),
            ]
        )
    return markdown_table(("set", FOREIGN, FOREIGN_LANGUAGE, CROSS_FOREIGN), rows)


def _targets(run: Run) -> str:
    evidence = run["evidence"]
    targets = list(run["targets"])
    return markdown_table(
        ("set", *(f"asked for {_percent(float(target))}" for target in targets)),
        [
            [name, *(_reached(figures["ownOtherPart"]["targets"][target]) for target in targets)]
            for name, figures in evidence.items()
        ],
    )


def _reached(found: Mapping[str, Any]) -> str:
    if not found["reached"]:
        return "–"
    rates = f"{_percent(found['falseAnswers'])} / {_percent(found['falseRefusals'])}"
    return f"{_percent(found['precision'])} ({rates})"


def _targets_elsewhere(run: Run) -> str:
    targets = list(run["targets"])
    names = list(run["evidence"])
    rows = [[name, *(_percent(run["targets"][t][name]) for t in targets)] for name in names]
    means = [sum(run["targets"][t][n] or 0.0 for n in names) / len(names) for t in targets]
    rows.append(["**mean of sets**", *map(_percent, means)])
    return markdown_table(
        ("set", *(f"asked for {_percent(float(target))}" for target in targets)), rows
    )


def _speed(run: Run) -> str:
    speed = run["speed"]
    return (
        f"{speed['settings']:,} settings on {speed['questions']} questions of all sets, with "
        f"{speed['candidatesPerQuestion']} candidates each: {speed['judgedS']:g} s "
        f"({speed['judgedProcessorS']:g} s of processor) to judge them, {speed['allS']:g} s "
        f"({speed['allProcessorS']:g} s) with the choice by nested cross-validation; one process, "
        f"load {speed['load']:g}."
    )
