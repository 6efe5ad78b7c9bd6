"""Slashes within a part of a path: ``%2F`` in a key or an id is no separator."""

import re
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Receive, Scope, Send

# Stands for a slash until the path is cut; a private character, in no key that people write.
STAND_IN = "\U000f0000"
_QUOTED = quote(STAND_IN).encode()
_SLASH = re.compile(rb"%2f", re.I)


class WithSlashes:
    """Routes see a path in which an encoded slash is part of a name."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        raw: bytes = scope.get("raw_path") or b""
        if _SLASH.search(raw):
            path = unquote(_SLASH.sub(_QUOTED, raw).decode("ascii", "replace"))
            scope["path"] = path  # in place: who is outside is told of the route in it
        await self._inner(scope, receive, send)


def name_of(part: str) -> str:
    """A part of a path as it was meant."""
    return part.replace(STAND_IN, "/")
