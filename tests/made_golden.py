"""Lines of golden sets, as tests write them."""

import json
from typing import Any


def line(**keys: Any) -> str:
    """A right line of a set, but for ``keys``; None leaves one out."""
    said = {
        "question": "Who winds the clock?",
        "language": "en",
        "answers": [{"path": "docs/clock.md"}],
        **keys,
    }
    return json.dumps({key: value for key, value in said.items() if value is not None})
