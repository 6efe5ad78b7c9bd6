"""Progress of several stages: one count, which never goes back."""

from lastro.stages import FilesThenRows, OneAfterTheOther


def test_rows_that_went_with_their_files_are_done_at_the_end() -> None:
    seen: list[tuple[int, int]] = []
    stages = FilesThenRows(progress=lambda *said: seen.append(said), rows=5)
    stages.file(0, 2)
    stages.file(2, 2)
    for rows in (2, 1):
        stages.next_rows(rows)
    stages.end()
    assert seen == [(0, 7), (2, 7), (2, 7), (4, 7), (7, 7)]


def test_more_rows_than_were_counted_pass_no_total() -> None:
    seen: list[tuple[int, int]] = []
    stages = FilesThenRows(progress=lambda *said: seen.append(said), rows=1)
    for rows in (3, 3):
        stages.next_rows(rows)
    assert seen == [(0, 1), (1, 1)]


def test_what_comes_next_goes_on_where_the_one_before_it_ended() -> None:
    seen: list[tuple[int, int]] = []
    onward = OneAfterTheOther(progress=lambda *said: seen.append(said))
    onward(1, 3)
    onward(3, 3)
    onward.next()
    onward.next()  # one that had nothing to do
    onward(1, 2)
    assert seen == [(1, 3), (3, 3), (4, 5)]
