"""The embedded PostgreSQL in trouble: kills, full disks, little memory, an old processor."""

import json
import logging
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from homes import open_folder, processes_of, programs, value, wait_until
from mounts import can_mount, in_namespace
from postgres import SPEEDY

from lastro.db import postmaster as pm
from lastro.db import reaching
from lastro.db.binaries import find_binaries
from lastro.db.embedded import EmbeddedPostgres
from lastro.errors import DatabaseUnavailable

MIB = 2**20
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone may do this")


def server(home: Path, *, idle_s: float | None = None, **options) -> EmbeddedPostgres:
    return EmbeddedPostgres(home, idle_s=idle_s, **{"settings": SPEEDY, **options})


@pytest.fixture(scope="module")
def made_home() -> Iterator[Path]:
    folder = open_folder()
    server(folder / "home").start()
    yield folder / "home"
    server(folder / "home").stop()
    shutil.rmtree(folder)


@pytest.fixture
def home(made_home: Path) -> Path:
    """A home whose server may or may not run."""
    return made_home


@pytest.fixture
def folder() -> Iterator[Path]:
    path = open_folder()
    yield path
    shutil.rmtree(path)


def pid_of(home: Path) -> int:
    pid = server(home).status().pid
    assert pid is not None
    return pid


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    return [int(word) for word in listed.stdout.split()]


# --- kills -----------------------------------------------------------


def test_a_server_killed_with_all_its_children_is_started_again(home: Path) -> None:
    with psycopg.connect(server(home).start(), autocommit=True) as connection:
        connection.execute("SET synchronous_commit = on")
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    postmaster = pid_of(home)
    for pid in (postmaster, *children_of(postmaster)):
        os.kill(pid, signal.SIGKILL)
    assert value(server(home).start(), "SELECT answer FROM kept") == 42


def test_a_child_that_is_killed_does_not_stop_the_next_command(home: Path) -> None:
    url = server(home).start()
    checkpointer = value(url, "SELECT pid FROM pg_stat_activity WHERE backend_type='checkpointer'")
    assert isinstance(checkpointer, int)
    os.kill(checkpointer, signal.SIGKILL)
    assert wait_until(lambda: not Path(f"/proc/{checkpointer}").exists())  # the server has seen it
    assert value(server(home).start(), "SELECT 1") == 1


def test_nothing_lives_on_after_the_server_is_killed(home: Path) -> None:
    server(home, idle_s=600.0).start()
    postmaster = pid_of(home)
    family = [postmaster, *children_of(postmaster)]
    assert wait_until(lambda: len(processes_of(home)) >= 2)  # the server and its watcher
    os.kill(postmaster, signal.SIGKILL)
    assert wait_until(lambda: not any(pm.alive(pid) for pid in (*family, *processes_of(home))))


def test_an_upgrade_killed_before_its_last_step_is_finished_by_the_next_start(home: Path) -> None:
    with psycopg.connect(server(home).start(), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS new AS SELECT 42 AS answer")
    server(home).stop()
    data = home / "postgres" / "data"
    data.rename(data.with_name("data.upgraded"))
    data.with_name("data.old").mkdir()  # the old one had been moved away
    assert value(server(home).start(), "SELECT answer FROM new") == 42
    assert not data.with_name("data.old").exists()


# --- waiting -----------------------------------------------------------


def test_a_start_that_takes_long_is_waited_for_and_said(
    home: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server(home).stop()
    monkeypatch.setattr(reaching, "SAY_AFTER_S", 0.1)
    slow = f'sleep 0.5; exec {find_binaries(None)}/postgres "$@"\n'
    with caplog.at_level(logging.WARNING):
        url = server(home, binaries=programs(folder / "bin", postgres=slow)).start()
    assert value(url, "SELECT 1") == 1
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        f"the database in {home}/postgres/data is not ready yet"
    ]


def test_a_start_that_takes_its_usual_time_says_nothing(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server(home).stop()
    server(home).start()
    assert caplog.records == []


# --- the processor -----------------------------------------------------------


def broken_vector(folder: Path) -> Path:
    """A copy of the extension's library whose way into a vector is an illegal instruction."""
    library = find_binaries(None).parent / "lib" / "postgresql" / "vector.so"
    code = bytearray(library.read_bytes())
    start = offset_of(code, b"array_to_vector")
    code[start : start + 2] = b"\x0f\x0b"  # ud2
    folder.mkdir(mode=0o755)
    (folder / "vector.so").write_bytes(code)
    return folder


def offset_of(elf: bytes, symbol: bytes) -> int:
    """Where the code of ``symbol`` lies in a 64-bit ELF file. Source: elf(5)."""
    headers, size, count = (
        struct.unpack_from("<Q", elf, 40)[0],
        *struct.unpack_from("<2H", elf, 58),
    )
    sections = [struct.unpack_from("<2I4Q2I2Q", elf, headers + i * size) for i in range(count)]
    symbols = next(section for section in sections if section[1] == 11)  # SHT_DYNSYM
    names = sections[symbols[6]]
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, in_section, address, _ = struct.unpack_from("<I2BH2Q", elf, at)
        if elf[names[4] + name :].split(b"\0", 1)[0] == symbol:
            return address - sections[in_section][3] + sections[in_section][4]
    raise AssertionError(symbol)


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine != "x86_64",
    reason="the stand-in is made for this processor",
)
def test_vectors_that_crash_the_server_are_an_error_that_names_the_processor(
    home: Path, folder: Path
) -> None:
    server(home).stop()
    stand_in = {"dynamic_library_path": str(broken_vector(folder / "lib"))}
    with pytest.raises(DatabaseUnavailable, match=r"may lack AVX2[\s\S]*signal 4") as error:
        server(home, settings={**SPEEDY, **stand_in}).start()
    assert "LASTRO_POSTGRES_BIN" in str(error.value.remedy)
    assert server(home).status().running is False


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.04, 0.06])
def test_a_server_that_has_just_crashed_stops(home: Path, delay_s: float) -> None:
    server(home).start()
    crashed = pid_of(home)
    os.kill(children_of(crashed)[-1], signal.SIGKILL)
    time.sleep(delay_s)
    assert server(home).stop() is True
    assert not pm.alive(crashed)


def test_a_server_that_hangs_in_its_shutdown_is_ended_by_the_next_stop(home: Path) -> None:
    server(home).start()
    hung = pid_of(home)
    checkpointer = next(pid for pid in children_of(hung) if b"checkpointer" in _title(pid))
    os.kill(checkpointer, signal.SIGSTOP)
    os.kill(hung, signal.SIGINT)
    time.sleep(0.5)
    assert pm.alive(hung)
    assert server(home).stop() is True  # within STOP_TIMEOUT_S, by far
    assert not pm.alive(hung)


def _title(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


# --- little shared memory, a full disk: in a mount namespace of their own ---

PARALLEL_BUILD = """
import sys
from pathlib import Path
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.pool import connect
from lastro.errors import DatabaseUnavailable

settings = {"fsync": "off", **dict(word.split("=") for word in sys.argv[2:])}
server = EmbeddedPostgres(Path(sys.argv[1]) / "home", idle_s=None, settings=settings)
url = server.start()
try:
    with connect(url) as connection:
        connection.execute("CREATE EXTENSION vector; SET search_path = public")
        connection.execute(
            "CREATE TABLE v WITH (parallel_workers = 2) AS SELECT "
            "ARRAY[i, sin(i), cos(i)]::real[]::vector(3) AS e FROM generate_series(1, 3000) AS i"
        )
        connection.execute("SET maintenance_work_mem = '256MB'; SET client_min_messages = debug1")
        heard = []
        connection.add_notice_handler(lambda notice: heard.append(notice.message_primary))
        connection.execute("CREATE INDEX ON v USING hnsw (e vector_l2_ops)")
        print(any("parallel workers" in words for words in heard))
except DatabaseUnavailable as error:
    print(error.message, error.remedy, sep="\\n")
finally:
    server.stop()
"""


TINY_SHM = "mount -t tmpfs -o size=1m,mode=1777 tmpfs /dev/shm"
SMALL_SHM = TINY_SHM.replace("1m", "16m", 1)  # enough to start, too little to build


@can_mount
def test_a_parallel_index_build_needs_no_shared_memory_file_system(folder: Path) -> None:
    assert in_namespace(TINY_SHM, PARALLEL_BUILD, str(folder)).strip() == "True"


@can_mount
def test_a_server_with_too_little_shared_memory_is_told_from_a_full_disk(folder: Path) -> None:
    posix = "dynamic_shared_memory_type=posix"
    said = in_namespace(SMALL_SHM, PARALLEL_BUILD, str(folder), posix)
    assert "too little shared memory" in said
    assert "--shm-size=1g" in said


FULL_DISK = """
import json, os, sys
from contextlib import suppress
from pathlib import Path
import psycopg
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.migrate import migrate
from lastro.db.pool import Database, connect
from lastro.errors import LastroError

disk = Path(sys.argv[1])
server = EmbeddedPostgres(disk / "home", idle_s=None)
said = {}

def attempt(name, work):
    try:
        work()
        said[name] = "done"
    except LastroError as error:
        said[name] = error.message

def fill(url, kind):
    with connect(url) as connection:
        connection.execute(f"CREATE {kind} TABLE filler (t text)")
        for _ in range(12):  # of 4 MB
            connection.execute("INSERT INTO filler SELECT md5(i::text) || md5((-i)::text) "
                               "FROM generate_series(1, 40000) AS i")

def spend(leave):
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with (disk / "ballast").open("ab") as ballast, suppress(OSError):  # PostgreSQL takes some too
        ballast.write(bytes(max(0, free - leave)))

url = server.start()
migrate(url)
with psycopg.connect(url, autocommit=True) as connection:
    connection.execute("INSERT INTO lastro.projects (slug, name) VALUES ('pier', 'pier')")
spend(4 * 2**20)
attempt("table", lambda: fill(url, "UNLOGGED"))
attempt("log", lambda: fill(url, ""))
spend(0)
attempt("start", server.start)
(disk / "ballast").unlink()
attempt("afterwards", server.start)
with psycopg.connect(url) as connection:
    said["slug"] = connection.execute("SELECT slug FROM lastro.projects").fetchone()[0]
attempt("again", lambda: migrate(url))
with Database(url) as database, database.transaction(projects=[1]) as connection:
    said["works"] = connection.execute("SELECT count(*) FROM lastro.chunks").fetchone()[0]
server.stop()
print(json.dumps(said))
"""


@can_mount
def test_a_full_disk_is_named_by_its_folder_and_loses_nothing(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=150m,mode=711 tmpfs {disk}"
    said = json.loads(in_namespace(mount, FULL_DISK, str(disk)))
    full = f"the disk of {disk}/home/postgres"
    assert said["table"].startswith(full)
    assert said["log"].startswith(full)
    assert said["start"] == "done" or said["start"].startswith(full)
    assert (said["afterwards"], said["again"]) == ("done", "done")
    assert (said["slug"], said["works"]) == ("pier", 0)


NOT_WRITABLE = """
import os, sys
from pathlib import Path
from lastro.db.embedded import EmbeddedPostgres
from lastro.errors import ConfigError
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    EmbeddedPostgres(Path(sys.argv[1])).start()
except ConfigError as error:
    print(error.message, error.remedy, sep="\\n")
"""


@as_root
def test_a_home_that_this_user_may_not_write_is_refused_naming_it(folder: Path) -> None:
    home = folder / "home"
    home.mkdir(mode=0o755)
    command = [sys.executable, "-c", NOT_WRITABLE, str(home)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"the folder {home} for Lastro's data cannot be written by this user" in said
    assert "LASTRO_HOME" in said


# --- logs -----------------------------------------------------------


WRITES_A_LINE = "SELECT pg_reload_conf()"
LINE = "received SIGHUP"


def logs_of(home: Path) -> str:
    return "".join(log.read_text() for log in (home / "postgres" / "log").glob("*.log"))


def overgrow(home: Path) -> Path:
    """The running server's log, grown by more than it may hold."""
    log = max((home / "postgres" / "log").glob("postgres-*.log"), key=lambda p: p.stat().st_mtime)
    with log.open("ab") as file:
        file.write(b"x\n" * (5 * MIB) + b"the last line\n")
    return log


def test_the_next_command_cuts_an_overgrown_log_and_the_server_writes_on(home: Path) -> None:
    url = server(home).start()
    log = overgrow(home)
    server(home).start()
    assert log.stat().st_size < MIB
    value(url, WRITES_A_LINE)
    assert wait_until(lambda: LINE in log.read_text())
    before, after = log.read_text().split("the last line\n")
    assert LINE not in before
    assert LINE in after


def test_the_watcher_cuts_an_overgrown_log_too(home: Path) -> None:
    server(home, idle_s=3.0).start()
    log = overgrow(home)
    assert wait_until(lambda: log.stat().st_size < MIB)


def test_no_text_of_a_failed_statement_is_logged(home: Path) -> None:
    url = server(home).start()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TEMP TABLE t (secret text CHECK (length(secret) < 3))")
        with pytest.raises(psycopg.Error):
            connection.execute("INSERT INTO t VALUES ('fog on the reef')")
    written = logs_of(home).count(LINE)
    value(url, WRITES_A_LINE)  # behind all that the statement left
    assert wait_until(lambda: logs_of(home).count(LINE) > written)
    assert "fog on the reef" not in logs_of(home)


def test_a_process_that_becomes_another_program_is_alive_throughout(folder: Path) -> None:
    script = folder / "again.sh"
    script.write_text(f"exec /bin/sh {script}\n")  # becomes another program without end
    with subprocess.Popen(["/bin/sh", str(script)]) as process:
        try:
            assert all(pm.alive(process.pid) for _ in range(5_000))
        finally:
            process.kill()
    assert not pm.alive(process.pid)
