-- Projects and their sources; called only by store/projects.py.

-- name: find_project
-- By primary name; index projects_slug_key.
SELECT id, slug, name FROM lastro.projects WHERE slug = %(slug)s;

-- name: create_project
-- Returns nothing where the name exists already; index projects_slug_key.
INSERT INTO lastro.projects (slug, name) VALUES (%(slug)s, %(slug)s)
ON CONFLICT ON CONSTRAINT projects_slug_key DO NOTHING
RETURNING id, slug, name;

-- name: all_projects
SELECT id, slug, name FROM lastro.projects ORDER BY slug;

-- name: project_summaries
-- What is listed of each visible project; chunks are those searches may see, counted in
-- chunks_published_idx.
SELECT
    p.slug, p.name,
    coalesce(d.scopes, ARRAY[]::text[]) AS scopes,
    s.revision,
    coalesce(d.documents, 0)::bigint AS documents,
    coalesce(c.chunks, 0) AS chunks,
    s.indexed_at
FROM lastro.projects AS p
LEFT JOIN (
    SELECT project_id, array_agg(scope ORDER BY scope) AS scopes, sum(documents) AS documents
    FROM (
        SELECT project_id, scope, count(*) AS documents
        FROM lastro.documents GROUP BY project_id, scope
    ) AS by_scope
    GROUP BY project_id
) AS d ON d.project_id = p.id
LEFT JOIN (
    SELECT project_id, count(*) AS chunks
    FROM lastro.chunks WHERE status = 'published' GROUP BY project_id
) AS c ON c.project_id = p.id
LEFT JOIN LATERAL (
    SELECT revision, indexed_at FROM lastro.sources
    WHERE project_id = p.id ORDER BY indexed_at DESC NULLS LAST, name LIMIT 1
) AS s ON true
WHERE p.id = ANY (%(projects)s::bigint[])
ORDER BY p.slug;

-- name: project_states
-- What the doctor counts of each visible project: rows that searches may see, looked at one by one,
-- so that one without a vector is found whatever its document says.
SELECT
    p.id, p.slug, coalesce(c.chunks, 0) AS chunks, coalesce(c.without_vector, 0) AS without_vector
FROM lastro.projects AS p
LEFT JOIN (
    SELECT
        project_id, count(*) AS chunks,
        count(*) FILTER (WHERE embedding_model IS NULL) AS without_vector
    FROM lastro.chunks WHERE status = 'published' GROUP BY project_id
) AS c ON c.project_id = p.id
WHERE p.id = ANY (%(projects)s::bigint[])
ORDER BY p.slug;

-- name: try_lock_project
-- Held by the session until it is released: index runs of one project take turns.
SELECT pg_try_advisory_lock(%(space)s::integer, %(project_id)s::integer);

-- name: wait_for_project
-- The same lock, waited for.
SELECT pg_advisory_lock(%(space)s::integer, %(project_id)s::integer);

-- name: unlock_project
SELECT pg_advisory_unlock(%(space)s::integer, %(project_id)s::integer);

-- name: wait_to_number
-- Held to the end of the transaction: who gives a project's next number, or adds to its words or
-- rules, waits, and then sees what others gave.
SELECT pg_advisory_xact_lock(%(space)s::integer, %(project_id)s::integer);

-- name: project_sources
-- A project's sources by name; index sources_pkey.
SELECT name, kind, root, ref, revision, indexed_at, skipped
FROM lastro.sources
WHERE project_id = %(project_id)s
ORDER BY name;

-- name: remote_sources
-- Addresses that the named projects index, and at which ref; few rows, index sources_pkey.
SELECT project_id, root, ref
FROM lastro.sources
WHERE project_id = ANY (%(projects)s::bigint[]) AND kind = 'remote'
ORDER BY project_id, name;

-- name: folder_projects
-- Visible projects that index a folder, a copy after its original; few rows, read whole.
SELECT p.slug
FROM lastro.sources AS s JOIN lastro.projects AS p ON p.id = s.project_id
WHERE s.root = %(root)s
ORDER BY s.indexed_at DESC NULLS LAST, p.id;

-- name: save_source
-- Revision, time and skipped files are those of the last run that finished, kind and ref those of
-- the last one at all until one has finished; index sources_pkey.
INSERT INTO lastro.sources (
    project_id, name, kind, root, ref, revision, indexed_at, run_started_at, skipped
)
VALUES (
    %(project_id)s, %(name)s, %(kind)s, %(root)s, %(ref)s,
    CASE WHEN %(finished)s THEN %(revision)s::text END,
    CASE WHEN %(finished)s THEN now() END,
    CASE WHEN NOT %(finished)s THEN now() END,
    %(skipped)s
)
ON CONFLICT ON CONSTRAINT sources_pkey DO UPDATE SET
    root = excluded.root,
    kind = CASE
        WHEN %(finished)s OR lastro.sources.indexed_at IS NULL THEN excluded.kind
        ELSE lastro.sources.kind
    END,
    ref = CASE
        WHEN %(finished)s OR lastro.sources.indexed_at IS NULL THEN excluded.ref
        ELSE lastro.sources.ref
    END,
    revision = CASE WHEN %(finished)s THEN excluded.revision ELSE lastro.sources.revision END,
    indexed_at = coalesce(excluded.indexed_at, lastro.sources.indexed_at),
    run_started_at = excluded.run_started_at,
    skipped = CASE WHEN %(finished)s THEN excluded.skipped ELSE lastro.sources.skipped END;

-- name: scope_counts
-- Documents of any status, and published chunks, of a project by scope; index chunks_pkey.
SELECT
    d.scope,
    count(*) AS indexed,
    count(*) FILTER (WHERE d.state = 'complete' AND c.vectors > 0) AS with_vectors,
    count(*) FILTER (WHERE d.state = 'incomplete') AS incomplete,
    coalesce(sum(c.chunks), 0)::bigint AS chunks
FROM lastro.documents AS d
LEFT JOIN (
    SELECT
        document_id,
        count(*) FILTER (WHERE status = 'published') AS chunks,
        count(embedding_model) AS vectors
    FROM lastro.chunks
    WHERE project_id = %(project_id)s
    GROUP BY document_id
) AS c ON c.document_id = d.id
WHERE d.project_id = %(project_id)s
GROUP BY d.scope
ORDER BY d.scope;

-- name: project_is_locked
-- Whether somebody has the project's turn (try_lock_project); objsubid 2: two integer keys.
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 2
        AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
        AND classid = %(space)s::bigint::oid AND objid = %(project_id)s::bigint::oid
);
