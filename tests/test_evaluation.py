"""Evaluation: figures that a reader can check, and a scratch database that leaves nothing."""

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
import pytest
from databases import address, database_of
from psycopg.sql import SQL, Identifier

from lastro.chunk_settings import ChunkSettings
from lastro.cli import main
from lastro.db.pool import Database
from lastro.db.scratch import scratch_database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedders.protocol import Role
from lastro.errors import DatabaseUnavailable, InvalidInput, ProviderError
from lastro.evaluation import distinct, evaluate, judge
from lastro.figures import latency
from lastro.profiles import SHIPPED
from lastro.search import Engine
from lastro.types import Evaluation, EvaluationRequest, Latency
from lastro.wire import evaluation_json

# --- figures


def test_ndcg_divides_the_gains_found_by_those_of_the_best_order() -> None:
    quality = judge({"q": ("good", "other", "best")}, {"q": {"best": 2, "good": 1}})
    found = 1 / math.log2(2) + 2 / math.log2(4)
    ideal = 2 / math.log2(2) + 1 / math.log2(3)
    assert quality.ndcg_at_10 == pytest.approx(found / ideal)


def test_ndcg_reads_ten_documents_and_recall_a_hundred() -> None:
    ranking = tuple(f"d{rank}" for rank in range(1, 102))
    judgements = {"q": {"d10": 1, "d11": 1, "d100": 1, "d101": 1}}
    quality = judge({"q": ranking}, judgements)
    ideal = sum(1 / math.log2(rank + 1) for rank in (1, 2, 3, 4))
    assert quality.ndcg_at_10 == pytest.approx((1 / math.log2(11)) / ideal)
    assert quality.recall_at_100 == 3 / 4


def test_a_judged_question_without_a_ranking_counts_as_nothing() -> None:
    judgements = {"found": {"d": 1}, "empty": {"d": 1}, "missing": {"d": 1}, "no": {"d": 0}}
    quality = judge({"found": ("d",), "empty": ()}, judgements)
    assert (quality.ndcg_at_10, quality.recall_at_100) == (1 / 4, 1 / 4)


def test_no_ranking_at_all_is_worth_nothing() -> None:
    quality = judge({}, {"q": {"d": 1}})
    assert (quality.ndcg_at_10, quality.recall_at_100) == (0, 0)


def test_the_order_is_the_rankings_own_and_not_that_of_the_ids() -> None:
    judgements = {"q": {"b": 1}}
    for ranking, rank in ((("a", "b", "c"), 2), (("c", "b", "a"), 2), (("b", "a", "c"), 1)):
        assert judge({"q": ranking}, judgements).ndcg_at_10 == pytest.approx(
            1 / math.log2(rank + 1)
        )


def test_a_document_stands_where_its_best_chunk_stood() -> None:
    assert distinct(["b", "a", "b", "c", "a"], excluded=frozenset(), mark=None) == ("b", "a", "c")


def test_excluded_passages_go_before_ids_are_collapsed() -> None:
    ids = ["page#1", "other#1", "page#2"]
    assert distinct(ids, excluded=frozenset({"page#1"}), mark="#") == ("other", "page")


def test_a_hundred_documents_are_judged_at_most() -> None:
    ids = [f"d{n // 2}" for n in range(400)]
    assert distinct(ids, excluded=frozenset(), mark=None) == tuple(f"d{n}" for n in range(100))


@pytest.mark.parametrize(
    ("took", "p50", "p95"),
    [([7.0], 7, 7), ([4.0, 1.0, 3.0, 2.0], 2, 4), (range(100, 0, -1), 50, 95)],
)
def test_percentiles_are_times_that_were_measured(took, p50, p95) -> None:
    assert latency(took) == Latency(p50_ms=p50, p95_ms=p95)


# --- a set, in a database

CORPUS = [
    {"_id": "ropes#1", "title": "Ropes", "text": "Hemp was replaced by nylon."},
    {"_id": "ropes#2", "title": "", "text": "A bowline holds and is easily untied."},
    {"_id": "tides#1", "title": "Tides", "text": "The moon pulls the sea."},
    {"_id": "blank", "title": "", "text": " "},
]
# Words find q1 (moon) and q3 (bowline, in ropes#2) and not q2. Meaning is equality here: the
# vector leg finds q2 first, whose text is that of a passage, and orders the rest by chance.
QUERIES = [
    {"_id": "q1", "text": "moon"},
    {"_id": "q2", "text": "zeppelin"},
    {"_id": "q3", "text": "bowline"},
    {"_id": "unjudged", "text": "hemp"},
]
QRELS = [("q1", "tides#1", 1), ("q2", "ropes#1", 1), ("q3", "ropes#2", 1)]


class Dead(DeterministicEmbedder):
    """An embedder whose provider cannot be reached."""

    def embed(self, texts: Sequence[str], role: Role):
        raise ProviderError("nobody answers", reason="embedder_unreachable")


def a_set(
    folder: Path,
    *,
    corpus: Sequence[dict] = CORPUS,
    queries: Sequence[dict] = QUERIES,
    qrels: Sequence[tuple] = QRELS,
    exclude: Sequence[tuple] = (),
) -> Path:
    for name, records in (("corpus", corpus), ("queries", queries)):
        lines = (json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    for name, rows in (("qrels", qrels), ("exclude", exclude)):
        (folder / f"{name}.tsv").write_text(
            "".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8"
        )
    return folder


@pytest.fixture
def measure(
    app_database: Database, owner_url: str, embedder: DeterministicEmbedder
) -> Callable[..., Evaluation]:
    def run(folder: Path, *, with_embedder=embedder, owner: str = owner_url, **options):
        return evaluate(
            Engine(
                database=app_database,
                embedder=with_embedder,
                profiles=SHIPPED,
                languages=("en", "pt", "zh"),
            ),
            EvaluationRequest(folder=folder, **options),
            pipeline=Pipeline(
                chunking=ChunkSettings(),
                languages=("en", "pt", "zh"),
                embedder=fingerprint(with_embedder),
            ),
            admin_url=owner,
            progress=lambda _done, _total: None,
        )

    return run


def test_each_legs_figures_are_of_its_own_order(measure, tmp_path) -> None:
    """Stop words find nothing by themselves, and a text is nearest to itself."""
    corpus = [*CORPUS, {"_id": "echo", "text": "to be or not to be"}]
    queries = [{"_id": "q", "text": "to be or not to be"}]
    figures = measure(a_set(tmp_path, corpus=corpus, queries=queries, qrels=[("q", "echo", 1)]))
    assert figures.legs["vector"].ndcg_at_10 == 1
    assert figures.legs["lexical"].ndcg_at_10 == 0


def test_a_degraded_search_is_counted_by_its_reason(measure, tmp_path) -> None:
    corpus = [*CORPUS, {"_id": "echo", "text": "to be or not to be"}]
    queries = [*QUERIES, {"_id": "q", "text": "to be or not to be"}]
    folder = a_set(tmp_path, corpus=corpus, queries=queries, qrels=[*QRELS, ("q", "echo", 1)])
    assert measure(folder).degraded == {"lexical_no_terms": 1}


def test_words_alone_answer_two_of_three_judged_questions(measure, tmp_path) -> None:
    figures = measure(a_set(tmp_path))
    assert figures.queries == 3
    assert figures.legs["lexical"].ndcg_at_10 == pytest.approx(2 / 3)
    assert figures.legs["lexical"].recall_at_100 == pytest.approx(2 / 3)


def test_the_vector_leg_reaches_every_passage_of_a_small_set(measure, tmp_path) -> None:
    figures = measure(a_set(tmp_path))
    assert figures.legs["vector"].recall_at_100 == 1


def test_the_threshold_takes_no_document_from_the_ranking(measure, tmp_path) -> None:
    """Nothing speaks for ropes#1 as an answer to q2, and it is ranked nevertheless."""
    assert measure(a_set(tmp_path)).fused.recall_at_100 == 1


def test_excluded_passages_are_not_found(measure, tmp_path) -> None:
    folder = a_set(tmp_path, exclude=[("q1", "tides#1")])
    assert measure(folder).legs["lexical"].ndcg_at_10 == pytest.approx(1 / 3)


def test_collapsed_ids_are_one_document(measure, tmp_path) -> None:
    """The bowline is in the second passage of the document that is judged."""
    folder = a_set(tmp_path, qrels=[("q3", "ropes", 1)])
    figures = measure(folder, collapse="#")
    assert figures.legs["lexical"].ndcg_at_10 == 1


def test_a_passage_is_scored_by_its_best_chunk_unless_it_is_kept_whole(measure, tmp_path) -> None:
    filler = "Nothing of note happened on this watch. " * 60
    corpus = [*CORPUS, {"_id": "log", "title": "Log", "text": filler + "A whale was sighted."}]
    queries = [{"_id": "q", "text": "whale"}]
    folder = a_set(tmp_path, corpus=corpus, queries=queries, qrels=[("q", "log", 1)])
    cut, whole = measure(folder), measure(folder, whole=True)
    assert (cut.documents, whole.documents) == (5, 5)
    assert (cut.chunks, whole.chunks) == (3 + math.ceil(len(filler) / 1_200), 3 + 1)
    assert cut.legs["lexical"].ndcg_at_10 == whole.legs["lexical"].ndcg_at_10 == 1


def test_the_language_is_found_for_each_passage_unless_it_is_given(measure, tmp_path) -> None:
    english = "The harbour master decides which of the ships may enter the port today."
    portuguese = "O mestre do porto decide quais dos navios podem entrar hoje na barra."
    corpus = [{"_id": "en", "text": english}, {"_id": "pt", "text": portuguese}]
    queries, qrels = [{"_id": "q", "text": "porto"}], [("q", "pt", 1)]
    folder = a_set(tmp_path, corpus=corpus, queries=queries, qrels=qrels)
    assert measure(folder).languages == {"en": 1, "pt": 1}
    assert measure(folder, language="de").languages == {"de": 2}


def test_a_language_that_is_no_code_is_refused(measure, tmp_path) -> None:
    with pytest.raises(InvalidInput, match="portuguese"):
        measure(a_set(tmp_path), language="portuguese")


def test_an_unknown_profile_is_refused_before_any_work(measure, tmp_path) -> None:
    with pytest.raises(InvalidInput, match="no profile 'mine'"):
        measure(tmp_path, profile="mine")


def test_the_json_has_the_contracts_names(measure, tmp_path) -> None:
    written = evaluation_json(measure(a_set(tmp_path)))
    quality = {"ndcg@10", "recall@100"}
    assert quality | {"queries", "legs", "latency_ms"} <= written.keys()
    assert {leg: set(value) for leg, value in written["legs"].items()} == {
        "vector": quality,
        "lexical": quality,
    }
    assert 0 < written["latency_ms"]["p50"] <= written["latency_ms"]["p95"]
    assert json.loads(json.dumps(written)) == written


# --- what is left afterwards


def scratch_databases(owner: psycopg.Connection) -> set[str]:
    found = owner.execute("SELECT datname FROM pg_database WHERE datname LIKE 'lastro_scratch%'")
    return {row[0] for row in found}


def left_behind(owner: psycopg.Connection, before: set[str]) -> set[str]:
    """Scratch databases that are new and stay: those of tests beside this one go within seconds."""
    new = scratch_databases(owner) - before
    for _ in range(100):
        new &= scratch_databases(owner)
        if not new:
            break
        time.sleep(0.2)
    return new


def test_nothing_but_cached_vectors_is_left(measure, owner, tmp_path) -> None:
    before = scratch_databases(owner)
    measure(a_set(tmp_path))
    for table in ("projects", "documents", "chunks", "active_embedder"):
        assert owner.execute(SQL("SELECT FROM lastro.{}").format(Identifier(table))).rowcount == 0
    # three passages that say something, and three judged questions
    assert owner.execute("SELECT FROM lastro.embedding_cache").rowcount == 3 + 3
    assert not left_behind(owner, before)


def test_cached_vectors_are_not_made_again(measure, tmp_path, embedder) -> None:
    first = measure(a_set(tmp_path))
    again = measure(a_set(tmp_path), with_embedder=Dead())
    assert (again.fused, again.legs) == (first.fused, first.legs)


def test_an_embedder_that_fails_gives_no_figures(measure, owner, tmp_path) -> None:
    before = scratch_databases(owner)
    with pytest.raises(ProviderError, match="embedder_unreachable"):
        measure(a_set(tmp_path), with_embedder=Dead())
    assert not left_behind(owner, before)


def test_what_a_killed_process_left_goes_with_the_next_run(owner, owner_url) -> None:
    # made in 2001, and nobody is connected
    left = "lastro_scratch_1000000000_0a"
    owner.execute(SQL("CREATE DATABASE {}").format(Identifier(left)))
    with scratch_database(owner_url) as own:
        assert left not in scratch_databases(owner)
        assert database_of(own) in scratch_databases(owner)
    assert database_of(own) not in scratch_databases(owner)


def test_an_interrupted_run_drops_its_scratch_database(owner, owner_url) -> None:
    before = scratch_databases(owner)
    with pytest.raises(KeyboardInterrupt), scratch_database(owner_url):
        raise KeyboardInterrupt
    assert not left_behind(owner, before)


def test_a_scratch_database_in_use_is_left_to_its_maker(owner, owner_url) -> None:
    used = "lastro_scratch_1000000000_0b"
    owner.execute(SQL("CREATE DATABASE {}").format(Identifier(used)))
    with psycopg.connect(address(owner_url, dbname=used)), scratch_database(owner_url):
        assert used in scratch_databases(owner)
    owner.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(used)))


def test_a_user_who_may_not_create_databases_is_told_so(
    measure, owner, owner_url, tmp_path
) -> None:
    role = f"clerk_{database_of(owner_url)}"
    owner.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(role)))
    try:
        with pytest.raises(DatabaseUnavailable, match="scratch database") as caught:
            measure(a_set(tmp_path), owner=address(owner_url, user=role))
        assert "CREATEDB" in (caught.value.remedy or "")
    finally:
        owner.execute(SQL("DROP ROLE {}").format(Identifier(role)))


# --- the command


@pytest.fixture
def command(
    owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "use-m3")
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["eval", "beir", *words, "--embedder", "deterministic"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_the_command_prints_figures_on_stdout_alone(command, tmp_path) -> None:
    code, out, err = command(str(a_set(tmp_path)), "--format", "json", "--language", "en")
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert figures["queries"] == 3
    assert figures["embedder"].startswith("deterministic")


def test_the_commands_table_names_every_ranking(command, tmp_path) -> None:
    code, out, _ = command(str(a_set(tmp_path)), "--collapse", "#", "--qrels", str(pages(tmp_path)))
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()[1:4]] == [
        "both legs",
        "vector",
        "lexical",
    ]


def pages(folder: Path) -> Path:
    path = folder / "pages.tsv"
    path.write_text("q1\ttides\t1\n")
    return path


def test_a_wrong_line_ends_the_command_as_wrong_input(command, tmp_path) -> None:
    code, out, err = command(str(a_set(tmp_path, qrels=[("q9", "tides#1", 1)])))
    assert (code, out) == (2, "")
    assert "qrels.tsv, line 1: there is no question 'q9'" in err
