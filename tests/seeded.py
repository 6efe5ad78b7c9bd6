"""A project with one of everything that the HTTP service has a route for, and another beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from repositories import commit

from lastro.app import App, build
from lastro.config import Settings
from lastro.entity import Entity
from lastro.event import Event
from lastro.job import index_request_json
from lastro.roles import ROLES
from lastro.search import SearchRequest
from lastro.types import IndexRequest

OWN, FOREIGN = "plant", "rival"
# Nothing answers it; its gap is what the examples of /openapi.json decide on.
UNASKED = "who repairs the bicycles of the night shift"


@dataclass(frozen=True)
class Seeded:
    """Names by what they name: ``gap``, ``job``, ``key`` …, of each role's own, and keys."""

    names: Mapping[str, str]
    keys: Mapping[str, str]


def seed(settings: Settings, folder: Path) -> dict[str, Seeded]:
    """Make both projects; what a role may destroy is there once for each."""
    with build(settings) as app:
        return {project: _seed(app, folder / project, project) for project in (OWN, FOREIGN)}


def _seed(app: App, folder: Path, project: str) -> Seeded:
    commit(folder, {"docs/pump.md": f"# Pump\n\nThe pump of the {project} runs dry at noon.\n"})
    app.index(IndexRequest(path=folder, project=project))
    whose = [*ROLES, project]
    app.entities(project).upsert(
        Entity(key=f"e/{who}", title="Valve", text=f"A valve of {who}.", type="part")
        for who in whose
    )
    log = app.sessions(project)
    log.append(_said(f"s/{who}") for who in whose)
    log.index()
    app.rules(project).import_lines(
        b'{"name": "r/%b", "weight": 0.1, "reason": "it is"}' % who.encode() for who in whose
    )
    app.words(project).import_lines(b'{"protect": "W%b"}' % who.encode() for who in whose)
    app.profiles(project).adopt("default@1")
    names: dict[str, str] = {}
    for who in whose:
        names |= {f"{kind}-{who}": text for kind, text in _numbered(app, project, who).items()}
        app.profiles(project).adopt("default@1")
    app.search(SearchRequest(query=UNASKED), project=project)
    keys = {role: app.keys.create(project, role=role).key for role in ROLES}
    return Seeded(names, keys)


def _said(session: str) -> Event:
    return Event(session=session, id="e/1", seq=0, type="chat.message", content="A pump, a valve.")


def _numbered(app: App, project: str, who: str) -> dict[str, str]:
    """What is called by an id that it is given."""
    query = f"who repairs the bicycles called {who}{project}"
    gap = app.search(SearchRequest(query=query), project=project).gap_id
    assert gap is not None
    jobs = app.jobs(project)
    waiting, over = (
        jobs.defer("index", index_request_json(IndexRequest(path=f"/{who}/{at}"))).id
        for at in (1, 2)
    )
    jobs.cancel(over)
    key = app.keys.create(project, role="viewer").id
    return {"gap": gap, "job": str(waiting), "over": str(over), "key": key}
