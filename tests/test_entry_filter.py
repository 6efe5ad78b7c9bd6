"""The filter language: what it means, what it refuses, and that no forbidden row ever leaks."""

import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pytest
from databases import address, scratch_database
from hypothesis import example, given, settings
from hypothesis import strategies as st
from leaking import BOUNDS, DATES, KEYS, VALUES, kind, lets_through
from psycopg.sql import SQL
from psycopg.types.json import Jsonb
from rows import add_chunk, add_project

from lastro.chunk_settings import ChunkSettings
from lastro.cli import main
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.entities import delete_entities, list_entities, upsert_entities
from lastro.entity import Entity
from lastro.entry_filter import MAX_CLAUSES, MAX_VALUES, EntryFilter, parse_filter, parse_moment
from lastro.errors import EXIT_DONE, EXIT_USAGE, InvalidFilter
from lastro.filters import INDEXED_VALUES, HardFilter, compile_filter
from lastro.profiles import SHIPPED
from lastro.search import Engine, SearchRequest, find, search
from lastro.types import EntityOrigin, Outcome
from lastro.writing import Writer

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "filters.md"
MISSING = object()
OURS, THEIRS = 1, 2


# --- the page of semantics


def table_cells() -> Iterator[tuple[str, Any, dict[str, Any], bool]]:
    """Attribute, its value, filter and answer of each cell of the page's truth tables."""
    lines = PAGE.read_text(encoding="utf-8").partition("## Truth tables")[2].splitlines()
    header: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if "|" in line else []
        if not cells or set(line) <= set("|-"):
            continue
        if cells[1].startswith("`{"):
            header = [cell.strip("`") for cell in cells]
            continue
        value = MISSING if cells[0] == "missing" else json.loads(cells[0].strip("`"))
        for said, answer in zip(header[1:], cells[1:], strict=True):
            assert answer in {"yes", "no"}
            yield header[0], value, json.loads(said), answer == "yes"


CELLS = list(table_cells())


@pytest.fixture(scope="module")
def shelf_url(server_url: str, template: str) -> Iterator[str]:
    """A database with two projects and no row."""
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with psycopg.connect(url) as owner:
            assert [add_project(owner, slug) for slug in ("ours", "theirs")] == [OURS, THEIRS]
        yield url


def kept(url: str, entries: EntryFilter | None) -> list[dict[str, Any]]:
    """Attributes of the rows of OURS that the filter keeps."""
    predicate = compile_filter(HardFilter(project_id=OURS, entries=entries))
    query = SQL("SELECT attributes FROM lastro.searchable WHERE {}").format(predicate.condition)
    with Database(url) as database, database.transaction(projects=[OURS]) as connection:
        return [row[0] for row in connection.execute(query, predicate.parameters)]


def test_the_truth_tables_are_read_whole() -> None:
    # 11 values by 4 filters, 5 by 4, 6 by 4, 11 by 3, 16 by 2
    assert len(CELLS) == 11 * 4 + 5 * 4 + 6 * 4 + 11 * 3 + 16 * 2


@pytest.fixture(scope="module")
def answers(server_url: str, template: str) -> dict[str, list[str]]:
    """For each filter of the page, the attributes that it keeps of all that the page names."""
    values = {json.dumps({} if v is MISSING else {key: v}) for key, v, _, _ in CELLS}
    said = {json.dumps(one) for _, _, one, _ in CELLS}
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with psycopg.connect(url) as owner:
            assert add_project(owner, "ours") == OURS
            for value in values:
                add_chunk(owner, OURS, scope="entity", attributes=Jsonb(json.loads(value)))
        found: dict[str, list[str]] = {}
        for one in said:
            found[one] = [json.dumps(a) for a in kept(url, parse_filter(json.loads(one)))]
        return found


@pytest.mark.parametrize(("key", "value", "said", "is_kept"), CELLS)
def test_the_page_says_what_the_database_keeps(
    answers: dict[str, list[str]], key: str, value: Any, said: dict[str, Any], is_kept: bool
) -> None:
    attributes = {} if value is MISSING else {key: value}
    # PostgreSQL keeps -1e9 as -1000000000
    found = [json.loads(one) for one in answers[json.dumps(said)]]
    assert (attributes in found and same_kind(attributes, found)) == is_kept


def same_kind(attributes: dict[str, Any], found: list[dict[str, Any]]) -> bool:
    """Python takes 1 for True, which JSON does not."""
    return any(
        attributes == one and list(map(kind, attributes.values())) == list(map(kind, one.values()))
        for one in found
    )


@pytest.mark.parametrize("key", ["types", "require", "allow", "forbid", "equals", "range"])
def test_files_have_no_attributes(server_url: str, template: str, key: str) -> None:
    said: dict[str, Any] = {
        "types": ["dress"],
        "range": {"a": {"gte": 0}},
        **{name: {"a": 1} for name in ("require", "allow", "forbid", "equals")},
    }
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with psycopg.connect(url) as owner:
            assert add_project(owner, "ours") == OURS
            add_chunk(owner, OURS)
        found = kept(url, parse_filter({key: said[key]}))
    assert len(found) == (key in {"allow", "forbid"})


# --- what it is made of


def test_no_key_and_no_value_becomes_a_part_of_the_statement() -> None:
    def statement(key: str, value: str, number: int, date: str) -> tuple[str, dict[str, object]]:
        said = {
            "types": [value],
            **{part: {key: [value]} for part in ("require", "allow", "forbid", "equals")},
            "range": {key: {"gte": number}, key + "2": {"lt": date}},
        }
        made = compile_filter(HardFilter(project_id=1, entries=parse_filter(said)))
        return made.condition.as_string(), made.parameters

    plain, _ = statement("a", "b", 1, "2026-01-01")
    nasty = "x'); DROP TABLE lastro.chunks; -- %(project_id)s {0} \\"
    other, parameters = statement(nasty, nasty, 2, "2027-01-01T00:00:00Z")
    assert other == plain
    assert nasty in parameters.values()


def test_a_filter_narrows_and_none_does_not() -> None:
    assert not compile_filter(HardFilter(project_id=1, entries=parse_filter({}))).narrows
    some = parse_filter({"forbid": {"a": 1}})
    assert compile_filter(HardFilter(project_id=1, entries=some)).narrows


@pytest.mark.parametrize("said", [None, {}, {"status": "published"}, {"status": ["published"]}])
def test_what_asks_for_nothing_is_no_filter(said: Any) -> None:
    assert parse_filter(said) is None


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ([], "the filter is no JSON object"),
        ("types", "the filter is no JSON object"),
        ({"type": ["a"]}, "unknown part 'type'"),
        ({"Types": ["a"], "b": 1}, "unknown part 'Types', 'b'"),
        ({"types": []}, "types: an empty list matches nothing"),
        ({"types": [1]}, "types: a type is a text"),
        ({"types": None}, "types: a type is a text"),
        ({"types": ["dress", None]}, "types: a type is a text"),
        ({"status": None}, "status: a search finds published entries only"),
        ({"status": ["draft"]}, "status: a search finds published entries only"),
        ({"status": ["published", "archived"]}, "status: a search finds published entries only"),
        ({"status": []}, "status: an empty list matches nothing"),
        ({"require": {}}, "require is empty"),
        ({"require": ["a"]}, "require is no JSON object"),
        ({"require": {"a": []}}, "require.a: an empty list matches nothing"),
        ({"allow": {"a": []}}, "allow.a: an empty list matches nothing"),
        ({"forbid": {"a": []}}, "forbid.a: an empty list matches nothing"),
        ({"forbid": {"a": None}}, "forbid.a: null is no text, number, true or false"),
        ({"forbid": {"a": [["b"]]}}, "forbid.a: ['b'] is no text"),
        ({"forbid": {"a": {"b": 1}}}, "forbid.a: {'b': 1} is no text"),
        ({"equals": {"a": float("nan")}}, "equals.a: nan is no text"),
        ({"equals": {"a": 10**5000}}, "equals.a: so large a number is no text"),
        ({"equals": {"a": "\0"}}, "equals.a has a character that no entry holds"),
        ({"equals": {"\ud800": "a"}}, "a name in equals has a character"),
        ({"equals": {"a": list(range(MAX_VALUES + 1))}}, "more than 1,000 values"),
        ({"equals": {str(n): 1 for n in range(MAX_CLAUSES + 1)}}, "more than 100 clauses"),
        ({"range": {"a": {}}}, "range.a has to have some of gte, gt, lte, lt"),
        ({"range": {"a": {"from": 1}}}, "range.a has to have some of"),
        ({"range": {"a": 1}}, "range.a is no JSON object"),
        ({"range": {"a": {"gte": "1"}}}, "range.a.gte is no number, date or time: '1'"),
        ({"range": {"a": {"gte": "2026-02-30"}}}, "range.a.gte is no number, date or time"),
        ({"range": {"a": {"gte": True}}}, "range.a.gte is no number"),
        ({"range": {"a": {"gte": None}}}, "range.a.gte is no number"),
        ({"range": {"a": {"gte": float("inf")}}}, "range.a.gte is no number"),
        ({"range": {"a": {"gte": 1, "lt": "2026-01-01"}}}, "goes from a number to a date"),
    ],
)
def test_what_cannot_be_meant_is_refused(said: Any, fault: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(said)
    assert fault in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("said", "remedy"),
    [({"types": None}, 'write {"types": ["dress"]}'), ({"status": None}, "leave it out")],
)
def test_a_null_is_told_what_is_written_there_instead(said: Any, remedy: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(said)
    assert str(caught.value.remedy).startswith(remedy)


@pytest.mark.parametrize(
    "text",
    [
        "0000-01-01", "2026-00-01", "2026-04-31", "1900-02-29", "2026-1-1", "2026-01-01\n",
        "2026-01-01T24:00", "2026-01-01T10", "2026-01-01T10:60", "2026-01-01T10:00:60",
        "2026-01-01T10:00+15:00", "2026-01-01Z", " 2026-01-01", "٢٠٢٦-٠١-٠١", "20260101", "now",
    ],
)  # fmt: skip
def test_what_is_no_date_is_none(text: str) -> None:
    assert parse_moment(text) is None


@given(text=st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", fullmatch=True))
@example(text="2000-02-29")
@example(text="2100-02-29")
def test_the_dates_are_those_of_the_calendar(text: str) -> None:
    try:
        there = date.fromisoformat(text) is not None and text.isascii()
    except ValueError:
        there = False
    assert (parse_moment(text) is not None) == there


LARGE = 10**23  # what 1e23 means in JSON, and not what Python's float of that is


@pytest.mark.parametrize("held", [1e23, LARGE, [1e23], [LARGE, "more"]])
def test_a_value_that_is_required_twice_in_other_words_may_stand_alone(
    shelf_url: str, held: Any
) -> None:
    assert keeps(shelf_url, held, {"require": {"a": [LARGE, 1e23]}})


@pytest.mark.parametrize("count", [1, INDEXED_VALUES, INDEXED_VALUES + 1, MAX_VALUES])
@pytest.mark.parametrize(
    ("held", "is_kept"), [("v0", True), (["v0"], False), ("w", False), (None, False)]
)
def test_many_values_mean_what_few_mean(
    shelf_url: str, held: Any, count: int, *, is_kept: bool
) -> None:
    said = {"equals": {"a": [f"v{n}" for n in reversed(range(count))]}}
    assert keeps(shelf_url, held, said) is is_kept


def keeps(url: str, held: Any, said: dict[str, Any]) -> bool:
    """Whether an entry with this one attribute passes."""
    predicate = compile_filter(HardFilter(project_id=OURS, entries=parse_filter(said)))
    query = SQL("SELECT FROM lastro.searchable WHERE {}").format(predicate.condition)
    with psycopg.connect(url) as owner:
        add_chunk(owner, OURS, scope="entity", attributes=Jsonb({"a": held}))
        owner.execute("SELECT set_config('lastro.projects', %s, true)", [f"{{{OURS}}}"])
        found = owner.execute(query, predicate.parameters).fetchall()
        owner.rollback()
    return bool(found)


# --- zero leak

attributes_of = st.dictionaries(
    st.sampled_from(KEYS),
    st.none() | st.sampled_from(VALUES) | st.lists(st.sampled_from(VALUES), max_size=3),
    max_size=3,
)
entries_of = st.tuples(
    st.sampled_from(["dress", "shoe"]),
    st.sampled_from(["published", "published", "draft", "archived"]),
    st.sampled_from([OURS, OURS, THEIRS]),
    attributes_of,
)
some_values = st.sampled_from(VALUES) | st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
clauses = st.dictionaries(st.sampled_from(KEYS), some_values, min_size=1, max_size=2)
operators = st.sampled_from(["gte", "gt", "lte", "lt"])
bounds = st.dictionaries(
    operators, st.sampled_from(BOUNDS), min_size=1, max_size=2
) | st.dictionaries(operators, st.sampled_from(DATES), min_size=1, max_size=2)
filters_of = st.fixed_dictionaries(
    {},
    optional={
        "types": st.lists(st.sampled_from(["dress", "shoe", "hat"]), min_size=1, max_size=2),
        "require": clauses,
        "allow": clauses,
        "forbid": clauses,
        "equals": clauses,
        "range": st.dictionaries(st.sampled_from(KEYS), bounds, min_size=1, max_size=2),
    },
)


@settings(max_examples=150)
@given(entries=st.lists(entries_of, min_size=1, max_size=12), said=filters_of)
def test_the_rows_that_are_kept_are_those_that_python_would_keep(
    shelf_url: str, entries: list[Any], said: dict[str, Any]
) -> None:
    predicate = compile_filter(HardFilter(project_id=OURS, entries=parse_filter(said)))
    query = SQL("SELECT id FROM lastro.searchable WHERE {}").format(predicate.condition)
    expected = set()
    with psycopg.connect(shelf_url) as owner:
        for type_, status, project_id, attributes in entries:
            id_ = add_chunk(
                owner,
                project_id,
                scope="entity",
                entity_type=type_,
                status=status,
                attributes=Jsonb(attributes),
            )
            is_open = status == "published" and project_id == OURS
            if is_open and lets_through(said, type_, attributes):
                expected.add(id_)
        owner.execute("SELECT set_config('lastro.projects', %s, true)", [f"{{{OURS},{THEIRS}}}"])
        found = {row[0] for row in owner.execute(query, predicate.parameters)}
        owner.rollback()
    assert found == expected


class Shop:
    """A knowledge base in which entries are asked for, of two projects."""

    def __init__(self, database: Database, owner_url: str) -> None:
        self.database = database
        self.owner_url = owner_url
        self.embedder = DeterministicEmbedder()
        self.engine = Engine(
            database=database,
            embedder=self.embedder,
            profiles=SHIPPED,
            languages=("en",),
        )

    def put(self, *entities: Entity, project: str = "shop") -> None:
        writer = Writer(
            database=self.database,
            admin_url=self.owner_url,
            embedder=self.embedder,
            pipeline=Pipeline(
                chunking=ChunkSettings(),
                languages=("en",),
                embedder=fingerprint(self.embedder),
            ),
        )
        upsert_entities(self.database, entities, project=project, writer=writer)

    def ask(self, query: str, *, profile: str = "default", **request: Any) -> Outcome:
        asked = SearchRequest(query=query, k=100, profile=profile, explain=True, **request)
        return search(self.engine, asked, project="shop")

    def keys(self, query: str, **request: Any) -> set[str]:
        origins = [hit.origin for hit in self.ask(query, **request).hits]
        assert all(isinstance(origin, EntityOrigin) for origin in origins)
        return {origin.entity_key for origin in origins if isinstance(origin, EntityOrigin)}

    def candidates(self, query: str, *, profile: str, **request: Any) -> set[str]:
        asked = SearchRequest(query=query, profile=profile, **request)
        found = find(self.engine, asked, project="shop")
        return {ranked.candidate.place for ranked in found.ranked}


@pytest.fixture
def shop(app_database: Database, owner_url: str) -> Shop:
    return Shop(app_database, owner_url)


TITLE, TEXT = "A light dress", "For a warm wedding in the garden."
# Just what is embedded of such an entry: at distance 0.
QUERY = f"{TITLE}\n{TEXT}"
FORBID = {"forbid": {"avoid": ["pear"]}}
ALLOWED = Entity(key="allowed", title=TITLE, text="Linen, for a wedding, cut wide.", type="dress")


@pytest.mark.parametrize("profile", sorted(SHIPPED))
def test_an_entry_whose_text_is_the_query_is_not_found_where_it_is_forbidden(
    shop: Shop, profile: str
) -> None:
    twin = {"title": TITLE, "text": TEXT, "type": "dress"}
    shop.put(
        ALLOWED,
        Entity(key="forbidden", attributes={"avoid": ["round", "pear"]}, **twin),
        Entity(key="draft", status="draft", **twin),
        Entity(key="archived", status="archived", **twin),
    )
    shop.put(Entity(key="foreign", **twin), project="another shop")
    (first, *_) = shop.ask(QUERY, profile=profile).hits
    assert isinstance(first.origin, EntityOrigin)
    assert (first.origin.entity_key, first.vector_score) == (
        "forbidden",
        pytest.approx(1, abs=1e-3),
    )
    assert shop.candidates(QUERY, profile=profile, filter=FORBID) == {"allowed"}
    outcome = shop.ask(QUERY, profile=profile, filter=FORBID)
    assert shop.keys(QUERY, profile=profile, filter=FORBID) <= {"allowed"}
    assert outcome.explain is not None
    assert outcome.explain["candidates"] == 1


@settings(max_examples=15)
@given(
    entries=st.lists(entries_of, min_size=1, max_size=8),
    said=filters_of,
    profile=st.sampled_from(sorted(SHIPPED)),
)
def test_no_search_shows_what_the_filter_shuts_out(
    new_shop: Shop, entries: list[Any], said: dict[str, Any], profile: str
) -> None:
    allowed: set[str] = set()
    ours: list[Entity] = []
    theirs: list[Entity] = []
    for number, (type_, status, project_id, attributes) in enumerate(entries):
        made = Entity(
            key=f"k{number}",
            title=TITLE,
            text=TEXT,
            type=type_,
            status=status,
            attributes=attributes,
        )
        (ours if project_id == OURS else theirs).append(made)
        is_open = status == "published" and project_id == OURS
        if is_open and lets_through(said, type_, attributes):
            allowed.add(made.key)
    with new_shop.database.transaction() as connection:
        slugs = connection.execute("SELECT slug FROM lastro.projects").fetchall()
    for slug in ("shop", "another shop"):
        if (slug,) in slugs:
            empty(new_shop, slug)
    new_shop.put(*ours)
    new_shop.put(*theirs, project="another shop")
    outcome = new_shop.ask(QUERY, profile=profile, filter=said)
    assert new_shop.candidates(QUERY, profile=profile, filter=said) == allowed
    assert new_shop.keys(QUERY, profile=profile, filter=said) <= allowed
    assert outcome.explain is not None
    assert outcome.explain["candidates"] == len(allowed)


@pytest.fixture(scope="module")
def new_shop(server_url: str, template: str) -> Iterator[Shop]:
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with Database(url, max_size=4) as database:
            yield Shop(database, url)


def empty(shop: Shop, slug: str) -> None:
    keys = [summary.key for summary in list_entities(shop.database, project=slug)]
    if keys:
        delete_entities(shop.database, keys, project=slug)


# --- by command


def test_a_search_takes_its_filter_as_json(
    shop: Shop,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    shop.put(ALLOWED, Entity(key="shoe", title=TITLE, text=TEXT, type="shoe"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    command = ["search", QUERY, "--project", "shop", "--format", "json", "--filter"]
    assert main([*command, '{"types": ["dress"]}']) == EXIT_DONE
    hits = json.loads(capsys.readouterr().out)["hits"]
    assert [hit["origin"]["entityKey"] for hit in hits] == ["allowed"]
    twice = '{"forbid": {"colour": "red"}, "forbid": {"size": 1}}'
    for wrong in ("{", "null", "[]", '{"types": []}', twice, "[" * 100_000):
        assert main([*command, wrong]) == EXIT_USAGE
        assert json.loads(capsys.readouterr().err)["error"]["code"] == "INVALID_FILTER"


def test_the_example_of_the_page_is_a_filter() -> None:
    (said,) = re.findall(r"--filter '(\{.*\})'", PAGE.read_text(encoding="utf-8"))
    assert parse_filter(json.loads(said)) is not None
