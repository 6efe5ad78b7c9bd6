"""Runs of a project's golden sets: made, stored, found, compared, and repeated after a change."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from lastro import store
from lastro.comparing import Comparison, compare
from lastro.documents import Pipeline
from lastro.errors import InvalidInput, NotFound
from lastro.golden_evaluation import (
    corpus_of,
    identity,
    load_golden,
    run_golden,
)
from lastro.paging import check_limit
from lastro.projects import project_id_of
from lastro.runs import LISTED_RUNS, GoldenRequest, Run, changes, run_from_json
from lastro.search import Engine, profile_of
from lastro.types import Progress

# Reasons that lie in a question, and will be there again.
_OF_THE_QUESTION = frozenset({"lexical_no_terms", "lexical_sampled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a watch found; ``run`` is None where nothing changed since ``last``.

    ``comparison`` is None for the first run of a set, and where nothing changed.
    """

    last: Run | None
    run: Run | None
    comparison: Comparison | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRuns:
    """The runs of one project; each is stored under the project's next number.

    Errors of every method: NotFound for the project, a golden set, a run or a file; InvalidInput.
    """

    engine: Engine
    project: str
    pipeline: Pipeline

    def run(self, request: GoldenRequest, *, progress: Progress) -> Run:
        """Ask a golden set, and store what came; see ``run_golden`` for errors."""
        golden = load_golden(self.engine, request.golden, project=self.project)
        made = run_golden(
            self.engine,
            request,
            golden,
            project=self.project,
            pipeline=self.pipeline,
            progress=progress,
        )
        project_id = self._project_id()
        with self.engine.database.transaction(projects=[project_id]) as connection:
            number = store.insert_run(connection, made, project_id=project_id)
        return replace(made, number=number)

    def find(self, reference: str) -> Run:
        """The run of a number, or the one that a JSON file holds."""
        if not is_number(reference):
            return read_run(Path(reference))
        project_id = self._project_id()
        number = int(reference)
        found = None
        if number < 2**31:
            with self.engine.database.transaction(projects=[project_id]) as connection:
                found = store.find_run(connection, number, project_id=project_id)
        if found is None:
            raise NotFound(
                f"the project {self.project!r} has no run {reference}",
                remedy="see `lastro eval runs`",
            )
        return found

    def compare(self, before: str, after: str, *, seed: int) -> Comparison:
        """Two runs, each a number or a JSON file."""
        names = (run_name(before), run_name(after))
        return compare(self.find(before), self.find(after), names=names, seed=seed)

    def watch(self, request: GoldenRequest, *, force: bool, progress: Progress) -> Watched:
        """Repeat a golden set if anything changed since its last run under the profile's name.

        A run that had less than its index offers, as while the embedder was away, is repeated too.
        """
        golden = load_golden(self.engine, request.golden, project=self.project)
        project_id = self._project_id()
        with self.engine.database.transaction(projects=[project_id]) as connection:
            last = store.last_run(
                connection,
                project_id=project_id,
                golden_name=golden.name,
                profile_name=request.profile,
            )
        if last is not None and not force:
            present = self._present(last, request, content_hash=golden.content_hash)
            if not changes(last, present) and not _was_hampered(last):
                return Watched(last=last, run=None, comparison=None)
        made = self.run(request, progress=progress)
        if last is None:
            return Watched(last=None, run=made, comparison=None)
        names = (f"run {last.number}", f"run {made.number}")
        compared = compare(last, made, names=names, seed=request.seed)
        return Watched(last=last, run=made, comparison=compared)

    def list(self, *, limit: int = LISTED_RUNS) -> list[Run]:
        """The newest runs, the newest first. Errors: InvalidInput."""
        check_limit(limit, of="run")
        project_id = self._project_id()
        with self.engine.database.transaction(projects=[project_id]) as connection:
            return store.list_runs(connection, project_id=project_id, limit=limit)

    def _present(self, last: Run, request: GoldenRequest, *, content_hash: str) -> Run:
        """``last`` as it would be made now, apart from its results."""
        return replace(
            last,
            golden=replace(last.golden, content_hash=content_hash),
            profile=profile_of(self.engine, request.profile, project=self.project),
            k=request.k,
            corpus=corpus_of(self.engine, project=self.project, pipeline=self.pipeline),
            **identity(self.engine, self.pipeline),
        )

    def _project_id(self) -> int:
        return project_id_of(self.engine.database, self.project)


def _was_hampered(run: Run) -> bool:
    return any(set(result.degraded) - _OF_THE_QUESTION for result in run.results)


def is_number(reference: str) -> bool:
    """Whether a run is named by its number, and not by a file."""
    return reference.isascii() and reference.isdecimal()


def run_name(reference: str) -> str:
    """What a comparison calls a run."""
    return f"run {reference}" if is_number(reference) else reference


def compare_files(before: Path, after: Path, *, seed: int) -> Comparison:
    """Two runs in JSON files, without a database. Errors: NotFound, InvalidInput."""
    names = (str(before), str(after))
    return compare(read_run(before), read_run(after), names=names, seed=seed)


def read_run(file: Path) -> Run:
    """The run that ``lastro eval run --format json`` wrote. Errors: NotFound, InvalidInput."""
    try:
        found = run_from_json(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise NotFound(
            f"there is no file {file}", remedy="name a run by its number, or a file of one"
        ) from error
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{file} cannot be read as JSON: {error}",
            remedy="give a file that `lastro eval run --format json` wrote",
        ) from error
    if not found.results or len(found.by_id) < len(found.results):
        raise InvalidInput(
            f"{file} is no run: it needs results, each of another question",
            remedy="give a file that `lastro eval run --format json` wrote",
        )
    return found
