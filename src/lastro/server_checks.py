"""What the doctor makes of what a server says: rules without a connection."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from lastro.db.app_role import APP_ROLE
from lastro.db.migrate import MIN_SERVER_VERSION, MIN_VECTOR_VERSION, SchemaState
from lastro.legs import is_former
from lastro.store import EF_CONSTRUCTION, IndexFacts, RoleFacts, ServerFacts, TableFacts
from lastro.types import Check

# 0.8.2 and 0.8.3 fixed an overflow in parallel index builds and a corruption in vacuum.
GOOD_VECTOR = (0, 8, 4)
# Docker gives 64 MB, on which a parallel index build fails.
GOOD_SHM_BYTES = 256 * 2**20
SHM = Path("/dev/shm")  # noqa: S108 - looked at, never written
NEEDED_INDEXES = ("chunks_search_vector_idx", "chunks_published_idx")
VECTOR_INDEX = "chunks_embedding_idx"
REBUILD = (
    f"ALTER INDEX lastro.{VECTOR_INDEX} SET (ef_construction = {EF_CONSTRUCTION}); "
    f"REINDEX INDEX CONCURRENTLY lastro.{VECTOR_INDEX};"
)
# Autovacuum begins at a fifth (autovacuum_vacuum_scale_factor) and needs a minute; a table that
# stays far beyond it is not vacuumed. Deleted rows fill the scan of a vector index.
MOST_DEAD_SHARE, FEWEST_DEAD = 0.4, 1_000


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


def check_schema(state: SchemaState) -> Check:
    """Whether an upgrade was begun and not finished."""
    ahead = f", {state.at - state.known} newer than this release" if state.at > state.known else ""
    return Check(
        name="schema",
        status="warn" if state.waiting else "ok",
        detail=f"step {state.at}{ahead}"
        + (f"; migrations that wait: {state.waiting}" if state.waiting else ""),
        remedy="when no process of the former release runs any more, run `lastro init --finish`"
        if state.waiting
        else None,
    )


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
    wrong = _powers(facts)
    if wrong:
        return Check(
            name="role",
            status="fail",
            detail=f"the role {APP_ROLE} {' and '.join(wrong)}",
            remedy=f"an administrator must {' and '.join(dict.fromkeys(wrong.values()))}",
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


def _powers(facts: RoleFacts) -> dict[str, str]:
    """What lets the application's role past the policies, with what takes it away."""
    alter = f"run: ALTER ROLE {APP_ROLE} NOSUPERUSER NOBYPASSRLS;"
    owner = facts.app_has_rights_of
    told = (
        (facts.app_is_superuser, "is a superuser", alter),
        (facts.app_bypasses, "bypasses row-level security", alter),
        (
            facts.app_owns > 0,
            f"owns {facts.app_owns} tables or indexes",
            "give what it owns to the owner of the schema",
        ),
        (
            owner is not None,
            f"has the rights of {owner}, who owns tables",
            f"run: REVOKE {owner} FROM {APP_ROLE};",
        ),
    )
    return {power: remedy for is_so, power, remedy in told if is_so}


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
    found = {index.name: index for index in indexes}
    needed = (*NEEDED_INDEXES, *((VECTOR_INDEX,) if has_vectors else ()))
    missing = [name for name in needed if name not in found]
    invalid = [name for name, index in found.items() if not index.is_valid]
    if missing:
        return Check(
            name="indexes",
            status="fail",
            detail=f"missing: {', '.join(missing)}",
            remedy="run `lastro index`, whose end makes it; on a server `lastro init`"
            if missing == [VECTOR_INDEX]
            else "restore the schema from a backup, or index into a new database",
        )
    if invalid:
        commands = " ".join(f"REINDEX INDEX CONCURRENTLY lastro.{name};" for name in invalid)
        return Check(
            name="indexes",
            status="fail",
            detail=f"invalid: {', '.join(invalid)}",
            remedy=f"the owner must run: {commands}",
        )
    if VECTOR_INDEX in found and is_former(found[VECTOR_INDEX].ef_construction):
        return Check(
            name="indexes",
            status="warn",
            detail=f"a former release built {VECTOR_INDEX}: searches find as much, and take longer",
            remedy=f"the owner must run: {REBUILD}",
        )
    return Check(name="indexes", status="ok", detail=f"{len(found)} indexes, all valid")


def check_rights(lacking: Sequence[str]) -> Check:
    """The rights of the application's role on each table; ``lacking`` names what it may not do."""
    if not lacking:
        return Check(name="rights", status="ok", detail=f"{APP_ROLE} may use every table")
    commands = " ".join(
        f"GRANT {right} ON lastro.{table} TO {APP_ROLE};"
        for table, _, right in (entry.partition(" ") for entry in lacking)
    )
    return Check(
        name="rights",
        status="fail",
        detail=f"{APP_ROLE} lacks: {', '.join(lacking)}",
        remedy=f"the owner must run: {commands}",
    )


def check_dead_rows(tables: Sequence[TableFacts], *, autovacuum: bool) -> Check:
    """Rows that were deleted or replaced and not vacuumed away."""
    heavy = [
        table
        for table in tables
        if table.dead >= FEWEST_DEAD and table.dead > MOST_DEAD_SHARE * (table.dead + table.live)
    ]
    if heavy:
        names = ", ".join(f"{table.name} ({table.dead} beside {table.live})" for table in heavy)
        vacuum = ", ".join(f"lastro.{table.name}" for table in heavy)
        return Check(
            name="dead rows",
            status="warn",
            detail=f"not vacuumed: {names}",
            remedy=f"wait a minute for autovacuum, or the owner runs: VACUUM (ANALYZE) {vacuum};",
        )
    if not autovacuum:
        return Check(
            name="dead rows",
            status="warn",
            detail="autovacuum is off: deleted rows are never removed",
            remedy="an administrator must run: ALTER SYSTEM SET autovacuum = on; and reload",
        )
    dead, live = sum(table.dead for table in tables), sum(table.live for table in tables)
    return Check(name="dead rows", status="ok", detail=f"{dead} beside {live} that live")
