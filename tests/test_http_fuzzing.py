"""No request makes the service fail, or answer what its documentation does not know."""

from pathlib import Path

import pytest
from fuzzing import ask_every_route
from repositories import commit
from service import running, settings_of

from lastro.app import build, prepare_database
from lastro.types import IndexRequest

EXAMPLES = 2


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # the service's threads do
def test_every_route_answers_what_is_documented_whatever_it_is_asked(
    owner_url: str, tmp_path: Path
) -> None:
    settings = settings_of(owner_url, tmp_path / "home")
    prepare_database(settings)
    commit(tmp_path / "manual", {"docs/pump.md": "# Pump\n\nThe pump runs dry at noon.\n"})
    with build(settings) as app:
        app.index(IndexRequest(path=tmp_path / "manual", project="manual"))
        key = app.keys.create("manual", role="admin").key
    with running(settings) as service:
        came = ask_every_route(service, key, project="manual", examples=EXAMPLES)
    assert {200, 202, 400, 404} <= {status for statuses in came.values() for status in statuses}
