"""A project's own words at work: in searches, in explanations, and by the command line."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from commands import Run, in_folder
from databases import address, scratch_database
from plans import explained

from lastro import store
from lastro.app import App, build
from lastro.config import load_settings
from lastro.entity import Entity
from lastro.errors import (
    EXIT_DONE,
    EXIT_NOT_FOUND,
    EXIT_PARTIAL,
    EXIT_USAGE,
)
from lastro.legs import read_query
from lastro.profiles import DEFAULT
from lastro.projects import project_id_of
from lastro.search import SearchRequest
from lastro.types import Outcome
from lastro.words import Vocabulary

ENTRIES = {
    "vintage": "This robe was sewn for the opening of the opera.",
    "loan": "A floor length dress goes out for three days.",
    "floor": "The floor of the shop is swept; its length is nine metres, and a dress hangs there.",
    "noiva": "O vestido de noiva é lavado à mão.",
    "toast": "中式礼服适合敬酒。",
    "desk": "Informatics answers the desk between nine and five.",
    "stock": "PostgreSQL keeps what is in stock.",
    "sql": "Every SQL course begins with a table; so does Postgre cooking.",
}
WORDS: list[dict[str, Any]] = [
    {"synonyms": ["gown", "robe"]},
    {"synonyms": ["robe", "mantle"]},
    {"term": "maxi", "means": ["floor length dress"]},
    {"synonyms": ["bridal dress", "vestido de noiva", "婚纱"]},
    {"synonyms": ["敬酒服", "中式礼服", "toast outfit"]},
    {"synonyms": ["IT", "informatics"]},
    {"protect": "IT"},
    {"protect": "PostgreSQL"},
]


def as_lines(words: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(line, ensure_ascii=False).encode() for line in words]


def stored(key: str) -> Entity:
    return Entity(key=key, title=f"Entry {len(key)}", text=ENTRIES[key], type="note")


# Holds a synonym that nothing else does.
SECRET = Entity(key="secret", title="Capes", text="A mantle.", type="note", status="draft")


@pytest.fixture(scope="module")
def shop(server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Two projects of the same entries; `taught` has words of its own. Tests change nothing."""
    with (
        pytest.MonkeyPatch.context() as patch,
        scratch_database(server_url, template=template) as name,
    ):
        patch.setenv("LASTRO_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("LASTRO_DATABASE_URL", address(server_url, dbname=name))
        patch.setenv("LASTRO_EMBEDDER", "deterministic")
        with build(load_settings()) as app:
            for project in ("plain", "taught"):
                app.entities(project).upsert([*map(stored, ENTRIES), SECRET])
            app.words("taught").import_lines(as_lines(WORDS))
            yield app


def ask(shop: App, query: str, project: str = "taught", **request: Any) -> Outcome:
    return shop.search(SearchRequest(query=query, explain=True, **request), project=project)


def keys(outcome: Outcome) -> list[str]:
    return [hit.origin.entity_key for hit in outcome.hits]


def by_words(outcome: Outcome) -> list[str]:
    """The hits that some word matches, best first."""
    return [hit.origin.entity_key for hit in outcome.hits if hit.lexical_score is not None]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("gown", ["vintage"]),
        ("maxi", ["loan"]),  # and not what has its words apart
        ("bridal dress", ["noiva"]),
        ("婚纱", ["noiva"]),
        ("敬酒服怎么洗", ["toast"]),
        ("toast outfit", ["toast"]),
        ("IT", ["desk"]),
        ("PostgreSQL", ["stock"]),  # and not what has a part of the name
    ],
)
def test_a_term_finds_what_is_called_otherwise(shop: App, query: str, found: list[str]) -> None:
    assert by_words(ask(shop, query))[:1] == found
    assert by_words(ask(shop, query, "plain")) != by_words(ask(shop, query))


def test_only_a_whole_phrase_counts_as_its_term(shop: App) -> None:
    assert by_words(ask(shop, "maxi")) == ["loan"]
    assert by_words(ask(shop, "a floor length dress", "plain")) == ["loan", "floor"]


def test_a_chain_of_synonyms_is_not_followed(shop: App) -> None:
    (term,) = ask(shop, "mantle").explain["lexical"]["terms"]
    assert term["synonyms"] == ["robe"]  # and not gown
    assert by_words(ask(shop, "mantle")) == ["vintage"]


def test_a_synonym_is_worth_as_much_as_the_word(shop: App) -> None:
    meant, written = ask(shop, "gown").hits[0], ask(shop, "robe").hits[0]
    assert meant.lexical_score == pytest.approx(written.lexical_score)


def test_explain_tells_the_synonyms_of_a_word_and_by_which_a_hit_matches(shop: App) -> None:
    outcome = ask(shop, "gown with PostgreSQL", profile="kb-rrf")
    terms = {term["text"]: term for term in outcome.explain["lexical"]["terms"]}
    assert terms["gown"]["synonyms"] == ["robe"]
    assert terms["PostgreSQL"]["protected"] is True
    hits = {hit.origin.entity_key: hit.explain for hit in outcome.hits}
    assert hits["vintage"]["synonyms"] == [{"word": "gown", "by": "robe"}]
    assert hits["stock"]["synonyms"] == []


def test_what_a_draft_alone_is_called_is_told_to_nobody(shop: App) -> None:
    outcome = ask(shop, "robe")
    (term,) = outcome.explain["lexical"]["terms"]
    assert (term["df"], term.get("synonyms")) == (1, None)
    assert [hit.explain.get("synonyms") for hit in outcome.hits] == [None]


def test_a_synonym_is_highlighted_whole(shop: App) -> None:
    (hit,) = [h for h in ask(shop, "maxi").hits if h.origin.entity_key == "loan"]
    assert [hit.content[start:end] for start, end in hit.highlights] == ["floor length dress"]


def test_a_stop_word_is_no_term_where_it_is_not_written_as_one(shop: App) -> None:
    assert ask(shop, "is it").explain["lexical"]["terms"] == []
    assert [t["text"] for t in ask(shop, "IT is it").explain["lexical"]["terms"]] == ["IT"]


def test_the_profile_that_reads_a_query_word_for_word_knows_no_synonym(shop: App) -> None:
    for query in ("gown", "PostgreSQL", "IT", "maxi dress"):
        taught, plain = (ask(shop, query, p, profile="adr-0080") for p in ("taught", "plain"))
        assert taught.explain["lexical"] == plain.explain["lexical"]
        assert [hit.score for hit in taught.hits] == [hit.score for hit in plain.hits]


def test_a_project_without_words_asks_no_further_statement(shop: App) -> None:
    assert statements(shop, "plain") + 1 == statements(shop, "taught")


def statements(shop: App, project: str) -> int:
    project_id = project_id_of(shop.database, project)
    with (
        shop.database.transaction(projects=[project_id]) as connection,
        explained(connection) as plans,
    ):
        corpus = store.corpus(connection, project_id)
        read_query(connection, "gown", corpus=corpus, project_id=project_id, profile=DEFAULT,
                   languages=["en"])  # fmt: skip
    return len(plans)


def test_words_of_one_project_are_none_of_another(shop: App) -> None:
    assert shop.words("plain").list() == []
    assert by_words(ask(shop, "gown", "plain")) == []


# --- the page about it

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "teach-it-your-words.md"


def test_the_lines_of_the_page_are_words() -> None:
    lines = re.findall(r"^    (\{.*\})$", PAGE.read_text(encoding="utf-8"), re.M)
    vocabulary = Vocabulary({})
    assert vocabulary.read(line.encode() for line in lines).refused == ()
    assert {"bridal dress", "maxi", "it"} <= vocabulary.words.keys()


def test_the_example_of_the_page_runs(lastro: Run, capsys: pytest.CaptureFixture[str]) -> None:
    lastro("kb", "import", "entries.jsonl", "--project", "tailor")
    example = re.search(
        r"^    from lastro import.*?(?=^\S)", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    assert example is not None
    exec(dedent(example[0]))
    assert "'synonyms': ['robe']" in capsys.readouterr().out


# --- imported, listed, removed


@pytest.fixture
def lastro(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    owner_url: str,
) -> Run:
    call = in_folder(
        tmp_path,
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
        project="shop",
    )
    entry = json.dumps({"key": "k", "title": "Robes", "text": "One robe.", "type": "note"})
    Path("entries.jsonl").write_text(entry, encoding="utf-8")
    assert call("kb", "import", "entries.jsonl")[0] == EXIT_DONE
    return call


def write(*lines: Any) -> str:
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    Path("words.jsonl").write_text(text, encoding="utf-8")
    return "words.jsonl"


def test_words_are_imported_listed_and_removed(lastro: Run) -> None:
    file = write({"synonyms": ["gown", "robe"]}, {"protect": "Lurex"})
    for added, unchanged in ((3, 0), (0, 3)):
        code, out, _ = lastro("words", "import", file, "--format", "json")
        assert code == EXIT_DONE
        assert json.loads(out) == {
            "project": "shop",
            "words": {"added": added, "changed": 0, "unchanged": unchanged, "refused": []},
            "total": 3,
        }
    assert json.loads(lastro("search", "gown", "--format", "json")[1])["hits"] != []
    assert json.loads(lastro("words", "list", "--format", "json")[1]) == {
        "words": [
            {"term": "gown", "means": ["robe"], "protected": False},
            {"term": "Lurex", "means": [], "protected": True},
            {"term": "robe", "means": ["gown"], "protected": False},
        ]
    }
    assert "gown" in lastro("words", "list")[1]
    code, out, err = lastro("words", "rm", "GOWN", "hem", "--format", "json")
    assert (code, json.loads(out)) == (EXIT_PARTIAL, {"removed": ["GOWN"], "unknown": ["hem"]})
    assert "there is no word 'hem'" in err
    assert json.loads(lastro("search", "gown", "--format", "json")[1])["hits"] == []
    assert lastro("words", "rm", "Lurex") == (EXIT_DONE, "removed Lurex\n", "")
    assert lastro("words", "rm", "Lurex")[0] == EXIT_NOT_FOUND
    assert "no words of its own" in lastro("words", "list")[1]


def test_bad_lines_are_reported_and_the_others_go_in(lastro: Run) -> None:
    file = write({"synonyms": ["gown"]}, {"synonyms": ["gown", "robe"]}, {"protect": "C++"})
    code, out, err = lastro("words", "import", file)
    assert (code, "2 added, 0 changed, 0 unchanged, 2 refused" in out) == (EXIT_PARTIAL, True)
    assert "warning: line 1: synonyms has to have at least 2" in err
    assert "warning: line 3: protect: 'C++' begins or ends with a mark" in err


def test_strict_stores_nothing_where_a_line_is_bad(lastro: Run) -> None:
    code, out, err = lastro("words", "import", write({"protect": "Lurex"}, {"x": 1}), "--strict")
    assert (code, out) == (EXIT_USAGE, "")
    assert "1 of 2 lines are no words; nothing is stored" in err
    assert json.loads(lastro("words", "list", "--format", "json")[1]) == {"words": []}


def test_words_need_a_project(lastro: Run) -> None:
    assert lastro("words", "import", write({"protect": "Lurex"}), "--project", "none")[0] == (
        EXIT_NOT_FOUND
    )


def test_what_is_imported_again_counts_as_changed_where_it_says_more(lastro: Run) -> None:
    lastro("words", "import", write({"term": "gown", "means": ["robe"]}))
    file = write({"term": "gown", "means": ["mantle"]}, {"protect": "Lurex"})
    counts = json.loads(lastro("words", "import", file, "--format", "json")[1])["words"]
    assert (counts["added"], counts["changed"]) == (1, 1)
    listed = json.loads(lastro("words", "list", "--format", "json")[1])["words"]
    assert listed[0]["means"] == ["robe", "mantle"]


def test_a_gap_that_lacked_a_word_is_answered_once_it_is_known(lastro: Run) -> None:
    assert "gapId" in json.loads(lastro("search", "gown", "--format", "json")[1])
    lastro("words", "import", write({"synonyms": ["gown", "robe"]}))
    said = json.loads(lastro("gaps", "resolve", "--format", "json")[1])
    assert (len(said["resolved"]), said["remaining"]) == (1, 0)


def test_words_come_along_with_their_project(lastro: Run) -> None:
    lastro("words", "import", write({"synonyms": ["gown", "robe"]}, {"protect": "Lurex"}))
    before = lastro("words", "list", "--format", "json")
    assert lastro("export", "shop", "shop.jsonl")[0] == EXIT_DONE
    assert lastro("projects", "rm", "shop", "--yes")[0] == EXIT_DONE
    assert lastro("words", "list")[0] == EXIT_NOT_FOUND
    assert lastro("import", "shop.jsonl")[0] == EXIT_DONE
    assert lastro("words", "list", "--format", "json") == before
