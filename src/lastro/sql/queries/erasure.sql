-- What erasing a project or a document takes away; called only by store/erasure.py.

-- name: erased_counts
-- Documents and chunks of a project, whatever their status, and its events, golden sets, runs and
-- gaps; indexes documents_pkey, chunks_pkey, sessions_pkey, golden_sets_pkey, evaluation_runs_pkey
-- and gaps_pkey.
SELECT
    (SELECT count(*) FROM lastro.documents WHERE project_id = %(project_id)s::bigint) AS documents,
    (SELECT count(*) FROM lastro.chunks WHERE project_id = %(project_id)s::bigint) AS chunks,
    (
        SELECT coalesce(sum(event_count), 0)::bigint FROM lastro.sessions
        WHERE project_id = %(project_id)s::bigint
    ) AS events,
    (
        SELECT count(DISTINCT name) FROM lastro.golden_sets
        WHERE project_id = %(project_id)s::bigint
    ) AS golden_sets,
    (
        SELECT count(*) FROM lastro.evaluation_runs WHERE project_id = %(project_id)s::bigint
    ) AS runs,
    (SELECT count(*) FROM lastro.gaps WHERE project_id = %(project_id)s::bigint) AS gaps;

-- name: delete_project
-- With all that belongs to it, by the foreign keys; index projects_pkey.
DELETE FROM lastro.projects WHERE id = %(project_id)s::bigint;

-- name: documents_at
-- Documents of a kind at the places, in every source, with their chunks; index
-- documents_place_key.
SELECT d.id, (
    SELECT count(*) FROM lastro.chunks AS c
    WHERE c.project_id = d.project_id AND c.document_id = d.id
) AS chunks
FROM lastro.documents AS d
WHERE d.project_id = %(project_id)s::bigint AND d.kind = %(kind)s
    AND d.place = ANY (%(places)s::text[])
ORDER BY d.id;

-- name: forget_embeddings
-- Cached vectors of texts that are erased with the documents %(ids)s, null for all: the project's
-- rows that no text kept by it still has, rows of no known project that have an erased text, and
-- questions, which nothing ties to a project. The hash is that of lastro.embedding, the text that
-- of lastro.documents.embedded_text. The cache is read whole, and so are the project's chunks.
WITH texts AS MATERIALIZED (
    SELECT
        sha256(convert_to(%(prefix)s::text || concat_ws(
            E'\n',
            nullif(concat_ws(' > ', nullif(title, ''), nullif(heading_text, '')), ''),
            nullif(context, ''),
            nullif(content, '')
        ), 'UTF8')) AS text_hash,
        bool_and(%(ids)s::uuid[] IS NULL OR document_id = ANY (%(ids)s::uuid[])) AS erased
    FROM lastro.chunks
    WHERE project_id = %(project_id)s::bigint
    GROUP BY 1
),
-- locked in the order in which cache_embeddings writes, so that nobody waits crosswise
gone AS MATERIALIZED (
    SELECT c.fingerprint, c.text_hash
    FROM lastro.embedding_cache AS c LEFT JOIN texts AS t ON t.text_hash = c.text_hash
    WHERE c.first_project = %(questions)s::bigint
        OR (c.first_project = %(project_id)s::bigint AND t.erased IS NOT FALSE)
        OR (c.first_project IS NULL AND t.erased)
    ORDER BY c.fingerprint, c.text_hash
    FOR UPDATE OF c
)
DELETE FROM lastro.embedding_cache AS e
USING gone
WHERE e.fingerprint = gone.fingerprint AND e.text_hash = gone.text_hash;

-- name: every_golden_version
-- Index golden_sets_pkey.
SELECT name, version, questions FROM lastro.golden_sets
WHERE project_id = %(project_id)s::bigint
ORDER BY name, version;

-- name: keep_golden_questions
-- What is left of a version when questions were erased; index golden_sets_pkey.
UPDATE lastro.golden_sets
SET questions = %(questions)s::jsonb, content_hash = %(content_hash)s::text
WHERE project_id = %(project_id)s::bigint AND name = %(name)s::text
    AND version = %(version)s::integer;

-- name: delete_golden_version
-- Index golden_sets_pkey.
DELETE FROM lastro.golden_sets
WHERE project_id = %(project_id)s::bigint AND name = %(name)s::text
    AND version = %(version)s::integer;

-- name: delete_runs_at
-- Runs that asked for or showed one of the places, which a run writes as PLACE, PLACE#SECTION or
-- PLACE:LINES; index evaluation_runs_pkey, the bodies are read whole.
DELETE FROM lastro.evaluation_runs AS r
WHERE r.project_id = %(project_id)s::bigint AND EXISTS (
    SELECT FROM jsonb_path_query(r.body, 'strict $.**.place') AS p (place)
    JOIN unnest(%(shown_places)s::text[]) AS erased (place)
        ON p.place #>> '{{}}' = erased.place
        OR starts_with(p.place #>> '{{}}', erased.place || '#')
        OR starts_with(p.place #>> '{{}}', erased.place || ':')
        OR starts_with(p.place #>> '{{}}', erased.place || ',')
);

-- name: places_of_others
-- Which of the places where a project's files lie another visible project has as well; few rows,
-- read whole.
SELECT DISTINCT root FROM lastro.sources
WHERE project_id <> %(project_id)s::bigint AND root = ANY (%(roots)s::text[]);

-- name: may_vacuum
-- Whether this user owns the tables.
SELECT pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class
WHERE oid = 'lastro.chunks'::regclass;

-- name: forget_samples
-- Owner only, PostgreSQL 18: words that ANALYZE kept. An ANALYZE of a table that is empty now
-- would keep them.
SELECT pg_catalog.pg_clear_attribute_stats('lastro', c.relname::text, a.attname::text, false)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relnamespace = 'lastro'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
    AND NOT a.attisdropped;

-- name: vacuum_erased
-- Owner only, outside a transaction: the dead rows give their place back, and leave the indexes.
VACUUM (ANALYZE) lastro.chunks, lastro.documents, lastro.sources, lastro.lexeme_stats,
    lastro.corpus_stats, lastro.embedding_cache, lastro.golden_sets, lastro.evaluation_runs,
    lastro.profiles, lastro.rules, lastro.gaps, lastro.self_checks, lastro.words, lastro.sessions,
    lastro.events, lastro.embedding_usage, lastro.embedding_spend, lastro.jobs,
    lastro.api_keys, lastro.search_log, lastro.search_log_keys, lastro.projects;
