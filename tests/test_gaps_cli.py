"""``lastro gaps``: what a person and a script see of the questions that nothing answered."""

import json
from pathlib import Path

import psycopg
import pytest
from commands import Run, indexed
from repositories import commit

from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_PARTIAL, EXIT_USAGE

UNASKED = "who repairs the bicycles"
# One of its words is there, and that is too little.
NEAR = "what a kiln and bicycles of neighbours may cost today"


@pytest.fixture
def lastro(
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    folder = tmp_path / "pottery"
    commit(folder, {"docs/kiln.md": "# Kiln\n\nThe kiln is fired on Fridays.\n"})
    return indexed(folder, owner_url=owner_url, monkeypatch=monkeypatch, capsys=capsys)


def asked(lastro: Run, query: str = UNASKED, *more: str) -> str:
    """The id of the gap that a question makes."""
    code, out, _ = lastro("search", query, *more, "--format", "json")
    assert code == EXIT_DONE
    return json.loads(out)["gapId"]


def listed(lastro: Run, *more: str) -> list[dict]:
    return json.loads(lastro("gaps", *more, "--format", "json")[1])["gaps"]


def test_a_search_says_in_which_gap_it_was_counted(lastro: Run) -> None:
    id_ = asked(lastro)
    _, out, err = lastro("search", UNASKED)
    assert f" · recorded as gap {id_[:8]} · " in out
    assert err == ""
    assert "gapId" not in json.loads(lastro("search", "kiln Fridays", "--format", "json")[1])


def test_gaps_are_printed_in_the_shape_of_the_contract(lastro: Run) -> None:
    id_ = asked(lastro, NEAR, "--scope", "docs")
    [gap] = listed(lastro)
    nearest = gap.pop("nearest")
    assert gap.pop("firstSeen") <= gap.pop("lastSeen")
    assert gap == {
        "id": id_,
        "query": NEAR,
        "filter": {"scopes": ["docs"]},
        "hitCount": 1,
        "status": "open",
    }
    assert nearest.keys() == {"score", "origin"}
    assert nearest["origin"]["sourcePath"] == "docs/kiln.md"


def test_gaps_are_listed_for_people(lastro: Run) -> None:
    assert lastro("gaps")[1] == "no gap\n"
    id_ = asked(lastro, NEAR, "--scope", "docs")
    asked(lastro, NEAR, "--scope", "docs")
    lines = lastro("gaps")[1].splitlines()
    assert lines[0].startswith(f"{id_[:8]}  open, 2 times, last 20")
    assert lines[1] == f"    {NEAR}"
    assert lines[2] == '    in {"scopes": ["docs"]}'
    assert lines[3].startswith("    nearest docs/kiln.md:1-3, score 0.")
    assert len(lines) == 4


def test_a_question_takes_one_line_and_nothing_that_a_terminal_obeys(lastro: Run) -> None:
    asked(lastro, "bicycles\nand \x1b[31m " + "very " * 100 + "late")
    lines = lastro("gaps")[1].splitlines()
    assert lines[1].startswith("    bicycles\\nand \\x1b[31m very")
    assert lines[1].endswith(" …")


def test_gaps_are_listed_since_a_time(lastro: Run, owner: psycopg.Connection) -> None:
    asked(lastro)
    assert len(listed(lastro, "--since", "1h", "--open")) == 1
    owner.execute("UPDATE lastro.gaps SET first_seen = '2026-01-01Z', last_seen = '2026-01-02Z'")
    assert listed(lastro, "--since", "2026-01-03") == []
    assert len(listed(lastro, "--since", "2026-01-02")) == 1
    assert lastro("gaps", "--since", "yesterday")[0] == EXIT_USAGE


def test_gaps_are_dismissed_and_unknown_ids_told(lastro: Run) -> None:
    id_ = asked(lastro)
    code, out, err = lastro("gaps", "dismiss", id_[:6], "ffffff", "--format", "json")
    assert (code, json.loads(out)) == (EXIT_PARTIAL, {"dismissed": [id_], "unknown": ["ffffff"]})
    assert "there is no gap ffffff" in err
    assert listed(lastro, "--open") == []
    assert [gap["status"] for gap in listed(lastro)] == ["dismissed"]
    assert lastro("gaps", "dismiss", id_)[:2] == (EXIT_DONE, f"dismissed {id_[:8]}\n")
    assert lastro("gaps", "reopen", id_)[:2] == (EXIT_DONE, f"reopened {id_[:8]}\n")
    assert [gap["status"] for gap in listed(lastro)] == ["open"]
    assert lastro("gaps", "reopen", id_, "ffffff")[0] == EXIT_PARTIAL
    assert lastro("gaps", "accept", id_, "--unanswerable")[0] == EXIT_DONE
    code, out, err = lastro("gaps", "reopen", id_)
    assert (code, out, "stays accepted" in err) == (EXIT_PARTIAL, "", True)
    assert lastro("gaps", "dismiss", "ffffff")[0] == EXIT_NOT_FOUND
    assert lastro("gaps", "dismiss", "xyz")[0] == EXIT_USAGE


def test_what_is_answered_now_is_resolved(lastro: Run) -> None:
    id_ = asked(lastro)
    asked(lastro, "what does a violin cost")
    assert lastro("gaps", "resolve")[1] == "2 open\n"
    commit(Path.cwd(), {"docs/bicycles.md": "# Bicycles\n\nAnna repairs the bicycles.\n"})
    assert lastro("index", ".")[0] == EXIT_DONE
    assert lastro("gaps", "resolve")[1] == f"resolved {id_[:8]}\n1 open\n"
    _, out, _ = lastro("gaps", "resolve", id_, "--format", "json")
    assert json.loads(out) == {"resolved": [id_], "remaining": 1, "degraded": {}, "unknown": []}


def test_an_accepted_gap_is_asked_by_an_evaluation(lastro: Run) -> None:
    found, silent = asked(lastro), asked(lastro, "what does a violin cost")
    code, out, err = lastro("gaps", "accept", found, "--place", "docs/bicycles.md", "--grade", "2")
    assert (code, out) == (EXIT_DONE, f"accepted {found[:8]} into the golden set gaps version 1\n")
    assert "nothing is indexed at docs/bicycles.md" in err
    _, out, _ = lastro("gaps", "accept", silent, "--unanswerable", "--format", "json")
    report = json.loads(out)
    assert report["version"] == 2
    assert report["question"]["unanswerable"] is True
    _, out, _ = lastro("eval", "run", "gaps", "--format", "json")
    results = {result["question"]: result for result in json.loads(out)["results"]}
    assert results[UNASKED]["answers"] == [
        {"place": "docs/bicycles.md", "grade": 2, "rank": None, "indexed": False, "merged": False}
    ]
    assert results["what does a violin cost"]["hits"] == []
    assert {gap["hitCount"] for gap in listed(lastro)} == {1}


def test_a_gap_is_accepted_with_an_answer_or_without_one(lastro: Run) -> None:
    id_ = asked(lastro)
    assert lastro("gaps", "accept", id_)[0] == EXIT_USAGE
    both = ("--place", "docs/kiln.md", "--unanswerable")
    assert lastro("gaps", "accept", id_, *both)[0] == EXIT_USAGE


def test_gaps_travel_with_an_exported_project(lastro: Run, tmp_path: Path) -> None:
    asked(lastro, NEAR)
    asked(lastro, NEAR)
    before = listed(lastro)
    file = tmp_path / "pottery.jsonl"
    assert lastro("export", "pottery", str(file))[0] == EXIT_DONE
    assert lastro("import", str(file), "--project", "copy")[0] == EXIT_DONE
    after = listed(lastro, "--project", "copy")
    assert after == before
    assert after[0]["nearest"]["origin"]["sourcePath"] == "docs/kiln.md"
    asked(lastro, NEAR, "--project", "copy")
    assert [gap["hitCount"] for gap in listed(lastro, "--project", "copy")] == [3]
