"""After any history the index equals a fresh one."""

from collections.abc import Callable
from pathlib import Path

import killing
from histories import Index, Project, live

from lastro.db.pool import Database

HISTORIES = 20


def test_after_any_history_the_index_equals_a_fresh_one(
    template: str, new_database: Callable[..., str], tmp_path: Path
) -> None:
    """Files edited, renamed and rewritten, sessions, entries, and indexers that are killed."""
    urls = [new_database(template=template) for _ in range(2)]
    with (
        Database(urls[0], max_size=4) as ours,
        Database(urls[1], max_size=4) as theirs,
        killing.Indexers() as indexers,
    ):
        index, beside = Index(urls[0], ours), Index(urls[1], theirs)
        for seed in range(HISTORIES):
            project = Project(
                index=index.empty(), folder=tmp_path / "repository", indexers=indexers
            )
            live(project, seed=seed, beside=beside.empty())
