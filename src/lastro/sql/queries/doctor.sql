-- What PostgreSQL says of itself and of our schema; called only by
-- store/doctor.py.

-- name: server_facts
-- One row. The distance is computed to see that the extension's code runs on this processor.
SELECT
    current_setting('server_version_num')::integer AS version_number,
    current_setting('server_version') AS version,
    pg_encoding_to_char(d.encoding)::text AS encoding,
    (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector') AS vector_version,
    current_setting('dynamic_shared_memory_type') AS shared_memory_type,
    inet_server_addr() IS NULL AS over_socket,
    pg_database_size(d.oid) AS size_bytes,
    current_setting('autovacuum')::boolean AS autovacuum,
    '[1,2,3]'::halfvec <=> '[3,2,1]'::halfvec AS probe_distance
FROM pg_catalog.pg_database AS d
WHERE d.datname = current_database();

-- name: role_facts
-- The application's role and the user that becomes it. Who has the rights of a table's owner is
-- held back by no policy, whatever way the rights came.
SELECT
    session_user::text AS login,
    s.rolsuper AS login_is_superuser,
    a.rolsuper AS app_is_superuser,
    a.rolbypassrls AS app_bypasses,
    (SELECT count(*) FROM pg_catalog.pg_class WHERE relowner = a.oid) AS app_owns,
    (
        SELECT min(o.rolname::text)
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_roles AS o ON o.oid = c.relowner
        WHERE c.relnamespace = 'lastro'::regnamespace AND c.relkind IN ('r', 'p')
            AND o.oid <> a.oid AND NOT a.rolsuper AND pg_has_role(a.oid, o.oid, 'USAGE')
    ) AS app_has_rights_of,
    current_user::text AS acting_as
FROM pg_catalog.pg_roles AS s, pg_catalog.pg_roles AS a
WHERE s.rolname = session_user AND a.rolname = 'lastro_app';

-- name: unwalled_tables
-- Tables of projects' rows without row-level security or without a policy for the application.
SELECT c.relname::text
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relnamespace = 'lastro'::regnamespace AND c.relkind IN ('r', 'p')
    AND a.attname = 'project_id' AND NOT a.attisdropped
    AND NOT (
        c.relrowsecurity
        AND EXISTS (
            SELECT FROM pg_catalog.pg_policy AS p
            WHERE p.polrelid = c.oid AND p.polpermissive
                AND 'lastro_app'::regrole = ANY (p.polroles)
        )
    )
ORDER BY c.relname;

-- name: row_is_visible
-- Whether any row is seen here, through the policy or through the view.
SELECT EXISTS (SELECT FROM lastro.chunks) OR EXISTS (SELECT FROM lastro.searchable);

-- name: index_facts
-- Our indexes, whether each can be used, and how that of the vectors was built, null for by default.
SELECT i.relname::text AS name, x.indisvalid AND x.indisready AS is_valid,
    (
        SELECT o.option_value::integer FROM pg_catalog.pg_options_to_table(i.reloptions) AS o
        WHERE o.option_name = 'ef_construction'
    ) AS ef_construction
FROM pg_catalog.pg_index AS x
JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
WHERE i.relnamespace = 'lastro'::regnamespace
ORDER BY i.relname;

-- name: lacking_rights
-- What the application's role needs of each table and has not; four it may only read.
SELECT c.relname || ' ' || r.privilege
FROM pg_catalog.pg_class AS c
CROSS JOIN (VALUES (1, 'SELECT'), (2, 'INSERT'), (3, 'UPDATE'), (4, 'DELETE'))
    AS r (place, privilege)
WHERE c.relnamespace = 'lastro'::regnamespace AND c.relkind IN ('r', 'p', 'v')
    AND (r.place = 1 OR c.relname NOT IN (
        'active_embedder', 'embedder_switch', 'migrations', 'searchable'
    ))
    AND NOT has_table_privilege('lastro_app', c.oid, r.privilege)
ORDER BY c.relname, r.place;

-- name: table_facts
-- Rows by the cumulative statistics, which trail by a second.
SELECT relname::text AS name, n_live_tup AS live, n_dead_tup AS dead
FROM pg_catalog.pg_stat_all_tables
WHERE schemaname = 'lastro'
ORDER BY relname;

-- name: sample_vectors
-- For each starting id the next row that searches may see; index chunks_pkey, one step a start.
SELECT DISTINCT ON (s.id) s.embedding
FROM unnest(%(starts)s::uuid[]) AS x (start)
CROSS JOIN LATERAL (
    SELECT id, embedding
    FROM lastro.searchable
    WHERE project_id = %(project_id)s::bigint AND id >= x.start AND embedding_model IS NOT NULL
    ORDER BY id
    LIMIT 1
) AS s;
