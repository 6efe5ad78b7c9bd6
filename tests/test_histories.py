"""After any history the index equals a fresh one."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import killing
import pytest
from histories import Index, Project, Step, histories, live
from hypothesis import given, settings

from lastro.db.pool import Database

HISTORIES = 20


@pytest.fixture(scope="module")
def indexers() -> Iterator[killing.Indexers]:
    with killing.Indexers() as made:
        yield made


def test_after_any_history_the_index_equals_a_fresh_one(
    template: str,
    new_database: Callable[..., str],
    tmp_path: Path,
    indexers: killing.Indexers,
) -> None:
    """Files edited, renamed and rewritten, sessions, entries, and indexers that are killed."""
    urls = [new_database(template=template) for _ in range(2)]
    with Database(urls[0], max_size=4) as ours, Database(urls[1], max_size=4) as theirs:
        index, beside = Index(urls[0], ours), Index(urls[1], theirs)

        @settings(max_examples=HISTORIES)
        @given(histories)
        def any_history(history: list[Step]) -> None:
            project = Project(
                index=index.empty(),
                folder=tmp_path / "repository",
                indexers=indexers,
                dice=random.Random(6),
            )
            live(project, history, beside=beside.empty())

        any_history()
