"""What an API key may do: four roles in order, and the role that each action needs. Pure."""

from collections.abc import Mapping
from typing import Literal, get_args

Role = Literal["viewer", "editor", "maintainer", "admin"]
Action = Literal[
    # what is there
    "search",
    "read_coverage",
    "read_events",
    "read_entries",
    "list_gaps",
    "list_profiles",
    "list_jobs",
    "list_projects",
    # what a project holds
    "append_events",
    "change_entries",
    "decide_gaps",
    # how it is indexed and answers
    "reindex",
    "cancel_jobs",
    "adopt_profiles",
    "keep_rules",
    "keep_words",
    "read_usage",
    "read_searches",
    # who may do all that, and whether it is there at all
    "manage_keys",
    "erase_project",
]

# From the one that may least: each may what those before it may.
ROLES: tuple[Role, ...] = get_args(Role)
NEEDED: Mapping[Action, Role] = {
    "search": "viewer",
    "read_coverage": "viewer",
    "read_events": "viewer",
    "read_entries": "viewer",
    "list_gaps": "viewer",
    "list_profiles": "viewer",
    "list_jobs": "viewer",
    "list_projects": "viewer",
    "append_events": "editor",
    "change_entries": "editor",
    "decide_gaps": "editor",
    "reindex": "maintainer",
    "cancel_jobs": "maintainer",
    "adopt_profiles": "maintainer",
    "keep_rules": "maintainer",
    "keep_words": "maintainer",
    "read_usage": "maintainer",
    "read_searches": "maintainer",
    "manage_keys": "admin",
    "erase_project": "admin",
}


def permits(role: Role, action: Action) -> bool:
    """Whether a key of ``role`` may do ``action`` in its own project; in no other it may any."""
    return ROLES.index(role) >= ROLES.index(NEEDED[action])
