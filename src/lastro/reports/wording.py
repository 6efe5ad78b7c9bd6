"""The words and numbers that every form of a report shares; pure."""

import re
from collections.abc import Iterator, Sequence

from lastro.comparing import Comparison, Difference, Moved
from lastro.figures import FEW_QUESTIONS, Figure, Group, Summary
from lastro.profiles import Profile, Thresholds
from lastro.runs import GoldenRef, Run

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
NONE = "–"
MINUS = "−"
SHORT_HASH_CHARS = 10
TITLES = {
    "ndcg@10": "nDCG@10",
    "mrr": "MRR",
    "citationPrecision": "citation precision",
    "firstPrecision": "first precision",
    "falseAnswers": "false answers",
    "falseRefusals": "false refusals",
}
CITATION_MEASURES = ("citationPrecision", "firstPrecision", "falseAnswers", "falseRefusals")
GROUPS = {
    "origin": "Written by",
    "language": "Language of the question",
    "scope": "Scope of the answer",
    "difficulty": "Difficulty",
}


def ranking_measures(k: int) -> tuple[str, ...]:
    """The measures of the ranking, in the order in which they are shown."""
    return ("ndcg@10", f"recall@{k}", "mrr", "success@1")


def title_of(measure: str) -> str:
    """A measure's name in running text."""
    return TITLES.get(measure, measure)


def figure_text(figure: Figure) -> str:
    """A value with its interval, and of how few questions: ``0.712 [0.640, 0.781] n=9``."""
    if figure.value is None:
        return NONE
    bounds = "" if figure.low is None else f" [{figure.low:.3f}, {figure.high:.3f}]"
    return f"{figure.value:.3f}{bounds}{f' n={figure.n}' if figure.few else ''}"


def shown_groups(summary: Summary) -> list[Group]:
    """All questions, then the groups that divide them: one that is all of them says nothing."""
    whole = summary.overall
    return [whole, *(g for g in summary.groups if g.questions < whole.questions)]


def few_note(groups: Sequence[Group]) -> str | None:
    """What it means that ``n`` is shown; None where it never is."""
    if not any(f.few and f.value is not None for g in groups for f in g.figures.values()):
        return None
    return f"n: fewer than {FEW_QUESTIONS} questions, whose interval is too narrow to be trusted"


def signed(value: float | None) -> str:
    """A difference with its sign, or a dash."""
    if value is None:
        return NONE
    return f"{'+' if value >= 0 else MINUS}{abs(value):.3f}"


def number(value: float | None) -> str:
    """A value in [0, 1], or a dash."""
    return NONE if value is None else f"{value:.3f}"


def p_text(p: float) -> str:
    """A p value, as small as the test can tell."""
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def verdict(difference: Difference) -> str:
    """Whether a difference is more than chance would explain."""
    if difference.difference is None:
        return "not in both"
    if not difference.difference:
        return "the same"
    if difference.is_worse:
        return "worse"
    return "better" if difference.is_better else "could be chance"


def conditions(run: Run, summary: Summary) -> dict[str, str]:
    """What a run was measured with, name to value."""
    profile = run.profile
    calibrated = {True: "calibrated", "self": "self-calibrated", False: "not calibrated"}
    corpus = run.corpus
    sizes = ", ".join(f"{name} {chars}" for name, chars in run.chunking.items())
    return {
        "golden set": _golden_text(run.golden),
        "questions": question_counts(summary.overall),
        "profile": f"{profile.name} v{profile.version}, {calibrated[profile.calibrated]}",
        "threshold": threshold_text(profile),
        "embedder": run.embedder,
        "corpus": f"{corpus.documents} documents, {corpus.chunks} chunks",
        "sources": "; ".join(_sources(run)) or NONE,
        "chunking": sizes,
        "settings": run.pipeline[:SHORT_HASH_CHARS],
        "latency": f"p50 {summary.latency.p50_ms:.1f} ms, p95 {summary.latency.p95_ms:.1f} ms "
        "(vectors of the questions made beforehand)",
        "seed": str(run.seed),
        "program": f"lastro {run.version}",
        "started": f"{run.started_at:%Y-%m-%d %H:%M:%S} UTC",
    }


def _golden_text(golden: GoldenRef) -> str:
    named = f"{golden.name}@{golden.content_hash[:SHORT_HASH_CHARS]}"
    return (
        named if golden.stored else f"{named}, read from a file that the project has not imported"
    )


def _sources(run: Run) -> Iterator[str]:
    for source in run.corpus.sources:
        revision = (source.revision or "as it lay")[:SHORT_HASH_CHARS]
        when = (
            "never finished" if source.indexed_at is None else f"{source.indexed_at:%Y-%m-%d %H:%M}"
        )
        yield f"{source.name} at {revision}, indexed {when}"


def question_counts(group: Group) -> str:
    """How many questions, and how many of them nothing answers."""
    return f"{group.questions}, of which {group.unanswerable} unanswerable"


def threshold_text(profile: Profile) -> str:
    """A profile's threshold in words."""
    threshold = profile.threshold
    if isinstance(threshold, Thresholds):
        return thresholds_text(threshold)
    return "none" if threshold is None else f"{threshold:g}"


def thresholds_text(thresholds: Thresholds) -> str:
    """The three numbers of evidence in words."""
    return (
        f"both {thresholds.both:g}, vector only {thresholds.vector_only:g}, "
        f"lexical only {thresholds.lexical_only:g}"
    )


def warnings(run: Run, summary: Summary) -> Iterator[str]:
    """What a reader of the figures must know."""
    total = summary.overall.questions
    for reason, count in summary.degraded.items():
        yield f"{reason} in {count} of {total} searches: they were less than they should be"
    if run.corpus.outdated:
        yield (
            f"{run.corpus.outdated} of {run.corpus.documents} documents were indexed with other "
            "settings than the present ones; run `lastro index`"
        )
    if summary.not_indexed:
        yield (
            f"{len(summary.not_indexed)} judged answers are not in the index, and count as not "
            "found"
        )
    derived = next((g.questions for g in summary.groups if g.name == "derived"), 0)
    if 0 < derived < total:
        yield f"{derived} of {total} questions were drafted by a program; read the groups apart"
    elif derived:
        yield "every question was drafted by a program: real ones are harder"


def printable(text: str) -> str:
    """``text`` with a blank for every control character: a terminal obeys some of them."""
    return _CONTROLS.sub(" ", text)


def moved_text(moved: Moved) -> str:
    """What changed for one question."""
    parts: list[str] = []
    for measure, (before, after) in moved.measures.items():
        match measure:
            case "answered" | "refused" if after is None:
                parts.append("no longer counted")
            case "answered":
                parts.append("answered now" if after else "refused now")
            case "refused":
                parts.append("rightly refused now" if after else "answered falsely now")
            case "firstPrecision":
                parts.append("first hit right now" if after else "first hit wrong now")
            case _:
                parts.append(f"{title_of(measure)} {number(before)} to {number(after)}")
    return "; ".join(parts)


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """What else differs between two runs, and the questions that one of them lacks."""
    yield from comparison.changed
    for name, ids in (
        (comparison.before, comparison.missing_before),
        (comparison.after, comparison.missing_after),
    ):
        if ids:
            yield f"{len(ids)} questions are not in {name} and score 0 there: {', '.join(ids)}"
