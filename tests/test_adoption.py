"""Profiles of a project: stored versions, adopted and rolled back; the scale of its cosines."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import psycopg
import pytest
from rows import add_chunk, add_project

from lastro import adoption, store
from lastro.adoption import ProfileVersions
from lastro.db.pool import Database
from lastro.errors import InvalidInput, NotFound
from lastro.profiles import DEFAULT, SHIPPED, Profile, unscaled

EMBEDDER = "use-m3"
# Nobody looked at these projects, so that their cosines are fused as they are.
PLAIN = unscaled(DEFAULT)
MINE = replace(DEFAULT, vector_weight=0.5, lexical_weight=0.5, calibrated=True, embedder=EMBEDDER)


@pytest.fixture
def project(app_database: Database) -> int:
    with app_database.transaction() as connection:
        return store.ensure_project(connection, "team").id


def versions(database: Database) -> ProfileVersions:
    return ProfileVersions(database=database, given=SHIPPED, project="team", embedder=EMBEDDER)


def answering(database: Database, project_id: int, name: str = "default") -> Profile:
    with database.transaction(projects=[project_id]) as connection:
        profile, _scale = adoption.resolve(
            connection, SHIPPED, name, project_id=project_id, embedder=EMBEDDER
        )
    return profile


def test_without_an_adoption_the_shipped_profile_answers(app_database, project) -> None:
    adoption.save(app_database, MINE, project="team", after=1)
    assert answering(app_database, project) == PLAIN


def test_a_saved_profile_is_the_next_version(app_database, project) -> None:
    saved = [adoption.save(app_database, MINE, project="team", after=1) for _ in range(2)]
    assert [profile.version for profile in saved] == [2, 3]


def test_an_adopted_version_answers_until_it_is_rolled_back(app_database, project) -> None:
    for weight in (0.5, 0.6):
        adoption.save(app_database, replace(MINE, vector_weight=weight), project="team", after=1)
    seen = []
    for version in ("default@2", "default@3", "default@1"):
        versions(app_database).adopt(version)
        seen.append(answering(app_database, project).version)
    for _ in range(3):
        versions(app_database).roll_back("default")
        seen.append(answering(app_database, project).version)
    assert seen == [2, 3, 1, 3, 2, 1]


def test_nothing_adopted_cannot_be_rolled_back(app_database, project) -> None:
    with pytest.raises(NotFound, match="has adopted no version of 'default'"):
        versions(app_database).roll_back("default")


@pytest.mark.parametrize(
    "name", ["default@7", "default@", "nope", "default@99999999999", "default@\u0662"]
)
def test_an_unknown_version_names_those_that_are_known(app_database, project, name) -> None:
    adoption.save(app_database, MINE, project="team", after=1)
    with pytest.raises(InvalidInput) as caught:
        answering(app_database, project, name)
    assert "default@2" in (caught.value.remedy or "")


def test_a_version_can_be_named_without_being_adopted(app_database, project) -> None:
    adoption.save(app_database, MINE, project="team", after=1)
    assert answering(app_database, project, "default@2") == replace(MINE, version=2)
    assert answering(app_database, project, "default@1") == PLAIN


def test_numbers_of_another_embedder_are_called_uncalibrated(app_database, project) -> None:
    adoption.save(app_database, replace(MINE, embedder="e5-small"), project="team", after=1)
    assert answering(app_database, project, "default@2").calibrated is False


@pytest.mark.parametrize("name", ["default", "default@"])
def test_a_name_without_a_version_is_told_how_to_write_one(app_database, project, name) -> None:
    with pytest.raises(InvalidInput) as caught:
        versions(app_database).adopt(name)
    assert "write default@VERSION" in (caught.value.remedy or "")


def test_another_project_does_not_see_the_adoption(app_database, project) -> None:
    with app_database.transaction() as connection:
        other = store.ensure_project(connection, "other").id
    adoption.save(app_database, MINE, project="team", after=1)
    versions(app_database).adopt("default@2")
    assert answering(app_database, other) == PLAIN


def look(database: Database, project_id: int, *, embedder: str, trust: float | None) -> None:
    """Keep a look at the project's vectors, made by this embedder."""
    check = store.SelfCheck(
        embedder=embedder, row_count=60, questions=40, agreement=1.0, lexical_mrr=1.0, trust=trust
    )
    with database.transaction(projects=[project_id]) as connection:
        store.save_check(connection, check, project_id=project_id)


@pytest.mark.parametrize(
    ("made_by", "trust", "cosine"),
    [("one", 0.4, "scaled"), ("one", None, "raw"), ("another", 0.4, "raw")],
)
def test_cosines_are_fused_on_their_scale_where_trust_in_them_was_told(
    owner, app_database, project, made_by, trust, cosine
) -> None:
    store.set_active_embedder(
        owner, store.ActiveEmbedder(id="e", version="1", dimension=2, fingerprint="one")
    )
    owner.commit()
    look(app_database, project, embedder=made_by, trust=trust)
    assert answering(app_database, project).cosine == cosine


def test_numbers_from_judged_questions_keep_their_scale_unlooked_at(app_database, project) -> None:
    adoption.save(app_database, replace(MINE, cosine="scaled"), project="team", after=1)
    assert answering(app_database, project, "default@2").cosine == "scaled"


# --- the scale of cosines


def measured(owner: psycopg.Connection, database: Database, vectors: np.ndarray):
    """The scale of a project with one row for each vector."""
    store.add_vector_column(owner, vectors.shape[1])
    project_id = add_project(owner, "vectors")
    for vector in vectors:
        add_chunk(
            owner,
            project_id,
            embedding=str(vector.tolist()),
            embedding_model="m",
            embedding_version="1",
        )
    owner.commit()
    with database.transaction(projects=[project_id]) as connection:
        adoption.refresh_vector_scale(connection, project_id)
        _profile, scale = adoption.resolve(
            connection, SHIPPED, "default", project_id=project_id, embedder=EMBEDDER
        )
    return scale


def test_the_scale_is_mean_and_spread_of_all_pairs(owner, app_database) -> None:
    # Ten rows on each of two axes: of 190 pairs, 90 are alike (cosine 1) and 100 at right angles
    vectors = np.repeat(np.eye(2, dtype=np.float32), 10, axis=0)
    scale = measured(owner, app_database, vectors)
    assert scale.mean == pytest.approx(90 / 190)
    assert scale.spread == pytest.approx(np.std([1.0] * 90 + [0.0] * 100, ddof=1))


def test_nineteen_rows_have_no_scale(owner, app_database) -> None:
    vectors = np.repeat(np.eye(2, dtype=np.float32), [10, 9], axis=0)
    assert measured(owner, app_database, vectors) is None


def test_rows_that_are_all_alike_have_no_scale(owner, app_database) -> None:
    assert measured(owner, app_database, np.ones((20, 2), dtype=np.float32)) is None


def test_without_a_vector_column_there_is_nothing_to_measure(app_database, project) -> None:
    with app_database.transaction(projects=[project]) as connection:
        adoption.refresh_vector_scale(connection, project)
    assert answering(app_database, project) == PLAIN


# --- at once


def test_two_who_number_at_once_wait_for_each_other(app_database, project) -> None:
    names = ["default"] * 12
    with ThreadPoolExecutor(4) as pool:
        saved = list(
            pool.map(
                lambda name: (
                    adoption.save(
                        app_database, replace(MINE, name=name), project="team", after=1
                    ).version
                ),
                names,
            )
        )
        list(
            pool.map(
                lambda version: versions(app_database).adopt(f"default@{version}"),
                saved,
            )
        )
        list(
            pool.map(
                versions(app_database).roll_back,
                names,
            )
        )
    assert sorted(saved) == list(range(2, 14))
    assert answering(app_database, project) == PLAIN
