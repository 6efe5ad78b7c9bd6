"""Searches of real text in a real database: what is found, cited, ordered, withheld and said."""

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from repositories import commit, git, write

from lastro import store
from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import Embedder, UseM3Embedder, fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedders.protocol import Role
from lastro.embedding import embed_texts
from lastro.errors import (
    DatabaseUnavailable,
    EmbedderMismatch,
    InvalidFilter,
    InvalidInput,
    NotFound,
    ProviderError,
)
from lastro.indexing import index
from lastro.profiles import SHIPPED
from lastro.search import Engine, SearchRequest, find, search
from lastro.sources.files import FilePatterns
from lastro.types import FileOrigin, IndexRequest, Outcome, Progress
from lastro.writing import Writer


class Dead(DeterministicEmbedder):
    """An embedder whose provider cannot be reached."""

    def embed(self, texts: Sequence[str], role: Role):
        raise ProviderError("nobody answers", reason="embedder_unreachable")


class Library:
    """Folders of documents, indexed and searched."""

    def __init__(self, database: Database, owner_url: str, embedder: Embedder) -> None:
        self.database = database
        self.owner_url = owner_url
        self.embedder = embedder

    def add(self, folder: Path, files: dict[str, str], *, project: str = "shelf") -> None:
        write(folder, files)
        self.index(folder, project=project)

    def index(
        self,
        folder: Path,
        *,
        project: str = "shelf",
        ref: str | None = None,
        progress: Progress = lambda _done, _total: None,
    ) -> None:
        writer = Writer(
            database=self.database,
            admin_url=self.owner_url,
            embedder=self.embedder,
            pipeline=Pipeline(
                chunking=ChunkSettings(),
                languages=("en", "pt", "zh"),
                embedder=fingerprint(self.embedder),
            ),
        )
        index(
            self.database,
            IndexRequest(path=folder, project=project, ref=ref or "HEAD", worktree=ref is None),
            writer=writer,
            patterns=FilePatterns(),
            progress=progress,
        )

    def ask(
        self, query: str, *, project: str = "shelf", embedder: Embedder | None = None, **more
    ) -> Outcome:
        request = SearchRequest(query=query, **more)
        return search(self.engine(embedder or self.embedder), request, project=project)

    def find(self, query: str, *, profile: str = "default"):
        """The fused candidates, before any threshold: the vectors of these tests mean nothing."""
        request = SearchRequest(query=query, profile=profile)
        return find(self.engine(self.embedder), request, project="shelf")

    def engine(self, embedder: Embedder) -> Engine:
        return Engine(
            database=self.database,
            embedder=embedder,
            profiles=SHIPPED,
            languages=("en", "pt", "zh"),
        )

    def matches(self, query: str, *, profile: str = "default") -> dict[str, float]:
        """Lexical score of each path that the query's words match, best first."""
        ranked = self.find(query, profile=profile).ranked
        found = [(r.candidate.place, r.candidate.lexical_score) for r in ranked]
        best: dict[str, float] = {}
        for place, score in sorted(found, key=lambda pair: -(pair[1] or 0.0)):
            if score is not None:
                best.setdefault(place, score)
        return best

    def paths(self, query: str, **more) -> list[str]:
        return [origin(hit).source_path for hit in self.ask(query, **more).hits]


def origin(hit) -> FileOrigin:
    assert isinstance(hit.origin, FileOrigin)
    return hit.origin


@pytest.fixture
def library(app_database: Database, owner_url: str, embedder: DeterministicEmbedder) -> Library:
    return Library(app_database, owner_url, embedder)


@pytest.fixture
def real_library(app_database: Database, owner_url: str, tmp_path_factory) -> Library:
    cache = tmp_path_factory.getbasetemp().parent / "use-m3"
    return Library(app_database, owner_url, UseM3Embedder(cache_dir=cache))


QUEUE = (
    "# Order queue\n\nOrders wait in a queue.\n\n"
    "## Retries\n\nThe retry policy gives up after nine seconds.\n"
)
PLAIN = "# Kitchen\n\nBread is baked on Tuesdays.\n"


# --- citations


def test_a_hit_quotes_exactly_the_lines_it_cites(library, tmp_path) -> None:
    text = (
        "---\ntitle: Ledger\n---\r\n\r\n# Ledger\r\n\r\nFirst fact: blue door.\r\n\r\n"
        "| key | value |\r\n| --- | --- |\r\n| two | green |\r\n\r\n"
        "```sh\r\n# third fact: port 8123\r\n```\r\n\r\n<!-- hidden -->\r\n\r\n"
        "## Again\r\n\r\nFourth fact: noon.\r\n\r\n## Again\r\n\r\nFifth fact: a week.\r\n"
    )
    library.add(tmp_path, {"docs/ledger.md": text})
    lines = text.replace("\r\n", "\n").split("\n")
    for words, line in (("blue door", 7), ("green", 11), ("8123", 14), ("noon", 21), ("week", 25)):
        hits = library.ask(words).hits
        cited = [hit for hit in hits if words in hit.content]
        assert cited, words
        place = origin(cited[0])
        assert place.line_start <= line <= place.line_end
        quoted = "\n".join(lines[place.line_start - 1 : place.line_end])
        assert cited[0].content.replace("\r\n", "\n") == quoted.strip("\n")
    anchors = {origin(hit).anchor for hit in library.ask("fact").hits}
    assert {"again", "again-1"} <= anchors


def test_a_superseded_record_is_marked_in_its_hit(library, tmp_path) -> None:
    library.add(
        tmp_path,
        {
            "docs/adr/0004-cache.md": "# 4. Cache in memory\n\n## Status\n\n"
            "Superseded by [ADR-0009](0009-cache.md)\n\n## Decision\n\nWe cache in memory.\n"
        },
    )
    [hit, *_] = library.ask("cache in memory").hits
    assert hit.scope == "adr"
    adr = origin(hit).adr
    assert adr is not None
    assert (adr.number, adr.status) == (4, "superseded")
    assert "9" in (adr.superseded_by or "")


def test_a_hit_names_the_ref_that_its_source_is_indexed_at(library, tmp_path) -> None:
    revision = commit(tmp_path / "manual", {"docs/queue.md": QUEUE})
    git(tmp_path / "manual", "tag", "v1")
    library.index(tmp_path / "manual", ref="v1")
    [hit, *_] = library.ask("retry policy").hits
    assert (origin(hit).source, origin(hit).revision) == ("manual@v1", revision)


def test_highlights_are_the_words_that_matched(library, tmp_path) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    hit = next(h for h in library.ask("retry policies").hits if "policy" in h.content)
    shown = [hit.content[start:end] for start, end in hit.highlights]
    assert "retry" in shown


# --- words


@pytest.mark.parametrize(
    "query",
    [
        "What's the retry policy?",
        "queue:orders",
        "Bo <bo@example.org> retry",
        "retry & | !",
        "retry:*",
        "retry <-> policy",
        '"retry policy',
        "retry\\:",
        "-retry policy",
        "retry ' ; -- policy",
        "‘retry’ policy",
        "ｒｅｔｒｙ policy",
        "🙂 retry 🙂",
        "retry\0policy",
        "retry \ud83d policy",
        "retry " * 1_700,
    ],
)
def test_any_text_is_a_legal_query_and_its_words_still_find(library, tmp_path, query) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE, "docs/plain.md": PLAIN})
    library.ask(query)
    assert next(iter(library.matches(query))) == "docs/queue.md"


@given(st.text(min_size=1, max_size=60).filter(lambda text: text.replace("\0", " ").strip()))
@settings(max_examples=40)
def test_no_text_breaks_the_search(indexed_once: Library, query) -> None:
    for profile in ("default", "adr-0080"):
        outcome = indexed_once.ask(query, profile=profile)
        assert {d.reason for d in outcome.degraded} <= {"lexical_no_terms"}


@pytest.fixture(scope="module")
def indexed_once(server_url, template, tmp_path_factory, embedder):
    from databases import address, scratch_database

    with scratch_database(server_url, template=template) as name:
        url = address(server_url, dbname=name)
        with Database(url) as database:
            shelf = Library(database, url, embedder)
            shelf.add(tmp_path_factory.mktemp("shelf"), {"docs/q.md": QUEUE, "docs/p.md": PLAIN})
            yield shelf


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "\0", "\u3000"])
def test_a_blank_query_is_refused(library, tmp_path, query) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    with pytest.raises(InvalidInput, match="blank"):
        library.ask(query)


@pytest.mark.parametrize("query", ["how to do it", "o que é isso", "a", "!!!", "de da do"])
def test_stop_words_alone_leave_meaning_alone_and_say_so(library, tmp_path, query) -> None:
    library.add(
        tmp_path, {"docs/queue.md": QUEUE, "docs/pt.md": "# Fila\n\nA fila de pedidos é o que é.\n"}
    )
    outcome = library.ask(query)
    assert "lexical_no_terms" in {d.reason for d in outcome.degraded}
    assert all(hit.lexical_score is None for hit in outcome.hits)


@pytest.mark.parametrize(
    "query",
    ["informação", "informacao", "informações", "informacoes", "decisoes", "decisão", "seguranca"],
)
def test_portuguese_is_found_with_and_without_accents_and_in_the_plural(
    library, tmp_path, query
) -> None:
    text = (
        "# Segurança\n\nA informação sensível fica cifrada. "
        "As decisões ficam registradas e não há exceções.\n"
    )
    library.add(
        tmp_path, {"docs/seg.md": text, "docs/outra.md": "# Cozinha\n\nO pão é assado na terça.\n"}
    )
    assert [h.lexical_score is not None for h in library.ask(query).hits[:1]] == [True]
    assert library.paths(query)[0] == "docs/seg.md"


@pytest.mark.parametrize(
    "query",
    [
        "ADR-0042", "ADR 0042", "adr0042", "0042", "ADR-42", "0042-write-ahead.md",
        "write ahead", "2.7.1", "v2.7.1", "ledger", "journal", "example bounds", "docs/adr",
    ],
)  # fmt: skip
def test_identifiers_versions_paths_and_hosts_are_found_by_their_parts(
    library, tmp_path, query
) -> None:
    text = (
        "# ADR-0042 Write ahead\n\nUses release v2.7.1 of the client. Keeps ledger/journal apart. "
        "See node.js and https://wiki.example.org/bounds.\n"
    )
    library.add(tmp_path, {"docs/adr/0042-write-ahead.md": text, "docs/plain.md": PLAIN})
    hit = library.ask(query).hits[0]
    assert origin(hit).source_path == "docs/adr/0042-write-ahead.md"
    assert hit.lexical_score is not None


def test_an_exact_identifier_ranks_its_text_above_the_parts_apart(library, tmp_path) -> None:
    library.add(
        tmp_path,
        {
            "docs/client.md": "# Client\n\nThe field `minPoolSize` rules, or `min_pool_size`.\n",
            "docs/decoy.md": "# Notes\n\nThe min was read. A pool opened. The size was odd.\n",
        },
    )
    for query in ("minPoolSize", "min_pool_size"):
        assert library.paths(query)[0] == "docs/client.md"
    for query in ("pool size", "minPool"):
        assert "docs/client.md" in library.paths(query)


def test_composed_and_decomposed_spellings_are_the_same_word(library, tmp_path) -> None:
    decomposed = (
        "# Informac\u0327a\u0303o geral\n\n"
        "A configurac\u0327a\u0303o esta\u0301 no servic\u0327o.\n"
    )
    library.add(tmp_path, {"docs/servic\u0327o.md": decomposed, "docs/plain.md": PLAIN})
    for query in ("configuração", "configurac\u0327a\u0303o", "serviço"):
        hit = library.ask(query).hits[0]
        assert hit.lexical_score is not None
    assert "configurac\u0327a\u0303o" in library.ask("configuração").hits[0].content


def test_chinese_words_are_found_inside_a_sentence(library, tmp_path) -> None:
    library.add(
        tmp_path,
        {
            "docs/zh.md": "# 备份\n\n每天凌晨两点进行全量备份，日志保留三十天。\n",
            "docs/zh2.md": "# 监控\n\n服务器的监控每五分钟运行一次。\n",
        },
    )
    assert next(iter(library.matches("全量备份什么时候进行"))) == "docs/zh.md"
    assert list(library.matches("监控")) == ["docs/zh2.md"]


# --- both legs


def test_a_signal_that_gave_no_score_is_null(library, tmp_path) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE, "docs/plain.md": PLAIN})
    scores = {
        origin(h).source_path: h for h in library.ask("# Kitchen\n\nBread", k=20, explain=True).hits
    }
    assert scores["docs/plain.md"].lexical_score is not None
    outcome = library.ask("retry", embedder=Dead())
    assert {hit.vector_score for hit in outcome.hits} == {None}


def test_a_dead_embedder_leaves_the_words_and_says_why(library, tmp_path) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    outcome = library.ask("retry policy", embedder=Dead())
    assert outcome.hits
    assert outcome.vector_available is False
    assert [(d.part, d.reason) for d in outcome.degraded] == [("vector", "embedder_unreachable")]


def test_the_exact_text_has_cosine_one(library, tmp_path) -> None:
    library.add(tmp_path, {"docs/queue.md": "# Queue\n\nOrders wait.\n"})
    [hit] = library.ask("Queue\n# Queue\n\nOrders wait.").hits
    assert hit.vector_score == pytest.approx(1.0, abs=2e-3)


def test_a_question_in_another_language_is_answered_by_meaning_alone(
    real_library, tmp_path
) -> None:
    real_library.add(
        tmp_path,
        {
            "docs/backup.md": "# Backups\n\nThe database is copied every night at two o'clock.\n",
            "docs/kitchen.md": PLAIN,
        },
    )
    outcome = real_library.ask("quando é feita a cópia de segurança do banco de dados?")
    assert origin(outcome.hits[0]).source_path == "docs/backup.md"
    assert outcome.hits[0].lexical_score is None


def test_a_better_answer_in_another_language_stands_above_chance_words(
    real_library, tmp_path
) -> None:
    real_library.add(
        tmp_path,
        {
            "docs/backup.md": "# Backups\n\nThe database is copied every night at two o'clock.\n",
            **{
                f"docs/{n}.md": f"# Nota {n}\n\nO banco da praça {n} abre cedo, feita a hora.\n"
                for n in range(6)
            },
        },
    )
    question = "quando é feita a cópia de segurança do banco de dados?"
    outcome = real_library.ask(question, explain=True)
    assert origin(outcome.hits[0]).source_path == "docs/backup.md"
    unreached = outcome.explain["lexical"]["unreached"]
    assert 0 == unreached["pt"] < unreached["en"]


def test_what_nothing_speaks_for_is_withheld_and_said(library, tmp_path) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE, "docs/plain.md": PLAIN})
    outcome = library.ask("volcanoes of Iceland")
    assert (outcome.hits, outcome.abstained) == ((), True)


def test_a_shorter_answer_is_the_head_of_a_longer_one(library, tmp_path) -> None:
    files = {
        f"docs/{n:02}.md": f"# Note {n}\n\nOrders wait{' in a queue' * (1 + n % 4)}.\n"
        for n in range(30)
    }
    library.add(tmp_path, files)
    longest = [hit.chunk_id for hit in library.ask("queue", k=30).hits]
    assert len(longest) == 30
    for k in (1, 3, 5, 10, 20):
        assert [hit.chunk_id for hit in library.ask("queue", k=k).hits] == longest[:k]


def test_equal_scores_come_in_the_order_of_their_places(library, tmp_path) -> None:
    # one text under one title: the words score alike, and the query has no vector near any
    files = {f"docs/{n}/same.md": "# Same\n\nThe same words.\n" for n in "hgfedcba"}
    library.add(tmp_path, files)
    runs = {tuple(library.paths("same words", k=20)) for _ in range(20)}
    assert runs == {tuple(sorted(files))}


def test_chunks_that_overlap_are_one_hit_and_a_document_has_its_share(library, tmp_path) -> None:
    long = "# Long\n\n" + "The queue holds orders and orders wait in the queue. " * 60
    library.add(tmp_path, {"docs/long.md": long, "docs/plain.md": PLAIN})
    hits = [h for h in library.ask("queue orders", k=20).hits if "queue" in h.content]
    ranges = sorted((origin(h).line_start, h.content[:30]) for h in hits)
    assert 1 <= len(hits) <= 3
    assert len(ranges) == len(hits)
    assert len(library.ask("queue orders", k=20, max_per_document=1).hits) <= 2


# --- filters and tenants


def test_scopes_and_path_prefixes_hold_in_both_legs(library, tmp_path) -> None:
    record = "# 1. Queue\n\n## Decision\n\nOrders wait in a queue.\n"
    library.add(
        tmp_path, {"docs/adr/0001-queue.md": record, "docs/queue.md": QUEUE, "docs/qa/x.md": QUEUE}
    )
    assert set(library.paths("queue", scopes=["adr"])) == {"docs/adr/0001-queue.md"}
    assert set(library.paths("queue", path_prefix="docs/q")) == {"docs/queue.md", "docs/qa/x.md"}
    assert set(library.paths("queue", path_prefix="docs/qa/")) == {"docs/qa/x.md"}
    assert library.paths("queue", path_prefix="docs/%") == []


def test_another_project_is_never_seen(library, tmp_path) -> None:
    library.add(
        tmp_path / "a", {"docs/a.md": "# Secret\n\nThe code is swordfish.\n"}, project="theirs"
    )
    library.add(tmp_path / "b", {"docs/b.md": PLAIN}, project="mine")
    outcome = library.ask(
        "Secret\n# Secret\n\nThe code is swordfish.", project="mine", explain=True
    )
    assert "swordfish" not in repr(outcome.hits)
    assert all(term["df"] == 0 for term in outcome.explain["lexical"]["terms"])


@pytest.mark.parametrize(
    ("request_fields", "error"),
    [
        ({"scopes": []}, InvalidFilter),
        ({"scopes": ["wiki"]}, InvalidFilter),
        ({"path_prefix": ""}, InvalidFilter),
        ({"k": 0}, InvalidInput),
        ({"k": 101}, InvalidInput),
        ({"profile": "bm25"}, InvalidInput),
        ({"max_per_document": 0}, InvalidInput),
        ({"project": "nowhere"}, NotFound),
    ],
)
def test_a_request_that_cannot_be_answered_says_why(
    library, tmp_path, request_fields, error
) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    with pytest.raises(error):
        library.ask("queue", **request_fields)


def test_another_embedder_than_the_index_has_is_refused(library, tmp_path) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    other = DeterministicEmbedder()
    other.id = "other"
    with pytest.raises(EmbedderMismatch):
        library.ask("queue", embedder=other)


# --- profiles


def test_adr_0080_needs_every_word_and_scores_by_ts_rank_32(library, tmp_path) -> None:
    text = "Retries\n\nThe retry policy gives up after nine seconds."
    library.add(tmp_path, {"docs/queue.md": text, "docs/plain.md": PLAIN})
    query = "retry policy seconds"
    with psycopg.connect(library.owner_url) as connection:
        [expected] = connection.execute(
            "SELECT ts_rank(to_tsvector('english', %s), plainto_tsquery('english', %s), 32)",
            [text, query],
        ).fetchone()
    assert library.matches(query, profile="adr-0080") == {"docs/queue.md": pytest.approx(expected)}
    assert library.matches("retry policy volcano", profile="adr-0080") == {}
    assert library.ask(query, profile="adr-0080").profile.calibrated is False


def test_adr_0080_takes_a_link_with_a_percent_sign(library, tmp_path) -> None:
    text = "# Links\n\nRead example.org/one%20page first.\n"
    library.add(tmp_path, {"docs/links.md": text, "docs/plain.md": PLAIN})
    assert list(library.matches("example.org/one%20page", profile="adr-0080")) == ["docs/links.md"]


def test_adr_0080_says_that_its_threshold_did_not_apply_in_an_outage(library, tmp_path) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE, "docs/plain.md": PLAIN})
    outcome = library.ask("retry policy", profile="adr-0080", embedder=Dead())
    assert [d.part for d in outcome.degraded] == ["vector", "threshold"]
    assert {d.reason for d in outcome.degraded} == {"embedder_unreachable"}
    assert outcome.hits


def test_a_leg_that_takes_too_long_is_left_out_and_said(library, tmp_path, owner) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    engine = replace(library.engine(library.embedder), statement_timeout_s=0.3)
    request = SearchRequest(query="Order queue\n# Order queue\n\nOrders wait in a queue.")
    with owner.transaction():
        owner.execute("LOCK TABLE lastro.lexeme_stats IN ACCESS EXCLUSIVE MODE")
        outcome = search(engine, request, project="shelf")
    assert [(d.part, d.reason) for d in outcome.degraded] == [("lexical", "statement_timeout")]
    assert outcome.hits[0].lexical_score is None
    assert outcome.hits[0].vector_score == pytest.approx(1.0, abs=2e-3)


def test_a_vector_leg_that_takes_too_long_is_left_out_and_said(
    library, tmp_path, owner_url
) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    # No row holds the word, so the lexical leg reads none and waits for no lock.
    outcome = while_rows_are_locked(library, owner_url, query="volcano")
    assert [(d.part, d.reason) for d in outcome.degraded] == [("vector", "statement_timeout")]
    assert outcome.vector_available is False
    assert outcome.hits == ()


def test_where_both_legs_take_too_long_nothing_is_found_and_both_are_said(
    library, tmp_path, owner_url
) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    outcome = while_rows_are_locked(library, owner_url, query="retry policy")
    assert [(d.part, d.reason) for d in outcome.degraded] == [
        ("lexical", "statement_timeout"),
        ("vector", "statement_timeout"),
    ]
    assert (outcome.hits, outcome.abstained) == ((), False)


def while_rows_are_locked(library: Library, owner_url: str, *, query: str) -> Outcome:
    """What a search says that finds the rows locked until its vector leg was stopped."""
    engine = replace(library.engine(library.embedder), statement_timeout_s=0.5)
    request = SearchRequest(query=query)
    with ThreadPoolExecutor(1) as threads, psycopg.connect(owner_url) as other:
        other.execute("LOCK TABLE lastro.chunks IN ACCESS EXCLUSIVE MODE")
        asked = threads.submit(search, engine, request, project="shelf")
        for is_waiting in (True, False):
            while vector_leg_waits(other) is not is_waiting:
                assert not asked.done()
                time.sleep(0.01)
        other.rollback()
        return asked.result()


def vector_leg_waits(connection: psycopg.Connection) -> bool:
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND wait_event_type = 'Lock' AND query LIKE '%kept AS MATERIALIZED%'"
    ).fetchone()
    return row != (0,)


def test_a_full_disk_during_a_search_is_named_by_the_server_s_folder(
    library, tmp_path, owner
) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    # What the server says then; no disk is filled for it.
    owner.execute(
        "CREATE OR REPLACE FUNCTION lastro.text_vector(language text, body text)"
        " RETURNS tsvector LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
        " RAISE EXCEPTION 'could not write to file: No space left on device'"
        " USING ERRCODE = 'disk_full'; END $$"
    )
    [folder] = owner.execute("SHOW data_directory").fetchone()
    is_here = conninfo_to_dict(library.database.url).get("host", "").startswith("/")
    place = re.escape(f"the disk of {folder}") if is_here else "the server's disk"
    with pytest.raises(DatabaseUnavailable, match=f"^{place} is full"):
        library.ask("retry policy")


def test_an_index_run_that_was_interrupted_is_said_until_one_finishes(library, tmp_path) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE})
    (tmp_path / "docs" / "plain.md").write_text(PLAIN)

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.index(tmp_path, progress=stop)
    outcome = library.ask("retry policy")
    assert [(d.part, d.reason) for d in outcome.degraded] == [("index", "index_incomplete")]
    library.index(tmp_path)
    assert library.ask("retry policy").degraded == ()


def test_a_word_that_no_row_holds_lowers_the_covered_share(library, tmp_path) -> None:
    library.add(tmp_path, {"docs/queue.md": QUEUE, "docs/plain.md": PLAIN})
    [whole] = library.matches("bread").values()
    [half] = library.matches("bread volcano").values()
    assert 0 < half < whole <= 1


@pytest.mark.parametrize(("role", "is_hurried"), [("query", True), ("document", False)])
def test_a_new_vector_waits_for_the_disk_unless_it_is_a_questions(
    app_database: Database, monkeypatch: pytest.MonkeyPatch, role: Role, is_hurried: bool
) -> None:
    said: list[str] = []
    keep = store.cache_embeddings

    def keep_and_look(connection: store.AppConnection, *values: object, **named: object) -> None:
        keep(connection, *values, **named)
        row = connection.execute(
            "SELECT source FROM pg_settings WHERE name = 'synchronous_commit'"
        ).fetchone()
        said.append(row[0] if row else "")

    monkeypatch.setattr(store, "cache_embeddings", keep_and_look)
    embed_texts(app_database, DeterministicEmbedder(), ["tide"], role=role)
    assert [source == "session" for source in said] == [is_hurried]
