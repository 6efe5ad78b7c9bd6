"""The composition root: settings to an ``App`` whose methods every door calls.

Parsers, file readers and the evaluation load when a method first needs them: a third of a second
of imports that a search need not wait for.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, BinaryIO

from lastro import adoption, projects
from lastro import search as searching
from lastro.adoption import KnownProfile
from lastro.config import Settings
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.migrate import migrate, require_current
from lastro.db.pool import GRANT, Database, connect
from lastro.embedders import Embedder, build_embedder, configured
from lastro.errors import InvalidInput, LastroError
from lastro.golden import GoldenSet
from lastro.job import LISTED_JOBS, Job, Workers
from lastro.metering import UsageLater
from lastro.profiles import Profile, load_profiles
from lastro.search import Engine, SearchRequest
from lastro.store import Kind, Source
from lastro.types import (
    DEFAULT_REF,
    Check,
    Coverage,
    Evaluation,
    EvaluationRequest,
    GoldenImport,
    GoldenSummary,
    IndexReport,
    IndexRequest,
    Outcome,
    Progress,
    ProjectSummary,
)

if TYPE_CHECKING:
    from lastro.calibrating import Calibrated, CalibrationRequest, SelfCalibrated
    from lastro.chunk_sweep import Sweep, SweepRequest
    from lastro.entity import Entity, EntityReport, EntitySummary
    from lastro.erasing import Erased
    from lastro.event import AppendReport, Event, SessionReport, SessionSummary
    from lastro.exporting import Exported, Write
    from lastro.gaps import GapLedger
    from lastro.golden_runs import GoldenRuns
    from lastro.importing import Imported
    from lastro.jobs import JobBoard
    from lastro.rules import Rule, RuleReport
    from lastro.sessions import ReadEvents
    from lastro.sources.clones import Clones
    from lastro.sources.hooks import Hooks
    from lastro.switching import EmbedderRef, EmbedderStatus, SwitchReport
    from lastro.usage import Usage
    from lastro.watching import Pace, Watched
    from lastro.why_findings import Why
    from lastro.words import Word, WordReport
    from lastro.writing import Writer


# A look at the state waits less for a remote repository than an index run does.
STATUS_SILENCE_S = 15.0


def _unseen(_done: int, _total: int) -> None:
    """Progress that nobody looks at."""


def _unheard(_said: str) -> None:
    """Steps that nobody listens to."""


def embedded(settings: Settings) -> EmbeddedPostgres:
    """The embedded server of these settings, not started."""
    return EmbeddedPostgres(
        settings.home, binaries=settings.postgres_bin, idle_s=settings.idle_stop_s
    )


def prepare_database(settings: Settings) -> int:
    """Create, start and migrate what the settings name; returns the migrations applied.

    On a server the vector column and its index are made for the embedder that is set, so that
    indexing never needs the owner. Errors: DatabaseUnavailable, SchemaOutOfDate, EmbedderMismatch.
    """
    from lastro.writing import ensure_vector_column, ensure_vector_index

    url = owner_url(settings)
    applied = migrate(url)
    if settings.database_url is not None:
        embedder = _embedder(settings)
        ensure_vector_column(url, embedder)
        ensure_vector_index(url)
    return applied


def _embedder(settings: Settings) -> Embedder:
    return build_embedder(
        settings.embedder,
        cache_dir=settings.home / "cache",
        ollama_host=settings.ollama_host,
        ollama=settings.ollama,
        metering=settings.metering,
    )


def owner_url(settings: Settings) -> str:
    """Address of the tables' owner; starts the embedded server where no other is named."""
    if settings.admin_database_url or settings.database_url:
        return settings.admin_database_url or settings.database_url or ""
    return embedded(settings).start()


def build(settings: Settings) -> "App":
    """An ``App`` over the database that the settings name.

    The embedded one is created, started and migrated; on a server the schema must be there.
    Errors: ConfigError, DatabaseUnavailable, SchemaOutOfDate.
    """
    embedder = _embedder(settings)
    profiles = load_profiles(settings.profiles, embedder=embedder.id)
    admin_url = owner_url(settings)
    if settings.database_url is None:
        migrate(admin_url)
    else:
        with connect(settings.database_url, right_remedy=GRANT) as connection:
            require_current(connection)
    return App(
        settings,
        database=Database(settings.database_url or admin_url),
        admin_url=admin_url,
        embedder=embedder,
        profiles=profiles,
    )


def diagnose(settings: Settings) -> list[Check]:
    """Look at everything that can be in trouble; what stops the look is itself a failed check."""
    from lastro import doctor

    checks = doctor.check_machine(settings.home)
    try:
        with build(settings) as app:
            checks += doctor.examine(
                app.database, app.embedder, embedded=settings.database_url is None
            )
    except LastroError as error:
        checks.append(doctor.failed("database", error))
    return checks


def watch_folder(settings: Settings, request: IndexRequest, *, pace: "Pace") -> "Iterator[Watched]":
    """Index a folder now and whenever its ref, or its files, moved; never ends.

    Each run opens the database anew, so it may be away between two of them.
    Errors: NotFound and InvalidInput where there is nothing to watch at the start.
    """
    from lastro import watching
    from lastro.sources.git import head_of
    from lastro.sources.listing import require_folder
    from lastro.sources.worktree import worktree_state

    folder = require_folder(request.path)

    def look() -> str:
        if request.worktree:
            return worktree_state(folder, patterns=settings.files)
        return head_of(folder, ref=request.ref)

    def run() -> IndexReport:
        with build(settings) as app:
            return app.index(request)

    look()
    return watching.watch(look, run, pace=pace)


def install_hooks(request: IndexRequest, *, program: Path) -> "Hooks":
    """Have a folder indexed in the background by the hooks of its repository.

    ``program`` is the command ``lastro``. Errors: as ``lastro.sources.hooks.install_hooks``.
    """
    from lastro.sources import hooks
    from lastro.sources.git import check_ref

    check_ref(request.ref)
    folder = Path(request.path).resolve()
    named = [] if request.project is None else ["--project", request.project]
    at = [] if request.ref == DEFAULT_REF else ["--ref", request.ref]
    command = [str(program), "hook", "run", *named, *at, "--", str(folder)]
    return hooks.install_hooks(folder, command=command)


def remove_hooks(path: str) -> "Hooks":
    """Take the lines for a folder out of the hooks of its repository. Errors: NotFound."""
    from lastro.sources import hooks

    return hooks.remove_hooks(Path(path).resolve())


def run_hook(
    settings: Settings, request: IndexRequest, *, tell: "Callable[[Watched], None]"
) -> bool:
    """Index a folder for all hooks that ask for it meanwhile; False where another process does.

    Errors: NotFound for a folder that is in no repository.
    """
    from lastro import watching
    from lastro.sources import hooks

    folder = Path(request.path).resolve()
    wish = hooks.begin_run(folder)

    def run() -> None:
        try:
            with build(settings) as app:
                tell(watching.Watched(report=app.index(request)))
        except LastroError as error:
            tell(watching.Watched(error=error))

    return watching.run_for_all(wish, run)


class App:
    """Every use case over one database; a context manager that closes its connections."""

    def __init__(
        self,
        settings: Settings,
        *,
        database: Database,
        admin_url: str,
        embedder: Embedder,
        profiles: dict[str, Profile],
    ) -> None:
        self.settings = settings
        self.database = database
        self.embedder = embedder
        self.profiles = profiles
        self.engine = Engine(
            database=database,
            embedder=embedder,
            profiles=profiles,
            languages=settings.languages,
            usage=UsageLater(database),
        )
        self._admin_url = admin_url
        self._stack = ExitStack()

    def __enter__(self) -> "App":
        self._stack.enter_context(self.database)
        if self.engine.usage is not None:
            self._stack.callback(self.engine.usage.flush)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def search(self, request: SearchRequest, *, project: str | None = None) -> Outcome:
        """Answer a question; see ``lastro.search.search`` for errors.

        A question that nothing answers is counted as a gap, unless the request says otherwise.
        """
        outcome, found = searching.searched(
            self.engine, request, project=self.project_name(project)
        )
        if outcome.hits or not request.record_gap:
            return outcome
        from lastro.recording import recorded

        return recorded(self.database, outcome, request=request, found=found)

    def gaps(self, project: str | None = None) -> "GapLedger":
        """A project's questions that found nothing: listed, dismissed, asked again, accepted."""
        from lastro.gaps import GapLedger

        return GapLedger(engine=self.engine, project=self.project_name(project))

    def why(
        self,
        request: SearchRequest,
        *,
        expect: str,
        project: str | None = None,
        keeper: bool = False,
    ) -> "Why":
        """Where a passage fell out of a search; see ``lastro.why.why`` for errors.

        Only the ``keeper`` of a knowledge base is told of entries that the search may not see.
        """
        from lastro import why

        return why.why(
            self.engine,
            request,
            expect=expect,
            project=self.project_name(project),
            keeper=keeper,
        )

    def index(self, request: IndexRequest, *, progress: Progress | None = None) -> IndexReport:
        """Index a repository or folder; see ``lastro.indexing.index`` for errors."""
        from lastro import indexing, rebuilding

        is_part = bool(request.scopes or request.sessions)
        run = rebuilding.rebuild if is_part else indexing.index
        report = run(
            self.database,
            replace(request, project=self._named(request.project)),
            writer=self.writer(),
            patterns=self.settings.files,
            progress=progress or _unseen,
            clones=self._clones(),
        )
        if report.embedding.available:
            self._watch_over(report.project)
        return report

    def repair(
        self, project: str | None = None, *, step: Callable[[int], None] | None = None
    ) -> IndexReport:
        """Embed what earlier runs could not; see ``lastro.indexing.repair`` for errors."""
        from lastro import indexing

        report = indexing.repair(
            self.database, self.project_name(project), writer=self.writer(), step=step
        )
        if report.embedding.available:
            self._watch_over(report.project)
        return report

    def refresh_statistics(self, project: str | None = None) -> None:
        """Count a project's words again. Errors: NotFound."""
        from lastro import indexing

        indexing.refresh_statistics(self.database, self.project_name(project))

    def jobs(self, project: str | None = None) -> "JobBoard":
        """A project's jobs: deferred, listed, waited for, cancelled, tried again."""
        from lastro.jobs import JobBoard

        return JobBoard(
            database=self.database,
            project=self.project_name(project),
            lost_s=self.settings.worker_lost_s,
        )

    def all_jobs(
        self, *, states: Sequence[str] | None = None, limit: int = LISTED_JOBS
    ) -> list[Job]:
        """The jobs of every project, the newest first. Errors: InvalidInput."""
        from lastro import jobs

        return jobs.list_everywhere(
            self.database, lost_s=self.settings.worker_lost_s, states=states, limit=limit
        )

    def defer_index(self, request: IndexRequest) -> Job:
        """Have a worker index a place; see ``lastro.jobs.defer_index`` for errors."""
        from lastro import jobs

        asked = replace(request, project=self._named(request.project))
        return jobs.defer_index(self.database, asked, lost_s=self.settings.worker_lost_s)

    def workers(self) -> Workers:
        """How many workers are alive."""
        from lastro import jobs

        return jobs.workers(self.database, lost_s=self.settings.worker_lost_s)

    def upsert_entities(
        self,
        entities: "Sequence[Entity]",
        *,
        project: str | None = None,
        progress: Progress | None = None,
    ) -> "EntityReport":
        """Store knowledge-base entries; see ``lastro.entities.upsert_entities`` for errors."""
        from lastro import entities as knowledge

        report = knowledge.upsert_entities(
            self.database,
            entities,
            project=self.project_name(project),
            writer=self.writer(),
            progress=progress,
        )
        if report.embedding.available:
            self._watch_over(report.project)
        return report

    def import_entities(
        self,
        lines: Iterable[bytes],
        *,
        strict: bool = False,
        project: str | None = None,
        progress: Progress | None = None,
    ) -> "EntityReport":
        """Store the entries of JSON Lines, and report the lines that are none.

        Errors: those of ``upsert_entities``; InvalidInput where ``strict`` meets such a line, and
        then nothing is stored.
        """
        from lastro.entity import read_entities
        from lastro.json_lines import require_all

        read = read_entities(lines)
        if strict:
            require_all(read, of="entries")
        report = self.upsert_entities(read.items, project=project, progress=progress)
        return replace(report, entries=replace(report.entries, refused=read.refused))

    def delete_entities(self, keys: Sequence[str], *, project: str | None = None) -> list[str]:
        """Delete entries; returns the keys that there were. Errors: NotFound where none was."""
        from lastro import entities as knowledge

        return knowledge.delete_entities(self.database, keys, project=self.project_name(project))

    def entity(self, key: str, *, project: str | None = None) -> "Entity":
        """An entry of any status. Errors: NotFound."""
        from lastro import entities as knowledge

        return knowledge.get_entity(self.database, key, project=self.project_name(project))

    def list_entities(
        self, *, type_: str | None = None, status: str | None = None, project: str | None = None
    ) -> "list[EntitySummary]":
        """A project's entries without their texts, by key. Errors: NotFound, InvalidInput."""
        from lastro import entities as knowledge

        return knowledge.list_entities(
            self.database, project=self.project_name(project), type_=type_, status=status
        )

    def export_entities(self, project: str | None = None) -> "Iterator[Entity]":
        """A project's entries whole, by key. Errors: NotFound."""
        from lastro import entities as knowledge

        return knowledge.export_entities(self.database, project=self.project_name(project))

    def append_events(
        self, events: "Iterable[Event]", *, project: str | None = None
    ) -> "AppendReport":
        """Add events to the log, without indexing them; see ``lastro.sessions.append_events``."""
        from lastro.json_lines import ReadLine

        read = (ReadLine(number, event) for number, event in enumerate(events, start=1))
        return self._append_events(read, project=project)

    def append_event_lines(
        self, lines: Iterable[bytes], *, project: str | None = None
    ) -> "AppendReport":
        """Add the events of JSON Lines to the log, and report the lines that are none."""
        from lastro.event import read_events

        return self._append_events(read_events(lines), project=project)

    def _append_events(self, read: "ReadEvents", *, project: str | None) -> "AppendReport":
        from lastro import sessions

        return sessions.append_events(self.database, read, project=self.project_name(project))

    def import_events(
        self,
        lines: Iterable[bytes],
        *,
        strict: bool = False,
        project: str | None = None,
        progress: Progress | None = None,
    ) -> "SessionReport":
        """Store and index the events of JSON Lines; see ``lastro.sessions.import_events``."""
        from lastro.event import read_events

        return self._import_events(
            read_events(lines), strict=strict, project=project, progress=progress
        )

    def import_event_files(
        self,
        paths: Sequence[Path],
        *,
        format_: str = "auto",
        stdin: BinaryIO | None = None,
        strict: bool = False,
        project: str | None = None,
        progress: Progress | None = None,
    ) -> "SessionReport":
        """Store and index the events of files, one after the other; ``-`` stands for ``stdin``.

        Errors: those of ``lastro.sessions.import_events``; NotFound and InvalidInput for a file
        that is not there or cannot be read.
        """
        from lastro.sources.event_files import read_files

        return self._import_events(
            read_files(paths, format_=format_, stdin=stdin),
            strict=strict,
            project=project,
            progress=progress,
        )

    def _import_events(
        self,
        read: "ReadEvents",
        *,
        strict: bool,
        project: str | None,
        progress: Progress | None,
    ) -> "SessionReport":
        from lastro import sessions

        report = sessions.import_events(
            self.database,
            read,
            project=self.project_name(project),
            writer=self.writer(),
            strict=strict,
            progress=progress,
        )
        if report.embedding.available:
            self._watch_over(report.project)
        return report

    def index_sessions(
        self,
        sessions: Sequence[str] | None = None,
        *,
        rebuild: bool = False,
        project: str | None = None,
        progress: Progress | None = None,
    ) -> "SessionReport":
        """Index the named sessions, or all, to what the log holds now. Errors: NotFound."""
        from lastro import sessions as log

        report = log.index(
            self.database,
            project=self.project_name(project),
            writer=self.writer(),
            sessions=sessions,
            rebuild=rebuild,
            progress=progress,
        )
        if report.embedding.available:
            self._watch_over(report.project)
        return report

    def end_session(self, session: str, *, project: str | None = None) -> "SessionReport":
        """Mark a session as ended, and index it. Errors: NotFound."""
        from lastro import sessions

        report = sessions.end_session(
            self.database, session, project=self.project_name(project), writer=self.writer()
        )
        if report.embedding.available:
            self._watch_over(report.project)
        return report

    def session_event(self, session: str, event: str, *, project: str | None = None) -> "Event":
        """The event that a citation names. Errors: NotFound, the same for any cause."""
        from lastro import sessions

        return sessions.get_session_event(
            self.database, session, event, project=self.project_name(project)
        )

    def session_events(
        self,
        session: str,
        *,
        after: int = -1,
        limit: int | None = None,
        project: str | None = None,
    ) -> "Iterator[Event]":
        """A session's events of any type behind a number, in order. Errors: NotFound."""
        from lastro import sessions

        return sessions.session_events(
            self.database, session, project=self.project_name(project), after=after, limit=limit
        )

    def list_sessions(self, project: str | None = None) -> "list[SessionSummary]":
        """A project's sessions by id. Errors: NotFound."""
        from lastro import sessions

        return sessions.list_sessions(
            self.database,
            project=self.project_name(project),
            fingerprint=self.writer().pipeline.fingerprint,
        )

    def export_sessions(
        self, sessions: Sequence[str] | None = None, *, project: str | None = None
    ) -> "Iterator[Event]":
        """Events of the named sessions, or of all, by session and number. Errors: NotFound."""
        from lastro import sessions as log

        return log.export_sessions(
            self.database, project=self.project_name(project), sessions=sessions
        )

    def remove_sessions(self, sessions: Sequence[str], *, project: str | None = None) -> list[str]:
        """Delete sessions; returns those that there were. Errors: NotFound where none was."""
        from lastro import sessions as log

        return log.remove_sessions(self.database, sessions, project=self.project_name(project))

    def upsert_rules(self, rules: "Sequence[Rule]", *, project: str | None = None) -> "RuleReport":
        """Store rules over those of the same names; see ``lastro.ruling.upsert_rules``."""
        from lastro import ruling

        return ruling.upsert_rules(self.database, rules, project=self.project_name(project))

    def import_rules(
        self, lines: Iterable[bytes], *, strict: bool = False, project: str | None = None
    ) -> "RuleReport":
        """Store the rules of JSON Lines, and report the lines that are none.

        Errors: those of ``upsert_rules``; InvalidInput where ``strict`` meets such a line, and then
        nothing is stored.
        """
        from lastro.json_lines import require_all
        from lastro.rules import read_rules

        read = read_rules(lines)
        if strict:
            require_all(read, of="rules")
        report = self.upsert_rules(read.items, project=project)
        return replace(report, rules=replace(report.rules, refused=read.refused))

    def list_rules(self, project: str | None = None) -> "list[Rule]":
        """A project's rules by name. Errors: NotFound."""
        from lastro import ruling

        return ruling.list_rules(self.database, project=self.project_name(project))

    def remove_rules(self, names: Sequence[str], *, project: str | None = None) -> list[str]:
        """Remove rules; returns the names that there were. Errors: NotFound where none was."""
        from lastro import ruling

        return ruling.remove_rules(self.database, names, project=self.project_name(project))

    def evaluate(
        self, request: EvaluationRequest, *, progress: Progress | None = None
    ) -> Evaluation:
        """Measure ranking on a retrieval set; see ``lastro.evaluation.evaluate`` for errors."""
        from lastro.evaluation import evaluate

        return evaluate(
            self.engine,
            request,
            pipeline=self.writer().pipeline,
            admin_url=self._admin_url,
            progress=progress or _unseen,
        )

    def import_words(
        self, lines: Iterable[bytes], *, strict: bool = False, project: str | None = None
    ) -> "WordReport":
        """Add synonyms and protected terms; see ``lastro.vocabulary.import_words`` for errors."""
        from lastro import vocabulary

        return vocabulary.import_words(
            self.database, lines, project=self.project_name(project), strict=strict
        )

    def list_words(self, project: str | None = None) -> "list[Word]":
        """A project's synonyms and protected terms. Errors: NotFound."""
        from lastro import vocabulary

        return vocabulary.list_words(self.database, project=self.project_name(project))

    def remove_words(self, terms: Sequence[str], *, project: str | None = None) -> list[str]:
        """Remove terms wherever they stand; returns those there were. Errors: NotFound."""
        from lastro import vocabulary

        return vocabulary.remove_words(self.database, terms, project=self.project_name(project))

    def writer(self) -> "Writer":
        """A fresh writer of documents, with its counts at zero."""
        from lastro.documents import Pipeline
        from lastro.writing import Writer

        return Writer(
            database=self.database,
            admin_url=self._admin_url,
            embedder=self.embedder,
            pipeline=Pipeline(
                chunking=self.settings.chunking,
                languages=self.settings.languages,
                embedder=configured(self.embedder),
            ),
        )

    def known_profiles(self, project: str | None = None) -> list[KnownProfile]:
        """Every profile that a project can answer with.

        In a folder that is no project: those shipped and set. Errors: NotFound for a named project.
        """
        named = self._named(project)
        meant = self.project_name(named)
        is_known = named is not None or any(p.slug == meant for p in self.projects())
        return adoption.known_profiles(
            self.database, self.profiles, project=meant if is_known else None
        )

    def adopt_profile(self, name: str, *, project: str | None = None) -> Profile:
        """Answer with ``name@version`` from now on; see ``lastro.adoption.adopt`` for errors."""
        return adoption.adopt(
            self.database,
            self.profiles,
            name,
            project=self.project_name(project),
            embedder=self.embedder.id,
        )

    def roll_back_profile(self, name: str, *, project: str | None = None) -> Profile:
        """Undo the last adoption of ``name``; returns what answers now. Errors: NotFound."""
        return adoption.roll_back(
            self.database,
            self.profiles,
            name,
            project=self.project_name(project),
            embedder=self.embedder.id,
        )

    def import_golden(
        self, file: Path, *, name: str | None = None, project: str | None = None
    ) -> GoldenImport:
        """Store a file's golden set; see ``lastro.golden_sets.import_golden`` for errors."""
        from lastro import golden_sets

        golden = golden_sets.read_golden(file, name=name)
        return golden_sets.import_golden(self.database, self.project_name(project), golden)

    def export_golden(self, reference: str, *, project: str | None = None) -> GoldenSet:
        """The golden set called ``name`` or ``name@hash``. Errors: NotFound, InvalidInput."""
        from lastro import golden_sets

        return golden_sets.export_golden(self.database, self.project_name(project), reference)

    def list_golden(self, project: str | None = None) -> list[GoldenSummary]:
        """Every version of a project's golden sets, the newest first. Errors: NotFound."""
        from lastro import golden_sets

        return golden_sets.list_golden(self.database, self.project_name(project))

    def remove_golden(self, name: str, *, project: str | None = None) -> int:
        """Remove a golden set; returns how many versions it had. Errors: NotFound."""
        from lastro import golden_sets

        return golden_sets.remove_golden(self.database, self.project_name(project), name)

    def suggest_golden(self, *, limit: int, seed: int, project: str | None = None) -> GoldenSet:
        """Drafts of questions from a project's texts. Errors: NotFound, InvalidInput."""
        from lastro import golden_sets

        return golden_sets.suggest_golden(
            self.database, self.project_name(project), limit=limit, seed=seed
        )

    def golden_runs(self, project: str | None = None) -> "GoldenRuns":
        """Runs of a project's golden sets: made, listed, compared, repeated."""
        from lastro.golden_runs import GoldenRuns

        return GoldenRuns(
            engine=self.engine,
            project=self.project_name(project),
            pipeline=self.writer().pipeline,
        )

    def calibrate(
        self,
        request: "CalibrationRequest",
        *,
        project: str | None = None,
        progress: Progress | None = None,
    ) -> "Calibrated":
        """Choose a profile's numbers on judged questions; see ``lastro.calibrating.calibrate``."""
        from lastro.calibrating import calibrate

        return calibrate(
            self.engine,
            request,
            project=self.project_name(project),
            pipeline=self.writer().pipeline,
            admin_url=self._admin_url,
            progress=progress or _unseen,
        )

    def self_calibrate(
        self, *, adopt: bool = False, project: str | None = None
    ) -> "SelfCalibrated":
        """What a project's own texts say of its vectors, kept as a version. Errors: NotFound."""
        from lastro import calibrating

        return calibrating.keep_self(self.engine, project=self.project_name(project), adopt=adopt)

    def sweep_chunking(
        self,
        request: "SweepRequest",
        *,
        project: str | None = None,
        progress: Progress | None = None,
    ) -> "Sweep":
        """Try chunk sizes on judged questions; see ``lastro.chunk_sweep.sweep`` for errors."""
        from lastro.chunk_sweep import sweep

        return sweep(
            self.engine,
            request,
            project=self.project_name(project),
            pipeline=self.writer().pipeline,
            patterns=self.settings.files,
            admin_url=self._admin_url,
            progress=progress or _unseen,
            clones=self._clones(),
        )

    def projects(self) -> list[ProjectSummary]:
        """Every project with its counts, by name."""
        return projects.list_projects(self.database)

    def export_project(self, project: str, write: "Write", *, vectors: bool = True) -> "Exported":
        """Write a project as lines; see ``lastro.exporting.export_project`` for errors."""
        from lastro.exporting import export_project

        return export_project(self.database, project, write, vectors=vectors)

    def import_project(
        self, stream: BinaryIO, *, project: str | None = None, vectors: bool = True
    ) -> "Imported":
        """Store an exported project; see ``lastro.importing.import_project`` for errors."""
        from lastro.importing import import_project

        return import_project(
            self.database,
            stream,
            project=project,
            vectors=vectors,
            writer=self.writer(),
            admin_url=self._admin_url,
        )

    def erase_project(self, project: str) -> "Erased":
        """Erase a project for good; see ``lastro.erasing.erase_project`` for errors."""
        from lastro import erasing

        erased = erasing.erase_project(
            self.database, project, embedder=self.embedder, forget_source=self._forget_source
        )
        return erasing.vacuumed(erased, self._admin_url)

    def erase_documents(
        self, places: Sequence[str], *, project: str | None = None, kind: Kind = "file"
    ) -> "Erased":
        """Erase files, sessions or entries for good; ``lastro.erasing`` has the errors."""
        from lastro import erasing

        erased = erasing.erase_documents(
            self.database, self.project_name(project), places, embedder=self.embedder, kind=kind
        )
        return erasing.vacuumed(erased, self._admin_url)

    def usage(self, *, since: datetime | None = None, project: str | None = None) -> "Usage":
        """What embedding cost since a time, by default this month; of every project by default.

        Errors: NotFound.
        """
        from lastro.usage import usage

        if self.engine.usage is not None:
            self.engine.usage.flush()
        return usage(self.database, self.settings.metering, since=since, project=project)

    def embedder_status(self) -> "EmbedderStatus":
        """Whose vectors are searched, and how far a switch to others is."""
        from lastro import switching

        return switching.status(self.database, self.settings.embedder)

    def switch_embedder(
        self,
        name: str,
        *,
        progress: Progress | None = None,
        say: Callable[[str], None] | None = None,
    ) -> "SwitchReport":
        """Search with another embedder from now on; see ``lastro.switching.switch`` for errors.

        This ``App`` then uses it. Others must be set to it.
        """
        from lastro import self_calibration, switching

        settings = replace(self.settings, embedder=name)
        new = _embedder(settings)
        own_server = settings.database_url is not None
        report = switching.switch(
            self.database,
            admin_url=self._admin_url,
            old=self._active_embedder(),
            new=new,
            pipeline=self.writer().pipeline,
            free_bytes=None if own_server else disk_usage(settings.home).free,
            progress=progress or _unseen,
            say=say or _unheard,
        )
        self.settings, self.embedder = settings, new
        self.profiles = load_profiles(settings.profiles, embedder=new.id)
        self.engine = replace(self.engine, embedder=new, profiles=self.profiles)
        for project in self.projects():
            self_calibration.watch_over(
                self.database,
                new,
                self.profiles,
                project=project.slug,
                languages=settings.languages,
            )
        return report

    def abandon_switch(self) -> "EmbedderRef":
        """Give up a switch to another embedder; see ``lastro.switching.abandon`` for errors."""
        from lastro import switching

        return switching.abandon(self.database, self._admin_url)

    def _active_embedder(self) -> Embedder | None:
        """The embedder that made the vectors, as far as these settings can tell."""
        from lastro import switching

        active = switching.status(self.database, self.settings.embedder).active
        if active is None or active.id == self.embedder.id:
            return self.embedder
        try:
            return _embedder(replace(self.settings, embedder=active.id))
        except LastroError:
            return None  # of another release, say

    def coverage(self, project: str | None = None) -> Coverage:
        """How much of a project is indexed, and how far its sources moved on. Errors: NotFound."""
        from lastro import coverage

        return coverage.coverage(
            self.database,
            self.project_name(project),
            fingerprint=self.writer().pipeline.fingerprint,
            patterns=self.settings.files,
            clones=self._clones(longest_silence_s=STATUS_SILENCE_S),
        )

    def _clones(self, *, longest_silence_s: float | None = None) -> "Clones":
        from lastro.sources.clones import Clones, credential_from

        limit_s = self.settings.git_timeout_s
        return Clones(
            folder=self.settings.home / "cache" / "git",
            credential=credential_from(os.environ),
            timeout_s=limit_s if longest_silence_s is None else min(limit_s, longest_silence_s),
        )

    def _watch_over(self, project: str) -> None:
        from lastro import self_calibration

        self_calibration.watch_over(
            self.database,
            self.embedder,
            self.profiles,
            project=project,
            languages=self.settings.languages,
        )

    def _forget_source(self, root: str) -> None:
        from lastro.sources.addresses import parse_address

        address = parse_address(root)
        if address is not None:
            self._clones().remove(address)

    def sources(self, project: str | None = None) -> list[Source]:
        """Where a project's files come from. Errors: NotFound."""
        return projects.project_sources(self.database, self.project_name(project))[1]

    def project_name(self, named: str | None = None) -> str:
        """The project meant: named, set, or that of the current folder. Errors: InvalidInput."""
        return self._named(named) or projects.project_of_folder(self.database, Path.cwd().resolve())

    def _named(self, project: str | None) -> str | None:
        """The project that is named, or set. Errors: InvalidInput for a blank name.

        Who gives one has lost whom it acts for: it must not become the project of a setting.
        """
        if project is not None and not project.strip():
            raise InvalidInput("a project's name is blank", remedy="name it, or leave it out")
        return self.settings.project if project is None else project
