"""No request makes the service fail, or answer what its documentation does not know."""

from pathlib import Path

import pytest
from fuzzing import asked

EXAMPLES = 2


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # the service's threads do
def test_every_route_answers_what_is_documented_whatever_it_is_asked(
    owner_url: str, tmp_path: Path
) -> None:
    came = asked(owner_url, tmp_path, examples=EXAMPLES)
    assert {200, 202, 400, 404} <= {status for statuses in came.values() for status in statuses}
