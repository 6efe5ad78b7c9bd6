"""Two hundred histories of a project, each ending in the index that a fresh one would be."""

from collections.abc import Iterator
from pathlib import Path

import killing
import pytest
from databases import address, scratch_database
from histories import Index, Project, live

from lastro.db.pool import Database

HISTORIES = 200


@pytest.fixture
def indexes(server_url: str, template: str) -> Iterator[tuple[Index, Index]]:
    with (
        scratch_database(server_url, template=template) as one,
        scratch_database(server_url, template=template) as two,
        Database(address(server_url, dbname=one), max_size=4) as ours,
        Database(address(server_url, dbname=two), max_size=4) as theirs,
    ):
        yield (
            Index(address(server_url, dbname=one), ours),
            Index(address(server_url, dbname=two), theirs),
        )


@pytest.mark.timeout(3_600)
def test_after_any_of_200_histories_the_index_equals_a_fresh_one(
    indexes: tuple[Index, Index], tmp_path: Path
) -> None:
    index, beside = indexes
    kills = 0
    with killing.Indexers() as indexers:
        for seed in range(HISTORIES):
            project = Project(
                index=index.empty(), folder=tmp_path / "repository", indexers=indexers
            )
            live(project, seed=seed, beside=beside.empty())
            kills += project.kills
    print(f"\n{kills} runs were killed at work")
    assert kills >= HISTORIES // 10
