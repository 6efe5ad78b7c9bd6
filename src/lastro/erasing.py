"""The erase use cases: a project or single documents, gone from every table and cache.

What remains beyond SQL's reach, such as backups and the files of the server, is told in
docs/how-to/erase-a-project.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lastro import store
from lastro.counting import refresh_counts
from lastro.db.pool import Database, connect, retried
from lastro.embedders import Embedder
from lastro.errors import LastroError, NotFound
from lastro.golden import golden_set
from lastro.golden_lines import parse_questions
from lastro.projects import all_project_ids, project_named
from lastro.store import AppConnection, Kind, Project
from lastro.turns import turn
from lastro.types import OPTIONAL

# The key of an answer's place in the line of a judged question, by kind of document.
_ANSWER_KEYS: dict[Kind, str] = {"file": "path", "session": "session", "entity": "entity"}
# How a run writes such a place (golden_sets.place_text).
_SHOWN: dict[Kind, str] = {"file": "{}", "session": "session {}", "entity": "entry {}"}

ForgetSource = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What is gone. ``embeddings`` counts cached vectors, ``questions`` judged ones.

    ``events`` are those of sessions, of any type.

    ``gaps`` go with a project alone. ``vacuumed`` is False while dead rows still lie in the
    server's files; ``not_vacuumed`` says why.
    """

    project: str
    documents: int
    chunks: int
    events: int
    embeddings: int
    golden_sets: int
    questions: int
    runs: int
    gaps: int
    vacuumed: bool = False
    not_vacuumed: str | None = field(default=None, metadata=OPTIONAL)


def erase_project(
    database: Database, slug: str, *, embedder: Embedder, forget_source: ForgetSource
) -> Erased:
    """Delete a project with everything that belongs to it; waits for its index run to end.

    ``forget_source`` is called with each folder or address that no other project indexes.
    Errors: NotFound.
    """
    project = project_named(database, slug)
    everyone = all_project_ids(database)
    with turn(database, project.id):
        project_named(database, slug)  # who came before may have erased it
        with database.transaction(projects=everyone) as connection:
            roots = {s.root for s in store.project_sources(connection, project.id)}
            roots -= store.places_of_others(connection, sorted(roots), project_id=project.id)
        erased = retried(lambda: _erase_project(database, project, embedder=embedder))
        for root in sorted(roots):
            forget_source(root)
    return erased


def _erase_project(database: Database, project: Project, *, embedder: Embedder) -> Erased:
    with database.transaction(projects=[project.id]) as connection:
        counts = store.erased_counts(connection, project.id)
        embeddings = store.forget_embeddings(
            connection, project.id, prefix=embedder.prefixes["document"], documents=None
        )
        store.keep_usage_of_erased(connection, project.id)
        store.forget_queue(connection, project.id)
        store.delete_project(connection, project.id)
    return Erased(
        project=project.slug,
        documents=counts.documents,
        chunks=counts.chunks,
        events=counts.events,
        embeddings=embeddings,
        golden_sets=counts.golden_sets,
        questions=0,
        runs=counts.runs,
        gaps=counts.gaps,
    )


def erase_documents(
    database: Database,
    slug: str,
    places: Sequence[str],
    *,
    embedder: Embedder,
    kind: Kind = "file",
) -> Erased:
    """Delete the documents at ``places`` and what was made of them: paths, session ids or keys.

    With them go cached vectors that no other text of the project needs, judged questions that
    they answer, and runs that showed them. A place that the index does not hold any more is
    searched for in those as well. Errors: NotFound where nothing at all is found.
    """
    project = project_named(database, slug)
    with turn(database, project.id):
        return retried(
            lambda: _erase_documents(database, project, places, embedder=embedder, kind=kind)
        )


def _erase_documents(
    database: Database,
    project: Project,
    places: Sequence[str],
    *,
    embedder: Embedder,
    kind: Kind,
) -> Erased:
    with database.transaction(projects=[project.id]) as connection:
        found = store.documents_at(connection, places, project_id=project.id, kind=kind)
        embeddings = store.forget_embeddings(
            connection, project.id, prefix=embedder.prefixes["document"], documents=list(found)
        )
        questions = _erase_questions(connection, places, project_id=project.id, kind=kind)
        shown = [_SHOWN[kind].format(place) for place in places]
        runs = store.delete_runs_at(connection, shown, project_id=project.id)
        sessions: dict[str, int] = {}
        if kind == "session":
            sessions = store.delete_sessions(connection, places, project_id=project.id)
        if found:
            store.delete_documents(connection, found, project_id=project.id)
            refresh_counts(connection, project.id)
        elif not questions and not runs and not sessions:
            raise _nothing(project.slug, places)
        store.forget_lost_nearest(connection, project.id)
    return Erased(
        project=project.slug,
        documents=len(found),
        chunks=sum(found.values()),
        events=sum(sessions.values()),
        embeddings=embeddings,
        golden_sets=0,
        questions=questions,
        runs=runs,
        gaps=0,
    )


def vacuumed(erased: Erased, admin_url: str) -> Erased:
    """The same, with the dead rows gone from the server's files where its user may do that.

    What is erased is erased, whatever keeps the tables' owner from it: that is said.
    """
    try:
        with connect(admin_url) as connection:
            connection.autocommit = True
            if store.vacuum_erased(connection):
                return replace(erased, vacuumed=True)
            why = f"{connection.info.user} does not own the tables"
    except LastroError as error:
        why = error.message
    return replace(erased, not_vacuumed=why)


def _erase_questions(
    connection: AppConnection, places: Sequence[str], *, project_id: int, kind: Kind
) -> int:
    """Take judged questions with an answer at ``places`` out of every version of every set."""
    erased = 0
    for name, version, lines in store.every_golden_version(connection, project_id):
        kept = [line for line in lines if not _is_answered_at(line, places, kind=kind)]
        if len(kept) < len(lines):
            erased += len(lines) - len(kept)
            left = golden_set(name, parse_questions(kept, name=name) if kept else ())
            store.keep_golden_questions(connection, left, project_id=project_id, version=version)
    return erased


def _is_answered_at(line: dict[str, Any], places: Sequence[str], *, kind: Kind) -> bool:
    return any(answer.get(_ANSWER_KEYS[kind]) in places for answer in line.get("answers", ()))


def _nothing(slug: str, places: Sequence[str]) -> NotFound:
    named = places[0] if len(places) == 1 else f"{len(places)} places"
    return NotFound(
        f"the project {slug!r} holds nothing of {named!r}",
        remedy="write the path as `lastro search` shows it",
    )
