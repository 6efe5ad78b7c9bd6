"""What a search's scores are counted over, counted again when a project's rows have changed."""

from lastro import store
from lastro.adoption import refresh_vector_scale
from lastro.db.pool import Database
from lastro.store import AppConnection


def count_again(database: Database, *, project_id: int, has_changed: bool) -> int:
    """Count what the scores need, where rows changed; returns the published chunks.

    Where this run changed none the database says whether: the rows may be those of an earlier run
    that was stopped before it counted them.
    """
    with database.transaction(projects=[project_id]) as connection:
        if has_changed or not store.statistics_are_current(connection, project_id):
            refresh_counts(connection, project_id)
        return store.count_chunks(connection, project_id)


def refresh_counts(connection: AppConnection, project_id: int) -> None:
    """Count words, lengths and cosines of a project again."""
    store.refresh_statistics(connection, project_id)
    refresh_vector_scale(connection, project_id)
