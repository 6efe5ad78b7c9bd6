"""The commands of jobs and of the worker, as people and scripts see them."""

import json
from pathlib import Path

import pytest
from commands import Run, in_folder
from repositories import commit

from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_PARTIAL, EXIT_USAGE

NO_WORKER = "no worker runs; start one with `lastro worker`"


@pytest.fixture
def run(
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Commands in a repository that is not indexed yet."""
    commit(tmp_path / "ships", {"docs/anchor.md": "# Anchor\n\nThe anchor holds the ship.\n"})
    return in_folder(
        tmp_path / "ships",
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
    )


def deferred(run: Run, *words: str) -> dict:
    code, out, _ = run(*words, "--format", "json")
    assert code == EXIT_DONE
    return json.loads(out)


def test_a_job_from_its_command_to_its_end(run: Run, tmp_path: Path):
    code, out, err = run("index", "--background", ".")
    assert (code, NO_WORKER in err) == (EXIT_DONE, True)
    assert out.splitlines()[0].endswith(f"queued  index {tmp_path / 'ships'}")
    id_ = out.split()[0]
    listed = json.loads(run("jobs", "--format", "json")[1])
    assert listed["jobs"][0]["id"] == int(id_)
    assert listed["workers"] == {"live": 0, "lastSeen": None}

    code, out, err = run("worker", "--until-empty", "--format", "json")
    assert (code, json.loads(out)) == (EXIT_DONE, {"done": 1, "partial": 0, "failed": 0})
    assert f"job {id_} begins: index of ships" in err
    code, _, err = run("jobs", "wait", id_)
    assert (code, NO_WORKER in err) == (EXIT_DONE, False)  # over: nobody is missed
    assert json.loads(run("jobs", "show", id_, "--format", "json")[1])["state"] == "done"
    assert "anchor.md" in run("search", "anchor")[1]


def test_the_other_kinds_are_deferred_by_the_commands_that_do_them(run: Run):
    run("index", ".")
    assert deferred(run, "index", "--repair", "--background")["kind"] == "repair"
    assert deferred(run, "gaps", "resolve", "--background")["kind"] == "gaps"
    assert deferred(run, "jobs", "refresh")["kind"] == "statistics"
    assert run("worker", "--until-empty")[1] == "3 done, 0 partial, 0 failed\n"
    assert run("jobs", "--state", "queued")[1] == "no job\n"


def test_a_job_that_failed_is_told_with_its_error_and_its_exit_code(run: Run, tmp_path: Path):
    id_ = str(deferred(run, "index", "--background", ".", "--ref", "v9")["id"])
    code, out, _ = run("worker", "--once")
    assert (code, out) == (EXIT_PARTIAL, "0 done, 0 partial, 1 failed\n")
    code, out, _ = run("jobs", "wait", id_)
    assert code == EXIT_NOT_FOUND
    assert "failed  index" in out
    assert "NOT_FOUND: " in out
    assert deferred(run, "jobs", "retry", id_)["id"] > int(id_)


def test_a_cancelled_job_is_shown_as_such(run: Run):
    id_ = str(deferred(run, "index", "--background", ".")["id"])
    assert deferred(run, "jobs", "cancel", id_)["state"] == "cancelled"
    code, _, err = run("jobs", "cancel", id_)
    assert (code, "is over (cancelled)" in err) == (EXIT_USAGE, True)


def test_what_is_not_over_in_time_is_said_by_the_exit_code(run: Run):
    id_ = str(deferred(run, "index", "--background", ".")["id"])
    code, out, err = run("jobs", "wait", id_, "--timeout-s", "0")
    assert (code, "queued" in out, NO_WORKER in err) == (1, True, True)


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "--state", "asleep"),
        ("jobs", "--limit", "0"),
        ("jobs", "--all", "--project", "ships"),
        ("worker", "--once", "--until-empty"),
        ("worker", "--concurrency", "0"),
        ("gaps", "resolve", "1c2f", "--background"),
        ("index", "--background", "--worktree", "--ref", "main"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Run, words: tuple[str, ...]):
    run("index", ".")
    code, out, err = run(*words)
    assert (code, out, err[:6]) == (EXIT_USAGE, "", "error:")


def test_a_job_that_is_not_there_is_not_found(run: Run):
    run("index", ".")
    assert run("jobs", "show", "12")[0] == EXIT_NOT_FOUND


def test_the_jobs_of_every_project_are_named(run: Run, tmp_path: Path):
    commit(tmp_path / "docks", {"docs/quay.md": "# Quay\n\nA quay.\n"})
    run("index", "--background", ".")
    run("index", "--background", str(tmp_path / "docks"))
    out = run("jobs", "--all")[1]
    assert [line.split()[0] for line in out.splitlines() if "index" in line] == ["docks", "ships"]
