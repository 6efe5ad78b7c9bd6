"""Hostile trees and texts: nothing stops, the rest goes in, and each skip has a reason."""

import random
import subprocess
import time
import tracemalloc
from pathlib import Path

import psycopg
import pytest
from repositories import commit, git, write

from lastro.app import App, build
from lastro.chunk_settings import ChunkSettings
from lastro.config import Settings
from lastro.documents import MAX_CHUNK_CHARS, FileIdentity, Pipeline, prepare_file, prepare_passage
from lastro.language import detect_language
from lastro.search import SearchRequest
from lastro.sources.files import MAX_PATH_BYTES, FilePatterns
from lastro.sources.git import list_ref, open_ref
from lastro.sources.worktree import list_worktree
from lastro.types import DocumentCounts, IndexRequest

GOOD = "# Harbour\n\nThe quay is dry at low water.\n"


@pytest.fixture
def app(tmp_path: Path, owner_url: str):
    with build(settings(tmp_path, owner_url)) as app:
        yield app


def settings(tmp_path: Path, owner_url: str, **options) -> Settings:
    return Settings(
        home=tmp_path / "home", database_url=owner_url, embedder="deterministic", **options
    )


def indexed(app: App, path: Path, **options) -> DocumentCounts:
    return app.index(IndexRequest(path=path, project="harbour", **options)).documents


def reasons(documents: DocumentCounts) -> dict[str, str]:
    return {note.path: note.reason for note in documents.skipped}


def stored_places(owner_url: str) -> list[str]:
    with psycopg.connect(owner_url) as connection:
        rows = connection.execute('SELECT place FROM lastro.documents ORDER BY place COLLATE "C"')
        return [row[0] for row in rows]


def raw_tree(repository: Path, entries: bytes) -> None:
    """Commit a tree that no checkout could hold, entry by entry as ``git mktree`` takes them."""
    made = subprocess.run(
        ["git", "-C", str(repository), "mktree", "-z", "--missing"],
        input=entries,
        capture_output=True,
        check=True,
    ).stdout.decode()
    root = f"040000 tree {made.strip()}\tdocs\0".encode()
    top = subprocess.run(
        ["git", "-C", str(repository), "mktree", "-z"], input=root, capture_output=True, check=True
    ).stdout.decode()
    head = git(repository, "commit-tree", "-m", "raw", top.strip())
    git(repository, "update-ref", "refs/heads/main", head)


def blob(repository: Path, content: bytes) -> str:
    made = subprocess.run(
        ["git", "-C", str(repository), "hash-object", "-w", "--stdin"],
        input=content,
        capture_output=True,
        check=True,
    )
    return made.stdout.decode().strip()


def distinct_words(length: int, *, seed: int) -> str:
    letters = random.Random(seed)
    words: list[str] = []
    size = 0
    while size < length:
        word = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=letters.randint(4, 9)))
        words.append(word)
        size += len(word) + 1
    return " ".join(words)


# --- names and links ---------------------------------------------------------------------------


def test_a_tree_of_every_trap_is_indexed_as_far_as_it_can_be(app: App, tmp_path, owner_url):
    tree = tmp_path / "tree"
    commit(tree, {"docs/good.md": GOOD})
    text, away, loop = blob(tree, GOOD.encode()), blob(tree, b"/etc/passwd"), blob(tree, b"loop.md")
    names = [
        (b"100644", text, b"\xff\xfe.md"),
        (b"100644", text, b"Case.md"),
        (b"120000", away, b"away.md"),
        (b"100644", text, b"case.md"),
        (b"100644", text, b"good.md"),
        (b"100644", text, b"line\nbreak.md"),
        (b"120000", loop, b"loop.md"),
        (b"100644", text, b"n" * (MAX_PATH_BYTES - len("docs/.md") + 1) + b".md"),
        (b"100644", text, b'quote"\t.md'),
        (b"160000", "1" * 40, b"sub"),
    ]
    entries = b"".join(
        mode
        + (b" commit " if mode == b"160000" else b" blob ")
        + sha.encode()
        + b"\t"
        + raw
        + b"\0"
        for mode, sha, raw in names
    )
    raw_tree(tree, entries)
    documents = indexed(app, tree)
    assert stored_places(owner_url) == [
        "docs/Case.md",
        "docs/\\xff\\xfe.md",
        "docs/case.md",
        "docs/good.md",
        "docs/line\nbreak.md",
        'docs/quote"\t.md',
    ]
    told = reasons(documents)
    assert (
        told.pop("docs/away.md") == "symbolic link out of the root (to /etc/passwd), not followed"
    )
    assert told.pop("docs/loop.md") == "symbolic link to loop.md, not followed"
    assert told.pop("docs/sub") == "submodule: its files belong to another repository"
    assert list(told.values()) == [f"its path is longer than {MAX_PATH_BYTES:,} bytes"]


def test_a_path_at_the_limit_is_stored(app: App, tmp_path, owner_url):
    commit(tmp_path / "tree", {"docs/good.md": GOOD})
    name = b"n" * (MAX_PATH_BYTES - len("docs/.md")) + b".md"
    content = blob(tmp_path / "tree", GOOD.encode())
    raw_tree(tmp_path / "tree", b"100644 blob " + content.encode() + b"\t" + name + b"\0")
    assert indexed(app, tmp_path / "tree").skipped == ()
    assert [len(place) for place in stored_places(owner_url)] == [MAX_PATH_BYTES]


def test_links_in_a_loop_end_a_walk_over_files_as_they_lie(tmp_path) -> None:
    write(tmp_path, {"docs/a.md": GOOD})
    (tmp_path / "docs/up").symlink_to("..")
    (tmp_path / "docs/self.md").symlink_to("self.md")
    (tmp_path / "docs/one").symlink_to("two")
    (tmp_path / "docs/two").symlink_to("one")
    listing = list_worktree(tmp_path)
    assert [file.path for file in listing.files] == ["docs/a.md"]
    assert {note.path for note in listing.skipped} == {
        "docs/one", "docs/self.md", "docs/two", "docs/up",
    }  # fmt: skip


def test_a_repository_inside_a_repository_is_reported_and_not_entered(tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": GOOD})
    commit(tmp_path / "docs/inner", {"b.md": GOOD})
    listing = list_worktree(tmp_path)
    assert [file.path for file in listing.files] == ["docs/a.md"]
    assert [(note.path, note.reason) for note in listing.skipped] == [
        ("docs/inner", "submodule: its files belong to another repository")
    ]


def test_repositories_inside_a_plain_folder_are_its_documents(tmp_path) -> None:
    commit(tmp_path / "one", {"a.md": GOOD})
    commit(tmp_path / "two", {"b.md": GOOD})
    assert [file.path for file in list_worktree(tmp_path).files] == ["one/a.md", "two/b.md"]


def test_a_link_whose_target_is_no_name_is_not_read(tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": GOOD})
    text, huge = blob(tmp_path, GOOD.encode()), blob(tmp_path, b"x" * 5_000_000)
    raw_tree(
        tmp_path,
        f"100644 blob {text}\ta.md\0".encode() + f"120000 blob {huge}\tlink.md\0".encode(),
    )
    tracemalloc.start()
    (note,) = list_ref(tmp_path).skipped
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert note.reason == "symbolic link to no possible name, not followed"
    assert peak < 5_000_000


# --- many and large ----------------------------------------------------------------------------


def test_ten_times_the_files_take_about_ten_times_as_long(tmp_path) -> None:
    few, many = (fast_tree(tmp_path / str(count), count) for count in (300, 3000))
    for folder in (few, many):
        list_ref(folder)  # the first look fills caches
    once, ten_times = (shortest_s(lambda f=folder: list_ref(f)) for folder in (few, many))
    assert len(list_ref(many).files) == 3000
    # a quadratic listing would take 100 times as long
    assert ten_times < 40 * max(once, 0.02)


def shortest_s(work) -> float:
    times: list[float] = []
    for _ in range(3):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def fast_tree(folder: Path, count: int) -> Path:
    """A repository of ``count`` small documents, made by one ``git fast-import``."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    stream = ["commit refs/heads/main\ncommitter dev <dev@example.org> 0 +0000\ndata 4\nmany\n"]
    for number in range(count):
        text = f"# Page {number}\n\nBuoy {number} is lit.\n"
        stream.append(f"M 100644 inline docs/{number % 100}/{number}.md\ndata {len(text)}\n{text}")
    subprocess.run(
        ["git", "-C", str(folder), "fast-import", "--quiet"],
        input="".join(stream).encode(),
        check=True,
    )
    return folder


def test_a_file_of_a_gigabyte_is_skipped_by_its_size_and_never_read(tmp_path) -> None:
    write(tmp_path, {"docs/a.md": GOOD})
    with (tmp_path / "docs/huge.md").open("wb") as huge:
        huge.truncate(1 << 30)
    tracemalloc.start()
    listing = list_worktree(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {note.path: note.reason for note in listing.skipped} == {
        "docs/huge.md": "1,073,741,824 bytes, above the limit of 2,097,152 (max_bytes)"
    }
    assert peak < 16 << 20


def test_a_large_committed_file_is_skipped_by_its_size_and_never_read(tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": GOOD, "docs/huge.md": b"\0" * (24 << 20)})
    tracemalloc.start()
    listing = list_ref(tmp_path)
    with open_ref(listing) as read:
        assert [read(file).file.path for file in listing.files] == ["docs/a.md"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [note.path for note in listing.skipped] == ["docs/huge.md"]
    assert peak < 16 << 20


def test_a_huge_ignore_file_is_not_read(tmp_path) -> None:
    commit(tmp_path, {"docs/a.md": GOOD, ".lastroignore": b"x" * (24 << 20)})
    tracemalloc.start()
    list_ref(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


# --- words and lines ---------------------------------------------------------------------------


def test_a_document_of_distinct_words_without_chunking_is_found_by_its_last_one(
    tmp_path, owner_url
) -> None:
    # more than PostgreSQL indexes in a row: 1 MB of lexemes
    text = distinct_words(1_200_000, seed=1)
    last = "zanzibarisation"
    commit(tmp_path / "tree", {"docs/a.md": GOOD, "docs/words.md": f"# W\n\n{text} {last}\n"})
    chunking = ChunkSettings(target_chars=10_000_000)
    with build(settings(tmp_path, owner_url, chunking=chunking)) as app:
        documents = indexed(app, tmp_path / "tree")
        assert (documents.added, documents.skipped) == (2, ())
        hit = app.search(SearchRequest(query=last), project="harbour").hits[0]
    assert last in hit.content
    assert [note.path for note in documents.warnings] == ["docs/words.md"]


def test_a_passage_that_is_to_stay_whole_is_cut_where_no_row_can_hold_it() -> None:
    text = distinct_words(2_000_000, seed=2)
    pipeline = Pipeline(chunking=ChunkSettings(), languages=("en",), embedder="x")
    prepared = prepare_passage(
        text, identity("p1"), pipeline, title="Words", language="en", whole=True
    )
    assert max(len(chunk.content) for chunk in prepared.chunks) <= MAX_CHUNK_CHARS
    assert " ".join(chunk.content for chunk in prepared.chunks) == text
    assert "cut into chunks" in prepared.warnings[0]


def test_a_passage_at_the_limit_stays_whole() -> None:
    pipeline = Pipeline(chunking=ChunkSettings(), languages=("en",), embedder="x")
    text = "x" * MAX_CHUNK_CHARS
    prepared = prepare_passage(text, identity("p1"), pipeline, title="X", language="en", whole=True)
    assert ([len(chunk.content) for chunk in prepared.chunks], prepared.warnings) == (
        [MAX_CHUNK_CHARS], (),
    )  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["words", "hyphens", "addresses", "identifiers", "cjk", "rare", "marks"]
)
def test_the_longest_chunk_fits_the_index_whatever_it_is_made_of(owner, kind) -> None:
    letters = random.Random(7)

    def word(low: int, high: int) -> str:
        return "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=letters.randint(low, high)))

    make = {
        "words": lambda: word(3, 4),
        "hyphens": lambda: "-".join(word(3, 4) for _ in range(4)),
        "addresses": lambda: f"{word(3, 4)}.com/{word(3, 4)}/{word(3, 4)}",
        "identifiers": lambda: "".join(word(3, 4).title() for _ in range(4)),
        "cjk": lambda: "".join(chr(0x4E00 + letters.randrange(20_000)) for _ in range(30)),
        "rare": lambda: "".join(chr(0x20000 + letters.randrange(40_000)) for _ in range(10)),
        "marks": lambda: "".join(letters.choices("áéíóúâêôãõçabc", k=6)),
    }[kind]
    text = " ".join(make() for _ in range(MAX_CHUNK_CHARS // 4))[:MAX_CHUNK_CHARS]
    pipeline = Pipeline(
        chunking=ChunkSettings(target_chars=10_000_000), languages=("en", "zh"), embedder="x"
    )
    prepared = prepare_passage(text, identity("p1"), pipeline, title="T", language="zh", whole=True)
    (chunk,) = prepared.chunks
    assert len(chunk.content) > MAX_CHUNK_CHARS - 40
    (lexemes,) = owner.execute(
        "SELECT length(lastro.text_vector(%s, %s))",
        [chunk.language, f"{chunk.content} {chunk.lexical_extra}"],
    ).fetchone()
    assert lexemes > 1000


def test_one_line_of_ten_megabytes_is_indexed_where_the_limit_allows_it(tmp_path) -> None:
    line = "ballast " * (10 * (1 << 20) // 8)
    write(tmp_path, {"docs/a.md": GOOD, "docs/line.md": line})
    assert [note.path for note in list_worktree(tmp_path).skipped] == ["docs/line.md"]
    allowed = FilePatterns(max_bytes=16 << 20)
    assert [file.path for file in list_worktree(tmp_path, patterns=allowed).files] == [
        "docs/a.md",
        "docs/line.md",
    ]


def test_a_long_line_is_cut_within_the_limit() -> None:
    pipeline = Pipeline(chunking=ChunkSettings(), languages=("en",), embedder="x")
    prepared = prepare_file("x" * 300_000, identity("docs/a.md"), pipeline)
    assert max(len(chunk.content) for chunk in prepared.chunks) <= 1400
    assert sum(len(chunk.content) for chunk in prepared.chunks) >= 300_000


@pytest.mark.parametrize("text", [">" * 20_000, "`" * 20_000, "<" * 20_000, "<a " * 7_000])
def test_a_page_of_one_mark_has_a_language_at_once(text: str) -> None:
    started = time.process_time()
    assert detect_language(text, languages=("en", "pt", "zh")) == "en"
    # each took tens of seconds when a mark could be the beginning of every word
    assert time.process_time() - started < 1


def identity(path: str) -> FileIdentity:
    return FileIdentity(
        project_id=1, source="s", path=path, scope="docs", revision=None, content_hash="x"
    )
