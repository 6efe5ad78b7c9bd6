"""An outage that one process met, told to the next ones: a small file that soon means nothing."""

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lastro.errors import ProviderError
from lastro.types import DegradedReason

# What costs the asker time; a server that answers, even with a refusal, may be asked again.
OUTAGES: frozenset[DegradedReason] = frozenset({"embedder_unreachable", "embedder_timeout"})
_MAX_BYTES = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageNote:
    """The file ``path``; ``about`` is whom and how patiently one asks, and binds nobody else.

    A note is a convenience: one that cannot be written or read is none.
    """

    path: Path
    about: str
    clock: Callable[[], float] = time.time

    def write(self, error: ProviderError, *, lasts_s: float) -> None:
        """Note an outage for so many seconds."""
        note = {
            "about": self.about,
            "until": self.clock() + lasts_s,
            "reason": error.reason,
            "message": error.message,
            "remedy": error.remedy,
        }
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(note), encoding="utf-8")

    def read(self, *, longest_s: float) -> tuple[ProviderError, float] | None:
        """The outage and the seconds that it is still to be believed; None where there is none.

        A note from a clock that was put back would be believed for too long, and is not.
        """
        try:
            with self.path.open("rb") as file:
                told = json.loads(file.read(_MAX_BYTES))
        except (OSError, ValueError):
            return None
        if not isinstance(told, dict):
            return None
        note = cast("dict[str, Any]", told)
        reason, until = note.get("reason"), note.get("until")
        if note.get("about") != self.about or reason not in OUTAGES:
            return None
        left_s = until - self.clock() if isinstance(until, int | float) else 0.0
        if not 0 < left_s <= longest_s:
            return None
        remedy = note.get("remedy")
        error = ProviderError(
            str(note.get("message")),
            reason=reason,
            remedy=None if remedy is None else str(remedy),
        )
        return error, left_s

    def clear(self) -> None:
        """There is no outage."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
