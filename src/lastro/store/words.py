"""A project's own words: rows of ``words``."""

from collections.abc import Iterable, Sequence

from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.sql import load_queries
from lastro.words import Word


def stored_words(
    connection: AppConnection,
    project_id: int,
    *,
    after: str | None = None,
    limit: int | None = None,
) -> dict[str, Word]:
    """The words of a project by key, in the order of keys, all or those behind one."""
    rows = connection.execute(
        load_queries("words")["stored_words"],
        {"project_id": project_id, "after": after, "limit": limit},
    )
    return {
        key: Word(term=term, means=tuple(means), protected=protected)
        for key, term, means, protected in rows
    }


def words_at(connection: AppConnection, keys: Sequence[str], *, project_id: int) -> list[Word]:
    """The words of a project that have one of the keys."""
    rows = connection.execute(
        load_queries("words")["words_at"], {"project_id": project_id, "keys": list(keys)}
    )
    return [
        Word(term=term, means=tuple(means), protected=protected) for term, means, protected in rows
    ]


def save_words(
    connection: AppConnection, words: Iterable[tuple[str, Word]], *, project_id: int
) -> None:
    """Store words, each under its key, over those that are there."""
    rows = [
        {"key": key, "term": word.term, "means": word.means, "protected": word.protected}
        for key, word in words
    ]
    connection.execute(
        load_queries("words")["save_words"], {"project_id": project_id, "rows": Jsonb(rows)}
    )


def delete_words(connection: AppConnection, keys: Sequence[str], *, project_id: int) -> None:
    """Delete the words that have one of the keys."""
    connection.execute(
        load_queries("words")["delete_words"], {"project_id": project_id, "keys": list(keys)}
    )
