"""Profiles: named, versioned sets of ranking numbers, each with its provenance. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast, get_args

from lastro.errors import ConfigError, InvalidInput
from lastro.types import ProfileRef

Calibrated = bool | Literal["self"]
Fusion = Literal["weighted", "rrf"]
Cosine = Literal["raw", "scaled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Least evidence of a hit, by what speaks for it; see ``ranking.evidence``.

    ``both`` is on what meaning and words say together, ``vector_only`` on the cosine as the profile
    fuses it where no word of the query is known, ``lexical_only`` on what the words say alone.
    """

    both: float
    vector_only: float
    lexical_only: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named, versioned set of ranking numbers and where they come from.

    ``embedder`` is the id of the one whose cosines the numbers were chosen on (None: any).
    ``fusion`` joins the legs by their scores (``weighted``) or their ranks (``rrf``, with
    ``rrf_k``); ``cosine`` says whether a cosine is fused as it is or on the corpus's own scale.
    ``lexical`` names the lexical score (``coverage``, divided by a row's length to the
    ``length_exponent``, or ``ts_rank``); ``match`` says whether a row must match any or all query
    words. Depths are the candidates that each leg hands to the fusion, whatever k is. ``threshold``
    is evidence rules, or one number over the fused score, or None.
    """

    name: str
    version: int
    calibrated: Calibrated
    provenance: str
    vector_weight: float
    lexical_weight: float
    rule_weight: float = 0.0
    freshness_weight: float = 0.0
    embedder: str | None = None
    fusion: Fusion = "weighted"
    cosine: Cosine = "raw"
    lexical: Literal["coverage", "ts_rank"] = "coverage"
    match: Literal["any", "all"] = "any"
    # (distinct lexemes / their mean)^0.2. Source: docs/explanation/how-ranking-is-measured.md
    length_exponent: float = 0.2
    # Source: Cormack, Clarke, Büttcher, SIGIR 2009
    rrf_k: float = 60.0
    half_life_days: float = 180.0
    # No quality was lost on eight public sets from 400 rows down to 50. Source: docs/adr/0027
    vector_depth: int = 100
    lexical_depth: int = 100
    threshold: Thresholds | float | None = None

    @property
    def ref(self) -> ProfileRef:
        """What an outcome says of the profile."""
        return ProfileRef(name=self.name, version=self.version, calibrated=self.calibrated)


# ``default`` for an embedder without numbers of its own.
DEFAULT = Profile(
    name="default",
    version=1,
    calibrated=False,
    provenance="chosen with use-m3 on eight public sets, looked at with a MiniLM and e5-small, and "
    "uncalibrated for any other embedder; weights: flat optimum (0.2 to 0.3), docs/adr/0005; "
    "thresholds: docs/adr/0019",
    vector_weight=0.25,
    lexical_weight=0.75,
    cosine="scaled",
    threshold=Thresholds(both=0.14, vector_only=0.14, lexical_only=0.27),
)
# Its bars where cosines are fused as they are after all. Source: docs/adr/0019
RAW_THRESHOLDS = Thresholds(both=0.26, vector_only=0.34, lexical_only=0.27)
ADR_0080 = Profile(
    name="adr-0080",
    version=1,
    calibrated=False,
    provenance="decision record 0080, verbatim, uncalibrated",
    vector_weight=0.6,
    lexical_weight=0.4,
    lexical="ts_rank",
    match="all",
    threshold=0.2,
)
KB_RRF = Profile(
    name="kb-rrf",
    version=1,
    calibrated=False,
    provenance="knowledge-base record, verbatim, uncalibrated",
    fusion="rrf",
    vector_weight=0.45,
    lexical_weight=0.20,
    rule_weight=0.25,
    freshness_weight=0.10,
)
SHIPPED: Mapping[str, Profile] = {p.name: p for p in (DEFAULT, ADR_0080, KB_RRF)}


# ``default`` for the embedders that it was calibrated with.
CALIBRATED: Mapping[str, Profile] = {
    "use-m3": Profile(
        name="default",
        version=2,
        calibrated=True,
        provenance="calibrated 2026-11-30 on scifact, cranfield, receita-pt, anthropic-docs, "
        "tidb-faq-zh, fastapi-docs-en, fastapi-docs-pt and fastapi-docs-zh, each left out whole: "
        "benchmarks/results/default-use-m3.json. The numbers of docs/adr/0005 and docs/adr/0019 "
        "stay: on sets held out the best others gain -0.0002 nDCG@10 (-0.0011 to +0.0007) and take "
        "0.0104 (-0.0092 to +0.0303) from the sum of false answers and false refusals",
        vector_weight=0.3,
        lexical_weight=0.7,
        embedder="use-m3",
        threshold=RAW_THRESHOLDS,
    )
}


def shipped_profiles(embedder: str) -> dict[str, Profile]:
    """The shipped profiles by name; ``default`` is that of ``embedder`` where it has its own."""
    return {**SHIPPED, DEFAULT.name: CALIBRATED.get(embedder, DEFAULT)}


def unscaled(profile: Profile) -> Profile:
    """``profile`` with the cosines as they are, for a corpus that told nothing of its vectors.

    A scale makes noise as loud as knowledge, so it takes a look at how far they can be trusted.
    """
    is_default = profile.threshold == DEFAULT.threshold
    threshold = RAW_THRESHOLDS if is_default else profile.threshold
    return replace(profile, cosine="raw", threshold=threshold)


def load_profiles(tables: Mapping[str, Mapping[str, Any]], *, embedder: str) -> dict[str, Profile]:
    """The shipped profiles and those that settings define, by name.

    A table names a ``base`` (default ``default``) and the numbers that differ.
    Errors: ConfigError for an unknown key, base, or a number out of range.
    """
    shipped = shipped_profiles(embedder)
    profiles = dict(shipped)
    for name, table in tables.items():
        if name in shipped:
            raise ConfigError(
                f"the profile {name!r} is shipped with Lastro and cannot be redefined",
                remedy="give yours another name",
            )
        base = shipped.get(str(table.get("base", DEFAULT.name)))
        if base is None:
            raise ConfigError(
                f"profile {name!r} has an unknown base", remedy=f"bases are {', '.join(shipped)}"
            )
        numbers = {key: value for key, value in table.items() if key != "base"}
        try:
            profiles[name] = _varied(base, name, numbers)
        except InvalidInput as error:
            raise ConfigError(error.message, remedy=error.remedy) from error
    return profiles


_SETTABLE = frozenset(f.name for f in fields(Profile)) - {"name", "calibrated", "embedder"}
# Numbers that are no shares of one, with their bounds.
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "rrf_k": (1, 1_000),
    "half_life_days": (1, 36_500),
    "length_exponent": (0, 2),
}
_DEPTHS = frozenset({"vector_depth", "lexical_depth"})
_WORDS: Mapping[str, tuple[str, ...]] = {
    "fusion": get_args(Fusion),
    "cosine": get_args(Cosine),
    "lexical": ("coverage", "ts_rank"),
    "match": ("any", "all"),
}
# The deepest that a leg may go: HNSW's own bound of ef_search.
MAX_DEPTH = 1_000


def _varied(base: Profile, name: str, numbers: Mapping[str, Any]) -> Profile:
    unknown = sorted(set(numbers) - _SETTABLE)
    if unknown:
        raise InvalidInput(
            f"profile {name!r} has unknown keys: {', '.join(unknown)}",
            remedy=f"keys are base, {', '.join(sorted(_SETTABLE))}",
        )
    made = replace(
        base,
        name=name,
        version=1,
        calibrated=False,
        provenance=f"lastro.toml, from {base.name}",
    )
    made = replace(made, **{key: _checked(name, key, value) for key, value in numbers.items()})
    if made.vector_weight + made.lexical_weight <= 0:
        raise InvalidInput(f"profile {name!r}: one of the legs' weights must be above 0")
    return made


def profile_json(profile: Profile) -> dict[str, Any]:
    """Every field of a profile, by its own name: what ``profile_from_json`` reads back."""
    body: dict[str, Any] = {f.name: getattr(profile, f.name) for f in fields(Profile)}
    if isinstance(profile.threshold, Thresholds):
        body["threshold"] = {f.name: getattr(profile.threshold, f.name) for f in fields(Thresholds)}
    return body


def profile_from_json(body: Mapping[str, Any]) -> Profile:
    """The profile that ``profile_json`` wrote. Errors: InvalidInput."""
    numbers = {key: value for key, value in body.items() if key in _SETTABLE}
    made = _varied(DEFAULT, str(body["name"]), numbers)
    return replace(made, calibrated=body["calibrated"], embedder=body.get("embedder"))


def _checked(profile: str, key: str, value: object) -> object:
    if key == "provenance":
        return str(value)
    if key == "threshold":
        return _threshold(profile, value)
    if key in _WORDS:
        if value not in _WORDS[key]:
            raise InvalidInput(
                f"profile {profile!r}: {key} is {value!r}",
                remedy=f"it may be {' or '.join(_WORDS[key])}",
            )
        return value
    if key == "version" or key in _DEPTHS:
        return _whole(profile, key, value)
    low, high = _BOUNDS.get(key, (0, 1))
    return _number(profile, key, value, low=low, high=high)


def _threshold(profile: str, value: object) -> Thresholds | float | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        return _number(profile, "threshold", value)
    table = cast("dict[str, object]", value)
    names = {field.name for field in fields(Thresholds)}
    if set(table) != names:
        raise InvalidInput(
            f"profile {profile!r}: threshold must be one number, or the three numbers "
            f"{', '.join(sorted(names))}"
        )
    return Thresholds(
        **{key: _number(profile, f"threshold.{key}", entry) for key, entry in table.items()}
    )


def _whole(profile: str, key: str, value: object) -> int:
    most = MAX_DEPTH if key in _DEPTHS else 2**31 - 1
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(
            f"profile {profile!r}: {key} must be a whole number from 1 to {most}, not {value!r}"
        )
    return value


def _number(profile: str, key: str, value: object, *, low: float = 0.0, high: float = 1.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidInput(
            f"profile {profile!r}: {key} must be a number from {low:g} to {high:g}, not {value!r}"
        )
    return float(value)
