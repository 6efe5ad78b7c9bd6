"""How the HTTP service listens, and what it lets one request and one key have. Pure."""

import math
from dataclasses import dataclass, field

from lastro.errors import InvalidInput

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
MOST_PORTS = 65_535
LOG_FORMS = ("json", "text")
# Imports and index runs that are waited for: more would take each other's time.
LONG_CONCURRENCY = 2
# Deliveries of forges: strangers send them, and keep nobody from his turn.
SIGNED_CONCURRENCY = 2
# An import holds one connection for its run's turn and needs others beside.
SPARE_CONNECTIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Limits are those of one process of the service; ``workers`` says how many there are.

    ``concurrency`` requests are worked on at a time, ``waiting`` more wait for their turn, and
    what comes then is told to come again. ``rate_per_minute`` is that of one key; 0 sets no
    limit. ``statement_timeout_s`` leaves a leg out of a search, ``deadline_s`` ends the
    request; imports and index runs that a request waits for have ``long_deadline_s``.
    ``max_body_bytes`` is that of every request but imports, which have ``max_import_bytes``.
    ``metrics_port`` 0 serves ``/metrics`` beside all else. ``log`` is the form of its lines,
    "json" or "text". After ``grace_s`` a stop no longer waits for requests. Who
    knows ``webhook_secret`` may tell of pushes; blank, nobody may.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    workers: int = 1
    concurrency: int = 16
    waiting: int = 64
    rate_per_minute: int = 0
    max_body_bytes: int = 1_048_576
    max_import_bytes: int = 67_108_864
    max_query_chars: int = 10_000
    statement_timeout_s: float = 5.0
    deadline_s: float = 30.0
    long_deadline_s: float = 3_600.0
    grace_s: float = 10.0
    metrics_port: int = 0
    log: str = "json"
    webhook_secret: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.host.strip():  # to a socket, that is every address of the machine
            raise InvalidInput(
                "host is blank", remedy=f"name an address; {DEFAULT_HOST} is this machine alone"
            )
        for name in ("statement_timeout_s", "deadline_s", "long_deadline_s", "grace_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidInput(f"{name} must be seconds above 0, not {value!r}")
        for name in ("workers", "concurrency", "max_body_bytes", "max_import_bytes"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, not {getattr(self, name)!r}")
        for name in ("waiting", "rate_per_minute", "max_query_chars"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"{name} must not be below 0, but is {getattr(self, name)!r}")
        if self.log not in LOG_FORMS:
            raise InvalidInput(f"log must be one of {', '.join(LOG_FORMS)}, not {self.log!r}")
        for name in ("port", "metrics_port"):
            if not 0 <= getattr(self, name) <= MOST_PORTS:
                raise InvalidInput(f"{name} must be from 0 to {MOST_PORTS}")

        # A wrong one is not repeated: it may be a secret all the same.
        if not isinstance(self.webhook_secret, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput("webhook_secret must be text")

    @property
    def turns(self) -> int:
        """Requests of any kind that one process works on at a time."""
        return self.concurrency + LONG_CONCURRENCY + SIGNED_CONCURRENCY

    @property
    def connections(self) -> int:
        """Connections to the database that one process may need at a time."""
        return self.turns + SPARE_CONNECTIONS
