"""Clones of remote repositories: one bare clone for each address, fetched before every use.

A clone is made beside its place and renamed when it is whole, so one that was killed never counts.
Git is given no terminal, no prompt and no protocol but those of the address. A token goes from the
environment through a credential helper to the one server that it is for: it is never part of an
address, an argument, a file or a message.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lastro.db.work import require_wanted
from lastro.errors import ConfigError, InvalidInput, LastroError, NotFound, RemoteError
from lastro.sources.addresses import Address
from lastro.sources.explaining import Unexplained, explain
from lastro.sources.fetching import Failed, TimedOut, converse
from lastro.sources.running import CREDENTIAL_VARIABLES, GitFailed, git_command, run_git

# The longest that a clone may take, however lively the server is.
LONGEST_S = 3600.0
# git asks a web server for a user name where only the token counts; any will do for most hosts.
DEFAULT_USERNAME = "git"

# How often a process looks whether another has finished its clone.
_POLL_S = 0.05

# Refs of ours, beside those of the server; no user means one of them.
_OWN = "refs/lastro/"
_HEAD = f"{_OWN}head"
_REFSPECS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
# ``HEAD``, ``@`` and what is counted from it: HEAD~1, @^2, HEAD^{/word}.
_FROM_HEAD = re.compile(r"(?:HEAD|@)(?:[~^].*)?", re.S)
_COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FOLDER_NAME = re.compile(r"[^A-Za-z0-9._-]+")
# Settings of the user that would run programs or write elsewhere have no say here.
_SETTINGS = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "gc.autoDetach=false",
    "maintenance.autoDetach=false",
    "credential.interactive=false",
)
# Never a repository above it, whatever became of the clone.
_IN_CLONE = ("--git-dir=.", *(part for setting in _SETTINGS for part in ("-c", setting)))
# What a user sets to reach a server; every other GIT_ variable redirects or traces.
_KEPT = re.compile(
    r"GIT_(?:SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|PROXY_SSL_\w+|HTTP_PROXY_AUTHMETHOD"
    r"|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM|CONFIG_COUNT|CONFIG_KEY_\d+|CONFIG_VALUE_\d+)"
)
# The secret is read from the environment of git, and printed by the shell itself.
_HELPER = (
    '!f() { test "$1" = get || exit 0; '
    'printf "username=%s\\npassword=%s\\n" "$LASTRO_GIT_USERNAME" "$LASTRO_GIT_TOKEN"; }; f'
)
_SSH = "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15 -oServerAliveCountMax=4"
_LOOPBACK = re.compile(r"http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token for web addresses; ``host`` (with its port) is the only one that gets it.

    Without ``host`` it is for the host of the address that is indexed.
    """

    username: str
    token: str = field(repr=False)
    host: str | None = None


def credential_from(environ: Mapping[str, str]) -> Credential | None:
    """LASTRO_GIT_TOKEN, LASTRO_GIT_USERNAME and LASTRO_GIT_HOST. Errors: ConfigError."""
    token = environ.get("LASTRO_GIT_TOKEN", "")
    username = environ.get("LASTRO_GIT_USERNAME", "") or DEFAULT_USERNAME
    if not token:
        return None
    if not token.isprintable() or not username.isprintable():
        raise ConfigError(
            "LASTRO_GIT_TOKEN or LASTRO_GIT_USERNAME holds a line break",
            remedy="set it to the token alone",
        )
    host = environ.get("LASTRO_GIT_HOST", "").lower() or None
    return Credential(username=username, token=token, host=host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clones:
    """The clones in ``folder``; ``timeout_s`` is the longest silence of a server.

    Git shows progress at least once a second while something comes.
    """

    folder: Path
    timeout_s: float
    credential: Credential | None = None

    def fetch(self, address: Address, *, ref: str) -> Path:
        """The clone of ``address`` as it is there now; branches and tags that are gone are gone.

        ``HEAD`` is the default branch; ``ref`` is looked up by the caller, and a commit that no
        branch holds is asked for by name.
        Errors: NotFound (no repository, no commit), InvalidInput (a ref of ours), ConfigError (a
        credential is missing or wrong), RemoteError (not reached, silent too long).
        """
        if ref.startswith(_OWN):
            raise InvalidInput(
                f"{ref!r} is a name that Lastro gives within its clone",
                remedy="name a branch, a tag or a commit of the repository",
            )
        place = self.place(address)
        with _turn(place, timeout_s=LONGEST_S):
            try:
                self._bring_up_to_date(place, address, ref=ref)
            except OSError as error:
                raise ConfigError(
                    f"the clone {place} cannot be written: {error.strerror}",
                    remedy="mend what the message names (space on the disk, rights on the folder)",
                ) from error
        return place

    def _bring_up_to_date(self, place: Path, address: Address, *, ref: str) -> None:
        for left in place.parent.glob(f".{place.name}.*"):
            shutil.rmtree(left)
        if place.exists():
            _drop_stale_locks(place)
            # A clone that is damaged is made afresh; trouble with the server says so at once.
            with contextlib.suppress(Unexplained, GitFailed):
                self._update(place, address, ref=ref)
                return
        self._clone(place, address, ref=ref)

    def place(self, address: Address) -> Path:
        """Where the clone of ``address`` is, or would be."""
        shown = _FOLDER_NAME.sub("_", address.name).strip("._") or "repository"
        key = hashlib.sha256(address.url.encode()).hexdigest()[:16]
        return self.folder / f"{shown}-{key}.git"

    def remove(self, address: Address) -> bool:
        """Delete the clone of ``address``; False where there was none."""
        place = self.place(address)
        if not place.exists():
            return False
        with _turn(place, timeout_s=LONGEST_S):
            shutil.rmtree(place)
        return True

    def _clone(self, place: Path, address: Address, *, ref: str) -> None:
        scratch = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        scratch.mkdir(mode=0o700)
        try:
            run_git(scratch, "init", "--quiet", "--bare", "--template=", ".")
            self._update(scratch, address, ref=ref)
            if place.exists():
                place.rename(place.with_name(f".{place.name}.old"))
            scratch.rename(place)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        shutil.rmtree(place.with_name(f".{place.name}.old"), ignore_errors=True)

    def _update(self, clone: Path, address: Address, *, ref: str) -> None:
        of_head = (f"+HEAD:{_HEAD}",) if _FROM_HEAD.fullmatch(ref) else ()
        self._fetch(clone, address, *_REFSPECS, *of_head)
        if of_head:
            _run(clone, "update-ref", "--no-deref", "HEAD", _HEAD)
        # Left there, it would be found before a branch called lastro/head.
        _run(clone, "update-ref", "-d", _HEAD)
        if _COMMIT_ID.fullmatch(ref) and not _holds(clone, ref):
            # Reached by no branch: a server may give it still. Where not, the ref is not found.
            with contextlib.suppress(NotFound, Unexplained):
                self._fetch(clone, address, f"+{ref}:{_OWN}commits/{ref}")

    def _fetch(self, clone: Path, address: Address, *refspecs: str) -> None:
        command = git_command(
            clone,
            *_IN_CLONE,
            "-c",
            f"http.lowSpeedTime={self.timeout_s:.0f}",
            "-c",
            "http.lowSpeedLimit=1",
            "fetch",
            "--progress",
            "--force",
            "--prune",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--update-shallow",
            "--end-of-options",
            address.url,
            *refspecs,
        )
        environment = self._environment(address)
        try:
            converse(command, environment, silence_s=self.timeout_s, longest_s=LONGEST_S)
        except TimedOut as error:
            raise RemoteError(
                f"{address.url} {error}; nothing in the index was changed",
                remedy="try again later, or allow more time with LASTRO_GIT_TIMEOUT_S",
            ) from None
        except Failed as error:
            raise explain(address, self._redacted(error.said)) from None

    def _environment(self, address: Address) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if _KEPT.fullmatch(name)
            or not name.startswith(("GIT_", "SSH_ASKPASS", CREDENTIAL_VARIABLES, "GCM_"))
        }
        environment = kept | {
            "LC_ALL": "C",
            "LANGUAGE": "",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "",
            "SSH_ASKPASS_REQUIRE": "never",
            "GCM_INTERACTIVE": "never",
            "GIT_ALLOW_PROTOCOL": _allowed(address),
        }
        if address.protocol == "ssh" and not {"GIT_SSH", "GIT_SSH_COMMAND"} & kept.keys():
            environment |= _ssh(self.folder)
        counted = kept.get("GIT_CONFIG_COUNT", "")
        already = int(counted) if counted.isdecimal() else 0
        return environment | self._helper(address, already=already)

    def _helper(self, address: Address, *, already: int) -> dict[str, str]:
        """Variables that make git ask for our token, for this server alone and nobody else.

        The helpers of the system are put aside: they would be told to store the token.
        """
        credential = self.credential
        if credential is None or not _is_for(credential, address):
            return {}
        key = f"credential.{address.origin}.helper"
        return {
            "LASTRO_GIT_USERNAME": credential.username,
            "LASTRO_GIT_TOKEN": credential.token,
            "GIT_CONFIG_COUNT": str(already + 2),
            f"GIT_CONFIG_KEY_{already}": key,
            f"GIT_CONFIG_VALUE_{already}": "",
            f"GIT_CONFIG_KEY_{already + 1}": key,
            f"GIT_CONFIG_VALUE_{already + 1}": _HELPER,
        }

    def _redacted(self, text: str) -> str:
        """What git said without user names and passwords of addresses, and without our token."""
        text = re.sub(r"(?<=://)[^/\s@]*@", "", text)
        return text.replace(self.credential.token, "***") if self.credential else text


def _is_for(credential: Credential, address: Address) -> bool:
    """Whether the server may see the token: its own host, over TLS or on this machine."""
    if address.protocol != "https" and not _LOOPBACK.fullmatch(address.origin):
        return False
    return credential.host is None or address.origin.partition("://")[2] == credential.host


def _allowed(address: Address) -> str:
    """Protocols git may use; ssh for https and back, since users rewrite one to the other."""
    return "https:ssh" if address.protocol in ("https", "ssh") else address.protocol


def _ssh(folder: Path) -> dict[str, str]:
    """An ssh that never asks, where the user has not set one."""
    try:
        run_git(folder, "config", "--get", "core.sshCommand")
    except LastroError:
        return {"GIT_SSH_COMMAND": _SSH}
    return {}


# --- one at a time -----------------------------------------------------------------------------


@contextlib.contextmanager
def _turn(place: Path, *, timeout_s: float) -> Generator[None]:
    """Hold the lock of a clone; it goes with the process."""
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(
            place.with_name(f"{place.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
    except OSError as error:
        raise ConfigError(
            f"the folder {place.parent} for clones cannot be written: {error.strerror}",
            remedy="run as the user who made it, or set LASTRO_HOME to a folder of your own",
        ) from error
    try:
        _wait_for(lock, place, timeout_s=timeout_s)
        yield
    finally:
        os.close(lock)


def _wait_for(lock: int, place: Path, *, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise RemoteError(
                    f"another process has been fetching {place} for {timeout_s:.0f} s",
                    remedy="end that process (fuser shows it) and run the command again",
                ) from None
            require_wanted()
            time.sleep(_POLL_S)
        else:
            return


def _drop_stale_locks(clone: Path) -> None:
    """Remove what a killed git left; we hold the turn, so no other is at work."""
    for lock in clone.rglob("*.lock"):
        lock.unlink(missing_ok=True)


def _run(clone: Path, *arguments: str) -> bytes:
    return run_git(clone, *_IN_CLONE, *arguments)


def _holds(clone: Path, commit: str) -> bool:
    try:
        _run(clone, "cat-file", "-e", f"{commit}^{{commit}}")
    except LastroError:
        return False
    return True
