"""Two hundred indexers killed at random points, and searches that look on."""

from pathlib import Path

import killing
import pytest
from databases import address, scratch_database

DOCUMENTS = 60
KILLS = 200


@pytest.mark.timeout(3_600)
def test_after_any_of_200_kills_the_next_run_ends_equal_to_a_fresh_index(
    server_url: str, template: str, owner_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "repository"
    killing.make_repository(folder, documents=DOCUMENTS)
    fresh: dict[str, list[list[tuple]]] = {}
    for version in killing.VERSIONS:
        with scratch_database(server_url, template=template) as name:
            url = address(server_url, dbname=name)
            killing.index(url, folder, version)
            fresh[version] = killing.state(url)
    killing.index(owner_url, folder, killing.VERSIONS[0])
    onlooker = killing.Onlooker(owner_url, DOCUMENTS)
    unfinished = 0
    with killing.Indexers() as indexers:
        for version, was_done in killing.kill_often(
            owner_url, folder, onlooker, indexers=indexers, kills=KILLS, seed=16
        ):
            assert killing.state(owner_url) == fresh[version]
            unfinished += not was_done
    print(f"\n{unfinished} of {KILLS} runs were killed at work; {onlooker.searches} searches")
    assert (onlooker.failures, onlooker.halves) == ([], [])
    assert unfinished >= KILLS // 5
