"""``lastro reindex``, as people and scripts see it."""

import json
from pathlib import Path

import pytest
from commands import Run, in_folder
from repositories import commit, git

from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_USAGE


@pytest.fixture(name="run")
def _run(
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Commands elsewhere than in the repository ``ships``, which is indexed."""
    commit(tmp_path / "ships", {"docs/anchor.md": "# Anchor\n\nThe anchor holds the ship.\n"})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = in_folder(
        elsewhere,
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
        project="ships",
    )
    assert run("index", str(tmp_path / "ships"))[0] == EXIT_DONE
    return run


def test_a_project_is_indexed_again_from_anywhere(run: Run, tmp_path: Path) -> None:
    head = commit(tmp_path / "ships", {"docs/bilge.md": "# Bilge\n\nThe bilge is dry.\n"})
    code, out, _ = run("reindex", "--format", "json")
    report = json.loads(out)
    assert (code, report["project"], report["revision"]) == (EXIT_DONE, "ships", head)
    assert (report["documents"]["added"], report["documents"]["unchanged"]) == (1, 1)
    assert "bilge.md" in run("search", "bilge")[1]


def test_a_scope_is_made_again_and_a_ref_moves_the_source(run: Run, tmp_path: Path) -> None:
    git(tmp_path / "ships", "branch", "calm")
    commit(tmp_path / "ships", {"docs/anchor.md": None, "docs/bilge.md": "# Bilge\n\nDry.\n"})
    assert json.loads(run("reindex", "--format", "json")[1])["documents"]["removed"] == 1
    moved = json.loads(run("reindex", "--ref", "calm", "--format", "json")[1])
    assert (moved["documents"]["added"], moved["documents"]["removed"]) == (1, 1)
    again = json.loads(run("reindex", "--rebuild", "--scope", "docs", "--format", "json")[1])
    assert (again["documents"]["changed"], again["documents"]["unchanged"]) == (1, 0)


def test_a_job_is_deferred_and_said_to_have_nobody_who_does_it(run: Run) -> None:
    code, out, err = run("reindex", "--background", "--format", "json")
    job = json.loads(out)
    assert (code, job["kind"], job["state"]) == (EXIT_DONE, "reindex", "queued")
    assert "no worker runs" in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--project", "nowhere"), EXIT_NOT_FOUND),
        (("--scope", "code"), EXIT_USAGE),
        (("--ref", "^main"), EXIT_USAGE),
        (("--ref", "main", "--scope", "session"), EXIT_USAGE),
    ],
)
def test_what_can_name_nothing_is_refused(run: Run, words: tuple[str, ...], code: int) -> None:
    ended, out, err = run("reindex", *words)
    assert (ended, out) == (code, "")
    assert err.startswith("error: ")
