"""The use cases of a project's own words: imported, listed, removed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lastro import store
from lastro.db.pool import Database, retried
from lastro.errors import NotFound
from lastro.json_lines import LineCounts, require_all
from lastro.paging import check_limit
from lastro.projects import project_named
from lastro.store import AppConnection
from lastro.words import Vocabulary, Word, WordReport


@dataclass(frozen=True, slots=True, kw_only=True)
class WordList:
    """A project's synonyms and protected terms.

    Errors of every method: NotFound for the project.
    """

    database: Database
    project: str

    def import_lines(self, lines: Iterable[bytes], *, strict: bool = False) -> WordReport:
        """Add what lines of JSON say to the words; the next search knows them.

        Errors: InvalidInput where ``strict`` meets a line that says nothing, and then
        nothing is stored.
        """
        known = project_named(self.database, self.project)
        held = list(lines)  # before the transaction, which others wait for

        def add() -> WordReport:
            with self.database.transaction(projects=[known.id]) as connection:
                before, vocabulary = _read(connection, known.id)
                read = vocabulary.read(held)
                if strict:
                    require_all(read, of="words")
                changed = _write(connection, vocabulary, before, project_id=known.id)
            added = len(changed - before.keys())
            return WordReport(
                project=self.project,
                words=LineCounts(
                    added=added,
                    changed=len(changed) - added,
                    unchanged=len(vocabulary.touched) - len(changed),
                    refused=read.refused,
                ),
                total=len(vocabulary.words),
            )

        return retried(add)

    def remove(self, terms: Sequence[str]) -> list[str]:
        """Take terms out, and out of what others mean; those that were there.

        Errors: NotFound where none was.
        """
        known = project_named(self.database, self.project)

        def remove() -> Sequence[str]:
            with self.database.transaction(projects=[known.id]) as connection:
                before, vocabulary = _read(connection, known.id)
                removed = [term for term in dict.fromkeys(terms) if vocabulary.remove(term)]
                if removed:
                    _write(connection, vocabulary, before, project_id=known.id)
                return removed

        removed = [*retried(remove)]
        if not removed:
            named = (
                f"no word {terms[0]!r}" if len(terms) == 1 else f"none of the {len(terms)} terms"
            )
            raise NotFound(
                f"the project {self.project!r} has {named}", remedy="see `lastro words list`"
            )
        return removed

    def list(self, *, after: str | None = None, limit: int | None = None) -> list[Word]:
        """The words by what they are compared by (``words.key_of``), those behind ``after``.

        Errors: InvalidInput.
        """
        check_limit(limit, of="word")
        project_id = project_named(self.database, self.project).id
        with self.database.transaction(projects=[project_id]) as connection:
            return list(
                store.stored_words(connection, project_id, after=after, limit=limit).values()
            )


def _read(connection: AppConnection, project_id: int) -> tuple[dict[str, Word], Vocabulary]:
    """The words as they are, which nobody else changes until the transaction ends."""
    store.wait_to_number(connection, project_id)
    before = store.stored_words(connection, project_id)
    return before, Vocabulary(dict(before))


def _write(
    connection: AppConnection,
    vocabulary: Vocabulary,
    before: dict[str, Word],
    *,
    project_id: int,
) -> set[str]:
    """Store what is different from ``before``; the keys of what is new or changed."""
    after = vocabulary.words
    changed = {key for key in vocabulary.touched & after.keys() if before.get(key) != after[key]}
    gone = before.keys() - after.keys()
    if changed:
        store.save_words(connection, ((key, after[key]) for key in changed), project_id=project_id)
    if gone:
        store.delete_words(connection, sorted(gone), project_id=project_id)
    return changed
