-- Runs of golden sets, and the state of what they searched; called only by store/runs.py.

-- name: insert_run
-- As the project's next number; two at once meet at evaluation_runs_pkey.
INSERT INTO lastro.evaluation_runs (
    project_id, number, golden_name, golden_hash, profile_name, started_at, body
)
SELECT
    %(project_id)s::bigint, coalesce(max(number), 0) + 1, %(golden_name)s::text,
    %(golden_hash)s::text, %(profile_name)s::text, %(started_at)s::timestamptz, %(body)s::jsonb
FROM lastro.evaluation_runs
WHERE project_id = %(project_id)s::bigint
RETURNING number;

-- name: find_run
-- By its number; index evaluation_runs_pkey.
SELECT body FROM lastro.evaluation_runs
WHERE project_id = %(project_id)s::bigint AND number = %(number)s;

-- name: last_run
-- The newest of a set under a profile's name; index evaluation_runs_pkey, read backwards.
SELECT number, body FROM lastro.evaluation_runs
WHERE project_id = %(project_id)s::bigint AND golden_name = %(golden_name)s::text
    AND profile_name = %(profile_name)s::text
ORDER BY number DESC
LIMIT 1;

-- name: list_runs
-- The newest first; index evaluation_runs_pkey, read backwards.
SELECT number, body FROM lastro.evaluation_runs
WHERE project_id = %(project_id)s::bigint
ORDER BY number DESC
LIMIT %(limit)s;

-- name: corpus_counts
-- Documents and published chunks of a project, when one was last stored, and those that another
-- pipeline made; indexes documents_place_key and chunks_published_idx.
SELECT
    count(*) AS documents,
    (
        SELECT count(*) FROM lastro.chunks
        WHERE project_id = %(project_id)s::bigint AND status = 'published'
    ) AS chunks,
    max(indexed_at) AS changed_at,
    count(*) FILTER (WHERE fingerprint <> %(fingerprint)s::text) AS outdated
FROM lastro.documents
WHERE project_id = %(project_id)s::bigint;

-- name: document_scopes
-- Scope of each file at the paths; index documents_place_key.
SELECT place, scope FROM lastro.documents
WHERE project_id = %(project_id)s::bigint AND kind = 'file' AND place = ANY (%(places)s::text[])
ORDER BY place, scope;
