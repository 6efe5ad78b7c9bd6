"""The documentation says what the program does: names, numbers, commands, links."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from textwrap import dedent
from typing import get_args
from urllib.parse import unquote

import psycopg
import pytest
import typer
from repositories import commit
from rows import add_project

import lastro
from lastro.adoption import KnownProfile
from lastro.chunk_settings import ChunkSettings
from lastro.chunk_sweep import Sweep, Swept
from lastro.cli.root import app as commands
from lastro.config import Settings
from lastro.db.embedded import EmbeddedStatus
from lastro.db.upgrade import Upgrade
from lastro.entity import EntityReport, EntitySummary, read_entities
from lastro.erasing import Erased
from lastro.errors import STATUS
from lastro.event import (
    AppendReport,
    EventCounts,
    SessionCounts,
    SessionReport,
    SessionSummary,
    read_events,
)
from lastro.exporting import Exported
from lastro.gap import Gap, Nearest
from lastro.gaps import Accepted, Dismissed, Reopened, Resolved
from lastro.http_settings import HttpSettings
from lastro.importing import Imported
from lastro.job import STATES, Job, JobError, JobProgress, RetryPolicy, Workers
from lastro.json_lines import LineCounts, ReadLine, RefusedLine
from lastro.key import ApiKey, NewKey, RotatedKey
from lastro.leg_cache import GoldenUsed
from lastro.lexical_sql import NEARNESS, RANK_WEIGHTS, VERBOSITY
from lastro.logged_search import LoggedSearch
from lastro.metering_settings import MeteringSettings
from lastro.ollama_settings import OllamaSettings
from lastro.profiles import ADR_0080, DEFAULT, RAW_THRESHOLDS, Profile, Thresholds
from lastro.readiness import Readiness
from lastro.rules import RuleReport
from lastro.runs import Run
from lastro.sources.files import MISSING_CONTENT, FilePatterns
from lastro.sources.hooks import Hooks
from lastro.store import SelfCheck
from lastro.switching import EmbedderRef, EmbedderStatus, SwitchReport, SwitchState
from lastro.terms import SCOPE_FLOOR
from lastro.types import (
    Adr,
    Check,
    Coverage,
    Degraded,
    DegradedReason,
    DocumentCounts,
    EmbeddingCounts,
    FileNote,
    FileOrigin,
    GoldenImport,
    GoldenSummary,
    Hit,
    IndexReport,
    Outcome,
    ProjectSummary,
    ScopeCoverage,
    SourceCoverage,
)
from lastro.usage import MonthlySpend, Usage, UsageLine
from lastro.why_findings import Why
from lastro.wire import camel_case

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FIELDS_THAT_ARE_NO_SETTING = {"config_file", "origins"}


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


# --- Python


def test_the_public_names_are_these():
    assert lastro.__all__ == [
        "App", "Entity", "EntityOrigin", "EntityReport", "Event", "FileOrigin", "Gap", "Hit",
        "IndexReport", "IndexRequest", "Job", "LastroError", "Outcome", "ReindexRequest",
        "Rule", "RuleContext", "RuleEntry", "RuleMatch", "RuleReport", "SearchRequest",
        "SessionOrigin", "SessionReport", "Settings", "build", "load_settings", "to_json",
    ]  # fmt: skip


@pytest.mark.parametrize("name", lastro.__all__)
def test_a_public_name_is_documented(name: str):
    assert re.search(rf"`{name}[`(]", page("python.md"))


def test_the_example_in_python_runs(
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    text = "# Harbour\n\nThe light reaches as far as twelve miles.\n"
    commit(tmp_path / "coast", {"docs/harbour.md": text})
    monkeypatch.chdir(tmp_path / "coast")
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    example = re.search(r"^    from lastro import.*?(?=^\S)", page("python.md"), re.M | re.S)
    assert example is not None
    exec(dedent(example[0]), {"folder": Path.cwd()})
    place, line, _score = capsys.readouterr().out.split()
    assert (place, line) == ("docs/harbour.md", "1")


def test_the_example_of_a_knowledge_base_runs(
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    text = (ROOT / "docs" / "how-to" / "keep-a-knowledge-base.md").read_text(encoding="utf-8")
    example = re.search(r"^    from lastro import.*?(?=^\S)", text, re.M | re.S)
    assert example is not None
    exec(dedent(example[0]))
    assert capsys.readouterr().out == "hem A blind hem hides its thread.\n"


def test_the_example_lines_of_a_knowledge_base_are_entries():
    text = (ROOT / "docs" / "how-to" / "keep-a-knowledge-base.md").read_text(encoding="utf-8")
    read = read_entities(line.encode() for line in re.findall(r"^    (\{.*\})$", text, re.M))
    assert [entity.key for entity in read.items] == ["dress-12", "care-3"]


def test_the_example_of_a_conversation_runs(
    tmp_path: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    text = (ROOT / "docs" / "how-to" / "keep-conversations.md").read_text(encoding="utf-8")
    example = re.search(r"^    from lastro import.*?(?=^\S)", text, re.M | re.S)
    assert example is not None
    exec(dedent(example[0]))
    assert capsys.readouterr().out == "1 The quay is long.\n"


def test_the_example_of_keys_runs(
    tmp_path: Path,
    owner_url: str,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    add_project(owner, "handbook")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    text = (ROOT / "docs" / "how-to" / "give-out-keys.md").read_text(encoding="utf-8")
    example = re.search(r"^    from lastro import.*?(?=^\S)", text, re.M | re.S)
    assert example is not None
    exec(dedent(example[0]))
    assert capsys.readouterr().out == "handbook viewer\n"


def test_the_example_lines_of_a_conversation_are_events():
    text = (ROOT / "docs" / "how-to" / "keep-conversations.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    (\{.*\})$", text, re.M)
    read = read_events(line.encode() for line in lines)
    assert [one.item.id for one in read if isinstance(one, ReadLine)] == ["m-1", "m-2", "m-3"]


# --- settings, commands, codes


@pytest.mark.parametrize(
    "key", sorted({field.name for field in fields(Settings)} - FIELDS_THAT_ARE_NO_SETTING)
)
def test_a_setting_is_documented(key: str):
    assert f"`{key}`" in page("settings.md") or f"[{key}" in page("settings.md")


@pytest.mark.parametrize(
    "table", [ChunkSettings, FilePatterns, HttpSettings, MeteringSettings, OllamaSettings]
)
def test_each_key_of_a_table_of_settings_is_documented(table: type):
    text = page("settings.md")
    undocumented = [
        field.name
        for field in fields(table)
        if f"`{field.name}`" not in text and f"    {field.name} = " not in text
    ]
    assert undocumented == []


def test_each_number_that_a_profile_of_ones_own_may_set_is_documented():
    text = (ROOT / "docs" / "how-to" / "define-a-profile.md").read_text(encoding="utf-8")
    settable = {field.name for field in fields(Profile)} - {"name", "calibrated", "embedder"}
    assert sorted(name for name in settable if f"`{name}`" not in text) == []


def test_every_variable_that_the_program_reads_is_documented():
    read = {
        name
        for source in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"\bLASTRO_[A-Z_]+[A-Z]\b", source.read_text(encoding="utf-8"))
    }
    text = page("settings.md")
    assert "LASTRO_DEBUG" in read
    assert sorted(name for name in read if name not in text) == []


def test_every_command_has_its_section_and_every_section_its_command():
    root = typer.main.get_command(commands)
    names = set(root.commands)
    sections = {
        line.split()[2] for line in page("cli.md").splitlines() if line[:10] == "## lastro "
    }
    assert sections == names


@pytest.mark.parametrize("code", sorted(STATUS))
def test_an_error_code_is_documented_with_its_exit_code(code: str):
    assert re.search(
        rf"^\| `{code}` \|.*\| {STATUS[code][1]} \|$", page("exit-codes-and-errors.md"), re.M
    )


@pytest.mark.parametrize("reason", get_args(DegradedReason))
def test_a_degraded_reason_is_documented(reason: str):
    assert f"| `{reason}` |" in page("json-shapes.md")


@pytest.mark.parametrize("state", STATES)
def test_a_state_of_a_job_is_documented(state: str):
    text = (ROOT / "docs" / "how-to" / "run-a-worker.md").read_text(encoding="utf-8")
    assert f"| `{state}` |" in text
    assert f"`{state}`" in page("json-shapes.md")


def test_how_often_and_how_long_a_job_is_tried_again_is_documented():
    text = (ROOT / "docs" / "how-to" / "run-a-worker.md").read_text(encoding="utf-8")
    policy = RetryPolicy()
    assert (policy.first_pause_s, policy.longest_pause_s, policy.failures) == (5.0, 300.0, 8)
    assert "pauses from 5 seconds to 5 minutes, eight times" in text


def test_every_check_of_the_doctor_is_documented():
    text = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text(encoding="utf-8")
    modules = ("doctor.py", "server_checks.py", "recall_probe.py", "app.py", "cli/inspecting.py")
    names = {
        name
        for module in modules
        for name in re.findall(
            r'(?:Check\(\s*name=|failed\()"([a-z ]+)"',
            (ROOT / "src" / "lastro" / module).read_text(encoding="utf-8"),
        )
    }
    assert {"settings", "recall", "dead rows"} <= names
    assert sorted(name for name in names if f"`{name}`" not in text) == []


# --- reports and JSON


@pytest.mark.parametrize(
    "value",
    [
        Accepted, Adr, ApiKey, AppendReport, Check, Coverage, Degraded, Dismissed, DocumentCounts,
        EmbeddedStatus, EmbedderRef, EmbedderStatus, EmbeddingCounts, EntityReport, EntitySummary,
        Erased, EventCounts, Exported, FileNote, FileOrigin, Gap, GoldenImport, GoldenSummary,
        GoldenUsed, Hit, Hooks, Imported, IndexReport, Job, JobError, JobProgress, KnownProfile,
        LineCounts, LoggedSearch, MonthlySpend, Nearest, NewKey, Outcome, Profile, ProjectSummary,
        Readiness, RefusedLine, Reopened, Resolved, RotatedKey, RuleReport, Run, ScopeCoverage,
        SelfCheck,
        SessionCounts, SessionReport, SessionSummary, SourceCoverage, Sweep, Swept, SwitchReport,
        SwitchState, Thresholds, Upgrade, Usage, UsageLine, Why, Workers,
    ],
)  # fmt: skip
def test_each_field_of_a_printed_value_is_documented(value: type):
    text = page("json-shapes.md") + page("report-and-skip-reasons.md")
    names = [camel_case(field.name) for field in fields(value)]
    assert [name for name in names if not re.search(rf'["`]{name}["`]', text)] == []


def test_each_reason_to_skip_a_file_is_documented_and_each_documented_one_is_given():
    table = page("report-and-skip-reasons.md").partition("## Skip reasons")[2]
    documented = re.findall(r"^\| ([^|]+?) \|", table, re.M)[1:]
    given = list(skip_reasons())
    assert "binary" in given
    assert [told for told in given if not any(words in told for words in documented)] == []
    assert [words for words in documented if not any(words in told for told in given)] == []


def skip_reasons() -> Iterator[str]:
    """The texts of which the modules of sources make a reason, values left out."""
    yield MISSING_CONTENT
    for source in (ROOT / "src" / "lastro" / "sources").glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                told = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            elif isinstance(node, ast.FunctionDef) and re.search("reason|refusal", node.name):
                told = [one.value for one in ast.walk(node) if isinstance(one, ast.Return)]
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reason":
                told = [node.value]
            else:
                continue
            yield from (text for one in told if one is not None if (text := literal(one)))


def literal(node: ast.expr) -> str:
    """What a text says whatever its values are."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(literal, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


# --- the numbers of ranking


def test_the_weights_and_thresholds_of_the_shipped_profiles_are_documented():
    text = page("profiles-and-scores.md")
    for profile in (DEFAULT, ADR_0080):
        weights = f"{profile.vector_weight} · vector + {profile.lexical_weight} · lexical"
        assert re.search(rf"^\| `{profile.name}` \|.*{re.escape(weights)}", text, re.M)
    assert isinstance(DEFAULT.threshold, Thresholds)
    numbers = [
        DEFAULT.threshold.both,
        DEFAULT.threshold.vector_only,
        DEFAULT.threshold.lexical_only,
    ]
    assert re.findall(r"\| (0\.\d\d) \|$", text, re.M) == [f"{number:.2f}" for number in numbers]
    raw = [RAW_THRESHOLDS.both, RAW_THRESHOLDS.vector_only, RAW_THRESHOLDS.lexical_only]
    assert re.findall(r"^\|[^|]*\| (0\.\d\d) \|", text, re.M) == [f"{number:.2f}" for number in raw]


@pytest.mark.parametrize(
    "place", ["reference/profiles-and-scores.md", "adr/0004-lexical-score-is-idf-coverage.md"]
)
def test_the_constants_of_the_lexical_score_are_documented(place: str):
    text = (ROOT / "docs" / place).read_text(encoding="utf-8")
    assert f"+ {NEARNESS} · Σ min(idf(t), idf(t′)) · near(t, t′)" in text
    assert f"tf / (tf + {1 - VERBOSITY} + {VERBOSITY} · len / mean len)" in text
    assert f"max({SCOPE_FLOOR}, (n / mean n)^{DEFAULT.length_exponent})" in text


def test_the_weights_of_title_and_text_are_documented():
    shown = RANK_WEIGHTS.replace("0.", ".").replace("1.0", "1")
    assert f"ts_rank('{shown}', v, t)" in page("profiles-and-scores.md")


# --- the map


def test_the_map_names_every_module_and_no_other():
    package = ROOT / "src" / "lastro"
    there = {entry.name for entry in package.glob("*.py")} - {"__init__.py"}
    there |= {f"{entry.parent.name}/" for entry in package.glob("*/__init__.py")}
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("| part |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() for name in re.findall(r"`([\w/.]+)`", row)]
    assert sorted(named) == sorted(there)


# --- links


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_between_pages_leads_somewhere(document: Path):
    targets = re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8"))
    files = [unquote(target.partition("#")[0]) for target in targets if "://" not in target]
    assert [file for file in files if file and not (document.parent / file).exists()] == []


def test_every_page_that_the_program_cites_exists():
    cited = {
        found
        for source in [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.sql")]
        for found in re.findall(
            r"docs/(?:adr/\d{4}|(?:explanation|how-to|reference)/[\w-]+\.md)",
            source.read_text(encoding="utf-8"),
        )
    }
    assert "docs/adr/0004" in cited
    assert [name for name in sorted(cited) if not list(ROOT.glob(f"{name}*"))] == []
