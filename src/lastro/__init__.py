"""Lastro: retrieval you can cite, on the PostgreSQL you already run.

    from lastro import SearchRequest, build, load_settings

    with build(load_settings()) as app:
        outcome = app.search(SearchRequest(query="why HNSW and not IVFFlat"))

A name is imported when it is first asked for, so that a part of the package starts without the
rest, and the command line decides how the rest is imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastro.app import App, build
    from lastro.config import Settings, load_settings
    from lastro.entity import Entity, EntityReport
    from lastro.errors import LastroError
    from lastro.event import Event, SessionReport
    from lastro.gap import Gap
    from lastro.job import Job
    from lastro.rules import Rule, RuleContext, RuleEntry, RuleMatch, RuleReport
    from lastro.search import SearchRequest
    from lastro.types import (
        EntityOrigin,
        FileOrigin,
        Hit,
        IndexReport,
        IndexRequest,
        Outcome,
        ReindexRequest,
        SessionOrigin,
    )
    from lastro.wire import to_json

__all__ = [
    "App",
    "Entity",
    "EntityOrigin",
    "EntityReport",
    "Event",
    "FileOrigin",
    "Gap",
    "Hit",
    "IndexReport",
    "IndexRequest",
    "Job",
    "LastroError",
    "Outcome",
    "ReindexRequest",
    "Rule",
    "RuleContext",
    "RuleEntry",
    "RuleMatch",
    "RuleReport",
    "SearchRequest",
    "SessionOrigin",
    "SessionReport",
    "Settings",
    "build",
    "load_settings",
    "to_json",
]

_MODULES = {
    "App": "lastro.app",
    "Entity": "lastro.entity",
    "EntityOrigin": "lastro.types",
    "EntityReport": "lastro.entity",
    "Event": "lastro.event",
    "FileOrigin": "lastro.types",
    "Gap": "lastro.gap",
    "Hit": "lastro.types",
    "IndexReport": "lastro.types",
    "IndexRequest": "lastro.types",
    "Job": "lastro.job",
    "LastroError": "lastro.errors",
    "Outcome": "lastro.types",
    "ReindexRequest": "lastro.types",
    "Rule": "lastro.rules",
    "RuleContext": "lastro.rules",
    "RuleEntry": "lastro.rules",
    "RuleMatch": "lastro.rules",
    "RuleReport": "lastro.rules",
    "SearchRequest": "lastro.search",
    "SessionOrigin": "lastro.types",
    "SessionReport": "lastro.event",
    "Settings": "lastro.config",
    "build": "lastro.app",
    "load_settings": "lastro.config",
    "to_json": "lastro.wire",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'lastro' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
