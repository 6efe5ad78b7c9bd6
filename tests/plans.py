"""What PostgreSQL would do for the statements that a piece of the program really sends."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.sql import Composable

Plan = dict[str, Any]


@contextmanager
def explained(connection: psycopg.Connection) -> Iterator[list[Plan]]:
    """The plan of every statement that is executed meanwhile on ``connection``, in order."""
    plans: list[Plan] = []

    class Explaining(psycopg.Cursor):
        def execute(self, query, params=None, **options):
            if not text_of(query, connection).startswith(b"BEGIN"):
                with connection.cursor() as cursor:
                    psycopg.Cursor.execute(cursor, explain(query, connection), params)
                    plans.append(_plan(cursor))
            return super().execute(query, params, **options)

    before = connection.cursor_factory
    connection.cursor_factory = Explaining
    try:
        yield plans
    finally:
        connection.cursor_factory = before


def plan_of(connection: psycopg.Connection, query: Composable | str, params: Any = None) -> Plan:
    """The plan of one statement, which is not executed."""
    return _plan(connection.execute(explain(query, connection), params))


def explain(query: Any, connection: psycopg.Connection) -> bytes:
    return b"EXPLAIN (FORMAT JSON) " + text_of(query, connection)


def text_of(query: Any, connection: psycopg.Connection) -> bytes:
    text = query.as_bytes(connection) if isinstance(query, Composable) else query
    return text.encode() if isinstance(text, str) else text


def _plan(cursor: psycopg.Cursor) -> Plan:
    row = cursor.fetchone()
    assert row is not None
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return found[0]["Plan"]


def nodes(plan: Plan) -> Iterator[Plan]:
    """The steps of a plan, outermost first."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def indexes(plan: Plan) -> set[str]:
    """The indexes that a plan reads."""
    return {node["Index Name"] for node in nodes(plan) if "Index Name" in node}


def read_whole(plan: Plan) -> set[str]:
    """The tables that a plan reads from end to end."""
    return {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
