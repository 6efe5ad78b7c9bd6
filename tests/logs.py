"""Sessions for tests: apps over a test's database, events, and what is stored of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lastro import session_indexing, sessions
from lastro.app import App
from lastro.config import load_settings
from lastro.db.pool import Database
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.event import Event
from lastro.profiles import DEFAULT
from lastro.search import SearchRequest
from lastro.types import SessionOrigin

PROJECT = "harbour"
OpenApp = Callable[..., App]

# Everything that is indexed of sessions, but when it was done.
INDEXED = (
    "SELECT to_jsonb(d) - 'indexed_at' FROM lastro.documents AS d ORDER BY d.id",
    "SELECT to_jsonb(c) FROM lastro.chunks AS c ORDER BY c.id",
    "SELECT to_jsonb(s) FROM lastro.lexeme_stats AS s ORDER BY language, lexeme",
    "SELECT to_jsonb(s) - 'refreshed_at' FROM lastro.corpus_stats AS s ORDER BY language",
)
LOGGED = (
    "SELECT to_jsonb(s) - 'recorded_at' - 'ended_at' FROM lastro.sessions AS s ORDER BY id",
    "SELECT to_jsonb(e) - 'recorded_at' FROM lastro.events AS e ORDER BY session_id, seq",
)


def app_maker(monkeypatch: pytest.MonkeyPatch, home: Path, owner_url: str) -> OpenApp:
    """What makes an app over ``owner_url`` for the project, with an embedder that costs nothing."""
    monkeypatch.setenv("LASTRO_HOME", str(home))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    monkeypatch.setenv("LASTRO_PROJECT", PROJECT)

    def make(*, url: str = owner_url, embedder: Any = None, max_size: int = 4) -> App:
        return App(
            load_settings(),
            database=Database(url, max_size=max_size),
            admin_url=url,
            embedder=embedder or DeterministicEmbedder(),
            profiles={DEFAULT.name: DEFAULT},
        )

    return make


def event(
    seq: int | None = 1, content: str = "", *, session: str = "talk", **changes: Any
) -> Event:
    """An event of people's talk unless ``changes`` say otherwise."""
    said: dict[str, Any] = {
        "session": session,
        "id": f"e{seq}",
        "seq": seq,
        "type": "chat.message",
        "content": content,
    }
    return Event(**(said | changes))


def found(app: App, query: str, **request: Any) -> list[tuple[str, str]]:
    """Session and event of each hit."""
    outcome = app.search(SearchRequest(query=query, k=100, max_per_document=100, **request))
    origins = [hit.origin for hit in outcome.hits]
    assert all(isinstance(origin, SessionOrigin) for origin in origins)
    return [(o.session_id, o.event_id) for o in origins if isinstance(o, SessionOrigin)]


def state(owner: psycopg.Connection, queries: tuple[str, ...]) -> list[list[Any]]:
    return [owner.execute(query.encode()).fetchall() for query in queries]


def importer(url: str, file: str, *, batch: int) -> None:
    """Import a file in steps of ``batch`` events, in a process that may be killed."""
    sessions.BATCH_EVENTS = batch
    session_indexing.BATCH_CHUNKS = batch
    with (
        App(
            load_settings(),
            database=Database(url, max_size=4),
            admin_url=url,
            embedder=DeterministicEmbedder(),
            profiles={DEFAULT.name: DEFAULT},
        ) as app,
        Path(file).open("rb") as lines,
    ):
        app.sessions(PROJECT).import_lines(lines)
