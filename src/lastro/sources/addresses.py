"""Addresses of remote repositories: what is one, what is refused, and what it is called (pure).

An address reaches git's command line, the database and every report, so it is checked against
what is allowed, character by character, and never holds a credential.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import unquote

from lastro.errors import InvalidInput

Protocol = Literal["https", "http", "ssh", "file"]

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/]*)(?P<path>.*)", re.S)
# git's short form of ssh, host:path; no slash stands before the colon.
_SHORT = re.compile(
    r"(?P<authority>(?:[^@/:\\]+@)?(?:[^@/:\\]{2,}|\[[^/\]]*\])):(?P<path>.+)", re.S
)
# ext::, fd:: and their like run programs that the address names.
_HELPER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*::")
_HOST = re.compile(
    r"(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_ALLOWED = "https://host/team/repo.git, ssh://git@host/team/repo.git or git@host:team/repo.git"
# A name in the database has at most 200 characters (projects_slug_form).
_NAME_MAX_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A remote repository; ``url`` is what git is given and what is stored, without a secret.

    ``origin`` is protocol and host (with its port) of a web address: what a credential is for.
    """

    url: str
    protocol: Protocol
    origin: str
    name: str


def parse_address(text: str) -> Address | None:
    """The remote repository that ``text`` names; None where it is a path.

    ``host:path`` is an address, as in git; who has such a folder asks for it as ``./host:path``.
    Errors: InvalidInput for what is not allowed; the message repeats no user name or password.
    """
    if _HELPER.match(text):
        raise _refused("it names a transport helper, which is never run")
    url = _URL.fullmatch(text)
    short = None if url else _SHORT.fullmatch(text)
    found = url or short
    if found is None:
        return None
    if not text.isprintable():
        raise _refused("it holds a line break or another control character")
    scheme = url["scheme"].lower() if url else "ssh"
    if scheme not in ("https", "http", "ssh", "file"):
        raise _refused(f"the protocol {scheme} is not allowed")
    if scheme == "file":
        return _file(found["authority"], found["path"])
    return _network(cast("Protocol", scheme), found["authority"], found["path"], short=not url)


def repository_of(text: str) -> str | None:
    """Host and path of a repository, the same for every address of it; None for no address.

    Without protocol, user, port, ``.git`` and case: what differs in these alone counts as one.
    """
    try:
        address = parse_address(text)
    except InvalidInput:
        return None
    if address is None:
        return None
    found = _URL.fullmatch(address.url) or _SHORT.fullmatch(address.url)
    assert found is not None
    host = re.sub(r":[0-9]*$", "", found["authority"].rpartition("@")[2])
    path = unquote(found["path"]).strip("/").removesuffix(".git")
    return f"{host}/{path}".casefold()


def _file(authority: str, path: str) -> Address:
    if authority not in ("", "localhost") or not path.startswith("/"):
        raise _refused("a file address is file:// and an absolute path")
    return Address(url=f"file://{path}", protocol="file", origin="", name=_name(path))


def _network(protocol: Protocol, authority: str, path: str, *, short: bool) -> Address:
    user, at, host = authority.rpartition("@")
    if protocol != "ssh" and at:
        raise _with_credential()
    if at and not _USER.fullmatch(user):
        raise _with_credential() if ":" in user else _refused("its user name is not allowed")
    if short and re.match(r"[^/]*@", path):
        raise _with_credential()
    if not _HOST.fullmatch(host):
        raise _refused("its host is missing or is no host name")
    if re.search(r"\s", path):
        raise _refused("it holds a blank")
    if protocol != "ssh" and ("?" in path or "#" in path):
        raise _refused("it holds a query or a fragment, where a secret may stand")
    if path.startswith("-"):
        raise _refused("its path begins with a dash")
    host = host.lower()
    url = f"{user}{at}{host}:{path}" if short else f"{protocol}://{user}{at}{host}{path}"
    origin = "" if protocol == "ssh" else f"{protocol}://{host}"
    return Address(url=url.rstrip("/"), protocol=protocol, origin=origin, name=_name(path))


def _name(path: str) -> str:
    last = unquote(path.rstrip("/").rpartition("/")[2]).removesuffix(".git")
    name = "".join(character for character in last if character.isprintable())
    if name.strip("./ ") == "" or "/" in name:
        raise _refused("it names no repository")
    return name[:_NAME_MAX_CHARS]


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"not an address of a repository: {why}", remedy=f"give {_ALLOWED}")


def _with_credential() -> InvalidInput:
    return InvalidInput(
        "the address holds a user name or password, which would be stored and shown",
        remedy="give the address without it; put the credential in LASTRO_GIT_TOKEN (and "
        "LASTRO_GIT_USERNAME) or in git's credential helper",
    )
