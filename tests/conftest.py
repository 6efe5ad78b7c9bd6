"""Fixtures of the whole suite: one PostgreSQL for the run, a fresh database for each test."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest
from databases import address, drop_template, ensure_template, scratch_database
from hypothesis import HealthCheck, settings
from postgres import DATABASE_VARIABLE, begin_run, end_run, own_server, test_server

from lastro.db.embedded import EmbeddedPostgres
from lastro.db.pool import Database
from lastro.embedders.deterministic import DeterministicEmbedder

# The same examples in every run: a failure is a failure of the change, never of the dice.
settings.register_profile(
    "lastro",
    derandomize=True,
    deadline=None,
    max_examples=50,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("lastro")

# What the user or the machine tells git (`safe.directory=*`, aliases, hooks) is no part of a test.
WITHOUT_GIT_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def pytest_configure(config: pytest.Config) -> None:
    os.environ.update(WITHOUT_GIT_SETTINGS)
    begin_run()


def pytest_unconfigure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if DATABASE_VARIABLE in os.environ and not is_worker:
        drop_template(os.environ[DATABASE_VARIABLE])
    end_run()


@pytest.fixture(scope="session")
def server_url() -> str:
    """Address of the run's server, as a user who may make databases and roles."""
    return test_server()


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    """Name of the run's migrated database, cloned for each test."""
    return ensure_template(server_url)


@pytest.fixture
def database(server_url: str, template: str) -> Iterator[str]:
    """Name of a fresh migrated database, this test's own."""
    with scratch_database(server_url, template=template) as name:
        yield name


@pytest.fixture
def owner_url(server_url: str, database: str) -> str:
    """Address of ``database`` as the owner of its tables."""
    return address(server_url, dbname=database)


@pytest.fixture
def app_database(owner_url: str) -> Iterator[Database]:
    """A pool over ``database`` that works as the application's role."""
    with Database(owner_url, max_size=4) as pool:
        yield pool


@pytest.fixture
def owner(owner_url: str) -> Iterator[psycopg.Connection]:
    """A connection to ``database`` as the owner, which no policy holds back; autocommit."""
    with psycopg.connect(owner_url, autocommit=True, prepare_threshold=None) as connection:
        yield connection


@pytest.fixture
def new_database(server_url: str) -> Iterator[Callable[..., str]]:
    """Makes further databases, empty unless ``template`` is named, and returns their addresses."""
    with ExitStack() as stack:

        def make(*, template: str = "template0") -> str:
            made = scratch_database(server_url, template=template)
            return address(server_url, dbname=stack.enter_context(made))

        yield make


@pytest.fixture(scope="session")
def private_server() -> Iterator[EmbeddedPostgres]:
    """A server of this worker's own, for tests that stop it or change its roles."""
    with own_server() as server:
        yield server


@pytest.fixture
def cluster(private_server: EmbeddedPostgres) -> str:
    """Address of ``private_server``, running, as its administrator."""
    return private_server.start()


@pytest.fixture(scope="session")
def embedder() -> DeterministicEmbedder:
    """1024-d vectors without meaning: equal texts are equal, others nearly orthogonal."""
    return DeterministicEmbedder()
