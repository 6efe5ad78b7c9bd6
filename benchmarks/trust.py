"""How far a project's own texts tell what its vectors are worth: embedders made foreign.

Each set is loaded with an embedder that knows it, and with the same one spoilt: its vectors
swapped between documents, drawn by chance, mixed with noise, or made of text in a cipher. The
product looks at the project as after an index run, and nDCG@10 of what follows is held against each
leg alone, question by question.
"""

import hashlib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.default_sets import SOURCES, Source
from benchmarks.report import markdown_table
from lastro.app import App, owner_url
from lastro.beir import RetrievalSet, load_set
from lastro.db.pool import Database
from lastro.db.scratch import scratch_database
from lastro.embedders import DeterministicEmbedder, Embedder, Role, checked, fingerprint
from lastro.embedding import embed_texts
from lastro.evaluation import PROJECT, loaded
from lastro.intervals import randomisation_p
from lastro.leg_cache import cache_set
from lastro.profiles import DEFAULT, Profile, shipped_profiles, unscaled
from lastro.replay import CachedQuestion, ndcg_matrix
from lastro.self_calibration import SelfCalibration, self_calibrate
from lastro.store import SelfCheck
from lastro.trust import trusted

Vectors = NDArray[np.float32]

SEED = 11
SIGNIFICANT = 0.05
# A cipher's texts are embedded anew; beyond this many documents that takes minutes.
MOST_CIPHERED = 3_000
# The fixed weight that shipped before projects were looked at.
FIXED = replace(DEFAULT, cosine="raw", vector_weight=0.3, lexical_weight=0.7)
HEADER = (
    "set and embedder", "vector", "words", "agreement", "own passage", "trust",
    "weight", "hybrid", "to better leg", "p",
    "weight", "on its scale", "to better leg", "p",
    "fixed 0.3", "p",
)  # fmt: skip


# --- embedders made foreign


class Spoilt:
    """An embedder whose vectors are altered after, or whose texts before; it has no numbers.

    ``known`` keeps the vectors of the embedder behind it.
    """

    def __init__(self, behind: Embedder, known: Database, *, how: str) -> None:
        self.id = f"spoilt {how}"
        self.version = behind.version
        self.dimension = behind.dimension
        self.max_chars = behind.max_chars
        self.prefixes: Mapping[Role, str] = behind.prefixes
        self._behind, self._known = behind, known
        self._text, self._vectors = WAYS[how]

    def embed(self, texts: Sequence[str], role: Role) -> Vectors:
        """Return one unit vector a text, shape (n, dimension)."""
        said = [self._text(text) for text in texts]
        found = embed_texts(self._known, self._behind, said, role=role).vectors
        vectors = np.stack([vector for vector in found if vector is not None])
        altered = self._vectors(vectors, said, role)
        return checked(altered, texts=texts, dimension=self.dimension, embedder=self.id)


def _plain(vectors: Vectors, texts: Sequence[str], role: Role) -> Vectors:  # noqa: ARG001
    return vectors


def _swapped(vectors: Vectors, texts: Sequence[str], role: Role) -> Vectors:  # noqa: ARG001
    """Each document gets the next one's vector; documents come in an order by chance."""
    return np.roll(vectors, 1, axis=0) if role == "document" else vectors


def _noisy(share: float) -> Callable[[Vectors, Sequence[str], Role], Vectors]:
    """Unit vectors of which ``share`` is the embedder's, the rest the text's own noise."""

    def mixed(vectors: Vectors, texts: Sequence[str], role: Role) -> Vectors:  # noqa: ARG001
        noise = np.stack([_noise(text, vectors.shape[1]) for text in texts])
        made = share * vectors + (1 - share**2) ** 0.5 * noise
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    return mixed


def _noise(text: str, dimension: int) -> Vectors:
    digest = hashlib.sha256(f"noise {text}".encode("utf-8", "replace")).digest()
    drawn = np.random.default_rng(int.from_bytes(digest)).standard_normal(dimension)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


def _same(text: str) -> str:
    return text


def _ciphered(text: str) -> str:
    """Latin letters as Georgian ones, Chinese characters as others: the same words, unreadable."""
    bare = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return bare.translate(_cipher())


@cache
def _cipher() -> Mapping[int, int]:
    latin = {ord("a") + n: 0x10D0 + n for n in range(26)}
    capital = {ord("A") + n: 0x10D0 + n for n in range(26)}
    han = list(range(0x4E00, 0x9FA5))
    shuffled = np.random.default_rng(SEED).permutation(han).tolist()
    return {**latin, **capital, **dict(zip(han, shuffled, strict=True))}


AS_IT_IS, SWAPPED, CHANCE, CIPHER = "as it is", "swapped", "by chance", "cipher"
WAYS: Mapping[
    str, tuple[Callable[[str], str], Callable[[Vectors, Sequence[str], Role], Vectors]]
] = {
    AS_IT_IS: (_same, _plain),
    SWAPPED: (_same, _swapped),
    "noise, 1/4 left": (_same, _noisy(0.25)),
    "noise, 1/2 left": (_same, _noisy(0.5)),
    CIPHER: (_ciphered, _plain),
}


def _embedders(app: App, data: RetrievalSet) -> Iterator[tuple[str, Embedder]]:
    for how in WAYS:
        if how != CIPHER or len(data.passages) <= MOST_CIPHERED:
            yield how, Spoilt(app.embedder, app.database, how=how)
    yield CHANCE, DeterministicEmbedder()


# --- measuring


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A profile that followed, its nDCG@10, and how it stands to the better leg."""

    weight: float
    ndcg: float
    gain: float
    p: float

    @property
    def is_worse(self) -> bool:
        """Whether it is significantly below the better of the legs."""
        return self.gain < 0 and self.p < SIGNIFICANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """What a look at one set with one embedder found, and what followed.

    ``own`` starts from the numbers of the embedder, ``generic`` from those for any other.
    """

    name: str
    vector: float
    words: float
    check: SelfCheck
    own: Answer
    generic: Answer
    fixed: Answer

    @property
    def faults(self) -> list[str]:
        """What a look at the project's own texts should have prevented."""
        told = {"hybrid": self.own, "hybrid on its scale": self.generic}
        return [
            f"{self.name}: the {which} is {answer.gain:+.4f} below its better leg, p {answer.p:.3f}"
            for which, answer in told.items()
            if answer.is_worse
        ]


def measure_trust(app: App, data: Path, names: Sequence[str]) -> Iterator[Trusted]:
    """Look at every named set with each embedder, in the order of the sets' sizes."""
    sets = {source: _load(data, source) for source in SOURCES if source.name in names}
    with scratch_database(owner_url(app.settings)) as url, Database(url) as spoilt:
        for source in sorted(sets, key=lambda s: len(sets[s].passages)):
            for how, embedder in _embedders(app, sets[source]):
                yield _measure(app, source, sets[source], embedder, how=how, vectors=spoilt)


def _load(folder: Path, source: Source) -> RetrievalSet:
    """A set with its passages in an order by chance, so that neighbours are strangers."""
    qrels = None if source.qrels is None else folder / source.name / source.qrels
    data = load_set(folder / source.name, qrels=qrels, collapse=source.collapse)
    order = np.random.default_rng(SEED).permutation(len(data.passages))
    return replace(data, passages=tuple(data.passages[at] for at in order))


def _measure(
    app: App,
    source: Source,
    data: RetrievalSet,
    embedder: Embedder,
    *,
    how: str,
    vectors: Database,
) -> Trusted:
    with loaded(
        replace(app.engine, database=vectors, embedder=embedder),
        data,
        language=None,
        whole=True,
        pipeline=replace(app.writer().pipeline, embedder=fingerprint(embedder)),
        admin_url=owner_url(app.settings),
        progress=_quiet,
    ) as (engine, _stored):
        shipped = shipped_profiles(app.embedder.id)
        found = self_calibrate(replace(engine, profiles=shipped), project=PROJECT)
        cached = cache_set(
            engine,
            data,
            profile=DEFAULT,
            group=source.name,
            collapse=source.collapse,
            progress=_quiet,
        )
    answerable = [question for question in cached if question.answerable]
    following = {
        "own": following_profile(found, found.base),
        "generic": following_profile(found, DEFAULT),
    }
    legs, answers = held_against_legs(answerable, {**following, "fixed": FIXED})
    return Trusted(
        name=f"{source.name}, {how}",
        vector=legs[0],
        words=legs[1],
        check=found.check,
        own=answers["own"],
        generic=answers["generic"],
        fixed=answers["fixed"],
    )


def following_profile(found: SelfCalibration, base: Profile) -> Profile:
    """What a project answers with after a look, had it started from ``base``."""
    share = found.check.trust
    return unscaled(base) if share is None else trusted(base, share, provenance="a benchmark")


def held_against_legs(
    questions: Sequence[CachedQuestion], profiles: Mapping[str, Profile]
) -> tuple[tuple[float, float], dict[str, Answer]]:
    """nDCG@10 of the vector and the words alone, and of each profile against the better of them."""
    alone = [
        replace(FIXED, vector_weight=vector, lexical_weight=1 - vector) for vector in (1.0, 0.0)
    ]
    matrix = ndcg_matrix(questions, [*alone, *profiles.values()]).astype(np.float64)
    means = matrix.mean(axis=1)
    better = matrix[0] if means[0] > means[1] else matrix[1]
    answers = {
        name: Answer(
            weight=profile.vector_weight,
            ndcg=float(row.mean()),
            gain=float((row - better).mean()),
            p=randomisation_p(better, row, seed=SEED),
        )
        for (name, profile), row in zip(profiles.items(), matrix[2:], strict=True)
    }
    return (float(means[0]), float(means[1])), answers


def _quiet(_done: int) -> None:
    """The table's rows are progress enough."""


# --- telling


def trust_table(measured: Sequence[Trusted]) -> str:
    """A row for each set and embedder."""
    return markdown_table(HEADER, map(_row, measured))


def trust_summary(measured: Sequence[Trusted]) -> str:
    """How many are significantly below, and above, the better of their legs."""
    told = {
        "from the embedder's own numbers": [item.own for item in measured],
        "from those for any embedder, on the corpus's scale": [item.generic for item in measured],
        "fixed weight of 0.3, unlooked at": [item.fixed for item in measured],
    }
    rows = [
        [
            name,
            str(len(answers)),
            str(sum(answer.is_worse for answer in answers)),
            str(sum(answer.gain > 0 and answer.p < SIGNIFICANT for answer in answers)),
            f"{min(answer.gain for answer in answers):+.4f}",
            f"{sum(answer.gain for answer in answers) / len(answers):+.4f}",
        ]
        for name, answers in told.items()
    ]
    header = ("hybrid", "systems", "significantly worse", "better", "worst", "mean")
    return markdown_table(header, rows)


def _row(item: Trusted) -> list[str]:
    check = item.check
    return [
        item.name,
        f"{item.vector:.3f}",
        f"{item.words:.3f}",
        _two(check.agreement),
        _two(check.lexical_mrr),
        _two(check.trust),
        *_answer(item.own),
        *_answer(item.generic),
        f"{item.fixed.gain:+.4f}",
        _p(item.fixed),
    ]


def _answer(answer: Answer) -> list[str]:
    return [f"{answer.weight:.2f}", f"{answer.ndcg:.4f}", f"{answer.gain:+.4f}", _p(answer)]


def _p(answer: Answer) -> str:
    return f"{answer.p:.3f}" + ("*" if answer.p < SIGNIFICANT else "")


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
