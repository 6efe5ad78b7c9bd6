"""Faults that users of other systems report of filters, projects and ranks, tried on entries."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from leaking import OURS, THEIRS, Shelf, keys, shelves
from psycopg import errors

from lastro import store
from lastro.entity import Entity
from lastro.errors import NotFound
from lastro.filters import HardFilter, compile_filter
from lastro.profiles import SHIPPED
from lastro.search import SearchRequest, search

# Just what is embedded of each entry: near enough for every profile.
QUERY = "Clock\nA clock of brass."
STATES = {"new": {"state": "new"}, "none": {}, "null": {"state": None}, "sold": {"state": "sold"}}


@pytest.fixture(scope="module")
def shelf(server_url: str, template: str) -> Iterator[Shelf]:
    with shelves(server_url, template) as both:
        entries = [
            Entity(key=key, title="Clock", text="A clock of brass.", type="clock", attributes=has)
            for key, has in STATES.items()
        ]
        both.whole.replace(entries, project=OURS)
        both.whole.replace(entries[:1], project=THEIRS)
        yield both.whole


# --- no list of projects opens all of them


def test_without_a_visible_project_nothing_is_found_counted_or_listed(shelf: Shelf) -> None:
    project_id = shelf.project_id
    predicate = compile_filter(HardFilter(project_id=project_id))
    (vector,) = shelf.embedder.embed(["clock"], "query")
    with shelf.database.transaction(projects=[]) as connection:
        for exact in (True, False):
            assert not store.vector_leg(
                connection, predicate, embedding=vector, depth=10, exact=exact
            )
        assert store.count_up_to(connection, predicate, limit=10) == 0
        assert store.kept_of_sample(connection, predicate, limit=10) == (0, 0)
        assert store.corpus(connection, project_id).row_count == 0
        assert not store.entity_summaries(connection, project_id, type_=None, status=None)


@pytest.mark.parametrize("name", ["", " ", "*", "nobody's"])
def test_a_name_that_is_no_project_is_none_and_not_every_one(shelf: Shelf, name: str) -> None:
    with pytest.raises(NotFound):
        search(shelf.engine, SearchRequest(query="clock"), project=name)


@pytest.mark.parametrize(
    ("project_id", "error"),
    [(None, errors.NotNullViolation), (-1, errors.ForeignKeyViolation)],
)
def test_no_row_can_stand_outside_every_project(
    shelf: Shelf, project_id: int | None, error: type[Exception]
) -> None:
    with psycopg.connect(shelf.url) as owner, pytest.raises(error):
        owner.execute("UPDATE lastro.chunks SET project_id = %s", [project_id])


# --- what must not be there may be missing


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"forbid": {"state": "sold"}}, {"new", "none", "null"}),
        ({"allow": {"state": "new"}}, {"new", "none", "null"}),
        ({"require": {"state": "new"}}, {"new"}),
        ({"equals": {"state": ["new", "sold"]}}, {"new", "sold"}),
    ],
)
def test_an_entry_without_the_attribute_is_shut_out_only_where_it_is_required(
    shelf: Shelf, said: dict[str, Any], found: set[str]
) -> None:
    assert keys(shelf.ask(SearchRequest(query=QUERY, k=100, filter=said))) == found


# --- the head of a list


@pytest.mark.parametrize("profile", sorted(SHIPPED))
def test_fewer_hits_are_the_head_of_more_and_equal_ones_stand_in_the_order_of_their_keys(
    shelf: Shelf, profile: str
) -> None:
    # All but the ids of these entries is equal, so their scores are.
    orders = {
        tuple(hit.chunk_id for hit in shelf.ask(SearchRequest(query=QUERY, profile=profile)).hits)
        for _ in range(20)
    }
    assert len(orders) == 1
    whole = shelf.ask(SearchRequest(query=QUERY, profile=profile)).hits
    for k in (1, 2, 3):
        assert shelf.ask(SearchRequest(query=QUERY, profile=profile, k=k)).hits == whole[:k]
    if profile != "kb-rrf":  # there a rank is part of the score
        assert len({hit.score for hit in whole}) == 1
    assert [hit.origin.entity_key for hit in whole] == sorted(STATES)  # type: ignore[union-attr]
