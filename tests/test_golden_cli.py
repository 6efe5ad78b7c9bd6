"""``lastro golden`` as a person and a script see it."""

import json
from pathlib import Path

import pytest
from commands import Run, indexed
from repositories import commit

from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_USAGE

DOCS = {
    "docs/moorings.md": "# Moorings\n\nA ship of 200 metres needs eight lines.\n\n"
    "## Check a winch\n\nTurn it by hand; see [the pilots' boat](pilots.md#boarding).\n",
    "docs/pilots.md": "# Pilots\n\nThey know the bar.\n\n## Boarding\n\nBy ladder.\n",
}
QUESTIONS = (
    '{"question": "谁检查绞车？", "language": "zh", "id": "z",'
    ' "answers": [{"path": "docs/moorings.md", "heading": "Check a winch"}]}\n'
    '{"question": "What do pilots earn?", "language": "en", "unanswerable": true, "id": "e"}\n'
    '{"question": "Where is Boarding?", "language": "en", "id": "d", "derived": true,'
    ' "answers": [{"path": "docs/pilots.md", "heading": "Landing"}]}\n'
)


@pytest.fixture
def run(
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs a command in an indexed repository, and returns its code, data and messages."""
    folder = tmp_path / "harbour"
    commit(folder, DOCS)
    (folder / "questions.jsonl").write_text(QUESTIONS, encoding="utf-8")
    return indexed(folder, owner_url=owner_url, monkeypatch=monkeypatch, capsys=capsys)


def test_an_import_says_what_is_whose_and_what_the_index_lacks(run: Run):
    code, out, err = run("golden", "import", "questions.jsonl")
    assert code == EXIT_DONE
    assert "golden set questions version 1 imported" in out
    assert "3: 2 human, 1 derived; 1 unanswerable" in out
    assert err == "warning: d: nothing is indexed at docs/pilots.md#Landing\n"


def test_the_same_file_again_is_unchanged(run: Run):
    run("golden", "import", "questions.jsonl")
    code, out, _ = run("golden", "import", "questions.jsonl", "--format", "json")
    assert (code, json.loads(out)["imported"], json.loads(out)["version"]) == (0, False, 1)


def test_every_faulty_line_is_named_and_nothing_is_imported(run: Run):
    Path("wrong.jsonl").write_text(f'{QUESTIONS}{{"question": ""}}\n[]\n', encoding="utf-8")
    code, out, err = run("golden", "import", "wrong.jsonl")
    assert (code, out) == (EXIT_USAGE, "")
    assert "\n    line 4: question is blank\n" in err
    assert "\n    line 5: a JSON object is wanted\n" in err
    assert err.startswith("error: the golden set 'wrong' has 4 faults\n")
    assert "no golden set yet" in run("golden", "list")[1]


def test_the_faults_are_in_the_error_of_a_program(run: Run):
    Path("wrong.jsonl").write_text("[]\n{}\n", encoding="utf-8")
    code, out, err = run("golden", "import", "wrong.jsonl", "--format", "json")
    assert (code, out) == (EXIT_USAGE, "")
    message = json.loads(err)["error"]["message"]
    assert "line 1: " in message
    assert "line 2: " in message


def test_an_export_can_be_imported_and_is_the_same(run: Run):
    run("golden", "import", "questions.jsonl", "--name", "first")
    code, out, _ = run("golden", "export", "first")
    assert code == EXIT_DONE
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["d", "e", "z"]
    Path("again.jsonl").write_text(out, encoding="utf-8")
    report = json.loads(run("golden", "import", "again.jsonl", "--format", "json")[1])
    exported = json.loads(run("golden", "export", "first", "--format", "json")[1])
    assert report["contentHash"] == exported["contentHash"]
    assert exported["name"] == "first"


def test_a_list_shows_every_version_with_its_counts(run: Run):
    run("golden", "import", "questions.jsonl")
    Path("questions.jsonl").write_text(QUESTIONS.replace("谁", "何人"), encoding="utf-8")
    run("golden", "import", "questions.jsonl")
    listed = json.loads(run("golden", "list", "--format", "json")[1])["goldenSets"]
    assert [(entry["version"], entry["current"]) for entry in listed] == [(2, True), (1, False)]
    assert listed[0]["languages"] == ["en", "zh"]
    assert listed[0]["counts"] == {
        "questions": 3,
        "human": 2,
        "derived": 1,
        "unanswerable": 1,
    }
    first = listed[1]["contentHash"]
    assert "谁检查绞车" in run("golden", "export", f"questions@{first[:6]}")[1]
    table = run("golden", "list")[1].splitlines()
    assert len(table) == 3
    assert table[2].split()[:3] == ["questions", "1", first[:10]]


def test_a_removed_set_is_gone(run: Run):
    run("golden", "import", "questions.jsonl")
    assert run("golden", "rm", "questions")[:2] == (0, "removed questions, 1 version\n")
    code, _, err = run("golden", "rm", "questions")
    assert code == EXIT_NOT_FOUND
    assert "lastro golden import" in err


def test_drafts_are_lines_that_can_be_imported_and_all_derived(run: Run):
    code, out, err = run("golden", "suggest")
    assert code == EXIT_DONE
    assert "derived from the texts that answer them" in err
    drafts = [json.loads(line) for line in out.splitlines()]
    assert {draft["question"] for draft in drafts} == {
        "How do I check a winch?",
        "What should I know about “Moorings”?",
        "What does “Pilots” say about “Boarding”?",
        "What should I know about “Pilots”?",
        "Where can I read about the pilots' boat?",
    }
    assert all(draft["derived"] for draft in drafts)
    Path("drafts.jsonl").write_text(out, encoding="utf-8")
    report = json.loads(run("golden", "import", "drafts.jsonl", "--format", "json")[1])
    assert report["counts"] == {
        "questions": 5,
        "human": 0,
        "derived": 5,
        "unanswerable": 0,
    }
    assert report["notIndexed"] == []


def test_drafts_are_never_written_over_a_file(run: Run):
    assert run("golden", "suggest", "--limit", "2", "--out", "drafts.jsonl")[0] == EXIT_DONE
    written = Path("drafts.jsonl").read_text(encoding="utf-8")
    assert len(written.splitlines()) == 2
    code, _, err = run("golden", "suggest", "--out", "drafts.jsonl")
    assert code == EXIT_USAGE
    assert "exists already" in err
    assert Path("drafts.jsonl").read_text(encoding="utf-8") == written


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("golden", "import", "nowhere.jsonl"), EXIT_NOT_FOUND),
        (("golden", "import", "."), EXIT_USAGE),
        (("golden", "export", "nothing"), EXIT_NOT_FOUND),
        (("golden", "list", "--project", "nowhere"), EXIT_NOT_FOUND),
        (("golden", "suggest", "--limit", "0"), EXIT_USAGE),
        (("golden", "suggest", "--out", "nowhere/drafts.jsonl"), EXIT_USAGE),
        (("golden", "import", "questions.jsonl", "--name", "a@b"), EXIT_USAGE),
    ],
)
def test_what_cannot_be_done_has_its_exit_code(run: Run, words: tuple[str, ...], code: int):
    ended, out, err = run(*words)
    assert (ended, out) == (code, "")
    assert "error: " in err
