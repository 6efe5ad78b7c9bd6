"""What a forge says of a push: where the repository is, and which ref moved. Pure.

Sources: the webhook documentation of GitHub, GitLab, Gitea and Forgejo; for GitLab's signing tokens
the specification of Standard Webhooks, https://www.standardwebhooks.com/.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from lastro.errors import InvalidInput
from lastro.types import DEFAULT_REF

# Of what a forge says of a repository, the addresses of itself: not of what it mirrors.
_ADDRESSES = (
    "clone_url", "ssh_url", "git_url", "html_url", "url",
    "git_http_url", "git_ssh_url", "http_url", "web_url",
)  # fmt: skip
_SIGNATURES = ("X-Hub-Signature-256", "X-Gitea-Signature", "X-Forgejo-Signature")
_TOKEN = "X-Gitlab-Token"  # noqa: S105 - a header's name
# A signing token of GitLab: base64 behind this.
_SIGNING_PREFIX = "whsec_"
# How far a signed time may be from now, either way. Source: Standard Webhooks.
TOLERANCE_S = 300
# A ref and what is asked of it, as in main~1 or v1^{commit}.
_BASE = re.compile(r"(?:(?!@\{)[^~^:])*")
_SECONDS = re.compile(r"[0-9]{1,12}")
_PLACES = ("", "refs/", "refs/heads/", "refs/tags/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A ref that moved, in the repository at these addresses; each as the forge wrote it."""

    addresses: tuple[str, ...]
    ref: str
    default_branch: str | None

    def moves(self, followed: str | None) -> bool:
        """Whether a source that follows this ref, or the default branch, may have moved."""
        base = _BASE.match(followed or DEFAULT_REF)
        named = base.group() if base else ""
        if named in ("", DEFAULT_REF, "@"):
            return self.default_branch is None or self.ref == f"refs/heads/{self.default_branch}"
        return self.ref in {place + named for place in _PLACES}


def read_push(said: object) -> Push | None:
    """The push that a forge tells of; None for what is none. Errors: InvalidInput."""
    if not isinstance(said, dict):
        raise InvalidInput("a delivery is a JSON object", remedy="send what the forge sends")
    event = cast("Mapping[str, Any]", said)
    ref = event.get("ref")
    if not isinstance(ref, str) or not ref.startswith("refs/"):
        return None
    parts = [event.get(name) for name in ("repository", "project")]
    about = [cast("Mapping[str, Any]", part) for part in parts if isinstance(part, dict)]
    found = [part.get(name) for part in about for name in _ADDRESSES]
    branches = [part.get("default_branch") for part in about]
    return Push(
        addresses=tuple(dict.fromkeys(text for text in found if isinstance(text, str))),
        ref=ref,
        default_branch=next((one for one in branches if isinstance(one, str) and one), None),
    )


def is_signed(
    headers: Mapping[str, str], body: Iterable[bytes], *, secret: str, now_s: float
) -> bool:
    """Whether who sent this knows the secret; each comparison takes the same time.

    A time that is signed too must be within ``TOLERANCE_S`` of ``now_s``, seconds since 1970.
    """
    key = secret.encode("utf-8", "surrogateescape")
    of_body = hmac.new(key, digestmod=hashlib.sha256)
    of_message = hmac.new(_signing_key(secret), _head(headers), hashlib.sha256)
    for part in body:
        of_body.update(part)
        of_message.update(part)
    digest = of_body.hexdigest().encode()
    said = [headers.get(name, "").removeprefix("sha256=") for name in _SIGNATURES]
    known = [hmac.compare_digest(_sent(one), digest) for one in said]
    known.append(hmac.compare_digest(_sent(headers.get(_TOKEN, "")), key))
    if _signing_key(secret) and _is_of_now(headers, now_s):
        signature = b"v1," + base64.b64encode(of_message.digest())
        several = headers.get("webhook-signature", "").split()
        known += [hmac.compare_digest(_sent(one), signature) for one in several]
    return any(known)


def _signing_key(secret: str) -> bytes:
    """The key of a signing token; empty for what is none."""
    if not secret.startswith(_SIGNING_PREFIX):
        return b""
    try:
        return base64.b64decode(secret.removeprefix(_SIGNING_PREFIX) + "==", validate=False)
    except ValueError:
        return b""


def _head(headers: Mapping[str, str]) -> bytes:
    """What is signed before the body."""
    return _sent(f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.")


def _is_of_now(headers: Mapping[str, str], now_s: float) -> bool:
    said = headers.get("webhook-timestamp", "")
    return bool(_SECONDS.fullmatch(said)) and abs(int(said) - now_s) <= TOLERANCE_S


def _sent(text: str) -> bytes:
    """A header's bytes as they came; they are read as Latin-1."""
    return text.encode("latin-1", "replace")
