"""The doctor use case: looks for trouble, and says of each thing what mends it."""

import platform
import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from lastro import store
from lastro.db import postmaster as pm
from lastro.db.migrate import schema_state
from lastro.db.pool import Database
from lastro.embedders import Embedder, Served
from lastro.embedding import require_same
from lastro.errors import ConfigError, EmbedderMismatch, LastroError, ProviderError
from lastro.job import OVER, STATES, WORKER_LOST_S, Workers
from lastro.jobs import list_everywhere, workers
from lastro.projects import list_states
from lastro.recall_probe import check_recall, probe_recall
from lastro.server_checks import (
    SHM,
    check_dead_rows,
    check_indexes,
    check_pgvector,
    check_rights,
    check_roles,
    check_schema,
    check_server,
    check_shared_memory,
    check_walls,
)
from lastro.store import ActiveEmbedder, ProjectState
from lastro.types import Check

MIN_FREE_BYTES, GOOD_FREE_BYTES = 100 * 2**20, 2**30
# The server's own bound is 8 MiB for each of eight files; what is beyond it, nothing watches.
GOOD_LOG_BYTES = 80 * 2**20
GIT_VERSION_TIMEOUT_S = 10.0
UNDONE = tuple(state for state in STATES if state not in OVER)


def check_machine(home: Path) -> list[Check]:
    """What can be seen without a database."""
    return [
        _program(),
        _git(),
        check_disk(home, free_bytes=_free_bytes(home)),
        check_log(home, log_bytes=_log_bytes(home)),
    ]


def failed(name: str, error: LastroError) -> Check:
    """An error as the check that failed with it."""
    return Check(name=name, status="fail", detail=error.message, remedy=error.remedy)


def examine(
    database: Database, embedder: Embedder, *, embedded: bool, lost_s: float = WORKER_LOST_S
) -> list[Check]:
    """What can be seen in a database whose schema is current; a worker is gone after ``lost_s``.

    Errors: DatabaseUnavailable.
    """
    with database.transaction() as connection:
        schema = schema_state(connection)
        facts = store.server_facts(connection)
        roles = store.role_facts(connection)
        unwalled = store.unwalled_tables(connection)
        leaks = store.row_is_visible(connection)
        lacking = store.lacking_rights(connection)
        indexes = store.index_facts(connection)
        tables = store.table_facts(connection)
        active = store.active_embedder(connection)
        has_vectors = store.vector_dimension(connection) is not None
    states = list_states(database)
    return [
        check_server(facts),
        check_schema(schema),
        check_pgvector(facts.vector_version),
        *check_shared_memory(facts, shm_bytes=_shm_bytes()),
        check_roles(roles, embedded=embedded),
        check_rights(lacking),
        check_walls(unwalled, leaks=leaks),
        check_indexes(indexes, has_vectors=has_vectors),
        check_dead_rows(tables, autovacuum=facts.autovacuum),
        check_index_embedder(active, embedder).check,
        check_embedder(embedder),
        check_vectors(states),
        check_jobs(
            len(list_everywhere(database, lost_s=lost_s, states=UNDONE, limit=None)),
            workers(database, lost_s=lost_s),
        ),
        check_recall(probe_recall(database, states) if has_vectors else []),
    ]


def require_walls(database: Database, *, embedded: bool) -> list[Check]:
    """Refuse to serve from a database that does not keep projects apart by itself.

    Errors: ConfigError where the role that queries run as is a superuser, bypasses row-level
    security or has the rights of the tables' owner, or where a table has no policy. Returned is
    what else is worth a warning.
    """
    with database.transaction() as connection:
        roles = store.role_facts(connection)
        unwalled = store.unwalled_tables(connection)
        leaks = store.row_is_visible(connection)
    checks = [check_roles(roles, embedded=embedded), check_walls(unwalled, leaks=leaks)]
    for check in checks:
        if check.status == "fail":
            raise ConfigError(
                f"this database does not keep projects apart: {check.detail}", remedy=check.remedy
            )
    return [check for check in checks if check.status == "warn"]


def _program() -> Check:
    detail = f"lastro {version('lastro')}, Python {platform.python_version()}, {platform.system()}"
    return Check(name="program", status="ok", detail=f"{detail} {platform.machine()}")


def _git() -> Check:
    remedy = "install git, or index folders with --worktree"
    try:
        done = subprocess.run(
            ["git", "--version"], capture_output=True, timeout=GIT_VERSION_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return Check(name="git", status="warn", detail="git cannot be run", remedy=remedy)
    return Check(name="git", status="ok", detail=done.stdout.decode("utf-8", "replace").strip())


def check_disk(home: Path, *, free_bytes: int) -> Check:
    """Room for the embedded database and the caches."""
    detail = f"{free_bytes / 2**30:.1f} GiB free for {home}"
    if free_bytes >= GOOD_FREE_BYTES:
        return Check(name="disk", status="ok", detail=detail)
    return Check(
        name="disk",
        status="warn" if free_bytes >= MIN_FREE_BYTES else "fail",
        detail=detail,
        remedy="free some space, or set LASTRO_HOME to a folder on a larger disk",
    )


def check_log(home: Path, *, log_bytes: int) -> Check:
    """Size of the embedded server's log files."""
    detail = f"{log_bytes / 2**20:.1f} MiB in {pm.Layout(home).log}"
    if log_bytes <= GOOD_LOG_BYTES:
        return Check(name="log", status="ok", detail=detail)
    return Check(
        name="log",
        status="warn",
        detail=detail,
        remedy="the next command cuts the server's own logs; remove what else lies there",
    )


def check_embedder(embedder: Embedder) -> Check:
    """Whether the embedder answers: reachable, with its model, and with a vector that fits."""
    try:
        embedder.embed(["ballast"], "query")
        detail = f"{embedder.id} {embedder.version}, {embedder.dimension} dimensions"
    except LastroError as error:
        return failed("embedder", error)
    return Check(name="embedder", status="ok", detail=detail)


class Compared(NamedTuple):
    """Whether the database's vectors are of an embedder, and the error that says otherwise."""

    check: Check
    trouble: EmbedderMismatch | ProviderError | None = None


def check_index_embedder(
    active: ActiveEmbedder | None, embedder: Embedder, *, spared: bool = False
) -> Compared:
    """Whether the database's vectors are of the configured embedder.

    An embedder behind a server is asked for its weights, unless it is to be ``spared`` while it is
    known to be away. Of one that is down only what is configured is compared.
    """
    name = "vectors of"
    if active is None:
        return Compared(Check(name=name, status="ok", detail="no vector yet"))
    detail = f"{active.id} {active.version}, {active.dimension} dimensions"
    trouble = _embedder_trouble(active, embedder, spared=spared)
    if trouble is None:
        return Compared(Check(name=name, status="ok", detail=detail))
    if isinstance(trouble, EmbedderMismatch):
        return Compared(failed(name, trouble), trouble)
    check = Check(
        name=name,
        status="warn",
        detail=f"{detail}; not compared with the server's model: {trouble.message}",
        remedy=trouble.remedy or "look at the embedder's server",
    )
    return Compared(check, trouble)


def _embedder_trouble(
    active: ActiveEmbedder, embedder: Embedder, *, spared: bool
) -> EmbedderMismatch | ProviderError | None:
    """Why the database's vectors are not, or not surely, of ``embedder``; None where they are."""
    try:
        require_same(active, embedder)
        if not isinstance(embedder, Served):
            return None
        outage = embedder.outage() if spared else None
        if outage is None:
            embedder.identify()
    except (EmbedderMismatch, ProviderError) as error:
        return error
    return outage


def check_vectors(states: Sequence[ProjectState]) -> Check:
    """Chunks that the vector leg cannot find."""
    lacking = [state for state in states if state.without_vector]
    chunks = sum(state.chunks for state in states)
    if not lacking:
        detail = f"projects: {len(states)}; chunks: {chunks}, all with a vector"
        return Check(name="index", status="ok", detail=detail)
    named = ", ".join(f"{state.slug} ({state.without_vector})" for state in lacking)
    return Check(
        name="index",
        status="warn",
        detail=f"chunks without a vector: {named}",
        remedy=f"run `lastro index --repair --project {lacking[0].slug}`",
    )


def check_jobs(undone: int, found: Workers) -> Check:
    """Jobs that nobody is there to do."""
    detail = f"jobs that are not over: {undone}; workers: {found.live}"
    if not undone or found.live:
        return Check(name="jobs", status="ok", detail=detail)
    return Check(name="jobs", status="warn", detail=detail, remedy="start one with `lastro worker`")


def _free_bytes(home: Path) -> int:
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    return shutil.disk_usage(existing).free


def _shm_bytes() -> int | None:
    return shutil.disk_usage(SHM).total if SHM.exists() else None


def _log_bytes(home: Path) -> int:
    return sum(file.lstat().st_size for file in pm.Layout(home).log.glob("*"))
