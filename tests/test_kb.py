"""``lastro kb``: entries in and out by the command line."""

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from commands import Run, in_folder

from lastro.db.binaries import find_binaries
from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_PARTIAL, EXIT_USAGE

ENTRIES: list[dict[str, Any]] = [
    {
        "key": "hem",
        "title": "Hems",
        "text": "A blind hem hides its thread.",
        "type": "technique",
        "status": "published",
        "attributes": {"level": ["beginner"]},
    },
    {
        "key": "pleat",
        "title": "Pregas",
        "text": "Uma prega macho abre para fora.",
        "type": "technique",
        "status": "published",
        "attributes": {},
        "rule_weight": 0.25,
        "effective_at": "2026-03-01T00:00:00+00:00",
    },
    {
        "key": "seam",
        "title": "缝份",
        "text": "缝份一般是一点五厘米。",
        "type": "measure",
        "status": "draft",
        "attributes": {},
    },
]
BAD = ["{", '{"key": "x", "title": "X", "text": "x", "type": "t", "status": "hidden"}']

# No dictionary shortens it, and nothing else in a database is called so.
MARKER = "quarzubix"


@pytest.fixture
def lastro(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    owner_url: str,
) -> Run:
    return in_folder(
        tmp_path,
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
        project="tailor",
    )


def lines(*more: str) -> str:
    return "\n".join([*(json.dumps(entry, ensure_ascii=False) for entry in ENTRIES), *more]) + "\n"


@pytest.fixture
def stored(lastro: Run, tmp_path: Path) -> Run:
    (tmp_path / "entries.jsonl").write_text(lines(), encoding="utf-8")
    assert lastro("kb", "import", "entries.jsonl")[0] == EXIT_DONE
    return lastro


def test_an_imported_entry_is_a_hit_of_its_scope(stored: Run) -> None:
    code, out, _ = stored("search", "blind hem", "--scope", "entity", "--format", "json")
    (hit,) = json.loads(out)["hits"]
    assert code == EXIT_DONE
    assert hit["origin"] == {
        "kind": "entity", "entityKey": "hem", "entityType": "technique", "title": "Hems"
    }  # fmt: skip
    assert "hem" in stored("search", "blind hem", "--scope", "entity")[1]


def test_an_import_reports_what_it_did(lastro: Run, tmp_path: Path) -> None:
    (tmp_path / "entries.jsonl").write_text(lines(), encoding="utf-8")
    for added, unchanged in ((3, 0), (0, 3)):
        _, out, _ = lastro("kb", "import", "entries.jsonl", "--format", "json")
        report = json.loads(out)
        assert report["project"] == "tailor"
        assert report["entries"] == {
            "added": added, "changed": 0, "unchanged": unchanged, "refused": []
        }  # fmt: skip
        assert report["chunks"] == 2
        assert report["embedding"]["embedded"] == added
    assert "0 added, 0 changed, 3 unchanged" in lastro("kb", "import", "entries.jsonl")[1]


def test_bad_lines_are_reported_and_the_others_go_in(lastro: Run, tmp_path: Path) -> None:
    (tmp_path / "entries.jsonl").write_text(lines(*BAD), encoding="utf-8")
    code, out, err = lastro("kb", "import", "entries.jsonl", "--format", "json")
    assert code == EXIT_PARTIAL
    entries = json.loads(out)["entries"]
    assert (entries["added"], [r["line"] for r in entries["refused"]]) == (3, [4, 5])
    assert entries["refused"][1] == {
        "line": 5,
        "key": "x",
        "reason": "entry 'x': status is 'hidden'; use draft, published, archived",
    }
    assert "warning: line 4: it is not JSON" in err


def test_strict_stores_nothing_where_a_line_is_bad(lastro: Run, tmp_path: Path) -> None:
    (tmp_path / "entries.jsonl").write_text(lines(*BAD), encoding="utf-8")
    code, out, err = lastro("kb", "import", "entries.jsonl", "--strict")
    assert (code, out) == (EXIT_USAGE, "")
    assert "2 of 5 lines are no entries; nothing is stored" in err
    assert "line 5: entry 'x': status is 'hidden'" in err
    assert lastro("kb", "list")[0] == EXIT_NOT_FOUND  # there is no such project


def test_strict_stores_everything_where_every_line_is_good(lastro: Run, tmp_path: Path) -> None:
    (tmp_path / "entries.jsonl").write_text(lines(), encoding="utf-8")
    assert lastro("kb", "import", "entries.jsonl", "--strict")[0] == EXIT_DONE
    assert len(json.loads(lastro("kb", "list", "--format", "json")[1])["entries"]) == 3


def test_a_closed_stdin_is_refused_in_words(lastro: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    code, _, err = lastro("kb", "import", "-")
    assert (code, "standard input is closed" in err) == (EXIT_USAGE, True)


def test_entries_are_read_from_stdin(lastro: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(lines().encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert "3 added" in lastro("kb", "import", "-")[1]


def test_what_is_exported_is_what_was_imported(stored: Run, tmp_path: Path) -> None:
    _, out, _ = stored("kb", "export")
    assert [json.loads(line) for line in out.splitlines()] == ENTRIES
    assert json.loads(stored("kb", "export", "--format", "json")[1]) == {"entries": ENTRIES}
    (tmp_path / "again.jsonl").write_text(out, encoding="utf-8")
    assert "0 added, 0 changed, 3 unchanged" in stored("kb", "import", "again.jsonl")[1]


def test_entries_are_listed_with_their_state(stored: Run) -> None:
    _, out, _ = stored("kb", "list", "--status", "draft", "--format", "json")
    (draft,) = json.loads(out)["entries"]
    assert draft.pop("updatedAt")
    assert draft == {
        "key": "seam", "title": "缝份", "type": "measure", "status": "draft", "chunks": 1,
        "complete": True,
    }  # fmt: skip
    shown = stored("kb", "list", "--type", "technique")[1]
    assert "pleat" in shown
    assert "seam" not in shown
    assert "no such entry" in stored("kb", "list", "--type", "none")[1]
    assert stored("kb", "list", "--status", "hidden")[0] == EXIT_USAGE


def test_an_entry_is_shown_whole(stored: Run) -> None:
    assert json.loads(stored("kb", "get", "pleat", "--format", "json")[1]) == ENTRIES[1]
    _, out, _ = stored("kb", "get", "hem")
    assert "attributes.level" in out
    assert out.endswith("A blind hem hides its thread.\n")
    assert stored("kb", "get", "button")[0] == EXIT_NOT_FOUND


def test_entries_are_removed_and_unknown_keys_told(stored: Run) -> None:
    code, out, err = stored("kb", "rm", "hem", "button", "--format", "json")
    assert (code, json.loads(out)) == (EXIT_PARTIAL, {"removed": ["hem"], "unknown": ["button"]})
    assert "there is no entry 'button'" in err
    assert stored("kb", "rm", "pleat") == (EXIT_DONE, "removed pleat\n", "")
    assert stored("kb", "rm", "pleat")[0] == EXIT_NOT_FOUND


def test_a_file_that_is_not_there_is_not_found(lastro: Run, tmp_path: Path) -> None:
    assert lastro("kb", "import", "none.jsonl")[0] == EXIT_NOT_FOUND
    code, _, err = lastro("kb", "import", str(tmp_path))
    assert (code, "cannot be read" in err) == (EXIT_USAGE, True)


# --- erased for good


def test_an_erased_entry_leaves_no_word_in_a_dump_nor_a_vector_in_the_cache(
    lastro: Run, owner: psycopg.Connection, owner_url: str, tmp_path: Path
) -> None:
    def put(text: str, *, status: str = "published") -> None:
        secret = {"key": "secret", "title": MARKER, "text": text, "type": "t", "status": status,
                  "attributes": {MARKER: [MARKER]}}  # fmt: skip
        plain = {"key": "plain", "title": "Tides", "text": "The moon pulls.", "type": "t"}
        said = "".join(f"{json.dumps(one)}\n" for one in (secret, plain))
        (tmp_path / "kb.jsonl").write_text(said, encoding="utf-8")
        assert lastro("kb", "import", "kb.jsonl")[0] == EXIT_DONE

    put(f"What {MARKER} was at first.")
    put(f"What {MARKER} was then.", status="draft")
    put(f"What {MARKER} is.")
    lastro("search", f"what of {MARKER}")
    asked = {"question": MARKER, "language": "en", "answers": [{"entity": "secret"}]}
    (tmp_path / "set.jsonl").write_text(json.dumps(asked) + "\n", encoding="utf-8")
    lastro("golden", "import", "set.jsonl")
    lastro("eval", "run", "set")
    assert MARKER in dumped(owner_url)
    assert lastro("kb", "rm", "secret", "--erase", "--yes")[0] == EXIT_DONE
    assert MARKER not in dumped(owner_url)
    assert owner.execute("SELECT count(*) FROM lastro.embedding_cache").fetchone() == (1,)


def test_erasing_an_entry_asks_first(stored: Run) -> None:
    code, _, err = stored("kb", "rm", "hem", "--erase")
    assert (code, "--yes" in err) == (EXIT_USAGE, True)
    assert stored("kb", "get", "hem")[0] == EXIT_DONE


def dumped(url: str) -> str:
    program = find_binaries(None) / "pg_dump"
    return subprocess.run(
        [program, "--dbname", url], check=True, capture_output=True, text=True
    ).stdout
