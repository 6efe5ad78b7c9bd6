"""The point where a passage fell out, in a sentence, and the nearest way to bring it back; pure.

Every function takes what is known so far, and returns it with the point that it found.
"""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from lastro.places import ChunkPlace, FilePlace, SessionPlace, covers, folded
from lastro.ranking import MAX_K
from lastro.why_findings import RULES, Bar, Passage, Standing, Why

# What is named of names that look alike.
MAX_NEAREST = 3
# As difflib's own default is, but for paths that share only a folder.
ALIKE = 0.5


def no_such_file(place: FilePlace, paths: Sequence[str], *, reason: str | None, known: Why) -> Why:
    """Of a file that is not among ``paths``; ``reason`` is why the last run skipped it."""
    if reason is not None:
        return replace(
            known,
            point="not_indexed",
            said=f"{place.path} is not indexed: the last run skipped it ({reason})",
            remedy="mend the file, then run `lastro index`",
        )
    nearest = _nearest_paths(place.path, paths)
    files = f"{len(paths)} {'file' if len(paths) == 1 else 'files'}"
    remedy = "commit it and run `lastro index`; the setting `[files]` says which are read"
    if nearest:
        remedy = f"did you mean {' or '.join(nearest)}? Else {remedy}"
    return replace(
        known,
        point="not_indexed",
        said=f"{place.path} is not indexed, nor was it skipped; the index knows {files}",
        remedy=remedy,
        nearest=nearest,
    )


def _nearest_paths(wanted: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Paths that go on from ``wanted``, and its name in other folders, else what looks alike."""
    stem, name = wanted.rpartition(".")[0] or wanted, wanted.rpartition("/")[2]
    longer = [path for path in paths if path.startswith(stem)]
    moved = [path for path in paths if path.rpartition("/")[2] == name]
    alike = get_close_matches(wanted, paths, n=MAX_NEAREST, cutoff=ALIKE)
    return tuple(dict.fromkeys([*longer, *moved] or alike))[:MAX_NEAREST]


def no_such_entry(key: str, *, known: Why) -> Why:
    """Of an entry that is not there, or that who asks may not know of."""
    return replace(
        known,
        point="not_indexed",
        said=f"there is no entry {key} that this search may find",
        remedy="see the keys with `lastro kb list`",
    )


def no_such_event(place: SessionPlace, *, known: Why) -> Why:
    """Of a session that is in the log, in which nothing is indexed at ``place``."""
    what = place.session if place.event is None else f"{place.session}#{place.event}"
    return replace(
        known,
        point="not_indexed",
        said=f"nothing of {what} is indexed; of events only what was said is, by people or agents",
        remedy="see them with `lastro sessions show`, or run `lastro sessions index`",
    )


def no_such_part(place: FilePlace, chunks: Sequence[ChunkPlace], *, known: Why) -> Why:
    """Of a file that is indexed, in ``chunks`` none of which lies at ``place``."""
    if not chunks:
        return replace(
            known,
            point="not_indexed",
            said=f"{place.path} is indexed, and holds no text that can be found",
            remedy="write some text into it, then run `lastro index`",
        )
    whole = replace(place, lines=None)
    under = [chunk for chunk in chunks if covers(whole, chunk)]
    if under:
        first, last = place.lines or (1, 1)
        nearest = _nearest_lines((first, last), under)
        said = f"{place.path} is indexed, and no text of it stands in lines {first}-{last}"
    else:
        section = " > ".join(place.heading or ())
        nearest = _nearest_sections(section, chunks)
        said = f"{place.path} is indexed, and has no section {section}"
    return replace(
        known,
        point="section_not_found",
        said=said,
        remedy=f"expect {' or '.join(nearest)}, or run `lastro index` if the file has changed",
        nearest=nearest,
    )


def _nearest_lines(lines: tuple[int, int], chunks: Sequence[ChunkPlace]) -> tuple[str, ...]:
    spans = [
        (max(chunk.line_start - lines[1], lines[0] - chunk.line_end), chunk)
        for chunk in chunks
        if chunk.line_start is not None and chunk.line_end is not None
    ]
    nearest = sorted(spans, key=lambda span: span[0])[:MAX_NEAREST]
    places = (f"{chunk.path}:{chunk.line_start}-{chunk.line_end}" for _, chunk in nearest)
    return tuple(dict.fromkeys(places))


def _nearest_sections(wanted: str, chunks: Sequence[ChunkPlace]) -> tuple[str, ...]:
    """Places of the sections whose anchor or heading looks most like ``wanted``, else the first."""
    names: dict[str, str] = {}
    for chunk in chunks:
        if chunk.heading_path and chunk.anchor is not None:
            place = f"{chunk.path}#{chunk.anchor}"
            names.setdefault(folded(chunk.anchor), place)
            names.setdefault(folded(chunk.heading_path[-1]), place)
    alike = get_close_matches(folded(wanted), names, n=2 * MAX_NEAREST, cutoff=ALIKE)
    places = list(dict.fromkeys(names[name] for name in alike or names))
    return tuple(places[:MAX_NEAREST]) or (chunks[0].path or "",)


def filtered(
    known: Why,
    passage: Passage,
    *,
    filtered_by: tuple[str, ...],
    scopes: Sequence[str],
    path_prefix: str | None,
) -> Why:
    """Of a passage that conditions of the search shut out."""
    reasons = {
        "status": (f"it is {passage.status}, not published", "publish it"),
        "scopes": (
            f"its scope is {passage.scope}, and {', '.join(scopes)} was asked for",
            f"add --scope {passage.scope}",
        ),
        "pathPrefix": (
            f"its path does not begin with {path_prefix}",
            "leave out --path, or shorten it",
        ),
    }
    clauses = [name.removeprefix("filter.") for name in filtered_by if name.startswith("filter.")]
    told = [reasons[name] for name in filtered_by if name in reasons]
    if clauses:
        named = " and ".join(clauses)
        told.append((f"it does not pass the filter's {named}", f"leave out {named}"))
    return replace(
        known,
        point="filtered",
        said=f"{passage.place} is filtered out: {' and '.join(reason for reason, _ in told)}",
        remedy="; ".join(mend for _, mend in told) or None,
        filtered_by=filtered_by,
    )


def no_candidate(known: Why, passage: Passage) -> Why:
    """Of a passage that neither leg handed on."""
    where = passage.place
    if not passage.has_vector:
        return replace(
            known,
            point="no_vector",
            said=f"{where} has no vector yet, nor did its words suffice: {_lexical_place(known)}",
            remedy="run `lastro index --repair`",
        )
    return replace(
        known,
        point="not_candidate",
        said=f"{where} is no candidate of any leg: {_vector_place(known)}; {_lexical_place(known)}",
        remedy=_nearer(known),
    )


def _vector_place(known: Why) -> str:
    leg = known.vector
    if leg is None:
        return "the vector leg did not run"
    if leg.rank is None:
        return "its rank by meaning is not known"
    passed_over = ", and the vector index passed it over" if leg.rank <= leg.depth else ""
    return f"rank {leg.rank} of {leg.rows} by meaning, where {leg.depth} are taken{passed_over}"


def _lexical_place(known: Why) -> str:
    leg = known.lexical
    if leg is None:
        return "the lexical leg did not run"
    if leg.rank is None:
        any_held = any(word.held for word in known.words)
        return f"it holds {'not every word' if any_held else 'no word'} of the query"
    if leg.rank <= leg.depth:
        return f"rank {leg.rank} of {leg.rows} by words, of which only common ones stand there"
    return f"rank {leg.rank} of {leg.rows} by words, where {leg.depth} are taken"


def _nearer(known: Why) -> str:
    """The nearest way to make a candidate of a passage that has a vector."""
    ways = ["ask with words that stand there", "narrow the search with --path"]
    if known.vector is None:
        ways.insert(0, "bring back the vector leg (see `lastro doctor`)")
    legs = {"vectorDepth": known.vector, "lexicalDepth": known.lexical}
    deeper = [
        (max(leg.rank, leg.depth + 1), name)
        for name, leg in legs.items()
        if leg is not None and leg.rank is not None
    ]
    if deeper:
        depth, name = min(deeper)
        ways.append(f"define a profile with {name} {depth}")
    return ", or ".join(ways)


def without_evidence(known: Why, passage: Passage, *, fused: Standing, bar: Bar | None) -> Why:
    """Of a candidate under the threshold."""
    weight = (
        "nothing speaks for it"
        if bar is None
        else f"{RULES[bar.rule]} say {bar.value:.3f} where {bar.needed:.3f} is needed"
    )
    lacking = [word.text for word in known.words if not word.held]
    ways = [f"ask with its own words (it lacks {', '.join(lacking[:3])})"] if lacking else []
    if not passage.has_vector:
        ways.insert(0, "run `lastro index --repair`: it has no vector yet")
    ways.append("calibrate the threshold on a golden set with `lastro calibrate`")
    return replace(
        known,
        point="threshold",
        said=f"{passage.place} was found (rank {fused.rank} of {known.candidates}), "
        f"but is under the threshold: {weight}",
        remedy="; or ".join(ways),
    )


def overlapped(known: Why, passage: Passage, *, above: tuple[Standing, ...]) -> Why:
    """Of a passage that a better hit of its document overlaps."""
    return replace(
        known,
        point="overlap",
        said=f"{passage.place} gave way to {above[0].place}, which overlaps it and "
        f"scores {above[0].score:.3f}",
        remedy="read that hit: it holds some of the same lines",
        above=above,
    )


def crowded_out(
    known: Why, passage: Passage, *, above: tuple[Standing, ...], max_per_document: int
) -> Why:
    """Of a passage whose document has brought as many hits as it may."""
    hits = f"{max_per_document} better {'hit' if max_per_document == 1 else 'hits'}"
    return replace(
        known,
        point="max_per_document",
        said=f"{passage.place} gave way to {hits} of its document",
        remedy="search with a greater maxPerDocument, or ask more narrowly",
        above=above,
    )


def hit(known: Why, passage: Passage, *, rank: int, hits: int) -> Why:
    """Of a passage that is one of ``hits``."""
    said = f"{passage.place} is hit {rank} of {hits}"
    return replace(known, point="hit", said=said, remedy=None, rank=rank)


def below_k(
    known: Why, passage: Passage, *, rank: int, missing: float, above: tuple[Standing, ...]
) -> Why:
    """Of a passage that would be a hit were ``k`` greater."""
    shown = f"{known.k} {'is' if known.k == 1 else 'are'} shown"
    return replace(
        known,
        point="below_k",
        said=f"{passage.place} would be hit {rank}, and {shown}; {missing:.3f} of score is missing",
        remedy=f"ask for more hits with -k {rank}"
        if rank <= MAX_K
        else "narrow the search with --path or --scope, or ask with words that stand there",
        rank=rank,
        missing=missing,
        above=above,
    )
