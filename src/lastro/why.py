"""The why use case: at which point of a search an expected passage fell out, with numbers.

It runs the search itself and looks at what each of its steps kept, so the two cannot disagree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal
from uuid import UUID

from lastro import store
from lastro.db.pool import savepoint
from lastro.errors import StatementTimeout
from lastro.filters import HardFilter, Predicate, compile_filter, parse_scopes
from lastro.legs import LexicalLeg
from lastro.lexical_sql import match_any
from lastro.places import FilePlace, covers, folded, normal_path, parse_place
from lastro.profiles import Thresholds
from lastro.ranking import MAX_K, Ranked, evidence, fusion_parts, one_per_place
from lastro.search import Engine, Found, SearchRequest, find, shown
from lastro.store import AppConnection, ExpectedChunk, LegRank
from lastro.terms import Term
from lastro.types import Degraded, ProfileRef, Scope

Point = Literal[
    "hit",
    "not_indexed",
    "section_not_found",
    "filtered",
    "no_vector",
    "not_candidate",
    "threshold",
    "overlap",
    "max_per_document",
    "below_k",
]
# What is named of the hits above, and of names that look alike.
MAX_ABOVE = 3
MAX_NEAREST = 3
# As difflib's own default is, but for paths that share only a folder.
ALIKE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The chunk that came furthest of those at the expected place."""

    place: str
    heading_path: tuple[str, ...]
    anchor: str | None
    scope: Scope
    status: str
    has_vector: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LegStanding:
    """A passage in one leg, which hands on ``depth`` rows.

    ``rank`` is the leg's own where it ``found`` the passage, else the exact one among the ``rows``
    that it could have found; ``score`` is None for a passage that the leg cannot score.
    """

    found: bool
    rank: int | None
    score: float | None
    rows: int | None
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of the query, and whether the passage ``held`` it; rarer words have a greater idf."""

    text: str
    held: bool
    df: int | None
    idf: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A candidate after fusion: ``rank`` among all candidates, before any threshold."""

    rank: int
    place: str
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The rule of evidence that a passage is nearest to: ``joint``, ``words`` or ``score``."""

    rule: Literal["joint", "words", "score"]
    value: float
    needed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many chunks at the place came through each step."""

    at_place: int = 0
    kept: int = 0
    candidates: int = 0
    with_evidence: int = 0
    hits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The first ``point`` where a passage fell out, in words and numbers.

    ``rank`` counts among the hits, and what would be hits were ``k`` greater; ``missing`` is the
    fused score between a passage and the last hit; ``above`` are the hits or the overlapping one.
    """

    query: str
    expect: str
    project: str
    profile: ProfileRef
    k: int
    point: Point
    said: str
    remedy: str | None
    rank: int | None = None
    passage: Passage | None = None
    counts: Counts = Counts()
    nearest: tuple[str, ...] = ()
    filtered_by: tuple[str, ...] = ()
    vector: LegStanding | None = None
    lexical: LegStanding | None = None
    words: tuple[Word, ...] = ()
    candidates: int = 0
    fused: Standing | None = None
    bar: Bar | None = None
    above: tuple[Standing, ...] = ()
    missing: float | None = None
    vector_available: bool
    degraded: tuple[Degraded, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """What each step of one search kept, by id, and in order where it has one."""

    request: SearchRequest
    found: Found
    passed: Sequence[Ranked]
    unique: Sequence[Ranked]
    ranks: Mapping[UUID, int]

    def reached(self, id_: UUID) -> int:
        """How far a candidate came: 1 fused, 2 with evidence, 3 beside no other, 4 a hit."""
        stages = [self.found.ranked, self.passed, self.unique, self.unique[: self.request.k]]
        return sum(any(item.candidate.id == id_ for item in stage) for stage in stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exact:
    """Ranks of chunks that no leg may have found."""

    vector: Mapping[UUID, LegRank]
    lexical: Mapping[UUID, LegRank]


def why(engine: Engine, request: SearchRequest, *, expect: str, project: str) -> Why:
    """Where the passage at ``expect`` (path, path#section or path:10-20) fell out of a search.

    Of several chunks there, the one that came furthest; ties by fused rank, then in the order of
    the text. Errors: InvalidInput for a place that is none, and those of ``search``.
    """
    place = parse_place(expect)
    found = find(engine, request, project=project)
    passed = shown(found)
    steps = _Steps(
        request=request,
        found=found,
        passed=passed,
        unique=one_per_place(passed, max_per_document=request.max_per_document),
        ranks={item.candidate.id: rank for rank, item in enumerate(found.ranked, start=1)},
    )
    limits = {"statement_timeout": f"{round(engine.statement_timeout_s * 1000)}ms"}
    with engine.database.transaction(projects=[found.project.id], settings=limits) as connection:
        paths = store.file_places(connection, found.project.id)
        named = [path for path in paths if normal_path(path) == place.path]
        chunks = store.expected_chunks(connection, named, project_id=found.project.id)
        there = [chunk for chunk in chunks if covers(place, chunk.place)]
        blank = Why(
            query=request.query,
            expect=expect,
            project=found.project.slug,
            profile=found.profile.ref,
            k=request.k,
            point="not_indexed",
            said="",
            remedy=None,
            candidates=len(found.ranked),
            vector_available="vector" in found.legs,
            degraded=tuple(found.degraded),
        )
        if there:
            return _explained(connection, steps, there, blank=blank)
        if named:
            return _no_such_part(place, chunks, blank=blank)
        skipped = {
            normal_path(note["path"]): note["reason"]
            for source in store.project_sources(connection, found.project.id)
            for note in source.skipped
        }
        return _no_such_file(place, paths, reason=skipped.get(place.path), blank=blank)


def _no_such_file(place: FilePlace, paths: Sequence[str], *, reason: str | None, blank: Why) -> Why:
    if reason is not None:
        return replace(
            blank,
            said=f"{place.path} is not indexed: the last run skipped it ({reason})",
            remedy="mend the file, then run `lastro index`",
        )
    nearest = _nearest_paths(place.path, paths)
    said = f"{place.path} is not indexed, nor was it skipped; the index knows {len(paths)} files"
    remedy = "commit it and run `lastro index`; the setting `[files]` says which are read"
    if nearest:
        remedy = f"did you mean {' or '.join(nearest)}? Else {remedy}"
    return replace(blank, said=said, remedy=remedy, nearest=nearest)


def _nearest_paths(wanted: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Paths that go on from ``wanted``, and its name in other folders, else what looks alike."""
    stem, name = wanted.rpartition(".")[0] or wanted, wanted.rpartition("/")[2]
    longer = [path for path in paths if path.startswith(stem)]
    moved = [path for path in paths if path.rpartition("/")[2] == name]
    alike = get_close_matches(wanted, paths, n=MAX_NEAREST, cutoff=ALIKE)
    return tuple(dict.fromkeys([*longer, *moved] or alike))[:MAX_NEAREST]


def _no_such_part(place: FilePlace, chunks: Sequence[ExpectedChunk], *, blank: Why) -> Why:
    whole = replace(place, lines=None)
    under = [chunk for chunk in chunks if covers(whole, chunk.place)]
    if not chunks:
        return replace(
            blank,
            said=f"{place.path} is indexed, and holds no text that can be found",
            remedy="write some text into it, then run `lastro index`",
        )
    if not under:
        wanted = folded((place.heading or ("",))[-1])
        nearest = _nearest_sections(wanted, chunks)
        said = f"{place.path} is indexed, and has no section {place.heading and place.heading[-1]}"
    else:
        lines = place.lines or (1, 1)
        near = sorted(under, key=lambda c: max(c.line_start - lines[1], lines[0] - c.line_end))
        nearest = tuple(dict.fromkeys(_place(c) for c in near[:MAX_NEAREST]))
        said = f"{place.path} is indexed, and no text of it stands in lines {lines[0]}-{lines[1]}"
    return replace(
        blank,
        point="section_not_found",
        said=said,
        remedy=f"expect {' or '.join(nearest)}, or run `lastro index` if the file has changed",
        nearest=nearest,
    )


def _nearest_sections(wanted: str, chunks: Sequence[ExpectedChunk]) -> tuple[str, ...]:
    """Places of the sections whose anchor or heading looks most like ``wanted``, else the first."""
    names: dict[str, str] = {}
    for chunk in chunks:
        if chunk.heading_path and chunk.anchor is not None:
            place = f"{chunk.path}#{chunk.anchor}"
            names.setdefault(folded(chunk.anchor), place)
            names.setdefault(folded(chunk.heading_path[-1]), place)
    alike = get_close_matches(wanted, names, n=2 * MAX_NEAREST, cutoff=ALIKE)
    places = list(dict.fromkeys(names[name] for name in alike or names))
    return tuple(places[:MAX_NEAREST]) or (chunks[0].path,)


def _explained(
    connection: AppConnection, steps: _Steps, there: Sequence[ExpectedChunk], *, blank: Why
) -> Why:
    """The answer for the chunk that came furthest, where there is any."""
    found, request = steps.found, steps.request
    hard = HardFilter(
        project_id=found.project.id,
        scopes=parse_scopes(request.scopes),
        path_prefix=request.path_prefix,
    )
    ids = [chunk.id for chunk in there]
    predicate = compile_filter(hard)
    kept = store.kept_chunks(connection, predicate, ids)
    reached = {chunk.id: steps.reached(chunk.id) for chunk in there}
    counts = Counts(
        at_place=len(ids),
        kept=len(kept),
        candidates=sum(stage >= 1 for stage in reached.values()),
        with_evidence=sum(stage >= 2 for stage in reached.values()),
        hits=sum(stage >= 4 for stage in reached.values()),
    )
    degraded = list(blank.degraded)
    exact = _exact_ranks(connection, predicate, ids, found=found, degraded=degraded)
    best = max(there, key=lambda c: _furthest(c, kept=kept, reached=reached, steps=steps, at=exact))
    words = _words(connection, best, found=found)
    said = replace(
        blank,
        passage=_passage(best),
        counts=counts,
        vector=_in_leg(best, found.vector.rows, exact.vector, depth=found.profile.vector_depth)
        if "vector" in found.legs
        else None,
        lexical=_in_leg(best, found.lexical.rows, exact.lexical, depth=found.profile.lexical_depth)
        if "lexical" in found.legs
        else None,
        words=words,
        degraded=tuple(degraded),
    )
    if best.id not in kept:
        filtered_by = _filtered_by(connection, best, hard)
        return _filtered(replace(said, filtered_by=filtered_by), request=request)
    if not reached[best.id]:
        return _no_candidate(said)
    rank = steps.ranks[best.id]
    item = found.ranked[rank - 1]
    said = replace(
        said,
        fused=_standing(item, _place(best), rank=rank, found=found),
        bar=_nearest_bar(item, found),
    )
    match reached[best.id]:
        case 1:
            return _without_evidence(said)
        case 2:
            return _beside_another(connection, item, steps, said=said)
        case stage:
            return _ranked(connection, item, steps, said=said, is_hit=stage == 4)


def _furthest(
    chunk: ExpectedChunk,
    *,
    kept: frozenset[UUID],
    reached: Mapping[UUID, int],
    steps: _Steps,
    at: _Exact,
) -> tuple[int, bool, bool, float]:
    """Key of the chunk that came furthest; what no leg found is ordered by its exact ranks."""
    exact = [leg[chunk.id].rank for leg in (at.vector, at.lexical) if chunk.id in leg]
    rank = steps.ranks.get(chunk.id, min(exact, default=None))
    return (
        reached[chunk.id],
        chunk.id in kept,
        chunk.has_vector,
        -float("inf") if rank is None else -float(rank),
    )


def _exact_ranks(
    connection: AppConnection,
    predicate: Predicate,
    ids: Sequence[UUID],
    *,
    found: Found,
    degraded: list[Degraded],
) -> _Exact:
    vector: Mapping[UUID, LegRank] = {}
    lexical: Mapping[UUID, LegRank] = {}
    try:
        with savepoint(connection):
            if found.vector.embedding is not None:
                vector = store.vector_ranks(
                    connection, predicate, ids, embedding=found.vector.embedding
                )
            if found.lexical.scoring is not None:
                lexical = store.lexical_ranks(
                    connection, predicate, ids, scoring=found.lexical.scoring
                )
    except StatementTimeout as error:
        degraded.append(Degraded(part="ranks", reason="statement_timeout", detail=error.message))
    return _Exact(vector=vector, lexical=lexical)


def _in_leg(
    chunk: ExpectedChunk,
    rows: Sequence[store.LegRow],
    exact: Mapping[UUID, LegRank],
    *,
    depth: int,
) -> LegStanding:
    own = next(((n, row) for n, row in enumerate(rows, start=1) if row.id == chunk.id), None)
    at = exact.get(chunk.id)
    if own is not None:
        rank, score = own[0], own[1].score
    else:
        rank, score = (None, None) if at is None else (at.rank, at.score)
    return LegStanding(
        found=own is not None,
        rank=rank,
        score=score,
        rows=None if at is None else at.total,
        depth=depth,
    )


def _words(connection: AppConnection, chunk: ExpectedChunk, *, found: Found) -> tuple[Word, ...]:
    """The query's words, the rarest first; ties in the query's order."""
    terms = found.lexical.terms or _lexemes_as_terms(found.lexical)
    if not terms:
        return ()
    held = store.held_words(
        connection,
        chunk.id,
        project_id=found.project.id,
        matches=[match_any([term], languages=list(term.forms)) for term in terms],
    )
    counted = bool(found.lexical.terms)
    words = [
        Word(
            text=term.text,
            held=is_held,
            df=term.df if counted else None,
            idf=term.idf if counted else None,
        )
        for term, is_held in zip(terms, held, strict=True)
    ]
    return tuple(sorted(words, key=lambda word: -(word.idf or 0.0)))


def _lexemes_as_terms(leg: LexicalLeg) -> list[Term]:
    """Where every lexeme must match, each is a word of its own, and none has a weight."""
    lexemes: Mapping[str, Sequence[str]] = leg.explain.get("lexemes", {})
    forms: dict[str, dict[str, tuple[str, ...]]] = {}
    for language, found in lexemes.items():
        for lexeme in found:
            forms.setdefault(lexeme, {})[language] = (lexeme,)
    return [Term(lexeme, 0, 0.0, by_language) for lexeme, by_language in forms.items()]


def _filtered_by(
    connection: AppConnection, chunk: ExpectedChunk, hard: HardFilter
) -> tuple[str, ...]:
    if chunk.status != "published":
        return ("status",)
    alone = {
        "scopes": replace(hard, path_prefix=None),
        "pathPrefix": replace(hard, scopes=None),
    }
    return tuple(
        name
        for name, one in alone.items()
        if chunk.id not in store.kept_chunks(connection, compile_filter(one), [chunk.id])
    )


def _filtered(said: Why, *, request: SearchRequest) -> Why:
    assert said.passage is not None
    passage = said.passage
    reasons = {
        "status": (f"it is {passage.status}, not published", "publish it"),
        "scopes": (
            f"its scope is {passage.scope}, and {', '.join(request.scopes or ())} was asked for",
            f"add --scope {passage.scope}",
        ),
        "pathPrefix": (
            f"its path does not begin with {request.path_prefix}",
            "leave out --path, or shorten it",
        ),
    }
    told = [reasons[name] for name in said.filtered_by]
    return replace(
        said,
        point="filtered",
        said=f"{passage.place} is filtered out: {' and '.join(reason for reason, _ in told)}",
        remedy="; ".join(mend for _, mend in told) or None,
    )


def _no_candidate(said: Why) -> Why:
    assert said.passage is not None
    where = said.passage.place
    if not said.passage.has_vector:
        return replace(
            said,
            point="no_vector",
            said=f"{where} has no vector yet, nor did its words suffice: {_lexical_place(said)}",
            remedy="run `lastro index --repair`",
        )
    return replace(
        said,
        point="not_candidate",
        said=f"{where} is no candidate of any leg: {_vector_place(said)}; {_lexical_place(said)}",
        remedy=_nearer(said),
    )


def _vector_place(said: Why) -> str:
    leg = said.vector
    if leg is None:
        return "the vector leg did not run"
    if leg.rank is None:
        return "its rank by meaning is not known"
    passed_over = ", and the vector index passed it over" if leg.rank <= leg.depth else ""
    return f"rank {leg.rank} of {leg.rows} by meaning, where {leg.depth} are taken{passed_over}"


def _lexical_place(said: Why) -> str:
    leg = said.lexical
    if leg is None:
        return "the lexical leg did not run"
    if leg.rank is None:
        every = any(word.held for word in said.words)
        return f"it holds {'not every word' if every else 'no word'} of the query"
    if leg.rank <= leg.depth:
        return f"rank {leg.rank} of {leg.rows} by words, of which only common ones stand there"
    return f"rank {leg.rank} of {leg.rows} by words, where {leg.depth} are taken"


def _nearer(said: Why) -> str:
    """The nearest way to make a candidate of a passage that has a vector."""
    ways = ["ask with words that stand there", "narrow the search with --path"]
    if said.vector is None:
        ways.insert(0, "bring back the vector leg (see `lastro doctor`)")
    legs = {"vectorDepth": said.vector, "lexicalDepth": said.lexical}
    deeper = [
        (max(leg.rank, leg.depth + 1), name)
        for name, leg in legs.items()
        if leg is not None and leg.rank is not None
    ]
    if deeper:
        depth, name = min(deeper)
        ways.append(f"define a profile with {name} {depth}")
    return ", or ".join(ways)


def _nearest_bar(item: Ranked, found: Found) -> Bar | None:
    """The rule with the least shortfall; None where none applies or no signal is there."""
    threshold = found.profile.threshold
    if threshold is None:
        return None
    if not isinstance(threshold, Thresholds):
        return Bar(rule="score", value=item.score, needed=threshold)
    told = evidence(item.candidate, threshold, found.profile, legs=found.legs, scale=found.scale)
    bars: list[Bar] = []
    if told.joint is not None and told.bar is not None:
        bars.append(Bar(rule="joint", value=told.joint, needed=told.bar))
    if told.words is not None and told.words_bar is not None:
        bars.append(Bar(rule="words", value=told.words, needed=told.words_bar))
    return min(bars, key=lambda bar: bar.needed - bar.value, default=None)


RULES: Mapping[str, str] = {
    "joint": "meaning and words together",
    "words": "the words alone",
    "score": "the fused score",
}


def _without_evidence(said: Why) -> Why:
    assert said.passage is not None
    assert said.fused is not None
    bar = said.bar
    weight = (
        "nothing speaks for it"
        if bar is None
        else f"{RULES[bar.rule]} say {bar.value:.3f} where {bar.needed:.3f} is needed"
    )
    lacking = [word.text for word in said.words if not word.held]
    ways = [f"ask with its own words (it lacks {', '.join(lacking[:3])})"] if lacking else []
    if not said.passage.has_vector:
        ways.insert(0, "run `lastro index --repair`: it has no vector yet")
    ways.append("calibrate the threshold on a golden set")
    return replace(
        said,
        point="threshold",
        said=f"{said.passage.place} was found (rank {said.fused.rank} of {said.candidates}), "
        f"but is under the threshold: {weight}",
        remedy="; or ".join(ways),
    )


def _beside_another(connection: AppConnection, item: Ranked, steps: _Steps, *, said: Why) -> Why:
    """Dropped for what the document has already brought: an overlap, or as many as it may."""
    assert said.passage is not None
    siblings = [
        other
        for other in steps.unique
        if other.candidate.document_id == item.candidate.document_id
        and steps.ranks[other.candidate.id] < steps.ranks[item.candidate.id]
    ]
    over = [
        other for other in siblings if len(one_per_place([other, item], max_per_document=2)) < 2
    ]
    above = _standings(connection, (over or siblings)[:MAX_ABOVE], steps)
    if over:
        return replace(
            said,
            point="overlap",
            said=f"{said.passage.place} gave way to {above[0].place}, which overlaps it and "
            f"scores {above[0].score:.3f}",
            remedy="read that hit: it holds some of the same lines",
            above=above,
        )
    most = steps.request.max_per_document
    return replace(
        said,
        point="max_per_document",
        said=f"{said.passage.place} gave way to {most} better "
        f"{'hit' if most == 1 else 'hits'} of its document",
        remedy="search with a greater maxPerDocument, or ask more narrowly",
        above=above,
    )


def _ranked(
    connection: AppConnection, item: Ranked, steps: _Steps, *, said: Why, is_hit: bool
) -> Why:
    """A hit, or what would be one were ``k`` greater."""
    assert said.passage is not None
    rank = 1 + next(n for n, other in enumerate(steps.unique) if other is item)
    k = steps.request.k
    if is_hit:
        return replace(
            said,
            point="hit",
            said=f"{said.passage.place} is hit {rank} of {min(k, len(steps.unique))}",
            remedy=None,
            rank=rank,
        )
    missing = steps.unique[k - 1].score - item.score
    return replace(
        said,
        point="below_k",
        said=f"{said.passage.place} would be hit {rank}, and {k} {'is' if k == 1 else 'are'} "
        f"shown; {missing:.3f} of score is missing",
        remedy=f"ask for more hits with -k {rank}"
        if rank <= MAX_K
        else "narrow the search with --path or --scope, or ask with words that stand there",
        rank=rank,
        missing=missing,
        above=_standings(connection, steps.unique[: min(k, MAX_ABOVE)], steps),
    )


def _standings(
    connection: AppConnection, items: Sequence[Ranked], steps: _Steps
) -> tuple[Standing, ...]:
    found = steps.found
    rows = store.fetch_hits(
        connection, [item.candidate.id for item in items], project_id=found.project.id
    )
    standings: list[Standing] = []
    for item in items:
        row = rows.get(item.candidate.id)
        lines = "" if row is None or row.line_start is None else f":{row.line_start}-{row.line_end}"
        place = f"{item.candidate.place}{lines}"
        standings.append(_standing(item, place, rank=steps.ranks[item.candidate.id], found=found))
    return tuple(standings)


def _standing(item: Ranked, place: str, *, rank: int, found: Found) -> Standing:
    parts: dict[str, Any] = fusion_parts(item.candidate, found.profile, scale=found.scale)
    return Standing(rank=rank, place=place, score=item.score, parts=parts)


def _passage(chunk: ExpectedChunk) -> Passage:
    return Passage(
        place=_place(chunk),
        heading_path=tuple(chunk.heading_path),
        anchor=chunk.anchor,
        scope=chunk.scope,
        status=chunk.status,
        has_vector=chunk.has_vector,
    )


def _place(chunk: ExpectedChunk) -> str:
    return f"{chunk.path}:{chunk.line_start}-{chunk.line_end}"
