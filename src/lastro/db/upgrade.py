"""A database of an older PostgreSQL, copied by dump and restore into one of a newer.

The old data directory is read and never changed in content. The new one is made beside it, filled,
its rows counted against the old ones, and shut down whole; only then does it become
``data.upgraded``, and from there ``finish_swap`` puts it in the old one's place, in this process
or in the next one. Whatever kills an upgrade before that leaves the old database as it was.

Both servers are this process's: they end when it ends, however it ends.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.sql import Identifier

from lastro.db import postmaster as pm
from lastro.db.binaries import Binaries, binaries_of
from lastro.db.cluster import (
    data_version,
    finish_swap,
    init_data,
    last_lines,
    prepare_folders,
    server_environment,
    socket_folder,
    sync_folder,
    upgraded_folder,
)
from lastro.db.disk import NO_SPACE, is_full
from lastro.db.privileges import ServerUser, open_as, run_as
from lastro.db.translation import translated
from lastro.errors import ConfigError, DatabaseUnavailable
from lastro.sql import load_queries

# A port only names a socket, and these are not the one that commands look for.
OLD_PORT, NEW_PORT = pm.PORT + 1, pm.PORT + 2
PROGRAMS = ("pg_dump", "pg_dumpall", "psql")
POLL_S = 0.02
QUOTED_LINES = 8
INIT_TIMEOUT_S = 120.0  # as long as a start, which makes the first database
# The indexes are built anew and are as large as before; a sort may need a table's size besides.
SPACE_FACTOR = 1.25
# An empty cluster has 40 MB, its write-ahead log up to max_wal_size as set below.
SPACE_MARGIN_BYTES = 512 * 2**20
NEW_SETTINGS: Mapping[str, str] = {
    # Rows copied into a table of the same transaction are not logged.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "maintenance_work_mem": "256MB",
}
# Runs a server until it ends or our end of the pipe is closed, which a kill of ours does too.
SUPERVISE = """exec 3<&0
"$@" </dev/null 3<&- >"$0" 2>&1 & server=$!
{ read -r line <&3; kill -INT "$server"; } 2>/dev/null & guard=$!
wait "$server"; code=$?
kill "$guard" 2>/dev/null
exit "$code"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What an upgrade did; versions are major ones, equal where nothing was to be done."""

    from_version: int
    to_version: int
    tables: int
    rows: int
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where an upgrade takes place: a locked home without a server, and who works in it."""

    layout: pm.Layout
    user: ServerUser
    settings: Mapping[str, str]
    start_timeout_s: float

    @property
    def sockets(self) -> Path:
        """The folder of both servers' sockets."""
        return socket_folder(self.layout, self.user)


def require_space(layout: pm.Layout, *, free_bytes: int | None = None) -> None:
    """Refuse before anything is done where a second copy has no room.

    Errors: DatabaseUnavailable naming the folder and both numbers.
    """
    used = sum(
        path.lstat().st_size
        for path in layout.data.rglob("*")
        if path.parent.name != "pg_wal" and path.is_file()
    )
    needed = round(used * SPACE_FACTOR) + SPACE_MARGIN_BYTES
    free = shutil.disk_usage(layout.server).free if free_bytes is None else free_bytes
    if free < needed:
        raise DatabaseUnavailable(
            f"an upgrade needs {needed / 2**20:.0f} MiB in {layout.server}, and "
            f"{free / 2**20:.0f} MiB are free; nothing was changed",
            remedy="free some space there, or move LASTRO_HOME to a larger disk",
        )


def upgrade(
    site: Site, *, new: Binaries, old_programs: Path | None, say: Callable[[str], None]
) -> Upgrade:
    """Replace data of an older PostgreSQL by a copy that ``new`` serves, if it is older.

    The caller holds the lock, and no server runs on older data. Errors: ConfigError where the
    older programs are absent, DatabaseUnavailable; the old data is then as it was.
    """
    began, layout = time.monotonic(), site.layout
    found = int((data_version(layout.data) or "0").partition(".")[0])
    if found > new.major:
        raise DatabaseUnavailable(
            f"the database in {layout.data} is of PostgreSQL {found}, newer than the programs in "
            f"{new.folder}, which are of {new.major}",
            remedy=f"set LASTRO_POSTGRES_BIN to the bin folder of PostgreSQL {found}",
        )
    counts: Mapping[str, int] = {}
    if found < new.major:
        _require_programs(new)
        old = binaries_of(found, old_programs, layout.home, site.user)
        prepare_folders(layout, site.user)
        require_space(layout)
        counts = _replace(site, old=old, new=new, say=say)
    return Upgrade(
        from_version=found,
        to_version=new.major,
        tables=len(counts),
        rows=sum(counts.values()),
        took_ms=(time.monotonic() - began) * 1000,
    )


def _require_programs(new: Binaries) -> None:
    missing = [name for name in PROGRAMS if not (new.folder / name).exists()]
    if missing:
        raise ConfigError(
            f"an upgrade needs {', '.join(missing)}, which {new.folder} has not",
            remedy="install the client programs of that PostgreSQL, or unset LASTRO_POSTGRES_BIN",
        )


def _replace(
    site: Site, *, old: Binaries, new: Binaries, say: Callable[[str], None]
) -> Mapping[str, int]:
    target = site.layout.server / "data.new-upgrade"
    shutil.rmtree(target, ignore_errors=True)
    try:
        say(f"making a database of PostgreSQL {new.major} beside that of {old.major}")
        durable = site.settings.get("fsync") != "off"
        init_data(target, new, site.user, timeout_s=INIT_TIMEOUT_S, durable=durable)
        reading = {"default_transaction_read_only": "on", "autovacuum": "off"}
        with (
            _serving(site, old, site.layout.data, port=OLD_PORT, settings=reading),
            _serving(site, new, target, port=NEW_PORT, settings=NEW_SETTINGS),
        ):
            counts = _copy_all(site, new, say=say)
        target.rename(upgraded_folder(site.layout))
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    sync_folder(site.layout.server)
    finish_swap(site.layout)
    return counts


def _copy_all(site: Site, new: Binaries, *, say: Callable[[str], None]) -> dict[str, int]:
    queries = load_queries("upgrade")
    with _connected(site, OLD_PORT, pm.MAINTENANCE_DATABASE) as connection:
        databases = connection.execute(queries["databases"]).fetchall()
    with _connected(site, NEW_PORT, pm.MAINTENANCE_DATABASE) as connection:
        _load(site, new, _roles(site, new))
        for name, owner in databases:
            if name != pm.MAINTENANCE_DATABASE:
                connection.execute(queries["create_database"].format(name=Identifier(name)))
                named = {"name": Identifier(name), "owner": Identifier(owner)}
                connection.execute(queries["own_database"].format(**named))
    counts: dict[str, int] = {}
    for name, _ in databases:
        say(f"copying the database {name}")
        _copy(site, new, name)
        say(f"counting the rows of {name} in both")
        counts |= _verified(site, name)
    return counts


def _roles(site: Site, new: Binaries) -> str:
    """Statements that make the old server's roles; its superuser is there already."""
    made = run_as(site.user, [*_client(site, new, "pg_dumpall", OLD_PORT), "--roles-only"])
    if made.returncode != 0:
        raise _stopped(site, "reading the roles", made.stderr)
    own = f"CREATE ROLE {pm.SUPERUSER};"
    return "\n".join(line for line in made.stdout.split("\n") if line != own)


def _load(site: Site, new: Binaries, statements: str) -> None:
    command = [*_loader(site, new), "-d", pm.MAINTENANCE_DATABASE]
    done = run_as(site.user, command, input_text=statements)
    if done.returncode != 0:
        raise _stopped(site, "making the roles", done.stderr)


def _copy(site: Site, new: Binaries, database: str) -> None:
    """Pipe one database from the old server into the new one, in one transaction.

    The newer ``pg_dump`` reads the older server. Source: PostgreSQL manual, "Upgrading Data via
    pg_dumpall".
    """
    dump = [*_client(site, new, "pg_dump", OLD_PORT), "-d", database]
    load = [*_loader(site, new), "--single-transaction", "-d", database]
    heard, words = os.pipe()  # not a file: on a full disk there would be no word of it
    with (
        os.fdopen(heard, "rb") as ears,
        open_as(site.user, dump, stdout=subprocess.PIPE, stderr=words) as reader,
        open_as(
            site.user, load, stdin=reader.stdout, stdout=subprocess.DEVNULL, stderr=words
        ) as writer,
    ):
        os.close(words)
        assert reader.stdout is not None
        reader.stdout.close()  # the writer's alone, so that its end is the reader's
        try:
            said = ears.read().decode(errors="replace")
            ends = [writer.wait(), reader.wait()]
        except BaseException:
            reader.kill()
            writer.kill()
            raise
    if any(ends):
        raise _stopped(site, f"copying the database {database}", said)


def _verified(site: Site, database: str) -> dict[str, int]:
    """Rows of each table, equal in both servers. Errors: DatabaseUnavailable where they differ."""
    with _connected(site, OLD_PORT, database) as connection:
        expected = _row_counts(connection)
    with _connected(site, NEW_PORT, database) as connection:
        connection.execute(load_queries("upgrade")["settle_database"])
        found = _row_counts(connection)
    if found != expected:
        wrong = sorted(t for t in expected.keys() | found if expected.get(t) != found.get(t))
        raise _stopped(site, f"verifying {database}", f"rows differ in {', '.join(wrong)}")
    return {f"{database}.{table}": rows for table, rows in found.items()}


def _row_counts(connection: Connection[TupleRow]) -> dict[str, int]:
    queries = load_queries("upgrade")
    counts: dict[str, int] = {}
    for schema, table in connection.execute(queries["tables"]).fetchall():
        query = queries["count_rows"].format(table=Identifier(schema, table))
        row = connection.execute(query).fetchone()
        assert row is not None
        counts[f"{schema}.{table}"] = int(row[0])
    return counts


@contextlib.contextmanager
def _connected(site: Site, port: int, database: str) -> Generator[Connection[TupleRow]]:
    with (
        translated(),
        psycopg.connect(
            host=str(site.sockets), port=port, user=pm.SUPERUSER, dbname=database, autocommit=True
        ) as connection,
    ):
        yield connection


def _client(site: Site, binaries: Binaries, program: str, port: int) -> list[str]:
    command = [str(binaries.folder / program), "-h", str(site.sockets), "-p", str(port)]
    return [*command, "-U", pm.SUPERUSER, "-w"]


def _loader(site: Site, new: Binaries) -> list[str]:
    client = _client(site, new, "psql", NEW_PORT)
    return [*client, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]


@contextlib.contextmanager
def _serving(
    site: Site, binaries: Binaries, data: Path, *, port: int, settings: Mapping[str, str]
) -> Generator[None]:
    """A server on ``data`` for the length of the block, stopped cleanly at its end."""
    log = site.layout.log / f"upgrade-{binaries.major}.log"
    given = {
        **site.settings,
        **settings,
        "port": str(port),
        "unix_socket_directories": str(site.sockets),
        "logging_collector": "off",
    }
    command = [str(binaries.folder / "postgres"), "-D", str(data)]
    for name, value in given.items():
        command += ["-c", f"{name}={value}"]
    process = open_as(
        site.user,
        ["/bin/sh", "-c", SUPERVISE, str(log), *command],
        stdin=subprocess.PIPE,
        environment=server_environment(data),
        new_session=True,  # an interrupt from the keyboard is ours alone
    )
    try:
        _await(process, site, port, log)
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        code = process.wait(timeout=site.start_timeout_s + pm.STOP_TIMEOUT_S)
    if code != 0:
        raise _stopped(site, f"stopping PostgreSQL {binaries.major}", "\n".join(last_lines(log)))


def _await(process: "subprocess.Popen[bytes]", site: Site, port: int, log: Path) -> None:
    socket_path = str(site.sockets / f".s.PGSQL.{port}")
    deadline = time.monotonic() + site.start_timeout_s
    while True:
        with contextlib.suppress(OSError, pm.Refused):
            pm.ask(socket_path, pm.MAINTENANCE_DATABASE)
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise _stopped(site, "starting a server", "\n".join(last_lines(log)))
        time.sleep(POLL_S)


def _stopped(site: Site, doing: str, said: str) -> DatabaseUnavailable:
    lines = said.strip().splitlines()
    # Of many lines the first tells the cause, the last the end.
    shown = lines if len(lines) <= QUOTED_LINES else [*lines[:2], "…", *lines[3 - QUOTED_LINES :]]
    quoted = "".join(f"\n  {line}" for line in shown)
    return DatabaseUnavailable(
        f"the upgrade of {site.layout.data} stopped at {doing}; the old database is as it was"
        f"{quoted}",
        remedy=f"free some space in {site.layout.server}, then run `lastro db upgrade` again"
        if NO_SPACE in said or is_full(site.layout.server)
        else "mend what the message names, then run `lastro db upgrade` again",
    )
