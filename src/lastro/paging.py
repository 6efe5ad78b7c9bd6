"""Pages: a cursor of hits says how many were shown, and which; one of a list says where. Pure.

Nothing is kept between two pages. The next one of a search is cut from the same search, made again,
and only where it begins with the hits that were shown: an index that moved meanwhile would repeat
some and leave others out.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from lastro.errors import Conflict, InvalidInput
from lastro.lexical import storable

_BYTES = 16
MOST_BIGINT = 2**63


@dataclass(frozen=True, slots=True)
class Cursor:
    """``shown`` hits came before the page, and ``mark`` is what ``mark_of`` made of them."""

    shown: int
    mark: str

    def text(self) -> str:
        """As a client gets it, which need not understand it."""
        return _text([self.shown, self.mark])

    def check(self, question: object, ids: Iterable[UUID]) -> None:
        """Errors: Conflict where other hits come first now than those that were shown."""
        if mark_of(question, ids) != self.mark:
            raise Conflict(
                "the cursor is of another question, or the index changed since that page",
                remedy="ask again without a cursor",
            )


def read_cursor(text: str) -> Cursor:
    """The cursor that was given. Errors: InvalidInput."""
    match _said(text):
        case [int(shown), str(mark)] if type(shown) is int and 1 <= shown < MOST_BIGINT:
            return Cursor(shown, mark)
        case _:
            raise not_a_cursor()


def check_limit(limit: int | None, *, of: str) -> None:
    """Errors: InvalidInput for one that leaves none ``of`` a list, or that no list can have."""
    if limit is None or 1 <= limit < MOST_BIGINT:
        return
    if limit < 1:
        raise InvalidInput(f"a limit of {limit} leaves no {of}", remedy="use 1 or more")
    raise InvalidInput(f"a limit of {limit} is more than a list can have", remedy="use less")


def is_bigint(value: int) -> bool:
    """Whether PostgreSQL counts so far."""
    return abs(value) < MOST_BIGINT


def mark_of(question: object, ids: Iterable[UUID]) -> str:
    """What is the same for the same question and the same hits in the same order."""
    digest = hashlib.blake2b(repr(question).encode("utf-8", "surrogateescape"), digest_size=_BYTES)
    for id_ in ids:
        digest.update(id_.bytes)
    return digest.hexdigest()


def place_text(list_: str, place: Sequence[str | int]) -> str:
    """A cursor of the list called so: what comes next stands behind ``place`` in its order."""
    return _text([list_, *place])


def read_place(text: str | None, list_: str, kinds: Sequence[type]) -> list[Any] | None:
    """The place that a cursor of this list names, a value of each of ``kinds``; None for none.

    Errors: InvalidInput for any other text.
    """
    if text is None:
        return None
    match _said(text):
        case [said, *place] if (
            said == list_ and list(map(type, place)) == list(kinds) and all(map(_is_stored, place))
        ):
            return place
        case _:
            raise not_a_cursor()


def _is_stored(value: str | int) -> bool:
    """Whether PostgreSQL could hold it."""
    if isinstance(value, str):
        return storable(value) == value
    return is_bigint(value)


def _text(said: list[Any]) -> str:
    written = json.dumps(said, separators=(",", ":"))
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def _said(text: str) -> list[Any]:
    try:
        padded = text + "=" * (-len(text) % 4)
        said = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise not_a_cursor() from error
    return cast("list[Any]", said) if isinstance(said, list) else []


def not_a_cursor() -> InvalidInput:
    """What is said of a text that no list gave."""
    return InvalidInput("the cursor is not one of Lastro's", remedy="ask again without a cursor")
