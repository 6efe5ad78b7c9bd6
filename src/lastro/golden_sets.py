"""A project's golden sets: imported, listed, exported, removed, and drafted from its own texts."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lastro import store
from lastro.db.pool import Database, retried
from lastro.errors import InvalidInput, NotFound
from lastro.golden import DEFAULT_DRAFTS, Answer, GoldenSet, check_name, golden_set
from lastro.golden_lines import parse_golden, parse_questions
from lastro.judging import judged_chunks
from lastro.paging import check_limit
from lastro.places import EntityPlace, FilePlace, SessionPlace
from lastro.projects import project_id_of
from lastro.store import AppConnection, GoldenVersion
from lastro.suggesting import suggest_questions
from lastro.types import GoldenCounts, GoldenImport, GoldenSummary, NotIndexed

# As git: fewer digits are too easily two sets'.
MIN_HASH_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSets:
    """The golden sets of one project; each content of a name is a version.

    Errors of every method: NotFound for the project, and for a set that it has not.
    """

    database: Database
    project: str

    def import_file(self, file: Path, *, name: str | None = None) -> GoldenImport:
        """Add the set in a file. Errors: those of ``read_golden`` and ``add``."""
        return self.add(read_golden(file, name=name))

    def add(self, golden: GoldenSet) -> GoldenImport:
        """Store ``golden`` as the newest version of its name; nothing is done where it is already.

        Errors: InvalidInput for the name.
        """
        check_name(golden.name)
        return retried(partial(self._add, golden, project_id=self._project_id()))

    def _add(self, golden: GoldenSet, *, project_id: int) -> GoldenImport:
        with self.database.transaction(projects=[project_id]) as connection:
            store.wait_to_number(connection, project_id)
            known = store.golden_versions(connection, project_id=project_id, name=golden.name)
            is_new = not known or known[0].content_hash != golden.content_hash
            version = (
                store.insert_golden_set(connection, golden, project_id=project_id)
                if is_new
                else known[0].version
            )
            judged = judged_chunks(connection, golden, project_id=project_id)
        return GoldenImport(
            name=golden.name,
            version=version,
            content_hash=golden.content_hash,
            imported=is_new,
            counts=count_questions(golden),
            not_indexed=tuple(
                NotIndexed(id=entry.question.id, place=place_text(entry.question.answers[at]))
                for entry in judged
                for at in entry.not_indexed
            ),
        )

    def get(self, reference: str) -> GoldenSet:
        """The set that ``name`` or ``name@hash`` means. Errors: as ``find_golden``."""
        project_id = self._project_id()
        with self.database.transaction(projects=[project_id]) as connection:
            return find_golden(connection, reference, project_id=project_id)

    def suggest(self, *, limit: int = DEFAULT_DRAFTS, seed: int = 0) -> GoldenSet:
        """At most ``limit`` drafts from headings, entries, link texts and records, all derived.

        The same index and seed give the same drafts. Errors: NotFound where nothing is
        there to ask about, InvalidInput.
        """
        check_limit(limit, of="draft")
        project_id = self._project_id()
        with self.database.transaction(projects=[project_id]) as connection:
            passages = store.passages(connection, project_id)
        drafts = suggest_questions(passages, limit=limit, seed=seed)
        if not drafts:
            raise NotFound(
                f"the project {self.project!r} has no heading, link, record or entry to ask about",
                remedy="index documents with `lastro index`, or bring entries with "
                "`lastro kb import`",
            )
        return golden_set("suggested", drafts)

    def remove(self, name: str) -> int:
        """Remove a set with all its versions, and return how many there were. Errors: NotFound."""
        project_id = self._project_id()
        with self.database.transaction(projects=[project_id]) as connection:
            removed = store.delete_golden_set(connection, project_id=project_id, name=name)
            if removed == 0:
                raise _no_set(connection, name, project_id=project_id)
        return removed

    def list(self) -> list[GoldenSummary]:
        """Every version of the sets, by name and the newest first."""
        project_id = self._project_id()
        with self.database.transaction(projects=[project_id]) as connection:
            versions = store.golden_versions(connection, project_id=project_id)
        newest: dict[str, int] = {}
        for version in versions:
            newest.setdefault(version.name, version.version)
        return [
            GoldenSummary(
                name=version.name,
                version=version.version,
                content_hash=version.content_hash,
                current=version.version == newest[version.name],
                counts=GoldenCounts(
                    questions=version.questions,
                    human=version.questions - version.derived,
                    derived=version.derived,
                    unanswerable=version.unanswerable,
                ),
                languages=tuple(version.languages),
                imported_at=version.imported_at,
            )
            for version in versions
        ]

    def _project_id(self) -> int:
        return project_id_of(self.database, self.project)


def read_golden(file: Path, *, name: str | None = None) -> GoldenSet:
    """The set in a file, called as the file is unless ``name`` says otherwise.

    Errors: NotFound, InvalidGolden.
    """
    try:
        text = file.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(
            f"there is no file {file}",
            remedy="name a file of JSON Lines, or a set that `lastro golden list` shows",
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{file} is not UTF-8 (line {line})", remedy="save it as UTF-8"
        ) from error
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be read: {error.strerror}", remedy="name a file of JSON Lines"
        ) from error
    return parse_golden(text, name=name or file.stem)


def count_questions(golden: GoldenSet) -> GoldenCounts:
    """How many questions of each kind a set has."""
    derived = sum(question.derived for question in golden.questions)
    return GoldenCounts(
        questions=len(golden.questions),
        human=len(golden.questions) - derived,
        derived=derived,
        unanswerable=sum(question.unanswerable for question in golden.questions),
    )


def find_golden(connection: AppConnection, reference: str, *, project_id: int) -> GoldenSet:
    """The newest version of the set called ``reference``, or the one of ``name@hash``.

    The hash may be cut to four digits or more. Errors: NotFound, InvalidInput where the digits fit
    several contents.
    """
    name, _, digits = reference.partition("@")
    versions = store.golden_versions(connection, project_id=project_id, name=name)
    if not versions:
        raise _no_set(connection, name, project_id=project_id)
    found = _of_hash(versions, digits.lower()) if "@" in reference else versions[0]
    lines = store.golden_questions(
        connection, project_id=project_id, name=name, version=found.version
    )
    return golden_set(name, parse_questions(lines, name=name))


def _of_hash(versions: list[GoldenVersion], digits: str) -> GoldenVersion:
    name = versions[0].name
    if len(digits) < MIN_HASH_DIGITS:
        raise InvalidInput(
            f"{name}@{digits} does not say which version",
            remedy=f"give {MIN_HASH_DIGITS} or more digits of its hash; see `lastro golden list`",
        )
    fitting = [version for version in versions if version.content_hash.startswith(digits)]
    if not fitting:
        raise NotFound(
            f"the golden set {name!r} has no version {digits}",
            remedy="see `lastro golden list`",
        )
    if len({version.content_hash for version in fitting}) > 1:
        raise InvalidInput(f"{name}@{digits} fits several versions", remedy="give more digits")
    return fitting[0]


def _no_set(connection: AppConnection, name: str, *, project_id: int) -> NotFound:
    versions = store.golden_versions(connection, project_id=project_id)
    names = ", ".join(sorted({version.name for version in versions}))
    return NotFound(
        f"this project has no golden set {name!r}",
        remedy=f"it has {names}" if names else "import one with `lastro golden import FILE`",
    )


def place_text(answer: Answer) -> str:
    """A judged place as people write it."""
    match answer.place:
        case FilePlace(path=path, heading=heading, lines=lines):
            section = "" if heading is None else f"#{' > '.join(heading)}"
            span = "" if lines is None else f":{lines[0]}-{lines[1]}"
            return f"{path}{section}{span}"
        case SessionPlace(session=session, event=event):
            return f"session {session}" + ("" if event is None else f", event {event}")
        case EntityPlace(entity=entity):
            return f"entry {entity}"
