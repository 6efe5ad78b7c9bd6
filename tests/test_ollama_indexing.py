"""Indexing and searching with Ollama: through the library and as commands, on real sockets."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psycopg
import pytest
from ollama_server import (
    DIGEST,
    OTHER_DIGEST,
    Script,
    free_port,
    ollama,
    shuffled,
    vectors_of,
    with_first,
)
from repositories import commit

from lastro import writing
from lastro.app import App, build
from lastro.config import Settings
from lastro.errors import EmbedderMismatch
from lastro.ollama_settings import OllamaSettings
from lastro.search import SearchRequest
from lastro.types import IndexRequest, Outcome

PATIENT = OllamaSettings(query_timeout_s=20.0, document_timeout_s=20.0, retry_after_s=60.0)
SHORT = replace(PATIENT, query_timeout_s=1.0, document_timeout_s=1.0)
LASTRO = Path(sys.executable).with_name("lastro")
TIMEOUT_S = 90
WORDS = ("anchor", "bilge", "capstan", "davit", "ensign", "fender", "gangway", "halyard")


@dataclass
class Harbour:
    """A repository, a database, and an address where Ollama may be."""

    folder: Path
    home: Path
    url: str
    host: str
    stack: ExitStack
    ollama: OllamaSettings = PATIENT
    embedder: str = "ollama:nomic-embed-text"

    def serve(self, script: Script) -> Script:
        """Start a server; from now on it is the one that is asked."""
        self.host = self.stack.enter_context(ollama(script))
        return script

    def settings(self) -> Settings:
        return Settings(
            home=self.home,
            database_url=self.url,
            embedder=self.embedder,
            ollama_host=self.host,
            ollama=self.ollama,
            project="harbour",
        )

    @contextmanager
    def app(self) -> Iterator[App]:
        with build(self.settings()) as app:
            yield app

    def index(self, **options):
        with self.app() as app:
            return app.index(IndexRequest(path=self.folder, **options))

    def search(self, query: str) -> Outcome:
        with self.app() as app:
            return app.search(SearchRequest(query=query))

    def rows(self) -> dict[str, tuple[str, np.ndarray | None]]:
        """By path: the document's state and the vector of its one chunk."""
        with psycopg.connect(self.url) as connection:
            column = connection.execute(
                "SELECT 1 FROM pg_attribute WHERE attname = 'embedding' "
                "AND attrelid = 'lastro.chunks'::regclass"
            ).fetchone()
            vector = "c.embedding::text" if column else "NULL"
            found = connection.execute(
                f"SELECT d.place, d.state, {vector} FROM lastro.documents AS d "
                "JOIN lastro.chunks AS c ON c.document_id = d.id ORDER BY 1"
            ).fetchall()
        return {
            place: (state, None if v is None else np.array(json.loads(v), dtype=np.float32))
            for place, state, v in found
        }

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return subprocess.run(
            [LASTRO, *words],
            cwd=self.folder,
            env={
                **kept,
                "LASTRO_HOME": str(self.home),
                "LASTRO_DATABASE_URL": self.url,
                "LASTRO_EMBEDDER": self.embedder,
                "OLLAMA_HOST": self.host,
                "LASTRO_PROJECT": "harbour",
                "LASTRO_OLLAMA_QUERY_TIMEOUT_S": f"{self.ollama.query_timeout_s:g}",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )


def text_of(word: str) -> str:
    return f"# {word.title()}\n\nWhere the {word} is kept and who cares for it.\n"


@pytest.fixture
def harbour(owner_url: str, tmp_path: Path) -> Iterator[Harbour]:
    folder = tmp_path / "harbour"
    commit(folder, {f"docs/{word}.md": text_of(word) for word in WORDS})
    with ExitStack() as stack:
        yield Harbour(
            folder=folder,
            home=tmp_path / "home",
            url=owner_url,
            host=f"127.0.0.1:{free_port()}",
            stack=stack,
        )


def answers_for(words: Iterable[str]) -> list[list[float]]:
    """What the server answers to the texts of these documents: title, then the passage."""
    return vectors_of(
        [f"search_document: {word.title()}\n{text_of(word).rstrip()}" for word in words], 768
    )


def expected(word: str) -> np.ndarray:
    [vector] = np.array(answers_for([word]))
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def zero_for(words: Iterable[str]) -> Callable[[list], list]:
    """Vectors as they are, but zero for the documents of ``words``."""
    bad = answers_for(words)
    return lambda vectors: [[0.0] * 768 if vector in bad else vector for vector in vectors]


def assert_paired_rightly(harbour: Harbour, *, without: set[str] = frozenset()) -> None:
    """Every row has the vector of its own text, but for those ``without`` one."""
    rows = harbour.rows()
    assert {p for p, (_, v) in rows.items() if v is None} == {f"docs/{w}.md" for w in without}
    for word in set(WORDS) - without:
        vector = rows[f"docs/{word}.md"][1]
        assert vector is not None
        # halfvec keeps 11 bits of each number.
        assert vector @ expected(word) > 0.999


# --- indexing


def test_every_row_gets_the_vector_of_its_own_text(harbour: Harbour):
    harbour.serve(Script())
    report = harbour.index()
    assert (report.embedding.available, report.embedding.skipped) == (True, 0)
    assert_paired_rightly(harbour)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(shuffled, id="another order"),
        pytest.param(lambda v: v[:-1] if len(v) > 1 else v, id="fewer"),
        pytest.param(lambda v: [*v, v[0]] if len(v) > 1 else v, id="more"),
        pytest.param(lambda v: with_first(float("nan"))(v) if len(v) > 1 else v, id="no number"),
        pytest.param(lambda v: [x[:9] for x in v] if len(v) > 1 else v, id="another width"),
    ],
)
def test_a_server_that_gets_batches_wrong_pairs_nothing_wrongly(harbour: Harbour, answer):
    harbour.serve(Script(answer=answer))
    assert harbour.index().embedding.skipped == 0
    assert_paired_rightly(harbour)


@pytest.mark.parametrize("status", [400, 500])
def test_one_text_that_is_refused_is_named_and_costs_no_other_its_vector(
    harbour: Harbour, status: int
):
    harbour.serve(Script(refuse="capstan", refuse_status=status))
    report = harbour.index()
    assert (report.embedding.skipped, report.embedding.reason) == (1, "embedder_refused")
    [note] = report.documents.warnings
    assert note.path == "docs/capstan.md"
    assert "lines 1-3" in note.reason
    assert "the input length exceeds the context length" in note.reason
    assert_paired_rightly(harbour, without={"capstan"})


def test_a_text_whose_vector_is_no_vector_costs_no_other_its_own(harbour: Harbour):
    harbour.serve(Script(answer=zero_for(["capstan"])))
    report = harbour.index()
    assert (report.embedding.skipped, report.embedding.reason) == (1, "embedder_bad_reply")
    assert_paired_rightly(harbour, without={"capstan"})


def test_a_refused_text_is_found_by_its_words(harbour: Harbour):
    harbour.serve(Script(refuse="capstan"))
    harbour.index()
    outcome = harbour.search("who cares for the capstan")
    assert "docs/capstan.md" in {hit.origin.source_path for hit in outcome.hits}
    # The question holds the word too: its vector is refused, and said to be.
    assert [d.reason for d in outcome.degraded] == ["embedder_refused", "vectors_missing"]


@pytest.mark.parametrize("repair", [False, True])
def test_the_next_run_or_repair_alone_completes_what_was_refused(harbour: Harbour, repair: bool):
    script = harbour.serve(Script(refuse="capstan"))
    harbour.index()
    script.refuse = None
    script.requests.clear()
    report = harbour.index(repair=repair)
    assert (report.embedding.embedded, report.embedding.skipped) == (1, 0)
    assert [text for text in script.inputs if "capstan" in text] == script.inputs
    assert_paired_rightly(harbour)
    assert {state for state, _ in harbour.rows().values()} == {"complete"}


def test_a_server_that_fails_half_way_keeps_what_was_made(harbour: Harbour):
    # Twelve texts compare batches with single ones; the first batch of documents has four.
    script = harbour.serve(Script(fail_after=12 + 4))
    report = harbour.index()
    assert (report.embedding.available, report.embedding.reason) == (False, "embedder_refused")
    assert (report.embedding.embedded, report.embedding.skipped) == (4, 4)
    script.fail_after = None
    script.requests.clear()
    assert harbour.index(repair=True).embedding.embedded == 4
    assert sum("search_document" in text for text in script.inputs) == 4
    assert_paired_rightly(harbour)


def test_a_server_that_hangs_costs_an_index_run_one_deadline(harbour: Harbour):
    script = harbour.serve(Script(delay_s=60.0))
    harbour.ollama = SHORT
    report = harbour.index()
    assert (report.embedding.reason, report.chunks) == ("embedder_timeout", len(WORDS))
    assert (script.looks, script.requests) == (1, [])


def test_a_server_that_answers_nothing_right_is_not_asked_about_every_text(harbour: Harbour):
    script = harbour.serve(Script(drop=True))
    report = harbour.index()
    assert (report.embedding.available, report.embedding.reason) == (False, "embedder_bad_reply")
    assert (report.chunks, report.embedding.skipped) == (len(WORDS), len(WORDS))
    # The first batch has four texts: four, two, one, and the probe.
    assert len(script.requests) == 4


def test_documents_stored_without_a_server_are_the_same_when_it_is_back(harbour: Harbour):
    report = harbour.index()
    assert (report.embedding.reason, report.embedding.skipped) == ("embedder_unreachable", 8)
    harbour.serve(Script())
    report = harbour.index()
    assert (report.documents.unchanged, report.embedding.embedded) == (8, 8)
    assert_paired_rightly(harbour)
    with harbour.app() as app:
        assert sum(scope.stale for scope in app.coverage().scopes) == 0


def test_a_run_without_a_server_and_without_news_counts_what_still_has_no_vector(
    harbour: Harbour,
):
    first, again = harbour.index(), harbour.index()
    assert (again.documents.unchanged, again.embedding) == (len(WORDS), first.embedding)
    assert first.embedding.skipped == len(WORDS)


def test_with_the_server_down_what_was_embedded_before_keeps_its_vector(harbour: Harbour):
    harbour.serve(Script())
    harbour.index()
    harbour.host = f"127.0.0.1:{free_port()}"
    commit(harbour.folder, {"docs/jib.md": text_of("jib")})
    report = harbour.index(rebuild=True)
    assert (report.embedding.embedded, report.embedding.skipped) == (8, 1)
    assert report.embedding.reason == "embedder_unreachable"
    assert_paired_rightly(harbour, without={"jib"})


def test_a_server_that_speaks_of_nothing_but_embeddings_is_enough(harbour: Harbour):
    harbour.serve(Script(only_embeds=True))
    assert harbour.index().embedding.skipped == 0
    assert harbour.search("halyard").vector_available
    assert_paired_rightly(harbour)


def test_a_missing_model_is_said_and_the_words_can_be_searched(harbour: Harbour):
    harbour.serve(Script(models={}))
    assert harbour.index().embedding.reason == "embedder_model_missing"
    outcome = harbour.search("capstan")
    assert outcome.hits[0].origin.source_path == "docs/capstan.md"


def test_a_page_of_rows_that_are_refused_keeps_none_behind_it_from_its_vector(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writing, "BATCH_CHUNKS", 2)
    harbour.index()
    refused = {"anchor", "bilge", "capstan", "davit", "ensign"}
    harbour.serve(Script(answer=zero_for(refused)))
    report = harbour.index(repair=True)
    assert (report.embedding.embedded, report.embedding.skipped) == (3, 5)
    assert_paired_rightly(harbour, without=refused)


def test_an_unknown_model_is_indexed_at_the_width_that_it_has(harbour: Harbour):
    harbour.embedder = "ollama:ours/harbour"
    harbour.serve(Script(models={"ours/harbour:latest": DIGEST}, width=320))
    assert harbour.index().embedding.skipped == 0
    assert {len(v) for _, v in harbour.rows().values() if v is not None} == {320}


def test_nothing_new_is_not_embedded_again(harbour: Harbour):
    script = harbour.serve(Script())
    harbour.index()
    script.requests.clear()
    assert harbour.index().documents.unchanged == 8
    assert script.requests == []


# --- searching


def test_a_question_is_found_by_its_meaning(harbour: Harbour):
    harbour.serve(Script())
    harbour.index()
    outcome = harbour.search("capstan")
    assert outcome.vector_available
    assert outcome.degraded == ()


def test_with_the_server_down_the_words_answer_and_say_why(harbour: Harbour):
    harbour.serve(Script())
    harbour.index()
    harbour.host = f"127.0.0.1:{free_port()}"
    outcome = harbour.search("capstan")
    assert outcome.hits[0].origin.source_path == "docs/capstan.md"
    assert (outcome.vector_available, outcome.hits[0].vector_score) == (False, None)
    [said] = outcome.degraded
    assert (said.part, said.reason) == ("vector", "embedder_unreachable")
    assert harbour.host in said.detail


def test_a_server_that_hangs_costs_one_deadline_and_not_one_a_search(harbour: Harbour):
    script = harbour.serve(Script())
    harbour.index()
    script.delay_s = 60.0
    harbour.ollama = SHORT
    with harbour.app() as app:
        outcomes = [app.search(SearchRequest(query=word)) for word in WORDS]
    assert [o.degraded[0].reason for o in outcomes] == ["embedder_timeout"] * len(WORDS)
    assert all(o.hits for o in outcomes)
    # The second search and all after it wait for nobody.
    assert outcomes[0].took_ms >= 900
    assert sorted(o.took_ms for o in outcomes[1:])[3] < 500


def test_a_question_that_was_asked_before_needs_no_server(harbour: Harbour):
    harbour.serve(Script())
    harbour.index()
    harbour.search("capstan")
    harbour.host = f"127.0.0.1:{free_port()}"
    assert harbour.search("capstan").vector_available


def test_a_model_that_was_pulled_again_does_not_answer_for_the_old_index(harbour: Harbour):
    script = harbour.serve(Script())
    harbour.index()
    script.models = {"nomic-embed-text:latest": OTHER_DIGEST}
    for work in (harbour.index, lambda: harbour.search("halyard")):
        with pytest.raises(EmbedderMismatch) as refused:
            work()
        assert DIGEST[:12] in refused.value.message
        assert OTHER_DIGEST[:12] in refused.value.message
        assert "lastro embedder switch" in (refused.value.remedy or "")
    assert_paired_rightly(harbour)


def test_another_model_is_a_mismatch_that_names_both_with_the_server_down_too(harbour: Harbour):
    harbour.serve(Script())
    harbour.index()
    harbour.embedder, harbour.host = "ollama:bge-m3", f"127.0.0.1:{free_port()}"
    for work in (harbour.index, lambda: harbour.search("halyard")):
        with pytest.raises(EmbedderMismatch, match=r"nomic-embed-text.*bge-m3") as refused:
            work()
        assert "LASTRO_EMBEDDER=ollama:nomic-embed-text" in (refused.value.remedy or "")


def test_other_prefixes_are_a_mismatch(harbour: Harbour):
    harbour.serve(Script())
    harbour.index()
    harbour.ollama = replace(PATIENT, query_prefix="question: ")
    with pytest.raises(EmbedderMismatch, match="other prefixes"):
        harbour.search("halyard")


# --- the commands


def test_the_commands_index_search_and_examine_with_ollama(harbour: Harbour):
    harbour.serve(Script(refuse="capstan"))
    indexed = harbour.command("index", ".", "--format", "json")
    assert indexed.returncode == 0, indexed.stderr
    report = json.loads(indexed.stdout)
    assert report["embedding"] == {
        "available": True, "embedded": 7, "skipped": 1, "reason": "embedder_refused",
    }  # fmt: skip
    assert [note["path"] for note in report["documents"]["warnings"]] == ["docs/capstan.md"]
    assert "embedder_refused" in indexed.stderr
    searched = harbour.command("search", "halyard", "--format", "json")
    assert json.loads(searched.stdout)["vectorAvailable"] is True
    examined = harbour.command("doctor", "--format", "json")
    checks = {check["name"]: check for check in json.loads(examined.stdout)["checks"]}
    assert checks["embedder"]["detail"] == (
        f"ollama:nomic-embed-text {DIGEST[:12]}, 768 dimensions"
    )
    assert checks["vectors of"]["status"] == "ok"


def test_the_commands_say_that_the_server_is_down_and_go_on(harbour: Harbour):
    harbour.serve(Script())
    harbour.index()
    harbour.host = f"127.0.0.1:{free_port()}"
    started = time.monotonic()
    searched = harbour.command("search", "halyard", "--format", "json")
    outcome = json.loads(searched.stdout)
    assert searched.returncode == 0
    assert outcome["vectorAvailable"] is False
    assert outcome["degraded"][0]["reason"] == "embedder_unreachable"
    assert outcome["hits"]
    commit(harbour.folder, {"docs/new.md": text_of("jib")})
    indexed = harbour.command("index", ".")
    assert indexed.returncode == 0, indexed.stderr
    assert indexed.stderr.count("embedder_unreachable") == 1
    examined = harbour.command("doctor", "--format", "json")
    checks = {check["name"]: check for check in json.loads(examined.stdout)["checks"]}
    assert checks["embedder"]["status"] == "fail"
    assert "ollama serve" in checks["embedder"]["remedy"]
    assert time.monotonic() - started < 60.0


def test_a_server_that_hangs_costs_one_command_its_time_and_not_the_next(harbour: Harbour):
    script = harbour.serve(Script())
    harbour.index()
    script.delay_s = 60.0
    harbour.ollama = SHORT
    first = json.loads(harbour.command("search", "halyard", "--format", "json").stdout)
    looks = script.looks
    second = json.loads(harbour.command("search", "capstan", "--format", "json").stdout)
    assert [o["degraded"][0]["reason"] for o in (first, second)] == ["embedder_timeout"] * 2
    assert "asked again in" in second["degraded"][0]["detail"]
    assert second["hits"]
    assert script.looks == looks
    script.delay_s = 0.0
    # who asks for the state of things is not told what somebody heard before
    harbour.command("doctor")
    after = json.loads(harbour.command("search", "davit", "--format", "json").stdout)
    assert after["vectorAvailable"] is True


def test_the_commands_refuse_weights_that_are_not_the_indexs(harbour: Harbour):
    script = harbour.serve(Script())
    harbour.index()
    script.models = {"nomic-embed-text:latest": OTHER_DIGEST}
    for words in (("index", "."), ("search", "halyard")):
        done = harbour.command(*words)
        assert done.returncode == 3
        assert "pulled again" in done.stderr
