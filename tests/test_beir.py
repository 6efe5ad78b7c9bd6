"""Retrieval sets read from disk: what is understood, and which line is to blame when it is not."""

import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.beir import Passage, Question, collapsed, load_passages, load_set
from lastro.errors import InvalidInput, NotFound

CORPUS = (
    '{"_id": "quay", "title": "Quays", "text": "Ships lie at the quay."}\n'
    '{"_id": "buoy", "text": "Buoys mark the channel."}\n'
)
QUERIES = '{"_id": "q1", "text": "where do ships lie?"}\n{"_id": "q2", "text": "what marks it?"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\tquay\t2\nq1\tbuoy\t0\n"


def a_set(folder: Path, **changes: str | None) -> Path:
    """A set in ``folder``; a file is named by its stem, and None leaves it out."""
    files = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels.tsv": QRELS}
    names = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": "qrels.tsv"}
    for stem, text in changes.items():
        files[names.get(stem, f"{stem}.tsv")] = text
    for name, text in files.items():
        if text is not None:
            (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    return folder


def test_a_set_is_its_passages_and_its_judged_questions(tmp_path) -> None:
    data = load_set(a_set(tmp_path))
    assert data.passages == (
        Passage("quay", "Quays", "Ships lie at the quay."),
        Passage("buoy", "", "Buoys mark the channel."),
    )
    assert data.questions == (Question("q1", "where do ships lie?"),)
    assert data.judgements == {"q1": {"quay": 2, "buoy": 0}}
    assert data.excluded == {}


def test_a_compressed_corpus_is_the_same_corpus(tmp_path) -> None:
    plain = load_passages(a_set(tmp_path))
    (tmp_path / "corpus.jsonl").unlink()
    (tmp_path / "corpus.jsonl.xz").write_bytes(lzma.compress(CORPUS.encode()))
    assert load_passages(tmp_path) == plain


def test_other_judgements_take_the_place_of_the_sets_own(tmp_path) -> None:
    other = tmp_path / "mine.txt"
    other.write_text("q2\tbuoy\t1\n")
    assert load_set(a_set(tmp_path), qrels=other).judgements == {"q2": {"buoy": 1}}


def test_judgements_without_column_names_lose_no_line(tmp_path) -> None:
    assert load_set(a_set(tmp_path, qrels="q2\tquay\t1\n")).judgements == {"q2": {"quay": 1}}


def test_windows_line_ends_blank_lines_and_a_byte_order_mark_change_nothing(tmp_path) -> None:
    messy = {
        name: "\ufeff" + text.replace("\n", "\r\n\r\n")
        for name, text in (("corpus", CORPUS), ("queries", QUERIES), ("qrels", QRELS))
    }
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert load_set(a_set(tmp_path / "a", **messy)) == load_set(a_set(tmp_path / "b"))


def test_exclusions_are_read_by_question(tmp_path) -> None:
    exclude = "query-id\tcorpus-id\nq1\tbuoy\nq1\tquay\n"
    data = load_set(a_set(tmp_path, exclude=exclude))
    assert data.excluded == {"q1": frozenset({"buoy", "quay"})}


def test_with_a_mark_judgements_are_of_the_ids_before_it(tmp_path) -> None:
    corpus = CORPUS.replace('"quay"', '"quay#north"')
    data = load_set(a_set(tmp_path, corpus=corpus), collapse="#")
    assert data.judgements == {"q1": {"quay": 2, "buoy": 0}}


@given(st.text(min_size=1), st.text(min_size=1, max_size=2))
def test_a_collapsed_id_holds_no_mark_and_begins_the_id(id_, mark) -> None:
    base = collapsed(id_, mark)
    assert mark not in base
    assert id_.startswith(base)
    assert collapsed(id_, None) == id_


WRONG = [
    ("corpus", CORPUS + '{"_id": "x", "text": ', 3, "not JSON"),
    ("corpus", CORPUS + "[1]\n", 3, "not a JSON object"),
    ("corpus", "[" * 100_000, 1, "nested too deeply"),
    ("corpus", '{"text": "no id"}\n', 1, "'_id' is missing"),
    ("corpus", '{"_id": 7, "text": "a number"}\n', 1, "'_id' is not text"),
    ("corpus", '{"_id": "", "text": "an empty id"}\n', 1, "'' is no id"),
    ("corpus", '{"_id": "a\\u0000b", "text": "a NUL"}\n', 1, "is no id"),
    ("corpus", '{"_id": "\\ud800", "text": "half a pair"}\n', 1, "is no id"),
    ("corpus", CORPUS + '{"_id": "x"}\n', 3, "'text' is missing"),
    ("corpus", CORPUS + '{"_id": "x", "text": "", "title": 5}\n', 3, "'title' is not text"),
    ("corpus", CORPUS + "\n" + CORPUS, 4, "the id 'quay' was used before"),
    ("queries", '{"_id": "q1", "text": " "}\n', 1, "the question is blank"),
    ("queries", QUERIES + QUERIES, 3, "the id 'q1' was used before"),
    ("qrels", QRELS + "q1\tquay\n", 4, "2 columns"),
    ("qrels", QRELS + "q1 quay 1\n", 4, "1 columns"),
    ("qrels", QRELS + "q9\tquay\t1\n", 4, "no question 'q9'"),
    ("qrels", QRELS + "q2\tpier\t1\n", 4, "no document 'pier'"),
    ("qrels", QRELS + "q2\tquay\thigh\n", 4, "'high' is not a whole number"),
    ("qrels", QRELS + "q1\tquay\t1\n", 4, "'quay' was judged for 'q1' before"),
    ("exclude", "q1\tquay\nq9\tquay\n", 2, "no question 'q9'"),
    ("exclude", "q1\tquay\nq1\tpier\n", 2, "no document 'pier'"),
]


@pytest.mark.parametrize(("file", "text", "line", "why"), WRONG, ids=[w[3] for w in WRONG])
def test_a_wrong_line_is_named_with_its_file(tmp_path, file, text, line, why) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_set(a_set(tmp_path, **{file: text}))
    assert f"{file}." in caught.value.message
    assert f", line {line}: " in caught.value.message
    assert why in caught.value.message


def test_judgements_are_found_where_published_sets_have_them(tmp_path: Path) -> None:
    folder = a_set(tmp_path)
    (folder / "qrels").mkdir()
    (folder / "qrels.tsv").rename(folder / "qrels" / "test.tsv")
    assert load_set(folder).judgements.keys() == {"q1"}


@pytest.mark.parametrize("file", ["corpus", "queries", "qrels"])
def test_a_file_without_a_record_is_refused(tmp_path, file) -> None:
    with pytest.raises(InvalidInput, match=file):
        load_set(a_set(tmp_path, **{file: "\n"}))


@pytest.mark.parametrize("file", ["corpus", "queries", "qrels"])
def test_a_missing_file_is_named(tmp_path, file) -> None:
    with pytest.raises(NotFound, match=file):
        load_set(a_set(tmp_path, **{file: None}))


def test_what_is_not_utf_8_is_refused_with_its_line(tmp_path) -> None:
    folder = a_set(tmp_path)
    (folder / "qrels.tsv").write_bytes(QRELS.encode() + b"q2\t\xff\t1\n")
    with pytest.raises(InvalidInput, match=r"qrels\.tsv.*not UTF-8"):
        load_set(folder)


def test_a_damaged_archive_is_refused(tmp_path) -> None:
    folder = a_set(tmp_path, corpus=None)
    whole = lzma.compress(CORPUS.encode() * 50)
    (folder / "corpus.jsonl.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match=r"corpus\.jsonl\.xz cannot be read"):
        load_set(folder)


@given(st.text(), st.text())
def test_any_text_of_a_passage_is_read_as_it_is(tmp_path_factory, title, text) -> None:
    folder = tmp_path_factory.mktemp("set")
    line = json.dumps({"_id": "p", "title": title, "text": text})
    (folder / "corpus.jsonl").write_text(line, encoding="utf-8")
    assert load_passages(folder) == (Passage("p", title, text),)
