"""Routes of conversations: sessions and their events."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from lastro.app import App
from lastro.event import AppendReport, Event, SessionReport, SessionSummary, event_json
from lastro.http.answers import answer
from lastro.http.bodies import items_body, items_of
from lastro.http.pages import Page
from lastro.http.routes import Routes
from lastro.http.schemas import line_of, page_of, schema_of

AT = "/api/projects/{project}/sessions"
TAGS = ("sessions",)
EXAMPLE = [
    {"id": "e-1", "type": "chat.message", "actor": "ana", "content": "Why does the pump run dry?"},
    {"id": "e-2", "type": "agent.response", "actor": "helper", "content": "Its valve is closed."},
]


def add_session_routes(routes: Routes, app: App) -> None:
    """Sessions listed, read, added to, ended and removed."""
    _add_reading(routes, app)
    _add_writing(routes, app)


def _add_reading(routes: Routes, app: App) -> None:
    def list_sessions(project: str, page: Annotated[Page, Query()]) -> Response:
        """The project's sessions by id."""
        after = page.after_one("sessions", str)
        found = app.sessions(project).list(after=after, limit=page.looked_at)
        return page.answer("sessions", found, place=lambda session: [session.id])

    def get_session(project: str, session: str) -> Response:
        """A session as it is listed."""
        return answer(app.sessions(project).get(session))

    def list_events(project: str, session: str, page: Annotated[Page, Query()]) -> Response:
        """A session's events of any type, in their order; fewer a page where they are large."""
        after = page.after_one("events", int)
        found = app.sessions(project).page(
            session, after=-1 if after is None else after, limit=page.limit
        )
        return page.answer(
            "events",
            found.events,
            place=lambda event: [event.seq or 0],
            told=event_json,
            more=found.more,
        )

    def get_event(project: str, session: str, event: str) -> Response:
        """The event that a citation names, of any type."""
        found = app.sessions(project).event(session, event)
        return answer(event_json(found))

    event = line_of(Event, routes.definitions, optional=["payload"])
    summary = schema_of(SessionSummary, routes.definitions)
    for path, endpoint, shape in (
        (AT, list_sessions, page_of("sessions", summary)),
        (f"{AT}/{{session}}", get_session, summary),
        (f"{AT}/{{session}}/events", list_events, page_of("events", event)),
        (f"{AT}/{{session}}/events/{{event}}", get_event, event),
    ):
        routes.add("GET", path, endpoint, action="read_events", answers={200: shape}, tags=TAGS)


def _add_writing(routes: Routes, app: App) -> None:
    def append_events(project: str, session: str, request: Request) -> Response:
        """Add events, an array or lines of them, to a session, which is made where it is not there.

        They are kept when this answers, and can be searched once the session is ended. An event
        that is there already is left out; the answer lists those that were refused.
        """
        log = app.sessions(project)
        return answer(log.append_lines(items_of(request), session=session))

    def end_session(project: str, session: str) -> Response:
        """Index what the session says; it can be searched when this answers.

        More events may follow, and another end after them.
        """
        return answer(app.sessions(project).end(session))

    def delete_session(project: str, session: str) -> Response:
        """Delete a session with its events."""
        app.sessions(project).remove([session])
        return Response(status_code=204)

    # One that is no event is listed in the answer, whatever it is.
    given = {"description": "An event, as `EventLine` says; its session may be left out."}
    routes.add(
        "POST",
        f"{AT}/{{session}}/events",
        append_events,
        action="append_events",
        body=items_body(given, EXAMPLE),
        answers={200: AppendReport},
        tags=TAGS,
    )
    routes.add(
        "POST",
        f"{AT}/{{session}}/end",
        end_session,
        action="append_events",
        is_long=True,
        answers={200: SessionReport},
        tags=TAGS,
    )
    routes.add(
        "DELETE",
        f"{AT}/{{session}}",
        delete_session,
        action="append_events",
        is_long=True,
        answers={204: None},
        tags=TAGS,
    )
