"""Hard filters: the rows that a compiled predicate keeps are those that Python would keep."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from databases import address, scratch_database
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg.sql import SQL
from rows import add_chunk, add_project

from lastro.db.pool import Database
from lastro.errors import InvalidFilter
from lastro.filters import HardFilter, compile_filter, parse_scopes
from lastro.types import SCOPES

COMPOSED = unicodedata.normalize("NFC", "docs/decisão/é.md")
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
PATHS = (
    "README.md",
    "docs/a.md",
    "docs/A.md",
    "Docs/a.md",
    "docs/a.md.txt",
    "docs/ab/c.md",
    "docs2/a.md",
    "docs/100%.md",
    "docs/100_.md",
    "docs/100x.md",
    "docs/a_b.md",
    "docs/a-b.md",
    r"docs/back\slash.md",
    r"docs/back\\slash.md",
    "docs/it's.md",
    'docs/"quoted".md',
    "docs/$1 %(project_id)s {filter}.md",
    "docs/'; DROP TABLE lastro.chunks; --.md",
    "docs/ leading blank.md",
    "docs/line\nbreak.md",
    COMPOSED,
    DECOMPOSED,
    "docs/中文/页.md",
    "docs/\U0001f600.md",
    "docs/\U0010ffff.md",
)
DRAFTS = ("docs/ab/c.md", "docs2/a.md")
OURS, THEIRS = 1, 2


@dataclass(frozen=True)
class Row:
    project_id: int
    scope: str
    path: str | None
    status: str


@pytest.fixture(scope="module")
def shelf(server_url: str, template: str) -> Iterator[tuple[psycopg.Connection, dict[str, Row]]]:
    """Rows of every kind, by id, and a connection of the application that sees both projects."""
    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with psycopg.connect(url) as owner:
            rows = dict(fill(owner))
        with Database(url) as database, database.transaction(projects=[OURS, THEIRS]) as connection:
            yield connection, rows


def fill(owner: psycopg.Connection) -> Iterator[tuple[str, Row]]:
    for project_id in (OURS, THEIRS):
        assert add_project(owner, str(project_id)) == project_id
        for number, path in enumerate(PATHS):
            scope = "adr" if number % 3 == 0 else "docs"
            status = "draft" if path in DRAFTS else "published"
            id_ = add_chunk(owner, project_id, scope=scope, source_path=path, status=status)
            yield str(id_), Row(project_id, scope, path, status)
        for scope in ("session", "entity"):
            id_ = add_chunk(owner, project_id, scope=scope)
            yield str(id_), Row(project_id, scope, None, "published")


def kept(connection: psycopg.Connection, hard: HardFilter) -> set[str]:
    predicate = compile_filter(hard)
    query = SQL("SELECT id::text FROM lastro.searchable WHERE {}").format(predicate.condition)
    return {id_ for (id_,) in connection.execute(query, predicate.parameters)}


def should_keep(row: Row, hard: HardFilter) -> bool:
    """The contract in plain Python: one project, published, scopes, and a literal prefix."""
    prefix = hard.path_prefix
    if prefix is not None and prefix.startswith("./"):
        prefix = prefix[2:]
    return (
        row.project_id == hard.project_id
        and row.status == "published"
        and (hard.scopes is None or row.scope in hard.scopes)
        and (prefix is None or (row.path is not None and row.path.startswith(prefix)))
    )


beginnings = st.sampled_from(PATHS).flatmap(
    lambda path: st.integers(1, len(path)).map(lambda length: path[:length])
)
prefixes = st.none() | beginnings | st.builds("{}{}".format, beginnings, st.text(max_size=3))


@settings(max_examples=150)
@given(
    project_id=st.sampled_from([OURS, THEIRS, 3]),
    scopes=st.none() | st.sets(st.sampled_from(SCOPES), min_size=1).map(tuple),
    prefix=prefixes.filter(lambda text: text is None or "\0" not in text),
)
@example(project_id=OURS, scopes=None, prefix="./docs/a")
@example(project_id=OURS, scopes=None, prefix="././docs/a")
@example(project_id=OURS, scopes=None, prefix="docs/100%")
@example(project_id=OURS, scopes=None, prefix="docs/100_")
@example(project_id=OURS, scopes=None, prefix="docs/a_b")
@example(project_id=OURS, scopes=None, prefix="docs/back\\")
@example(project_id=OURS, scopes=None, prefix="docs/\U0010ffff")
@example(project_id=OURS, scopes=("docs",), prefix=COMPOSED)
@example(project_id=OURS, scopes=("adr",), prefix=DECOMPOSED)
@example(project_id=OURS, scopes=None, prefix="docs/a.md" + "x" * 10_000)
def test_the_database_keeps_the_rows_that_python_would_keep(
    shelf: tuple[psycopg.Connection, dict[str, Row]],
    project_id: int,
    scopes: tuple[str, ...] | None,
    prefix: str | None,
) -> None:
    connection, rows = shelf
    hard = HardFilter(project_id=project_id, scopes=scopes, path_prefix=prefix)
    assert kept(connection, hard) == {id_ for id_, row in rows.items() if should_keep(row, hard)}


def test_a_prefix_is_literal_in_case_and_in_its_form_of_accents(
    shelf: tuple[psycopg.Connection, dict[str, Row]],
) -> None:
    connection, rows = shelf
    for prefix in ("docs/A", COMPOSED, DECOMPOSED):
        found = kept(connection, HardFilter(project_id=OURS, path_prefix=prefix))
        expected = [path for path in PATHS if path.startswith(prefix)]
        assert len(expected) == 1
        assert [rows[id_].path for id_ in found] == expected


def test_without_restrictions_every_published_row_of_the_project_is_kept(
    shelf: tuple[psycopg.Connection, dict[str, Row]],
) -> None:
    connection, rows = shelf
    # 25 paths, of which 2 are drafts, a session and an entry
    assert len(kept(connection, HardFilter(project_id=OURS))) == 25 - 2 + 2
    assert len(rows) == 2 * (25 + 2)


@pytest.mark.parametrize("prefix", ["", "./", "\0", "docs/\0", "a\0b"])
def test_a_prefix_that_matches_no_path_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidFilter, match="matches no path") as caught:
        compile_filter(HardFilter(project_id=OURS, path_prefix=prefix))
    assert caught.value.remedy == "give a path such as docs/"


@pytest.mark.parametrize("names", [[], ()])
def test_an_empty_list_of_scopes_is_refused_rather_than_read_as_all_or_none(
    names: tuple[str, ...],
) -> None:
    with pytest.raises(InvalidFilter, match="matches nothing"):
        parse_scopes(names)
    with pytest.raises(InvalidFilter, match="matches nothing"):
        compile_filter(HardFilter(project_id=OURS, scopes=()))


@pytest.mark.parametrize(
    ("names", "named"),
    [(["doc"], "'doc'"), (["docs", "Adr"], "'Adr'"), (["b", "a"], "'a', 'b'"), ("adr", "'a'")],
)
def test_an_unknown_scope_is_named(names: list[str], named: str) -> None:
    with pytest.raises(InvalidFilter, match=f"unknown scope {named}") as caught:
        parse_scopes(names)
    assert caught.value.remedy == "use docs, adr, session, entity"


def test_scopes_come_in_the_contract_s_order_and_once() -> None:
    assert parse_scopes(["entity", "docs", "docs"]) == ("docs", "entity")
    assert parse_scopes(None) is None


@given(prefix=st.text(min_size=1).filter(lambda text: "\0" not in text and text != "./"))
def test_no_value_becomes_a_part_of_the_statement(prefix: str) -> None:
    plain = compile_filter(HardFilter(project_id=1, scopes=("docs",), path_prefix="docs/"))
    other = compile_filter(HardFilter(project_id=2, scopes=("adr",), path_prefix=prefix))
    assert other.condition.as_string() == plain.condition.as_string()
