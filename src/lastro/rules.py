"""Rules: which entries suit a search better, by what it asks for and by what they are. Pure.

A rule is a line of JSON that a project keeps, or a function that a program gives with its search.
What they mean, with a truth table, is in docs/reference/rules.md.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from textwrap import shorten
from typing import Any, cast

from lastro.entity import MAX_RULE_WEIGHT, is_number
from lastro.entry_filter import EntryFilter, parse_filter
from lastro.entry_matching import Held, Matcher, asks_for, matcher_of
from lastro.errors import InvalidFilter, InvalidInput
from lastro.json_lines import LineCounts, ReadLines, read_lines
from lastro.lexical import storable
from lastro.ranking import rule_part

# Each that is for a search is asked of every entry found: 200 of them of 150 take 0.1 s of a core.
MAX_RULES = 200
MAX_NAME_CHARS = 200
MAX_REASON_CHARS = 1_000
# Of what a function's error says; it may hold a page.
SHOWN_ERROR_CHARS = 200
# Of a condition as JSON: every search reads all of them.
MAX_CONDITION_CHARS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that a project keeps.

    ``when`` is what a search's filter must ask for and ``entry`` what an entry must be, both in the
    filter language; None says nothing, and holds always. ``weight`` may be negative.
    Errors: InvalidInput, which names the rule and the field.
    """

    name: str
    weight: float
    reason: str
    when: Mapping[str, Any] | None = None
    entry: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _check_text(self.name, "a rule's name", max_chars=MAX_NAME_CHARS)
        named = f"rule {self.name!r}:"
        _check_text(self.reason, f"{named} reason", max_chars=MAX_REASON_CHARS)
        _check_weight(self.weight, f"{named} weight")
        _filter(self.when, f"{named} when")
        _filter(self.entry, f"{named} entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """What a search asks for; ``filter`` is its filter as it was given, empty for none."""

    query: str
    filter: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEntry:
    """An entry that a search has found and may show; ``rule_weight`` is its own."""

    key: str
    type: str
    attributes: Mapping[str, Any]
    rule_weight: float
    effective_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """What a rule that matches says. Errors: InvalidInput."""

    weight: float
    reason: str

    def __post_init__(self) -> None:
        _check_text(self.reason, "a rule's reason", max_chars=MAX_REASON_CHARS)
        _check_weight(self.weight, "a rule's weight")


# Must be quick, since it is asked of every candidate, and the same whenever it is asked.
RuleFunction = Callable[[RuleContext, RuleEntry], RuleMatch | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """A rule that matched an entry."""

    name: str
    weight: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """All that speaks for an entry by rule: those that matched, and its own weight."""

    matched: Sequence[Matched] = ()
    own: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all weights, in whatever order they come, before it is clipped."""
        return math.fsum([self.own, *(one.weight for one in self.matched)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReport:
    """What became of the rules that were given."""

    project: str
    rules: LineCounts


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A kept rule with its filters read; None says nothing, and holds always."""

    matched: Matched
    when: EntryFilter | None
    matches: Matcher | None


def compile_rule(rule: Rule) -> CompiledRule:
    """``rule`` with its filters read."""
    matched = Matched(name=rule.name, weight=rule.weight, reason=rule.reason)
    entry = parse_filter(rule.entry)
    matches = None if entry is None else matcher_of(entry)
    return CompiledRule(matched, parse_filter(rule.when), matches)


def applies(rule: CompiledRule, asked: EntryFilter | None) -> bool:
    """Whether a search whose filter is ``asked`` is one that the rule is for."""
    return rule.when is None or asks_for(asked, rule.when)


def rule_on(
    entry: RuleEntry,
    rules: Iterable[CompiledRule],
    functions: Iterable[RuleFunction] = (),
    *,
    context: RuleContext,
) -> Ruling:
    """What the rules say of an entry, in their order, the functions last.

    ``rules`` are those that apply to the search. Errors: InvalidInput for a function that fails.
    """
    held = Held(entry.type, entry.attributes)
    matched = [rule.matched for rule in rules if rule.matches is None or rule.matches(held)]
    said = (_said(function, context, entry) for function in functions)
    return Ruling(matched=[*matched, *(one for one in said if one)], own=entry.rule_weight)


def _said(function: RuleFunction, context: RuleContext, entry: RuleEntry) -> Matched | None:
    name = str(getattr(function, "__name__", type(function).__name__))
    try:
        said = cast("object", function(context, entry))
    except Exception as error:
        told = shorten(str(error), width=SHOWN_ERROR_CHARS, placeholder=" …")
        raise InvalidInput(
            f"rule {name!r} failed on the entry {entry.key!r}: {type(error).__name__}: {told}",
            remedy="correct the function that SearchRequest.rules names",
        ) from error
    if said is None:
        return None
    if not isinstance(said, RuleMatch):
        raise InvalidInput(
            f"rule {name!r} returned {type(said).__name__} for the entry {entry.key!r}",
            remedy="return a RuleMatch, or None where the rule does not match",
        )
    return Matched(name=name, weight=said.weight, reason=said.reason)


def ruling_json(ruling: Ruling) -> dict[str, Any]:
    """What ``explain`` shows of a ruling: each rule, the own weight, their sum, and it clipped."""
    return {
        "matched": [
            {"name": one.name, "weight": one.weight, "reason": one.reason} for one in ruling.matched
        ],
        "own": ruling.own,
        "sum": ruling.total,
        "part": rule_part(ruling.total),
    }


def rule_json(rule: Rule) -> dict[str, Any]:
    """A rule as its line says it; what says nothing is left out."""
    said = {
        "name": rule.name,
        "when": _plain(rule.when),
        "entry": _plain(rule.entry),
        "weight": rule.weight,
        "reason": rule.reason,
    }
    return {name: value for name, value in said.items() if value is not None}


def _plain(said: Mapping[str, Any] | None) -> Any:
    """A condition as JSON reads it back, whatever mappings and sequences it was made of."""
    return json.loads(_json(said))


def _json(said: object) -> str:
    return json.dumps(said, default=dict)


def parse_rule(said: object) -> Rule:
    """The rule that a JSON object says. Errors: InvalidInput, which names rule and field."""
    if not isinstance(said, dict):
        raise InvalidInput("it is no JSON object")
    values = cast("dict[str, Any]", said)
    known = [one.name for one in fields(Rule)]
    unknown = [name for name in values if name not in known]
    if unknown:
        raise InvalidInput(f"unknown field {unknown[0]!r}", remedy=f"use {', '.join(known)}")
    missing = [name for name in ("name", "weight", "reason") if values.get(name) is None]
    if missing:
        raise InvalidInput(f"there is no {missing[0]}")
    return Rule(**values)


def read_rules(lines: Iterable[bytes]) -> ReadLines[Rule]:
    """The rules of JSON Lines, each of a name of its own."""
    return read_lines(lines, parse_rule, key="name")


def _filter(said: object, where: str) -> None:
    try:
        parse_filter(cast("Mapping[str, Any] | None", said))
    except InvalidFilter as error:
        raise InvalidFilter(f"{where}: {error.message}", remedy=error.remedy) from error
    if len(_json(said)) > MAX_CONDITION_CHARS:
        raise InvalidFilter(f"{where} is longer than {MAX_CONDITION_CHARS:,} characters of JSON")


def _check_text(value: object, what: str, *, max_chars: int) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{what} is no text, or blank")
    if storable(value) != value:
        raise InvalidInput(f"{what} has a character that cannot be stored: NUL, or half of a pair")
    if len(value) > max_chars:
        raise InvalidInput(f"{what} is longer than {max_chars:,} characters")


def _check_weight(value: object, what: str) -> None:
    if not is_number(value) or abs(cast("float", value)) > MAX_RULE_WEIGHT:
        raise InvalidInput(
            f"{what} is no number from -{MAX_RULE_WEIGHT:,} to {MAX_RULE_WEIGHT:,}",
            remedy="the sum of all weights counts between 0 and 1",
        )
