"""Which project a folder or a remote repository belongs to, and what there is."""

from collections.abc import Iterable
from pathlib import Path

from lastro import store
from lastro.db.pool import Database
from lastro.errors import Conflict
from lastro.sources.addresses import Address
from lastro.store import AppConnection, Project, ProjectState
from lastro.types import ProjectSummary


def list_projects(database: Database, named: str | None = None) -> list[ProjectSummary]:
    """Every project, or the one that is named, with its counts, by name. Errors: NotFound."""
    ids = all_project_ids(database) if named is None else [project_id_of(database, named)]
    with database.transaction(projects=ids) as connection:
        return store.project_summaries(connection, ids)


def list_states(database: Database) -> list[ProjectState]:
    """Every project with its rows, and those that lack a vector, by name."""
    ids = all_project_ids(database)
    with database.transaction(projects=ids) as connection:
        return store.project_states(connection, ids)


def project_named(database: Database, slug: str) -> Project:
    """The project called ``slug``. Errors: NotFound."""
    with database.transaction() as connection:
        return store.find_project(connection, slug)


def project_id_of(database: Database, slug: str) -> int:
    """The id of a project. Errors: NotFound."""
    return project_named(database, slug).id


def all_project_ids(database: Database) -> list[int]:
    """The id of every project, by name."""
    with database.transaction() as connection:
        return [project.id for project in store.all_projects(connection)]


def project_sources(database: Database, slug: str) -> tuple[Project, list[store.Source]]:
    """A project and where its files come from. Errors: NotFound."""
    project = project_named(database, slug)
    with database.transaction(projects=[project.id]) as connection:
        return project, store.project_sources(connection, project.id)


def project_of_folder(database: Database, folder: Path) -> str:
    """The project that ``folder``, or the nearest folder above it, was indexed as.

    The folder's own name where none was.
    """
    places = [str(one) for one in (folder, *folder.parents)]
    return _indexed_as(database, places) or folder_slug(folder)


def project_of_address(database: Database, address: Address) -> str:
    """The project that a remote repository was indexed as, else the repository's own name."""
    return _indexed_as(database, [address.url]) or address.name


def project_of_place(database: Database, place: Path | Address) -> str:
    """The project of a folder or of a remote repository."""
    if isinstance(place, Path):
        return project_of_folder(database, place.resolve())
    return project_of_address(database, place)


def project_to_index(database: Database, place: str, *, name: str) -> str:
    """The project under which a folder or an address is indexed when none is named.

    ``name`` is the place's own. Errors: Conflict where it is the project of another place.
    """
    with database.transaction(projects=all_project_ids(database)) as connection:
        known = _known_as(connection, [place])
        if known is not None:
            return known
        taken = next((p for p in store.all_projects(connection) if p.slug == name), None)
        sources = store.project_sources(connection, taken.id) if taken else []
    if sources:
        raise Conflict(
            f"the project {name!r} belongs to {sources[0].root}, not to {place}",
            remedy="name another one with --project",
        )
    return name


def folder_slug(folder: Path) -> str:
    """A folder's name as a project's name."""
    return folder.name.removesuffix(".git") or "root"


def _indexed_as(database: Database, places: Iterable[str]) -> str | None:
    with database.transaction(projects=all_project_ids(database)) as connection:
        return _known_as(connection, places)


def _known_as(connection: AppConnection, places: Iterable[str]) -> str | None:
    for place in places:
        found = store.folder_projects(connection, place)
        if found:
            return found[0]
    return None
