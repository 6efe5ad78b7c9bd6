"""``lastro why`` of an entry: what took it away, and to whom that may be said."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from leaking import OURS, Shelf, shelves
from rows import add_chunk, add_document

from lastro.cli import main
from lastro.entity import Entity
from lastro.errors import EXIT_DONE
from lastro.profiles import DEFAULT
from lastro.search import SearchRequest
from lastro.why import why
from lastro.why_findings import Why
from lastro.wire import to_json

# The vectors of these tests mean nothing: without a threshold every candidate may be shown.
OPEN = replace(DEFAULT, name="open", threshold=None, calibrated=False)
FORBID = {"forbid": {"avoid": ["pear"]}, "types": ["dress", "coat"]}
HIDDEN = ("draft", "archived", "forbidden", "shoe", "nowhere")


def entry(key: str, **changes: Any) -> Entity:
    text = f"A {key} piece of green linen."
    values: dict[str, Any] = {"key": key, "title": f"The {key}", "text": text, "type": "dress"}
    return Entity(**(values | changes))


ENTRIES = (
    entry("plain"),
    entry("wide", text="Green linen, and green linen again."),
    entry("draft", status="draft"),
    entry("archived", status="archived"),
    entry("forbidden", attributes={"avoid": ["pear"]}),
    entry("shoe", type="shoe", attributes={"avoid": "pear"}),
)


@pytest.fixture(scope="module")
def shelf(server_url: str, template: str) -> Iterator[Shelf]:
    with shelves(server_url, template) as both:
        both.whole.replace(ENTRIES, project=OURS)
        yield both.whole


def told(shelf: Shelf, expect: str, *, keeper: bool = True, **request: Any) -> Why:
    asked = SearchRequest(**({"query": "green linen", "profile": OPEN} | request))
    return why(shelf.engine, asked, expect=expect, project=OURS, keeper=keeper)


@pytest.mark.parametrize("expect", ["plain", "entry plain"])
def test_an_entry_that_was_found_is_a_hit(shelf: Shelf, expect: str) -> None:
    found = told(shelf, expect, filter=FORBID)
    assert (found.point, found.counts.hits) == ("hit", 1)
    assert found.said.startswith("entry plain is hit ")


@pytest.mark.parametrize(
    ("key", "by", "said"),
    [
        ("draft", ("status",), "it is draft, not published"),
        ("archived", ("status",), "it is archived, not published"),
        ("forbidden", ("filter.forbid.avoid",), "it does not pass the filter's forbid.avoid"),
        (
            "shoe",
            ("filter.types", "filter.forbid.avoid"),
            "it does not pass the filter's types and forbid.avoid",
        ),
    ],
)
def test_its_keeper_is_told_which_condition_took_an_entry_away(
    shelf: Shelf, key: str, by: tuple[str, ...], said: str
) -> None:
    found = told(shelf, key, filter=FORBID)
    assert (found.point, found.filtered_by) == ("filtered", by)
    assert found.said == f"entry {key} is filtered out: {said}"


def test_of_a_hidden_entry_no_word_and_no_score_is_told(shelf: Shelf) -> None:
    found = told(shelf, "draft")
    assert not any(word.held for word in found.words)
    assert found.vector is not None
    assert (found.vector.rank, found.vector.score) == (None, None)
    assert "piece" not in json.dumps(to_json(found))


@pytest.mark.parametrize("form", ["{}", "entry {}"])
def test_anyone_else_is_told_of_a_hidden_entry_what_is_told_of_none(
    shelf: Shelf, form: str
) -> None:
    said = {
        json.dumps(
            to_json(told(shelf, form.format(key), keeper=False, filter=FORBID)), sort_keys=True
        ).replace(key, "KEY")
        for key in HIDDEN
    }
    assert len(said) == 1
    assert json.loads(said.pop())["point"] == "not_indexed"


def test_an_entry_under_the_threshold_is_told_its_evidence(shelf: Shelf) -> None:
    found = told(shelf, "plain", query="green umbrella of felt", profile="default")
    assert found.point == "threshold"
    assert found.bar is not None


def test_the_hits_above_are_named_as_entries(shelf: Shelf) -> None:
    first = told(shelf, "plain", filter=FORBID).rank == 1
    expect, above = ("wide", "plain") if first else ("plain", "wide")
    found = told(shelf, expect, k=1, filter=FORBID)
    assert found.point == "below_k"
    assert [standing.place for standing in found.above] == [f"entry {above}"]


def test_a_file_of_that_name_is_meant_before_an_entry(
    shelf: Shelf, owner_of: psycopg.Connection
) -> None:
    document = add_document(owner_of, shelf.project_id, place="plain")
    add_chunk(owner_of, shelf.project_id, document_id=document, source_path="plain")
    assert told(shelf, "plain", scopes=["docs"]).passage is not None
    assert told(shelf, "plain", scopes=["docs"]).said.startswith("plain:1-2")
    assert told(shelf, "entry plain").said.startswith("entry plain")


@pytest.fixture
def owner_of(shelf: Shelf) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shelf.url, autocommit=True) as connection:
        yield connection
        connection.execute("DELETE FROM lastro.documents WHERE place = 'plain' AND kind = 'file'")


def test_the_command_asks_as_the_keeper_and_takes_a_filter(
    shelf: Shelf,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", shelf.url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    command = ["why", "green linen", "--project", OURS, "--format", "json", "--expect"]
    assert main([*command, "draft"]) == EXIT_DONE
    assert json.loads(capsys.readouterr().out)["filteredBy"] == ["status"]
    assert main([*command, "plain", "--filter", '{"types": ["coat"]}']) == EXIT_DONE
    assert json.loads(capsys.readouterr().out)["filteredBy"] == ["filter.types"]
