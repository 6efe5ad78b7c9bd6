"""What a job is: when it is tried again, and what of a request and an error it keeps."""

from pathlib import Path

import pytest

from lastro.errors import Contention, InvalidInput, NotFound, RemoteError, StatementTimeout
from lastro.job import (
    PRIORITIES,
    RetryPolicy,
    error_of,
    index_request_json,
    is_transient,
    key_of,
    merged,
    queueing_lock_of,
    read_index_request,
    read_reindex_request,
    reindex_request_json,
    require_known,
    summary,
)
from lastro.types import IndexRequest, ReindexRequest

ASKED = {"path": "/ships", "ref": "main", "worktree": False, "rebuild": False}


def test_pauses_double_up_to_the_longest_and_end():
    policy = RetryPolicy(first_pause_s=5.0, longest_pause_s=30.0, failures=5)
    # 5, 10, 20, 40 cut to 30, 30, and no more
    assert [policy.pause_s(n) for n in range(1, 7)] == [5.0, 10.0, 20.0, 30.0, 30.0, None]


def test_what_waits_long_stands_below_what_was_tried_again_most_often():
    lowest_index = PRIORITIES["index"] - RetryPolicy().failures
    lowest_gaps = PRIORITIES["gaps"] - RetryPolicy().failures
    assert lowest_index > PRIORITIES["gaps"]
    assert lowest_gaps > PRIORITIES["repair"]


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (Contention("crossed"), True),
        (StatementTimeout("late"), True),
        (RemoteError("no answer"), True),
        (NotFound("gone"), False),
        (InvalidInput("no"), False),
    ],
)
def test_only_what_may_pass_by_itself_is_tried_again(error, again):
    assert is_transient(error) is again


def test_an_index_request_comes_back_as_it_was_kept():
    request = IndexRequest(path="/ships", project="fleet", ref="main", rebuild=True)
    assert read_index_request(index_request_json(request), project="fleet") == request


@pytest.mark.parametrize(
    "request_",
    [
        ReindexRequest(project="fleet"),
        ReindexRequest(project="fleet", scopes=("docs",), ref="main", rebuild=True, source="/s"),
    ],
)
def test_a_request_to_index_again_comes_back_as_it_was_kept(request_):
    assert read_reindex_request(reindex_request_json(request_), project="fleet") == request_


def test_what_is_asked_for_twice_is_done_for_all_scopes_at_the_ref_that_was_named_last():
    docs, talks = {"scopes": ["docs"], "ref": "calm"}, {"scopes": ["session"], "rebuild": True}
    assert merged(docs, talks) == {"scopes": ["docs", "session"], "ref": "calm", "rebuild": True}
    assert merged(docs, {"ref": "main"}) == {"ref": "main"}
    assert merged({}, docs) == {"ref": "calm"}


def test_a_request_with_a_part_of_a_later_release_is_refused():
    with pytest.raises(InvalidInput, match=r"does not know \(depth\)"):
        read_index_request({**ASKED, "depth": 3}, project="fleet")
    with pytest.raises(InvalidInput, match="embedder"):
        require_known({"embedder": "x"}, frozenset())


@pytest.mark.parametrize("wrong", [{"path": "/ships"}, {**ASKED, "rebuild": "yes"}])
def test_a_request_that_lacks_a_part_is_refused(wrong):
    with pytest.raises(InvalidInput, match="not understood"):
        read_index_request(wrong, project="fleet")


def test_two_triggers_of_one_place_are_one_job_whatever_their_ref():
    assert key_of("index", ASKED) == key_of("index", {**ASKED, "ref": "v2"})
    assert key_of("index", ASKED) != key_of("index", {**ASKED, "path": "/docks"})
    assert key_of("repair", {}) == "repair"


def test_the_queue_holds_no_path():
    lock = queueing_lock_of(7, key_of("index", ASKED))
    assert lock.startswith("7 ")
    assert "ships" not in lock


def test_the_last_ref_wins_and_a_rebuild_stays_asked_for():
    waiting = {**ASKED, "rebuild": True}
    assert merged(waiting, {**ASKED, "ref": "v2"}) == {**ASKED, "ref": "v2", "rebuild": True}


def test_an_error_that_is_not_ours_leaves_out_what_it_quotes():
    with pytest.raises(KeyError) as caught:
        {}["a sentence of a document"]
    told = error_of(caught.value)
    assert "KeyError at test_job.py:" in told.message
    assert "sentence" not in told.message


def test_a_job_is_told_in_a_few_words():
    assert summary("index", {**ASKED, "rebuild": True}) == "index /ships at main rebuild"
    assert summary("index", index_request_json(IndexRequest(path=Path("/a")))) == "index /a"
    assert summary("repair", {}) == "repair"
