"""What PostgreSQL's parser misses in a text, and the words of a query."""

import math
from collections.abc import Sequence

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.lexical import (
    MAX_QUERY_WORDS,
    ParsedForm,
    Term,
    content_extra,
    fold,
    heading_extra,
    idf,
    mass,
    query_terms,
    query_words,
    storable,
    token_count,
    tsquery,
    unreached,
    unseen,
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


# Terms


def terms_of(
    query: str,
    stems: dict[str, dict[str, str]],
    frequencies: dict[str, int],
    *,
    languages: Sequence[str] = LANGUAGES,
    row_counts: dict[str, int] | None = None,
) -> tuple[Term, ...]:
    """Terms of a query whose forms have the given lexeme under each language (none: stopped)."""
    words = query_words(query)
    parsed = [
        ParsedForm(number, form_number, language, lexeme, frequencies.get(lexeme, 0))
        for number, word in enumerate(words)
        for form_number, form in enumerate(word.forms)
        for language in languages
        if (lexeme := stems.get(form, {}).get(language)) is not None
    ]
    return query_terms(words, parsed, languages=languages, row_count=100, row_counts=row_counts)


def everywhere(lexeme: str) -> dict[str, str]:
    return dict.fromkeys(LANGUAGES, lexeme)


def test_idf_is_that_of_bm25() -> None:
    assert idf(4, row_count=100) == pytest.approx(math.log(1 + 96.5 / 4.5))


def test_idf_of_a_word_in_every_row_is_positive() -> None:
    assert idf(100, row_count=100) == pytest.approx(math.log(1 + 0.5 / 100.5))


def test_a_word_has_the_frequency_of_its_most_frequent_form() -> None:
    (term,) = terms_of(
        "informação",
        {"informação": everywhere("inform"), "informacao": everywhere("informacao")},
        {"inform": 7, "informacao": 3},
    )
    assert term.df == 7


def test_a_word_has_only_forms_that_the_project_knows() -> None:
    (term,) = terms_of(
        "filas",
        {"filas": {"en": "fila", "pt": "fil", "zh": "fila"}},
        {"fil": 2},
    )
    assert term.forms == {"pt": ("fil",)}


def test_a_word_never_seen_stays_a_term_so_that_it_weighs() -> None:
    (term,) = terms_of("zyzzyva", {"zyzzyva": everywhere("zyzzyva")}, {})
    assert (term.df, term.forms, term.idf) == (0, {}, pytest.approx(math.log(1 + 100.5 / 0.5)))


def test_an_identifier_never_seen_whole_counts_by_its_parts_alone() -> None:
    stems = {part: everywhere(part) for part in ("minpoolsize", "min", "Pool", "Size")}
    found = terms_of("minPoolSize", stems, {"min": 1, "Pool": 1, "Size": 1})
    assert [term.text for term in found] == ["min", "Pool", "Size"]


def by_language(frequencies: dict[str, int], row_counts: dict[str, int]) -> Term:
    """The one term of `queue` whose lexeme is as frequent as said in each language."""
    parsed = [ParsedForm(0, 0, language, "queue", df) for language, df in frequencies.items()]
    (term,) = query_terms(
        query_words("queue"),
        parsed,
        languages=list(row_counts),
        row_count=sum(row_counts.values()),
        row_counts=row_counts,
    )
    return term


def test_a_word_is_as_frequent_as_in_all_languages_together() -> None:
    term = by_language({"en": 8, "pt": 2}, {"en": 80, "pt": 20})
    assert (term.df, term.idf) == (10, pytest.approx(math.log(1 + 90.5 / 10.5)))


def test_a_word_reaches_no_row_of_a_language_that_never_has_it() -> None:
    term = by_language({"en": 8, "pt": 0}, {"en": 80, "pt": 20})
    assert (term.reach, unreached([term], "pt")) == ({"en": 1.0, "pt": 0.0}, 1.0)


def test_a_name_of_all_languages_reaches_every_row() -> None:
    term = by_language({"en": 8, "pt": 2}, {"en": 80, "pt": 20})
    assert term.reach == {"en": 1.0, "pt": 1.0}


def test_a_rarely_quoted_word_reaches_a_language_in_part() -> None:
    # 1 of 200 rows against 8 of 80 is a twentieth of the rate; a tenth would be enough.
    term = by_language({"en": 8, "pt": 1}, {"en": 80, "pt": 200})
    assert term.reach["pt"] == pytest.approx(0.5)


def test_a_word_never_seen_tells_no_language_from_another() -> None:
    term = by_language({"en": 0, "pt": 0}, {"en": 80, "pt": 20})
    assert term.reach == {"en": 1.0, "pt": 1.0}


def test_what_cannot_be_reached_is_weighed_by_idf() -> None:
    word = by_language({"en": 8, "pt": 0}, {"en": 80, "pt": 20})
    name = by_language({"en": 8, "pt": 2}, {"en": 80, "pt": 20})
    assert unreached([word, name], "pt") == pytest.approx(word.idf / (word.idf + name.idf))


def test_without_frequencies_by_language_all_is_reached() -> None:
    (term,) = terms_of("queue", {"queue": everywhere("queue")}, {"queue": 3})
    assert unreached([term], "pt") == 0


def test_a_query_of_stop_words_of_one_language_has_no_terms() -> None:
    # English stops all three; the other languages know none of them.
    stems = {"how": {"pt": "how"}, "to": {"pt": "to"}, "go": {"pt": "go"}}
    assert terms_of("how to go", stems, {"how": 1, "to": 1, "go": 1}) == ()


def test_stop_words_of_another_language_are_words_of_the_query() -> None:
    # "os" is Portuguese for "the", but "the" and "of" say that the query is English.
    stems = {"the": {"pt": "the"}, "kernel": everywhere("kernel"), "of": {"pt": "of"}}
    stems["os"] = {"en": "os", "zh": "os"}
    found = terms_of("the kernel of os", stems, {"os": 3, "kernel": 2, "the": 1, "of": 1})
    assert [term.text for term in found] == ["kernel", "os"]


@pytest.mark.parametrize("query", ["nao ha", "NÃO", "voce ja", "é"])
def test_accentless_portuguese_stop_words_are_stopped(query: str) -> None:
    stems = {form: everywhere(form) for word in query_words(query) for form in word.forms}
    assert terms_of(query, stems, dict.fromkeys(stems, 5)) == ()


def test_a_chinese_query_is_cut_into_words_that_the_project_has() -> None:
    stems = {
        form: everywhere(form) for word in query_words("如何恢复数据库") for form in word.forms
    }
    found = terms_of("如何恢复数据库", stems, {"恢复": 9, "数据库": 8, "数据": 20})
    assert [term.text for term in found] == ["恢复", "数据库"]


def test_a_chinese_query_of_particles_has_no_terms() -> None:
    stems = {form: everywhere(form) for word in query_words("为什么") for form in word.forms}
    assert terms_of("为什么", stems, {}) == ()


# Against the server's own parser


def lexemes(connection: psycopg.Connection, language: str, body: str) -> set[str]:
    row = connection.execute(
        "SELECT tsvector_to_array(lastro.text_vector(%s, %s))", [language, body]
    ).fetchone()
    assert row is not None
    return set(row[0])


def test_a_tsquery_holds_any_lexeme_as_it_is(owner: psycopg.Connection) -> None:
    awkward = ["it's", "a\\b", "c & d", "e:*", "plain"]
    row = owner.execute(
        "SELECT array_to_tsvector(%s) @@ %s::tsquery", [awkward[:1], tsquery(awkward)]
    ).fetchone()
    assert row == (True,)


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


# --- what a query's words can testify


def term(idf_: float, *, df: int = 1, reach: dict[str, float] | None = None) -> Term:
    return Term(text=f"t{idf_}{df}", df=df, idf=idf_, forms={}, reach=reach or {})


def test_two_common_words_testify_little_and_a_long_question_much() -> None:
    unique = idf(1, row_count=1000)
    # 2 / (2 + 1.5 · 6.5) and 20 / (20 + 1.5 · 6.5); the rarest word weighs too little to tell
    assert mass([term(1.0), term(1.0)], row_count=1000) == pytest.approx(2 / (2 + 1.5 * unique))
    assert mass([term(1.0)] * 20, row_count=1000) == pytest.approx(20 / (20 + 1.5 * unique))


def test_a_word_that_one_row_holds_testifies_alone() -> None:
    assert mass([term(idf(1, row_count=1000)), term(1.0)], row_count=1000) == 1.0


def test_a_word_that_no_row_holds_names_none() -> None:
    # its weight counts, but it is not the rarest that is known: T / (T + 1.5 · I)
    weight, unique = idf(0, row_count=1000), idf(1, row_count=1000)
    assert mass([term(weight, df=0), term(0.1)], row_count=1000) == pytest.approx(
        (weight + 0.1) / (weight + 0.1 + 1.5 * unique)
    )


def test_the_only_word_of_a_query_is_all_that_was_asked_for() -> None:
    assert mass([term(0.1, df=900)], row_count=1000) == 1.0


def test_a_small_project_cannot_tell_how_rare_a_word_is() -> None:
    # of one row as of a hundred: ln(1 + 99.5 / 1.5)
    assert idf(1, row_count=1) == idf(1, row_count=100) == pytest.approx(math.log(1 + 99.5 / 1.5))


def test_no_words_testify_nothing() -> None:
    assert mass([], row_count=1000) == 0.0
    assert unseen([], "en") == 1.0


def test_unseen_is_the_weight_that_no_row_holds_or_the_language_cannot_hold() -> None:
    # 1 of no row, half of 2 beyond English, 1 known: (1 + 1) / 4
    terms = [term(1.0, df=0), term(2.0, reach={"en": 0.5}), term(1.0)]
    assert unseen(terms, "en") == pytest.approx(0.5)
