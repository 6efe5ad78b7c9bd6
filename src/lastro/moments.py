"""Moments as people write them: a date, a time, or a span from now. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from lastro.entry_filter import parse_moment
from lastro.errors import InvalidInput

_SPAN = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[mhdw])")
_UNITS: Mapping[str, timedelta] = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def parse_since(text: str, *, now: datetime) -> datetime:
    """The time that a date, a time in ISO 8601, or a span before ``now`` such as ``7d`` means.

    Errors: InvalidInput.
    """
    return _moment(text, now=now, sign=-1)


def parse_until(text: str, *, now: datetime) -> datetime:
    """The same with a span that begins ``now``; a date is its first moment in UTC.

    Errors: InvalidInput.
    """
    return _moment(text, now=now, sign=1)


def _moment(text: str, *, now: datetime, sign: int) -> datetime:
    span = _SPAN.fullmatch(text.strip())
    try:
        when = (
            now + sign * int(span["number"]) * _UNITS[span["unit"]] if span else parse_moment(text)
        )
    except OverflowError:
        when = None
    if when is None:
        raise InvalidInput(
            f"{text!r} is no date and no span of time",
            remedy="write 2026-01-31, 2026-01-31T12:00:00Z, 7d, 12h or 2w",
        )
    return when
