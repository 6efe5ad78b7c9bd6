"""The gaps of a project: listed, dismissed, reopened, asked again, and made golden questions."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from lastro import store
from lastro.citing import to_origin
from lastro.errors import Conflict, InvalidInput, NotFound
from lastro.filters import compile_filter
from lastro.gap import (
    GOLDEN_NAME,
    LISTED_GAPS,
    Gap,
    GapPlace,
    GapStatus,
    Nearest,
    id_digits,
    is_answered,
    is_gap,
    parts_of,
)
from lastro.golden import (
    Answer,
    GoldenQuestion,
    GoldenSet,
    answer_json,
    asked_id,
    check_name,
    golden_set,
    question_json,
)
from lastro.golden_lines import parse_questions
from lastro.golden_sets import find_golden, place_text
from lastro.judging import judged_chunks
from lastro.language import detect_language
from lastro.paging import check_limit
from lastro.places import EntityPlace, Place, parse_place, session_readings
from lastro.projects import project_id_of
from lastro.search import Engine, SearchRequest, hard_filter, search
from lastro.store import AppConnection, GapRow, HitRow
from lastro.types import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismissed:
    """Gaps that were closed, and what no gap is called."""

    dismissed: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """Gaps that wait for an answer again; those stay ``accepted`` that a golden set asks."""

    reopened: tuple[str, ...]
    accepted: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What asking again found: gaps that are answered now, and how many are open after it.

    ``degraded`` counts, by reason, the searches that could say neither; ``unknown`` is what no gap
    is called.
    """

    resolved: tuple[str, ...]
    remaining: int
    degraded: Mapping[str, int]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A gap that a golden set asks now; ``question`` is its line there.

    ``not_indexed`` are places of its answers where the index has nothing.
    """

    id: str
    golden: str
    version: int
    content_hash: str
    question: Mapping[str, Any]
    not_indexed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapLedger:
    """The gaps of one project, each called by its id or the first digits of it.

    Errors of every method: NotFound for the project, and where no gap is called so; InvalidInput
    for digits of several.
    """

    engine: Engine
    project: str

    def list(
        self,
        *,
        status: GapStatus | None = None,
        since: datetime | None = None,
        after: GapPlace | None = None,
        limit: int = LISTED_GAPS,
    ) -> list[Gap]:
        """Gaps missed at ``since`` or later, those asked most often first, then the latest.

        Those that stand behind ``after``, where it is given.
        """
        check_limit(limit, of="gap")
        project_id = self._project_id()
        with self.engine.database.transaction(projects=[project_id], snapshot=True) as connection:
            rows = store.list_gaps(
                connection, project_id, status=status, since=since, after=after, limit=limit
            )
            return list(_told(connection, rows, project_id=project_id))

    def dismiss(self, ids: Sequence[str]) -> Dismissed:
        """Close gaps that need no answer: they are counted on, and not opened again."""
        project_id = self._project_id()
        with self.engine.database.transaction(projects=[project_id]) as connection:
            found, unknown = _called(connection, ids, project_id=project_id)
            store.set_gap_status(connection, found, project_id=project_id, status="dismissed")
        return Dismissed(dismissed=tuple(map(str, found)), unknown=unknown)

    def reopen(self, ids: Sequence[str]) -> Reopened:
        """Let gaps wait for an answer again that were dismissed or resolved; open ones stay so."""
        project_id = self._project_id()
        with self.engine.database.transaction(projects=[project_id]) as connection:
            found, unknown = _called(connection, ids, project_id=project_id)
            opened = store.reopen_gaps(connection, found, project_id=project_id)
        return Reopened(
            reopened=tuple(str(id_) for id_ in found if id_ in opened),
            accepted=tuple(str(id_) for id_ in found if id_ not in opened),
            unknown=unknown,
        )

    def resolve(
        self,
        ids: Sequence[str] | None = None,
        *,
        profile: str = "default",
        progress: Progress | None = None,
    ) -> Resolved:
        """Ask every open gap again, or those of ``ids``, and close those that are answered now.

        Each is asked as it was first, in its own filter; none is that a person dismissed or
        accepted. Errors: those of ``search`` too.
        """
        project_id = self._project_id()
        unknown: tuple[str, ...] = ()
        with self.engine.database.transaction(projects=[project_id]) as connection:
            if ids is None:
                rows = store.list_gaps(connection, project_id, status="open")
            else:
                found, unknown = _called(connection, ids, project_id=project_id)
                named = store.list_gaps(connection, project_id, ids=found)
                rows = [row for row in named if row.status in {"open", "resolved"}]
        resolved: list[str] = []
        degraded: Counter[str] = Counter()
        for done, row in enumerate(rows, start=1):
            request = _request(row.query, row.filter, profile=profile)
            outcome = search(self.engine, request, project=self.project)
            if is_answered(outcome):
                with self.engine.database.transaction(projects=[project_id]) as connection:
                    if store.resolve_gap(connection, row, project_id=project_id):
                        resolved.append(str(row.id))
            elif not is_gap(outcome):
                degraded.update({part.reason for part in outcome.degraded})
            if progress is not None:
                progress(done, len(rows))
        with self.engine.database.transaction(projects=[project_id]) as connection:
            remaining = store.count_open_gaps(connection, project_id)
        return Resolved(
            resolved=tuple(resolved), remaining=remaining, degraded=degraded, unknown=unknown
        )

    def accept(
        self,
        id_: str,
        places: Sequence[str] = (),
        *,
        unanswerable: bool = False,
        grade: int = 1,
        golden: str = GOLDEN_NAME,
        language: str | None = None,
    ) -> Accepted:
        """Make a gap a question of a golden set, with its own filter, as the set's next version.

        ``places`` answer it (a path, ``path#section``, ``path:10-20``, an entry's key, a session or
        ``session#event``), or it is ``unanswerable``. ``language`` is found in the question where
        none is named.
        Errors: Conflict where the set asks it already, InvalidInput.
        """
        if bool(places) == unanswerable:
            raise InvalidInput(
                "a question is answered at a place or unanswerable, and one of them alone",
                remedy="give --place, or --unanswerable",
            )
        check_name(golden)
        project_id = self._project_id()
        with self.engine.database.transaction(projects=[project_id]) as connection:
            found, _unknown = _called(connection, [id_], project_id=project_id)
            [row] = store.list_gaps(connection, project_id, ids=found)
            named = _places(connection, places, project_id=project_id)
            line = _line(
                row,
                [Answer(place=place, grade=grade) for place in named],
                language=language or detect_language(row.query, languages=self.engine.languages),
            )
            [question] = parse_questions([line], name=golden)
            version, kept = _add(connection, question, name=golden, project_id=project_id)
            store.set_gap_status(connection, found, project_id=project_id, status="accepted")
            alone = golden_set(golden, (question,))
            [judged] = judged_chunks(connection, alone, project_id=project_id)
        return Accepted(
            id=str(row.id),
            golden=golden,
            version=version,
            content_hash=kept.content_hash,
            question=question_json(question),
            not_indexed=tuple(place_text(question.answers[at]) for at in judged.not_indexed),
        )

    def _project_id(self) -> int:
        return project_id_of(self.engine.database, self.project)


def _request(query: str, asked_in: Mapping[str, Any], *, profile: str = "default") -> SearchRequest:
    """The search that asks in a gap's filter once more."""
    scopes, path_prefix, entries = parts_of(asked_in)
    return SearchRequest(
        query=query,
        k=1,
        scopes=scopes,
        path_prefix=path_prefix,
        filter=entries,
        profile=profile,
    )


def _called(
    connection: AppConnection, ids: Sequence[str], *, project_id: int
) -> tuple[list[UUID], tuple[str, ...]]:
    """The gaps that ``ids`` call, and those of ``ids`` that call none. Errors: see GapLedger."""
    wanted = {id_digits(text): text for text in ids}
    found: dict[str, list[UUID]] = defaultdict(list)
    for digits, id_ in store.gaps_called(connection, list(wanted), project_id=project_id):
        found[digits].append(id_)
    several = next((wanted[digits] for digits, called in found.items() if len(called) > 1), None)
    if several is not None:
        raise InvalidInput(f"several gaps begin with {several}", remedy="give more digits")
    if not found:
        named = " or ".join(wanted.values()) or "without an id"
        raise NotFound(f"this project has no gap {named}", remedy="see `lastro gaps`")
    unknown = tuple(text for digits, text in wanted.items() if digits not in found)
    return list(dict.fromkeys(id_ for (id_,) in found.values())), unknown


def _line(row: GapRow, answers: Sequence[Answer], *, language: str) -> dict[str, Any]:
    """A gap as the line of a golden set; without an answer nothing is to answer it."""
    line: dict[str, Any] = {"question": row.query, "language": language}
    if row.filter:
        line["filter"] = row.filter
    if answers:
        return {**line, "answers": [answer_json(answer) for answer in answers]}
    return {**line, "unanswerable": True}


def _places(connection: AppConnection, texts: Sequence[str], *, project_id: int) -> Iterator[Place]:
    """What people write of a file, or an entry or an event that there is and no file is called."""
    paths = store.file_places(connection, project_id)
    keys = store.entity_documents(connection, texts, project_id=project_id)
    for text in texts:
        is_file = text in paths
        if text in keys and not is_file:
            yield EntityPlace(entity=text)
            continue
        session = (
            None
            if is_file
            else store.find_session_place(connection, session_readings(text), project_id=project_id)
        )
        yield session or parse_place(text, paths=paths)


def _add(
    connection: AppConnection, question: GoldenQuestion, *, name: str, project_id: int
) -> tuple[int, GoldenSet]:
    """Store a set with one more question. Errors: Conflict."""
    store.wait_to_number(connection, project_id)
    asked: tuple[GoldenQuestion, ...] = ()
    if store.golden_versions(connection, project_id=project_id, name=name):
        asked = find_golden(connection, name, project_id=project_id).questions
    if asked_id(question) in map(asked_id, asked):
        raise Conflict(
            f"the golden set {name!r} asks this already",
            remedy=f"correct it there: `lastro golden export {name}`, and import it again",
        )
    made = golden_set(name, (*asked, question))
    return store.insert_golden_set(connection, made, project_id=project_id), made


def _told(connection: AppConnection, rows: Sequence[GapRow], *, project_id: int) -> Iterator[Gap]:
    """Each gap with its nearest passage, where that may still be shown."""
    passages = _passages(connection, rows, project_id=project_id)
    for row in rows:
        nearest = None
        if row.nearest_score is not None and row.id in passages:
            nearest = Nearest(score=row.nearest_score, origin=to_origin(passages[row.id]))
        yield Gap(
            id=str(row.id),
            query=row.query,
            filter=row.filter,
            hit_count=row.hit_count,
            first_seen=row.first_seen,
            last_seen=row.last_seen,
            status=row.status,
            nearest=nearest,
        )


def _passages(
    connection: AppConnection, rows: Sequence[GapRow], *, project_id: int
) -> dict[UUID, HitRow]:
    """The nearest passage of each gap, where a search in the gap's own filter still finds it.

    Since the miss it may have become a draft, been forbidden by an attribute, or gone.
    """
    alike: dict[str, dict[UUID, UUID]] = defaultdict(dict)
    for row in rows:
        if row.nearest_chunk is not None:
            alike[json.dumps(row.filter, sort_keys=True)][row.id] = row.nearest_chunk
    seen: dict[UUID, UUID] = {}
    for asked_in, nearest in alike.items():
        hard = hard_filter(_request("", json.loads(asked_in)), project_id=project_id)
        kept = store.kept_chunks(connection, compile_filter(hard), list(nearest.values()))
        seen |= {gap: chunk for gap, chunk in nearest.items() if chunk in kept}
    passages = store.fetch_hits(connection, list(set(seen.values())), project_id=project_id)
    return {gap: passages[chunk] for gap, chunk in seen.items() if chunk in passages}
