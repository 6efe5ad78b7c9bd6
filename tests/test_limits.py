"""Limits and numbers that no list and no job can have are refused at the door, in our own words."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from rows import add_project
from service import settings_of

from lastro.app import App, build
from lastro.cli import main
from lastro.errors import EXIT_USAGE, InvalidInput, NotFound

# The first number above a bigint.
TOO_MUCH = 2**63
LISTS: dict[str, Callable[[App, int], object]] = {
    "gaps": lambda app, limit: app.gaps("pond").list(limit=limit),
    "searches": lambda app, limit: app.searches("pond").list(limit=limit),
    "jobs": lambda app, limit: app.jobs("pond").list(limit=limit),
    "all jobs": lambda app, limit: app.all_jobs(limit=limit),
    "runs": lambda app, limit: app.golden_runs("pond").list(limit=limit),
    "drafts": lambda app, limit: app.golden_sets("pond").suggest(limit=limit),
    "entries": lambda app, limit: app.entities("pond").list(limit=limit),
    "words": lambda app, limit: app.words("pond").list(limit=limit),
    "sessions": lambda app, limit: app.sessions("pond").list(limit=limit),
    "events": lambda app, limit: app.sessions("pond").events("s", limit=limit),
    "a page of events": lambda app, limit: app.sessions("pond").page("s", limit=limit),
}


@pytest.fixture
def app(owner_url: str, tmp_path: Path) -> Iterator[App]:
    with psycopg.connect(owner_url) as connection:
        add_project(connection, "pond")
    with build(settings_of(owner_url, tmp_path / "home")) as made:
        yield made


@pytest.mark.parametrize("limit", [0, -1, TOO_MUCH, 10**30])
@pytest.mark.parametrize("list_", LISTS)
def test_a_limit_that_no_list_can_have_is_refused_in_our_words(
    app: App, list_: str, limit: int
) -> None:
    with pytest.raises(InvalidInput, match=f"a limit of {limit} ") as refused:
        LISTS[list_](app, limit)
    assert refused.value.remedy is not None


@pytest.mark.parametrize("list_", ["gaps", "searches", "jobs", "entries", "words", "sessions"])
def test_the_largest_limit_there_is_lists_all(app: App, list_: str) -> None:
    assert LISTS[list_](app, TOO_MUCH - 1) == []


def test_a_job_above_all_numbers_is_one_that_is_not_there(app: App) -> None:
    with pytest.raises(NotFound, match="has no job"):
        app.jobs("pond").get(TOO_MUCH)


def test_no_event_stands_behind_a_number_that_none_has(app: App) -> None:
    with pytest.raises(InvalidInput, match="no event has a number like"):
        app.sessions("pond").events("s", after=TOO_MUCH)


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "inf", "1e300", "86401"])
def test_a_time_that_no_clock_can_wait_is_refused_before_a_folder_is_watched(
    capsys: pytest.CaptureFixture[str], interval: str
) -> None:
    assert main(["watch", "--interval", interval]) == EXIT_USAGE
    assert "give a number from 0.1 to 86400" in capsys.readouterr().err
