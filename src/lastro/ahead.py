"""What comes next, made by a thread of its own while the present is worked on."""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TypeVar

T = TypeVar("T")

_END = object()


@contextmanager
def ahead(items: Generator[T], *, most: int) -> Generator[Iterator[T]]:
    """The same ``items`` in their order, up to ``most`` of them made before they are asked for.

    An error of theirs comes in its place. When the block ends, whatever ended it, nothing is made
    any more and ``items`` is closed.
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        made: deque[Future[T | object]] = deque()

        def taken() -> Iterator[T]:
            made.extend(thread.submit(next, items, _END) for _ in range(most))
            while (item := made.popleft().result()) is not _END:
                made.append(thread.submit(next, items, _END))
                yield item  # pyright: ignore[reportReturnType]  # not the end

        try:
            yield taken()
        finally:
            thread.shutdown(cancel_futures=True)
