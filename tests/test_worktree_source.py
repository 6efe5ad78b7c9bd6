"""Documents of a folder read as its files lie."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rights import drop_rights, open_folder_of_rights

from lastro.errors import InvalidInput, NotFound
from lastro.sources.files import FilePatterns, FileText, Listing, Unreadable
from lastro.sources.git import list_ref
from lastro.sources.ignoring import IgnoreRules, parse_rules
from lastro.sources.worktree import blob_hash, list_worktree, open_worktree


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def paths(listing: Listing) -> list[str]:
    return [file.path for file in listing.files]


def reasons(listing: Listing) -> dict[str, str]:
    return {note.path: note.reason for note in listing.skipped}


def texts(listing: Listing) -> dict[str, FileText | Unreadable]:
    with open_worktree(listing) as read:
        return {file.path: read(file).text for file in listing.files}


@pytest.fixture
def as_other_user() -> Iterator[Path]:
    with open_folder_of_rights() as root:
        yield root


# --- what is listed ----------------------------------------------------------------------------


def test_a_folder_is_listed_with_scopes_and_no_revision(tmp_path: Path) -> None:
    write(tmp_path, {"docs/guide.md": "# Guide\n", "docs/adr/0001-a.md": "# 1. A\n"})
    listing = list_worktree(tmp_path)
    assert [(file.path, file.scope) for file in listing.files] == [
        ("docs/adr/0001-a.md", "adr"),
        ("docs/guide.md", "docs"),
    ]
    assert (listing.ref, listing.revision) == (None, None)
    assert texts(listing)["docs/guide.md"] == FileText(text="# Guide\n")


def test_a_folder_and_its_commit_give_the_same_files_and_blob_ids(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "docs/ação.md": "um\r\ndois\n",
            "docs/a\ttab.md": "x",
            "docs/.hidden/b.md": "b\n",
            "docs/code.py": "x = 1\n",
            "docs/empty.md": "",
            "README.md": "# Not under docs\n",
        },
    )
    write(tmp_path, {"docs/caf\udce9.md": "bytes\n"})
    (tmp_path / "docs/link.md").symlink_to("ação.md")
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "one")):
        subprocess.run(["git", *arguments], cwd=tmp_path, env=environment, check=True)
    lying, committed = list_worktree(tmp_path), list_ref(tmp_path)
    assert lying.files == committed.files
    assert lying.skipped == committed.skipped
    assert lying.ignored == committed.ignored


def test_the_blob_hash_is_gits() -> None:
    # printf 'hello\n' | git hash-object --stdin
    assert blob_hash(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_a_folder_of_markdown_without_docs_is_taken_whole(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "welcome.md": "# Hello\n",
            "adr/0001-a.md": "# 1. A\n",
            ".obsidian/b.md": "hidden\n",
            "node_modules/c/README.md": "theirs\n",
        },
    )
    listing = list_worktree(tmp_path)
    assert (paths(listing), listing.whole_tree) == (["adr/0001-a.md", "welcome.md"], True)


def test_patterns_may_name_a_hidden_folder(tmp_path: Path) -> None:
    write(tmp_path, {".notes/a.md": "a\n", ".other/b.md": "b\n"})
    assert paths(list_worktree(tmp_path, patterns=FilePatterns(docs=(".notes/**",)))) == [
        ".notes/a.md"
    ]


def test_a_folder_without_documents_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, {"main.py": "x = 1\n"})
    with pytest.raises(NotFound, match="no document found"):
        list_worktree(tmp_path)


def test_a_folder_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such folder"):
        list_worktree(tmp_path / "gone")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "a\n"})
    with pytest.raises(InvalidInput, match="not a folder"):
        list_worktree(tmp_path / "a.md")


# --- ignore files ------------------------------------------------------------------------------


def test_ignore_files_count_at_every_level(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*.draft.md\n/docs/build/\n",
            "docs/.gitignore": "!kept.draft.md\nsub/*.md\n",
            "docs/a.md": "a\n",
            "docs/b.draft.md": "b\n",
            "docs/kept.draft.md": "c\n",
            "docs/build/d.md": "d\n",
            "docs/sub/e.md": "e\n",
            "docs/sub/deep/f.md": "f\n",
        },
    )
    assert paths(list_worktree(tmp_path)) == [
        "docs/a.md",
        "docs/kept.draft.md",
        "docs/sub/deep/f.md",
    ]


def test_lastroignore_is_stronger_than_gitignore_beside_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "docs/generated/\n",
            ".lastroignore": "!docs/generated/\ndocs/private.md\n",
            "docs/generated/a.md": "a\n",
            "docs/private.md": "b\n",
            "docs/c.md": "c\n",
        },
    )
    assert paths(list_worktree(tmp_path)) == ["docs/c.md", "docs/generated/a.md"]


def test_nothing_inside_an_ignored_folder_can_be_taken_back(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "docs/out/\n!docs/out/a.md\n",
            "docs/out/a.md": "a\n",
            "docs/out/.gitignore": "!a.md\n",
            "docs/b.md": "b\n",
        },
    )
    assert paths(list_worktree(tmp_path)) == ["docs/b.md"]


def test_a_line_that_is_no_pattern_leaves_the_others_in_force(tmp_path: Path) -> None:
    write(
        tmp_path,
        {".gitignore": b"\xef\xbb\xbfold.md\r\n!\n# note\n\nbad\\\ntmp.md", "docs/old.md": "a\n"},
    )
    write(tmp_path, {"docs/tmp.md": "b\n", "docs/c.md": "c\n"})
    assert paths(list_worktree(tmp_path)) == ["docs/c.md"]


FOLDERS = st.lists(st.sampled_from(["a", "b", "build"]), max_size=3)
FILES = st.tuples(FOLDERS, st.sampled_from(["x.md", "y.md", "c"])).map(
    lambda parts: "/".join([*parts[0], parts[1]])
)
RULES = st.lists(
    st.sampled_from(
        [
            *(
                "a/",
                "/a",
                "b",
                "!b",
                "build/",
                "!build/",
                "*.md",
                "!x.md",
                "a/**/x.md",
                "c",
                "**/c",
            ),
            *(
                "*",
                "!*/",
                "!*.md",
                "a/**",
                "!a/b/**",
                "**/b/",
                "/*/x.md",
                "[a-b]",
                "[!x].md",
                "?.md",
            ),
            *(
                "\\x.md",
                "x.md ",
                "# a",
                "/",
                "a/b",
                "**",
                "a**",
                "**/",
                "!a/b/",
                "b/**/",
                "[]x].md",
            ),
        ]
    ),
    max_size=4,
)


@given(
    rules=st.dictionaries(st.sampled_from(["", "a/", "a/b/"]), RULES),
    files=st.sets(FILES, min_size=1, max_size=4),
)
@settings(derandomize=True, max_examples=25, deadline=None)
def test_ignored_is_what_git_ignores(rules: Mapping[str, list[str]], files: set[str]) -> None:
    levels = {folder: parse_rules("\n".join(lines).encode()) for folder, lines in rules.items()}
    ours = {name for name in files if IgnoreRules(levels=levels).ignores(name)}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for level, lines in rules.items():
            write(root, {f"{level}.gitignore": "\n".join(lines)})
        environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["git", "init", "-q"], cwd=root, env=environment, check=True)
        done = subprocess.run(
            ["git", "check-ignore", "--no-index", "-z", "--stdin"],
            cwd=root,
            env=environment,
            input="\0".join(files).encode(),
            capture_output=True,
            check=False,
        )
    assert ours == {name for name in done.stdout.decode().split("\0") if name}


# --- what is skipped ---------------------------------------------------------------------------


def test_links_are_not_followed_not_even_to_folders(tmp_path: Path) -> None:
    root = write(tmp_path / "project", {"docs/sub/real.md": "inside\n"})
    write(tmp_path / "elsewhere", {"secret.md": "outside\n"})
    (root / "docs/loop").symlink_to("..")
    (root / "docs/out").symlink_to("../../elsewhere")
    (root / "docs/alias.md").symlink_to("sub/real.md")
    listing = list_worktree(root)
    assert paths(listing) == ["docs/sub/real.md"]
    assert reasons(listing) == {
        "docs/alias.md": "symbolic link to docs/sub/real.md, which is read under its own name",
        "docs/loop": "symbolic link to .., not followed",
        "docs/out": "symbolic link out of the root (to ../../elsewhere), not followed",
    }


def test_the_folder_asked_for_may_itself_be_a_link(tmp_path: Path) -> None:
    root = write(tmp_path / "project", {"docs/a.md": "a\n"})
    (tmp_path / "link").symlink_to(root)
    assert list_worktree(tmp_path / "link").root == root.resolve()


def test_a_pipe_is_reported_and_never_opened(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "a\n"})
    os.mkfifo(tmp_path / "docs/pipe.md")
    assert reasons(list_worktree(tmp_path)) == {"docs/pipe.md": "not a regular file"}


def test_a_file_above_the_limit_is_skipped_with_its_size(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "a\n", "docs/large.md": "x" * 11})
    assert reasons(list_worktree(tmp_path, patterns=FilePatterns(max_bytes=10))) == {
        "docs/large.md": "11 bytes, above the limit of 10 (max_bytes)"
    }


def test_unreadable_places_are_reported_and_must_not_be_pruned(as_other_user: Path) -> None:
    write(as_other_user, {"docs/a.md": "a\n", "docs/shut.md": "b\n", "docs/closed/c.md": "c\n"})
    (as_other_user / "docs/shut.md").chmod(0)
    (as_other_user / "docs/closed").chmod(0)
    drop_rights()
    listing = list_worktree(as_other_user)
    assert reasons(listing) == {
        "docs/closed/": "not readable by this user",
        "docs/shut.md": "not readable by this user",
    }
    asked = ("docs/closed/c.md", "docs/shut.md", "docs/z.md")
    assert [listing.is_unread(name) for name in asked] == [True, True, False]


def test_a_docs_folder_that_cannot_be_read_is_not_replaced_by_the_rest(
    as_other_user: Path,
) -> None:
    write(as_other_user, {"docs/a.md": "a\n", "README.md": "# Project\n"})
    (as_other_user / "docs").chmod(0)
    drop_rights()
    with pytest.raises(NotFound, match="no document found"):
        list_worktree(as_other_user)


def test_an_unreadable_folder_outside_the_patterns_is_nobodys_business(
    as_other_user: Path,
) -> None:
    write(as_other_user, {"docs/a.md": "a\n", "private/b.md": "b\n"})
    (as_other_user / "private").chmod(0)
    drop_rights()
    assert list_worktree(as_other_user).skipped == ()


# --- between listing and reading ---------------------------------------------------------------


def test_a_file_gone_since_the_listing_is_unreadable(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "a\n", "docs/b.md": "b\n"})
    listing = list_worktree(tmp_path)
    (tmp_path / "docs/a.md").unlink()
    assert texts(listing) == {
        "docs/a.md": Unreadable(reason="gone since it was listed"),
        "docs/b.md": FileText(text="b\n"),
    }


def test_a_file_changed_since_the_listing_carries_the_id_of_what_was_read(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "first\n"})
    listing = list_worktree(tmp_path)
    write(tmp_path, {"docs/a.md": "second\n"})
    with open_worktree(listing) as read:
        content = read(listing.files[0])
    assert (content.text, content.file.blob_id) == (
        FileText(text="second\n"),
        blob_hash(b"second\n"),
    )


def test_a_folder_swapped_for_a_link_since_the_listing_leads_nowhere(tmp_path: Path) -> None:
    root = write(tmp_path / "project", {"docs/sub/a.md": "inside\n"})
    write(tmp_path / "elsewhere", {"a.md": "outside\n"})
    listing = list_worktree(root)
    shutil.rmtree(root / "docs/sub")
    (root / "docs/sub").symlink_to(tmp_path / "elsewhere")
    assert texts(listing) == {"docs/sub/a.md": Unreadable(reason="symbolic link, not followed")}


def test_a_file_grown_above_the_limit_since_the_listing_is_unreadable(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "x" * 10})
    listing = list_worktree(tmp_path, patterns=FilePatterns(max_bytes=10))
    write(tmp_path, {"docs/a.md": "x" * 5000})
    assert texts(listing) == {
        "docs/a.md": Unreadable(reason="grew above the limit of 10 bytes since it was listed")
    }
