"""The terms of a query, and what they weigh."""

import math
from collections.abc import Sequence

import psycopg
import pytest

from lastro.lexical import query_words
from lastro.terms import ParsedForm, Term, idf, mass, query_terms, tsquery, unreached, unseen

LANGUAGES = ("en", "pt", "zh")


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


def test_the_name_of_a_field_weighs_only_where_the_project_has_it() -> None:
    stems = {"team": everywhere("team"), "orders": everywhere("order")}
    unknown = terms_of("team:orders", stems, {"order": 1})
    assert [term.text for term in unknown] == ["orders"]
    known = terms_of("team:orders", stems, {"order": 1, "team": 2})
    assert [term.text for term in known] == ["team", "orders"]


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


def test_a_tsquery_holds_any_lexeme_as_it_is(owner: psycopg.Connection) -> None:
    awkward = ["it's", "a\\b", "c & d", "e:*", "plain"]
    row = owner.execute(
        "SELECT array_to_tsvector(%s) @@ %s::tsquery", [awkward[:1], tsquery(awkward)]
    ).fetchone()
    assert row == (True,)


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
