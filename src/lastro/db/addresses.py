"""Whether a database's address is one, before anything is done that could need it."""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lastro.errors import ConfigError

MAX_PORT = 65_535


def is_address(url: str) -> bool:
    """Whether a server can have this address; connects to none."""
    try:
        parts = conninfo_to_dict(url)
        return _has_ports(parts) and _has_names(parts)
    except (psycopg.ProgrammingError, UnicodeError):
        return False


def require_owner_address(url: str) -> None:
    """Refuse an owner's address that no server can have. Errors: ConfigError."""
    if not is_address(url):
        raise ConfigError(
            "the owner's address is not understood",
            remedy="write LASTRO_ADMIN_DATABASE_URL as postgresql://owner@host:port/database",
        )


def _has_ports(parts: Mapping[str, Any]) -> bool:
    """Whether each port is a number; one that is left out is PostgreSQL's own."""
    ports = [port for port in str(parts.get("port", "")).split(",") if port]
    return all(port.isascii() and port.isdecimal() and 0 < int(port) <= MAX_PORT for port in ports)


def _has_names(parts: Mapping[str, Any]) -> bool:
    """Whether each host can be looked up. Errors: UnicodeError, as the look-up itself has it."""
    for host in str(parts.get("host", "")).split(","):
        if not host.startswith(("/", "@")):
            host.encode("idna")
    return True
