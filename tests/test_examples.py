"""The examples run, and show what they say."""

import ast
import importlib.util
import io
import re
import runpy
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from databases import address, scratch_database

from lastro.entity import read_entities
from lastro.entry_filter import parse_filter
from lastro.language import detect_language
from lastro.rules import read_rules
from lastro.words import Vocabulary, key_of

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "knowledge_base"


def lines_of(name: str) -> list[bytes]:
    return (EXAMPLE / name).read_bytes().splitlines()


# --- the four lines of the README


def four_lines() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^    from lastro import.*?(?=^\S)", text, re.M | re.S)
    assert found is not None
    return dedent(found[0])


def test_the_library_takes_four_lines() -> None:
    code = four_lines()
    imported, opened = ast.parse(code).body
    assert isinstance(imported, ast.ImportFrom)
    assert isinstance(opened, ast.With)
    # open, upsert, search, use the hit; each is one line
    assert 1 + len(opened.body) == 4
    assert len([line for line in code.splitlines() if line.strip()]) == 1 + 4


def test_the_four_lines_of_the_readme_run(
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    exec(four_lines())
    assert capsys.readouterr().out == "hem A blind hem hides its thread.\n"


# --- the files of the knowledge base


def test_the_knowledge_base_has_sixty_entries_and_no_bad_line() -> None:
    read = read_entities(lines_of("entries.jsonl"))
    assert (len(read.items), read.refused) == (60, ())
    assert Counter(entity.status for entity in read.items) == {
        "published": 51, "draft": 5, "archived": 4
    }  # fmt: skip


def test_the_knowledge_base_is_in_three_languages() -> None:
    read = read_entities(lines_of("entries.jsonl"))
    spoken = Counter(
        detect_language(entity.text, languages=("en", "pt", "zh")) for entity in read.items
    )
    assert min(spoken["en"], spoken["pt"], spoken["zh"]) >= 15


def test_the_rules_and_words_have_no_bad_line() -> None:
    assert read_rules(lines_of("rules.jsonl")).refused == ()
    assert Vocabulary({}).read(lines_of("words.jsonl")).refused == ()


# --- the show


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("show", EXAMPLE / "show.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shown(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What the script prints under each heading, with the default embedder."""
    printed = io.StringIO()
    home = tmp_path_factory.mktemp("home")
    with (
        scratch_database(server_url, template=template) as name,
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(printed),
    ):
        patch.chdir(home)
        patch.setenv("LASTRO_HOME", str(home))
        patch.setenv("LASTRO_DATABASE_URL", address(server_url, dbname=name))
        patch.delenv("LASTRO_EMBEDDER", raising=False)
        runpy.run_path(str(EXAMPLE / "show.py"), run_name="__main__")
    parts = printed.getvalue().strip().split("== ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}


def test_four_lines_find_the_entry_that_they_stored(shown: dict[str, str]) -> None:
    assert shown["In four lines"] == "hem A blind hem hides its thread."


def test_everything_goes_in(shown: dict[str, str]) -> None:
    assert shown["What goes in"] == "60 entries, 51 published chunks\n17 terms of the shop's own"


def test_questions_are_answered_across_languages(shown: dict[str, str]) -> None:
    first = dict(re.findall(r"^(.+) -> ([\w-]+)", shown["Across languages"], re.M))
    assert first == {
        "how do I cancel a booking?": "policy-cancel",  # in Chinese
        "o que fazer com uma nódoa de vinho tinto?": "care-wine",  # in Chinese
        "谁可以穿白色？": "advice-white",  # in Portuguese
        "quantos dias dura o aluguer?": "policy-period",  # in English
    }


def test_no_draft_and_nothing_archived_is_shown(shown: dict[str, str]) -> None:
    told = shown["Drafts and archived entries"].splitlines()
    assert len(told) == 5 + 4
    assert all(line.endswith(": not shown") for line in told)


def test_each_filter_shuts_out_what_it_should(shown: dict[str, str], script: Any) -> None:
    told = re.findall(r"^    shown    (.*)\n    shut out (.*)$", shown["Filters"], re.M)
    assert len(told) == len(script.FILTERS)
    entries = {entity.key: entity for entity in read_entities(lines_of("entries.jsonl")).items}
    forbidden = [key for key, entry in entries.items() if "staff" in str(entry.attributes)]
    by_query = {
        query: (kept.split(", "), shut_out.split(", "))
        for (query, _, _), (kept, shut_out) in zip(script.FILTERS, told, strict=True)
    }
    kept, shut_out = by_query["a tight mermaid dress with sequins"]
    assert set(shut_out) == {"dress-cascata", "dress-onda"}
    assert not {*kept} & {*shut_out}
    assert set(by_query["may the price go down?"][1]) == set(forbidden)
    assert by_query["what suits my figure?"][1] == ["advice-apple"]
    assert by_query["a green dress"][0] == ["dress-amalia", "dress-pomar"]
    assert {entries[key].type for key in by_query["a dress for a gala"][0]} == {"suit"}
    assert {
        "gala" in str(entries[key].attributes) and "wedding" in str(entries[key].attributes)
        for key in by_query["a long dress for a gala"][0]
    } == {True}
    cheap = by_query["a dress for a garden party"][0]
    assert max(float(str(entries[key].attributes["price"])) for key in cheap) <= 40


def test_every_kind_of_filter_is_shown(script: Any) -> None:
    asked = [asked for _, asked, _ in script.FILTERS]
    assert all(parse_filter(one) is not None for one in asked)
    assert {part for one in asked for part in one} == {
        "types", "require", "allow", "forbid", "equals", "range"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "key", "weight", "reason"),
    [
        ("made-for-weddings", "dress-quinta", 0.4, "made for weddings"),
        ("matching-sets-first", "dress-quinta", 0.3, "dresses a whole party"),
        ("within-fifty", "dress-duna", 0.3, "leaves something of the budget"),
        ("no-velvet-in-summer", "dress-rio", -0.5, "too warm for summer"),
        ("ask-the-rules-first", "policy-members", 0.2, "most asked about"),
    ],
)
def test_each_rule_moves_an_entry_and_says_why(
    shown: dict[str, str], name: str, key: str, weight: float, reason: str
) -> None:
    told = re.split(r"^(?=\S)", shown["Rules"], flags=re.M)
    (said,) = [part for part in told if part.startswith(f"{name}: ")]
    moved = re.search(rf"^    {key}: place (\d+) -> (\d+), (\S+) since {reason}$", said, re.M)
    assert moved is not None
    assert float(moved[3]) == weight
    assert (int(moved[2]) < int(moved[1])) == (weight > 0)


def test_every_rule_is_shown(script: Any) -> None:
    rules = read_rules(lines_of("rules.jsonl")).items
    assert sorted(rule.name for rule in rules) == sorted(name for name, _, _ in script.RULES)


def test_a_function_may_be_a_rule(shown: dict[str, str]) -> None:
    told = shown["Rules as functions"].splitlines()
    assert "dress-duna: +0.5 since there is one in your size" in told
    assert all(line.endswith("since there is one in your size") for line in told)


def test_each_word_finds_what_is_called_otherwise(shown: dict[str, str]) -> None:
    told = re.findall(r"^(.+?) = (.*) -> ([\w-]+)", shown["Words"], re.M)
    assert told == [
        ("bridal gown", "vestido de noiva", "dress-ilha"),
        ("婚纱", "vestido de noiva", "dress-ilha"),
        ("toast dress", "中式礼服, 敬酒服", "dress-lua"),
        ("tuxedo", "dinner jacket", "suit-chiado"),
        ("LBD", "renda preta, black velvet", "dress-fado"),
        ("deposit", "caução", "policy-deposit"),
        ("押金", "caução", "policy-deposit"),
        ("IT (protected)", "web site", "policy-online"),
        ("Rio (protected)", "itself", "dress-rio"),
    ]


def test_every_line_of_words_is_shown(script: Any) -> None:
    shown = {key_of(word) for word in script.WORDS}
    read = Vocabulary({}).read(lines_of("words.jsonl")).items
    assert [line.line for line in read if not shown & {key_of(w.term) for w in line.words}] == []


def test_a_gap_is_counted_answered_and_closed(shown: dict[str, str], script: Any) -> None:
    assert shown["Gaps"].splitlines() == [
        f"{script.MISSED} -> 0 hits, gap noted",
        f"{script.MISSED.upper()} -> 0 hits, gap noted",
        f"asked 2 times: {script.MISSED}",
        "answered by policy-children: 1 closed, 0 open",
        f"dismissed: {script.NONSENSE}",
    ]
