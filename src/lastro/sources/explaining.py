"""What a fetch that failed means, from the words of git, ssh and the server (pure)."""

import re

from lastro.errors import ConfigError, LastroError, NotFound, RemoteError
from lastro.sources.addresses import Address

# Lower-case parts of what git 2.31 to 2.50 and ssh say under LC_ALL=C.
_REFUSED = (
    "authentication failed",
    "could not read username",
    "could not read password",
    "returned error: 401",
    "returned error: 403",
    "permission denied (",
    "access denied",
)
_ABSENT = (
    "not found",
    "does not appear to be a git repository",
    "does not exist",
    "no such file or directory",
)
_UNREACHED = (
    "could not resolve host",
    "couldn't connect",
    "failed to connect",
    "connection refused",
    "connection reset",
    "connection closed",
    "network is unreachable",
    "no route to host",
    "host key verification failed",
    "ssl certificate",
    "operation too slow",
    "empty reply from server",
    "returned error: 5",
    "transport '",
    "kex_exchange_identification",
    "timed out",
)
_NO_ANSWER = "fatal: Could not read from remote repository."
# What curl says where a server redirects to what GIT_ALLOW_PROTOCOL leaves out.
_OTHER_PROTOCOL = re.compile(r'protocol "([a-z0-9+.-]*)" (?:not supported|disabled)')
# A server may say as much as it likes.
_MAX_CHARS = 400


class Unexplained(RemoteError):
    """Git failed for a reason that may lie in the clone."""


def explain(address: Address, said: str) -> LastroError:
    """The error that git's words mean."""
    words = said.lower()
    if "couldn't find remote ref head" in words:
        return NotFound(
            f"{address.url} has no commit at its default branch",
            remedy="name a branch, a tag or a commit with --ref",
        )
    if any(part in words for part in _REFUSED):
        return ConfigError(
            f"{address.url} refused the credential, or wants one",
            remedy=_credential_remedy(address),
        )
    if found := _OTHER_PROTOCOL.search(words):
        return RemoteError(
            f"{address.url} redirects to the protocol {found[1] or 'of no name'}, which is not "
            "followed",
            remedy="give the repository's own address, if you trust the server behind it",
        )
    if "couldn't find remote ref" in words or "unadvertised object" in words:
        return NotFound(f"{address.url} does not give that commit", remedy="name another ref")
    if "not a git repository" in words:
        return Unexplained(f"the clone of {address.url} is damaged")
    if any(part in words for part in _ABSENT):
        return NotFound(
            f"there is no repository {address.url}, or it is not yours to see",
            remedy=f"check the address; for a private one, {_credential_remedy(address)}",
        )
    kind = RemoteError if any(part in words for part in _UNREACHED) else Unexplained
    folder = f" (a folder of that name is ./{address.url})" if _is_short(address) else ""
    return kind(
        f"{address.url} could not be fetched: {_main_line(said)}",
        remedy=f"check the address{folder} and the network, then try again; nothing in the index "
        "was changed",
    )


def _is_short(address: Address) -> bool:
    """Whether it is written as ``host:path``, which may have been meant as a folder."""
    return "://" not in address.url


def _credential_remedy(address: Address) -> str:
    if address.protocol == "ssh":
        return "load a key that the server knows into ssh-agent; nothing is asked for"
    return (
        "set LASTRO_GIT_TOKEN (and LASTRO_GIT_USERNAME where the host wants one), or store the "
        "credential in git's credential helper"
    )


def _main_line(said: str) -> str:
    """Git's own verdict, else the last line; progress is overwritten in place and no verdict."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", said) if line.strip()]
    verdict = next((line for line in lines if line.startswith(("fatal:", "error:"))), None)
    if verdict == _NO_ANSWER and lines[0] != verdict:
        verdict = lines[0]  # what ssh said of it
    line = verdict or (lines[-1] if lines else "it ended early")
    shown = re.sub(r"^(?:fatal|error): ", "", line)[:_MAX_CHARS]
    # A server's words may hold what a terminal obeys.
    return "".join(one if one.isprintable() else " " for one in shown)
