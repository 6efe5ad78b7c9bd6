"""Lastro: retrieval you can cite, on the PostgreSQL you already run.

from lastro import SearchRequest, build, load_settings

with build(load_settings()) as app:
    outcome = app.search(SearchRequest(query="why HNSW and not IVFFlat"))

What is named here is public; everything else may change.
"""

from lastro.app import App, build
from lastro.config import Settings, load_settings
from lastro.errors import LastroError
from lastro.search import SearchRequest
from lastro.types import (
    EntityOrigin,
    FileOrigin,
    Hit,
    IndexReport,
    IndexRequest,
    Outcome,
    SessionOrigin,
)
from lastro.wire import to_json

__all__ = [
    "App",
    "EntityOrigin",
    "FileOrigin",
    "Hit",
    "IndexReport",
    "IndexRequest",
    "LastroError",
    "Outcome",
    "SearchRequest",
    "SessionOrigin",
    "Settings",
    "build",
    "load_settings",
    "to_json",
]
