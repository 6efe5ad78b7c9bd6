"""Hooks of Git that have a folder indexed: what they change, leave and hold."""

import os
import select
import shutil
import stat
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psycopg
import pytest
from commands import in_folder
from homes import wait_until
from repositories import commit, git

from lastro.errors import EXIT_DONE, ConfigError, Conflict, NotFound
from lastro.sources.hooks import (
    HOOKS,
    MAX_LOG_BYTES,
    install_hooks,
    log_of,
    remove_hooks,
    shorten_log,
    wish_of,
)

COMMAND = ["/opt/lastro", "hook", "run", "--", "/srv/docs"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose Git has no settings of a user."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    commit(tmp_path / "r", {"docs/a.md": "# A\n\nalpha\n"})
    for sample in (tmp_path / "r/.git/hooks").glob("*"):
        sample.unlink()
    return tmp_path / "r"


def script(folder: Path, name: str = "post-commit") -> Path:
    return folder / ".git/hooks" / name


def text(folder: Path, name: str = "post-commit") -> str:
    return script(folder, name).read_text()


def put(folder: Path, said: str, name: str = "post-commit") -> str:
    script(folder, name).write_text(said)
    script(folder, name).chmod(0o755)
    return said


# --- installing and removing


def test_the_scripts_are_made_executable_and_removed_without_a_trace(folder: Path) -> None:
    hooks = install_hooks(folder, command=COMMAND)
    assert hooks.hooks == HOOKS
    assert all(os.access(script(folder, name), os.X_OK) for name in HOOKS)
    assert remove_hooks(folder).hooks == HOOKS
    assert list((folder / ".git/hooks").iterdir()) == []


def test_installing_again_changes_nothing_and_with_another_command_only_that(folder: Path) -> None:
    install_hooks(folder, command=COMMAND)
    before = text(folder)
    install_hooks(folder, command=COMMAND)
    assert text(folder) == before
    install_hooks(folder, command=[*COMMAND[:3], "--ref", "main", *COMMAND[3:]])
    assert text(folder) == before.replace("hook run -- ", "hook run --ref main -- ")


def test_a_script_that_is_there_is_added_to_at_its_beginning_and_restored(folder: Path) -> None:
    before = put(folder, "#!/usr/bin/env bash\nset -e\nmake notes\nexit 0\n")
    install_hooks(folder, command=COMMAND)
    first, rest = text(folder).split("\n", 1)
    assert first == "#!/usr/bin/env bash"
    assert rest.startswith("# >>> lastro hook: ")
    assert rest.endswith("set -e\nmake notes\nexit 0\n")
    remove_hooks(folder)
    assert text(folder) == before
    assert stat.S_IMODE(script(folder).stat().st_mode) == 0o755


def test_what_others_added_after_us_stays(folder: Path) -> None:
    install_hooks(folder, command=COMMAND)
    put(folder, text(folder) + "echo theirs\n")
    remove_hooks(folder)
    assert text(folder) == "#!/bin/sh\necho theirs\n"


@pytest.mark.parametrize("said", ["#!/usr/bin/env python3\nprint('x')\n", "make notes\n"])
def test_a_script_of_another_language_is_refused_and_nothing_is_changed(
    folder: Path, said: str
) -> None:
    put(folder, said, "post-rewrite")
    with pytest.raises(Conflict, match="no shell script") as caught:
        install_hooks(folder, command=COMMAND)
    assert "lastro hook run" in (caught.value.remedy or "")
    assert text(folder, "post-rewrite") == said
    assert not script(folder).exists()


@pytest.mark.parametrize("action", ["install", "remove"])
def test_where_one_script_cannot_be_swapped_in_all_stay_as_they_were(
    folder: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    put(folder, "#!/bin/sh\nmake notes\n", "post-commit")
    if action == "remove":
        put(folder, "#!/bin/sh\nmake more\n", "post-checkout")
        install_hooks(folder, command=COMMAND)
    before = contents(folder)
    replace = Path.replace

    def fail_at_the_last(path: Path, target: Path) -> Path:
        if target.name == HOOKS[-1]:
            raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail_at_the_last)
    change = remove_hooks if action == "remove" else partial(install_hooks, command=COMMAND)
    with pytest.raises(ConfigError, match="No space left on device; none of them was changed"):
        change(folder)
    assert contents(folder) == before


def test_a_change_that_cannot_be_undone_is_told_by_the_script_s_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "#!/bin/sh\nmake notes\n", "post-commit")
    replace, swapped = Path.replace, []

    def fail_after_the_first(path: Path, target: Path) -> Path:
        swapped.append(target.name)
        if len(swapped) > 1:
            raise OSError(5, "Input/output error")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail_after_the_first)
    with pytest.raises(ConfigError, match="Input/output error; post-commit stayed changed"):
        install_hooks(folder, command=COMMAND)


def test_a_folder_of_hooks_that_cannot_be_written_is_told(folder: Path) -> None:
    (folder / ".git/hooks").rmdir()
    (folder / ".git/hooks").write_text("no folder")
    with pytest.raises(Conflict, match="cannot be"):
        install_hooks(folder, command=COMMAND)


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    """Text and rights of each script."""
    return {
        one.name: (one.read_text(), one.stat().st_mode) for one in (folder / ".git/hooks").iterdir()
    }


def test_a_program_or_a_link_in_the_place_of_a_script_is_refused(folder: Path) -> None:
    script(folder).write_bytes(b"\x7fELF\xff\xfe")
    with pytest.raises(Conflict, match="no shell script"):
        install_hooks(folder, command=COMMAND)
    script(folder).unlink()
    script(folder).symlink_to(folder / "docs/a.md")
    with pytest.raises(Conflict, match="is a link"):
        install_hooks(folder, command=COMMAND)
    assert (folder / "docs/a.md").read_text() == "# A\n\nalpha\n"


def test_the_folder_that_the_repository_names_for_its_hooks_is_used(folder: Path) -> None:
    git(folder, "config", "core.hooksPath", ".githooks")
    hooks = install_hooks(folder, command=COMMAND)
    assert hooks.folder == str(folder / ".githooks")
    assert (folder / ".githooks/post-commit").exists()


def test_a_folder_of_hooks_for_every_repository_of_a_user_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    settings = tmp_path / "gitconfig"
    settings.write_text(f"[core]\n\thooksPath = {shared}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    with pytest.raises(Conflict, match="other repositories too"):
        install_hooks(folder, command=COMMAND)
    assert not shared.exists()


def test_two_worktrees_share_the_scripts_and_each_takes_out_its_own(
    folder: Path, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    git(folder, "worktree", "add", "--quiet", "-b", "side", str(linked))
    install_hooks(folder, command=COMMAND)
    install_hooks(linked, command=COMMAND)
    assert text(folder).count("# >>> lastro hook: ") == 2
    assert log_of(linked) == log_of(folder) == folder / ".git/lastro/hook.log"
    remove_hooks(folder)
    assert f"# >>> lastro hook: {linked}\n" in text(folder)
    assert f"# >>> lastro hook: {folder}\n" not in text(folder)


def test_a_bare_repository_is_indexed_after_a_push(folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(folder, "clone", "--quiet", "--bare", str(folder), str(bare))
    assert install_hooks(bare, command=COMMAND).hooks == ("post-receive",)


def test_where_there_is_no_repository_or_no_hook_that_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        install_hooks(tmp_path, command=COMMAND)
    with pytest.raises(NotFound):
        install_hooks(tmp_path / "nowhere", command=COMMAND)
    with pytest.raises(NotFound, match="no hook in"):
        remove_hooks(folder)


@pytest.mark.parametrize("name", ['it\'s a "docs" folder', "dólar $HOME `id`", "--rebuild"])
def test_a_folder_of_any_name_is_named_to_the_command_as_it_is(
    folder: Path, tmp_path: Path, name: str
) -> None:
    there = tmp_path / name
    shutil.move(folder, there)
    said = tmp_path / "said"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{said}.new"; mv "{said}.new" "{said}"\n')
    program.chmod(0o755)
    install_hooks(there, command=[str(program), "hook", "run", "--", str(there)])
    commit(there, {"docs/b.md": "# B\n"})
    assert wait_until(said.exists)
    assert said.read_text() == f"hook\nrun\n--\n{there}\n"


def test_a_checkout_of_files_runs_nothing_and_one_of_a_branch_does(
    folder: Path, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nmkdir -p "{said}"\n')
    program.chmod(0o755)
    install_hooks(folder, command=[str(program), "hook", "run"])
    git(folder, "checkout", "--quiet", "--", "docs/a.md")
    time.sleep(0.2)
    assert not wish_of(folder).exists()
    git(folder, "checkout", "--quiet", "-b", "side")
    assert wait_until(said.exists)


def test_without_the_program_a_commit_goes_on_as_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_hooks(folder, command=["/nowhere/lastro", "hook", "run"])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    commit(folder, {"docs/b.md": "# B\n"})
    assert log_of(folder).read_text() == ""


def test_a_commit_waits_for_nothing_and_no_descriptor_is_held(folder: Path, tmp_path: Path) -> None:
    """The run sleeps for a minute: whoever reads what the commit wrote is at the end at once."""
    program = tmp_path / "program"
    pid = tmp_path / "pid"
    program.write_text(f'#!/bin/sh\necho $$ >"{pid}.new"\nmv "{pid}.new" "{pid}"\nexec sleep 60\n')
    program.chmod(0o755)
    install_hooks(folder, command=[str(program), "hook", "run"])
    (folder / "docs/b.md").write_text("# B\n")
    git(folder, "add", "--all")
    read_end, write_end = os.pipe()
    as_seven = f'exec 7>&{write_end} {write_end}>&-; exec "$@"'
    done = subprocess.run(
        ["bash", "-c", as_seven, "bash", "git", "-C", str(folder), "-c", "user.name=d",
         "-c", "user.email=d@example.org", "commit", "--quiet", "--message", "b"],
        pass_fds=[write_end], capture_output=True, timeout=20, check=True,
    )  # fmt: skip
    os.close(write_end)
    assert done.stderr == b""
    assert wait_until(pid.exists)
    readable, _, _ = select.select([read_end], [], [], 5)
    assert readable
    assert os.read(read_end, 1) == b""  # its end: nobody holds the other side
    os.close(read_end)
    os.kill(int(pid.read_text()), 9)


def test_many_commits_in_a_row_start_few_programs(folder: Path, tmp_path: Path) -> None:
    """Twenty commits take less than a second here: one program for each that is begun."""
    said = tmp_path / "said"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho x >>"{said}"\n')
    program.chmod(0o755)
    install_hooks(folder, command=[str(program), "hook", "run"])
    started = time.monotonic()
    for n in range(20):
        git(folder, "commit", "--quiet", "--allow-empty", "--message", f"{n}")
    took_s = time.monotonic() - started
    assert wait_until(said.exists)
    time.sleep(0.2)
    assert said.read_text().count("x") <= 2 + took_s


def test_a_log_that_has_grown_too_long_keeps_what_is_newest(tmp_path: Path) -> None:
    log = tmp_path / "hook.log"
    lines = [f"line {n}\n" for n in range(200_000)]
    log.write_text("".join(lines))
    assert log.stat().st_size > MAX_LOG_BYTES
    shorten_log(log)
    kept = log.read_text().splitlines(keepends=True)
    assert log.stat().st_size <= MAX_LOG_BYTES / 4
    assert kept == lines[-len(kept) :]


# --- with the index


def revisions(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT DISTINCT revision FROM lastro.documents").fetchall()
    return {str(row[0]) for row in rows}


@pytest.fixture
def installed(
    folder: Path,
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Path:
    """The repository with hooks that the command installed, and their settings in the air."""
    call = in_folder(
        folder,
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
    )
    program = tmp_path / "bin/lastro"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nfrom lastro.cli import main\nraise SystemExit(main())\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    code, out, _ = call("hook", "install")
    assert code == EXIT_DONE
    assert str(log_of(folder)) in out
    return folder


def test_commits_amendments_rebases_and_switches_end_in_the_index_of_the_head(
    installed: Path, owner_url: str
) -> None:
    folder = installed
    commit(folder, {"docs/b.md": "# B\n\nbeta\n"})
    git(folder, "checkout", "--quiet", "-b", "side", "HEAD~1")
    for n in range(3):
        commit(folder, {f"docs/c{n}.md": f"# C\n\ngamma {n}\n"})
    git(folder, "commit", "--quiet", "--amend", "--message", "again")
    git(folder, "rebase", "--quiet", "main")
    head = git(folder, "rev-parse", "HEAD")
    assert wait_until(lambda: revisions(owner_url) == {head}), log_of(folder).read_text()
    git(folder, "checkout", "--quiet", "main")
    head = git(folder, "rev-parse", "HEAD")
    assert wait_until(lambda: revisions(owner_url) == {head}), log_of(folder).read_text()
    assert "indexed r at " in log_of(folder).read_text()


def test_a_run_of_a_hook_that_fails_is_told_in_the_log(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LASTRO_EMBEDDER", "nonsense")
    commit(installed, {"docs/b.md": "# B\n"})
    log = log_of(installed)
    assert wait_until(lambda: "failed: " in log.read_text()), log.read_text()
