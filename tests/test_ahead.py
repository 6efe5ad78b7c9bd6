"""Items made by a thread ahead of whoever takes them."""

import threading
from collections.abc import Generator

import pytest

from lastro.ahead import ahead


def numbers(made: list[int], count: int, *, fails_at: int | None = None) -> Generator[int]:
    """Numbers from 0, each noted in ``made``; -1 is noted when the generator is closed."""
    try:
        for number in range(count):
            if number == fails_at:
                raise ValueError(f"number {number}")
            made.append(number)
            yield number
    finally:
        made.append(-1)


@pytest.mark.parametrize("most", [1, 3, 100])
def test_every_item_comes_once_and_in_order(most: int) -> None:
    with ahead(numbers([], 50), most=most) as items:
        assert list(items) == list(range(50))


def test_items_are_made_by_another_thread_while_one_is_used() -> None:
    second = threading.Event()

    def two() -> Generator[int]:
        yield threading.get_ident()
        second.set()
        yield threading.get_ident()

    with ahead(two(), most=2) as items:
        first = next(items)
        assert second.wait(timeout=10)
    assert first != threading.get_ident()


def test_no_more_are_made_than_were_asked_for_and_may_wait() -> None:
    made: list[int] = []
    with ahead(numbers(made, 50), most=4) as items:
        assert [next(items), next(items)] == [0, 1]
    # two taken, four that wait, and the end
    assert made[-1] == -1
    assert len(made) <= 2 + 4 + 1


def test_an_error_comes_in_its_place() -> None:
    taken: list[int] = []
    with (
        pytest.raises(ValueError, match="number 3"),
        ahead(numbers([], 50, fails_at=3), most=8) as items,
    ):
        taken.extend(items)
    assert taken == [0, 1, 2]


def test_when_the_block_fails_the_items_are_closed_before_its_error_is_seen() -> None:
    made: list[int] = []

    def fail_at_the_second() -> None:
        with ahead(numbers(made, 50), most=3) as items:
            for number in items:
                assert 1 / (1 - number)

    with pytest.raises(ZeroDivisionError):
        fail_at_the_second()
    assert made[-1] == -1
    assert not [t for t in threading.enumerate() if t.name.startswith("ahead")]
