"""The command line: what a person and a script see of it, on a real database."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from databases import address, scratch_database
from hypothesis import given
from hypothesis import strategies as st
from repositories import commit

from lastro.cli import main
from lastro.cli.configuration import masked
from lastro.cli.hits import hit_lines, snippet
from lastro.cli.output import escaped, visible
from lastro.cli.root import app
from lastro.db.embedded import EmbeddedPostgres
from lastro.errors import DatabaseUnavailable
from lastro.types import DegradedReason, FileOrigin, Hit

LASTRO = str(Path(sys.executable).parent / "lastro")
DOCS = Path(__file__).parent.parent / "docs"
TIMEOUT_S = 60

FILES: dict[str, str | bytes] = {
    "docs/moorings.md": "# Moorings\n\nA ship of 200 metres needs eight lines.\n\n"
    "## Springs\n\nSprings keep the ship from surging along the quay.\n",
    "docs/cranes.md": "# Cranes\n\nThe gantry crane lifts forty containers an hour.\n",
    "docs/adr/0001-pilots.md": "# 1. Pilots board by boat\n\n## Status\n\n"
    "Superseded by [2](0002-helicopter.md)\n\n## Decision\n\nPilots board from a boat.\n",
    "docs/adr/0002-helicopter.md": "# 2. Pilots board by helicopter\n\n## Status\n\nAccepted\n\n"
    "## Decision\n\nIn a storm pilots board from a helicopter.\n",
}


@dataclass(frozen=True)
class Harbour:
    """An indexed repository, and the environment in which commands find it."""

    folder: Path
    revision: str
    environment: dict[str, str]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="module")
def url(server_url: str, template: str) -> Iterator[str]:
    with scratch_database(server_url, template=template) as name:
        yield address(server_url, dbname=name)


@pytest.fixture(scope="module")
def harbour(url: str, tmp_path_factory: pytest.TempPathFactory) -> Harbour:
    folder = tmp_path_factory.mktemp("work") / "harbour"
    revision = commit(folder, FILES)
    environment = {
        "LASTRO_HOME": str(tmp_path_factory.mktemp("home")),
        "LASTRO_DATABASE_URL": url,
        "LASTRO_EMBEDDER": "deterministic",
    }
    made = Harbour(folder=folder, revision=revision, environment=environment)
    ended = in_shell(made, "index", ".")
    assert ended.code == 0, ended.err
    return made


def in_shell(harbour: Harbour, *words: str, **changes: str) -> Ended:
    """Run the installed command as a process of its own."""
    done = subprocess.run(
        [LASTRO, *words],
        cwd=harbour.folder,
        env=clean_environment() | harbour.environment | changes,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def clean_environment() -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "TMPDIR")
    return {name: os.environ[name] for name in names if name in os.environ}


@pytest.fixture
def lastro(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """The command in this process: the same code without the time a process takes."""
    for name, value in harbour.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(harbour.folder)

    def run(*words: str) -> Ended:
        code = main(words)
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return run


# --- the commands are those of the manual --------------------------------------------------------


PRINT_NOTHING = {"lastro serve"}


def all_commands() -> Iterator[Any]:
    """Every command and group."""
    found = [typer.main.get_command(app)]
    while found:
        yield (command := found.pop())
        found.extend(getattr(command, "commands", {}).values())


def test_a_command_may_be_called_without_any_of_its_options():
    for command in all_commands():
        context = typer.Context(command)
        for param in command.params:
            default = param.get_default(context)
            assert default is None or param.type_cast_value(context, default) is not None, param


def registered() -> dict[str, set[str]]:
    """Every command with its options, but those that all have."""
    found: dict[str, set[str]] = {}

    def walk(command, name: str) -> None:
        children = getattr(command, "commands", None)
        if children:
            for child in children.values():
                walk(child, f"{name} {child.name}")
            if name == "lastro" or not command.invoke_without_command:
                return
        options = {opt for p in command.params for opt in p.opts if opt.startswith("-")}
        assert "--format" in options or name in PRINT_NOTHING, f"{name} cannot print JSON"
        found[name] = options - {"--format", "--help"}

    walk(typer.main.get_command(app), "lastro")
    return found


def documented() -> dict[str, set[str]]:
    """Every command of the manual with the options of its synopsis."""
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        synopses = re.findall(r"^    (lastro .*)$", section, flags=re.MULTILINE)
        for line in synopses or [section.splitlines()[0]]:
            name = re.match(r"lastro( [a-z]+)+", line)
            assert name is not None, line
            found.setdefault(name[0], set()).update(
                re.findall(r"(?<=[\[ ])(--?[a-z][a-z-]*)", line)
            )
    return found


def test_every_command_is_in_the_manual_and_every_command_of_the_manual_is_there():
    assert sorted(registered()) == sorted(documented())


@pytest.mark.parametrize("command", sorted(registered()))
def test_a_command_has_the_options_of_the_manual(command: str):
    assert registered()[command] == documented()[command]


@pytest.mark.parametrize("command", sorted(registered()))
def test_a_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]):
    assert main([*command.split()[1:], "--help"]) == 0
    assert command in capsys.readouterr().out


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_no_command_waits_for_what_only_another_needs():
    # A third of a second of parsers and measures, at every search.
    idle = ("calibrating", "chunk_sweep", "golden_evaluation", "markdown", "suggesting", "why")
    said = subprocess.run(
        [sys.executable, "-c", "import lastro.cli.root, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    ).stdout.split()
    assert "lastro.search" in said
    assert not {f"lastro.{name}" for name in idle} & set(said)


def test_a_usage_error_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert main(["keys", "create"]) == 2
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == "error: Missing option '--role'. Choose from: viewer, editor, maintainer, admin"


def test_the_release_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lastro {version('lastro')}\n"


# --- search --------------------------------------------------------------------------------------

OUTCOME = {"hits", "vectorAvailable", "degraded", "profile", "abstained", "tookMs"}
HIT = {"chunkId", "content", "score", "vectorScore", "lexicalScore", "scope", "origin"}


def test_an_outcome_in_json_has_the_shape_of_the_contract(lastro):
    found = lastro("search", "gantry crane", "--format", "json").json
    assert set(found) == OUTCOME
    assert set(found["hits"][0]) == HIT | {"highlights"}
    assert found["profile"]["name"] == "default"


def test_a_hit_in_json_cites_the_lines_that_it_quotes(lastro, harbour: Harbour):
    hit = lastro("search", "springs surging quay", "--format", "json").json["hits"][0]
    origin = hit["origin"]
    lines = (harbour.folder / origin["sourcePath"]).read_text().split("\n")
    cited = "\n".join(lines[origin["lineStart"] - 1 : origin["lineEnd"]])
    assert hit["content"] in cited
    assert origin["revision"] == harbour.revision


def test_a_hit_on_the_screen_names_file_lines_section_and_revision(lastro, harbour: Harbour):
    first, second, *_ = lastro("search", "springs surging quay").out.splitlines()
    assert re.fullmatch(r" 1  0\.\d{3}  docs  docs/moorings\.md:\d+-\d+", first)
    assert second == f"    Moorings › Springs · {harbour.revision[:10]}"


def test_a_superseded_record_says_so_and_by_which(lastro):
    said = lastro("search", "pilots board from a boat", "--scope", "adr").out
    assert re.search(r"ADR 1, SUPERSEDED by .*2", said)
    assert "ADR 2, accepted" in said


def test_the_last_line_says_which_profile_and_how_far_to_trust_it(lastro):
    said = lastro("search", "gantry crane", "--profile", "adr-0080").out.splitlines()[-1]
    assert re.search(r"profile adr-0080 v1, not calibrated", said)
    assert re.search(r"\d+ ms$", said)


def test_an_unknown_word_abstains_and_is_no_failure(lastro):
    ended = lastro("search", "xylophone", "--format", "json")
    assert (ended.code, ended.json["hits"], ended.json["abstained"]) == (0, [], True)


def test_an_abstention_is_said_in_words(lastro):
    assert re.search(r"no hit.*\n.*abstained", lastro("search", "xylophone").out)


def test_scope_and_path_narrow_a_search(lastro):
    words = ("search", "pilots board gantry crane", "--format", "json")
    paths = {
        hit["origin"]["sourcePath"]
        for hit in lastro(*words, "--scope", "docs", "--path", "docs/c").json["hits"]
    }
    assert paths == {"docs/cranes.md"}


def test_explain_shows_a_dash_for_a_score_that_was_not_given():
    hit = Hit(
        chunk_id="1",
        content="Springs keep the ship from surging.",
        score=0.41,
        vector_score=0.6832,
        lexical_score=None,
        scope="docs",
        origin=FileOrigin(
            source="x", source_path="a.md", heading_path=(), line_start=1, line_end=1, revision=None
        ),
        explain={"vectorRank": 4, "lexicalRank": None},
    )
    shown = [line.plain for line in hit_lines(hit, rank=1, width=80)]
    assert "    vector 0.683, rank 4 · lexical –, rank –" in shown


def test_explain_shows_each_word_with_its_idf(lastro):
    said = lastro("search", "gantry", "--explain").out
    # one of the index's chunks holds the word
    assert re.search(r"^    gantry · .*df 1 · idf \d\.\d{3}", said, re.MULTILINE)


def test_a_question_that_begins_with_a_dash_is_asked_after_two_dashes(lastro):
    assert lastro("search", "--format", "json", "--", "--gantry").code == 0


# --- other results -------------------------------------------------------------------------------


def test_an_index_run_that_changes_nothing_reports_so(lastro, harbour: Harbour):
    report = lastro("index", ".", "--format", "json").json
    assert report["project"] == "harbour"
    assert report["revision"] == harbour.revision
    assert report["documents"]["unchanged"] == len(FILES)
    assert report["embedding"] == {
        "available": True, "embedded": 0, "skipped": 0, "reason": None,
    }  # fmt: skip


def test_files_that_were_skipped_are_listed_and_end_with_code_6(lastro, tmp_path: Path):
    commit(tmp_path / "quay", {"docs/a.md": "# Buoys\n\nRed to port.\n", "docs/b.md": b"\x00\xff"})
    ended = lastro("index", str(tmp_path / "quay"))
    assert ended.code == 6
    assert re.search(r"^    docs/b\.md: .+", ended.out, re.MULTILINE)


def test_projects_are_listed_with_what_the_contract_names(lastro, harbour: Harbour):
    projects = lastro("projects", "--format", "json").json["projects"]
    listed = next(project for project in projects if project["slug"] == "harbour")
    assert listed["scopes"] == ["adr", "docs"]
    assert listed["revision"] == harbour.revision


def test_coverage_has_the_shape_of_the_contract(lastro):
    found = lastro("coverage", "--format", "json").json
    assert set(found) >= {
        "scopes", "revision", "head", "behind", "indexedAt", "skipped", "running",
    }  # fmt: skip
    assert set(found["scopes"][0]) >= {
        "scope", "sources", "indexed", "withVectors", "incomplete", "stale",
    }  # fmt: skip


def test_coverage_on_the_screen_counts_documents_by_scope(lastro):
    said = lastro("coverage").out
    # scope, sources, indexed, with vectors, incomplete, stale
    assert re.search(r"^docs +2 +2 +2 +0 +0 ", said, re.MULTILINE)
    assert re.search(r"^adr +2 +2 +2 +0 +0 ", said, re.MULTILINE)


def test_profiles_tell_where_their_numbers_come_from(lastro):
    shown = {p["name"]: p for p in lastro("profiles", "--format", "json").json["profiles"]}
    assert set(shown) == {"default", "adr-0080", "kb-rrf"}
    assert all(profile["provenance"] for profile in shown.values())


def test_a_healthy_database_passes_the_doctor(lastro):
    found = lastro("doctor", "--format", "json")
    assert (found.code, found.json["ok"]) == (0, True)


def test_a_doctor_who_finds_a_fault_ends_with_1_and_names_the_cure(lastro, monkeypatch):
    monkeypatch.setenv("LASTRO_DATABASE_URL", "postgresql://nobody@/x?host=/nowhere")
    ended = lastro("doctor")
    assert ended.code == 1
    assert re.search(r"^fail +database .*\n +check `lastro db status`", ended.out, re.MULTILINE)


def test_a_setting_that_is_wrong_is_a_failed_check_to_the_doctor(lastro, monkeypatch):
    monkeypatch.setenv("LASTRO_LANGUAGES", "klingon")
    ended = lastro("doctor", "--format", "json")
    assert (ended.code, ended.json["checks"][0]["name"]) == (1, "settings")


def test_config_says_where_each_value_comes_from(lastro):
    shown = {s["name"]: s for s in lastro("config", "--format", "json").json["settings"]}
    assert shown["embedder"]["value"] == "deterministic"
    assert shown["embedder"]["origin"] == "environment"
    assert shown["languages"] == {
        "name": "languages", "value": ["en", "pt", "zh"], "origin": "default",
    }  # fmt: skip


def test_config_shows_a_budget_without_an_end_as_none(lastro):
    told = lastro("config", "--format", "json")
    assert "Infinity" not in told.out
    shown = {s["name"]: s["value"] for s in told.json["settings"]}
    assert shown["metering.monthly_budget"] is None
    line = next(line for line in lastro("config").out.splitlines() if "monthly_budget " in line)
    assert line.split()[-2:] == ["no", "limit"]


def test_config_starts_nothing(lastro, monkeypatch, tmp_path: Path):
    monkeypatch.delenv("LASTRO_DATABASE_URL")
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    assert lastro("config").code == 0
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://pilot:s3cret@db.example/harbour",
        "postgresql://pilot:s3cret@x@db.example/harbour",
        "postgresql://pilot@db.example/harbour?password=s3cret&sslmode=require",
        "host=db.example user=pilot password=s3cret dbname=harbour",
        r"host=db.example password='s3cret with \' a quote' dbname=harbour",
        "host=db.example PASSWORD = s3cret",
        "pilot:s3cret@db.example",
    ],
)
def test_no_way_to_write_a_password_shows_it(address: str):
    assert "s3cret" not in masked(address)
    assert "quote" not in masked(address)


def test_an_address_without_password_is_shown_as_it_is():
    address = "postgresql://pilot@[::1]:5432/harbour?sslmode=require"
    assert masked(address) == address


# --- how a command ends --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (["search", " \t "], "INVALID_INPUT", 2),
        (["search", "boat", "-k", "0"], "INVALID_INPUT", 2),
        (["search", "boat", "-k", "many"], "INVALID_INPUT", 2),
        (["search"], "INVALID_INPUT", 2),
        (["serch", "boat"], "INVALID_INPUT", 2),
        (["db"], "INVALID_INPUT", 2),
        (["search", "boat", "--colour"], "INVALID_INPUT", 2),
        (["search", "boat", "--scope", "code"], "INVALID_FILTER", 2),
        (["search", "boat", "--profile", "gut"], "INVALID_INPUT", 2),
        (["search", "boat", "--project", "nowhere"], "NOT_FOUND", 4),
        (["coverage", "--project", "nowhere"], "NOT_FOUND", 4),
        (["index", "/nowhere"], "NOT_FOUND", 4),
        (["index", ".", "--ref", "nowhere"], "NOT_FOUND", 4),
        (["db", "start"], "CONFIG_ERROR", 3),
    ],
)
def test_a_refusal_has_its_code_its_exit_code_and_nothing_on_stdout(
    lastro, words: list[str], code: str, exit_code: int
):
    ended = lastro(*words, "--format=json")
    assert json.loads(ended.err)["error"]["code"] == code
    assert (ended.code, ended.out) == (exit_code, "")


def test_an_unknown_embedder_is_a_configuration_error(lastro, monkeypatch):
    monkeypatch.setenv("LASTRO_EMBEDDER", "crystal-ball")
    assert lastro("search", "boat").code == 3


def test_a_server_that_is_not_there_is_code_5(lastro, monkeypatch):
    monkeypatch.setenv("LASTRO_DATABASE_URL", "postgresql://nobody@/x?host=/nowhere")
    ended = lastro("search", "boat")
    assert ended.code == 5
    assert ended.err.startswith("error: PostgreSQL cannot be reached")


def test_an_error_on_the_screen_is_what_happened_and_what_to_do(lastro):
    error, remedy = lastro("search", "boat", "--project", "nowhere").err.splitlines()
    assert error == "error: there is no project 'nowhere'"
    assert remedy.startswith("remedy: see `lastro projects`")


def test_a_fault_of_ours_is_one_line_and_not_a_traceback(lastro, monkeypatch):
    monkeypatch.setattr("lastro.cli.erasing.load_settings", lambda: 1 / 0)
    ended = lastro("projects")
    assert ended.code == 1
    assert ended.err.startswith("error: this should not have happened: ZeroDivisionError")
    assert "Traceback" not in ended.err


def test_a_fault_of_ours_shows_its_traceback_when_asked(lastro, monkeypatch):
    monkeypatch.setattr("lastro.cli.erasing.load_settings", lambda: 1 / 0)
    monkeypatch.setenv("LASTRO_DEBUG", "1")
    assert "Traceback" in lastro("projects").err


def test_what_a_log_said_follows_an_error_on_lines_of_their_own(lastro, monkeypatch):
    def end() -> None:
        raise DatabaseUnavailable("it ended\n  of a\x1b mark\nremedy: none", remedy="look")

    monkeypatch.setattr("lastro.cli.erasing.load_settings", end)
    shown = lastro("projects").err.splitlines()
    assert shown == ["error: it ended", r"  of a\x1b mark\nremedy: none", "remedy: look"]


# --- pipes, encodings, interruption: as a process ------------------------------------------------


def test_a_reader_who_leaves_ends_the_printing_quietly(harbour: Harbour):
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [LASTRO, "search", "ship", "--format", "json"],
        cwd=harbour.folder,
        env=clean_environment() | harbour.environment,
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_export_whose_reader_leaves_ends_quietly_as_a_failure(harbour: Harbour):
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [LASTRO, "export", "harbour"],
        cwd=harbour.folder,
        env=clean_environment() | harbour.environment,
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_stream_that_is_closed_from_the_start_ends_nothing_badly(tmp_path: Path) -> None:
    command = f"exec {shlex.quote(LASTRO)} config >&-"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_stdout_is_said_and_is_a_failure(harbour: Harbour):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [LASTRO, "profiles"],
            env=clean_environment() | harbour.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")


def test_json_is_read_back_whatever_the_encoding_of_the_pipe(harbour: Harbour):
    words = ("search", "ship lines café", "--format", "json")
    ended = in_shell(harbour, *words, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.json["hits"][0]["origin"]["sourcePath"] == "docs/moorings.md"


def test_a_screen_that_knows_only_ascii_gets_the_rest_escaped(harbour: Harbour):
    ended = in_shell(harbour, "search", "springs", PYTHONIOENCODING="ascii")
    assert ended.code == 0
    assert "Moorings \\u203a Springs" in ended.out


def test_nothing_in_a_pipe_is_coloured(harbour: Harbour):
    assert "\x1b" not in in_shell(harbour, "search", "springs surging").out


def test_an_interrupted_command_ends_with_130(harbour: Harbour, url: str):
    code = (
        "import os, signal, sys; from lastro.cli import main, working\n"
        # a suite that runs in the background hands down a SIGINT that is ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "working.build = lambda settings: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.exit(main(['search', 'boat']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environment() | harbour.environment,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, b"")


INTERRUPTED_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.{handler})

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "lastro.cli.output":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from lastro.cli import main
assert signal.getsignal(signal.SIGINT) is signal.{handler}
"""


@pytest.mark.parametrize(
    ("handler", "code"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)]
)
def test_an_interruption_of_the_imports_shows_no_traceback(handler: str, code: int):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT.format(handler=handler)],
        env=clean_environment(),
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, done.stderr) == (code, b"")


def test_after_its_imports_a_command_is_interrupted_as_ever():
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import lastro.cli\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    )
    subprocess.run([sys.executable, "-c", code], env=clean_environment(), check=True)


# --- what a document may not do to a terminal ----------------------------------------------------


@given(st.text())
def test_shown_text_has_no_control_character_and_keeps_its_length(text: str):
    shown = visible(text)
    assert len(shown) == len(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\x1b[2Jb", r"a\x1b[2Jb"), ("a\nb", r"a\nb"), ("a\udcffb", r"a\udcffb"), ("décisão", None)],
)
def test_a_file_name_is_shown_on_one_line(name: str, shown: str | None):
    assert escaped(name) == (shown or name)


@given(
    content=st.text(st.sampled_from("ab 港\n\t\x1b"), min_size=1, max_size=300),
    width=st.integers(20, 60),
)
def test_no_row_of_a_snippet_is_wider_than_the_screen(content: str, width: int):
    assert all(row.cell_len <= width + 2 for row in snippet(content, [], width=width))


def test_a_snippet_is_cut_where_the_matched_words_are():
    content = "\n".join(f"line {n}" for n in range(20)).replace("line 13", "the capstan")
    start = content.index("capstan")
    rows = snippet(content, [(start, start + 7)], width=60)
    assert "the capstan" in [row.plain.strip("… ") for row in rows]
    assert len(rows) == 4


# --- the embedded database -----------------------------------------------------------------------


@pytest.fixture
def short_home() -> Iterator[Path]:
    """A home that the server's user can enter, as pytest's own folders under root cannot be."""
    with tempfile.TemporaryDirectory(prefix="lastro-cli-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "home"
        yield home
        EmbeddedPostgres(home).stop()


def test_commands_make_start_and_stop_a_database_of_their_own(
    lastro, harbour: Harbour, short_home: Path, monkeypatch
):
    monkeypatch.delenv("LASTRO_DATABASE_URL")
    monkeypatch.setenv("LASTRO_HOME", str(short_home))
    assert lastro("db", "status", "--format", "json").json["running"] is False
    assert lastro("index").code == 0
    assert lastro("db", "status", "--format", "json").json["running"] is True
    assert lastro("db", "stop", "--format", "json").json == {"stopped": True}
    found = lastro("search", "gantry crane", "--format", "json").json
    assert found["hits"][0]["origin"]["sourcePath"] == "docs/cranes.md"
    assert lastro("db", "stop").out == "stopped\n"


def test_every_degraded_reason_is_in_the_manual():
    text = (DOCS / "reference" / "json-shapes.md").read_text(encoding="utf-8")
    assert [reason for reason in DegradedReason.__args__ if f"`{reason}`" not in text] == []
