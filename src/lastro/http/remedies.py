"""What a client of the service can do, where a use case names a command. Pure.

Use cases say what to do next in the words of the command line, a command in backticks. This door
has its own word for each of those that has a route; what has none is done by somebody else.
"""

import re
from collections.abc import Mapping

_PROJECTS = "/api/projects"
_AT = f"{_PROJECTS}/{{project}}"
# A command, without the number at its end, and the route that does the same.
ROUTES: Mapping[str, str] = {
    "coverage": f"GET {_AT}/rag/coverage",
    "gaps": f"GET {_AT}/gaps",
    "index": f"POST {_AT}/rag/reindex",
    "index --repair": f"POST {_AT}/rag/reindex",
    "jobs": f"GET {_AT}/jobs",
    "jobs cancel": f"POST {_AT}/jobs/{{job}}/cancel",
    "jobs retry": f"POST {_AT}/jobs/{{job}}/retry",
    "kb import": f"POST {_AT}/entities/import",
    "kb list": f"GET {_AT}/entities",
    "kb list --status": f"GET {_AT}/entities",
    "keys create": f"POST {_AT}/keys",
    "keys list": f"GET {_AT}/keys",
    "profiles": f"GET {_AT}/profiles",
    "projects": f"GET {_PROJECTS}",
    "rules list": f"GET {_AT}/rules",
    "rules rm": f"DELETE {_AT}/rules/{{rule}}",
    "sessions list": f"GET {_AT}/sessions",
    "usage": f"GET {_AT}/usage",
    "words list": f"GET {_AT}/words",
}
# An option, and what a request says in its place.
NAMES: Mapping[str, str] = {
    "--place": "`places`",
    "--strict": "`strict`",
    "--unanswerable": "`unanswerable`",
}
_COMMAND = re.compile(r"`lastro ([^`]+?)( [0-9]+)?`")
_OPTION = re.compile(r"--[a-z][a-z-]*")
# What is left of these is nothing that a request could do.
_ELSEWHERE = re.compile(r"`lastro |LASTRO_|--[a-z]|\bpip install\b")


def in_http(text: str) -> str:
    """The text with each command that has a route as that route."""
    return _COMMAND.sub(_route, text)


def remedy_in_http(remedy: str) -> str:
    """A remedy as a client is told it, or whose it is."""
    told = _OPTION.sub(lambda option: NAMES.get(option[0], option[0]), in_http(remedy))
    return f"for who keeps the service: {told}" if _ELSEWHERE.search(told) else told


def _route(command: re.Match[str]) -> str:
    route = ROUTES.get(command[1])
    return command[0] if route is None else f"`{route}`"
