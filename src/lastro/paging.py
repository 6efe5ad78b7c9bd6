"""Pages of one list of hits: a cursor says how many were shown, and which. Pure.

Nothing is kept between two pages. The next one is cut from the same search, made again, and only
where it begins with the hits that were shown: an index that moved meanwhile would repeat some and
leave others out.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from lastro.errors import Conflict, InvalidInput

_BYTES = 16


@dataclass(frozen=True, slots=True)
class Cursor:
    """``shown`` hits came before the page, and ``mark`` is what ``mark_of`` made of them."""

    shown: int
    mark: str

    def text(self) -> str:
        """As a client gets it, which need not understand it."""
        said = json.dumps([self.shown, self.mark], separators=(",", ":"))
        return base64.urlsafe_b64encode(said.encode()).decode().rstrip("=")

    def check(self, question: object, ids: Iterable[UUID]) -> None:
        """Errors: Conflict where other hits come first now than those that were shown."""
        if mark_of(question, ids) != self.mark:
            raise Conflict(
                "the cursor is of another question, or the index changed since that page",
                remedy="ask again without a cursor",
            )


def read_cursor(text: str) -> Cursor:
    """The cursor that was given. Errors: InvalidInput."""
    try:
        padded = text + "=" * (-len(text) % 4)
        shown, mark = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise _unknown() from error
    if type(shown) is not int or shown < 1 or not isinstance(mark, str):
        raise _unknown()
    return Cursor(shown, mark)


def mark_of(question: object, ids: Iterable[UUID]) -> str:
    """What is the same for the same question and the same hits in the same order."""
    digest = hashlib.blake2b(repr(question).encode("utf-8", "surrogateescape"), digest_size=_BYTES)
    for id_ in ids:
        digest.update(id_.bytes)
    return digest.hexdigest()


def _unknown() -> InvalidInput:
    return InvalidInput("the cursor is not one of Lastro's", remedy="ask again without a cursor")
