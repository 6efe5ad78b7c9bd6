"""A project tells how far its vectors can be trusted: real rows, vectors of noise and of sense."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from lastro import adoption, store
from lastro.adoption import ProfileVersions, resolve
from lastro.beir import Passage
from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import DeterministicEmbedder, Embedder, fingerprint
from lastro.evaluation import PROJECT, store_passages
from lastro.profiles import DEFAULT, SHIPPED, Profile, unscaled
from lastro.search import Engine
from lastro.self_calibration import self_calibrate, watch_over
from lastro.writing import Writer

SUBJECTS = ("harbour", "orchard", "kitchen", "railway")
LANGUAGES = ("en",)


class BagOfWords(DeterministicEmbedder):
    """Texts that share words lie near each other: what an embedder at home is like."""

    id = "bag"

    def embed(self, texts: Sequence[str], role) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for number, text in enumerate(texts):
            for word in text.lower().split():
                digest = hashlib.sha256(word.strip(".,").encode()).digest()
                vectors[number, int.from_bytes(digest[:4]) % self.dimension] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def passages(count: int) -> list[Passage]:
    return [
        Passage(
            id=f"{n:04}",
            title="",
            text=f"The {SUBJECTS[n % 4]} of village number{n} keeps {SUBJECTS[n % 4]} tool{n % 12} "
            f"near gate{n % 8} for the {SUBJECTS[n % 4]} people.",
        )
        for n in range(count)
    ]


def boilerplate(count: int) -> list[Passage]:
    """Passages that share their one sentence, so that it finds all of them and none."""
    shared = "This page was written by the harbour board and may be copied by everybody."
    return [Passage(id=f"{n:04}", title="", text=f"{shared}\n\n{n}\n") for n in range(count)]


def fill(
    database: Database,
    owner_url: str,
    embedder: Embedder,
    *,
    count: int,
    texts: Callable[[int], list[Passage]] = passages,
) -> int:
    pipeline = Pipeline(
        chunking=ChunkSettings(), languages=LANGUAGES, embedder=fingerprint(embedder)
    )
    writer = Writer(
        database=database, admin_url=owner_url, embedder=embedder, pipeline=pipeline, cache=database
    )
    store_passages(writer, texts(count), language="en", whole=True, progress=lambda _done: None)
    with database.transaction() as connection:
        return store.find_project(connection, PROJECT).id


def answering(database: Database, embedder: Embedder, project_id: int) -> Profile:
    with database.transaction(projects=[project_id]) as connection:
        profile, _scale = resolve(
            connection, SHIPPED, DEFAULT.name, project_id=project_id, embedder=embedder.id
        )
    return profile


def versions(database: Database, embedder: Embedder) -> ProfileVersions:
    return ProfileVersions(database=database, given=SHIPPED, project=PROJECT, embedder=embedder.id)


def engine_of(database: Database, embedder: Embedder) -> Engine:
    return Engine(database=database, embedder=embedder, profiles=SHIPPED, languages=LANGUAGES)


def watch(database: Database, embedder: Embedder) -> None:
    watch_over(engine_of(database, embedder), project=PROJECT)


def test_vectors_of_noise_lose_their_weight_and_the_outcome_says_self(
    app_database, owner_url
) -> None:
    embedder = DeterministicEmbedder()
    project_id = fill(app_database, owner_url, embedder, count=200)
    watch(app_database, embedder)
    profile = answering(app_database, embedder, project_id)
    assert (profile.vector_weight, profile.lexical_weight) == pytest.approx((0.0, 1.0))
    assert (profile.version, profile.calibrated) == (DEFAULT.version + 1, "self")
    assert "agreement" in profile.provenance


def test_vectors_that_know_the_texts_keep_the_shipped_profile(app_database, owner_url) -> None:
    embedder = BagOfWords()
    project_id = fill(app_database, owner_url, embedder, count=200)
    watch(app_database, embedder)
    assert answering(app_database, embedder, project_id) == DEFAULT


def test_the_same_rows_give_the_same_estimate(app_database, owner_url) -> None:
    embedder = DeterministicEmbedder()
    fill(app_database, owner_url, embedder, count=60)
    looks = [self_calibrate(engine_of(app_database, embedder), project=PROJECT) for _ in range(2)]
    assert looks[0] == looks[1]
    assert looks[0].check.row_count == 60


def test_a_handful_of_rows_is_not_judged_and_its_cosines_stay_as_they_are(
    app_database, owner_url
) -> None:
    embedder = DeterministicEmbedder()
    project_id = fill(app_database, owner_url, embedder, count=19)
    watch(app_database, embedder)
    assert answering(app_database, embedder, project_id) == unscaled(DEFAULT)


def test_a_version_that_somebody_adopted_is_left_alone(app_database, owner_url) -> None:
    embedder = DeterministicEmbedder()
    project_id = fill(app_database, owner_url, embedder, count=200)
    mine = replace(DEFAULT, vector_weight=0.5, calibrated=True, embedder=embedder.id)
    adoption.save(app_database, mine, project=PROJECT, after=1)
    versions(app_database, embedder).adopt("default@2")
    watch(app_database, embedder)
    assert answering(app_database, embedder, project_id) == replace(mine, version=2)


def test_a_project_is_looked_at_again_when_it_has_doubled(app_database, owner_url) -> None:
    embedder = DeterministicEmbedder()
    seen: list[int] = []
    for stored, count in ((0, 60), (60, 119), (119, 120)):
        project_id = fill(
            app_database,
            owner_url,
            embedder,
            count=count,
            texts=lambda n, s=stored: passages(n)[s:],
        )
        watch(app_database, embedder)
        with app_database.transaction(projects=[project_id]) as connection:
            check = store.last_check(connection, project_id)
        assert check is not None
        seen.append(check.row_count)
    assert seen == [60, 60, 120]


@pytest.mark.parametrize("choose", ["roll back", "adopt the shipped one"])
def test_the_shipped_version_that_somebody_chose_again_stays(
    choose: str, app_database, owner_url
) -> None:
    embedder = DeterministicEmbedder()
    project_id = fill(app_database, owner_url, embedder, count=60)
    watch(app_database, embedder)
    if choose == "roll back":
        versions(app_database, embedder).roll_back("default")
    else:
        versions(app_database, embedder).adopt("default@1")
    fill(app_database, owner_url, embedder, count=60, texts=lambda n: passages(2 * n)[n:])
    watch(app_database, embedder)
    assert answering(app_database, embedder, project_id) == DEFAULT


def test_where_the_words_are_noise_the_shipped_weights_stay(app_database, owner_url) -> None:
    embedder = DeterministicEmbedder()
    project_id = fill(app_database, owner_url, embedder, count=60, texts=boilerplate)
    watch(app_database, embedder)
    with app_database.transaction(projects=[project_id]) as connection:
        check = store.last_check(connection, project_id)
    assert check is not None
    # The sixty passages stand by their place: the mean of 1/rank over the first eleven is 3.02 / 60
    assert (check.lexical_mrr, check.trust) == (pytest.approx(0.05, abs=0.03), None)
    assert answering(app_database, embedder, project_id) == unscaled(DEFAULT)
