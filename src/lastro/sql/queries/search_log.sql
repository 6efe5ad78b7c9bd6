-- The log of searches; called only by store/search_log.py.

-- name: search_log_key
-- Index search_log_keys_pkey.
SELECT key FROM lastro.search_log_keys WHERE project_id = %(project_id)s::bigint;

-- name: insert_search_log_key
-- The first one made is the project's, whoever made it; index search_log_keys_pkey.
INSERT INTO lastro.search_log_keys (project_id, key)
VALUES (%(project_id)s::bigint, %(new_key)s::bytea)
ON CONFLICT ON CONSTRAINT search_log_keys_pkey DO NOTHING;

-- name: record_searches
-- One row a search; hashes come in hexadecimal digits.
INSERT INTO lastro.search_log (
    project_id, at, id, query, query_hash, k, scopes, filtered, next_page, hit_count, abstained,
    degraded, profile_name, profile_version, took_ms
)
SELECT %(project_id)s::bigint, s.at, s.id, s.query, decode(s.query_hash, 'hex'), s.k, s.scopes,
    s.filtered, s.next_page, s.hit_count, s.abstained, s.degraded, s.profile_name,
    s.profile_version, s.took_ms
FROM jsonb_to_recordset(%(searches)s::jsonb) AS s (
    at timestamptz, id uuid, query text, query_hash text, k integer, scopes text[],
    filtered boolean, next_page boolean, hit_count integer, abstained boolean, degraded text[],
    profile_name text, profile_version integer, took_ms double precision
);

-- name: list_searches
-- The newest first; each null asks for nothing. Index search_log_pkey, read backwards.
SELECT
    l.id::text AS id, l.at, l.query, encode(l.query_hash, 'hex') AS query_hash, l.k, l.scopes,
    l.filtered, l.next_page, l.hit_count, l.abstained, l.degraded,
    l.profile_name || '@' || l.profile_version AS profile, l.took_ms
FROM lastro.search_log AS l
WHERE l.project_id = %(project_id)s::bigint
    AND (%(since)s::timestamptz IS NULL OR l.at >= %(since)s::timestamptz)
    AND (%(slow_ms)s::float8 IS NULL OR l.took_ms >= %(slow_ms)s::float8)
    AND (NOT %(only_degraded)s::boolean OR cardinality(l.degraded) > 0)
    AND (NOT %(only_abstained)s::boolean OR l.abstained)
    AND (
        %(before)s::uuid IS NULL
        OR (l.at, l.id) < (%(before_at)s::timestamptz, %(before)s::uuid)
    )
ORDER BY l.at DESC, l.id DESC
LIMIT %(limit)s::bigint;

-- name: prune_searches
-- Some of the rows that are older than so many seconds; index search_log_pkey.
DELETE FROM lastro.search_log AS l
USING (
    SELECT project_id, at, id FROM lastro.search_log
    WHERE project_id = ANY (%(projects)s::bigint[])
        AND at < now() - make_interval(secs => %(kept_s)s::float8)
    ORDER BY project_id, at, id
    LIMIT %(limit)s::bigint
) AS old
WHERE l.project_id = old.project_id AND l.at = old.at AND l.id = old.id;
