"""What PostgreSQL's parser misses in a text, and the words of a query."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.lexical import (
    MAX_QUERY_WORDS,
    content_extra,
    fold,
    heading_extra,
    query_words,
    storable,
    token_count,
)

LANGUAGES = ("en", "pt", "zh")


def extra(content: str, language: str = "en") -> list[str]:
    return content_extra(content, language=language).split()


def texts(query: str) -> list[str]:
    return [word.text for word in query_words(query)]


# What the extras add to a text


def test_plain_english_adds_nothing() -> None:
    assert extra("The worker keeps every message until it is done. Twice!") == []


@pytest.mark.parametrize(
    ("content", "missed"),
    [
        ("Splits queue/worker in two.", ["queue", "worker"]),
        ("Runs on deno.land today.", ["deno", "land"]),
        ("Write to team@mail.example now.", ["team", "mail", "example"]),
        ("See https://docs.example.org/limits/quota here.", ["docs", "limits", "quota"]),
        ("Set minPoolSize first.", ["min", "Pool", "Size"]),
        ("Since v2.10.3 only.", ["2.10.3"]),
        ("Replaced by RFC-0042 today.", ["0042", "42", "rfc42"]),
        ("Replaced by RFC 0042 today.", ["42", "rfc42"]),
        ("Set read_only_mode there.", ["readonlymode"]),
    ],
)
def test_parts_that_the_parser_keeps_glued_are_added(content: str, missed: list[str]) -> None:
    assert set(missed) <= set(extra(content))


@pytest.mark.parametrize("word", ["OAuth2", "iPhone", "HTTP", "Queue", "PostgreSQL16x"])
def test_a_name_is_not_cut_into_single_letters(word: str) -> None:
    assert all(len(part) > 1 for part in extra(f"About {word} here."))


@pytest.mark.parametrize(
    ("language", "written", "typed"),
    [
        ("pt", "configuração", "configuracao"),
        ("pt", "configurações", "configuracao"),
        ("pt", "decisões", "decisao"),
        ("pt", "automóveis", "automovel"),
        ("pt", "fiscais", "fiscal"),
        ("es", "información", "informacion"),
        ("de", "Größe", "grosse"),
        ("fr", "œuvre", "oeuvre"),
    ],
)
def test_an_accented_word_is_added_as_people_type_it(
    language: str, written: str, typed: str
) -> None:
    assert typed in extra(f"x {written} y", language)


def test_stop_words_that_lose_an_accent_are_not_added() -> None:
    assert extra("Isto não é só para você, já há até também.", "pt") == []


def test_a_decomposed_word_is_added_composed() -> None:
    assert "ração" in extra("rac\u0327a\u0303o", "pt")


def test_fullwidth_letters_are_added_as_plain_ones() -> None:
    assert "QUEUE" in extra("ＱＵＥＵＥ")


def test_a_repeated_header_is_searched_with_its_chunk() -> None:
    header = content_extra("| 1 | 2 |", repeated_header="| name | size |", language="en")
    assert {"name", "size"} <= set(header.split())


@pytest.mark.parametrize(
    "path", ["docs/adr/0042-queue-limits.md", "decisions/ADR-0042-queue-limits.md"]
)
def test_the_words_and_the_number_of_a_record_are_in_its_path(path: str) -> None:
    words = heading_extra("", heading_text="", path=path, language="en").split()
    assert {"0042", "42", "queue", "limits"} <= set(words)


def test_a_record_is_found_by_kind_and_number_from_its_path_alone() -> None:
    words = heading_extra("", heading_text="", path="adr/0042-queue.md", language="en").split()
    assert "adr42" in words


def test_chinese_is_added_as_words_and_the_shorter_words_inside() -> None:
    assert {"数据库", "数据", "连接"} <= set(extra("数据库的连接", "zh"))


def test_chinese_words_of_an_english_text_are_added() -> None:
    assert "队列" in extra("A queue is called 队列 there.")


def test_chinese_particles_are_not_added() -> None:
    assert "的" not in extra("数据库的连接", "zh")


def test_kana_and_hangul_are_added_as_bigrams() -> None:
    assert set(extra("データ 한국어", "ja")) == {"デー", "ータ", "한국", "국어"}


def test_two_chinese_characters_count_as_one_token() -> None:
    # 3 words and (5 + 1) // 2 for the run
    assert token_count("one two three 数据库连接") == 3 + 3


# Query words


def test_a_word_is_looked_up_as_written_and_without_accents() -> None:
    (word,) = query_words("Configurações")
    assert word.forms == ("Configurações", "configuracoes", "configuracao")


@pytest.mark.parametrize("query", ["", "   ", "!!!", "( ) \\ :*", "🙂", "\x00", "\ud800", "—"])
def test_blanks_and_punctuation_have_no_words(query: str) -> None:
    assert query_words(query) == ()


@pytest.mark.parametrize(
    "query",
    [
        "queue & | !",
        "queue:*",
        '"queue',
        "'queue'",
        "queue\\:",
        "-queue",
        "‘queue’",
        "ＱＵＥＵＥ <->",
    ],
)
def test_operators_and_quotes_are_not_part_of_a_word(query: str) -> None:
    assert [text.lower() for text in texts(query)] == ["queue"]


def test_an_apostrophe_of_any_kind_parts_a_word() -> None:
    assert texts("what's") == texts("what’s") == ["what", "s"]


@pytest.mark.parametrize("query", ["RFC-0042", "rfc0042", "RFC 0042", "RFC-42", "rfc 42"])
def test_a_record_number_has_one_form_however_it_is_written(query: str) -> None:
    assert any("rfc42" in word.forms for word in query_words(query))


def test_a_version_is_looked_up_without_its_v() -> None:
    (word,) = query_words("v2.10.3")
    assert word.forms[0] == "2.10.3"


def test_an_identifier_is_looked_up_whole_and_in_parts() -> None:
    assert [(word.forms[0].lower(), word.kind) for word in query_words("minPoolSize")] == [
        ("minpoolsize", "joined"),
        ("min", "word"),
        ("pool", "word"),
        ("size", "word"),
    ]


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("team:orders", ["team"]),
        ("lang:pt team:orders queue", ["lang", "team"]),
        ("equipe:pedidos", ["equipe"]),
        ("Queue: orders", []),
        ("std::vector", []),
        ("http://example.org", []),
        ("10:30", []),
        ("retry:", []),
        ("队列:订单", []),
    ],
)
def test_what_names_a_field_before_a_colon_is_one(query: str, fields: list[str]) -> None:
    assert [word.text for word in query_words(query) if word.kind == "field"] == fields


def test_a_word_said_twice_counts_once() -> None:
    assert texts("queue Queue QUEUE") == ["queue"]


def test_a_very_long_query_is_cut_to_its_first_words() -> None:
    query = " ".join(f"word{number}x" for number in range(5_000))
    assert len(query_words(query)) == MAX_QUERY_WORDS


@given(st.text(max_size=200))
def test_any_text_is_a_legal_query_of_storable_forms(query: str) -> None:
    for word in query_words(query):
        assert all(form and form == storable(form) for form in word.forms)


@given(st.text(max_size=200), st.sampled_from([*LANGUAGES, "xx"]))
def test_any_text_has_storable_extras(content: str, language: str) -> None:
    words = content_extra(content, language=language)
    assert words == storable(words)


@given(st.text(max_size=100))
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert fold(fold(text)) == fold(text)


# Against the server's own parser


def lexemes(connection: psycopg.Connection, language: str, body: str) -> set[str]:
    row = connection.execute(
        "SELECT tsvector_to_array(lastro.text_vector(%s, %s))", [language, body]
    ).fetchone()
    assert row is not None
    return set(row[0])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_form_of_a_query_word_is_at_most_one_lexeme(
    owner: psycopg.Connection, language: str
) -> None:
    query = (
        "What's RFC-0042's v1.2.3 in docs/adr/0042-x.md, minPoolSize or min_pool_size, 1,000.5,"
        " a@b.example, état-major, C++ -1 1e5 x² ½ http://a.example/b?c=d#e 数据库 データ"
    )
    for word in query_words(query):
        for form in word.forms:
            assert len(lexemes(owner, language, form)) <= 1, form


@pytest.mark.parametrize(
    ("language", "content", "query"),
    [
        ("pt", "As configurações mudaram.", "configuracao"),
        ("pt", "As configurações mudaram.", "Configuração"),
        ("pt", "A decisão foi revista.", "decisões"),
        ("pt", "Duas decisoes foram revistas.", "decisão"),
        ("pt", "Os automóveis pagam.", "automovel"),
        ("en", "Splits queue/worker.", "worker"),
        ("en", "Sets minPoolSize.", "pool sizes"),
        ("en", "Sets min_pool_size.", "minPoolSize"),
        ("en", "Needs 2.10.3 or newer.", "v2.10.3"),
        ("en", "Needs v2.10.3 or newer.", "2.10.3"),
        ("en", "As RFC-0042 says.", "rfc 42"),
        ("en", "As RFC-0042 says.", "0042"),
        ("en", "See https://docs.example.org/limits", "limits"),
        ("en", "rac\u0327a\u0303o", "ração"),
    ],
)
def test_a_text_and_a_query_of_it_share_a_lexeme_in_every_word(
    owner: psycopg.Connection, language: str, content: str, query: str
) -> None:
    extras = content_extra(content, language=language)
    text = lexemes(owner, language, f"{content} {extras}")
    for word in query_words(query):
        if word.kind == "word":
            found = [lexemes(owner, language, form) & text for form in word.forms]
            assert any(found), (word, text)
