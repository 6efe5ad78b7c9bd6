"""The suite's fixtures and modules, for long runs: ``make soak``."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from importlib.util import module_from_spec, spec_from_file_location  # noqa: E402

_spec = spec_from_file_location("suite", TESTS / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_suite = module_from_spec(_spec)
_spec.loader.exec_module(_suite)

pytest_configure = _suite.pytest_configure
pytest_unconfigure = _suite.pytest_unconfigure
server_url = _suite.server_url
template = _suite.template
database = _suite.database
owner_url = _suite.owner_url
