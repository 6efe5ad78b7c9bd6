"""Projects and their sources: rows of ``projects`` and ``sources``, and a project's turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from lastro.db.own_project import own_project
from lastro.db.pool import AppConnection
from lastro.errors import NotFound
from lastro.sql import load_queries
from lastro.types import FileNote, ProjectSummary, Scope

# Arbitrary, fixed: name space of the advisory locks of projects' turns.
_PROJECT_LOCKS = 7_125
# And of those that versions and runs are numbered under.
_NUMBER_LOCKS = 7_126
# A repository's folder at a ref, a folder as its files lie, or a remote repository at a ref.
SourceKind = Literal["repository", "worktree", "remote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A tenant."""

    id: int
    slug: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a project's files come from; ``revision`` and ``indexed_at`` are stored facts.

    ``root`` is a folder, or the address of a remote one.
    """

    name: str
    kind: SourceKind
    root: str
    ref: str | None
    revision: str | None
    indexed_at: datetime | None
    skipped: list[dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSource:
    """A remote repository that a project indexes at a ref; None is its default branch."""

    project_id: int
    root: str
    ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectState:
    """A project with its rows, and how many of them lack a vector, as the doctor counts them."""

    id: int
    slug: str
    chunks: int
    without_vector: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeCounts:
    """What the index holds of one scope of a project."""

    scope: Scope
    indexed: int
    with_vectors: int
    incomplete: int
    chunks: int


def find_project(connection: AppConnection, slug: str) -> Project:
    """The project called ``slug``. Errors: NotFound, also where work keeps to another one."""
    with connection.cursor(row_factory=class_row(Project)) as cursor:
        found = cursor.execute(load_queries("projects")["find_project"], {"slug": slug}).fetchone()
    if found is None or not is_within_work(found.id):
        raise no_such_project(slug)
    return found


def is_within_work(project_id: int) -> bool:
    """Whether present work, which may keep to one project, knows of this one."""
    return own_project() in {None, project_id}


def no_such_project(slug: str) -> NotFound:
    """The error for a name that no project has."""
    return NotFound(
        f"there is no project {slug!r}",
        remedy="see `lastro projects`, or make it with `lastro index PATH`",
    )


def create_project(connection: AppConnection, slug: str) -> Project | None:
    """A new project called ``slug``; None where there is one already."""
    with connection.cursor(row_factory=class_row(Project)) as cursor:
        return cursor.execute(load_queries("projects")["create_project"], {"slug": slug}).fetchone()


def ensure_project(connection: AppConnection, slug: str) -> Project:
    """The project called ``slug``, created where it is missing.

    Errors: NotFound where work keeps to another one.
    """
    if own_project() is not None:
        return find_project(connection, slug)
    return create_project(connection, slug) or find_project(connection, slug)


def all_projects(connection: AppConnection) -> list[Project]:
    """Every project, by name."""
    with connection.cursor(row_factory=class_row(Project)) as cursor:
        return cursor.execute(load_queries("projects")["all_projects"]).fetchall()


def project_summaries(
    connection: AppConnection, project_ids: Sequence[int]
) -> list[ProjectSummary]:
    """What is listed of the named projects, by name; they must be visible to the transaction."""
    rows = connection.execute(
        load_queries("projects")["project_summaries"], {"projects": list(project_ids)}
    )
    return [
        ProjectSummary(
            slug=slug,
            name=name,
            scopes=tuple(scopes),
            revision=revision,
            documents=documents,
            chunks=chunks,
            indexed_at=indexed_at,
        )
        for slug, name, scopes, revision, documents, chunks, indexed_at in rows
    ]


def project_states(connection: AppConnection, project_ids: Sequence[int]) -> list[ProjectState]:
    """Counts of the named projects, by name; they must be visible to the transaction."""
    with connection.cursor(row_factory=class_row(ProjectState)) as cursor:
        return cursor.execute(
            load_queries("projects")["project_states"], {"projects": list(project_ids)}
        ).fetchall()


def wait_to_number(connection: AppConnection, project_id: int) -> None:
    """Wait until nobody else gives this project's next number, or adds to its words or rules."""
    connection.execute(
        load_queries("projects")["wait_to_number"],
        {"space": _NUMBER_LOCKS, "project_id": project_id % 2**31},
    )


def lock_project(connection: AppConnection, project_id: int) -> bool:
    """Take this session's turn to change the project; False where it had to be waited for."""
    queries = load_queries("projects")
    key = _lock_key(project_id)
    row = connection.execute(queries["try_lock_project"], key).fetchone()
    if row is not None and row[0]:
        return True
    connection.execute(queries["wait_for_project"], key)
    return False


def unlock_project(connection: AppConnection, project_id: int) -> None:
    """Give the turn back."""
    connection.execute(load_queries("projects")["unlock_project"], _lock_key(project_id))


def project_is_locked(connection: AppConnection, project_id: int) -> bool:
    """Whether some session has its turn now."""
    row = connection.execute(
        load_queries("projects")["project_is_locked"], _lock_key(project_id)
    ).fetchone()
    return row is not None and bool(row[0])


def _lock_key(project_id: int) -> dict[str, int]:
    """The two integers of a project's lock; an id is larger than one of them holds."""
    return {"space": _PROJECT_LOCKS, "project_id": project_id % 2**31}


def scope_counts(connection: AppConnection, project_id: int) -> list[ScopeCounts]:
    """Documents and chunks of a project by scope."""
    with connection.cursor(row_factory=class_row(ScopeCounts)) as cursor:
        return cursor.execute(
            load_queries("projects")["scope_counts"], {"project_id": project_id}
        ).fetchall()


def project_sources(connection: AppConnection, project_id: int) -> list[Source]:
    """The sources of a project, by name."""
    with connection.cursor(row_factory=class_row(Source)) as cursor:
        return cursor.execute(
            load_queries("projects")["project_sources"], {"project_id": project_id}
        ).fetchall()


def remote_sources(connection: AppConnection, project_ids: Sequence[int]) -> list[RemoteSource]:
    """Remote repositories of the named projects; they must be visible to the transaction."""
    with connection.cursor(row_factory=class_row(RemoteSource)) as cursor:
        return cursor.execute(
            load_queries("projects")["remote_sources"], {"projects": list(project_ids)}
        ).fetchall()


def folder_projects(connection: AppConnection, root: str) -> list[str]:
    """The name of each visible project that indexes ``root``, the last indexed first."""
    rows = connection.execute(load_queries("projects")["folder_projects"], {"root": root})
    return [row[0] for row in rows]


def save_source(
    connection: AppConnection,
    *,
    project_id: int,
    name: str,
    kind: SourceKind,
    root: str,
    ref: str | None,
    revision: str | None,
    skipped: Sequence[FileNote],
    finished: bool,
) -> None:
    """Record a source; revision, time and skipped files move only when a run ``finished``."""
    notes = [{"path": note.path, "reason": note.reason} for note in skipped]
    connection.execute(
        load_queries("projects")["save_source"],
        {
            "project_id": project_id,
            "name": name,
            "kind": kind,
            "root": root,
            "ref": ref,
            "revision": revision,
            "skipped": Jsonb(notes),
            "finished": finished,
        },
    )
