"""Knowledge bases drawn by a seed, and what a search of them may show: for tests and ``soak``.

Every shelf stands twice: whole, with drafts, archived entries and another project's, and bare, with
nothing but what is published. Whatever can be asked must be answered by both alike, to the byte.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from databases import address, scratch_database
from psycopg import ClientCursor
from psycopg.sql import SQL

from lastro import store
from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.entities import delete_entities, list_entities, upsert_entities
from lastro.entity import Entity
from lastro.entity_rows import prepare_entity
from lastro.entry_filter import parse_filter, parse_moment
from lastro.filters import HardFilter, compile_filter
from lastro.profiles import SHIPPED
from lastro.search import Engine, SearchRequest, find, search
from lastro.types import EntityOrigin, Outcome
from lastro.why import why
from lastro.wire import to_json
from lastro.writing import Writer

OURS, THEIRS = "ours", "theirs"
# Few values, so that filters and entries meet often.
KEYS = ("colour", "size", "due")
VALUES = (
    "red", "blue", "Red", "", "1", 1, 1.0, 2.5, -3, 10**18, True, False,
    "2026-03-01", "2026-03-01T12:00:00+02:00", "2026-02-30", "soon",
)  # fmt: skip
BOUNDS = (0, 1, 2.5, -3)
DATES = ("2026-03-01", "2026-03-01T10:00:00Z", "2027-01-01")
TYPES = ("dress", "shoe")
WORDS = (
    "linen",
    "wedding",
    "garden",
    "light",
    "wool",
    "winter",
    "button",
    "seam",
    "pocket",
    "silk",
)
# No date that passes: two searches are never at the same moment.
TIMES = (None, datetime(2999, 1, 1, tzinfo=UTC))
PUBLISHED, HIDDEN = 30, 15
FILTERS_AT_ONCE = 50
READ = SQL("ARRAY(SELECT entity_key FROM lastro.searchable WHERE {filter})")
STATISTICS = (
    "SELECT to_jsonb(s) FROM lastro.lexeme_stats AS s ORDER BY language, lexeme",
    "SELECT to_jsonb(s) - 'refreshed_at' FROM lastro.corpus_stats AS s ORDER BY language",
    "SELECT to_jsonb(s) - 'refreshed_at' FROM lastro.vector_scale AS s",
)


# --- the page of semantics in plain Python


def lets_through(said: Mapping[str, Any], type_: str, attributes: Mapping[str, Any]) -> bool:
    """What docs/reference/filters.md says, over JSON texts: there 1 and true differ."""

    def clause(part: str, key: str, asked: Any) -> bool:
        value = attributes.get(key)
        wanted = {token(one) for one in (asked if isinstance(asked, list) else [asked])}
        is_list = isinstance(value, list)
        held = (
            {token(one) for one in (value if is_list else [value])} if value is not None else set()
        )
        if part == "require":
            return wanted <= held
        if part == "allow":
            return not held or bool(wanted & held)
        if part == "forbid":
            return not wanted & held
        return not is_list and bool(wanted & held)

    return ("types" not in said or type_ in said["types"]) and all(
        clause(part, key, asked)
        for part in ("require", "allow", "forbid", "equals")
        for key, asked in said.get(part, {}).items()
    ) and all(
        in_range(attributes.get(key), limits) for key, limits in said.get("range", {}).items()
    )  # fmt: skip


def token(value: Any) -> tuple[str, Any]:
    return (kind(value), Decimal(str(value)) if kind(value) == "number" else value)


def kind(value: Any) -> str:
    """Python takes 1 for True, which JSON does not."""
    return "number" if type(value) in {int, float} else type(value).__name__


def in_range(value: Any, limits: Mapping[str, Any]) -> bool:
    comparable: Any = None
    if isinstance(next(iter(limits.values())), str):
        comparable = parse_moment(value) if isinstance(value, str) else None
        ends = {name: parse_moment(end) for name, end in limits.items()}
    else:
        comparable = Decimal(str(value)) if kind(value) == "number" else None
        ends = {name: Decimal(str(end)) for name, end in limits.items()}
    if comparable is None:
        return False
    compare = {
        "gte": lambda end: comparable >= end,
        "gt": lambda end: comparable > end,
        "lte": lambda end: comparable <= end,
        "lt": lambda end: comparable < end,
    }
    return all(compare[name](end) for name, end in ends.items())


# --- draws


def draw_filter(dice: random.Random) -> dict[str, Any]:
    parts = dice.sample(["types", "require", "allow", "forbid", "equals", "range"],
                        k=dice.choice([0, 1, 1, 1, 2, 2, 3]))  # fmt: skip
    said: dict[str, Any] = {}
    for part in parts:
        keys = dice.sample(KEYS, k=dice.choice([1, 1, 2]))
        if part == "types":
            said[part] = dice.sample([*TYPES, "hat"], k=dice.choice([1, 2]))
        elif part == "range":
            said[part] = {key: _bounds(dice) for key in keys}
        else:
            said[part] = {key: _some(dice, least=1) for key in keys}
    return said


def _bounds(dice: random.Random) -> dict[str, Any]:
    ends = dice.choice([BOUNDS, DATES])
    operators = dice.sample(["gte", "gt", "lte", "lt"], k=dice.choice([1, 2]))
    return {operator: dice.choice(ends) for operator in operators}


def _some(dice: random.Random, *, least: int) -> Any:
    if dice.random() < 0.5:
        return dice.choice(VALUES)
    return [dice.choice(VALUES) for _ in range(dice.randint(least, 3))]


def draw_entity(dice: random.Random, key: str, *, status: Any) -> Entity:
    attributes = {
        name: None if dice.random() < 0.1 else _some(dice, least=0)
        for name in dice.sample(KEYS, k=dice.randint(0, 3))
    }
    return Entity(
        key=key,
        title=" ".join(dice.sample(WORDS, k=2)),
        text=" ".join(dice.choices(WORDS, k=dice.randint(2, 12))) + ".",
        type=dice.choice(TYPES),
        status=status,
        attributes=attributes,
        rule_weight=dice.choice([0.0, 0.0, 0.5, -1.0]),
        effective_at=dice.choice(TIMES),
    )


def draw_query(dice: random.Random, shown: Sequence[Entity], hidden: Sequence[Entity]) -> str:
    """Words, or just what is embedded of an entry: then that one is at distance 0."""
    if dice.random() < 0.5:
        return " ".join(dice.sample(WORDS, k=dice.randint(1, 4)))
    entity = dice.choice(hidden if dice.random() < 0.7 else shown)
    return f"{entity.title}\n{entity.text}"


# --- a shelf, and what it answers


class Shelf:
    """A database of entries, in which project OURS is asked."""

    def __init__(self, url: str, database: Database) -> None:
        self.url, self.database = url, database
        self.embedder = DeterministicEmbedder()
        self.engine = Engine(
            database=database, embedder=self.embedder, profiles=SHIPPED, languages=("en",)
        )

    @property
    def writer(self) -> Writer:
        return Writer(
            database=self.database,
            admin_url=self.url,
            embedder=self.embedder,
            pipeline=Pipeline(
                chunking=ChunkSettings(), languages=("en",), embedder=fingerprint(self.embedder)
            ),
        )

    def replace(self, entities: Sequence[Entity], *, project: str) -> None:
        """Let ``project`` hold these entries and no other."""
        with self.database.transaction() as connection:
            store.ensure_project(connection, project)
        old = {summary.key for summary in list_entities(self.database, project=project)}
        gone = sorted(old - {entity.key for entity in entities})
        if gone:
            delete_entities(self.database, gone, project=project)
        upsert_entities(self.database, entities, project=project, writer=self.writer)

    def add_uncounted(self, entities: Sequence[Entity]) -> None:
        """Store entries as a run does, and stop before its statistics are refreshed."""
        writer, project_id = self.writer, self.project_id
        writer.require_embedder()
        prepared = [prepare_entity(e, writer.pipeline, project_id=project_id) for e in entities]
        writer.write(prepared, project_id=project_id, stale=())
        writer.settle()

    def refresh(self) -> None:
        with self.database.transaction(projects=[self.project_id]) as connection:
            store.refresh_statistics(connection, self.project_id)

    def statistics(self) -> list[list[Any]]:
        """All that scores are made of, and any reader of the project may see."""
        with self.database.transaction(projects=[self.project_id]) as connection:
            return [connection.execute(query).fetchall() for query in STATISTICS]

    def counts(self) -> store.ScopeCounts:
        """What the status of the project is made of."""
        with self.database.transaction(projects=[self.project_id]) as connection:
            (entries,) = store.scope_counts(connection, self.project_id)
        return entries

    def kept(self, filters: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
        """The keys of what a search may read under each filter, many in one statement."""
        project_id = self.project_id
        for start in range(0, len(filters), FILTERS_AT_ONCE):
            predicates = [
                compile_filter(HardFilter(project_id=project_id, entries=parse_filter(said)))
                for said in filters[start : start + FILTERS_AT_ONCE]
            ]
            with self.database.transaction(projects=[project_id]) as connection:
                cursor = ClientCursor(connection)
                # Each with its values, since all name their parameters alike.
                reads = [
                    cursor.mogrify(READ.format(filter=one.condition), one.parameters)
                    for one in predicates
                ]
                row = cursor.execute(f"SELECT {', '.join(reads)}".encode()).fetchone()
            assert row is not None
            yield from row

    @property
    def project_id(self) -> int:
        with self.database.transaction() as connection:
            return store.find_project(connection, OURS).id

    def ask(self, request: SearchRequest) -> Outcome:
        return search(self.engine, request, project=OURS)

    def why(self, request: SearchRequest, expect: str) -> str:
        """All that ``why`` says of an entry to whoever is not its keeper."""
        told = why(self.engine, request, expect=expect, project=OURS)
        return json.dumps(to_json(told), sort_keys=True)

    def candidates(self, request: SearchRequest) -> set[str]:
        """The keys of everything that the legs hand on, whatever its evidence."""
        found = find(self.engine, request, project=OURS)
        return {ranked.candidate.place for ranked in found.ranked}


def answered(outcome: Outcome) -> str:
    """All that an outcome says, but how long it took."""
    return json.dumps(to_json(replace(outcome, took_ms=0.0)), sort_keys=True)


def keys(outcome: Outcome) -> set[str]:
    return {hit.origin.entity_key for hit in outcome.hits if isinstance(hit.origin, EntityOrigin)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelves:
    """The same shelf with all that must never show, and without."""

    whole: Shelf
    bare: Shelf


@contextmanager
def shelves(server_url: str, template: str) -> Iterator[Shelves]:
    with ExitStack() as stack:

        def make() -> Shelf:
            name = stack.enter_context(scratch_database(server_url, template=template))
            url = address(server_url, dbname=name)
            return Shelf(url, stack.enter_context(Database(url, max_size=4)))

        yield Shelves(whole=make(), bare=make())


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What is drawn once and asked many times."""

    shown: Sequence[Entity]
    hidden: Sequence[Entity]
    foreign: Sequence[Entity]


def draw_round(dice: random.Random) -> Round:
    statuses = ["draft", "archived"]
    return Round(
        shown=[draw_entity(dice, f"s{n}", status="published") for n in range(PUBLISHED)],
        hidden=[draw_entity(dice, f"h{n}", status=dice.choice(statuses)) for n in range(HIDDEN)],
        foreign=[
            draw_entity(dice, f"s{n}", status=dice.choice([*statuses, "published"]))
            for n in range(HIDDEN)
        ],
    )


def fill(both: Shelves, drawn: Round) -> None:
    both.bare.replace(drawn.shown, project=OURS)
    both.whole.replace([*drawn.hidden, *drawn.shown], project=OURS)
    both.whole.replace(drawn.foreign, project=THEIRS)


def check_readers(both: Shelves, drawn: Round) -> None:
    """What tells of a whole knowledge base tells its keeper of his own entries and of no other."""
    assert both.whole.statistics() == both.bare.statistics()
    own = sorted(entity.key for entity in [*drawn.shown, *drawn.hidden])
    assert [one.key for one in list_entities(both.whole.database, project=OURS)] == own
    whole, bare = both.whole.counts(), both.bare.counts()
    assert whole.indexed == len(own)
    assert whole.chunks == bare.chunks  # those that can be found


def check_filters(shelf: Shelf, drawn: Round, filters: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """What a search reads under each filter is what Python keeps; returns how much that was."""
    kept: Counter[str] = Counter()
    for said, found in zip(filters, shelf.kept(filters), strict=True):
        allowed = {e.key for e in drawn.shown if lets_through(said, e.type, e.attributes)}
        assert set(found) == allowed, said
        kept["none" if not allowed else "all" if len(allowed) == PUBLISHED else "some"] += 1
    return kept


def check_search(both: Shelves, drawn: Round, said: Mapping[str, Any], dice: random.Random) -> None:
    """Ask one question with one filter: the same answer of both, and nothing shut out in it."""
    request = SearchRequest(
        query=draw_query(dice, drawn.shown, [*drawn.hidden, *drawn.foreign]),
        k=dice.choice([1, 5, 100]),
        filter=said,
        profile=dice.choice(sorted(SHIPPED)),
        explain=True,
    )
    allowed = {e.key for e in drawn.shown if lets_through(said, e.type, e.attributes)}
    whole, bare = both.whole.ask(request), both.bare.ask(request)
    assert answered(whole) == answered(bare), request
    assert keys(whole) <= allowed, request
    assert whole.explain is not None
    # Fewer than a leg's depth: each that the filter keeps is a candidate, and nothing else is.
    assert whole.explain["candidates"] == len(allowed), request
    expect = dice.choice([*drawn.shown, *drawn.hidden]).key
    assert both.whole.why(request, expect) == both.bare.why(request, expect)


def check_forbidden(shelf: Shelf, dice: random.Random) -> bool:
    """Add published entries that a filter shuts out; False where the dice found no such filter.

    Before the next refresh no answer changes by a byte; after it, none names or counts them.
    """
    said = draw_filter(dice)
    drawn = [draw_entity(dice, f"f{n}", status="published") for n in range(40)]
    added = [e for e in drawn if not lets_through(said, e.type, e.attributes)][:10]
    if not added:
        return False
    twin = dice.choice(added)
    queries = [f"{twin.title}\n{twin.text}", " ".join(dice.sample(WORDS, k=3))]
    requests = [
        SearchRequest(query=query, k=100, filter=said, profile=profile, explain=True)
        for query in queries
        for profile in sorted(SHIPPED)
    ]
    before = [shelf.ask(request) for request in requests]
    seen = [shelf.candidates(request) for request in requests]
    shelf.add_uncounted(added)
    for request, told in zip(requests, before, strict=True):
        assert answered(shelf.ask(request)) == answered(told), request
    shelf.refresh()
    for request, known in zip(requests, seen, strict=True):
        outcome = shelf.ask(request)
        assert shelf.candidates(request) == known, request
        assert keys(outcome) <= known, request
        assert outcome.explain is not None
        assert outcome.explain["candidates"] == len(known), request
    return True


def check_rounds(
    server_url: str, template: str, *, rounds: int, draws: int, searches: int, seed: int
) -> tuple[Counter[str], int]:
    """Draw ``rounds`` shelves with ``draws`` filters each, of which ``searches`` are asked whole.

    Returns how often a filter kept none, some or all, and how often forbidden entries were added.
    """
    dice = random.Random(seed)
    kept: Counter[str] = Counter()
    forbidden = 0
    with shelves(server_url, template) as both:
        for _ in range(rounds):
            drawn = draw_round(dice)
            fill(both, drawn)
            check_readers(both, drawn)
            filters = [draw_filter(dice) for _ in range(draws)]
            kept += check_filters(both.whole, drawn, filters)
            for said in filters[:searches]:
                check_search(both, drawn, said, dice)
            forbidden += check_forbidden(both.whole, dice)
    return kept, forbidden
