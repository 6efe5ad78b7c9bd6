"""``lastro sessions``: the event log of conversations."""

import json
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.text import Text

from lastro.app import build
from lastro.cli.erasing import YesOption, erase_documents
from lastro.cli.keeping import print_removed, print_stored, warn_of_refused
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import (
    escaped,
    print_data,
    print_json,
    print_json_lines,
    print_json_list,
    print_warning,
    progress_bar,
    screen_width,
    visible,
)
from lastro.cli.reading import STREAM
from lastro.cli.tables import counted, lacking, moment, pairs, table
from lastro.config import load_settings
from lastro.errors import EXIT_DONE, Conflict, InvalidInput
from lastro.event import (
    AppendReport,
    Event,
    EventCounts,
    SessionReport,
    event_json,
    first_line,
    parse_event,
)
from lastro.wire import to_json

app = typer.Typer(help="Conversations, kept event by event in a project.")
SHOWN_EVENTS = 50

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]


@app.command("import")
def import_(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files or folders of transcripts; - is stdin."),
    ],
    *,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="F",
            help="Of the files: auto, lastro, claude-code, codex or openai. Of the report: table "
            "or json. May be repeated.",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Store nothing if any line is refused.")
    ] = False,
    project: ProjectOption = None,
) -> int:
    """Store events, those that are new; returns when they can be searched."""
    shown_as, read_as = _formats(formats or [])
    with build(load_settings()) as lastro, progress_bar("indexing") as progress:
        report = lastro.sessions(project).import_files(
            paths, format_=read_as, stdin=_stdin(), strict=strict, progress=progress
        )
    return _print_report(report, shown_as)


def _formats(said: Sequence[str]) -> tuple[Format, str]:
    """How the report is printed and the files are read: the last word on each."""
    shown = [name for name in said if name in tuple(Format)]
    read = [name for name in said if name not in tuple(Format)]
    return Format(shown[-1]) if shown else Format.TABLE, read[-1] if read else "auto"


def _stdin() -> BinaryIO | None:
    # None where it was closed before the command began
    return None if sys.stdin is None else sys.stdin.buffer


@app.command("append")
def append(
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="The session; - reads lines from stdin.")
    ],
    *,
    type_: Annotated[str, typer.Option("--type", metavar="T", help="Its type.")] = "chat.message",
    content: Annotated[str, typer.Option("--content", metavar="TEXT", help="What it says.")] = "",
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="By default a new one.", show_default=False),
    ] = None,
    seq: Annotated[
        int | None,
        typer.Option("--seq", metavar="N", help="By default the next one.", show_default=False),
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option("--actor", metavar="A", help="Who it comes from.", show_default=False),
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="JSON", help="An object.", show_default=False),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="TIME", help="When it was, in ISO 8601.", show_default=False
        ),
    ] = None,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Add one event to the log, or the lines of stdin, without indexing them."""
    with build(load_settings()) as lastro:
        if session == str(STREAM):
            return _print_appended(lastro.sessions(project).append_lines(_stdin_lines()), format_)
        said = {
            "session": session,
            "id": id_ or str(uuid.uuid4()),
            "seq": seq,
            "type": type_,
            "actor": actor,
            "content": content,
            "payload": _payload(payload),
            "time": time,
        }
        event = parse_event(said)
        log = lastro.sessions(project)
        report = log.append([event])
        for refused in report.events.refused:
            raise Conflict(refused.reason, remedy="give it another id or no --seq")
        stored = log.event(session, event.id)
    if format_ is Format.JSON:
        print_json(event_json(stored))
    else:
        print_data([f"{escaped(stored.session)}#{escaped(stored.id)} at {stored.seq}"])
    return EXIT_DONE


def _print_appended(report: AppendReport, format_: Format) -> int:
    said = [
        Text.assemble("project ", (escaped(report.project), "bold")),
        Text(f"events     {_counted(report.events)}"),
    ]
    return print_stored(report, said, refused=report.events.refused, format_=format_)


def _stdin_lines() -> BinaryIO:
    stdin = _stdin()
    if stdin is None:
        raise InvalidInput("standard input is closed", remedy="give the event with --content")
    return stdin


def _payload(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"--payload is not JSON: {error}", remedy="""write it as '{"tool": "grep"}'"""
        ) from error


def _counted(counts: EventCounts) -> str:
    refused = f", {len(counts.refused)} refused" if counts.refused else ""
    masked = f"; {counted(counts.masked, 'secret')} masked" if counts.masked else ""
    return f"{counts.added} added, {counts.unchanged} there already{refused}{masked}"


@app.command("event")
def event(
    session: SessionArgument,
    event_id: Annotated[str, typer.Argument(metavar="EVENT", help="The event's id.")],
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Show the event that a citation names, whole."""
    with build(load_settings()) as lastro:
        found = lastro.sessions(project).event(session, event_id)
    if format_ is Format.JSON:
        print_json(event_json(found))
    else:
        print_data(_shown(found))


def _shown(found: Event) -> Iterator[Text]:
    said = {name: value for name, value in event_json(found).items() if value is not None}
    content = said.pop("content")
    if "payload" in said:
        said["payload"] = json.dumps(said["payload"], ensure_ascii=False)
    yield pairs(said)
    yield Text()
    yield Text(visible(content))


@app.command("list")
def list_(*, project: ProjectOption = None, format_: FormatOption = Format.TABLE) -> None:
    """List the sessions of a project."""
    with build(load_settings()) as lastro:
        found = lastro.sessions(project).list()
    if format_ is Format.JSON:
        print_json({"sessions": to_json(found)})
        return
    rows = [
        (s.id, s.title, s.events, s.chunks, s.current, s.complete, moment(s.started_at),
         moment(s.ended_at))
        for s in found
    ]  # fmt: skip
    header = (
        "session", "title", "events", "chunks", "current", "complete", "started at", "ended at",
    )  # fmt: skip
    nothing = "no session; store some with `lastro sessions import PATH`"
    print_data(table(header, rows, width=screen_width()) if rows else [nothing])


@app.command("show")
def show(
    session: SessionArgument,
    *,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", help="Only events behind this number.")
    ] = -1,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="At most so many events.")
    ] = SHOWN_EVENTS,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Show the events of a session in their order."""
    with build(load_settings()) as lastro:
        found = list(lastro.sessions(project).events(session, after=after, limit=limit + 1))
    shown, has_more = found[:limit], len(found) > limit
    if format_ is Format.JSON:
        print_json({"events": [event_json(one) for one in shown], "more": has_more})
        return
    rows = [(e.seq, moment(e.time), e.type, e.actor, e.id, first_line(e.content)) for e in shown]
    header = ("seq", "time", "type", "actor", "id", "says")
    print_data(table(header, rows, width=screen_width()) if rows else ["no event there"])
    if has_more:
        print_warning(f"there are more; see them with --after {shown[-1].seq}")


@app.command("end")
def end(
    session: SessionArgument,
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Mark a session as ended, and index it; returns when it can be searched."""
    with build(load_settings()) as lastro:
        report = lastro.sessions(project).end(session)
    return _print_report(report, format_)


@app.command("index")
def index(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SESSION...]", help="By default all.", show_default=False),
    ] = None,
    *,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make every chunk again.")] = False,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Bring the index of sessions to what the log holds now."""
    with build(load_settings()) as lastro, progress_bar("indexing") as progress:
        report = lastro.sessions(project).index(
            sessions or None, rebuild=rebuild, progress=progress
        )
    return _print_report(report, format_)


def _print_report(report: SessionReport, format_: Format) -> int:
    code = EXIT_DONE if report.events is None else warn_of_refused(report.events.refused)
    if report.embedding.reason is not None:
        print_warning(
            f"{lacking(report.embedding.skipped, report.embedding.reason)}; "
            "complete them with `lastro sessions index`"
        )
    if format_ is Format.JSON:
        print_json(to_json(report))
    else:
        print_data(_said(report))
    return code


def _said(report: SessionReport) -> Iterator[Text]:
    yield Text.assemble("project ", (escaped(report.project), "bold"))
    if report.events is not None:
        yield Text(f"events     {_counted(report.events)}")
    counts = report.sessions
    yield Text(
        f"sessions   {counts.added} added, {counts.changed} changed, {counts.unchanged} unchanged"
    )
    yield Text(
        f"chunks     {report.chunks} in all; {report.embedding.embedded} embedded, "
        f"{report.embedding.skipped} left without a vector"
    )
    yield Text(f"took       {report.took_ms / 1000:.1f} s")


@app.command("export")
def export(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SESSION...]", help="By default all.", show_default=False),
    ] = None,
    *,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Print events as JSON Lines, ready to be imported again."""
    with build(load_settings()) as lastro:
        events = lastro.sessions(project).export(sessions or None)
        if format_ is Format.JSON:
            print_json_list("events", map(event_json, events))
        else:
            print_json_lines(map(event_json, events))


@app.command("rm")
def remove(
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION...", help="The sessions.")],
    *,
    erase: Annotated[
        bool, typer.Option("--erase", help="For good: from caches, golden sets and runs too.")
    ] = False,
    yes: YesOption = False,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Delete sessions with their events and chunks, or erase them for good."""
    with build(load_settings()) as lastro:
        if erase:
            erase_documents(
                lastro, sessions, kind="session", project=project, yes=yes, format_=format_
            )
            return EXIT_DONE
        removed = lastro.sessions(project).remove(sessions)
    return print_removed(removed, sessions, noun="session", format_=format_)
