"""A project's own words: what a line may say, and where its terms stand in a query."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.lexical import query_words
from lastro.terms import ParsedForm, Phrase, Term, lookups, query_terms, tsquery
from lastro.words import (
    MAX_MEANS,
    MAX_QUERY_MEANS,
    MAX_TERM_CHARS,
    MAX_TERM_UNITS,
    MAX_WORDS,
    Vocabulary,
    Word,
    key_of,
    keys_in,
    terms_in,
)


def learned(*lines: Any) -> Vocabulary:
    """The words of lines that are all good."""
    vocabulary = Vocabulary({})
    assert vocabulary.read(as_lines(*lines)).refused == ()
    return vocabulary


def as_lines(*lines: Any) -> list[bytes]:
    return [json.dumps(line, ensure_ascii=False).encode() for line in lines]


def means(vocabulary: Vocabulary) -> dict[str, tuple[str, ...]]:
    return {word.term: word.means for word in vocabulary.words.values()}


def meant(query: str, *lines: Any) -> dict[str, tuple[str, ...]]:
    """What each word of a query means besides itself."""
    terms = terms_in(query, learned(*lines).words.values())
    return {word.text: word.means for word in query_words(query, terms=terms) if word.means}


# --- lines


def test_synonyms_mean_each_other() -> None:
    vocabulary = learned({"synonyms": ["hem", "bainha", "下摆"]})
    assert means(vocabulary) == {
        "hem": ("bainha", "下摆"),
        "bainha": ("hem", "下摆"),
        "下摆": ("hem", "bainha"),
    }


def test_what_a_term_means_does_not_mean_the_term() -> None:
    assert means(learned({"term": "maxi", "means": ["long dress"]})) == {"maxi": ("long dress",)}


def test_lines_about_one_term_add_up_to_one_word() -> None:
    vocabulary = learned(
        {"term": "lurex", "means": ["glitter yarn"]},
        {"term": "Lurex", "means": ["fio brilhante"]},
        {"protect": "Lurex"},
    )
    assert list(vocabulary.words.values()) == [
        Word(term="Lurex", means=("glitter yarn", "fio brilhante"), protected=True)
    ]


BAD: list[tuple[Any, str]] = [
    (["hem"], "it is no JSON object"),
    ({}, "either synonyms, or term and means, or protect"),
    ({"synonyms": ["a1", "b1"], "protect": "c1"}, "either synonyms, or term and means, or protect"),
    ({"term": "hem"}, "either synonyms, or term and means, or protect"),
    ({"synonyms": "hem"}, "synonyms is no list"),
    ({"synonyms": ["hem"]}, "synonyms has to have at least 2"),
    ({"term": "hem", "means": []}, "means has to have at least 1"),
    ({"synonyms": ["hem", 7]}, "synonyms is no text"),
    ({"protect": "  "}, "protect: '' is blank"),
    ({"protect": "hem\0line"}, "cannot be stored"),
    ({"protect": "C++"}, "begins or ends with a mark"),
    ({"protect": "?!"}, "begins or ends with a mark"),
    ({"protect": "x" * (MAX_TERM_CHARS + 1)}, f"is longer than {MAX_TERM_CHARS} characters"),
    ({"protect": "x " * MAX_TERM_UNITS + "x"}, f"has more than {MAX_TERM_UNITS} words"),
    ({"protect": "裙"}, "is one character, which stands within many words"),
    ({"synonyms": ["Bolero", "boléro"]}, "'Bolero' and 'boléro' are the same term to a search"),
    ({"term": "hem", "means": ["HEM"]}, "'hem' and 'HEM' are the same term to a search"),
    ({"synonyms": [f"t{n}" for n in range(MAX_MEANS + 2)]}, f"has more than {MAX_MEANS + 1} terms"),
    ({"term": "hem", "means": [f"t{n}" for n in range(MAX_MEANS + 1)]}, f"more than {MAX_MEANS}"),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_a_bad_line_is_told_with_its_reason_and_the_others_go_in(line: Any, reason: str) -> None:
    vocabulary = Vocabulary({})
    read = vocabulary.read(as_lines(line, {"protect": "Lurex"}))
    (refused,) = read.refused
    assert (refused.line, reason in refused.reason) == (1, True)
    assert list(vocabulary.words) == ["lurex"]


def test_a_line_that_came_before_is_refused() -> None:
    (refused,) = Vocabulary({}).read(as_lines(*[{"protect": "Lurex"}] * 2)).refused
    assert refused.reason == "the line 'protect Lurex' came before, in line 1"


def test_a_group_of_the_greatest_size_is_taken() -> None:
    vocabulary = learned({"synonyms": [f"t{n}" for n in range(MAX_MEANS + 1)]})
    assert len(vocabulary.words["t0"].means) == MAX_MEANS


def test_a_term_takes_no_more_synonyms_than_may_be_scored() -> None:
    full = {"term": "hem", "means": [f"t{n}" for n in range(MAX_MEANS)]}
    vocabulary = Vocabulary({})
    (refused,) = vocabulary.read(as_lines(full, {"synonyms": ["other", "hem"]})).refused
    assert refused.reason == f"'hem' would have more than {MAX_MEANS} synonyms"
    assert list(vocabulary.words) == ["hem"]  # nor did the line's other term go in


def test_a_project_has_no_more_terms_than_one_import_reads() -> None:
    words = {f"t{n}": Word(term=f"t{n}", protected=True) for n in range(MAX_WORDS)}
    (refused,) = Vocabulary(words).read(as_lines({"protect": "t0"}, {"protect": "more"})).refused
    assert (refused.line, refused.reason) == (2, "the project would have more than 10,000 terms")


def test_a_term_that_is_removed_stands_nowhere_any_more() -> None:
    vocabulary = learned(
        {"synonyms": ["hem", "bainha", "下摆"]},
        {"term": "edge", "means": ["hem"]},
        {"term": "Saum", "means": ["hem"]},
        {"protect": "Saum"},
    )
    assert vocabulary.remove("HEM")
    assert not vocabulary.remove("cuff")
    assert means(vocabulary) == {"bainha": ("下摆",), "下摆": ("bainha",), "Saum": ()}


# --- terms in a query


@pytest.mark.parametrize(
    "query", ["long dress", "Long-Dress", "which LONG  dress?", "a long/dress"]
)
def test_a_term_of_several_words_is_found_however_it_is_written(query: str) -> None:
    found = {word.lower() for word in meant(query, {"term": "long dress", "means": ["maxi"]})}
    assert {"long", "dress"} <= found


@pytest.mark.parametrize("query", ["dress long", "longdress", "long summer dress", "belong dress"])
def test_its_words_alone_are_not_the_term(query: str) -> None:
    assert meant(query, {"term": "long dress", "means": ["maxi"]}) == {}


def test_accents_and_case_do_not_keep_a_term_from_being_found() -> None:
    assert meant("ALGODAO", {"synonyms": ["algodão", "cotton"]}) == {"ALGODAO": ("cotton",)}


def test_a_chinese_term_is_found_within_a_sentence() -> None:
    found = meant("请问敬酒服怎么洗", {"synonyms": ["敬酒服", "toast dress"]})
    assert found == {"敬酒服": ("toast dress",)}


def test_a_term_of_two_scripts_is_found() -> None:
    assert meant("A字裙多少钱", {"term": "A字裙", "means": ["A-line dress"]}) == {
        "A": ("A-line dress",),
        "字裙": ("A-line dress",),
    }


def test_the_longest_term_at_a_place_is_meant() -> None:
    found = meant(
        "evening dress code",
        {"term": "evening dress", "means": ["gown"]},
        {"term": "evening dress code", "means": ["black tie"]},
    )
    assert set(found.values()) == {("black tie",)}


def test_a_chain_of_synonyms_is_not_followed() -> None:
    lines = [{"synonyms": ["gown", "robe"]}, {"synonyms": ["robe", "mantle"]}]
    assert meant("gown", *lines) == {"gown": ("robe",)}
    assert meant("robe", *lines) == {"robe": ("gown", "mantle")}


def test_a_word_that_stands_twice_has_the_meaning_of_its_term() -> None:
    found = meant("learning about machine learning", {"synonyms": ["ML", "machine learning"]})
    assert found["learning"] == ("ML",)


def test_no_more_meanings_are_looked_up_than_a_query_may_have() -> None:
    lines = [{"term": f"t{n}", "means": [f"m{n}a{i}" for i in range(16)]} for n in range(9)]
    query = " ".join(f"t{n}" for n in range(9))
    assert sum(map(len, meant(query, *lines).values())) == MAX_QUERY_MEANS


def kinds(query: str, *protected: str) -> list[tuple[str, str]]:
    terms = terms_in(query, learned(*({"protect": term} for term in protected)).words.values())
    return [(word.text, word.kind) for word in query_words(query, terms=terms)]


def test_a_protected_term_is_one_word_and_not_split() -> None:
    assert kinds("a PostgreSQL dump", "PostgreSQL") == [
        ("a", "word"), ("PostgreSQL", "protected"), ("dump", "word")
    ]  # fmt: skip
    assert [text for text, _ in kinds("a PostgreSQL dump")] == [
        "a", "PostgreSQL", "Postgre", "SQL", "dump"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "term", "kind"),
    [
        ("ask IT", "IT", "protected"),
        ("is it", "IT", "word"),
        ("is It", "IT", "word"),
        ("GO there", "go", "protected"),
        ("go there", "go", "protected"),
    ],
)
def test_a_protected_term_with_a_capital_is_meant_where_it_is_written_so(
    query: str, term: str, kind: str
) -> None:
    assert {text.lower(): found for text, found in kinds(query, term)}[term.lower()] == kind


def test_a_protected_chinese_term_is_one_word() -> None:
    assert kinds("小白裙怎么洗", "小白裙")[0] == ("小白裙", "protected")


TEXTS = st.text(alphabet="aB é裙子-./_?\u3000'1", max_size=30)


@given(TEXTS, TEXTS)
def test_a_term_is_found_wherever_it_stands_between_blanks(before: str, after: str) -> None:
    words = [Word(term="velvet cape", means=("manto",))]
    query = f"{before} velvet cape {after}"
    assert any(key_of("velvet cape") == key for key in keys_in(query))
    assert [term.text for term in terms_in(query, words)] == ["velvet cape"]


@given(TEXTS)
def test_without_terms_a_query_is_read_as_ever(query: str) -> None:
    assert query_words(query, terms=terms_in(query, [])) == query_words(query)


# --- what they are to the score


def scored(
    query: str, lines: list[Any], stems: dict[str, list[str]], frequencies: dict[str, int]
) -> dict[str, Term]:
    """Terms of a query in English, where a spelling has lexemes in order, by default itself."""
    terms = terms_in(query, learned(*lines).words.values())
    words = query_words(query, terms=terms)
    parsed = [
        ParsedForm(word, form, "en", lexeme, frequencies.get(lexeme, 0), position)
        for word, form, text in lookups(words)
        for position, lexeme in enumerate(stems.get(text, [text.lower()]), start=1)
        if lexeme
    ]
    found = query_terms(words, parsed, languages=["en"], row_count=100, row_counts={"en": 100})
    return {term.text: term for term in found}


def test_a_word_counts_once_by_the_best_of_its_forms() -> None:
    found = scored("gown", [{"synonyms": ["gown", "robe"]}], {}, {"gown": 3, "robe": 8})
    assert (found["gown"].df, found["gown"].forms) == (8, {"en": ("gown", "robe")})
    assert found["gown"].means == {"robe": {"en": ("robe",)}}


def test_a_synonym_of_several_words_is_a_phrase_as_frequent_as_its_rarest_word() -> None:
    lines = [{"term": "maxi", "means": ["long dress"]}]
    found = scored("maxi", lines, {"long dress": ["long", "dress"]}, {"long": 9, "dress": 4})
    assert found["maxi"].df == 4
    assert found["maxi"].forms == {"en": (Phrase(("long", "dress"), (1,)),)}


def test_a_phrase_of_which_no_row_has_a_word_is_no_form() -> None:
    lines = [{"term": "maxi", "means": ["long dress"]}]
    found = scored("maxi", lines, {"long dress": ["long", "dress"]}, {"long": 9})
    assert (found["maxi"].df, found["maxi"].forms, found["maxi"].means) == (0, {}, {})


def test_a_synonym_that_is_a_stop_word_adds_nothing() -> None:
    found = scored("informatics", [{"synonyms": ["informatics", "IT"]}], {"IT": [""]}, {})
    assert found["informatics"].forms == {}


def test_a_stop_word_stays_one_whatever_it_means() -> None:
    lines = [{"synonyms": ["it", "informatics"]}]
    assert list(scored("is it open", lines, {"it": [""], "is": [""]}, {"informatics": 2})) == [
        "open"
    ]


def test_a_protected_stop_word_counts_where_it_has_a_synonym_that_rows_hold() -> None:
    lines = [{"synonyms": ["IT", "informatics"]}, {"protect": "IT"}]
    found = scored("IT desk", lines, {"IT": [""], "it": [""]}, {"informatics": 2, "desk": 1})
    assert (found["IT"].df, found["IT"].protected) == (2, True)


def test_a_protected_stop_word_that_no_index_can_hold_weighs_nothing() -> None:
    found = scored("IT desk", [{"protect": "IT"}], {"IT": [""], "it": [""]}, {"desk": 1})
    assert list(found) == ["desk"]


def test_a_protected_word_is_looked_up_by_no_other_spelling() -> None:
    frequencies = {"amarais": 1, "amaral": 7}
    found = scored("Amarais", [{"protect": "Amarais"}], {}, frequencies)
    assert found["Amarais"].forms == {"en": ("amarais",)}
    assert scored("Amarais", [], {}, frequencies)["Amarais"].forms == {"en": ("amarais", "amaral")}


def test_a_chinese_synonym_is_cut_into_the_words_that_rows_have() -> None:
    lines = [{"synonyms": ["toast dress", "中式礼服"]}]
    found = scored("toast dress", lines, {}, {"中式": 3, "礼服": 5})
    assert found["toast"].forms == {"en": (Phrase(("中式", "礼服"), (0,)),)}
    assert found["toast"].df == 3


@pytest.mark.parametrize(
    ("lexemes", "text"),
    [
        ([Phrase(("long", "dress"), (1,))], "('long' <1> 'dress')"),
        (["maxi", Phrase(("中式", "礼服"), (0,))], "'maxi' | ('中式' & '礼服')"),
        ([Phrase(("o'clock", "b\\c"), (3,))], "('o''clock' <3> 'b\\\\c')"),
    ],
)
def test_a_phrase_is_quoted_as_words_are(lexemes: list[Any], text: str) -> None:
    assert tsquery(lexemes) == text
