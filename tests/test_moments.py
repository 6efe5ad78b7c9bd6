"""Times as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from lastro.errors import InvalidInput
from lastro.moments import parse_since, parse_until

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
DATES = [
    ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
    ("2026-03-01T10:30:00Z", datetime(2026, 3, 1, 10, 30, tzinfo=UTC)),
]
SPANS = [
    ("7d", timedelta(days=7)),
    ("12h", timedelta(hours=12)),
    ("30m", timedelta(minutes=30)),
    (" 2w ", timedelta(days=14)),
]


@pytest.mark.parametrize(("written", "means"), DATES)
def test_a_date_is_itself_from_whichever_side(written: str, means: datetime) -> None:
    assert parse_since(written, now=NOW) == parse_until(written, now=NOW) == means


@pytest.mark.parametrize(("written", "length"), SPANS)
def test_a_span_ends_or_begins_now(written: str, length: timedelta) -> None:
    assert parse_since(written, now=NOW) == NOW - length
    assert parse_until(written, now=NOW) == NOW + length


@pytest.mark.parametrize(
    "written", ["", "d", "7", "7y", "-7d", "yesterday", "2026-02-30", "999999w"]
)
def test_what_is_no_time_is_refused(written: str) -> None:
    for parse in (parse_since, parse_until):
        with pytest.raises(InvalidInput, match="no date and no span"):
            parse(written, now=NOW)
