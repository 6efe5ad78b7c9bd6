"""The language of a document, among those its project may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.language import detect_language

PROJECT = ("en", "pt", "zh")

ENGLISH = "The queue keeps every message until a worker has confirmed that it is done with it."
PORTUGUESE = "A fila guarda cada mensagem até que um trabalhador confirme que terminou com ela."
CHINESE = "队列会保存每一条消息，直到工作进程确认处理完成。"
JAPANESE = "キューは処理が終わるまで全てのメッセージを保存します。"
KOREAN = "대기열은 작업이 끝날 때까지 모든 메시지를 보관합니다."


@pytest.mark.parametrize(
    ("text", "language"), [(ENGLISH, "en"), (PORTUGUESE, "pt"), (CHINESE, "zh")]
)
@pytest.mark.parametrize("fallback", PROJECT)
def test_a_sentence_has_its_own_language_whatever_the_fallback(
    text: str, language: str, fallback: str
) -> None:
    languages = (fallback, *(code for code in PROJECT if code != fallback))
    assert detect_language(text, languages=languages) == language


@pytest.mark.parametrize("text", ["", "   \n", "Setup", "1.2.3", "!!!", "\x00\ud800"])
def test_a_text_with_too_few_letters_has_the_first_language(text: str) -> None:
    assert detect_language(text, languages=("pt", "en")) == "pt"


def test_a_project_of_one_language_has_only_that_one() -> None:
    assert detect_language(CHINESE, languages=("en",)) == "en"


def test_code_says_nothing_about_the_language_of_the_prose_around_it() -> None:
    code = "for item in range(10):\n    print(item, flush=True)  # print every item of the range\n"
    text = f"# Laço\n\nImprime cada número da lista:\n\n```python\n{code * 30}```\n"
    assert detect_language(text, languages=PROJECT) == "pt"


def test_a_fence_that_never_ends_does_not_hide_the_text_before_it() -> None:
    assert detect_language(f"{PORTUGUESE}\n\n```\nreturn value", languages=("en", "pt")) == "pt"


def test_chinese_with_many_latin_names_is_chinese() -> None:
    text = "在 PostgreSQL 中使用 HNSW 索引，比 IVFFlat 更适合空表，参见 pgvector 文档。"
    assert detect_language(text, languages=PROJECT) == "zh"


def test_a_chinese_title_over_english_output_is_chinese() -> None:
    output = "The server is listening on port 4000 and the cluster has three healthy members. " * 5
    assert detect_language(f"# 查看集群状态\n\n{output}", languages=("en", "pt", "zh")) == "zh"


def test_english_that_quotes_a_chinese_word_is_english() -> None:
    text = f"{ENGLISH} In Chinese a queue is called 队列."
    assert detect_language(text, languages=PROJECT) == "en"


@pytest.mark.parametrize(("text", "language"), [(JAPANESE, "ja"), (KOREAN, "ko"), (CHINESE, "zh")])
def test_script_tells_the_languages_of_east_asia_apart(text: str, language: str) -> None:
    assert detect_language(text, languages=("en", "zh", "ja", "ko")) == language


def test_a_language_outside_the_project_is_never_the_answer() -> None:
    french = "La file garde chaque message jusqu'à ce qu'un ouvrier confirme qu'il a terminé."
    assert detect_language(french, languages=PROJECT) in PROJECT


def test_a_code_that_the_model_does_not_know_leaves_the_fallback() -> None:
    assert detect_language(ENGLISH, languages=("xx", "yy")) == "xx"


@given(st.text(max_size=300))
def test_any_text_has_one_of_the_project_languages(text: str) -> None:
    assert detect_language(text, languages=PROJECT) in PROJECT
