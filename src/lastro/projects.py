"""Which project a folder belongs to, and what there is."""

from collections.abc import Iterable
from pathlib import Path

from lastro import store
from lastro.db.pool import Database
from lastro.errors import Conflict
from lastro.store import AppConnection, Project, ProjectState
from lastro.types import ProjectSummary


def list_projects(database: Database) -> list[ProjectSummary]:
    """Every project with its counts, by name."""
    return [
        ProjectSummary(
            slug=state.slug,
            name=state.name,
            scopes=tuple(state.scopes),
            revision=state.revision,
            documents=state.documents,
            chunks=state.chunks,
            indexed_at=state.indexed_at,
        )
        for state in list_states(database)
    ]


def list_states(database: Database) -> list[ProjectState]:
    """Every project with all that is counted of it, by name."""
    ids = _all_ids(database)
    with database.transaction(projects=ids) as connection:
        return store.project_states(connection, ids)


def project_sources(database: Database, slug: str) -> tuple[Project, list[store.Source]]:
    """A project and where its files come from. Errors: NotFound."""
    with database.transaction() as connection:
        project = store.find_project(connection, slug)
    with database.transaction(projects=[project.id]) as connection:
        return project, store.project_sources(connection, project.id)


def project_of_folder(database: Database, folder: Path) -> str:
    """The project that ``folder``, or the nearest folder above it, was indexed as.

    The folder's own name where none was.
    """
    with database.transaction(projects=_all_ids(database)) as connection:
        known = _known_as(connection, (folder, *folder.parents))
    return known or folder_slug(folder)


def project_to_index(database: Database, root: Path) -> str:
    """The project under which ``root`` is indexed when none is named.

    Errors: Conflict where the folder's name is the project of another folder.
    """
    slug = folder_slug(root)
    with database.transaction(projects=_all_ids(database)) as connection:
        known = _known_as(connection, [root])
        if known is not None:
            return known
        taken = next((p for p in store.all_projects(connection) if p.slug == slug), None)
        sources = store.project_sources(connection, taken.id) if taken else []
    if sources:
        raise Conflict(
            f"the project {slug!r} belongs to {sources[0].root}, not to {root}",
            remedy="name another one with --project",
        )
    return slug


def folder_slug(folder: Path) -> str:
    """A folder's name as a project's name."""
    return folder.name.removesuffix(".git") or "root"


def _known_as(connection: AppConnection, folders: Iterable[Path]) -> str | None:
    for folder in folders:
        found = store.folder_projects(connection, str(folder))
        if found:
            return found[0][0]
    return None


def _all_ids(database: Database) -> list[int]:
    with database.transaction() as connection:
        return [project.id for project in store.all_projects(connection)]
