"""Every documented route asked with what its documentation allows, and with what it does not."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from repositories import commit
from schemathesis import APIOperation, Case, GenerationMode, SerializationContext
from schemathesis.checks import CHECKS, load_all_checks
from service import Service, running, settings_of

from lastro.app import build, prepare_database
from lastro.types import IndexRequest

load_all_checks()
# What the shape allows may be refused for what it means: a filter, a name, a date. That a key is
# asked for is a test of its own.
SKIPPED = {"positive_data_acceptance", "ignored_auth"}
CHECKED = [CHECKS.get_one(name) for name in CHECKS.get_all_names() if name not in SKIPPED]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@schemathesis.serializer("application/x-ndjson")
def lines(_context: SerializationContext, value: Any) -> bytes:
    """Lines as they are, and anything else as one line of JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass")


def asked(url: str, folder: Path, *, examples: int) -> dict[str, set[int]]:
    """``ask_every_route`` of a new service over the database of ``url``, as an administrator."""
    settings = settings_of(url, folder / "home")
    prepare_database(settings)
    commit(folder / "manual", {"docs/pump.md": "# Pump\n\nThe pump runs dry at noon.\n"})
    with build(settings) as app:
        app.index(IndexRequest(path=folder / "manual", project="manual"))
        key = app.keys.create("manual", role="admin").key
    with running(settings) as service:
        return ask_every_route(service, key, project="manual", examples=examples)


def ask_every_route(
    service: Service, key: str, *, project: str, examples: int
) -> dict[str, set[int]]:
    """Ask each route so often in each mode; returns the statuses that came, by route.

    Errors: those of schemathesis, for an answer that is a fault or is not documented.
    """
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    return {
        operation.label: _ask(operation, key, project=project, examples=examples)
        for operation in operations
    }


def _ask(operation: APIOperation, key: str, *, project: str, examples: int) -> set[int]:
    came: set[int] = set()
    at = {"project": project} if "{project}" in operation.path else None
    for mode in MODES:

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(mode, path_parameters=at))
        def ask(case: Case) -> None:
            reply = case.call_and_validate(
                headers={"Authorization": f"Bearer {key}"}, checks=CHECKED
            )
            came.add(reply.status_code)

        with suppress(Unsatisfiable):  # a route without anything to be wrong about
            ask()
    return came
