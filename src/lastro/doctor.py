"""The doctor use case: looks for trouble, and says of each thing what mends it."""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from lastro import server, store
from lastro.db.migrate import MIN_SERVER_VERSION, MIN_VECTOR_VERSION
from lastro.db.pool import APP_ROLE, Database
from lastro.embedders import Embedder, Served
from lastro.embedding import require_same
from lastro.errors import EmbedderMismatch, LastroError, ProviderError
from lastro.projects import list_states
from lastro.server import IndexFacts, RoleFacts, ServerFacts
from lastro.store import ActiveEmbedder, ProjectState
from lastro.types import Check

# 0.8.2 and 0.8.3 fixed an overflow in parallel index builds and a corruption in vacuum.
GOOD_VECTOR = (0, 8, 4)
MIN_FREE_BYTES, GOOD_FREE_BYTES = 100 * 2**20, 2**30
# Docker gives 64 MB, on which a parallel index build fails.
GOOD_SHM_BYTES = 256 * 2**20
SHM = Path("/dev/shm")  # noqa: S108 - looked at, never written
GIT_TIMEOUT_S = 10.0
NEEDED_INDEXES = ("chunks_search_vector_idx", "chunks_published_idx")
VECTOR_INDEX = "chunks_embedding_idx"


def check_machine(home: Path) -> list[Check]:
    """What can be seen without a database."""
    return [_program(), _git(), check_disk(home, free_bytes=_free_bytes(home))]


def failed(name: str, error: LastroError) -> Check:
    """An error as the check that failed with it."""
    return Check(name=name, status="fail", detail=error.message, remedy=error.remedy)


def examine(database: Database, embedder: Embedder, *, embedded: bool) -> list[Check]:
    """What can be seen in a database whose schema is current. Errors: DatabaseUnavailable."""
    with database.transaction() as connection:
        facts = server.server_facts(connection)
        roles = server.role_facts(connection)
        unwalled = server.unwalled_tables(connection)
        leaks = server.row_is_visible(connection)
        indexes = server.index_facts(connection)
        active = store.active_embedder(connection)
        has_vectors = store.vector_dimension(connection) is not None
    return [
        check_server(facts),
        check_pgvector(facts.vector_version),
        *check_shared_memory(facts, shm_bytes=_shm_bytes()),
        check_roles(roles, embedded=embedded),
        check_walls(unwalled, leaks=leaks),
        check_indexes(indexes, has_vectors=has_vectors),
        check_embedder(embedder),
        check_index_embedder(active, embedder),
        check_vectors(list_states(database)),
    ]


def _program() -> Check:
    detail = f"lastro {version('lastro')}, Python {platform.python_version()}, {platform.system()}"
    return Check(name="program", status="ok", detail=f"{detail} {platform.machine()}")


def _git() -> Check:
    remedy = "install git, or index folders with --worktree"
    try:
        done = subprocess.run(
            ["git", "--version"], capture_output=True, timeout=GIT_TIMEOUT_S, check=True
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


def check_server(facts: ServerFacts) -> Check:
    """Version and encoding."""
    size = f"database of {facts.size_bytes / 2**20:.0f} MiB"
    detail = f"PostgreSQL {facts.version}, {facts.encoding}, {size}"
    remedy = None
    if facts.version_number < MIN_SERVER_VERSION:
        remedy = "upgrade the server to PostgreSQL 15 or newer"
    elif facts.encoding != "UTF8":
        remedy = "make a database with ENCODING 'UTF8' TEMPLATE template0, and index into that"
    return Check(name="server", status="fail" if remedy else "ok", detail=detail, remedy=remedy)


def check_pgvector(found: str | None) -> Check:
    """The one extension: 0.8 is needed, 0.8.4 advised."""
    if found is None:
        return Check(
            name="pgvector",
            status="fail",
            detail="the extension is not in this database",
            remedy="an administrator must run: CREATE EXTENSION vector;",
        )
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:3])
    status = "ok" if numbers >= GOOD_VECTOR else "warn" if numbers >= MIN_VECTOR_VERSION else "fail"
    return Check(
        name="pgvector",
        status=status,
        detail=f"pgvector {found}",
        remedy=None
        if status == "ok"
        else "install pgvector 0.8.4 or newer, then run: ALTER EXTENSION vector UPDATE;",
    )


def check_shared_memory(facts: ServerFacts, *, shm_bytes: int | None) -> list[Check]:
    """Whether a parallel index build has room; nothing where the server is another machine's."""
    if facts.shared_memory_type != "posix":
        detail = f"not needed (dynamic_shared_memory_type is {facts.shared_memory_type})"
        return [Check(name="shared memory", status="ok", detail=detail)]
    if not facts.over_socket or shm_bytes is None:
        return []
    detail = f"{SHM} has {shm_bytes / 2**20:.0f} MiB"
    if shm_bytes >= GOOD_SHM_BYTES:
        return [Check(name="shared memory", status="ok", detail=detail)]
    return [
        Check(
            name="shared memory",
            status="warn",
            detail=detail,
            remedy="start the container with --shm-size=1g, "
            "or set max_parallel_maintenance_workers = 0",
        )
    ]


def check_roles(facts: RoleFacts, *, embedded: bool) -> Check:
    """The application's role must be held back by row-level security."""
    wrong = [
        name
        for name, is_so in (
            ("is a superuser", facts.app_is_superuser),
            ("bypasses row-level security", facts.app_bypasses),
            (f"owns {facts.app_owns} tables or indexes", facts.app_owns > 0),
        )
        if is_so
    ]
    if wrong:
        return Check(
            name="role",
            status="fail",
            detail=f"the role {APP_ROLE} {' and '.join(wrong)}",
            remedy=f"an administrator must run: ALTER ROLE {APP_ROLE} NOSUPERUSER NOBYPASSRLS; "
            "and give what it owns to the owner of the schema",
        )
    if facts.acting_as != APP_ROLE:
        return Check(
            name="role",
            status="fail",
            detail=f"queries run as {facts.acting_as}, not as {APP_ROLE}",
            remedy=f"an administrator must run: GRANT {APP_ROLE} TO {facts.login};",
        )
    if facts.login_is_superuser and not embedded:
        return Check(
            name="role",
            status="warn",
            detail=f"queries run as {APP_ROLE}, but the login {facts.login} is a superuser",
            remedy=f"use a login whose only right is to be {APP_ROLE} in LASTRO_DATABASE_URL",
        )
    return Check(name="role", status="ok", detail=f"queries run as {APP_ROLE}, which owns nothing")


def check_walls(unwalled: Sequence[str], *, leaks: bool) -> Check:
    """Row-level security on every table of projects' rows, and seen to work.

    ``leaks`` says that rows were seen by a transaction that may see no project.
    """
    if not unwalled and not leaks:
        return Check(
            name="row security", status="ok", detail="on; without a project no row is visible"
        )
    detail = f"off or without policy: {', '.join(unwalled)}" if unwalled else "rows leak through"
    return Check(
        name="row security",
        status="fail",
        detail=detail,
        remedy="someone altered the schema: restore it from a backup, or index into a new database",
    )


def check_indexes(indexes: Iterable[IndexFacts], *, has_vectors: bool) -> Check:
    """Every index valid, and those that searches need there."""
    found = {index.name: index.is_valid for index in indexes}
    needed = (*NEEDED_INDEXES, *((VECTOR_INDEX,) if has_vectors else ()))
    missing = [name for name in needed if name not in found]
    invalid = [name for name, is_valid in found.items() if not is_valid]
    if missing:
        return Check(
            name="indexes",
            status="fail",
            detail=f"missing: {', '.join(missing)}",
            remedy="restore the schema from a backup, or index into a new database",
        )
    if invalid:
        commands = " ".join(f"REINDEX INDEX CONCURRENTLY lastro.{name};" for name in invalid)
        return Check(
            name="indexes",
            status="fail",
            detail=f"invalid: {', '.join(invalid)}",
            remedy=f"the owner must run: {commands}",
        )
    return Check(name="indexes", status="ok", detail=f"{len(found)} indexes, all valid")


def check_embedder(embedder: Embedder) -> Check:
    """Whether the embedder answers: reachable, with its model, and with a vector that fits."""
    try:
        embedder.embed(["ballast"], "query")
        detail = f"{embedder.id} {embedder.version}, {embedder.dimension} dimensions"
    except LastroError as error:
        return failed("embedder", error)
    return Check(name="embedder", status="ok", detail=detail)


def check_index_embedder(active: ActiveEmbedder | None, embedder: Embedder) -> Check:
    """Whether the database's vectors are of the configured embedder.

    A server that is down is another check's finding; then only what is configured is compared.
    """
    if active is None:
        return Check(name="vectors of", status="ok", detail="no vector yet")
    detail = f"{active.id} {active.version}, {active.dimension} dimensions"
    try:
        require_same(active, embedder)
        if isinstance(embedder, Served):
            embedder.identify()
    except EmbedderMismatch as error:
        return failed("vectors of", error)
    except ProviderError as error:
        return Check(
            name="vectors of",
            status="warn",
            detail=f"{detail}; not compared with the server's model",
            remedy=error.remedy or "see the line `embedder`",
        )
    return Check(name="vectors of", status="ok", detail=detail)


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


def _free_bytes(home: Path) -> int:
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    return shutil.disk_usage(existing).free


def _shm_bytes() -> int | None:
    return shutil.disk_usage(SHM).total if SHM.exists() else None
