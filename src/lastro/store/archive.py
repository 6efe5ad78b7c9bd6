"""A project's rows as lines of JSON, and back."""

from collections.abc import Generator, Sequence
from typing import Any

from psycopg.sql import SQL, Composable, Identifier
from psycopg.types.json import Jsonb

from lastro.archive import TABLES
from lastro.db.pool import AppConnection
from lastro.sql import load_queries
from lastro.wire import camel_case


def table_fields(connection: AppConnection, kind: str) -> list[str]:
    """Columns of a kind of line, without the project and the vector."""
    table = TABLES[kind]
    rows = connection.execute(load_queries("archive")["table_fields"], {"table": table.name})
    return [str(row[0]) for row in rows if row[0] not in table.left_out]


def archived_rows(
    connection: AppConnection, kind: str, *, project_id: int, vectors: bool
) -> Generator[str]:
    """A project's rows of a kind as JSON, in the order of their key, one at a time in memory.

    The connection does nothing else until the last one was taken, or this is closed.
    """
    table = TABLES[kind]
    fields: list[Composable] = [
        SQL("{} AS {}").format(Identifier(name), Identifier(camel_case(name)))
        for name in table_fields(connection, kind)
    ]
    if kind == "chunk" and vectors:
        fields.append(
            SQL("translate(encode(halfvec_send(embedding), 'base64'), E'\\n', '') AS embedding")
        )
    query = load_queries("archive")["archived_rows"].format(
        fields=SQL(", ").join(fields),
        archived=Identifier("lastro", table.name),
        order=SQL(", ").join(map(Identifier, table.order or ("project_id",))),
    )
    with connection.cursor() as cursor:
        for row in cursor.stream(query, {"kind": kind, "project_id": project_id}):
            yield row[0]


def insert_archived(
    connection: AppConnection, kind: str, rows: Sequence[dict[str, Any]], *, project_id: int
) -> None:
    """Write rows that all have the same columns, which the table has."""
    query = load_queries("archive")["insert_archived"].format(
        archived=Identifier("lastro", TABLES[kind].name),
        fields=SQL(", ").join(map(Identifier, rows[0])),
    )
    connection.execute(query, {"project_id": project_id, "rows": Jsonb(list(rows))})
