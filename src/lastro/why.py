"""The why use case: at which point of a search an expected passage fell out, with numbers.

It runs the search itself and looks at what each of its steps kept, so the two cannot disagree.
"""

from collections.abc import Sequence
from dataclasses import replace

from lastro import store, why_remedies
from lastro.filters import compile_filter
from lastro.places import (
    FilePlace,
    SessionPlace,
    covers,
    normal_path,
    parse_place,
    session_readings,
)
from lastro.ranking import Ranked
from lastro.search import Engine, Found, SearchRequest, find, hard_filter
from lastro.store import AppConnection, ExpectedChunk, Source
from lastro.why_findings import Counts, Passage, Standing, Why
from lastro.why_stages import (
    Stages,
    exact_ranks,
    filters_against,
    furthest,
    in_its_way,
    in_legs,
    nearest_bar,
    passage_of,
    stages_of,
    standing_of,
    standings,
    words_of,
)

# Before a key, where a place is meant to be an entry; reports of golden sets write it so.
ENTRY = "entry "
# What is named of the hits above.
MAX_ABOVE = 3


def why(
    engine: Engine, request: SearchRequest, *, expect: str, project: str, keeper: bool = False
) -> Why:
    """Where the passage at ``expect`` (path, path#section or path:10-20) fell out of a search.

    ``expect`` may be an entry too: its key where no file is called so, or ``entry KEY``. Only who
    is its ``keeper`` is told of one that this search may not see; for anyone else there is none.
    And it may be a session, or an event as hits show it: ``SESSION#EVENT``.
    Of several chunks there, the one that came furthest; ties by fused rank, then in the order of
    the text. Errors: InvalidInput for a place that is none, and those of ``search``.
    """
    found = find(engine, request, project=project)
    known = _before_any_point(request, found, expect=expect)
    project_id = found.project.id
    limits = {"statement_timeout": f"{round(engine.statement_timeout_s * 1000)}ms"}
    with engine.database.transaction(projects=[project_id], settings=limits) as connection:
        sources = store.project_sources(connection, project_id)
        paths = store.file_places(connection, project_id)
        if expect not in paths:
            key = expect.removeprefix(ENTRY)
            entry = _entry(connection, key, request, project_id=project_id, keeper=keeper)
            if entry:
                stages = stages_of(request, found)
                return _explained(connection, stages, entry, known=known, name_source=False)
            if key != expect:
                return why_remedies.no_such_entry(key, known=known)
            told = store.find_session_place(
                connection, session_readings(expect), project_id=project_id
            )
            if told is not None:
                return _of_session(connection, told, stages_of(request, found), known=known)
        place = parse_place(expect, paths=paths)
        named = [path for path in paths if normal_path(path) == place.path]
        if not named:
            reason = _skipped_for(place, sources)
            return why_remedies.no_such_file(place, paths, reason=reason, known=known)
        chunks = store.expected_chunks(connection, named, project_id=project_id, kind="file")
        there = [chunk for chunk in chunks if covers(place, chunk.place)]
        if not there:
            lie = [chunk.place for chunk in chunks]
            return why_remedies.no_such_part(place, lie, known=known)
        stages = stages_of(request, found)
        return _explained(connection, stages, there, known=known, name_source=len(sources) > 1)


def _entry(
    connection: AppConnection, key: str, request: SearchRequest, *, project_id: int, keeper: bool
) -> list[ExpectedChunk]:
    """The chunks of an entry, as far as who asks may know of them."""
    chunks = store.expected_chunks(connection, [key], project_id=project_id, kind="entity")
    if keeper:
        return chunks
    predicate = compile_filter(hard_filter(request, project_id=project_id))
    kept = store.kept_chunks(connection, predicate, [chunk.id for chunk in chunks])
    return [chunk for chunk in chunks if chunk.id in kept]


def _of_session(
    connection: AppConnection, place: SessionPlace, stages: Stages, *, known: Why
) -> Why:
    chunks = store.expected_chunks(
        connection, [place.session], project_id=stages.found.project.id, kind="session"
    )
    there = [chunk for chunk in chunks if covers(place, chunk.place)]
    if not there:
        return why_remedies.no_such_event(place, known=known)
    return _explained(connection, stages, there, known=known, name_source=False)


def _before_any_point(request: SearchRequest, found: Found, *, expect: str) -> Why:
    return Why(
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


def _skipped_for(place: FilePlace, sources: Sequence[Source]) -> str | None:
    """Why the last run skipped a file; None where it did not."""
    notes = (note for source in sources for note in source.skipped)
    return next((n["reason"] for n in notes if normal_path(n["path"]) == place.path), None)


def _explained(
    connection: AppConnection,
    stages: Stages,
    there: Sequence[ExpectedChunk],
    *,
    known: Why,
    name_source: bool,
) -> Why:
    """The answer for the chunk that came furthest, where there is any."""
    found, request = stages.found, stages.request
    hard = hard_filter(request, project_id=found.project.id)
    ids = [chunk.id for chunk in there]
    predicate = compile_filter(hard)
    kept = store.kept_chunks(connection, predicate, ids)
    exact = exact_ranks(connection, predicate, ids, found=found)
    best = furthest(there, kept, stages=stages, exact=exact)
    passage = passage_of(best, name_source=name_source)
    vector, lexical = in_legs(best, found=found, exact=exact)
    known = replace(
        known,
        passage=passage,
        counts=_counts(there, kept=len(kept), stages=stages),
        vector=vector,
        lexical=lexical,
        words=words_of(connection, best, found=found),
        degraded=known.degraded if exact.late is None else (*known.degraded, exact.late),
    )
    if best.id not in kept:
        return why_remedies.filtered(
            known,
            passage,
            filtered_by=filters_against(connection, best, hard),
            scopes=request.scopes or (),
            path_prefix=request.path_prefix,
        )
    rank = stages.ranks.get(best.id)
    if rank is None:
        return why_remedies.no_candidate(known, passage)
    item = found.ranked[rank - 1]
    return _after_fusion(
        connection, item, stages, passage=passage, known=known, name_source=name_source
    )


def _counts(there: Sequence[ExpectedChunk], *, kept: int, stages: Stages) -> Counts:
    reached = [stages.reached(chunk.id) for chunk in there]
    return Counts(
        at_place=len(there),
        kept=kept,
        candidates=sum(stage >= 1 for stage in reached),
        with_evidence=sum(stage >= 2 for stage in reached),
        hits=sum(stage >= 4 for stage in reached),
    )


def _after_fusion(
    connection: AppConnection,
    item: Ranked,
    stages: Stages,
    *,
    passage: Passage,
    known: Why,
    name_source: bool,
) -> Why:
    """What became of a candidate."""
    found, k = stages.found, stages.request.k
    fused = standing_of(item, passage.place, stages=stages)
    bar = nearest_bar(item, found)
    known = replace(known, fused=fused, bar=bar)

    def above(items: Sequence[Ranked]) -> tuple[Standing, ...]:
        return standings(connection, items[:MAX_ABOVE], stages=stages, name_source=name_source)

    reached = stages.reached(item.candidate.id)
    if reached == 1:
        return why_remedies.without_evidence(known, passage, fused=fused, bar=bar)
    if reached == 2:
        better, over = in_its_way(item, stages)
        if over:
            return why_remedies.overlapped(known, passage, above=above(over))
        return why_remedies.crowded_out(
            known,
            passage,
            above=above(better),
            max_per_document=stages.request.max_per_document,
        )
    place = 1 + next(n for n, other in enumerate(stages.unique) if other is item)
    if reached == 4:
        return why_remedies.hit(known, passage, rank=place, hits=min(k, len(stages.unique)))
    return why_remedies.below_k(
        known,
        passage,
        rank=place,
        missing=stages.unique[k - 1].score - item.score,
        above=above(stages.unique[:k]),
    )
