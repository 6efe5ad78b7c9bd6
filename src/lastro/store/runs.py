"""Runs of golden sets, and the state of what they searched."""

from collections.abc import Sequence

from psycopg.types.json import Jsonb

from lastro.db.pool import AppConnection
from lastro.runs import CorpusState, Run, SourceState, run_from_json, run_json
from lastro.sql import load_queries
from lastro.store.projects import project_sources, wait_to_number


def insert_run(connection: AppConnection, run: Run, *, project_id: int) -> int:
    """Store a run as the project's next, and return its number."""
    wait_to_number(connection, project_id)
    row = connection.execute(
        load_queries("runs")["insert_run"],
        {
            "project_id": project_id,
            "golden_name": run.golden.name,
            "golden_hash": run.golden.content_hash,
            "profile_name": run.profile_name,
            "started_at": run.started_at,
            "body": Jsonb(run_json(run)),
        },
    ).fetchone()
    assert row is not None
    return int(row[0])


def find_run(connection: AppConnection, number: int, *, project_id: int) -> Run | None:
    """The run of this number; None where there is none."""
    row = connection.execute(
        load_queries("runs")["find_run"], {"project_id": project_id, "number": number}
    ).fetchone()
    return None if row is None else run_from_json({**row[0], "number": number})


def last_run(
    connection: AppConnection, *, project_id: int, golden_name: str, profile_name: str
) -> Run | None:
    """The newest run of a set under a profile's name; None where there is none."""
    row = connection.execute(
        load_queries("runs")["last_run"],
        {"project_id": project_id, "golden_name": golden_name, "profile_name": profile_name},
    ).fetchone()
    return None if row is None else run_from_json({**row[1], "number": row[0]})


def list_runs(connection: AppConnection, *, project_id: int, limit: int) -> list[Run]:
    """The newest runs of a project, the newest first."""
    rows = connection.execute(
        load_queries("runs")["list_runs"], {"project_id": project_id, "limit": limit}
    )
    return [run_from_json({**body, "number": number}) for number, body in rows]


def corpus_state(connection: AppConnection, *, project_id: int, pipeline: str) -> CorpusState:
    """What a project's searches read, as it is now."""
    row = connection.execute(
        load_queries("runs")["corpus_counts"], {"project_id": project_id, "fingerprint": pipeline}
    ).fetchone()
    assert row is not None
    documents, chunks, changed_at, outdated = row
    return CorpusState(
        sources=tuple(
            SourceState(
                name=source.name,
                ref=source.ref,
                revision=source.revision,
                indexed_at=source.indexed_at,
            )
            for source in project_sources(connection, project_id)
        ),
        documents=documents,
        chunks=chunks,
        changed_at=changed_at,
        outdated=outdated,
    )


def document_scopes(
    connection: AppConnection, paths: Sequence[str], *, project_id: int
) -> dict[str, str]:
    """Scope of each indexed file of ``paths``."""
    rows = connection.execute(
        load_queries("runs")["document_scopes"], {"project_id": project_id, "places": list(paths)}
    )
    return {str(row[0]): str(row[1]) for row in rows}
