"""The rule use cases: a project's rules stored, listed and removed, and asked by a search."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from uuid import UUID

from lastro import store
from lastro.db.pool import Database, retried
from lastro.entry_filter import EntryFilter
from lastro.errors import InvalidInput, NotFound
from lastro.json_lines import LineCounts, require_all
from lastro.projects import project_named
from lastro.ranking import Candidate
from lastro.rules import (
    MAX_RULES,
    CompiledRule,
    Rule,
    RuleContext,
    RuleEntry,
    RuleFunction,
    RuleReport,
    Ruling,
    applies,
    compile_rule,
    read_rules,
    rule_on,
)
from lastro.store import AppConnection, RuleRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What rules are asked about: the search's context, its filter, and its own functions."""

    context: RuleContext
    entries: EntryFilter | None = None
    functions: Sequence[RuleFunction] = ()


def asked(
    query: str,
    said: Mapping[str, Any] | None,
    *,
    entries: EntryFilter | None,
    functions: Sequence[RuleFunction],
) -> Asked:
    """``said`` is the filter as it was given, ``entries`` as it was read."""
    context = RuleContext(query=query, filter=MappingProxyType(dict(said or {})))
    return Asked(context=context, entries=entries, functions=tuple(functions))


def rulings(
    connection: AppConnection, candidates: Sequence[Candidate], about: Asked, *, project_id: int
) -> dict[UUID, Ruling]:
    """What rules say of those candidates that are entries, by document.

    Only what a search may show is asked about, and nothing of it is read where no rule applies.
    Errors: InvalidInput for a function that fails.
    """
    rows = store.stored_rules(connection, project_id)
    rules = [rule for rule in map(_compiled, rows) if applies(rule, about.entries)]
    if not rules and not about.functions:
        return {}
    of_document = {candidate.document_id: candidate for candidate in candidates}
    found = store.rule_entries(
        connection, [candidate.id for candidate in of_document.values()], project_id=project_id
    )
    return {
        row.document_id: rule_on(
            RuleEntry(
                key=row.key,
                type=row.type,
                attributes=MappingProxyType(row.attributes),
                rule_weight=of_document[row.document_id].rule,
                effective_at=row.effective_at,
            ),
            rules,
            about.functions,
            context=about.context,
        )
        for row in found
    }


def ruled(candidates: Sequence[Candidate], said: Mapping[UUID, Ruling]) -> list[Candidate]:
    """The candidates with what rules say of them beside their own weights. Pure."""
    return [
        candidate._replace(rule=ruling.total)
        if (ruling := said.get(candidate.document_id)) is not None
        else candidate
        for candidate in candidates
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBook:
    """The rules that a project keeps, each called by its name.

    Errors of every method: NotFound for the project.
    """

    database: Database
    project: str

    def upsert(self, rules: Sequence[Rule]) -> RuleReport:
        """Store rules over those of the same names, all or none.

        Errors: NotFound for the project, InvalidInput for a name that comes twice, or for too many.
        """
        tenant = project_named(self.database, self.project)
        names = {rule.name for rule in rules}
        if len(names) < len(rules):
            raise InvalidInput("a rule's name comes twice", remedy="give each rule once")

        def save() -> dict[str, bool]:
            with self.database.transaction(projects=[tenant.id]) as connection:
                store.wait_to_number(connection, tenant.id)  # so that the rules are all counted
                saved = store.save_rules(connection, rules, project_id=tenant.id)
                if len(store.stored_rules(connection, tenant.id)) > MAX_RULES:
                    raise InvalidInput(
                        f"a project keeps at most {MAX_RULES:,} rules",
                        remedy="remove some with `lastro rules rm`, or decide in a function",
                    )
                return saved

        saved = retried(save)
        changed = sum(saved.values())
        return RuleReport(
            project=tenant.slug,
            rules=LineCounts(
                added=len(saved) - changed, changed=changed, unchanged=len(rules) - len(saved)
            ),
        )

    def import_lines(self, lines: Iterable[bytes], *, strict: bool = False) -> RuleReport:
        """Store the rules of JSON Lines, and report the lines that are none.

        Errors: those of ``upsert``; InvalidInput where ``strict`` meets such a line, and then
        nothing is stored.
        """
        read = read_rules(lines)
        if strict:
            require_all(read, of="rules")
        report = self.upsert(read.items)
        return replace(report, rules=replace(report.rules, refused=read.refused))

    def remove(self, names: Sequence[str]) -> list[str]:
        """Remove the rules called ``names``; returns those that there were.

        Errors: NotFound where none of the names is there.
        """
        tenant = project_named(self.database, self.project)

        def remove() -> Sequence[str]:
            with self.database.transaction(projects=[tenant.id]) as connection:
                return store.delete_rules(connection, names, project_id=tenant.id)

        removed = [*retried(remove)]
        if not removed:
            named = (
                f"no rule {names[0]!r}" if len(names) == 1 else f"none of the {len(names)} rules"
            )
            raise NotFound(
                f"the project {tenant.slug!r} has {named}",
                remedy="see their names with `lastro rules list`",
            )
        return removed

    def list(self) -> list[Rule]:
        """The rules by name."""
        tenant = project_named(self.database, self.project)
        with self.database.transaction(projects=[tenant.id]) as connection:
            return [_rule(row) for row in store.stored_rules(connection, tenant.id)]


def _rule(row: RuleRow) -> Rule:
    return Rule(
        name=row.name,
        weight=row.weight,
        reason=row.reason,
        when=None if row.when is None else json.loads(row.when),
        entry=None if row.entry is None else json.loads(row.entry),
    )


@lru_cache(maxsize=2 * MAX_RULES)
def _compiled(row: RuleRow) -> CompiledRule:
    """A row's filters are read once by a process, however many searches ask for them."""
    return compile_rule(_rule(row))
