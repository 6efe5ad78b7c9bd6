"""The composition root: settings to an ``App`` whose methods every door calls.

Parsers, file readers, the forms of secrets and the evaluation load when a method first needs them:
a third of a second of imports that a search need not wait for.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, BinaryIO

from lastro import projects
from lastro import search as searching
from lastro.adoption import ProfileVersions
from lastro.config import Settings
from lastro.db.addresses import require_owner_address
from lastro.db.embedded import EmbeddedPostgres
from lastro.db.migrate import migrate, require_current, schema_state
from lastro.db.pool import POOL_MAX_SIZE, Database, connect
from lastro.db.translation import GRANT
from lastro.embedders import Embedder, build_embedder, configured
from lastro.errors import InvalidInput, LastroError
from lastro.job import LISTED_JOBS, Job, Workers
from lastro.metering import UsageLater
from lastro.profiles import Profile, load_profiles
from lastro.recording import recorded
from lastro.search import STATEMENT_TIMEOUT_S, Engine, Observe, SearchRequest
from lastro.search_log import Dropped, SearchesLater, SearchLog, uncounted
from lastro.store import Backlog, Kind, Source
from lastro.types import (
    Check,
    Coverage,
    Evaluation,
    EvaluationRequest,
    IndexReport,
    IndexRequest,
    Outcome,
    Progress,
    ProjectSummary,
    ReindexRequest,
)

if TYPE_CHECKING:
    from lastro.calibrator import Calibrator
    from lastro.embedder_switch import EmbedderSwitch
    from lastro.erasing import Erased
    from lastro.event_log import EventLog
    from lastro.exporting import Exported, Write
    from lastro.gaps import GapLedger
    from lastro.golden_runs import GoldenRuns
    from lastro.golden_sets import GoldenSets
    from lastro.importing import Imported
    from lastro.jobs import JobBoard
    from lastro.keys import KeyRing
    from lastro.knowledge_base import KnowledgeBase
    from lastro.push import Push
    from lastro.readiness import ReasonedCheck
    from lastro.ruling import RuleBook
    from lastro.sources.clones import Clones
    from lastro.usage import Usage
    from lastro.vocabulary import WordList
    from lastro.why_findings import Why
    from lastro.writing import Writer


# A look at the state waits less for a remote repository than an index run does.
STATUS_SILENCE_S = 15.0


def _unseen(_done: int, _total: int) -> None:
    """Progress that nobody looks at."""


def _masked(text: str) -> str:
    from lastro.masking import mask

    return mask(text).text


def embedded(settings: Settings) -> EmbeddedPostgres:
    """The embedded server of these settings, not started."""
    return EmbeddedPostgres(
        settings.home, binaries=settings.postgres_bin, idle_s=settings.idle_stop_s
    )


def prepare_database(settings: Settings, *, finish: bool = False) -> int:
    """Create, start and migrate what the settings name; returns the migrations applied.

    On a server those that the former release cannot work beside wait until ``finish``, and the
    vector column and its index are made for the embedder that is set, so that indexing never needs
    the owner. Errors: DatabaseUnavailable, SchemaOutOfDate, EmbedderMismatch.
    """
    from lastro.writing import ensure_vector_column, ensure_vector_index

    url = owner_url(settings)
    applied = migrate(url, finish=finish or settings.database_url is None)
    if settings.database_url is not None:
        embedder = _embedder(settings)
        ensure_vector_column(url, embedder)
        ensure_vector_index(url)
    return applied


def waiting_migrations(settings: Settings) -> int:
    """How many steps wait until no process of the former release is left.

    Errors: DatabaseUnavailable, SchemaOutOfDate.
    """
    with connect(owner_url(settings)) as connection:
        return schema_state(connection).waiting


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


def build(
    settings: Settings,
    *,
    connections: int = POOL_MAX_SIZE,
    statement_timeout_s: float = STATEMENT_TIMEOUT_S,
) -> "App":
    """An ``App`` over the database that the settings name, with so many connections at most.

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
        database=Database(settings.database_url or admin_url, max_size=connections),
        admin_url=admin_url,
        embedder=embedder,
        profiles=profiles,
        statement_timeout_s=statement_timeout_s,
    )


def diagnose(settings: Settings) -> list[Check]:
    """Look at everything that can be in trouble; what stops the look is itself a failed check."""
    from lastro import doctor

    checks = doctor.check_machine(settings.home)
    try:
        with build(settings) as app:
            checks += doctor.examine(
                app.database,
                app.embedder,
                embedded=settings.database_url is None,
                lost_s=settings.worker_lost_s,
            )
    except LastroError as error:
        checks.append(doctor.failed("database", error))
    return checks


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
        statement_timeout_s: float = STATEMENT_TIMEOUT_S,
    ) -> None:
        self.settings = settings
        self.database = database
        self.embedder = embedder
        self.engine = Engine(
            database=database,
            embedder=embedder,
            profiles=profiles,
            languages=settings.languages,
            usage=UsageLater(database),
            statement_timeout_s=statement_timeout_s,
        )
        self._searches = SearchesLater(
            database,
            queries=settings.log_queries,
            kept_days=settings.search_log_days,
            masked=_masked,
        )
        self._admin_url = admin_url
        self._keys: KeyRing | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "App":
        self._stack.enter_context(self.database)
        if self.engine.usage is not None:
            self._stack.callback(self.engine.usage.flush)
        self._stack.callback(self._searches.flush)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._keys is not None:
            self._keys.flush()
        self._stack.close()

    def observe(self, observe: Observe, *, dropped: Dropped = uncounted) -> None:
        """Have ``observe`` told from now on how long the stages of searches take.

        ``dropped`` is told how many searches their log lacks.
        """
        self.engine = replace(self.engine, observe=observe)
        self._searches.dropped = dropped

    def search(self, request: SearchRequest, *, project: str | None = None) -> Outcome:
        """Answer a question; see ``lastro.search.search`` for errors.

        A question that nothing answers is counted as a gap, unless the request says otherwise, or
        the setting ``log_queries`` that nothing of a question is kept.
        """
        outcome, found = searching.searched(
            self.engine, request, project=self.project_name(project)
        )
        is_kept = request.record_gap and self.settings.log_queries != "off"
        if not outcome.hits and is_kept:
            outcome = recorded(self.database, outcome, request=request, found=found, masked=_masked)
        self._searches.add(request, outcome, project_id=found.project.id)
        return outcome

    def searches(self, project: str | None = None) -> SearchLog:
        """The log of a project's searches that were answered: listed."""
        self._searches.flush()
        return SearchLog(database=self.database, project=self.project_name(project))

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
        from lastro.self_calibration import watch_over

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
            watch_over(self.engine, project=report.project)
        return report

    def reindex(self, request: ReindexRequest, *, progress: Progress | None = None) -> IndexReport:
        """Index a project again from what it has; see ``lastro.reindexing.reindex`` for errors."""
        from lastro import reindexing
        from lastro.self_calibration import watch_over

        report = reindexing.reindex(
            self.database,
            replace(request, project=self.project_name(request.project)),
            writer=self.writer(),
            patterns=self.settings.files,
            progress=progress or _unseen,
            clones=self._clones(),
        )
        if report.embedding.available:
            watch_over(self.engine, project=report.project)
        return report

    def repair(
        self, project: str | None = None, *, progress: Progress | None = None
    ) -> IndexReport:
        """Embed what earlier runs could not; see ``lastro.indexing.repair`` for errors."""
        from lastro import indexing
        from lastro.self_calibration import watch_over

        report = indexing.repair(
            self.database,
            self.project_name(project),
            writer=self.writer(),
            progress=progress or _unseen,
        )
        if report.embedding.available:
            watch_over(self.engine, project=report.project)
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

    def require_walls(self) -> list[Check]:
        """Refuse a database that does not hold the service back; returns what to warn of.

        Errors: ConfigError; see ``lastro.doctor.require_walls``.
        """
        from lastro import doctor

        return doctor.require_walls(self.database, embedded=self.settings.database_url is None)

    @property
    def keys(self) -> "KeyRing":
        """API keys of every project: made, listed, revoked, rotated, and recognised."""
        from lastro.keys import KeyRing

        if self._keys is None:
            self._keys = KeyRing(self.database)
        return self._keys

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

    def defer_reindex(self, request: ReindexRequest) -> Job:
        """Have a worker do that; see ``lastro.reindexing.defer_reindex`` for errors."""
        from lastro import reindexing

        asked = replace(request, project=self.project_name(request.project))
        return reindexing.defer_reindex(self.database, asked, lost_s=self.settings.worker_lost_s)

    def readiness(self) -> "tuple[ReasonedCheck, ...]":
        """What keeps a search from being answered now; see ``lastro.readiness``."""
        from lastro.readiness import look

        return look(self.database, self.embedder)

    def backlog(self) -> Backlog:
        """What waits in all projects: gaps, jobs, and how old the index is."""
        from lastro.readiness import backlog

        return backlog(self.database)

    def keep_database_up(self) -> None:
        """Start the embedded server where it crashed, and keep it from stopping for being idle.

        One that somebody stopped stays stopped. Nothing on another server.
        Errors: ConfigError, DatabaseUnavailable.
        """
        if self.settings.database_url is None:
            server = embedded(self.settings)
            if not server.is_stopped():
                server.start()

    def defer_pushed(self, push: "Push") -> None:
        """Have every project follow a repository; see ``lastro.reindexing.defer_pushed``."""
        from lastro import reindexing

        reindexing.defer_pushed(self.database, push)

    def workers(self) -> Workers:
        """How many workers are alive."""
        from lastro import jobs

        return jobs.workers(self.database, lost_s=self.settings.worker_lost_s)

    def sessions(self, project: str | None = None) -> "EventLog":
        """A project's sessions: events added and cited; sessions indexed, ended, removed."""
        from lastro.event_log import EventLog

        return EventLog(
            engine=self.engine, project=self.project_name(project), new_writer=self.writer
        )

    def entities(self, project: str | None = None) -> "KnowledgeBase":
        """A project's knowledge-base entries: stored, read back, removed."""
        from lastro.knowledge_base import KnowledgeBase

        return KnowledgeBase(
            engine=self.engine, project=self.project_name(project), new_writer=self.writer
        )

    def rules(self, project: str | None = None) -> "RuleBook":
        """A project's rules: stored, listed, removed."""
        from lastro.ruling import RuleBook

        return RuleBook(database=self.database, project=self.project_name(project))

    def words(self, project: str | None = None) -> "WordList":
        """A project's synonyms and protected terms: added, listed, removed."""
        from lastro.vocabulary import WordList

        return WordList(database=self.database, project=self.project_name(project))

    def profiles(self, project: str | None = None) -> ProfileVersions:
        """The profiles that a project can answer with: listed, adopted, rolled back."""
        named = self._named(project)
        return ProfileVersions(
            database=self.database,
            given=self.engine.profiles,
            project=self.project_name(named),
            embedder=self.embedder.id,
            is_named=named is not None,
        )

    def golden_sets(self, project: str | None = None) -> "GoldenSets":
        """A project's golden sets: added, read back, drafted, removed."""
        from lastro.golden_sets import GoldenSets

        return GoldenSets(database=self.database, project=self.project_name(project))

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

    def golden_runs(self, project: str | None = None) -> "GoldenRuns":
        """Runs of a project's golden sets: made, listed, compared, repeated."""
        from lastro.golden_runs import GoldenRuns

        return GoldenRuns(
            engine=self.engine,
            project=self.project_name(project),
            pipeline=self.writer().pipeline,
        )

    def calibrator(self, project: str | None = None) -> "Calibrator":
        """Ranking numbers and chunk sizes of a project, chosen on questions or its own texts."""
        from lastro.calibrator import Calibrator

        return Calibrator(
            engine=self.engine,
            project=self.project_name(project),
            pipeline=self.writer().pipeline,
            patterns=self.settings.files,
            clones=self._clones(),
            admin_url=self._admin_url,
        )

    def projects(self, named: str | None = None) -> list[ProjectSummary]:
        """Every project, or the one that is named, with its counts, by name. Errors: NotFound."""
        return projects.list_projects(self.database, named)

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
        """Erase a project for good; see ``lastro.erasing.erase_project`` for errors.

        ConfigError, before anything is erased, for an owner's address that none can be.
        """
        from lastro import erasing

        require_owner_address(self._admin_url)
        erased = erasing.erase_project(
            self.database, project, embedder=self.embedder, forget_source=self._forget_source
        )
        return erasing.vacuumed(erased, self._admin_url)

    def erase_documents(
        self, places: Sequence[str], *, project: str | None = None, kind: Kind = "file"
    ) -> "Erased":
        """Erase files, sessions or entries for good; ``lastro.erasing`` has the errors.

        ConfigError, before anything is erased, for an owner's address that none can be.
        """
        from lastro import erasing

        require_owner_address(self._admin_url)
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

    def embedder_switch(self) -> "EmbedderSwitch":
        """The embedder of the database: whose vectors are searched, and the change to another."""
        from lastro.embedder_switch import EmbedderSwitch

        own_server = self.settings.database_url is not None
        return EmbedderSwitch(
            database=self.database,
            admin_url=self._admin_url,
            name=self.settings.embedder,
            embedder=self.embedder,
            pipeline=self.writer().pipeline,
            free_bytes=None if own_server else disk_usage(self.settings.home).free,
            build=lambda name: _embedder(replace(self.settings, embedder=name)),
            use=self._use_embedder,
        )

    def _use_embedder(self, name: str, embedder: Embedder) -> Engine:
        """Search and write with another embedder from now on."""
        profiles = load_profiles(self.settings.profiles, embedder=embedder.id)
        self.settings, self.embedder = replace(self.settings, embedder=name), embedder
        self.engine = replace(self.engine, embedder=embedder, profiles=profiles)
        return self.engine

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
