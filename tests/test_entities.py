"""Entries of a knowledge base: what may be stored, and that a search finds just what is."""

import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.sql import SQL, Identifier

from lastro import entities
from lastro.app import App
from lastro.config import load_settings
from lastro.db.pool import Database
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.entities import BATCH_CHUNKS, BATCH_ENTITIES
from lastro.entity import (
    MAX_ATTRIBUTES_CHARS,
    MAX_KEY_BYTES,
    MAX_TEXT_BYTES,
    Entity,
    entity_json,
    parse_entity,
    read_entities,
)
from lastro.errors import InvalidInput, NotFound, ProviderError
from lastro.graphemes import is_blank
from lastro.profiles import DEFAULT, KB_RRF
from lastro.rules import RuleContext, RuleEntry
from lastro.search import SearchRequest
from lastro.turns import turn
from lastro.types import EntityOrigin, IndexRequest

LONG_TEXT = "\n\n".join(
    f"## Fold {n}\n\n" + f"Fold the linen number {n} along its seam. " * 30 for n in range(4)
)


class Counting(DeterministicEmbedder):
    """Counts the texts that it is asked for, by role."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed(self, texts: Any, role: Any) -> Any:
        self.asked += [text for text in texts if role == "document"]
        return super().embed(texts, role)


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner_url: str) -> Callable[..., App]:
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    monkeypatch.setenv("LASTRO_PROJECT", "tailor")

    def make(*, url: str = owner_url, embedder: Any = None) -> App:
        return App(
            load_settings(),
            database=Database(url, max_size=4),
            admin_url=url,
            embedder=embedder or Counting(),
            profiles={DEFAULT.name: DEFAULT, KB_RRF.name: KB_RRF},
        )

    return make


@pytest.fixture
def app(open_app: Callable[..., App]):
    with open_app() as made:
        yield made


def entry(key: str = "linen", **changes: Any) -> Entity:
    values: dict[str, Any] = {
        "key": key,
        "title": f"About {key}",
        "text": f"The {key} is washed by hand and dried in the shade.",
        "type": "care",
    }
    return Entity(**(values | changes))


def found(app: App, query: str, **request: Any) -> list[str]:
    outcome = app.search(SearchRequest(query=query, k=100, max_per_document=100, **request))
    keys: list[str] = []
    for hit in outcome.hits:
        assert isinstance(hit.origin, EntityOrigin)
        keys.append(hit.origin.entity_key)
    return keys


def rows(owner: psycopg.Connection) -> list[tuple[Any, ...]]:
    return owner.execute(
        "SELECT entity_key, entity_type, status, attributes, rule_weight, effective_at, content,"
        " embedding_model, embedding_version, embedding IS NOT NULL"
        " FROM lastro.chunks ORDER BY entity_key, ordinal"
    ).fetchall()


# --- stored, and found


def test_an_entry_is_found_and_cited_by_its_key(app: App) -> None:
    app.entities().upsert([entry("linen"), entry("velvet", type="fabric", title="Velvet")])
    (hit,) = app.search(SearchRequest(query="velvet", scopes=["entity"])).hits
    assert hit.scope == "entity"
    assert hit.origin == EntityOrigin(entity_key="velvet", entity_type="fabric", title="Velvet")
    assert hit.content == "The velvet is washed by hand and dried in the shade."


def test_every_row_has_what_the_entry_says_and_who_embedded_it(
    app: App, owner: psycopg.Connection
) -> None:
    when = datetime(2026, 3, 1, 12, tzinfo=UTC)
    attributes = {"occasion": ["wedding"], "width": 140, "lined": True, "origin": None}
    app.entities().upsert(
        [entry(status="draft", attributes=attributes, rule_weight=0.5, effective_at=when)]
    )
    text = "The linen is washed by hand and dried in the shade."
    assert rows(owner) == [
        ("linen", "care", "draft", attributes, 0.5, when, text, "deterministic",
         DeterministicEmbedder().version, True)
    ]  # fmt: skip


def test_a_long_text_is_cut_as_markdown_and_each_part_is_found(app: App) -> None:
    report = app.entities().upsert([entry(text=LONG_TEXT)])
    request = SearchRequest(query="linen", k=50, max_per_document=50)
    contents = [hit.content for hit in app.search(request).hits]
    assert len(contents) == report.chunks == 4  # one a section
    assert all(LONG_TEXT.count(content) == 1 for content in contents)


def test_other_chunk_sizes_replace_every_row_of_an_entry_that_is_the_same(
    app: App, open_app: Callable[..., App], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app.entities().upsert([entry(text=LONG_TEXT)])
    config = tmp_path / "lastro.toml"
    config.write_text("[chunking]\ntarget_chars = 300\noverlap_chars = 50\nwindow_chars = 100\n")
    monkeypatch.chdir(tmp_path)
    with open_app() as smaller:
        report = smaller.entities().upsert([entry(text=LONG_TEXT)])
    assert report.entries.changed == 1
    assert report.chunks >= 4 * 3  # about 1,200 characters a section, at most 400 a chunk


@pytest.mark.parametrize("status", ["draft", "archived"])
def test_what_is_not_published_is_stored_and_never_found(app: App, status: Any) -> None:
    app.entities().upsert([entry("linen", status=status), entry("wool")])
    assert app.entities().get("linen").status == status
    text = "The linen is washed by hand and dried in the shade."
    assert "linen" not in found(app, text)
    assert app.entities().upsert([entry("linen")]).entries.changed == 1
    assert found(app, text)[0] == "linen"


def test_a_draft_changes_no_score_and_no_count(app: App) -> None:
    report = app.entities().upsert([entry("wool"), entry("silk")])
    request = SearchRequest(query="wool washed by hand", explain=True)
    before = app.search(request)
    after_report = app.entities().upsert(
        [entry(f"draft{n}", text="wool washed by hand", status="draft") for n in range(5)]
    )
    after = app.search(request)
    assert after_report.chunks == report.chunks
    assert (after.hits, after.explain) == (before.hits, before.explain)


def test_storing_the_same_again_changes_and_embeds_nothing(open_app: Callable[..., App]) -> None:
    with open_app() as app:
        first = app.entities().upsert([entry("linen"), entry("wool")])
    assert (first.entries.added, first.embedding.embedded) == (2, 2)
    with open_app() as app:
        again = app.entities().upsert([entry("linen"), entry("wool")])
        assert (again.entries.added, again.entries.changed, again.entries.unchanged) == (0, 0, 2)
        assert again.embedding.embedded == 0
        assert app.embedder.asked == []


def test_a_change_of_attributes_alone_embeds_nothing_anew(app: App) -> None:
    app.entities().upsert([entry()])
    app.embedder.asked.clear()
    report = app.entities().upsert([entry(attributes={"season": "winter"})])
    assert report.entries.changed == 1
    assert app.embedder.asked == []


def test_a_change_replaces_every_row_of_the_entry_and_of_no_other(
    app: App, owner: psycopg.Connection
) -> None:
    app.entities().upsert([entry("linen", text=LONG_TEXT), entry("wool")])
    app.entities().upsert([entry("linen", text="Short now.")])
    assert [(row[0], row[6]) for row in rows(owner)] == [
        ("linen", "Short now."),
        ("wool", "The wool is washed by hand and dried in the shade."),
    ]


def test_more_entries_than_a_batch_are_all_stored(app: App) -> None:
    total = BATCH_CHUNKS + BATCH_ENTITIES + 3
    seen: list[tuple[int, int]] = []
    report = app.entities().upsert(
        [entry(f"k{n:04}") for n in range(total)],
        progress=lambda done, all_: seen.append((done, all_)),
    )
    assert (report.entries.added, report.chunks) == (total, total)
    assert seen == [(BATCH_CHUNKS, total), (total, total)]
    assert [e.key for e in app.entities().export()] == [f"k{n:04}" for n in range(total)]


def test_entries_that_could_not_be_embedded_are_completed_by_the_next_call(
    open_app: Callable[..., App], owner: psycopg.Connection
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ProviderError("it is away", reason="embedder_unreachable")

    dead = Counting()
    dead.embed = fail  # type: ignore[method-assign]
    with open_app(embedder=dead) as app:
        report = app.entities().upsert([entry("linen"), entry("wool")])
        assert (report.embedding.available, report.embedding.skipped) == (False, 2)
        assert not any(summary.complete for summary in app.entities().list())
        assert found(app, "linen") == ["linen"]
    with open_app() as app:
        report = app.entities().upsert([entry("linen")])
        assert (report.entries.unchanged, report.embedding.embedded) == (1, 2)
        assert all(summary.complete for summary in app.entities().list())
    assert [row[-1] for row in rows(owner)] == [True, True]


# --- read back, and deleted


def test_an_entry_is_read_back_as_it_was_given(app: App) -> None:
    given = entry(
        text="---\nlike: front matter\n---\n\r\n# A *heading*\n\ttext ",
        attributes={"a": [1, 2.5, "x", False], "b": None, "c": ""},
        rule_weight=-0.25,
        effective_at=datetime(1999, 12, 31, tzinfo=UTC),
        status="archived",
    )
    app.entities().upsert([given])
    assert app.entities().get("linen") == given


def test_entries_are_listed_by_key_and_by_what_is_asked(app: App) -> None:
    app.entities().upsert([entry("b"), entry("a", type="size"), entry("c", status="draft")])
    assert [e.key for e in app.entities().list()] == ["a", "b", "c"]
    assert [e.key for e in app.entities().list(type_="care")] == ["b", "c"]
    assert [e.key for e in app.entities().list(type_="care", status="draft")] == ["c"]


def test_a_deleted_entry_is_gone_from_rows_and_statistics(
    app: App, owner: psycopg.Connection
) -> None:
    app.entities().upsert([entry("linen"), entry("wool")])
    assert app.entities().remove(["linen", "never there"]) == ["linen"]
    assert [row[0] for row in rows(owner)] == ["wool"]
    assert found(app, "linen") == []
    with pytest.raises(NotFound, match="no entry 'linen'"):
        app.entities().get("linen")
    with pytest.raises(NotFound, match="no entry 'linen'"):
        app.entities().remove(["linen"])
    words = owner.execute("SELECT count(*) FROM lastro.lexeme_stats WHERE lexeme = 'linen'")
    assert words.fetchone() == (0,)


def test_an_index_run_leaves_the_entries_of_its_project_alone(app: App, tmp_path: Path) -> None:
    app.entities().upsert([entry("linen")])
    (tmp_path / "folder" / "docs").mkdir(parents=True)
    (tmp_path / "folder" / "docs" / "a.md").write_text("# A\n\nThe quay is long.\n")
    for _ in range(2):
        app.index(IndexRequest(path=tmp_path / "folder", project="tailor", worktree=True))
    assert found(app, "linen", scopes=["entity"]) == ["linen"]
    scopes = {scope.scope: scope.indexed for scope in app.coverage().scopes}
    assert scopes == {"docs": 1, "entity": 1}


def test_the_status_counts_entries_of_every_status_and_no_files_of_theirs(app: App) -> None:
    app.entities().upsert([entry("linen"), entry("wool", status="draft")])
    (scope,) = app.coverage().scopes
    assert (scope.scope, scope.indexed, scope.with_vectors, scope.incomplete) == ("entity", 2, 2, 0)
    assert (scope.sources, scope.stale, scope.chunks) == (None, None, 1)


def test_a_project_that_is_erased_while_an_upsert_waits_is_not_found(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def erased_first(database: Database, project_id: int) -> Any:
        app.erase_project("tailor")
        return turn(database, project_id)

    monkeypatch.setattr(entities, "turn", erased_first)
    with pytest.raises(NotFound, match="tailor"):
        app.entities().upsert([entry()])


def test_an_exported_project_brings_its_entries(
    app: App, open_app: Callable[..., App], new_database: Callable[..., str], template: str
) -> None:
    app.entities().upsert([entry("linen", attributes={"a": [1]}), entry("wool", status="draft")])
    written = io.BytesIO()
    app.export_project("tailor", written.write)
    written.seek(0)
    with open_app(url=new_database(template=template)) as elsewhere:
        elsewhere.import_project(written)
        assert list(elsewhere.entities().export()) == list(app.entities().export())
        assert found(elsewhere, "linen") == ["linen"]
        assert elsewhere.entities().upsert([entry("wool", status="draft")]).entries.unchanged == 1


def test_an_erased_project_takes_its_entries_along(app: App, owner: psycopg.Connection) -> None:
    app.entities().upsert([entry("linen")])
    assert app.erase_project("tailor").documents == 1
    assert rows(owner) == []


def test_another_project_sees_and_loses_nothing(app: App) -> None:
    app.entities("other").upsert([entry("linen")])
    app.entities().upsert([entry("linen", text="The linen of the tailor.")])
    app.entities("other").remove(["linen"])
    assert app.entities().get("linen").text == "The linen of the tailor."
    assert app.entities("other").list() == []


def test_keys_of_which_none_is_there_are_told_by_their_number(app: App) -> None:
    app.entities().upsert([entry("linen")])
    with pytest.raises(NotFound, match="'tailor' has none of the 2 entries"):
        app.entities().remove(["silk", "wool"])


def test_a_key_that_comes_twice_is_refused_and_nothing_is_stored(app: App) -> None:
    with pytest.raises(InvalidInput, match="entry 'wool': key comes twice"):
        app.entities().upsert([entry("wool"), entry("linen"), entry("wool")])
    assert app.projects() == []


def test_entries_may_come_one_by_one(app: App) -> None:
    report = app.entities().upsert(entry(key) for key in ("wool", "linen"))
    assert report.entries.added == 2


def test_a_key_that_nothing_can_have_is_told_in_our_words(app: App) -> None:
    app.entities().upsert([entry("wool")])
    with pytest.raises(InvalidInput, match="holds the character NUL") as caught:
        app.entities().get("wo\0ol")
    assert caught.value.remedy == "leave it out"


# --- what an entry may be


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"key": " "}, "key is blank"),
        ({"key": 7}, "entry: key is no text"),
        ({"key": "é" * (MAX_KEY_BYTES // 2 + 1), "title": "E"}, "key is longer than 2,000 bytes"),
        ({"key": "a\0b"}, "key has a character that cannot be stored"),
        ({"title": ""}, "'linen': title is blank"),
        ({"title": "x" * 1_001}, "title is longer than 1,000 characters"),
        ({"text": "\n"}, "text is blank"),
        ({"text": "\u200b \u2060"}, "text is blank"),
        ({"text": "a\ud800"}, "text has a character that cannot be stored"),
        ({"text": "x" * (MAX_TEXT_BYTES + 1)}, "text is longer than"),
        ({"type": None}, "type is no text"),
        ({"status": "Published"}, "status is 'Published'; use draft, published, archived"),
        ({"attributes": []}, "attributes is no object"),
        ({"attributes": {"": 1}}, "attributes has a name that is blank"),
        ({"attributes": {"a": {"b": 1}}}, "attributes.a is no text, number, true, false, null"),
        ({"attributes": {"a": [[1]]}}, "attributes.a is no text, number, true, false, null"),
        ({"attributes": {"a": [None]}}, "attributes.a has null in its list"),
        ({"attributes": {"a": float("nan")}}, "attributes.a is no text, number"),
        ({"attributes": {"a": [float("inf")]}}, "attributes.a is no text, number"),
        ({"attributes": {"a": 10**400}}, "attributes.a is no text, number"),
        ({"attributes": {"a": "\0"}}, "attributes.a has a character that cannot be stored"),
        ({"attributes": {"a": "x" * MAX_ATTRIBUTES_CHARS}}, "attributes are longer than"),
        ({"rule_weight": "1"}, "rule_weight is no number"),
        ({"rule_weight": True}, "rule_weight is no number"),
        ({"rule_weight": float("nan")}, "rule_weight is no number"),
        ({"rule_weight": 1e7}, "rule_weight is no number from -1,000,000 to 1,000,000"),
        ({"effective_at": datetime(2026, 1, 1)}, "effective_at is no time with its zone"),  # noqa: DTZ001
        ({"effective_at": date(2026, 1, 1)}, "effective_at is no time with its zone"),
        (
            {"effective_at": datetime.fromisoformat("0001-01-01T00:00+14:00")},
            "effective_at is in UTC",
        ),
        (
            {"effective_at": datetime.fromisoformat("9999-12-31T23:59-14:00")},
            "effective_at is in UTC",
        ),
    ],
)
def test_what_is_no_entry_is_refused_with_its_key_and_field(
    changes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        entry(**changes)
    assert fault in caught.value.message
    if "key" not in changes:
        assert caught.value.message.startswith("entry 'linen': ")


@pytest.mark.parametrize("weight", [1e-50, -1e-50, 5e-324, 1_000_000, -1_000_000, 0])
def test_any_weight_that_is_allowed_can_be_stored(app: App, weight: float) -> None:
    app.entities().upsert([entry(rule_weight=weight)])
    assert app.entities().get("linen").rule_weight == weight


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_the_first_and_last_date_are_read_back_by_a_rule_in_any_zone_of_the_server(
    app: App, owner: psycopg.Connection, zone: str, open_app: Callable[..., App]
) -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    owner.execute(
        SQL("ALTER DATABASE {} SET timezone = {}").format(Identifier(owner.info.dbname), zone)
    )
    owner.commit()
    app.entities().upsert([entry("linen", effective_at=first), entry("wool", effective_at=last)])
    seen: set[datetime | None] = set()

    def look(_context: RuleContext, one: RuleEntry) -> None:
        seen.add(one.effective_at)

    with open_app() as anew:
        anew.search(SearchRequest(query="washed by hand", profile="kb-rrf", rules=[look]))
    assert seen == {first, last}


def test_large_numbers_count_as_long_as_they_are_stored(app: App) -> None:
    fits = MAX_ATTRIBUTES_CHARS // 400
    app.entities().upsert([entry(attributes={"far": [1e300] * fits})])
    assert app.entities().get("linen").attributes == {"far": [10**300] * fits}
    with pytest.raises(InvalidInput, match="are longer than"):
        entry(attributes={"far": [1e300] * 2 * fits})


def test_a_line_that_names_a_field_twice_is_refused() -> None:
    line = json.dumps(entity_json(entry())).replace("{", '{"status": "draft", ', 1)
    [refused] = read_entities([line.encode()]).refused
    assert refused.reason == "'status' stands twice in one object"


@pytest.mark.parametrize(
    ("said", "when"),
    [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T10:00:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01T10:00:00Z", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01T10:00:00-03:00", datetime(2026, 3, 1, 13, tzinfo=UTC)),
    ],
)
def test_a_time_without_zone_is_in_utc(said: str, when: datetime) -> None:
    line = entity_json(entry()) | {"effective_at": said}
    assert parse_entity(line).effective_at == when


scalars = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8) | (
    st.booleans() | st.integers(-(10**20), 10**20) | st.floats(-1e300, 1e300)
)
names = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8
).filter(lambda text: not is_blank(text))


@given(
    key=names,
    text=names,
    attributes=st.dictionaries(
        names, scalars | st.none() | st.lists(scalars, max_size=3), max_size=3
    ),
    weight=st.floats(-1e6, 1e6),
    when=st.none() | st.datetimes(timezones=st.just(UTC)),
)
def test_an_entry_is_the_same_after_its_line(
    key: str, text: str, attributes: Any, weight: float, when: datetime | None
) -> None:
    one = entry(key, text=text, attributes=attributes, rule_weight=weight, effective_at=when)
    line = json.dumps(entity_json(one)).encode()
    read = read_entities([line])
    assert read.refused == ()
    assert read.items == (one,)


def test_bad_lines_are_told_by_number_and_reason_and_the_others_are_read() -> None:
    lines = [
        json.dumps(entity_json(entry("linen"))).encode(),
        b"\n",
        b"{not json}\n",
        b"[]\n",
        b'{"key": "x", "title": "X", "text": "x", "typ": "care"}\n',
        b'{"key": "x", "title": "X", "text": "x"}\n',
        b'{"key": "\xff"}\n',
        json.dumps(entity_json(entry("linen"))).encode(),
        b"[" * 100_000,
        b'{"key": "w", "title": "W", "text": "w", "type": "t", "effective_at": "soon"}\n',
        b'{"key": "n", "title": "N", "text": "n", "type": "t", "rule_weight": 1e999}\n',
        b"\xef\xbb\xbf" + json.dumps(entity_json(entry("wool"))).encode() + b"\r\n",
    ]
    read = read_entities(lines)
    assert [e.key for e in read.items] == ["linen", "wool"]
    said = {(r.line, r.key): r.reason for r in read.refused}
    assert list(said) == [
        (3, None), (4, None), (5, "x"), (6, "x"), (7, None), (8, "linen"), (9, None), (10, "w"),
        (11, "n"),
    ]  # fmt: skip
    assert said[3, None] == (
        "it is not JSON: Expecting property name enclosed in double quotes, at character 2"
    )
    assert said[4, None] == "it is no JSON object"
    assert said[5, "x"] == "entry 'x': unknown field 'typ'"
    assert said[6, "x"] == "entry 'x': there is no type"
    assert said[7, None] == "it is not UTF-8"
    assert said[8, "linen"] == "the key 'linen' came before, in line 1"
    assert said[10, "w"] == "entry 'w': effective_at is no date or time: 'soon'"
    assert said[11, "n"].startswith("entry 'n': rule_weight is no number")
