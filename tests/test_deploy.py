"""What is deployed names what exists and holds no secret; what is backed up comes back whole."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import typer
import yaml
from commands import in_folder
from databases import address, create_database, drop_database
from postgres import own_server
from psycopg.conninfo import conninfo_to_dict
from service import running, settings_of

from lastro.app import build, diagnose, prepare_database
from lastro.cli.root import app as commands
from lastro.config import Settings
from lastro.db.app_role import APP_ROLE
from lastro.db.binaries import find_binaries
from lastro.db.pool import Database
from lastro.entity import Entity
from lastro.key import Principal
from lastro.search import SearchRequest
from lastro.server_checks import GOOD_VECTOR

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE_TEXT = (ROOT / "compose.yml").read_text(encoding="utf-8")
COMPOSE: Mapping[str, Any] = yaml.safe_load(COMPOSE_TEXT)
SERVICES: Mapping[str, Any] = COMPOSE["services"]
UNITS = sorted((ROOT / "deploy").glob("*.service"))
PAGE = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")

# https://docs.docker.com/reference/dockerfile/
INSTRUCTIONS = {
    "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
    "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
}  # fmt: skip
UNITS_OF_SIZE = {"kb": 2**10, "mb": 2**20, "gb": 2**30}
# What systemd-analyze calls OK ends here; without any protection a unit has 9.6.
MOST_EXPOSED = 30


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M))
    return [(words[0], words[2]) for line in joined.splitlines() if (words := line.partition(" "))]


def arguments_of(instruction: str) -> list[str]:
    return [value for name, value in instructions() if name == instruction]


def size_of(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([a-z]+)", text.lower()).groups()
    return int(number) * UNITS_OF_SIZE[unit]


def unknown_words(words: list[str]) -> list[str]:
    """Words of a command line of ``lastro`` that are no command, or no option of it."""
    command: Any = typer.main.get_command(commands)
    options: set[str] = set()
    for position, word in enumerate(words):
        inner = getattr(command, "commands", {})
        if word in inner:
            command = inner[word]
        elif position == 0:
            return [word]
        options = {name for parameter in command.params for name in parameter.opts}
    return [word for word in words if word.startswith("--") and word not in options]


# --- the image


def test_the_dockerfile_has_known_instructions_and_pinned_images() -> None:
    assert {name for name, _ in instructions() if name} <= INSTRUCTIONS
    assert [re.fullmatch(r"PYTHON=python:3\.\d+\.\d+-slim-\w+", a) for a in arguments_of("ARG")]
    assert {value.split(" ")[0] for value in arguments_of("FROM")} == {"${PYTHON}"}


def test_what_the_image_is_made_of_exists_and_is_sent_to_the_builder() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line[1:] for line in ignore if line.startswith("!")}
    assert "*" in ignore
    copied = {
        source
        for value in arguments_of("COPY")
        if not value.startswith("--from")
        for source in value.split()[:-1]
    }
    assert copied == sent
    assert [name for name in sorted(copied) if not (ROOT / name).exists()] == []
    assert PROJECT["readme"] in copied


def test_the_image_runs_an_installed_command_and_not_as_root() -> None:
    assert arguments_of("USER")[-1] not in ("", "root", "0")
    (entry,) = json.loads(arguments_of("ENTRYPOINT")[-1])
    assert entry in PROJECT["scripts"]
    assert unknown_words(json.loads(arguments_of("CMD")[-1])) == []


# --- the services


def test_shared_memory_is_above_what_an_index_build_may_take() -> None:
    command = SERVICES["db"]["command"]
    memory = re.search(r"maintenance_work_mem=(\w+)", command)
    assert memory is not None
    assert size_of(SERVICES["db"]["shm_size"]) > size_of(memory[1])


def test_the_images_are_pinned_and_pgvector_is_a_sound_one() -> None:
    images = {name: service["image"] for name, service in SERVICES.items()}
    assert [image for image in images.values() if not re.search(r":\d+\.\d+\.\d+", image)] == []
    assert images["serve"] == f"{PROJECT['name']}:{PROJECT['version']}"
    vector = re.search(r":(\d+)\.(\d+)\.(\d+)-pg", images["db"])
    assert vector is not None
    assert tuple(map(int, vector.groups())) >= GOOD_VECTOR


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_starts_again_and_says_how_it_is(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] in ("unless-stopped", "on-failure")
    assert service["healthcheck"].get("test") or service["healthcheck"] == {"disable": True}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_what_it_needs(name: str) -> None:
    needs = {
        other: need["condition"] for other, need in SERVICES[name].get("depends_on", {}).items()
    }
    ready = {"db": "service_healthy"}
    made = {"init": "service_completed_successfully"}
    assert needs == {"db": {}, "init": ready}.get(name, ready | made)


def test_no_file_holds_a_secret() -> None:
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            if re.search("PASSWORD|SECRET|TOKEN|KEY", name):
                assert re.fullmatch(r"\$\{\w+(:\?[\w .]+|:-)\}", value), name
    files = [ROOT / "Dockerfile", ROOT / "compose.yml", *(ROOT / "deploy").iterdir()]
    for file in files:
        assert re.findall(r"//\w+:[^@\s$]+@", file.read_text(encoding="utf-8")) == [], file


def test_owner_and_service_are_two_users() -> None:
    assert "lastro_owner@" in SERVICES["init"]["environment"]["LASTRO_ADMIN_DATABASE_URL"]
    for name in ("serve", "worker"):
        told = SERVICES[name]["environment"]
        assert "lastro_user@" in told["LASTRO_DATABASE_URL"]
        assert "OWNER" not in json.dumps(told)


@pytest.mark.parametrize("name", ["init", "serve", "worker"])
def test_a_service_runs_a_command_that_exists(name: str) -> None:
    assert unknown_words(SERVICES[name]["command"]) == []


def test_a_word_that_is_no_command_is_noticed() -> None:
    assert unknown_words(["serve", "--hots", "0.0.0.0"]) == ["--hots"]
    assert unknown_words(["server"]) == ["server"]


def test_every_variable_is_documented_where_one_looks_for_it() -> None:
    files = [COMPOSE_TEXT, DOCKERFILE, *(unit.read_text(encoding="utf-8") for unit in UNITS)]
    named = {name for text in files for name in re.findall(r"\bLASTRO_[A-Z_]+", text)}
    tables = {"LASTRO_HTTP_WORKERS": "`workers`", "LASTRO_HTTP_GRACE_S": "`grace_s`"}
    assert [name for name in named if tables.get(name, f"`{name}`") not in SETTINGS] == []
    asked = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE_TEXT))
    assert [name for name in sorted(asked) if f"`{name}`" not in PAGE] == []


def test_what_is_mounted_from_this_folder_exists_or_is_the_users() -> None:
    mounted = [
        source
        for service in SERVICES.values()
        for volume in service["volumes"]
        if (source := volume.rpartition(":/")[0].partition(":/")[0]).startswith("./")
    ]
    assert mounted == ["./deploy/make-roles.sh"]
    assert os.access(ROOT / mounted[0], os.X_OK)


def test_the_look_at_the_service_tells_one_that_answers_from_one_that_is_gone(
    owner_url: str, tmp_path: Path
) -> None:
    command, _, code = SERVICES["serve"]["healthcheck"]["test"][1:]
    assert json.dumps([command, "-c", code]) in arguments_of("HEALTHCHECK")[0]
    assert code.isascii()
    assert ":8080/" in code
    with running(settings_of(owner_url, tmp_path / "home")) as service:
        here = code.replace("http://127.0.0.1:8080", service.url)
        exec(here)
        assert httpx.get(f"{service.url}/healthz").status_code == 200
    with pytest.raises(OSError, match="refused"):
        exec(here)


def test_the_look_at_the_worker_tells_that_none_is_heard_of(
    owner_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, line = SERVICES["worker"]["healthcheck"]["test"]
    asked, _, judged = line.partition(" | ")
    words = asked.split()
    call = in_folder(
        tmp_path,
        home=tmp_path / "home",
        owner_url=owner_url,
        monkeypatch=monkeypatch,
        capsys=capsys,
    )
    assert words[0] in PROJECT["scripts"]
    code, printed, _ = call(*words[1:])
    assert code == 0
    assert healthy(judged, printed) is False
    assert healthy(judged, printed.replace('"live": 0', '"live": 1')) is True


def healthy(command: str, printed: str) -> bool:
    """What the second half of a look makes of what the first one printed."""
    command = command.replace("python", sys.executable, 1)
    return subprocess.run(["sh", "-c", command], input=printed, text=True).returncode == 0


# --- the roles


@dataclass(frozen=True)
class Fresh:
    """A server on which ``deploy/make-roles.sh`` has just run; ``database`` is its superuser's."""

    cluster: str
    home: Path

    @property
    def database(self) -> str:
        return address(self.cluster, dbname="lastro")

    @property
    def settings(self) -> Settings:
        return settings_of(
            address(self.database, user="lastro_user"),
            self.home,
            admin_database_url=address(self.database, user="lastro_owner"),
        )

    def run(self, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A line of shell with PostgreSQL's programs, for this server."""
        parts = conninfo_to_dict(self.cluster)
        environment = {
            "PATH": f"{find_binaries(None)}:{os.environ['PATH']}",
            "PGHOST": str(parts["host"]),
            "PGPORT": str(parts.get("port", "")),
            "LASTRO_ADMIN_DATABASE_URL": str(self.settings.admin_database_url),
            **variables,
        }
        return subprocess.run(
            ["sh", "-c", command], cwd=self.home.parent, env=environment, capture_output=True,
            text=True, timeout=120,
        )  # fmt: skip

    def make_roles(self) -> None:
        passwords = {"DB_OWNER_PASSWORD": 'it\'s $1 "long"', "DB_USER_PASSWORD": r"back\slash"}
        user = str(conninfo_to_dict(self.cluster)["user"])
        script = str(ROOT / "deploy" / "make-roles.sh")
        made = self.run(script, POSTGRES_USER=user, **passwords)
        assert (made.returncode, made.stderr) == (0, "")

    def forget(self) -> None:
        with psycopg.connect(self.cluster, dbname="postgres", autocommit=True) as server:
            drop_database(server, "lastro")
            server.execute("DROP ROLE lastro_user; DROP ROLE lastro_owner; DROP ROLE lastro_app")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a server of these tests' own: on any other one roles may be left."""
    with own_server() as server:
        yield server.start()


@pytest.fixture
def fresh(cluster: str, tmp_path: Path) -> Iterator[Fresh]:
    server = Fresh(cluster, tmp_path / "home")
    with psycopg.connect(cluster, dbname="postgres", autocommit=True) as connection:
        drop_database(connection, "lastro")
        server.make_roles()
        yield server
        server.forget()
        create_database(connection, "lastro")


def test_the_roles_that_are_made_are_enough_for_the_owner_and_hold_the_service_back(
    fresh: Fresh,
) -> None:
    assert prepare_database(fresh.settings) > 0
    with build(fresh.settings) as app:
        app.require_walls()
    with psycopg.connect(fresh.database) as connection:
        found = connection.execute(
            "SELECT rolname, rolpassword LIKE 'SCRAM-%' FROM pg_authid"
            " WHERE rolname LIKE 'lastro\\_%' ORDER BY 1"
        )
        assert found.fetchall() == [(APP_ROLE, None), ("lastro_owner", True), ("lastro_user", True)]


# --- backup


def command_of(program: str) -> str:
    """The first line of the page on backups that begins with a program."""
    page = (ROOT / "docs" / "how-to" / "back-up-a-server.md").read_text(encoding="utf-8")
    found = re.search(rf"^ +({program} .*)$", page, re.M)
    assert found is not None
    return found[1]


def answered(settings: Settings, key: str) -> tuple[list[tuple[str, float]], Principal]:
    """What a search finds and what a key opens, as the service's user."""
    with build(settings) as app:
        app.require_walls()
        hits = app.search(SearchRequest(query="which lamp is lit?"), project="harbour").hits
        return [(hit.content, hit.score) for hit in hits], app.keys.authenticate(key)


def test_a_restored_dump_answers_the_same_and_keeps_keys_and_walls(fresh: Fresh) -> None:
    prepare_database(fresh.settings)
    with build(fresh.settings) as app:
        for project, lamp in (("harbour", "green"), ("quay", "red")):
            text = f"The {lamp} lamp is lit at dusk."
            app.entities(project).upsert([Entity(key="lamp", title="Lamp", text=text, type="rule")])
        key = app.keys.create("harbour", role="viewer").key
    before = answered(fresh.settings, key)
    assert [content for content, _ in before[0]] == ["The green lamp is lit at dusk."]
    dumped = fresh.run(command_of("pg_dump"))
    assert (dumped.returncode, dumped.stderr) == (0, "")

    fresh.forget()
    fresh.make_roles()
    for program in ("pg_restore", "vacuumdb"):
        done = fresh.run(command_of(program))
        assert done.returncode == 0, done.stderr

    assert prepare_database(fresh.settings) == 0
    assert answered(fresh.settings, key) == before
    failed = [check for check in diagnose(fresh.settings) if check.status == "fail"]
    assert failed == []
    url = str(fresh.settings.database_url)
    with Database(url) as database, database.transaction() as connection:
        for relation in ("chunks", "searchable", "api_keys"):
            seen = connection.execute(f"SELECT count(*) FROM lastro.{relation}".encode())
            assert seen.fetchone() == (0,)


def test_a_dump_by_the_service_s_user_fails_and_is_not_one_that_lacks_rows(fresh: Fresh) -> None:
    prepare_database(fresh.settings)
    url = str(fresh.settings.database_url)
    said = fresh.run(command_of("pg_dump"), LASTRO_ADMIN_DATABASE_URL=url)
    assert said.returncode != 0
    assert "pg_dump: error:" in said.stderr


# --- the units


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_is_understood_and_exposes_little(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text(encoding="utf-8")
    (command,) = re.findall(r"^ExecStart=(.+)$", text, re.M)
    program, *words = command.split()
    assert Path(program).name in PROJECT["scripts"]
    assert unknown_words(words) == []
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    copy = tmp_path / unit.name
    copy.write_text(text.replace(program, "/bin/true"), encoding="utf-8")
    said = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")
    limit = f"--threshold={MOST_EXPOSED}"
    exposed = ["systemd-analyze", "security", "--offline=true", limit, str(copy)]
    assert subprocess.run(exposed, capture_output=True).returncode == 0
