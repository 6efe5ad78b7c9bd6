"""Lastro's errors, and the tables from code to HTTP status and exit code, and to what is counted.

LastroError
├── ConfigError            CONFIG_ERROR
├── SchemaOutOfDate        SCHEMA_OUT_OF_DATE
├── DatabaseUnavailable    DATABASE_UNAVAILABLE
│   ├── StatementTimeout   DATABASE_UNAVAILABLE
│   ├── WorkStopped        DATABASE_UNAVAILABLE
│   └── Contention         DATABASE_UNAVAILABLE
├── NotFound               NOT_FOUND
├── Conflict               CONFLICT
├── InvalidInput           INVALID_INPUT
│   └── InvalidFilter      INVALID_FILTER
├── DimensionMismatch      DIMENSION_MISMATCH
├── EmbedderMismatch       EMBEDDER_MISMATCH
├── ProviderError          PROVIDER_ERROR
│   └── BudgetExceeded     BUDGET_EXCEEDED
├── RemoteError            PROVIDER_ERROR
├── Unauthenticated        UNAUTHENTICATED
├── Forbidden              FORBIDDEN
├── TooLarge               TOO_LARGE
└── RateLimited            RATE_LIMITED
    └── Busy               RATE_LIMITED
"""

from typing import ClassVar

from lastro.types import DegradedReason


class LastroError(Exception):
    """Anything Lastro refuses, with what happened, to which thing, and what to do next."""

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class ConfigError(LastroError):
    """A setting is missing, unknown or contradictory."""

    code = "CONFIG_ERROR"


class SchemaOutOfDate(LastroError):
    """The database's schema is absent, older or newer than this program needs."""

    code = "SCHEMA_OUT_OF_DATE"


class DatabaseUnavailable(LastroError):
    """PostgreSQL cannot be started or reached, or refuses the work for want of rights."""

    code = "DATABASE_UNAVAILABLE"


class StatementTimeout(DatabaseUnavailable):
    """A statement took longer than its limit, or was cancelled; its transaction is undone."""


class WorkStopped(DatabaseUnavailable):
    """The work was given up: its time was over, or nobody waits for it any more."""


class Contention(DatabaseUnavailable):
    """Two transactions were in each other's way, and PostgreSQL undid this one: try it again."""


class NotFound(LastroError):
    """The named project, repository, ref or file does not exist, or is not yours to see."""

    code = "NOT_FOUND"


class Conflict(LastroError):
    """The name or thing is taken by another."""

    code = "CONFLICT"


class InvalidInput(LastroError):
    """An argument is outside what is allowed."""

    code = "INVALID_INPUT"


class InvalidFilter(InvalidInput):
    """A hard filter cannot be compiled."""

    code = "INVALID_FILTER"


class DimensionMismatch(LastroError):
    """A vector's width differs from the index's."""

    code = "DIMENSION_MISMATCH"


class EmbedderMismatch(LastroError):
    """The configured embedder is not the one that made the index's vectors."""

    code = "EMBEDDER_MISMATCH"


class ProviderError(LastroError):
    """An embedding provider answered something unusable; ``reason`` is what an outcome says."""

    code = "PROVIDER_ERROR"

    def __init__(self, message: str, *, reason: DegradedReason, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.reason: DegradedReason = reason


class BudgetExceeded(ProviderError):
    """A call of a paid embedder might pass its project's budget, and was not made."""

    code = "BUDGET_EXCEEDED"

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, reason="embedder_budget", remedy=remedy)


class RemoteError(LastroError):
    """A remote repository cannot be reached, or does not answer in time."""

    code = "PROVIDER_ERROR"


class Unauthenticated(LastroError):
    """No key came with a request, or none that holds."""

    code = "UNAUTHENTICATED"


class Forbidden(LastroError):
    """A key holds, and its role may not do this."""

    code = "FORBIDDEN"


class TooLarge(LastroError):
    """A request has more bytes than are read."""

    code = "TOO_LARGE"


class RateLimited(LastroError):
    """Too much was asked at once, or by one key; it can be asked again in ``retry_after_s``."""

    code = "RATE_LIMITED"

    def __init__(self, message: str, *, retry_after_s: float, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after_s = retry_after_s


class Busy(RateLimited):
    """The service has as much to do as it takes on, whoever asks."""


EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CONFIG = 3
EXIT_NOT_FOUND = 4
EXIT_DATABASE = 5
EXIT_PARTIAL = 6

# code -> (HTTP status, exit code)
STATUS: dict[str, tuple[int, int]] = {
    "CONFIG_ERROR": (500, EXIT_CONFIG),
    "SCHEMA_OUT_OF_DATE": (503, EXIT_CONFIG),
    "DATABASE_UNAVAILABLE": (503, EXIT_DATABASE),
    "NOT_FOUND": (404, EXIT_NOT_FOUND),
    "CONFLICT": (409, EXIT_USAGE),
    "INVALID_INPUT": (400, EXIT_USAGE),
    "INVALID_FILTER": (400, EXIT_USAGE),
    "DIMENSION_MISMATCH": (409, EXIT_CONFIG),
    "EMBEDDER_MISMATCH": (409, EXIT_CONFIG),
    "PROVIDER_ERROR": (502, EXIT_FAILED),
    "BUDGET_EXCEEDED": (402, EXIT_FAILED),
    "UNAUTHENTICATED": (401, EXIT_USAGE),
    "FORBIDDEN": (403, EXIT_USAGE),
    "TOO_LARGE": (413, EXIT_USAGE),
    "RATE_LIMITED": (429, EXIT_FAILED),
    "INTERNAL": (500, EXIT_FAILED),
}


# What a refusal is counted as where it says how a service is used, by the nearest class above it:
# see docs/reference/metrics.md.
REFUSALS: dict[type[LastroError], str] = {
    Busy: "turns",
    RateLimited: "rate",
    TooLarge: "body",
    Unauthenticated: "key",
    Forbidden: "role",
    WorkStopped: "deadline",
    StatementTimeout: "deadline",
    DatabaseUnavailable: "database",
    SchemaOutOfDate: "database",
}


def refusal_reason(error: LastroError) -> str | None:
    """What counts call a refusal; None for one that is told by its status alone."""
    return next((REFUSALS[kind] for kind in type(error).__mro__ if kind in REFUSALS), None)


def exit_code(error: LastroError) -> int:
    """Exit code of the command line for ``error``; source: the table above."""
    return STATUS[error.code][1]
