"""How far work of several stages is: one count that never goes back, no total that jumps. Pure."""

from dataclasses import dataclass

from lastro.types import Progress


@dataclass(slots=True, kw_only=True)
class FilesThenRows:
    """A run that stores files and then completes rows that earlier ones left without a vector.

    ``rows`` are counted before it begins. Those that it completes otherwise, since their file is
    stored anew, count as done at the end.
    """

    progress: Progress
    rows: int
    _files: int = 0
    _done_rows: int = 0

    def file(self, done: int, total: int) -> None:
        """So many files are done, of all that are stored."""
        self._files = total
        self.progress(done, total + self.rows)

    def next_rows(self, count: int) -> None:
        """The rows before these are done."""
        self.progress(self._files + min(self._done_rows, self.rows), self._files + self.rows)
        self._done_rows += count

    def end(self) -> None:
        """All is done."""
        self.progress(self._files + self.rows, self._files + self.rows)


@dataclass(slots=True, kw_only=True)
class OneAfterTheOther:
    """Things done one after the other, each of which counts its own; all grows as they come."""

    progress: Progress
    _before: int = 0
    _last: int = 0

    def __call__(self, done: int, total: int) -> None:
        """So much is done of the present one."""
        self._last = total
        self.progress(self._before + done, self._before + total)

    def next(self) -> None:
        """The present one is over."""
        self._before, self._last = self._before + self._last, 0
