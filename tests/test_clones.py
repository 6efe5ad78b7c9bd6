"""Remote repositories: fetched over real HTTP and a stand-in for ssh, and read at a commit."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from remotes import WebServer, fake_ssh, publish, self_signed, silent_server, web_server
from repositories import commit, git

from lastro.errors import ConfigError, InvalidInput, LastroError, NotFound, RemoteError
from lastro.sources.addresses import Address, parse_address
from lastro.sources.clones import Clones, Credential, credential_from
from lastro.sources.files import FilePatterns, FileText, Listing
from lastro.sources.listing import find_place, list_place, open_listing

TOKEN = "tok-4f1d9a77c0ffee"
OWN_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [one for one in os.environ if one.startswith(("GIT_", "LASTRO_GIT_", "SSH_"))]:
        monkeypatch.delenv(name)
    for name, value in OWN_SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    commit(tmp_path / "work", {"docs/tides.md": "# Tides\n\nHigh water at noon.\n"})
    publish(tmp_path / "work", tmp_path / "served", "tides.git")
    return tmp_path / "work"


@pytest.fixture
def server(work: Path, tmp_path: Path) -> Iterator[WebServer]:
    del work
    with web_server(tmp_path / "served") as server:
        yield server


@pytest.fixture
def private(work: Path, tmp_path: Path) -> Iterator[WebServer]:
    del work
    with web_server(tmp_path / "served", token=TOKEN) as server:
        yield server


@pytest.fixture
def clones(tmp_path: Path) -> Clones:
    return Clones(folder=tmp_path / "cache", timeout_s=30)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate that nobody vouches for, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("a certificate cannot be made without openssl")
    return self_signed(tmp_path_factory.mktemp("tls") / "both.pem")


def holder(tmp_path: Path, *, token: str = TOKEN, host: str | None = None) -> Clones:
    credential = Credential(username="ana", token=token, host=host)
    return Clones(folder=tmp_path / "cache", timeout_s=30, credential=credential)


def address(text: str) -> Address:
    found = parse_address(text)
    assert found is not None
    return found


def listed(clones: Clones, text: str, *, ref: str = "HEAD") -> Listing:
    return list_place(
        find_place(text), ref=ref, worktree=False, patterns=FilePatterns(), clones=clones
    )


def texts(listing: Listing) -> dict[str, str]:
    with open_listing(listing) as read:
        found = {file.path: read(file).text for file in listing.files}
    return {path: text.text for path, text in found.items() if isinstance(text, FileText)}


# --- over the web ------------------------------------------------------------------------------


def test_a_repository_on_a_server_is_read_at_its_default_branch(server, clones, work) -> None:
    listing = listed(clones, server.address("tides.git"))
    assert texts(listing) == {"docs/tides.md": "# Tides\n\nHigh water at noon.\n"}
    assert listing.revision == git(work, "rev-parse", "HEAD")
    assert listing.place == server.address("tides.git")


def test_the_next_look_sees_what_was_pushed_since(server, clones, work, tmp_path) -> None:
    listed(clones, server.address("tides.git"))
    commit(work, {"docs/tides.md": "# Tides\n\nLow water.\n"})
    publish(work, tmp_path / "served", "tides.git")
    assert texts(listed(clones, server.address("tides.git")))["docs/tides.md"].endswith("water.\n")
    assert [one.name for one in (tmp_path / "cache").glob("*.git")] == [
        clones.place(address(server.address("tides.git"))).name
    ]


def test_a_branch_a_tag_and_a_commit_can_be_named(server, clones, work, tmp_path) -> None:
    first = git(work, "rev-parse", "HEAD")
    git(work, "tag", "--annotate", "--message=one", "v1")
    git(work, "checkout", "--quiet", "-b", "next")
    second = commit(work, {"docs/more.md": "# More\n"})
    publish(work, tmp_path / "served", "tides.git")
    url = server.address("tides.git")
    found = [listed(clones, url, ref=ref).revision for ref in ("HEAD", "v1", "next", first[:10])]
    assert found == [first, first, second, first]


def test_another_default_branch_is_followed(server, clones, work, tmp_path) -> None:
    listed(clones, server.address("tides.git"))
    git(work, "checkout", "--quiet", "-b", "trunk")
    head = commit(work, {"docs/more.md": "# More\n"})
    bare = publish(work, tmp_path / "served", "tides.git")
    git(bare, "symbolic-ref", "HEAD", "refs/heads/trunk")
    assert listed(clones, server.address("tides.git")).revision == head


@pytest.mark.parametrize(
    ("ref", "back"), [("@", 0), ("HEAD~1", 1), ("@^", 1), ("HEAD^{/tides}", 0)]
)
def test_a_ref_that_starts_from_the_default_branch_starts_where_it_is_now(
    server, clones, work, tmp_path, ref, back
) -> None:
    listed(clones, server.address("tides.git"))
    commits = [commit(work, {"docs/more.md": f"# More {number}\n"}) for number in (1, 2)]
    git(work, "commit", "--quiet", "--amend", "--message=of tides")
    commits[-1] = git(work, "rev-parse", "HEAD")
    publish(work, tmp_path / "served", "tides.git")
    assert listed(clones, server.address("tides.git"), ref=ref).revision == commits[-1 - back]


def test_rewritten_history_is_followed(server, clones, work, tmp_path) -> None:
    url = server.address("tides.git")
    before = listed(clones, url).revision
    git(work, "checkout", "--quiet", "--orphan", "afresh")
    head = commit(work, {"docs/tides.md": "# Tides\n\nRewritten.\n"})
    git(work, "branch", "--quiet", "-M", "afresh", "main")
    publish(work, tmp_path / "served", "tides.git")
    after = listed(clones, url)
    assert (after.revision, texts(after)["docs/tides.md"]) == (head, "# Tides\n\nRewritten.\n")
    assert before != head


def test_a_branch_that_is_gone_is_not_found(server, clones, work, tmp_path) -> None:
    git(work, "branch", "old")
    publish(work, tmp_path / "served", "tides.git")
    listed(clones, server.address("tides.git"), ref="old")
    git(work, "branch", "-D", "old")
    publish(work, tmp_path / "served", "tides.git")
    with pytest.raises(NotFound, match="no commit named 'old' in http"):
        listed(clones, server.address("tides.git"), ref="old")


def test_a_branch_may_become_a_folder_of_branches(server, clones, work, tmp_path) -> None:
    git(work, "branch", "release")
    publish(work, tmp_path / "served", "tides.git")
    listed(clones, server.address("tides.git"))
    git(work, "branch", "-D", "release")
    git(work, "branch", "release/2")
    publish(work, tmp_path / "served", "tides.git")
    assert listed(clones, server.address("tides.git"), ref="release/2").files


def test_a_commit_that_no_branch_holds_is_asked_for_by_name(server, clones, work, tmp_path) -> None:
    publish(work, tmp_path / "served", "tides.git")
    git(work, "checkout", "--quiet", "--detach")
    lone = commit(work, {"docs/lone.md": "# Lone\n"})
    git(work, "push", "--quiet", str(tmp_path / "served/tides.git"), f"{lone}:refs/pull/1")
    assert listed(clones, server.address("tides.git"), ref=lone).revision == lone


def test_a_commit_that_vanished_is_not_found(server, clones) -> None:
    with pytest.raises(NotFound, match="no commit named"):
        listed(clones, server.address("tides.git"), ref="0" * 39 + "1")


def test_a_repository_that_is_not_there_is_not_found(server, clones, tmp_path) -> None:
    with pytest.raises(NotFound, match="there is no repository"):
        listed(clones, server.address("waves.git"))
    assert list((tmp_path / "cache").glob("*.git")) == []


def test_a_repository_without_a_commit_says_so(server, clones, tmp_path) -> None:
    bare = tmp_path / "served" / "empty.git"
    bare.mkdir()
    git(bare, "init", "--quiet", "--bare", ".")
    with pytest.raises(NotFound, match="no commit at its default branch"):
        listed(clones, server.address("empty.git"))


def test_a_server_that_is_down_is_an_error_and_the_old_clone_does_not_stand_in(
    work, tmp_path, clones
) -> None:
    del work
    with web_server(tmp_path / "served") as server:
        url = server.address("tides.git")
        listed(clones, url)
    with pytest.raises(RemoteError, match="could not be fetched"):
        listed(clones, url)


def test_a_submodule_is_reported_and_not_entered(server, clones, work, tmp_path) -> None:
    other = tmp_path / "other"
    commit(other, {"secret.md": "# Not here\n"})
    git(work, "-c", "protocol.file.allow=always", "submodule", "add", str(other), "docs/other")
    commit(work, {})
    publish(work, tmp_path / "served", "tides.git")
    listing = listed(clones, server.address("tides.git"))
    assert [file.path for file in listing.files] == ["docs/tides.md"]
    assert [(note.path, note.reason.partition(":")[0]) for note in listing.skipped] == [
        ("docs/other", "submodule")
    ]


def test_a_lfs_pointer_is_skipped_as_one(server, clones, work, tmp_path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"
    commit(work, {"docs/big.md": pointer})
    publish(work, tmp_path / "served", "tides.git")
    listing = listed(clones, server.address("tides.git"))
    assert list(texts(listing)) == ["docs/tides.md"]


# --- credentials -------------------------------------------------------------------------------


def test_a_token_opens_a_private_repository(private, tmp_path) -> None:
    assert listed(holder(tmp_path), private.address("tides.git")).files


@pytest.mark.parametrize("token", [None, "wrong-token"])
def test_without_the_right_token_the_remedy_is_named(private, tmp_path, token) -> None:
    clones = holder(tmp_path, token=token) if token else Clones(folder=tmp_path, timeout_s=30)
    with pytest.raises(ConfigError, match="credential") as raised:
        listed(clones, private.address("tides.git"))
    assert "LASTRO_GIT_TOKEN" in (raised.value.remedy or "")
    assert "wrong-token" not in f"{raised.value.message} {raised.value.remedy}"


def test_a_token_for_another_host_is_not_sent(private, tmp_path) -> None:
    with pytest.raises(ConfigError, match="credential"):
        listed(holder(tmp_path, host="forge.example"), private.address("tides.git"))
    assert {sent for _, sent in private.asked} == {None}


def test_a_redirect_does_not_take_the_token_along(private, work, tmp_path) -> None:
    del work
    with web_server(tmp_path / "served") as lure:
        lure.redirect = f"http://{private.host}"
        with pytest.raises(LastroError):
            listed(holder(tmp_path), lure.address("tides.git"))
    assert {sent for _, sent in (*lure.asked, *private.asked)} == {None}


def test_the_systems_helpers_are_not_told_the_token(private, tmp_path, monkeypatch) -> None:
    config = tmp_path / "gitconfig"
    config.write_text(f"[credential]\n\thelper = store --file={tmp_path / 'stored'}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    listed(holder(tmp_path), private.address("tides.git"))
    assert not (tmp_path / "stored").exists()


def test_the_systems_helper_opens_a_private_repository(private, tmp_path, monkeypatch) -> None:
    (tmp_path / "stored").write_text(f"http://ana:{TOKEN}@{private.host}\n")
    config = tmp_path / "gitconfig"
    config.write_text(f"[credential]\n\thelper = store --file={tmp_path / 'stored'}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    clones = Clones(folder=tmp_path / "cache", timeout_s=30)
    assert listed(clones, private.address("tides.git")).files


def test_the_token_is_in_no_file_and_in_no_process_arguments(private, tmp_path) -> None:
    seen: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            for place in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(place.read_bytes().decode("utf-8", "replace"))
                except OSError:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        listed(holder(tmp_path), private.address("tides.git"))
    finally:
        done.set()
        watcher.join()
    assert any("remote-http" in line for line in seen)
    assert not [line for line in seen if TOKEN in line]
    held = [one for one in (tmp_path / "cache").rglob("*") if one.is_file()]
    assert held
    assert not [one for one in held if TOKEN.encode() in one.read_bytes()]


def test_a_credential_does_not_show_its_token() -> None:
    found = credential_from({"LASTRO_GIT_TOKEN": TOKEN})
    assert found is not None
    assert (found.token, TOKEN in repr(found)) == (TOKEN, False)


def test_a_token_of_two_lines_is_a_config_error() -> None:
    with pytest.raises(ConfigError) as raised:
        credential_from({"LASTRO_GIT_TOKEN": f"{TOKEN}\nhost=elsewhere"})
    assert TOKEN not in raised.value.message


def test_no_token_is_no_credential() -> None:
    assert credential_from({"LASTRO_GIT_USERNAME": "ana"}) is None


# --- over ssh ----------------------------------------------------------------------------------


def test_a_repository_is_read_over_ssh(work, tmp_path, clones, monkeypatch) -> None:
    del work
    monkeypatch.setenv("GIT_SSH_COMMAND", fake_ssh(tmp_path))
    monkeypatch.setenv("LASTRO_GIT_TOKEN", TOKEN)
    url = f"git@forge.example:{tmp_path / 'served/tides.git'}"
    assert list(texts(listed(clones, url))) == ["docs/tides.md"]
    assert "git-upload-pack" in (tmp_path / "ssh.log").read_text()


def test_ssh_never_asks_for_a_password(tmp_path, clones, monkeypatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "ssh"
    script.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path / "ssh.log"}"\nexit 255\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    with pytest.raises(RemoteError):
        listed(clones, "ssh://git@forge.example/tides.git")
    assert "BatchMode=yes" in (tmp_path / "ssh.log").read_text()


def test_what_ssh_says_is_told(tmp_path, clones, monkeypatch) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "echo 'ssh: the tunnel is closed' >&2; exit 255; :")
    with pytest.raises(RemoteError, match="ssh: the tunnel is closed") as raised:
        listed(clones, "forge.example:tides.git")
    assert "./forge.example:tides.git" in (raised.value.remedy or "")


def test_what_a_terminal_would_obey_is_not_told(clones, monkeypatch) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "printf '\\033]0;owned\\007%01000d\n' 7 >&2; exit 255; :")
    with pytest.raises(RemoteError) as raised:
        listed(clones, "forge.example:tides.git")
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 600


def test_settings_that_the_environment_gives_git_are_kept(private, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.http://{private.host}/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "http://127.0.0.1:1/")
    clones = holder(tmp_path)
    # the token is for the host of the address, not for where a setting leads
    with pytest.raises(ConfigError, match="credential"):
        listed(clones, "http://127.0.0.1:1/tides.git")
    assert {sent for _, sent in private.asked} == {None}


def test_a_key_that_is_refused_is_a_matter_of_credentials(clones, monkeypatch) -> None:
    refusal = "git@forge.example: Permission denied (publickey)."
    monkeypatch.setenv("GIT_SSH_COMMAND", f"echo '{refusal}' >&2; exit 255; :")
    with pytest.raises(ConfigError, match="credential") as raised:
        listed(clones, "git@forge.example:tides.git")
    assert "ssh-agent" in (raised.value.remedy or "")


# --- what a user, a repository or a ref may not do ---------------------------------------------


@pytest.mark.parametrize(
    "ref", ["--upload-pack=touch owned", "-oProxyCommand=touch owned", "main\n--exec=x", "../x"]
)
def test_a_ref_that_looks_like_an_option_names_no_commit(server, clones, tmp_path, ref) -> None:
    with pytest.raises(NotFound, match="no commit named"):
        listed(clones, server.address("tides.git"), ref=ref)
    assert not list(tmp_path.rglob("owned"))


@pytest.mark.parametrize("ref", ["", " ", "a\0b"])
def test_a_blank_ref_asks_no_server(server, clones, ref) -> None:
    with pytest.raises(LastroError, match="blank"):
        listed(clones, server.address("tides.git"), ref=ref)
    assert server.asked == []


@pytest.mark.parametrize("ref", ["refs/lastro/head", "refs/lastro/head~1", "refs/lastro/x"])
def test_a_ref_of_the_clones_own_is_refused_and_asks_no_server(server, clones, ref) -> None:
    with pytest.raises(InvalidInput, match="within its clone"):
        listed(clones, server.address("tides.git"), ref=ref)
    assert server.asked == []


def test_what_the_clone_was_made_of_is_no_branch_of_it(server, clones) -> None:
    listed(clones, server.address("tides.git"))
    with pytest.raises(NotFound, match="no commit named"):
        listed(clones, server.address("tides.git"), ref="lastro/head")


def test_a_branch_may_have_a_name_that_lastro_uses(server, clones, work, tmp_path) -> None:
    git(work, "checkout", "--quiet", "-b", "lastro/head")
    commit(work, {"docs/ebb.md": "# Ebb\n\nLow water.\n"})
    publish(work, tmp_path / "served", "tides.git")
    assert set(texts(listed(clones, server.address("tides.git")))) == {"docs/tides.md"}
    branch = listed(clones, server.address("tides.git"), ref="lastro/head")
    assert set(texts(branch)) == {"docs/ebb.md", "docs/tides.md"}


@pytest.mark.parametrize("lead", ["http", "https"])
@pytest.mark.parametrize(
    "target",
    [
        "file://{served}",
        "ssh://git@{host}{served}",
        "git://{host}",
        "ftp://{host}",
        "ext::touch {served}/ran;",
        "gopher://{host}",
    ],
)
def test_a_redirect_to_another_protocol_is_not_followed(
    work, tmp_path, clones, monkeypatch, certificate, lead, target
) -> None:
    del work
    served = tmp_path / "served"
    monkeypatch.setenv("GIT_SSH_COMMAND", fake_ssh(tmp_path))
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    with (
        web_server(served) as goal,
        web_server(served, certificate=certificate if lead == "https" else None) as lure,
    ):
        lure.redirect = target.format(served=served, host=goal.host)
        with pytest.raises(LastroError):
            listed(clones, lure.address("tides.git"))
        assert len(lure.asked) == 1
        assert goal.asked == []
    assert not (tmp_path / "ssh.log").exists()
    assert not (served / "ran").exists()
    assert not list(clones.folder.glob("*.git"))


def test_a_redirect_from_https_to_http_is_not_followed(
    work, tmp_path, clones, monkeypatch, certificate
) -> None:
    del work
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    with (
        web_server(tmp_path / "served") as goal,
        web_server(tmp_path / "served", certificate=certificate) as lure,
    ):
        lure.redirect = f"http://{goal.host}"
        with pytest.raises(RemoteError, match="redirects to the protocol http,"):
            listed(clones, lure.address("tides.git"))
        assert (len(lure.asked), goal.asked) == (1, [])


def test_a_redirect_within_https_is_followed(
    work, tmp_path, clones, monkeypatch, certificate
) -> None:
    del work
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    with (
        web_server(tmp_path / "served", certificate=certificate) as goal,
        web_server(tmp_path / "served", certificate=certificate) as lure,
    ):
        lure.redirect = f"https://{goal.host}"
        assert "docs/tides.md" in texts(listed(clones, lure.address("tides.git")))


def test_hooks_of_the_users_settings_do_not_run(server, clones, tmp_path, monkeypatch) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "reference-transaction").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (hooks / "reference-transaction").chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f"[core]\n\thooksPath = {hooks}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    listed(clones, server.address("tides.git"))
    assert not (tmp_path / "ran").exists()


def test_a_remote_repository_is_not_read_as_files_lie(server, clones) -> None:
    place = find_place(server.address("tides.git"))
    assert isinstance(place, Address)
    with pytest.raises(InvalidInput, match="remote repository"):
        list_place(place, ref="HEAD", worktree=True, patterns=FilePatterns(), clones=clones)


# --- silence, kills and damage -----------------------------------------------------------------


@pytest.mark.parametrize("form", ["http://{}/tides.git", "ssh://{}/tides.git"])
def test_a_server_that_never_answers_is_an_error_in_the_stated_time(
    tmp_path, monkeypatch, form
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "sleep 60; :")
    clones = Clones(folder=tmp_path / "cache", timeout_s=1)
    started = time.monotonic()
    with silent_server() as host, pytest.raises(RemoteError, match="did not answer for 1 s"):
        listed(clones, form.format(host))
    assert time.monotonic() - started < 10
    assert [one.name for one in (tmp_path / "cache").iterdir() if one.is_dir()] == []


def test_a_clone_that_was_killed_never_counts(server, clones, tmp_path) -> None:
    where = address(server.address("tides.git"))
    place = clones.place(where)
    place.parent.mkdir(parents=True)
    half = place.with_name(f".{place.name}.deadbeef")
    half.mkdir()
    (half / "HEAD").write_text("ref: refs/heads/main\n")
    assert listed(clones, where.url).files
    assert not half.exists()


def test_locks_that_a_killed_git_left_do_not_block_the_next(server, clones, work, tmp_path) -> None:
    where = address(server.address("tides.git"))
    listed(clones, where.url)
    (clones.place(where) / "refs/heads/main.lock").parent.mkdir(parents=True, exist_ok=True)
    (clones.place(where) / "refs/heads/main.lock").touch()
    (clones.place(where) / "packed-refs.lock").touch()
    (clones.place(where) / "shallow.lock").touch()
    head = commit(work, {"docs/more.md": "# More\n"})
    publish(work, tmp_path / "served", "tides.git")
    assert listed(clones, where.url).revision == head


@pytest.mark.parametrize("damage", ["HEAD", "objects", "config"])
def test_a_damaged_clone_is_made_afresh(server, clones, work, damage) -> None:
    where = address(server.address("tides.git"))
    listed(clones, where.url)
    victim = clones.place(where) / damage
    if victim.is_dir():
        shutil.rmtree(victim)
    else:
        victim.write_bytes(b"\0garbage")
    listing = listed(clones, where.url)
    assert (listing.revision, len(texts(listing))) == (git(work, "rev-parse", "HEAD"), 1)


def test_a_damaged_clone_inside_a_repository_leaves_that_one_alone(server, work, tmp_path) -> None:
    del work
    outer = tmp_path / "outer"
    head = commit(outer, {"docs/own.md": "# Own\n"})
    clones = Clones(folder=outer / "cache", timeout_s=30)
    where = address(server.address("tides.git"))
    listed(clones, where.url)
    (clones.place(where) / "HEAD").unlink()
    assert list(texts(listed(clones, where.url))) == ["docs/tides.md"]
    assert git(outer, "rev-parse", "main") == head


def test_a_cache_that_cannot_be_written_is_a_config_error(server, tmp_path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(ConfigError, match="cannot be written"):
        listed(Clones(folder=tmp_path / "cache", timeout_s=30), server.address("tides.git"))


def test_two_at_once_make_one_clone(server, clones) -> None:
    url = server.address("tides.git")
    found: list[str | None] = []
    workers = [
        threading.Thread(target=lambda: found.append(listed(clones, url).revision))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(set(found)) == 1
    assert len(found) == 4
    assert len(list(clones.folder.glob("*.git"))) == 1


def test_a_killed_program_leaves_no_git_behind(tmp_path) -> None:
    with silent_server() as host:
        program = (
            "from pathlib import Path\n"
            "from lastro.sources.addresses import parse_address\n"
            "from lastro.sources.clones import Clones\n"
            f"a = parse_address('http://{host}/tides.git')\n"
            f"Clones(folder=Path({str(tmp_path / 'cache')!r}), timeout_s=2).fetch(a, ref='HEAD')\n"
        )
        process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
        asked = f"http://{host}/tides.git"
        await_(lambda: asked in _arguments(), within_s=20)
        process.kill()
        process.wait()
        await_(lambda: asked not in _arguments(exclude=process.pid), within_s=20)
        assert not Clones(folder=tmp_path / "cache", timeout_s=1).place(address(asked)).exists()


def await_(is_so, *, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _arguments(*, exclude: int = 0) -> str:
    """The arguments of every git process."""
    lines: list[str] = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = place.read_bytes().decode("utf-8", "replace").replace("\0", " ")
        except OSError:
            continue
        if re.match(r"\S*git", line) and place.parent.name != str(exclude):
            lines.append(line)
    return "\n".join(lines)


def test_a_removed_clone_leaves_nothing(server, clones) -> None:
    where = address(server.address("tides.git"))
    listed(clones, where.url)
    assert clones.remove(where)
    assert not clones.place(where).exists()
    assert not clones.remove(where)


@pytest.mark.parametrize("option", ["--depth=1", "--filter=blob:none"])
def test_a_shallow_or_partial_repository_as_remote(work, tmp_path, clones, option) -> None:
    commit(work, {"docs/more.md": "# More\n"})
    publish(work, tmp_path / "served", "tides.git")
    git(tmp_path / "served/tides.git", "config", "uploadpack.allowFilter", "true")
    source = f"file://{tmp_path / 'served/tides.git'}"
    git(tmp_path, "clone", "--quiet", option, "--bare", source, str(tmp_path / "copy.git"))
    url = f"file://{tmp_path / 'copy.git'}"
    if option == "--depth=1":
        assert sorted(texts(listed(clones, url))) == ["docs/more.md", "docs/tides.md"]
    else:
        with pytest.raises(RemoteError, match="could not be fetched"):
            listed(clones, url)
