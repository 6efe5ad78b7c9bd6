"""The use cases of a project's own words: imported, listed, removed."""

from collections.abc import Iterable, Sequence

from lastro import store
from lastro.db.pool import Database
from lastro.errors import NotFound
from lastro.json_lines import LineCounts, require_all
from lastro.projects import project_named
from lastro.store import AppConnection
from lastro.words import Vocabulary, Word, WordReport


def import_words(
    database: Database, lines: Iterable[bytes], *, project: str, strict: bool
) -> WordReport:
    """Add what lines of JSON say to a project's words; the next search knows them.

    Errors: NotFound; InvalidInput where ``strict`` meets a line that says nothing, and then
    nothing is stored.
    """
    known = project_named(database, project)
    held = list(lines)  # before the transaction, which others wait for
    with database.transaction(projects=[known.id]) as connection:
        before, vocabulary = _read(connection, known.id)
        read = vocabulary.read(held)
        if strict:
            require_all(read, of="words")
        changed = _write(connection, vocabulary, before, project_id=known.id)
    added = len(changed - before.keys())
    return WordReport(
        project=project,
        words=LineCounts(
            added=added,
            changed=len(changed) - added,
            unchanged=len(vocabulary.touched) - len(changed),
            refused=read.refused,
        ),
        total=len(vocabulary.words),
    )


def list_words(database: Database, *, project: str) -> list[Word]:
    """A project's words by term. Errors: NotFound."""
    project_id = project_named(database, project).id
    with database.transaction(projects=[project_id]) as connection:
        return list(store.stored_words(connection, project_id).values())


def remove_words(database: Database, terms: Sequence[str], *, project: str) -> list[str]:
    """Take terms out of a project's words, and out of what others mean; those that were there.

    Errors: NotFound where none was.
    """
    known = project_named(database, project)
    with database.transaction(projects=[known.id]) as connection:
        before, vocabulary = _read(connection, known.id)
        removed = [term for term in dict.fromkeys(terms) if vocabulary.remove(term)]
        if not removed:
            named = (
                f"no word {terms[0]!r}" if len(terms) == 1 else f"none of the {len(terms)} terms"
            )
            raise NotFound(f"the project {project!r} has {named}", remedy="see `lastro words list`")
        _write(connection, vocabulary, before, project_id=known.id)
    return removed


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
