"""``lastro rules``: rules in and out by the command line, and what a search shows of them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from commands import Run, in_folder

from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_PARTIAL, EXIT_USAGE

RULES: list[dict[str, Any]] = [
    {
        "name": "principiantes",
        "when": {"equals": {"nível": "fácil"}},
        "entry": {"require": {"level": ["beginner"]}},
        "weight": 0.4,
        "reason": "para quem começa",
    },
    {"name": "techniques", "entry": {"types": ["technique"]}, "weight": 0.2, "reason": "how to"},
]
ENTRY = {
    "key": "hem", "title": "Hems", "text": "A blind hem hides its thread.", "type": "technique",
    "attributes": {"level": ["beginner"]}, "rule_weight": 0.25,
}  # fmt: skip
BAD = ["{", '{"name": "x", "weight": 2}', '{"name": "y", "weight": "2", "reason": "z"}']


@pytest.fixture
def lastro(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    owner_url: str,
) -> Run:
    """Commands in a project with one entry and a file of rules."""
    call = in_folder(
        tmp_path,
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
        project="tailor",
    )
    (tmp_path / "entries.jsonl").write_text(json.dumps(ENTRY), encoding="utf-8")
    (tmp_path / "rules.jsonl").write_text(lines(), encoding="utf-8")
    (tmp_path / "bad.jsonl").write_text(lines(*BAD), encoding="utf-8")
    assert call("kb", "import", "entries.jsonl")[0] == EXIT_DONE
    return call


def lines(*more: str) -> str:
    return "\n".join([*(json.dumps(rule, ensure_ascii=False) for rule in RULES), *more]) + "\n"


def test_an_import_reports_what_it_did(lastro: Run) -> None:
    for added, unchanged in ((2, 0), (0, 2)):
        code, out, _ = lastro("rules", "import", "rules.jsonl", "--format", "json")
        assert code == EXIT_DONE
        assert json.loads(out) == {
            "project": "tailor",
            "rules": {"added": added, "changed": 0, "unchanged": unchanged, "refused": []},
        }  # fmt: skip
    assert "0 added, 0 changed, 2 unchanged" in lastro("rules", "import", "rules.jsonl")[1]


def test_bad_lines_are_reported_and_the_others_go_in(lastro: Run) -> None:
    code, out, err = lastro("rules", "import", "bad.jsonl", "--format", "json")
    assert code == EXIT_PARTIAL
    report = json.loads(out)["rules"]
    assert (report["added"], [line["line"] for line in report["refused"]]) == (2, [3, 4, 5])
    assert report["refused"][1] == {"line": 4, "key": "x", "reason": "there is no reason"}
    assert "warning: line 5: rule 'y': weight is no number" in err
    assert "2 unchanged, 3 refused" in lastro("rules", "import", "bad.jsonl")[1]


def test_strict_stores_nothing_where_a_line_is_bad(lastro: Run) -> None:
    code, out, err = lastro("rules", "import", "bad.jsonl", "--strict")
    assert (code, out) == (EXIT_USAGE, "")
    assert "3 of 5 lines are no rules; nothing is stored" in err
    assert json.loads(lastro("rules", "list", "--format", "json")[1]) == {"rules": []}
    assert lastro("rules", "import", "rules.jsonl", "--strict")[0] == EXIT_DONE


def test_rules_are_read_from_stdin(lastro: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines().encode())))
    assert "2 added" in lastro("rules", "import", "-")[1]


def test_rules_are_listed_as_their_lines_say_them(lastro: Run) -> None:
    assert "no rule" in lastro("rules", "list")[1]
    lastro("rules", "import", "rules.jsonl")
    assert json.loads(lastro("rules", "list", "--format", "json")[1]) == {"rules": RULES}
    shown = lastro("rules", "list")[1].splitlines()
    assert shown[1].split()[:2] == ["principiantes", "0.4"]
    assert '{"equals": {"nível": "fácil"}}' in shown[1]


def test_rules_are_removed_and_unknown_names_told(lastro: Run) -> None:
    lastro("rules", "import", "rules.jsonl")
    code, out, err = lastro("rules", "rm", "techniques", "none", "--format", "json")
    assert (code, json.loads(out)) == (
        EXIT_PARTIAL,
        {"removed": ["techniques"], "unknown": ["none"]},
    )
    assert "there is no rule 'none'" in err
    assert lastro("rules", "rm", "principiantes") == (EXIT_DONE, "removed principiantes\n", "")
    assert lastro("rules", "rm", "principiantes")[0] == EXIT_NOT_FOUND


def test_rules_are_for_a_project_that_is_there(lastro: Run) -> None:
    words = ("rules", "import", "rules.jsonl", "--project", "taylor")
    assert lastro(*words)[0] == EXIT_NOT_FOUND


def test_a_search_shows_each_rule_with_its_reason(lastro: Run) -> None:
    lastro("rules", "import", "rules.jsonl")
    words = ("search", "blind hem", "--profile", "kb-rrf", "--explain")
    shown = lastro(*words)[1]
    assert "    rule techniques +0.200: how to\n    own rule weight +0.250\n" in shown
    assert "rule 0.450" in shown  # 0.2 + 0.25
    assert "principiantes" not in shown
    (hit,) = json.loads(lastro(*words, "--format", "json")[1])["hits"]
    assert hit["explain"]["rules"] == {
        "matched": [{"name": "techniques", "weight": 0.2, "reason": "how to"}],
        "own": 0.25,
        "sum": 0.45,
        "part": 0.45,
    }


def test_a_copy_of_a_project_follows_its_rules(lastro: Run) -> None:
    lastro("rules", "import", "rules.jsonl")
    assert lastro("export", "tailor", "tailor.jsonl")[0] == EXIT_DONE
    assert lastro("import", "tailor.jsonl", "--project", "copy")[0] == EXIT_DONE
    listed = lastro("rules", "list", "--project", "copy", "--format", "json")[1]
    assert json.loads(listed) == {"rules": RULES}
    words = ("search", "blind hem", "--profile", "kb-rrf", "--format", "json", "--project")
    first, second = (json.loads(lastro(*words, name)[1])["hits"] for name in ("tailor", "copy"))
    assert [hit["score"] for hit in first] == [hit["score"] for hit in second]


def test_an_erased_project_leaves_no_rule(lastro: Run, owner: Any) -> None:
    lastro("rules", "import", "rules.jsonl")
    assert lastro("projects", "rm", "tailor", "--yes")[0] == EXIT_DONE
    assert owner.execute("SELECT count(*) FROM lastro.rules").fetchone() == (0,)
