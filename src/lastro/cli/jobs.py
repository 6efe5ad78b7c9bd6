"""``lastro worker`` and ``lastro jobs``: work that is done later, and what became of it."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.text import Text

from lastro.app import App, build
from lastro.cli.hits import FAINT, INDENT
from lastro.cli.options import Format, FormatOption, ProjectOption
from lastro.cli.output import (
    escaped,
    print_data,
    print_json,
    print_step,
    print_warning,
    screen_width,
)
from lastro.cli.tables import moment, wrapped
from lastro.config import load_settings
from lastro.errors import EXIT_DONE, EXIT_FAILED, EXIT_PARTIAL, STATUS, InvalidInput
from lastro.job import LISTED_JOBS, OVER, Job, summary
from lastro.wire import to_json

app = typer.Typer(help="Work that a worker does later.")

# A blank at which no row ends.
UNBROKEN = "\N{NO-BREAK SPACE}"

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="The job.")]


@app.callback(invoke_without_command=True)
def jobs(
    context: typer.Context,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="S",
            help="Only jobs in this state; may be repeated.",
            show_default=False,
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Those of every project.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="At most so many.")
    ] = LISTED_JOBS,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """List a project's jobs, the newest first."""
    if context.invoked_subcommand is not None:
        return
    if all_ and project is not None:
        raise InvalidInput("--all and --project cannot be given together", remedy="give one")
    with build(load_settings()) as lastro:
        found = (
            lastro.all_jobs(states=state, limit=limit)
            if all_
            else lastro.jobs(project).list(states=state, limit=limit)
        )
        workers = lastro.workers()
    if any(job.state not in OVER for job in found) and not workers.live:
        _warn_of_no_worker()
    if format_ is Format.JSON:
        print_json({"jobs": to_json(found), "workers": to_json(workers)})
    else:
        print_data(_listed(found, with_project=all_) if found else ["no job"])


@app.command("show")
def show(
    id_: IdArgument, *, project: ProjectOption = None, format_: FormatOption = Format.TABLE
) -> None:
    """Show one job."""
    with build(load_settings()) as lastro:
        print_job(lastro.jobs(project).get(id_), format_)


@app.command("cancel")
def cancel(
    id_: IdArgument, *, project: ProjectOption = None, format_: FormatOption = Format.TABLE
) -> None:
    """Cancel a job; one that runs stops at its next file or batch."""
    with build(load_settings()) as lastro:
        print_job(lastro.jobs(project).cancel(id_), format_)


@app.command("retry")
def retry(
    id_: IdArgument, *, project: ProjectOption = None, format_: FormatOption = Format.TABLE
) -> None:
    """Defer again what a job did that is over, as a new job."""
    with build(load_settings()) as lastro:
        print_deferred(lastro, lastro.jobs(project).retry(id_), format_)


@app.command("refresh")
def refresh(*, project: ProjectOption = None, format_: FormatOption = Format.TABLE) -> None:
    """Have a worker count a project's words again."""
    with build(load_settings()) as lastro:
        print_deferred(lastro, lastro.jobs(project).defer("statistics"), format_)


@app.command("wait")
def wait(
    id_: IdArgument,
    *,
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout-s", metavar="N", help="At most so many seconds.", show_default=False
        ),
    ] = None,
    project: ProjectOption = None,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Return when a job is over; the exit code says how it ended."""
    with build(load_settings()) as lastro:
        jobs = lastro.jobs(project)
        if jobs.get(id_).state not in OVER and not lastro.workers().live:
            _warn_of_no_worker()
        job = jobs.wait(id_, timeout_s=timeout_s)
    print_job(job, format_)
    return _exit_code(job)


def worker(
    *,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", help="Jobs at a time, of as many projects.")
    ] = 1,
    once: Annotated[bool, typer.Option("--once", help="Run one job that is due, and end.")] = False,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="End when no job is due.")
    ] = False,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Run jobs until it is stopped (Ctrl-C, SIGTERM)."""
    from lastro.worker import WorkerOptions, run_worker

    if once and until_empty:
        raise InvalidInput("--once and --until-empty cannot be given together", remedy="give one")
    until = "one" if once else "empty" if until_empty else "stopped"
    options = WorkerOptions(concurrency=concurrency, until=until)
    counts = run_worker(load_settings(), options, say=print_step)
    ran = {name: counts.get(name, 0) for name in ("done", "partial", "failed")}
    if format_ is Format.JSON:
        print_json(ran)
    else:
        print_data([", ".join(f"{count} {name}" for name, count in ran.items())])
    return EXIT_PARTIAL if ran["failed"] else EXIT_DONE


def print_deferred(lastro: App, job: Job, format_: Format) -> None:
    """Print a job that was deferred, and warn where nobody is there to run it."""
    if not lastro.workers().live:
        _warn_of_no_worker()
    print_job(job, format_)


def print_job(job: Job, format_: Format) -> None:
    """Print a job as it stands."""
    if format_ is Format.JSON:
        print_json(to_json(job))
    else:
        print_data(_listed([job], with_project=False))


def _warn_of_no_worker() -> None:
    print_warning("no worker runs; start one with `lastro worker`")


def _exit_code(job: Job) -> int:
    """That of the same work done at once; 1 where it is cancelled, or not over."""
    if job.state == "failed" and job.error is not None:
        return STATUS[job.error.code][1]
    return {"done": EXIT_DONE, "partial": EXIT_PARTIAL}.get(job.state, EXIT_FAILED)


def _listed(found: Sequence[Job], *, with_project: bool) -> Iterator[Text]:
    for job in found:
        owner = f"{escaped(job.project)}  " if with_project else ""
        work = escaped(summary(job.kind, job.request))
        yield Text.assemble(owner, (str(job.id), "bold"), f"  {job.state}{_far(job)}  {work}")
        yield from _below(_times(job), style=FAINT)
        if job.error is not None:
            yield from _below(f"{job.error.code}: {escaped(job.error.message)}")
            if job.error.remedy is not None:
                yield from _below(escaped(job.error.remedy), style=FAINT)


def _below(text: str, *, style: str = "") -> Iterator[Text]:
    width = screen_width()
    rows = [text] if width is None else wrapped(text, width=width - len(INDENT))
    for row in rows:
        yield Text(f"{INDENT}{row.replace(UNBROKEN, ' ')}", style=style)


def _far(job: Job) -> str:
    if job.progress is None or job.state in OVER:
        return ""
    total = "" if job.progress.total is None else f" of {job.progress.total}"
    return f" {job.progress.done}{total}"


def _times(job: Job) -> str:
    told = {
        "deferred": job.deferred_at,
        "started": job.started_at,
        "finished": job.finished_at,
        "next attempt": job.next_attempt_at,
    }
    said = [f"{name} {moment(when)}" for name, when in told.items() if when is not None]
    said += [f"attempts {job.attempts}"] if job.attempts else []
    return ", ".join(one.replace(" ", UNBROKEN) for one in said)
