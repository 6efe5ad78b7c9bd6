"""A project's event log: events added, read back and cited; sessions indexed, ended, removed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lastro import sessions as use_case
from lastro.event import (
    AppendReport,
    Event,
    EventPage,
    SessionReport,
    SessionSummary,
    read_events,
)
from lastro.json_lines import ReadLine
from lastro.search import Engine
from lastro.self_calibration import watch_over
from lastro.sessions import ReadEvents
from lastro.sources.event_files import read_files
from lastro.types import Progress
from lastro.writing import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """The sessions of one project, and their events.

    Errors of every method but those that add events: NotFound for the project, and for a session
    that is none of it.
    """

    engine: Engine
    project: str
    new_writer: Callable[[], Writer]

    def append(self, events: Iterable[Event]) -> AppendReport:
        """Add events, without indexing them; see ``lastro.sessions.append_events``."""
        return self._append(ReadLine(number, event) for number, event in enumerate(events, start=1))

    def append_lines(self, lines: Iterable[bytes], *, session: str | None = None) -> AppendReport:
        """Add the events of JSON Lines, without indexing them; reports the lines that are none.

        Where a ``session`` is named, lines need not say it, and those of another one are refused.
        """
        return self._append(read_events(lines, session=session))

    def import_lines(
        self, lines: Iterable[bytes], *, strict: bool = False, progress: Progress | None = None
    ) -> SessionReport:
        """Add and index the events of JSON Lines; see ``lastro.sessions.import_events``."""
        return self._import(read_events(lines), strict=strict, progress=progress)

    def import_files(
        self,
        paths: Sequence[Path],
        *,
        format_: str = "auto",
        stdin: BinaryIO | None = None,
        strict: bool = False,
        progress: Progress | None = None,
    ) -> SessionReport:
        """Add and index the events of files, one after the other; ``-`` stands for ``stdin``.

        Errors: those of ``lastro.sessions.import_events``; NotFound and InvalidInput for a file
        that is not there or cannot be read.
        """
        read = read_files(paths, format_=format_, stdin=stdin)
        return self._import(read, strict=strict, progress=progress)

    def index(
        self,
        sessions: Sequence[str] | None = None,
        *,
        rebuild: bool = False,
        progress: Progress | None = None,
    ) -> SessionReport:
        """Index the named sessions, or all, to what the log holds now."""
        return self._watched(
            use_case.index(
                self.engine.database,
                project=self.project,
                writer=self.new_writer(),
                sessions=sessions,
                rebuild=rebuild,
                progress=progress,
            )
        )

    def end(self, session: str) -> SessionReport:
        """Mark a session as ended, and index it."""
        return self._watched(
            use_case.end_session(
                self.engine.database, session, project=self.project, writer=self.new_writer()
            )
        )

    def event(self, session: str, event: str) -> Event:
        """The event that a citation names. Errors: NotFound, the same for any cause."""
        return use_case.get_session_event(
            self.engine.database, session, event, project=self.project
        )

    def events(self, session: str, *, after: int = -1, limit: int | None = None) -> Iterator[Event]:
        """A session's events of any type behind a number, in order."""
        return use_case.session_events(
            self.engine.database, session, project=self.project, after=after, limit=limit
        )

    def page(self, session: str, *, after: int = -1, limit: int) -> EventPage:
        """The first events behind a number: at most ``limit``, and fewer where they are large."""
        return use_case.page_of_events(
            self.engine.database, session, project=self.project, after=after, limit=limit
        )

    def export(self, sessions: Sequence[str] | None = None) -> Iterator[Event]:
        """Events of the named sessions, or of all, by session and number."""
        return use_case.export_sessions(
            self.engine.database, project=self.project, sessions=sessions
        )

    def remove(self, sessions: Sequence[str]) -> list[str]:
        """Delete sessions; returns those that there were. Errors: NotFound where none was."""
        return use_case.remove_sessions(self.engine.database, sessions, project=self.project)

    def get(self, session: str) -> SessionSummary:
        """A session as it is listed."""
        return use_case.get_session(
            self.engine.database, session, project=self.project, fingerprint=self._fingerprint
        )

    def list(self, *, after: str | None = None, limit: int | None = None) -> list[SessionSummary]:
        """The sessions by id, behind ``after``."""
        return use_case.list_sessions(
            self.engine.database,
            project=self.project,
            fingerprint=self._fingerprint,
            after=after,
            limit=limit,
        )

    @property
    def _fingerprint(self) -> str:
        return self.new_writer().pipeline.fingerprint

    def _append(self, read: ReadEvents) -> AppendReport:
        return use_case.append_events(self.engine.database, read, project=self.project)

    def _import(
        self, read: ReadEvents, *, strict: bool, progress: Progress | None
    ) -> SessionReport:
        return self._watched(
            use_case.import_events(
                self.engine.database,
                read,
                project=self.project,
                writer=self.new_writer(),
                strict=strict,
                progress=progress,
            )
        )

    def _watched(self, report: SessionReport) -> SessionReport:
        if report.embedding.available:
            watch_over(self.engine, project=report.project)
        return report
