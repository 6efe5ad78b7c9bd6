"""What a key of each role may do."""

from typing import get_args

import pytest

from lastro.roles import NEEDED, ROLES, Action, permits

MAY = {
    "viewer": {
        "search", "read_coverage", "read_events", "read_entries", "list_gaps", "list_profiles",
        "list_jobs", "list_projects",
    },
    "editor": {"append_events", "change_entries", "decide_gaps"},
    "maintainer": {
        "reindex", "cancel_jobs", "adopt_profiles", "keep_rules", "keep_words", "read_usage",
        "read_searches",
    },
    "admin": {"manage_keys", "erase_project"},
}  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_what_is_its_own_and_what_those_before_it_may(role: str):
    own = [MAY[one] for one in ROLES[: ROLES.index(role) + 1]]
    assert {action for action in get_args(Action) if permits(role, action)} == set().union(*own)


def test_every_action_has_the_role_that_it_needs():
    assert set(NEEDED) == set(get_args(Action))


def test_the_roles_go_from_the_one_that_may_least():
    assert ROLES == ("viewer", "editor", "maintainer", "admin")
