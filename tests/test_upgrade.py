"""``lastro db upgrade``: the data of an older PostgreSQL, whole in the newer one or untouched."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from homes import open_folder, processes_of, programs, value, wait_until
from postgres import SPEEDY
from rows import add_chunk, add_project

from lastro.cli import main
from lastro.db import postmaster as pm
from lastro.db.binaries import find_binaries
from lastro.db.cluster import data_version, finish_swap
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.migrate import migrate
from lastro.db.upgrade import require_space
from lastro.errors import ConfigError, DatabaseUnavailable, NotFound

OLD = find_binaries(None).parents[1] / "pginstall" / "bin"  # PostgreSQL 16
CHUNKS = 3

# Upgrades, and dies of a kill when the step begins that its second argument names.
KILLED = """
import os, signal, sys
from pathlib import Path
from lastro.db.embedded import EmbeddedPostgres

def say(step: str) -> None:
    if step.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

EmbeddedPostgres(Path(sys.argv[1]), idle_s=None, settings={"fsync": "off"}).upgrade(say=say)
"""


def old_server(home: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(home, binaries=OLD, idle_s=None, settings=SPEEDY)


def server(home: Path, **options) -> EmbeddedPostgres:
    return EmbeddedPostgres(home, idle_s=None, **{"settings": SPEEDY, **options})


@pytest.fixture(scope="module")
def made_home() -> Iterator[Path]:
    """A home that PostgreSQL 16 made, with a schema, rows, a role and a database of a user."""
    folder = open_folder()
    url = old_server(folder / "home").start()
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        project = add_project(connection, "lighthouse")
        for number in range(CHUNKS):
            add_chunk(connection, project, content=f"lamp {number}")
        connection.execute("CREATE ROLE keeper LOGIN; GRANT lastro_app TO keeper")
        connection.execute("CREATE DATABASE diary OWNER keeper")
    old_server(folder / "home").stop()
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
def home(made_home: Path) -> Iterator[Path]:
    """A copy of ``made_home``; nothing may run in it when the test ends."""
    folder = open_folder()
    subprocess.run(["cp", "-a", str(made_home), str(folder / "home")], check=True)
    yield folder / "home"
    server(folder / "home").stop()
    left = [pid for pid in processes_of(folder / "home") if pm.alive(pid)]
    shutil.rmtree(folder)
    assert left == []


@pytest.fixture
def bare_home() -> Iterator[Path]:
    """A home whose data directory says no more than that PostgreSQL 16 made it."""
    folder = open_folder()
    data = folder / "home" / "postgres" / "data"
    data.mkdir(parents=True)
    (folder / "home").chmod(0o711)
    data.parent.chmod(0o700)
    (data / "PG_VERSION").write_text("16\n")
    yield folder / "home"
    shutil.rmtree(folder)


def folders(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "postgres").iterdir() if path.is_dir())


def test_an_upgrade_killed_while_copying_leaves_the_old_database_and_the_next_one_completes_it(
    home: Path,
) -> None:
    command = [sys.executable, "-c", KILLED, str(home), "counting"]
    killed = subprocess.run(command, check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert wait_until(lambda: not processes_of(home / "postgres"))  # both servers end with it
    assert data_version(home / "postgres" / "data") == "16"

    done = server(home).upgrade()

    assert (done.from_version, done.to_version) == (16, 18)
    assert folders(home) == ["data", "log"]
    url = server(home).start()
    assert str(value(url, "SHOW server_version")).startswith("18.")
    assert value(url, "SELECT count(*) FROM lastro.chunks WHERE content LIKE 'lamp %'") == CHUNKS
    assert migrate(url) == 0  # the schema is whole
    assert value(url, "SELECT pg_has_role('keeper', 'lastro_app', 'SET')") is True
    assert value(url, "SELECT datdba::regrole::text FROM pg_database WHERE datname = 'diary'") == (
        "keeper"
    )
    assert value(url, "SELECT datlocprovider::text FROM pg_database WHERE datname = 'lastro'") == (
        value(url, "SELECT datlocprovider::text FROM pg_database WHERE datname = 'template0'")
    )


def test_a_copy_that_lacks_rows_is_not_taken(home: Path) -> None:
    lossy = f'exec {find_binaries(None)}/pg_dump --exclude-table-data=lastro.chunks "$@"\n'
    broken = programs(home.parent / "bin", pg_dump=lossy)
    with pytest.raises(DatabaseUnavailable, match=r"rows differ in lastro\.chunks") as error:
        server(home, binaries=broken).upgrade()
    assert "the old database is as it was" in error.value.message
    assert folders(home) == ["data", "log"]
    assert value(old_server(home).start(), "SELECT count(*) FROM lastro.chunks") == CHUNKS


def test_a_database_in_use_is_not_upgraded(made_home: Path) -> None:
    with psycopg.connect(old_server(made_home).start()) as connection:
        with pytest.raises(DatabaseUnavailable, match=r"is in use \(clients: 1\)"):
            server(made_home).upgrade()
        assert connection.execute("SELECT 1").fetchone() == (1,)
    old_server(made_home).stop()


def test_a_start_on_older_data_names_the_command(bare_home: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="was made by PostgreSQL 16") as error:
        server(bare_home).start()
    assert "`lastro db upgrade`" in str(error.value.remedy)


def test_without_room_for_a_second_copy_nothing_is_begun(made_home: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"needs .* MiB in .*, and 100 MiB are free"):
        require_space(pm.Layout(made_home), free_bytes=100 * 2**20)


def test_programs_that_are_not_of_the_data_are_refused(bare_home: Path) -> None:
    with pytest.raises(ConfigError, match=r"PostgreSQL 16, whose .* of PostgreSQL 18") as error:
        server(bare_home).upgrade(old_programs=find_binaries(None))
    assert "--old-programs" in str(error.value.remedy)


def test_programs_without_a_dump_are_refused_naming_what_lacks(bare_home: Path) -> None:
    few = programs(bare_home.parent / "bin")
    (few / "pg_dump").unlink()
    with pytest.raises(ConfigError, match="needs pg_dump, which"):
        server(bare_home, binaries=few).upgrade()


def test_newer_data_is_not_taken_for_older(bare_home: Path) -> None:
    (bare_home / "postgres" / "data" / "PG_VERSION").write_text("19\n")
    with pytest.raises(DatabaseUnavailable, match="of PostgreSQL 19, newer than the programs"):
        server(bare_home).upgrade()


# --- the swap: each state that a kill can leave -------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        {"data": "old", "data.upgraded": "new"},
        {"data.old": "old", "data.upgraded": "new"},
        {"data.old": "old", "data": "new"},
        {"data.old": "half removed", "data": "old", "data.upgraded": "new"},
    ],
)
def test_a_swap_that_was_cut_short_is_finished_with_the_new_data(
    tmp_path: Path, state: dict[str, str]
) -> None:
    layout = pm.Layout(tmp_path)
    for name, content in state.items():
        (layout.server / name).mkdir(parents=True)
        (layout.server / name / "content").write_text(content)
    finish_swap(layout)
    assert folders(tmp_path) == ["data"]
    assert (layout.data / "content").read_text() == "new"


def test_without_an_upgrade_a_swap_changes_nothing(tmp_path: Path) -> None:
    layout = pm.Layout(tmp_path)
    layout.data.mkdir(parents=True)
    finish_swap(layout)
    assert folders(tmp_path) == ["data"]


# --- the command ---------------------------------------------------------------------------------


def test_the_command_says_that_nothing_was_to_be_done(
    bare_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LASTRO_HOME", str(bare_home))
    monkeypatch.setenv("LASTRO_POSTGRES_BIN", str(OLD))
    assert main(["db", "upgrade", "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["fromVersion"], printed["toVersion"], printed["tables"]) == (16, 16, 0)


def test_a_home_without_a_database_has_nothing_to_upgrade(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no embedded database"):
        server(tmp_path / "home").upgrade()
    assert list(tmp_path.iterdir()) == []


def test_a_server_of_ones_own_is_not_upgraded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LASTRO_DATABASE_URL", "postgresql://lighthouse.example/lastro")
    assert main(["db", "upgrade"]) == 3
    assert "whose administrator upgrades it" in capsys.readouterr().err
