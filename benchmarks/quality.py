"""nDCG@10 of the default profile on five public sets, whole and in chunks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import markdown_table
from lastro.app import App
from lastro.evaluation import Evaluation, EvaluationRequest


@dataclass(frozen=True, slots=True)
class Target:
    """A set with the figure that must be reached and the one that is tried for, whole."""

    name: str
    floor: float
    aim: float


# Source: the release's targets, docs/adr/0005-weighted-sum-on-absolute-scales.md.
TARGETS: Sequence[Target] = (
    Target("scifact", 0.695, 0.72),
    Target("cranfield", 0.375, 0.39),
    Target("receita-pt", 0.65, 0.68),
    Target("anthropic-docs", 0.795, 0.82),
    Target("tidb-faq-zh", 0.585, 0.64),
)
# What the sum may lose to its better leg.
LEG_TOLERANCE = 0.002
HEADER = (
    "set", "floor", "aim", "whole", "to better leg", "vector", "lexical", "recall@100",
    "in chunks", "to whole", "p50 ms", "p95 ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """A set's figures, whole and in chunks."""

    target: Target
    whole: Evaluation
    chunked: Evaluation

    @property
    def faults(self) -> list[str]:
        """What falls short of what was asked; the aim for chunks is no fault."""
        name, fused = self.target.name, self.whole.fused.ndcg_at_10
        better = max(leg.ndcg_at_10 for leg in self.whole.legs.values())
        faults: list[str] = []
        if fused < self.target.floor:
            faults.append(f"{name}: {fused:.4f} is below the floor of {self.target.floor}")
        if fused < better - LEG_TOLERANCE:
            faults.append(f"{name}: {fused:.4f} is below its better leg, {better:.4f}")
        return faults


def measure(
    app: App, data: Path, targets: Sequence[Target], *, say: Callable[[str], None]
) -> list[Measured]:
    """Evaluate each set twice, the second time with the cache's vectors for its questions."""
    measured: list[Measured] = []
    for target in targets:
        say(f"{target.name}, whole")
        whole = app.evaluate(EvaluationRequest(folder=data / target.name, whole=True))
        say(f"{target.name}, in chunks")
        chunked = app.evaluate(EvaluationRequest(folder=data / target.name))
        measured.append(Measured(target, whole, chunked))
        say(quality_table(measured[-1:]))
    return measured


def quality_table(measured: Sequence[Measured]) -> str:
    """A row for each set; recall and latency are those of whole and of chunked documents."""
    return markdown_table(HEADER, map(_row, measured))


def _row(item: Measured) -> list[str]:
    whole, chunked, target = item.whole, item.chunked, item.target
    fused, legs = whole.fused.ndcg_at_10, whole.legs
    better = max(leg.ndcg_at_10 for leg in legs.values())
    return [
        target.name,
        f"{target.floor:g}",
        f"{target.aim:g}",
        f"**{fused:.4f}**",
        f"{fused - better:+.4f}",
        f"{legs['vector'].ndcg_at_10:.4f}",
        f"{legs['lexical'].ndcg_at_10:.4f}",
        f"{whole.fused.recall_at_100:.3f}",
        f"{chunked.fused.ndcg_at_10:.4f}",
        f"{chunked.fused.ndcg_at_10 - fused:+.4f}",
        f"{chunked.latency.p50_ms:.0f}",
        f"{chunked.latency.p95_ms:.0f}",
    ]
