"""Pages of lists: each is told where it stands in the list's own order, and asks for what follows.

Nothing is skipped that stays where it is, whatever comes in or goes meanwhile.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.responses import Response

from lastro.http.answers import answer
from lastro.paging import place_text, read_place

MOST_ITEMS = 200
DEFAULT_ITEMS = 50
T = TypeVar("T")
V = TypeVar("V", int, str)
Place = Sequence[str | int]


class Asked(BaseModel):
    """What the part behind ``?`` of an address says; a name that means nothing is refused."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class Strict(Asked):
    """Whether one line that is refused refuses all."""

    strict: bool = False


class Page(Asked):
    """Which page of a list is asked for."""

    limit: int = Field(
        default=DEFAULT_ITEMS, ge=1, le=MOST_ITEMS, description="So many items at most."
    )
    cursor: str | None = Field(
        default=None, description="The `nextCursor` of the page before; none for the first one."
    )

    def after(self, list_: str, *kinds: type) -> list[Any] | None:
        """The place behind which the page begins; None for the first. Errors: InvalidInput."""
        return read_place(self.cursor, list_, kinds)

    def after_one(self, list_: str, kind: type[V]) -> V | None:
        """The same where one value is the place."""
        place = self.after(list_, kind)
        return None if place is None else place[0]

    @property
    def looked_at(self) -> int:
        """So many items to read: one more tells that another page follows."""
        return self.limit + 1

    def answer(
        self,
        list_: str,
        found: Sequence[T],
        *,
        place: Callable[[T], Place],
        told: Callable[[T], object] = lambda item: item,
        more: bool = False,
    ) -> Response:
        """The page of what was ``found``, each item as ``told``; ``more`` where others follow."""
        shown = found[: self.limit]
        is_last = not more and len(found) <= len(shown)
        cursor = None if is_last else place_text(list_, place(shown[-1]))
        return answer({list_: [told(item) for item in shown], "nextCursor": cursor})

    def cut(
        self,
        list_: str,
        whole: Sequence[T],
        *,
        place: Callable[[T], Place],
        kinds: Sequence[type],
        reverse: bool = False,
        told: Callable[[T], object] = lambda item: item,
    ) -> Response:
        """The page of a short list that was read whole, by place. Errors: InvalidInput."""
        after = self.after(list_, *kinds)
        ordered = sorted(whole, key=lambda item: [*place(item)], reverse=reverse)
        if after is not None:
            behind = operator.lt if reverse else operator.gt
            ordered = [item for item in ordered if behind([*place(item)], after)]
        return self.answer(list_, ordered[: self.looked_at], place=place, told=told)
