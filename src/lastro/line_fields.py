"""What lines of entries and of events have in common: how a fault names one, and times. Pure."""

from datetime import UTC, datetime

from lastro.errors import InvalidInput

SHOWN_NAME_CHARS = 80


def named(noun: str, name: object) -> str:
    """The beginning of a message about a line: which one it is, where that can be said."""
    if not isinstance(name, str):
        return f"{noun}: "
    shown = name if len(name) <= SHOWN_NAME_CHARS else f"{name[:SHOWN_NAME_CHARS]}…"
    return f"{noun} {shown!r}: "


def read_time(said: object, *, field: str, named: str) -> datetime:
    """A date or time in ISO 8601; without a zone it is in UTC. Errors: InvalidInput."""
    try:
        when = datetime.fromisoformat(said) if isinstance(said, str) else None
    except ValueError:
        when = None
    if when is None:
        raise InvalidInput(
            f"{named}{field} is no date or time: {said!r}",
            remedy="write it as 2026-01-31 or 2026-01-31T12:00:00+00:00",
        )
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def time_fault(when: object) -> str | None:
    """Why a time cannot be kept; None is no time and can."""
    if when is None:
        return None
    if not isinstance(when, datetime) or when.tzinfo is None:
        return "is no time with its zone"
    try:
        when.astimezone(UTC)
    except OverflowError:  # PostgreSQL would keep it, and nobody could read it back
        return "is in UTC no time of the years 1 to 9999"
    return None
