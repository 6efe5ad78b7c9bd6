"""A project's knowledge base: its entries stored, read back and removed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lastro import entities as use_case
from lastro.entity import Entity, EntityReport, EntitySummary, read_entities
from lastro.json_lines import require_all
from lastro.search import Engine
from lastro.self_calibration import watch_over
from lastro.types import Progress
from lastro.writing import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeBase:
    """The entries of one project, each called by its key.

    Errors of every method but those that store: NotFound for the project.
    """

    engine: Engine
    project: str
    new_writer: Callable[[], Writer]

    def upsert(
        self, entities: Iterable[Entity], *, progress: Progress | None = None
    ) -> EntityReport:
        """Store entries over those of the same keys; they can be searched when it returns.

        Errors: those of ``lastro.entities.upsert_entities``.
        """
        report = use_case.upsert_entities(
            self.engine.database,
            entities,
            project=self.project,
            writer=self.new_writer(),
            progress=progress,
        )
        if report.embedding.available:
            watch_over(self.engine, project=report.project)
        return report

    def import_lines(
        self, lines: Iterable[bytes], *, strict: bool = False, progress: Progress | None = None
    ) -> EntityReport:
        """Store the entries of JSON Lines, and report the lines that are none.

        Errors: those of ``upsert``; InvalidInput where ``strict`` meets such a line, and then
        nothing is stored.
        """
        read = read_entities(lines)
        if strict:
            require_all(read, of="entries")
        report = self.upsert(read.items, progress=progress)
        return replace(report, entries=replace(report.entries, refused=read.refused))

    def get(self, key: str, *, published_only: bool = False) -> Entity:
        """An entry of any status, or only a published one. Errors: NotFound."""
        return use_case.get_entity(
            self.engine.database, key, project=self.project, published_only=published_only
        )

    def export(self) -> Iterator[Entity]:
        """The entries whole, by key."""
        return use_case.export_entities(self.engine.database, project=self.project)

    def remove(self, keys: Sequence[str]) -> list[str]:
        """Delete entries; returns the keys that there were. Errors: NotFound where none was."""
        return use_case.delete_entities(self.engine.database, keys, project=self.project)

    def list(
        self,
        *,
        type_: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[EntitySummary]:
        """The entries without their texts, by key, behind ``after``. Errors: InvalidInput."""
        return use_case.list_entities(
            self.engine.database,
            project=self.project,
            type_=type_,
            status=status,
            after=after,
            limit=limit,
        )
