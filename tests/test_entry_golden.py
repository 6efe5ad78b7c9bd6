"""Golden sets whose answers are entries of a knowledge base: imported, suggested and asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import in_folder

from lastro.errors import EXIT_DONE

ENTRIES = [
    {"key": "linen", "title": "Washing linen", "text": "Linen is washed by hand.", "type": "care"},
    {"key": "silk", "title": "Ironing silk", "text": "Silk is ironed cold.", "type": "care"},
    {"key": "velvet", "title": "Storing velvet", "text": "Velvet hangs in the dark, near linen.",
     "type": "storage", "attributes": {"avoid": ["moths"]}},
    {"key": "secret", "title": "Dyeing wool", "text": "Wool is dyed twice.", "type": "care",
     "status": "draft"},
]  # fmt: skip
QUESTIONS = [
    {"id": "hand", "question": "washed by hand", "language": "en",
     "answers": [{"entity": "linen"}]},
    # Both entries hold the word; the filter leaves the one that is judged.
    {"id": "dark", "question": "linen", "language": "en",
     "filter": {"scopes": ["entity"], "types": ["storage"]}, "answers": [{"entity": "velvet"}]},
    # Its filter shuts the answer out: it is there, and is not found.
    {"id": "shut out", "question": "velvet", "language": "en",
     "filter": {"forbid": {"avoid": "moths"}}, "answers": [{"entity": "velvet"}]},
    # A draft cannot be an answer.
    {"id": "draft", "question": "dyed wool", "language": "en", "answers": [{"entity": "secret"}]},
]  # fmt: skip
Run = Callable[..., Any]


@pytest.fixture
def lastro(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    owner_url: str,
) -> Run:
    run = in_folder(
        tmp_path,
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
        project="tailor",
    )
    for name, lines in (("kb", ENTRIES), ("tailoring", QUESTIONS)):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")

    def call(*words: str) -> str:
        code, out, _ = run(*words)
        assert code == EXIT_DONE
        return out

    call("kb", "import", "kb.jsonl")
    return call


def test_a_run_judges_entries_and_asks_each_question_in_its_filter(lastro: Run) -> None:
    lastro("golden", "import", "tailoring.jsonl")
    run = json.loads(lastro("eval", "run", "tailoring", "--format", "json"))
    answers = {q["id"]: q["answers"][0] for q in run["results"]}
    assert {name: (a["place"], a["indexed"], a["rank"]) for name, a in answers.items()} == {
        "hand": ("entry linen", True, 1),
        "dark": ("entry velvet", True, 1),
        "shut out": ("entry velvet", True, None),
        "draft": ("entry secret", False, None),
    }


def test_a_run_shows_no_hit_that_a_question_s_filter_shuts_out(lastro: Run) -> None:
    run = json.loads(lastro("eval", "run", "tailoring.jsonl", "--format", "json"))
    shown = {q["id"]: {hit["place"] for hit in q["hits"]} for q in run["results"]}
    assert shown["dark"] == {"entry velvet"}
    assert "entry velvet" not in shown["shut out"]
    assert not any("entry secret" in places for places in shown.values())


def test_drafts_are_suggested_from_published_titles_with_their_entry_as_the_answer(
    lastro: Run,
) -> None:
    lines = [json.loads(line) for line in lastro("golden", "suggest").splitlines()]
    asked = {line["question"]: line["answers"] for line in lines}
    assert {question: [a["entity"] for a in found] for question, found in asked.items()} == {
        "What should I know about “Washing linen”?": ["linen"],
        "What should I know about “Ironing silk”?": ["silk"],
        "What should I know about “Storing velvet”?": ["velvet"],
    }
