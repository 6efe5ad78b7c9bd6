"""Tables for people: aligned, whole, and no wider than the screen where that can be."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lastro.cli.tables import pairs, table

TEXTS = st.text("abc 页é", min_size=1, max_size=6).filter(lambda text: text.strip() == text)


def test_columns_that_do_not_fit_stand_below_behind_the_first_again():
    rows = [("one", 1, "aaaa", "bbbb"), ("two", 22, "cccc", "dddd")]
    lines = [line.plain for line in table(("set", "n", "left", "right"), rows, width=14, keys=2)]
    # set 3, n 2 and left 4 with two gaps of 2 are 13; right would make it 20
    assert lines == [
        "set   n  left",
        "one   1  aaaa",
        "two  22  cccc",
        "",
        "set   n  right",
        "one   1  bbbb",
        "two  22  dddd",
    ]


def test_a_key_wider_than_half_the_screen_moves_no_other_row():
    rows = [("a-long-key", 1), ("b", 2)]
    lines = [line.plain for line in table(("key", "n"), rows, width=12)]
    # half of 12 are 6, a gap of 2, and n; the long key goes on to the right
    assert lines == ["key     n", "a-long-key  1", "b       2"]


def test_only_numbers_stand_to_the_right():
    rows = [("x", True, None, 7), ("y", False, None, None)]
    lines = [line.plain for line in table(("k", "whole", "ended", "n"), rows)]
    assert lines == ["k  whole  ended  n", "x  yes    –      7", "y  no     –      –"]


def test_a_table_that_goes_into_a_pipe_is_one():
    rows = [("x" * 80, "y" * 80)]
    assert len([line.plain for line in table(("a", "b"), rows)]) == 2


@given(
    st.lists(st.tuples(TEXTS, TEXTS, TEXTS, TEXTS), min_size=1, max_size=3),
    st.integers(30, 60),
    st.integers(1, 2),
)
def test_no_row_is_wider_than_the_screen_and_nothing_is_cut(
    rows: list[tuple[str, str, str, str]], width: int, keys: int
):
    # A text has at most 6 characters, which are 12 columns: keys with their gaps, and one more.
    width = max(width, 14 * keys + 12)
    lines = [line.plain for line in table(("a", "b", "c", "d"), rows, width=width, keys=keys)]
    assert max(map(cell_len, lines)) <= width
    assert all(any(text in line for line in lines) for row in rows for text in row)


def test_a_long_value_goes_on_below_itself():
    assert pairs({"name": "x", "long": "one two three"}, indent=1, width=15).plain.split("\n") == [
        " name  x",
        " long  one two",
        "       three",
    ]


def test_a_path_is_never_broken():
    path = "docs/a-very-long/path.md"
    assert path in pairs({"at": path}, width=10).plain
