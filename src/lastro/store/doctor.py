"""What PostgreSQL says of itself and of our schema, and a project's vectors to probe it with."""

from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import class_row

from lastro.db.pool import AppConnection
from lastro.sql import load_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The server and this database; ``probe_distance`` shows that the extension works."""

    version_number: int
    version: str
    encoding: str
    vector_version: str | None
    shared_memory_type: str
    over_socket: bool
    size_bytes: int
    autovacuum: bool
    probe_distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFacts:
    """The application's role, and the login that becomes it.

    ``app_has_rights_of`` is an owner of tables of which it is a member, None: of none.
    """

    login: str
    login_is_superuser: bool
    app_is_superuser: bool
    app_bypasses: bool
    app_owns: int
    app_has_rights_of: str | None
    acting_as: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFacts:
    """An index of our schema; an invalid one is never used.

    ``ef_construction`` is how one over vectors was built, None for as pgvector does by itself.
    """

    name: str
    is_valid: bool
    ef_construction: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """Rows of a table as the statistics count them: those that live, and those to be vacuumed."""

    name: str
    live: int
    dead: int


def server_facts(connection: AppConnection) -> ServerFacts:
    """The server and this database."""
    with connection.cursor(row_factory=class_row(ServerFacts)) as cursor:
        facts = cursor.execute(load_queries("doctor")["server_facts"]).fetchone()
    assert facts is not None
    return facts


def role_facts(connection: AppConnection) -> RoleFacts:
    """The application's role and its login."""
    with connection.cursor(row_factory=class_row(RoleFacts)) as cursor:
        facts = cursor.execute(load_queries("doctor")["role_facts"]).fetchone()
    assert facts is not None
    return facts


def index_facts(connection: AppConnection) -> list[IndexFacts]:
    """Our indexes, by name."""
    with connection.cursor(row_factory=class_row(IndexFacts)) as cursor:
        return cursor.execute(load_queries("doctor")["index_facts"]).fetchall()


def unwalled_tables(connection: AppConnection) -> list[str]:
    """Tables of projects' rows that row-level security does not guard."""
    return [row[0] for row in connection.execute(load_queries("doctor")["unwalled_tables"])]


def row_is_visible(connection: AppConnection) -> bool:
    """Whether this transaction sees any chunk at all."""
    row = connection.execute(load_queries("doctor")["row_is_visible"]).fetchone()
    return row is not None and bool(row[0])


def lacking_rights(connection: AppConnection) -> list[str]:
    """What the application's role may not do and must, as "table RIGHT"."""
    return [row[0] for row in connection.execute(load_queries("doctor")["lacking_rights"])]


def table_facts(connection: AppConnection) -> list[TableFacts]:
    """Our tables with their counted rows, by name."""
    with connection.cursor(row_factory=class_row(TableFacts)) as cursor:
        return cursor.execute(load_queries("doctor")["table_facts"]).fetchall()


def sample_vectors(
    connection: AppConnection, project_id: int, *, limit: int
) -> list[NDArray[np.float32]]:
    """Vectors of up to ``limit`` published rows, the same at every call, from all over the ids."""
    starts = [str(UUID(int=n * (2**128 // limit))) for n in range(limit)]
    rows = connection.execute(
        load_queries("doctor")["sample_vectors"], {"project_id": project_id, "starts": starts}
    )
    return [np.asarray(row[0].to_list(), dtype=np.float32) for row in rows]
