"""An index run that meets a full disk: said, nothing lost, and completed once there is room."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import open_folder
from mounts import can_mount, in_namespace
from repositories import commit, git
from rights import drop_rights, open_folder_of_rights

from lastro.db.disk import folder_of

RUN_OUT = """
import json, os, subprocess, sys
from contextlib import suppress
from pathlib import Path

disk, repository, lastro = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {
    "LASTRO_HOME": str(disk / "home"), "LASTRO_EMBEDDER": "deterministic"}

def run(*words):
    done = subprocess.run([lastro, *words, "--format", "json"], cwd=repository, env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return {"code": done.returncode, "said": json.loads(done.stdout or done.stderr)}

def spend(leave):
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with (disk / "ballast").open("wb") as ballast, suppress(OSError):
        ballast.write(bytes(max(0, free - leave)))

told = {"before": run("index", ".", "--ref", "few"), "full": []}
for leave in map(int, sys.argv[4:]):
    spend(leave)
    told["full"].append(run("index", ".", "--ref", "many"))
    (disk / "ballast").unlink()
told["kept"] = run("search", "halyard")
told["again"] = run("index", ".", "--ref", "many")
told["fresh"] = run("index", ".", "--ref", "many", "--project", "fresh")
lines = {}
for project in ("repository", "fresh"):
    rows = subprocess.run([lastro, "export", project], env=environment, capture_output=True,
                          text=True, check=True).stdout.splitlines()
    chunks = [json.loads(line)["chunk"] for line in rows if line.startswith('{"chunk"')]
    lines[project] = sorted(json.dumps([c["content"], c["embedding"]]) for c in chunks)
told["rows"] = len(lines["fresh"])
told["equal"] = lines["repository"] == lines["fresh"]
run("db", "stop")
print(json.dumps(told))
"""

MIB = 2**20
DOCUMENTS = 250
# no room at all, and room for a part of the run
LEAVES = (0, 2 * MIB)


@pytest.fixture
def folder() -> Iterator[Path]:
    path = open_folder()
    yield path
    shutil.rmtree(path)


def page(number: int) -> str:
    words = " ".join(f"rope{number}x{n} deck{n}" for n in range(60))
    return f"# Page {number}\n\n{words}\n"


@can_mount
def test_index_runs_on_a_full_disk_lose_nothing_and_the_next_completes_them(folder: Path) -> None:
    repository = folder / "repository"
    commit(repository, {"docs/halyard.md": "# Halyard\n\nThe halyard hoists the sail.\n"})
    git(repository, "branch", "few")
    commit(repository, {f"docs/{n}.md": page(n) for n in range(DOCUMENTS)})
    git(repository, "branch", "many")
    disk = folder / "disk"
    disk.mkdir()
    lastro = str(Path(sys.executable).with_name("lastro"))
    mount = f"mount -t tmpfs -o size=160m,mode=711 tmpfs {disk}"
    words = (str(disk), str(repository), lastro, *map(str, LEAVES))
    told = json.loads(in_namespace(mount, RUN_OUT, *words))
    for run in told["full"]:
        error = run["said"]["error"]
        assert (run["code"], error["code"]) == (5, "DATABASE_UNAVAILABLE")
        assert error["message"].startswith(f"the disk of {disk}/home/postgres")
        assert "df " in error["remedy"]
    [hit] = told["kept"]["said"]["hits"]
    assert hit["origin"]["sourcePath"] == "docs/halyard.md"
    assert "index_incomplete" in {part["reason"] for part in told["kept"]["said"]["degraded"]}
    assert told["again"]["code"] == 0
    documents = told["again"]["said"]["documents"]
    assert documents["added"] + documents["unchanged"] == DOCUMENTS + 1
    assert (told["rows"], told["equal"]) == (DOCUMENTS + 1, True)


def test_a_server_whose_folder_is_not_for_this_user_has_none_that_is_known() -> None:
    with open_folder_of_rights() as folder:
        (folder / "shut").mkdir(mode=0o000)
        drop_rights()
        assert folder_of(f"postgresql:///lastro?host={folder}/shut/socket") is None
