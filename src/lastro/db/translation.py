"""What PostgreSQL and its driver say, as Lastro's errors: by SQLSTATE and constraint name."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import psycopg

from lastro.db.app_role import APP_ROLE
from lastro.db.disk import disk_full, folder_of, is_full
from lastro.errors import (
    Conflict,
    Contention,
    DatabaseUnavailable,
    InvalidInput,
    LastroError,
    NotFound,
    SchemaOutOfDate,
    StatementTimeout,
)

DISK_FULL = "53100"  # PostgreSQL manual, appendix A

# What cures a missing right, for the application's connections and for the owner's.
GRANT = f"run `lastro init` as the owner, then GRANT {APP_ROLE} TO this user"
BE_OWNER = "set LASTRO_ADMIN_DATABASE_URL to the address of the owner of Lastro's tables"

# Constraint -> what its breach means to a caller.
CONSTRAINTS: Mapping[str, str] = {
    "projects_slug_key": "a project of this name exists already",
    "projects_slug_form": "a project's name must have 1 to 200 characters",
    "golden_sets_pkey": "another import of this golden set came first; run it again",
    "chunks_origin": "a chunk must come from exactly one of a file, a session or an entry",
}


@contextmanager
def translated(right_remedy: str = GRANT, *, url: str = "") -> Generator[None]:
    """Turn psycopg's errors into Lastro's, by SQLSTATE and constraint name.

    ``right_remedy`` cures a missing right; ``url`` is the server's, to name its disk. A misuse of
    psycopg passes: it is a bug of ours.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidInput("a text is not valid Unicode and cannot be stored") from error
    except psycopg.Error as error:
        if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
            raise
        raise translate(error, right_remedy, url=url) from error


def translate(error: psycopg.Error, right_remedy: str = GRANT, *, url: str = "") -> LastroError:
    """The error of ours that ``error`` means."""
    state = error.sqlstate or ""
    text = _first_line(error)
    constraint = error.diag.constraint_name
    if state == "23505":
        return Conflict(CONSTRAINTS.get(constraint or "", f"it exists already ({text})"))
    # SET ROLE to one that does not exist is an invalid parameter value
    no_role = state == "22023" and APP_ROLE in text
    if no_role or state in {"3F000", "42P01", "42703", "42704", "42883"}:
        return SchemaOutOfDate(
            f"this database lacks a part of Lastro's schema ({text})", remedy="run `lastro init`"
        )
    if state == "23503" and (constraint or "").endswith("_project_fkey"):
        return NotFound(
            "the project was erased while this waited for it", remedy="see `lastro projects`"
        )
    if isinstance(error, psycopg.DataError) and not state and "NUL" in text:
        return InvalidInput(
            "a name or a text holds the character NUL, which nothing stored does",
            remedy="leave it out",
        )
    if state[:2] in {"22", "23"} or isinstance(error, psycopg.DataError):
        return InvalidInput(CONSTRAINTS.get(constraint or "", f"PostgreSQL refused: {text}"))
    if state == "42501":
        return DatabaseUnavailable(
            f"this database user may not do that: {text}", remedy=right_remedy
        )
    if state == "57014":
        return StatementTimeout(
            f"a statement was stopped: {text}", remedy="ask for less, or when the server is idle"
        )
    if state[:2] == "40" or state == "55P03":
        return Contention(
            f"two transactions were in each other's way: {text}", remedy="run it again"
        )
    shortage = _shortage(error, url)
    if shortage is not None:
        return shortage
    if not state or state[:2] in {"08", "28", "3D", "53", "57", "58"}:
        return _unreachable(error)
    return DatabaseUnavailable(f"PostgreSQL refused: {text} (SQLSTATE {state})")


def _shortage(error: psycopg.Error, url: str) -> DatabaseUnavailable | None:
    """A full disk or too little shared memory, which PostgreSQL reports alike; else None."""
    text = _first_line(error)
    if error.sqlstate == DISK_FULL and "shared memory" in text:
        return DatabaseUnavailable(
            f"the server has too little shared memory (/dev/shm), though it says: {text}",
            remedy="start the server's container with --shm-size=1g, "
            "or run: ALTER SYSTEM SET max_parallel_maintenance_workers = 0; and reload it",
        )
    place = folder_of(url)
    # Where it cannot write its log, the server falls, and all that is heard is a closed connection.
    fell = not error.sqlstate and place is not None and is_full(place)
    if error.sqlstate == DISK_FULL or fell:
        return disk_full(place, f": {text}")
    return None


def _unreachable(error: Exception) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"PostgreSQL cannot be reached: {_first_line(error)}",
        remedy="check `lastro db status`, or the address in LASTRO_DATABASE_URL",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
