"""``lastro why``: the point where a passage fell out, and that it never disagrees with search."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from commands import Run, indexed
from hypothesis import given, settings
from hypothesis import strategies as st
from repositories import commit, write

from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedders.protocol import Role
from lastro.errors import EXIT_DONE, EXIT_NOT_FOUND, EXIT_USAGE, InvalidInput, ProviderError
from lastro.indexing import index
from lastro.places import ChunkPlace, covers, parse_place
from lastro.profiles import DEFAULT, Thresholds
from lastro.search import Engine, SearchRequest, find, search
from lastro.sources.files import FilePatterns
from lastro.types import FileOrigin, IndexRequest
from lastro.why import why
from lastro.why_findings import Why
from lastro.writing import Writer

# The vectors of these tests mean nothing: without a threshold every candidate may be shown.
OPEN = replace(DEFAULT, name="open", threshold=None, calibrated=False)
WORDS_ONLY = replace(OPEN, name="words", vector_weight=0.0, lexical_weight=1.0)
TENDERS = (
    "# Tenders\n\nTenders carry water.\n\n"
    "## Couplings\n\nA coupling holds nine tonnes of ballast.\n\n"
    "## Brakes\n\nBrakes are tested at dawn.\n\n"
    "## Wheels\n\nWheels are turned each spring.\n"
)
ENGINES = "# Engines\n\nEngines burn coal, and ballast is laid below the rails.\n"
RECORD = "# ADR-0004: Coal before oil\n\nStatus: accepted\n\n## Decision\n\nCoal is burnt.\n"
FILES = {
    "docs/tenders.md": TENDERS,
    "docs/engines.md": ENGINES,
    "docs/adr/0004-coal.md": RECORD,
    **{f"docs/yard/{n}.md": f"# Yard {n}\n\nTrack {n} holds ballast wagons.\n" for n in range(6)},
}


class Dead(DeterministicEmbedder):
    """An embedder whose provider cannot be reached."""

    def embed(self, texts: Sequence[str], role: Role):
        raise ProviderError("nobody answers", reason="embedder_unreachable")


class Railway:
    """One indexed project, asked and explained."""

    def __init__(self, database: Database, owner_url: str, folder: Path) -> None:
        self.database = database
        self.owner_url = owner_url
        self.folder = folder
        self.embedder = DeterministicEmbedder()

    def index(self, files: dict[str, str], *, embedder: DeterministicEmbedder | None = None):
        write(self.folder, files)
        embedder = embedder or self.embedder
        writer = Writer(
            database=self.database,
            admin_url=self.owner_url,
            embedder=embedder,
            pipeline=Pipeline(
                chunking=ChunkSettings(), languages=("en",), embedder=fingerprint(embedder)
            ),
        )
        request = IndexRequest(path=self.folder, project="railway", ref="HEAD", worktree=True)
        index(
            self.database,
            request,
            writer=writer,
            patterns=FilePatterns(),
            progress=lambda _done, _total: None,
        )

    def engine(self, embedder: DeterministicEmbedder | None = None) -> Engine:
        return Engine(
            database=self.database,
            embedder=embedder or self.embedder,
            profiles={"default": DEFAULT},
            languages=("en",),
        )

    def why(self, query: str, expect: str, **more) -> Why:
        more = {"profile": OPEN, **more}
        request = SearchRequest(query=query, **more)
        return why(self.engine(), request, expect=expect, project="railway")


@pytest.fixture
def railway(app_database: Database, owner_url: str, tmp_path: Path) -> Railway:
    made = Railway(app_database, owner_url, tmp_path)
    made.index(FILES)
    return made


# --- not indexed


def test_of_a_file_that_the_index_does_not_know_the_nearest_path_is_named(railway: Railway):
    told = railway.why("coal", "docs/adr/0004.md")
    assert (told.point, told.passage) == ("not_indexed", None)
    assert told.nearest[0] == "docs/adr/0004-coal.md"
    assert "docs/adr/0004-coal.md" in (told.remedy or "")


@pytest.mark.parametrize(
    ("expect", "nearest"),
    [
        ("docs/adr/0004.md", ("docs/adr/0004-coal.md",)),
        ("engines.md", ("docs/engines.md",)),
        ("docs/engine.md", ("docs/engines.md",)),
    ],
)
def test_a_path_is_known_by_its_beginning_its_name_or_its_looks(
    railway: Railway, expect: str, nearest: tuple[str, ...]
):
    assert railway.why("coal", expect).nearest[:1] == nearest


def test_of_a_file_that_was_skipped_the_reason_is_told(railway: Railway):
    (railway.folder / "docs/broken.md").write_bytes(b"\xff\xfe\x00\x01 \x00\x00")
    railway.index({})
    told = railway.why("coal", "docs/broken.md")
    assert told.point == "not_indexed"
    assert "the last run skipped it (" in told.said


def test_of_a_section_that_is_not_there_the_nearest_heading_is_named(railway: Railway):
    told = railway.why("brakes", "docs/tenders.md#brake")
    assert (told.point, told.nearest[0]) == ("section_not_found", "docs/tenders.md#brakes")


def test_of_lines_that_hold_nothing_the_nearest_are_named(railway: Railway):
    told = railway.why("brakes", "docs/tenders.md:90-99")
    assert told.point == "section_not_found"
    assert told.nearest[0] == "docs/tenders.md:13-15"  # the section Wheels, the file's last


def test_a_place_that_is_none_is_refused(railway: Railway):
    with pytest.raises(InvalidInput):
        railway.why("coal", "docs/tenders.md:9-3")


def test_a_file_with_a_mark_in_its_name_is_found_whole(railway: Railway):
    railway.index({**FILES, "docs/Bell #1: north.md": "# Bell\n\nThe bell tolls.\n"})
    told = railway.why("bell tolls", "docs/Bell #1: north.md#bell")
    assert (told.point, told.rank) == ("hit", 1)


# --- filtered


@pytest.mark.parametrize(
    ("hard", "filtered_by"),
    [
        ({"scopes": ["adr"]}, ("scopes",)),
        ({"path_prefix": "docs/yard/"}, ("pathPrefix",)),
        ({"scopes": ["adr"], "path_prefix": "docs/yard/"}, ("scopes", "pathPrefix")),
        ({"filter": {"types": ["faq"]}}, ("filter.types",)),
        ({"scopes": ["docs"], "filter": {"require": {"a": 1}}}, ("filter.require.a",)),
    ],
)
def test_the_filter_that_took_a_passage_away_is_named(railway: Railway, hard, filtered_by):
    told = railway.why("coupling", "docs/tenders.md#couplings", **hard)
    assert (told.point, told.filtered_by, told.counts.kept) == ("filtered", filtered_by, 0)


def test_a_passage_that_is_no_longer_published_is_filtered_by_its_status(
    railway: Railway, owner: psycopg.Connection
):
    owner.execute("UPDATE lastro.chunks SET status = 'archived' WHERE anchor = 'brakes'")
    told = railway.why("dawn", "docs/tenders.md#brakes")
    assert (told.point, told.filtered_by) == ("filtered", ("status",))
    assert "archived" in told.said


# --- no candidate


def test_beyond_the_depth_of_a_leg_the_exact_rank_is_told(railway: Railway):
    shallow = replace(OPEN, vector_depth=1, lexical_depth=1)
    deep = find(railway.engine(), SearchRequest(query="ballast", profile=OPEN), project="railway")
    yards = [r.candidate for r in deep.ranked if r.candidate.place.startswith("docs/yard/")]
    beyond = max(yards, key=lambda c: min(c.vector_rank or 99, c.lexical_rank or 99))
    told = railway.why("ballast", beyond.place, profile=shallow)
    assert told.point == "not_candidate"
    assert told.vector is not None
    assert told.lexical is not None
    assert (told.vector.rank, told.lexical.rank) == (beyond.vector_rank, beyond.lexical_rank)
    assert (told.vector.found, told.vector.depth) == (False, 1)
    assert told.vector.score == pytest.approx(beyond.vector_score)
    assert told.vector.rows == 13  # tenders 4, engines 1, the record 2, yards 6


def test_the_words_that_a_passage_holds_and_lacks_are_told(railway: Railway):
    told = railway.why("ballast brakes", "docs/tenders.md#brakes")
    held = {word.text: (word.held, word.df) for word in told.words}
    # ballast: the couplings, the engines and six yards
    assert held == {"brakes": (True, 1), "ballast": (False, 8)}
    assert [word.text for word in told.words] == ["brakes", "ballast"]  # the rarest first


def test_a_passage_without_a_vector_is_to_be_repaired(
    app_database: Database, owner_url: str, tmp_path: Path
):
    railway = Railway(app_database, owner_url, tmp_path)
    railway.index({"docs/engines.md": ENGINES})
    railway.index({"docs/tenders.md": TENDERS}, embedder=Dead())
    told = railway.why("coal", "docs/tenders.md#wheels")
    assert (told.point, told.remedy) == ("no_vector", "run `lastro index --repair`")
    assert "vectors_missing" in {part.reason for part in told.degraded}


def test_a_search_without_vectors_says_so(railway: Railway):
    told = why(
        railway.engine(Dead()),
        SearchRequest(query="dawn", profile=OPEN),
        expect="docs/engines.md",
        project="railway",
    )
    assert (told.point, told.vector_available, told.vector) == ("not_candidate", False, None)
    assert [part.reason for part in told.degraded] == ["embedder_unreachable"]
    assert "bring back the vector leg" in (told.remedy or "")


# --- fused, and not shown


def test_below_k_the_hits_above_and_what_is_missing_are_told(railway: Railway):
    told = railway.why("ballast", "docs/tenders.md#brakes", profile=WORDS_ONLY, k=2)
    assert told.point == "below_k"
    assert told.remedy == f"ask for more hits with -k {told.rank}"
    assert len(told.above) == 2
    assert told.fused is not None
    # the second hit is the last one
    assert told.missing == pytest.approx(told.above[1].score - told.fused.score)
    assert railway.why("ballast", "docs/tenders.md#brakes", k=told.rank or 0).point == "hit"


def test_the_hits_that_used_up_a_document_are_told(railway: Railway):
    query = "coupling ballast wheels"
    told = railway.why(query, "docs/tenders.md#brakes", profile=WORDS_ONLY, max_per_document=1)
    assert told.point == "max_per_document"
    assert [above.place.split(":")[0] for above in told.above] == ["docs/tenders.md"]


def test_the_passage_that_overlaps_is_told(railway: Railway, owner: psycopg.Connection):
    # Chunks overlap where a long section is cut; here the range of one is drawn over another.
    owner.execute(
        "UPDATE lastro.chunks SET char_start = 0, char_end = 100000 WHERE anchor = 'couplings'"
    )
    told = railway.why("coupling", "docs/tenders.md#brakes", profile=WORDS_ONLY)
    assert told.point == "overlap"
    assert [above.place for above in told.above] == ["docs/tenders.md:5-7"]


@pytest.mark.parametrize(
    ("threshold", "rule", "needed"),
    [
        (Thresholds(both=0.9, vector_only=0.9, lexical_only=0.9), None, 0.9),
        (0.95, "score", 0.95),
    ],
)
def test_under_the_threshold_the_nearest_rule_is_told_with_its_value(
    railway: Railway, threshold, rule, needed
):
    strict = replace(OPEN, threshold=threshold)
    told = railway.why("wheels at dawn", "docs/tenders.md#wheels", profile=strict)
    assert told.point == "threshold"
    assert told.bar is not None
    assert told.bar.needed == pytest.approx(needed)
    assert told.bar.value < told.bar.needed
    assert rule in {None, told.bar.rule}


def test_a_hit_has_its_rank_and_no_remedy(railway: Railway):
    told = railway.why("brakes tested at dawn", "docs/tenders.md#brakes", profile=WORDS_ONLY)
    assert (told.point, told.rank, told.remedy) == ("hit", 1, None)


def test_where_a_project_has_two_sources_the_one_of_a_passage_is_named(
    railway: Railway, tmp_path_factory: pytest.TempPathFactory
):
    alone = railway.why("ballast", "docs/engines.md", profile=WORDS_ONLY)
    assert alone.passage is not None
    assert alone.passage.place == "docs/engines.md:1-3"
    other = Railway(railway.database, railway.owner_url, tmp_path_factory.mktemp("canal"))
    other.index({"docs/boats.md": "# Boats\n\nBoats need ballast too.\n"})
    told = railway.why("ballast", "docs/boats.md", profile=WORDS_ONLY, k=1)
    assert told.passage is not None
    assert told.passage.source != alone.passage.source
    assert told.passage.place == f"docs/boats.md:1-3 of {told.passage.source}"
    assert told.said.startswith(f"{told.passage.place} ")
    sources = {place.place.partition(" of ")[2] for place in told.above}
    assert sources <= {told.passage.source, alone.passage.source}


# --- never against search


PLACES = [
    "docs/tenders.md",
    "docs/tenders.md#couplings",
    "docs/tenders.md:9-15",
    "docs/engines.md",
    "docs/adr/0004-coal.md#decision",
    "docs/yard/3.md",
    "docs/absent.md",
]
WORDS = ["ballast", "coal", "brakes", "wheels", "track", "nine", "the", "unheard"]


def test_it_never_disagrees_with_search(railway: Railway):
    @settings(max_examples=40)
    @given(
        query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
        expect=st.sampled_from(PLACES),
        k=st.integers(1, 5),
        most=st.integers(1, 3),
        scopes=st.sampled_from([None, ["docs"], ["adr"]]),
        profile=st.sampled_from([DEFAULT, OPEN, replace(OPEN, vector_depth=2, lexical_depth=2)]),
    )
    def check(query, expect, k, most, scopes, profile) -> None:
        request = SearchRequest(
            query=query, k=k, max_per_document=most, scopes=scopes, profile=profile
        )
        outcome = search(railway.engine(), request, project="railway")
        told = why(railway.engine(), request, expect=expect, project="railway")
        place = parse_place(expect)
        ranks = [
            rank
            for rank, hit in enumerate(outcome.hits, start=1)
            if isinstance(hit.origin, FileOrigin) and covers(place, place_of(hit.origin))
        ]
        assert (told.point == "hit") == bool(ranks)
        assert told.counts.hits == len(ranks)
        if ranks:
            assert told.rank == ranks[0]
            assert told.fused is not None
            assert told.fused.score == outcome.hits[ranks[0] - 1].score
        if outcome.abstained:
            assert told.counts.with_evidence == 0

    check()


def place_of(origin: FileOrigin) -> ChunkPlace:
    return ChunkPlace(
        path=origin.source_path,
        heading_path=tuple(origin.heading_path),
        anchor=origin.anchor,
        line_start=origin.line_start,
        line_end=origin.line_end,
    )


# --- the command


@pytest.fixture
def run(
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    commit(tmp_path / "railway", FILES)
    return indexed(
        tmp_path / "railway", owner_url=owner_url, monkeypatch=monkeypatch, capsys=capsys
    )


def test_the_command_ends_well_whatever_the_point_and_keeps_to_80_columns(run: Run):
    for expect in PLACES:
        code, out, _ = run("why", "ballast wheels", "--expect", expect, "--profile", "adr-0080")
        assert code == EXIT_DONE
        assert out
        assert max(map(len, out.splitlines())) <= 80


def test_a_program_gets_every_number(run: Run):
    code, out, _ = run(
        "why", "ballast", "--expect", "docs/engines.md", "--format", "json", "-k", "1"
    )
    told = json.loads(out)
    assert code == EXIT_DONE
    assert told["passage"]["place"] == "docs/engines.md:1-3"
    assert told["vector"].keys() == {"found", "rank", "score", "rows", "depth"}
    assert told["words"][0].keys() == {"text", "held", "df", "idf"}
    assert told["counts"]["atPlace"] == 1


def test_an_unknown_project_and_a_bad_place_have_their_exit_codes(run: Run):
    unknown = run("why", "coal", "--expect", "docs/engines.md", "--project", "canal")
    assert unknown[0] == EXIT_NOT_FOUND
    assert run("why", "coal", "--expect", "../engines.md")[0] == EXIT_USAGE
