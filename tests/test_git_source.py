"""Documents of a Git repository, listed and read at a ref."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import PathSpec

from lastro.errors import ConfigError, InvalidInput, NotFound
from lastro.sources.files import (
    FilePatterns,
    FileText,
    Listing,
    Unreadable,
    decode,
    select,
    shown_name,
)
from lastro.sources.git import list_ref, open_ref

IS_ROOT = os.geteuid() == 0
NOBODY = 65534

# The tester's own configuration must change nothing.
GIT_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ana",
    "GIT_AUTHOR_EMAIL": "ana@example.org",
    "GIT_COMMITTER_NAME": "Ana",
    "GIT_COMMITTER_EMAIL": "ana@example.org",
}


class Repository:
    """A real repository in a test's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env=GIT_ENVIRONMENT,
            input=stdin,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def commit(self, files: Mapping[str | bytes, str | bytes] | None = None) -> str:
        for name, content in (files or {}).items():
            place = self.path / os.fsdecode(name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=step")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "project")


def paths(listing: Listing) -> list[str]:
    return [file.path for file in listing.files]


def reasons(listing: Listing) -> dict[str, str]:
    return {note.path: note.reason for note in listing.skipped}


def texts(listing: Listing) -> dict[str, str]:
    found: dict[str, str] = {}
    with open_ref(listing) as read:
        for file in listing.files:
            content = read(file).text
            assert isinstance(content, FileText)
            found[file.path] = content.text
    return found


# --- what is listed ----------------------------------------------------------------------------


def test_scopes_follow_the_folder_a_file_lies_in(repository: Repository) -> None:
    repository.commit(
        {
            "docs/guide.md": "# Guide\n",
            "docs/adr/0001-queue.md": "# 1. Queue\n",
            "docs/architecture/decisions/0002-cache.md": "# 2. Cache\n",
            "adr/0003-log.md": "# 3. Log\n",
        }
    )
    assert {file.path: file.scope for file in list_ref(repository.path).files} == {
        "adr/0003-log.md": "adr",
        "docs/adr/0001-queue.md": "adr",
        "docs/architecture/decisions/0002-cache.md": "adr",
        "docs/guide.md": "docs",
    }


def test_source_code_is_counted_and_never_a_document(repository: Repository) -> None:
    repository.commit(
        {
            "docs/guide.md": "# Guide\n",
            "docs/conf.py": "x = 1\n",
            "docs/client.ts": "let x\n",
            "docs/api.json": "{}\n",
            "docs/other.json": "{}\n",
            "docs/requirements.txt": "sphinx\n",
            "docs/Makefile": "all:\n",
            "src/main.py": "x = 1\n",
            "NOTES.md": "# Not under docs\n",
        }
    )
    listing = list_ref(repository.path)
    assert paths(listing) == ["docs/guide.md"]
    assert listing.ignored == {
        "not a document (.json)": 2,
        "not a document (.py)": 1,
        "not a document (.ts)": 1,
        "not a document (.txt)": 1,
        "not a document (no suffix)": 1,
    }


def test_revision_is_the_full_commit_id_of_the_ref(repository: Repository) -> None:
    first = repository.commit({"docs/a.md": "one\n"})
    repository.git("tag", "--annotate", "--message=first", "v1")
    second = repository.commit({"docs/a.md": "two\n"})
    found = [list_ref(repository.path, ref=ref).revision for ref in ("v1", first[:9], "main")]
    assert found == [first, first, second]


def test_a_file_deleted_in_a_commit_is_absent_from_it_and_present_before(
    repository: Repository,
) -> None:
    before = repository.commit({"docs/adr/0001-a.md": "a\n", "docs/adr/0002-b.md": "b\n"})
    (repository.path / "docs/adr/0001-a.md").unlink()
    repository.commit()
    assert paths(list_ref(repository.path)) == ["docs/adr/0002-b.md"]
    assert paths(list_ref(repository.path, ref=before)) == [
        "docs/adr/0001-a.md",
        "docs/adr/0002-b.md",
    ]


def test_files_are_read_as_committed_not_as_they_lie(repository: Repository) -> None:
    repository.commit({"docs/a.md": "committed\r\n"})
    (repository.path / "docs/a.md").write_text("edited since\n")
    assert texts(list_ref(repository.path)) == {"docs/a.md": "committed\r\n"}


def test_a_renamed_file_keeps_its_blob_id(repository: Repository) -> None:
    repository.commit({"docs/a.md": "same words\n"})
    (before,) = list_ref(repository.path).files
    repository.git("mv", "docs/a.md", "docs/b.md")
    repository.commit()
    (after,) = list_ref(repository.path).files
    assert (after.path, after.blob_id) == ("docs/b.md", before.blob_id)


def test_a_bare_clone_lists_the_same_as_its_original(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit({"docs/a.md": "one\n", "docs/adr/0001-b.md": "two\n"})
    bare = tmp_path / "bare.git"
    repository.git("clone", "--quiet", "--bare", str(repository.path), str(bare))
    original, copy = list_ref(repository.path), list_ref(bare)
    assert (copy.files, copy.revision) == (original.files, original.revision)
    assert texts(copy) == texts(original)


def test_a_shallow_clone_is_listed_whole(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"docs/a.md": "one\n"})
    head = repository.commit({"docs/b.md": "two\n"})
    shallow = tmp_path / "shallow"
    source = repository.path.as_uri()
    repository.git("clone", "--quiet", "--depth=1", source, str(shallow))
    listing = list_ref(shallow)
    assert (paths(listing), listing.revision) == (["docs/a.md", "docs/b.md"], head)


def test_a_folder_inside_a_repository_means_the_repository(repository: Repository) -> None:
    repository.commit({"docs/a.md": "one\n", "src/main.py": "x\n"})
    listing = list_ref(repository.path / "src")
    assert (listing.root, paths(listing)) == (repository.path.resolve(), ["docs/a.md"])


def test_a_linked_worktree_lists_its_own_head(repository: Repository, tmp_path: Path) -> None:
    first = repository.commit({"docs/a.md": "one\n"})
    repository.commit({"docs/b.md": "two\n"})
    linked = tmp_path / "linked"
    repository.git("worktree", "add", "--quiet", "--detach", str(linked), first)
    assert paths(list_ref(linked)) == ["docs/a.md"]


def test_patterns_choose_other_folders(repository: Repository) -> None:
    repository.commit(
        {
            "handbook/a.md": "a\n",
            "handbook/drafts/b.md": "b\n",
            "handbook/decisions/1.md": "c\n",
            "docs/d.md": "d\n",
        }
    )
    patterns = FilePatterns(
        docs=("handbook/**", "!handbook/drafts/**"), adr=("handbook/decisions/**",)
    )
    listing = list_ref(repository.path, patterns=patterns)
    assert [(file.path, file.scope) for file in listing.files] == [
        ("handbook/a.md", "docs"),
        ("handbook/decisions/1.md", "adr"),
    ]


def test_a_pattern_that_is_none_is_a_config_error(repository: Repository) -> None:
    repository.commit({"docs/a.md": "a\n"})
    with pytest.raises(ConfigError, match="not a pattern"):
        list_ref(repository.path, patterns=FilePatterns(docs=("!",)))


def test_lastroignore_takes_files_out_at_every_level(repository: Repository) -> None:
    repository.commit(
        {
            ".lastroignore": "docs/old/\n*.tmp.md\n",
            "docs/.lastroignore": "!keep.tmp.md\n",
            "docs/old/a.md": "a\n",
            "docs/b.tmp.md": "b\n",
            "docs/keep.tmp.md": "c\n",
            "docs/d.md": "d\n",
        }
    )
    listing = list_ref(repository.path)
    assert paths(listing) == ["docs/d.md", "docs/keep.tmp.md"]
    assert listing.ignored[".lastroignore"] == 2


# --- where nothing matches ---------------------------------------------------------------------


def test_without_a_docs_folder_every_markdown_file_is_taken(repository: Repository) -> None:
    repository.commit(
        {
            "README.md": "# Project\n",
            "team/hiring.markdown": "# Hiring\n",
            "team/decisions/0001-a.md": "# 1. A\n",
            "team/list.txt": "plain\n",
            ".github/template.md": "# Hidden\n",
            "node_modules/x/README.md": "# Not ours\n",
        }
    )
    listing = list_ref(repository.path)
    assert listing.whole_tree
    assert [(file.path, file.scope) for file in listing.files] == [
        ("README.md", "docs"),
        ("team/decisions/0001-a.md", "adr"),
        ("team/hiring.markdown", "docs"),
    ]


def test_one_document_under_docs_keeps_the_rest_of_the_tree_out(repository: Repository) -> None:
    repository.commit({"README.md": "# Project\n", "docs/adr/0001-a.md": "# 1. A\n"})
    listing = list_ref(repository.path)
    assert (paths(listing), listing.whole_tree) == (["docs/adr/0001-a.md"], False)


def test_named_patterns_are_never_widened_to_the_whole_tree(repository: Repository) -> None:
    repository.commit({"README.md": "# Project\n"})
    with pytest.raises(NotFound, match=r"under handbook/\*\*"):
        list_ref(repository.path, patterns=FilePatterns(docs=("handbook/**",)))


def test_an_empty_listing_is_an_error_with_the_remedy(repository: Repository) -> None:
    repository.commit({"README.md": "# Project\n"})
    with pytest.raises(NotFound, match=r"no document found .* under docs/\*\*") as caught:
        list_ref(repository.path, patterns=FilePatterns(whole_tree=False))
    assert "lastro.toml" in (caught.value.remedy or "")


# --- names -------------------------------------------------------------------------------------

NFD_NAME = "docs/decisa\u0303o.md"
ODD_NAMES = (
    "docs/guia-de-configuração.md",
    NFD_NAME,
    "docs/ação/índice.md",
    'docs/two words "quoted".md',
    "docs/a\ttab.md",
    "docs/a\nnewline.md",
    "docs/back\\slash.md",
    "docs/-dash.md",
    "docs/缓存/为什么.md",
    "docs/🚢.md",
)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_is_kept_byte_for_byte(repository: Repository, name: str) -> None:
    repository.commit({name: "text\n"})
    (file,) = list_ref(repository.path).files
    assert (file.path, file.raw) == (name, name.encode())
    assert texts(list_ref(repository.path)) == {name: "text\n"}


def test_a_name_that_is_not_utf8_is_shown_with_an_escape_and_read(repository: Repository) -> None:
    repository.commit({"docs/caf\u00e9.md".encode("latin-1"): "bebida\n"})
    listing = list_ref(repository.path)
    assert texts(listing) == {"docs/caf\\xe9.md": "bebida\n"}
    assert listing.files[0].raw == b"docs/caf\xe9.md"


def test_two_names_shown_alike_are_one_document_and_one_note(repository: Repository) -> None:
    repository.commit({b"docs/a\xe9.md": "bytes\n", "docs/a\\xe9.md": "escape\n"})
    listing = list_ref(repository.path)
    assert paths(listing) == ["docs/a\\xe9.md"]
    assert reasons(listing) == {"docs/a\\xe9.md": "its name is shown like another file's"}


def test_patterns_match_whatever_the_name_is_composed_of(repository: Repository) -> None:
    repository.commit({"documentac\u0327a\u0303o/a.md": "a\n"})
    patterns = FilePatterns(docs=("documenta\u00e7\u00e3o/**",))
    assert paths(list_ref(repository.path, patterns=patterns)) == ["documentac\u0327a\u0303o/a.md"]


PATTERNS = (
    "docs/**", "/docs/**", "docs/a/**", "a/**", "docs/a/", "/docs/a", "docs", "docs/", "*.md",
    "!docs/a", "!docs/**", "d*/a", "**/a",
)  # fmt: skip


@given(
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3),
    st.lists(st.sampled_from(["docs", "a", "b.md"]), min_size=1, max_size=3).map("/".join),
)
@settings(derandomize=True, max_examples=300, deadline=None)
def test_patterns_mean_what_they_mean_in_a_gitignore_file(patterns: list[str], path: str) -> None:
    expected = PathSpec.from_lines("gitignore", patterns).match_file(path)
    assert FilePatterns(docs=tuple(patterns)).is_in_docs(path) == expected


@given(st.binary(max_size=24))
@settings(derandomize=True, max_examples=100, deadline=None)
def test_a_shown_name_can_be_stored_and_utf8_is_left_alone(raw: bytes) -> None:
    shown = shown_name(raw)
    encoded = shown.encode("utf-8")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        assert encoded != raw
    else:
        assert encoded == raw


# --- what is skipped, and why ------------------------------------------------------------------


def test_links_are_never_followed_and_each_is_reported(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("outside\n")
    docs = repository.path / "docs"
    docs.mkdir()
    (docs / "up").symlink_to("..")
    (docs / "alias.md").symlink_to("sub/real.md")
    (docs / "secret.md").symlink_to("../../secret.md")
    (docs / "absolute.md").symlink_to("/etc/hostname")
    (docs / "nowhere.md").symlink_to("gone.md")
    repository.commit({"docs/sub/real.md": "inside\n"})
    listing = list_ref(repository.path)
    assert texts(listing) == {"docs/sub/real.md": "inside\n"}
    assert reasons(listing) == {
        "docs/absolute.md": "symbolic link out of the root (to /etc/hostname), not followed",
        "docs/alias.md": "symbolic link to docs/sub/real.md, which is read under its own name",
        "docs/nowhere.md": "symbolic link to gone.md, not followed",
        "docs/secret.md": "symbolic link out of the root (to ../../secret.md), not followed",
        "docs/up": "symbolic link to .., not followed",
    }


def test_a_submodule_is_skipped_with_its_reason(repository: Repository) -> None:
    head = repository.commit({"docs/a.md": "a\n"})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},docs/vendor")
    repository.git("commit", "--quiet", "--message=submodule")
    assert reasons(list_ref(repository.path)) == {
        "docs/vendor": "submodule: its files belong to another repository"
    }


def test_a_file_at_the_size_limit_is_taken_and_one_byte_more_is_not(
    repository: Repository,
) -> None:
    repository.commit({"docs/fits.md": "x" * 1000, "docs/large.md": "x" * 1001})
    listing = list_ref(repository.path, patterns=FilePatterns(max_bytes=1000))
    assert paths(listing) == ["docs/fits.md"]
    assert reasons(listing) == {
        "docs/large.md": "1,001 bytes, above the limit of 1,000 (max_bytes)"
    }


def test_taken_and_skipped_add_up_to_what_is_tracked(repository: Repository) -> None:
    (repository.path / "docs").mkdir()
    (repository.path / "docs/link.md").symlink_to("a\ttab.md")
    repository.commit({**dict.fromkeys(ODD_NAMES, "x\n"), "docs/large.md": "x" * 99})
    listing = list_ref(repository.path, patterns=FilePatterns(max_bytes=50))
    tracked = repository.git("ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
    assert len(listing.files) + len(listing.skipped) == len([name for name in tracked if name])


def test_a_blob_missing_from_the_clone_is_unreadable_and_the_rest_goes_on(
    repository: Repository,
) -> None:
    repository.commit({"docs/a.md": "lost\n", "docs/b.md": "kept\n"})
    listing = list_ref(repository.path)
    lost, kept = listing.files
    (repository.path / ".git/objects" / lost.blob_id[:2] / lost.blob_id[2:]).unlink()
    with open_ref(listing) as read:
        assert isinstance(read(lost).text, Unreadable)
        assert read(kept).text == FileText(text="kept\n")


def test_a_partial_clone_is_read_without_fetching(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"docs/a.md": "elsewhere\n", "docs/b.md": "here\n"})
    repository.git("config", "uploadpack.allowFilter", "true")
    here = repository.git("rev-parse", "HEAD:docs/b.md")
    partial = Repository(tmp_path / "partial")
    partial.git("remote", "add", "origin", repository.path.as_uri())
    partial.git("fetch", "--quiet", "--filter=blob:none", "origin", "main")
    partial.git("hash-object", "-w", "--stdin", stdin=b"here\n")
    ran = tmp_path / "ran"
    partial.git("config", "remote.origin.uploadpack", f"touch {ran}; git-upload-pack")
    listing = list_ref(partial.path, ref="origin/main")
    assert [(file.path, file.blob_id) for file in listing.files] == [("docs/b.md", here)]
    assert "partial clone" in reasons(listing)["docs/a.md"]
    assert not ran.exists()


# --- what is refused ---------------------------------------------------------------------------


def test_a_folder_that_is_no_repository_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="not in a Git repository") as caught:
        list_ref(tmp_path)
    assert "--worktree" in (caught.value.remedy or "")


def test_a_folder_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such folder"):
        list_ref(tmp_path / "gone")


def test_a_file_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a\n")
    with pytest.raises(InvalidInput, match="not a folder"):
        list_ref(tmp_path / "a.md")


def test_a_repository_without_a_commit_says_so(repository: Repository) -> None:
    with pytest.raises(NotFound, match="has no commit yet"):
        list_ref(repository.path)


@pytest.mark.parametrize("ref", ["nope", "--help", "--output=x", "HEAD:docs", "main..main", "a b"])
def test_a_ref_that_names_no_commit_is_not_found(repository: Repository, ref: str) -> None:
    repository.commit({"docs/a.md": "a\n"})
    with pytest.raises(NotFound, match="no commit named"):
        list_ref(repository.path, ref=ref)


def test_a_ref_that_leaves_a_commit_out_is_invalid(repository: Repository) -> None:
    repository.commit({"docs/a.md": "a\n"})
    with pytest.raises(InvalidInput, match="every commit but one"):
        list_ref(repository.path, ref="^HEAD")


@pytest.mark.parametrize("ref", ["", "  ", "a\0b"])
def test_a_blank_ref_is_invalid(repository: Repository, ref: str) -> None:
    repository.commit({"docs/a.md": "a\n"})
    with pytest.raises(InvalidInput, match="ref is blank"):
        list_ref(repository.path, ref=ref)


def test_an_untracked_folder_is_not_taken_for_its_repository(repository: Repository) -> None:
    repository.commit({"docs/a.md": "a\n"})
    (repository.path / "notes").mkdir()
    (repository.path / "notes/b.md").write_text("b\n")
    with pytest.raises(NotFound, match="has nothing there at HEAD") as caught:
        list_ref(repository.path / "notes")
    assert "--worktree" in (caught.value.remedy or "")


def test_a_tree_that_git_cannot_read_raises_and_lists_nothing(repository: Repository) -> None:
    repository.commit({"docs/a.md": "a\n"})
    tree = repository.git("rev-parse", "HEAD^{tree}")
    (repository.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(InvalidInput, match="git could not read"):
        list_ref(repository.path)


def test_a_missing_git_program_is_a_config_error(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository.commit({"docs/a.md": "a\n"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="git is not on PATH"):
        list_ref(repository.path)


# --- git's surroundings ------------------------------------------------------------------------


def test_variables_that_redirect_git_change_nothing(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({"docs/a.md": "ours\n"})
    other = Repository(tmp_path / "other")
    other.commit({"docs/b.md": "theirs\n"})
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git/objects"))
    assert texts(list_ref(repository.path)) == {"docs/a.md": "ours\n"}


def test_a_replaced_object_does_not_stand_in_for_the_committed_one(
    repository: Repository,
) -> None:
    repository.commit({"docs/a.md": "committed\n"})
    blob = repository.git("rev-parse", "HEAD:docs/a.md")
    forged = repository.git("hash-object", "-w", "--stdin", stdin=b"forged\n")
    repository.git("replace", blob, forged)
    assert texts(list_ref(repository.path)) == {"docs/a.md": "committed\n"}


def test_nothing_that_the_repository_configures_is_run(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit({"docs/a.md": "a\n", ".gitattributes": "*.md filter=f diff=f\n"})
    ran = tmp_path / "ran"
    for name in ("core.fsmonitor", "core.pager", "filter.f.smudge", "diff.f.textconv"):
        repository.git("config", name, f"touch {ran}; cat")
    texts(list_ref(repository.path))
    assert not ran.exists()


def _give_away(path: Path) -> None:
    for place in (path, *path.rglob("*")):
        os.chown(place, NOBODY, NOBODY, follow_symlinks=False)


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a repository to another user")
def test_a_repository_of_another_user_is_read_when_named(repository: Repository) -> None:
    repository.commit({"docs/a.md": "theirs\n"})
    _give_away(repository.path)
    assert texts(list_ref(repository.path)) == {"docs/a.md": "theirs\n"}


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a repository to another user")
def test_a_repository_of_another_user_found_above_a_folder_names_the_remedy(
    repository: Repository,
) -> None:
    repository.commit({"docs/a.md": "theirs\n"})
    _give_away(repository.path)
    with pytest.raises(ConfigError, match="belongs to another user") as caught:
        list_ref(repository.path / "docs")
    assert str(repository.path) in (caught.value.remedy or "")


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a repository to another user")
def test_a_repository_that_the_users_settings_of_git_trust_is_read_from_a_folder_in_it(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({"docs/a.md": "theirs\n"})
    _give_away(repository.path)
    trusting = tmp_path / "gitconfig"
    trusting.write_text("[safe]\n\tdirectory = *\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(trusting))
    assert texts(list_ref(repository.path / "docs")) == {"docs/a.md": "theirs\n"}


# --- bytes to text -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        "Olá 世界".encode(),
        "Olá 世界".encode("utf-8-sig"),
        b"\xff\xfe" + "Olá 世界".encode("utf-16-le"),
        b"\xfe\xff" + "Olá 世界".encode("utf-16-be"),
        b"\xff\xfe\0\0" + "Olá 世界".encode("utf-32-le"),
    ],
)
def test_text_is_read_by_its_mark_and_the_mark_is_dropped(data: bytes) -> None:
    assert decode(data) == FileText(text="Olá 世界")


def test_a_stray_nul_becomes_a_blank_with_a_warning_and_moves_nothing() -> None:
    assert decode(b"before\0after\n") == FileText(
        text="before after\n", warnings=("1 NUL character read as blank",)
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary"),
        ("plain words".encode("utf-16-le"), "binary"),
        (b"one\ntwo caf\xe9\n", "not UTF-8: undecodable bytes in line 2"),
        (b"\xed\xa0\x80", "not UTF-8: undecodable bytes in line 1"),
        (b"\xff\xfe\x00\xd8", "not UTF-16-LE: undecodable bytes in line 1"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
            "git-lfs pointer, content not in the repository",
        ),
    ],
)
def test_bytes_that_are_no_text_say_why(data: bytes, reason: str) -> None:
    assert decode(data) == Unreadable(reason=reason)


def test_a_page_about_lfs_pointers_is_a_page() -> None:
    page = b"# Pointers\n\nversion https://git-lfs.github.com/spec/v1\n"
    assert decode(page) == FileText(text=page.decode())


@given(st.binary(max_size=64))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_any_bytes_give_storable_text_or_a_reason(data: bytes) -> None:
    match decode(data):
        case FileText(text=text):
            assert "\0" not in text
            assert text.encode("utf-8").decode("utf-8") == text
        case Unreadable(reason=reason):
            assert reason


def test_an_empty_tree_selects_nothing() -> None:
    assert select([], FilePatterns(), is_ignored=lambda _: False).files == ()
