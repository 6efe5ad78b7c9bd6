"""The Ollama embedder against a server on a real socket: what it asks, and what it refuses."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ollama_server import (
    DIGEST,
    OTHER_DIGEST,
    Script,
    elapsed_s,
    free_port,
    ollama,
    shuffled,
    vectors_of,
    with_first,
)

from lastro.embedders import configured, fingerprint
from lastro.embedders.breaker import Breaker
from lastro.embedders.ollama import OllamaEmbedder
from lastro.embedders.ollama_client import MAX_REPLY_BYTES, base_url
from lastro.embedders.ollama_models import canonical, known_dimension, known_model
from lastro.embedders.outage import OutageNote
from lastro.errors import ConfigError, EmbedderMismatch, InvalidInput, ProviderError
from lastro.ollama_settings import OllamaSettings

# Long enough for a busy machine; only what waits for a time-out has a short one.
PATIENT = OllamaSettings(query_timeout_s=20.0, document_timeout_s=20.0, retry_after_s=0.4)
SHORT = replace(PATIENT, query_timeout_s=1.0, document_timeout_s=1.0)
Make = Callable[..., OllamaEmbedder]


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def make(script: Script) -> Iterator[Make]:
    with ExitStack() as stack:

        def build(model: str = "nomic-embed-text", settings: OllamaSettings = PATIENT):
            host = stack.enter_context(ollama(script))
            return OllamaEmbedder(model, host=host, settings=settings)

        yield build


def reason_of(work: Callable[[], object]) -> str:
    with pytest.raises(ProviderError) as failed:
        work()
    return failed.value.reason


# --- what is asked


def test_a_document_is_asked_for_with_its_prefix_whole_and_kept_in_memory(script, make):
    make().embed(["the tide"], "document")
    assert script.requests == [
        {
            "model": "nomic-embed-text",
            "input": ["search_document: the tide"],
            "truncate": False,
            "keep_alive": "30m",
        }
    ]


def test_a_query_is_asked_for_with_its_own_prefix(script, make):
    make().embed(["the tide"], "query")
    assert script.inputs == ["search_query: the tide"]


def test_a_model_without_prefixes_gets_the_bare_text(script, make):
    script.models, script.width = {"all-minilm:latest": DIGEST}, 384
    embedder = make("all-minilm")
    embedder.embed(["the tide"], "query")
    embedder.embed(["the tide"], "document")
    assert script.inputs == ["the tide", "the tide"]


def test_a_prefix_that_is_set_replaces_the_known_one(script, make):
    embedder = make(settings=replace(PATIENT, query_prefix="", document_prefix="doc: "))
    embedder.embed(["tide"], "query")
    embedder.embed(["tide"], "document")
    assert script.inputs == ["tide", "doc: tide"]


def test_keep_alive_can_be_left_to_the_server(script, make):
    make(settings=replace(PATIENT, keep_alive="")).embed(["tide"], "query")
    assert "keep_alive" not in script.requests[0]


def test_the_model_is_looked_at_once_and_one_connection_serves_all(script, make):
    embedder = make()
    for number in range(5):
        embedder.embed([f"wave {number}"], "query")
    assert (script.looks, script.connections) == (1, 1)


def test_vectors_come_back_at_unit_length_in_the_order_of_the_texts(make):
    texts = [f"buoy {n}" for n in range(9)]
    vectors = make().embed(texts, "document")
    expected = np.array(vectors_of([f"search_document: {t}" for t in texts], 768))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.abs(vectors - expected).max() < 1e-6


def test_a_request_holds_at_most_the_texts_and_characters_that_are_set(script, make):
    settings = replace(PATIENT, batch_texts=3, batch_chars=80)
    make(settings=settings).embed(["a" * 30] * 2 + ["b"] * 5, "document")
    sizes = [len(r["input"]) for r in script.requests if "search_document" in r["input"][0]]
    # 47 characters with the prefix: a second text of 47 passes 80, one of 18 does not.
    assert sizes == [1, 2, 3, 1]


# --- what is refused, by reason


def test_no_server_is_unreachable():
    embedder = OllamaEmbedder("nomic-embed-text", host=f"127.0.0.1:{free_port()}", settings=PATIENT)
    with pytest.raises(ProviderError, match="cannot be reached: Connection refused") as failed:
        embedder.embed(["tide"], "query")
    assert failed.value.reason == "embedder_unreachable"
    assert "ollama serve" in (failed.value.remedy or "")


def test_a_missing_model_is_told_apart_and_says_how_to_get_it(script, make):
    script.models = {}
    with pytest.raises(ProviderError) as failed:
        make().embed(["tide"], "query")
    assert failed.value.reason == "embedder_model_missing"
    assert "ollama pull nomic-embed-text" in (failed.value.remedy or "")


def test_a_model_that_is_pulled_later_is_found(script, make):
    script.models = {}
    embedder = make()
    assert reason_of(lambda: embedder.embed(["tide"], "query")) == "embedder_model_missing"
    script.models = {"nomic-embed-text:latest": DIGEST}
    assert embedder.embed(["tide"], "query").shape == (1, 768)


@pytest.mark.parametrize("role", ["query", "document"])
def test_a_slow_server_is_late_after_the_deadline_of_the_role(script, make, role):
    script.delay_per_text_s = 5.0
    embedder = make(settings=SHORT)
    assert elapsed_s(lambda: reason_of(lambda: embedder.embed(["tide"], role))) < 4.0


def test_a_slow_server_is_a_timeout(script, make):
    script.delay_per_text_s = 5.0
    assert reason_of(lambda: make(settings=SHORT).embed(["tide"], "query")) == "embedder_timeout"


def test_a_body_that_comes_drop_by_drop_is_late_too(script, make):
    script.trickle = True
    embedder = make(settings=SHORT)
    started = time.monotonic()
    assert reason_of(lambda: embedder.embed(["tide"], "query")) == "embedder_timeout"
    assert time.monotonic() - started < 4.0


def test_a_body_that_stops_half_way_is_late_within_the_one_deadline(script, make):
    script.stall, script.delay_per_text_s = True, 1.5
    embedder = make(settings=replace(PATIENT, query_timeout_s=2.0))
    started = time.monotonic()
    assert reason_of(lambda: embedder.embed(["tide"], "query")) == "embedder_timeout"
    # Not 2 s for the head, which comes after 1.5 s, and 2 s more for the body.
    assert time.monotonic() - started < 3.2


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503])
def test_a_refusal_is_a_refusal_and_quotes_the_server(script, make, status: int):
    script.status = status
    with pytest.raises(ProviderError, match="as told") as failed:
        make().embed(["tide"], "query")
    assert failed.value.reason == "embedder_refused"


def test_a_redirect_is_not_followed(script, make):
    script.status, script.location = 307, "http://127.0.0.1:1/api/embed"
    with pytest.raises(ProviderError, match="redirects") as failed:
        make().embed(["tide"], "query")
    assert (failed.value.reason, len(script.requests)) == ("embedder_refused", 1)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"answer": lambda v: v[:-1]}, id="fewer"),
        pytest.param({"answer": lambda v: [*v, v[0]]}, id="more"),
        pytest.param({"answer": lambda v: None}, id="none"),
        pytest.param({"answer": lambda v: v[0]}, id="one vector bare"),
        pytest.param({"answer": lambda v: {"0": v}}, id="an object"),
        pytest.param({"answer": with_first(float("nan"))}, id="not a number"),
        pytest.param({"answer": with_first(float("inf"))}, id="infinite"),
        pytest.param({"answer": with_first(None)}, id="null"),
        pytest.param({"answer": with_first("0.5")}, id="a word"),
        pytest.param({"answer": with_first(10**400)}, id="too large a number"),
        pytest.param({"answer": lambda v: [[0.0] * 768 for _ in v]}, id="zero"),
        pytest.param({"answer": lambda v: [[True] * 768 for _ in v]}, id="truths"),
        pytest.param({"width": 512}, id="too narrow"),
        pytest.param({"width": 1024}, id="too wide"),
        pytest.param({"cut": True}, id="cut"),
        pytest.param({"drop": True}, id="dropped"),
        pytest.param({"body": b"<html>welcome</html>"}, id="a page"),
        pytest.param({"body": b"[1, 2]"}, id="a list"),
        pytest.param({"body": b'{"embeddings": [[0.1, 0.2'}, id="half of it"),
        pytest.param({"body": b"[" * 100_000}, id="nested"),
        pytest.param({"body": b'{"embeddings": []}'}, id="empty"),
    ],
)
def test_a_reply_that_does_not_fit_is_a_bad_reply(script, make, change: dict):
    embedder = make()
    for name, value in change.items():
        setattr(script, name, value)
    assert reason_of(lambda: embedder.embed(["tide"], "document")) == "embedder_bad_reply"


def test_a_body_without_end_is_a_bad_reply(script, make):
    script.body = b" " * (MAX_REPLY_BYTES + 1)
    settings = replace(PATIENT, document_timeout_s=30.0)
    assert reason_of(lambda: make(settings=settings).embed(["tide"], "document")) == (
        "embedder_bad_reply"
    )


def test_a_blank_text_is_refused_before_the_server_is_asked(script, make):
    with pytest.raises(InvalidInput, match="text 1"):
        make().embed(["tide", " "], "document")
    assert script.requests == []


def test_a_text_that_fills_the_window_of_a_server_that_cuts_is_refused(script, make):
    script.tokens = 2048
    with pytest.raises(ProviderError, match="window is full"):
        make().embed(["word " * 4_000], "document")


def test_a_text_that_may_fill_the_window_is_sent_alone(script, make):
    make().embed(["word", "word " * 500, "word"], "document")
    sizes = [len(r["input"]) for r in script.requests if "search_document" in r["input"][0]]
    assert sizes == [1, 1, 1]


# --- batches


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(shuffled, id="shuffled"),
        pytest.param(lambda v: v[:1] if len(v) > 1 else v, id="only the first"),
        pytest.param(lambda v: v if len(v) == 1 else [v[0]] * len(v), id="all the same"),
    ],
)
def test_a_server_whose_batches_differ_from_single_texts_is_asked_for_single_texts(
    script, make, answer
):
    script.answer = answer
    texts = [f"buoy {n}" for n in range(7)]
    together = make().embed(texts, "document")
    script.answer = lambda vectors: vectors
    alone = np.concatenate([make().embed([text], "document") for text in texts])
    assert np.abs(together - alone).max() < 1e-6


@pytest.mark.parametrize(
    "drift",
    [
        pytest.param(lambda v: v[::-1], id="reversed"),
        pytest.param(lambda v: [*v[:8], *([v[0]] * (len(v) - 8))], id="full from the ninth on"),
    ],
)
def test_a_server_whose_large_batches_alone_are_wrong_is_asked_for_single_texts(
    script, make, drift
):
    script.answer = lambda vectors: drift(vectors) if len(vectors) > 8 else vectors
    texts = [f"sounding {n}" for n in range(20)]
    together = make().embed(texts, "document")
    script.answer = lambda vectors: vectors
    alone = np.concatenate([make().embed([text], "document") for text in texts])
    assert np.abs(together - alone).max() < 1e-6


def test_a_larger_batch_is_proven_by_one_text_more(script, make):
    embedder = make()
    for size in (8, 8, 20, 8):
        embedder.embed([f"sounding {n}" for n in range(size)], "document")
    sizes = [len(request["input"]) for request in script.requests]
    # six words alone and together, then each batch, after a larger one its last text
    assert sizes == [*[1] * 6, 6, 8, 1, 8, 20, 1, 8]


def test_batches_are_compared_once(script, make):
    embedder = make()
    for _ in range(3):
        embedder.embed(["ebb", "flow"], "document")
    # Six words alone, then together, then three batches.
    assert len(script.requests) == 6 + 1 + 3


# --- the circuit breaker


def test_a_server_that_is_late_is_not_asked_again_before_its_time(script, make):
    script.delay_per_text_s = 5.0
    embedder = make(settings=replace(SHORT, retry_after_s=30.0))
    reason_of(lambda: embedder.embed(["tide"], "query"))
    started = time.monotonic()
    with pytest.raises(ProviderError, match="asked again in") as failed:
        embedder.embed(["ebb"], "query")
    assert time.monotonic() - started < 0.1
    assert (failed.value.reason, len(script.requests)) == ("embedder_timeout", 1)


def test_after_its_time_it_is_asked_again(script, make):
    script.delay_per_text_s = 5.0
    embedder = make(settings=SHORT)
    reason_of(lambda: embedder.embed(["tide"], "query"))
    script.delay_per_text_s = 0.0
    time.sleep(SHORT.retry_after_s)
    assert embedder.embed(["ebb"], "query").shape == (1, 768)


def test_a_refusal_does_not_keep_the_next_search_from_asking(script, make):
    script.refuse = "poison"
    embedder = make()
    assert reason_of(lambda: embedder.embed(["poison"], "query")) == "embedder_refused"
    assert embedder.embed(["tide"], "query").shape == (1, 768)


def test_half_open_one_of_many_callers_asks():
    now = [0.0]
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)
        time.sleep(0.2)
        raise ProviderError("gone", reason="embedder_unreachable")

    breaker = Breaker(retry_after_s=10.0, clock=lambda: now[0])
    reason_of(lambda: breaker.call(ask))
    now[0] = 11.0
    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(lambda _: reason_of(lambda: breaker.call(ask)), range(6)))
    assert len(asked) == 2


# --- an outage told to other processes


@pytest.fixture
def neighbours(script: Script, tmp_path: Path) -> Iterator[Callable[..., OllamaEmbedder]]:
    """Makes embedders as processes have them: one server, one folder for caches."""
    with ollama(script) as host:

        def build(**changes: float) -> OllamaEmbedder:
            settings = replace(SHORT, retry_after_s=30.0)
            return OllamaEmbedder(
                "nomic-embed-text",
                host=host,
                settings=replace(settings, **changes),
                cache_dir=tmp_path / "cache",
            )

        yield build


def test_a_late_server_is_known_to_the_next_process(script, neighbours):
    script.delay_s = 5.0
    reason_of(lambda: neighbours().embed(["tide"], "query"))
    script.delay_s = 0.0
    with pytest.raises(ProviderError, match=r"did not answer .*; asked again in") as failed:
        neighbours().embed(["ebb"], "query")
    assert (failed.value.reason, script.requests) == ("embedder_timeout", [])
    assert "OLLAMA_HOST" not in str(failed.value.remedy)
    assert "more time" in str(failed.value.remedy)


def test_who_waits_longer_asks_for_oneself(script, neighbours):
    script.delay_s = 1.5
    reason_of(lambda: neighbours().embed(["tide"], "query"))
    assert neighbours(query_timeout_s=20.0).embed(["ebb"], "query").shape == (1, 768)


def test_an_index_run_asks_and_what_it_learns_is_known_too(script, neighbours):
    script.delay_s = 5.0
    reason_of(lambda: neighbours().embed(["tide"], "query"))
    script.delay_s = 0.0
    neighbours(query_timeout_s=20.0).identify()
    assert neighbours().embed(["ebb"], "query").shape == (1, 768)


def test_a_server_that_refuses_the_connection_is_asked_by_every_process(tmp_path):
    host = f"127.0.0.1:{free_port()}"
    embedder = OllamaEmbedder("nomic-embed-text", host=host, cache_dir=tmp_path)
    embedder.recall(version="x", dimension=768)
    assert reason_of(lambda: embedder.embed(["tide"], "query")) == "embedder_unreachable"
    assert list(tmp_path.iterdir()) == []


LATE = ProviderError("late", reason="embedder_timeout", remedy=None)


@pytest.mark.parametrize(
    ("later_s", "is_believed"), [(0.0, True), (9.0, True), (10.0, False), (-5.0, False)]
)
def test_a_note_is_believed_for_its_time(tmp_path, later_s: float, is_believed: bool):
    now = [1_000.0]
    note = OutageNote(path=tmp_path / "note", about="box", clock=lambda: now[0])
    note.write(LATE, lasts_s=10.0)
    now[0] += later_s
    assert (note.read(longest_s=10.0) is not None) == is_believed


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"about": "box"}',
        b'{"about": "box", "reason": "embedder_timeout", "until": "soon"}',
        b'{"about": "box", "reason": "bored", "until": 1e12}',
        b"\xff",
    ],
)
def test_a_note_that_is_none_is_not_believed(tmp_path, content: bytes):
    (tmp_path / "note").write_bytes(content)
    assert OutageNote(path=tmp_path / "note", about="box").read(longest_s=1e15) is None


def test_a_note_binds_only_whom_it_is_about(tmp_path):
    OutageNote(path=tmp_path / "note", about="box").write(LATE, lasts_s=10.0)
    assert OutageNote(path=tmp_path / "note", about="other").read(longest_s=10.0) is None


def test_a_note_that_cannot_be_written_is_none(tmp_path):
    (tmp_path / "file").touch()
    note = OutageNote(path=tmp_path / "file" / "note", about="box")
    note.write(LATE, lasts_s=10.0)
    note.clear()
    assert note.read(longest_s=10.0) is None


# --- identity


def test_the_version_is_the_beginning_of_the_models_digest(make):
    assert make().version == DIGEST[:12]


@pytest.mark.parametrize(
    "name", ["nomic-embed-text", "nomic-embed-text:latest", "Nomic-Embed-Text"]
)
def test_one_model_has_one_id_however_it_is_written(name: str):
    assert OllamaEmbedder(name, host="").id == "ollama:nomic-embed-text"


def test_an_unknown_model_tells_its_width_by_one_probe(script, make):
    script.models, script.width = {"ours/harbour:7b": DIGEST}, 320
    assert make("ours/harbour:7b").dimension == 320
    assert len(script.requests) == 1


def test_the_width_of_a_known_model_is_known_without_a_probe(script, make):
    assert (make().dimension, script.requests) == (768, [])


def test_a_model_wider_than_an_index_is_a_wrong_choice(script, make):
    script.models, script.width = {"wide": DIGEST}, 1024
    script.answer = lambda vectors: [vector * 4 for vector in vectors]
    with pytest.raises(ConfigError, match="4096 dimensions"):
        make("wide").embed(["tide"], "document")


def test_what_an_index_recalls_stands_while_the_server_is_down():
    embedder = OllamaEmbedder("nomic-embed-text", host=f"127.0.0.1:{free_port()}", settings=PATIENT)
    embedder.recall(version="abc", dimension=768)
    assert (embedder.version, embedder.dimension) == ("abc", 768)


def test_other_weights_than_the_index_recalls_are_refused_before_a_vector_is_made(script, make):
    embedder = make()
    embedder.recall(version=OTHER_DIGEST[:12], dimension=768)
    with pytest.raises(EmbedderMismatch, match=f"{OTHER_DIGEST[:12]}.*{DIGEST[:12]}"):
        embedder.embed(["tide"], "query")
    assert script.requests == []


def test_a_server_that_does_not_tell_its_digests_is_taken_at_the_indexs_word(script, make):
    script.models = {"nomic-embed-text:latest": ""}
    embedder = make()
    embedder.recall(version=OTHER_DIGEST[:12], dimension=768)
    assert embedder.embed(["tide"], "query").shape == (1, 768)


@pytest.mark.parametrize("change", [{"query_prefix": "q: "}, {"document_prefix": "d: "}])
def test_a_prefix_belongs_to_the_identity(change: dict):
    embedders = [
        OllamaEmbedder("nomic-embed-text", host="", settings=settings)
        for settings in (PATIENT, replace(PATIENT, **change))
    ]
    for embedder in embedders:
        embedder.recall(version="abc", dimension=768)
    assert fingerprint(embedders[0]) != fingerprint(embedders[1])
    assert configured(embedders[0]) != configured(embedders[1])


def test_what_is_configured_is_known_without_a_server(script, make):
    assert configured(make()).startswith("ollama:nomic-embed-text#")
    assert script.looks == 0


# --- addresses and names


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("box:99", "http://box:99"),
        (":99", "http://127.0.0.1:99"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:99", "http://127.0.0.1:99"),
        ("::1", "http://[::1]:11434"),
        ("[::]:99", "http://[::1]:99"),
        ("http://box", "http://box:80"),
        ("https://box", "https://box:443"),
        ("https://box/ollama/", "https://box:443/ollama"),
        (' "box:99" ', "http://box:99"),
        ("model_server.lan.:99", "http://model_server.lan.:99"),
        ("xn--mwe-sna.example", "http://xn--mwe-sna.example:11434"),
    ],
)
def test_an_address_is_read_as_ollamas_own_client_reads_it(host: str, url: str):
    assert base_url(host) == url


@pytest.mark.parametrize(
    "host",
    [
        "ftp://box",
        "box:port",
        "box:70000",
        "me:word@box",
        "a b",
        "box?x=1",
        "box..lan",
        "b" * 64,
        "box\x00lan",
        "http://[::1",
    ],
)
def test_an_address_that_is_none_is_a_configuration_error(host: str):
    with pytest.raises(ConfigError, match="OLLAMA_HOST"):
        base_url(host)


@pytest.mark.parametrize("host", ["möwe.example", "https://möwe.example:99/x", "灯塔"])
def test_a_name_beyond_ascii_is_refused_with_the_form_that_works(host: str):
    with pytest.raises(ConfigError, match="beyond ASCII") as refused:
        base_url(host)
    assert "xn--" in str(refused.value.remedy)


@pytest.mark.parametrize("model", ["", " nomic", "nomic "])
def test_a_name_that_is_none_is_a_configuration_error(model: str):
    with pytest.raises(ConfigError):
        OllamaEmbedder(model, host="")


@pytest.mark.parametrize(
    ("model", "dimension"),
    [
        ("nomic-embed-text", 768),
        ("nomic-embed-text:v1.5", 768),
        ("mxbai-embed-large", 1024),
        ("snowflake-arctic-embed", 1024),
        ("snowflake-arctic-embed:22m", 384),
        ("snowflake-arctic-embed:22m-f16", None),
        ("all-minilm:l12", 384),
        ("someone/nomic-embed-text", None),
    ],
)
def test_the_width_is_known_of_the_librarys_models_alone(model: str, dimension: int | None):
    assert known_dimension(model) == dimension


def test_another_namespaces_model_has_no_prefix():
    assert known_model("someone/nomic-embed-text").query_prefix == ""


def test_the_tag_that_ollama_adds_is_no_part_of_a_name():
    assert canonical("library/BGE-M3:latest") == "bge-m3"
