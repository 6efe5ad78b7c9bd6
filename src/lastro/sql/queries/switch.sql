-- The switch to another embedder: new vectors beside the old ones, and the swap; called only by
-- store/switch.py.

-- name: find_switch
SELECT id, version, dimension, fingerprint, phase, started_at FROM lastro.embedder_switch;

-- name: record_switch
-- Owner only.
INSERT INTO lastro.embedder_switch (id, version, dimension, fingerprint)
VALUES (%(id)s, %(version)s, %(dimension)s, %(fingerprint)s);

-- name: forget_switch
-- Owner only.
DELETE FROM lastro.embedder_switch;

-- name: try_lock_switch
-- Held by the session of the process that works on the switch, or as long as that lives.
SELECT pg_try_advisory_lock(%(key)s::bigint);

-- name: switch_is_locked
-- Whether some session works on the switch; objsubid 1: one key of 64 bits.
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
        AND (classid::bigint << 32) + objid::bigint = %(key)s::bigint
);

-- name: add_next_columns
-- Owner only. {dimension} is an integer literal. A search locks the view and then its table: so
-- does this. The checks are of rows to come; validate_next looks at those that are there.
LOCK TABLE lastro.searchable IN ACCESS EXCLUSIVE MODE;
ALTER TABLE lastro.chunks
    ADD COLUMN next_embedding halfvec({dimension}),
    ADD COLUMN next_model text,
    ADD COLUMN next_version text,
    ADD CONSTRAINT chunks_next_embedding CHECK (
        num_nulls(next_embedding, next_model, next_version) IN (0, 3)
    ) NOT VALID,
    ADD CONSTRAINT chunks_next_embedding_norm CHECK (l2_norm(next_embedding) > 0) NOT VALID;
ALTER TABLE lastro.chunks ALTER COLUMN next_embedding SET STORAGE MAIN;

-- name: drop_next_columns
-- Owner only: the new vectors go, with their indexes.
LOCK TABLE lastro.searchable IN ACCESS EXCLUSIVE MODE;
ALTER TABLE lastro.chunks
    DROP COLUMN IF EXISTS next_embedding,
    DROP COLUMN IF EXISTS next_model,
    DROP COLUMN IF EXISTS next_version;

-- name: has_next_columns
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_attribute
    WHERE attrelid = 'lastro.chunks'::regclass AND attname = 'next_model' AND NOT attisdropped
);

-- name: invalid_next_indexes
-- Those of which the building was interrupted.
SELECT c.relname::text
FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = 'lastro.chunks'::regclass AND NOT i.indisvalid
    AND c.relname IN ('chunks_next_missing_idx', 'chunks_next_embedding_idx')
ORDER BY 1;

-- name: drop_next_index
-- Owner only, outside a transaction. {index} is one of the two.
DROP INDEX CONCURRENTLY IF EXISTS {index};

-- name: index_missing
-- Owner only, outside a transaction. Which rows lack a new vector is then read without the others.
CREATE INDEX CONCURRENTLY IF NOT EXISTS chunks_next_missing_idx
ON lastro.chunks (project_id, document_id, ordinal) WHERE next_model IS NULL;

-- name: calm_index_build
-- For this session: one process, so that searches keep the other processors, and room as in
-- give_index_memory of vectors.sql.
SELECT set_config('max_parallel_maintenance_workers', '0', false),
    set_config(
        'maintenance_work_mem',
        least(1048576, greatest(65536, c.rows * (2 * %(dimension)s + 1024) / 1024))::text || 'kB',
        false
    )
FROM (SELECT count(*) AS rows FROM lastro.chunks WHERE next_model IS NOT NULL) AS c;

-- name: index_next
-- Owner only, outside a transaction.
CREATE INDEX CONCURRENTLY IF NOT EXISTS chunks_next_embedding_idx ON lastro.chunks
    USING hnsw (next_embedding halfvec_cosine_ops) WITH (ef_construction = {ef_construction})
    WHERE status = 'published';

-- name: validate_next
-- Owner only. Writers and searches go on meanwhile.
ALTER TABLE lastro.chunks
    VALIDATE CONSTRAINT chunks_next_embedding,
    VALIDATE CONSTRAINT chunks_next_embedding_norm;

-- name: chunks_to_switch
-- A project's rows without a new vector, behind a place; index chunks_next_missing_idx.
SELECT c.id, c.document_id, c.ordinal,
    coalesce(c.source_path, c.session_id, c.entity_key) AS place,
    coalesce(c.line_start, 0) AS line_start, coalesce(c.line_end, 0) AS line_end,
    c.title, c.heading_text, c.context, c.content
FROM lastro.chunks AS c
WHERE c.project_id = %(project_id)s::bigint AND c.next_model IS NULL
    AND (c.document_id, c.ordinal) > (%(after_document)s::uuid, %(after_ordinal)s::integer)
ORDER BY c.document_id, c.ordinal
LIMIT %(limit)s;

-- name: set_next_embeddings
-- Index chunks_pkey.
UPDATE lastro.chunks AS c
SET next_embedding = v.embedding::halfvec, next_model = %(model)s, next_version = %(version)s
FROM unnest(%(ids)s::uuid[], %(embeddings)s::text[]) AS v (id, embedding)
WHERE c.project_id = %(project_id)s::bigint AND c.id = v.id AND c.next_model IS NULL;

-- name: switch_counts
-- Rows of the visible projects, and those without a new vector; indexes chunks_pkey and
-- chunks_next_missing_idx.
SELECT
    (SELECT count(*) FROM lastro.chunks WHERE project_id = ANY (%(projects)s::bigint[])),
    (
        SELECT count(*) FROM lastro.chunks
        WHERE project_id = ANY (%(projects)s::bigint[]) AND next_model IS NULL
    );

-- name: switch_room
-- Bytes of disk that the switch takes until it has swapped, at most: each row once more in table
-- and indexes, with a vector of two bytes a dimension, and the new index, a kilobyte of neighbours
-- a row; index chunks_pkey.
SELECT pg_relation_size('lastro.chunks') + pg_indexes_size('lastro.chunks')
    + count(*) * (2 * 2 * %(dimension)s::bigint + 1024)
FROM lastro.chunks WHERE project_id = ANY (%(projects)s::bigint[]);

-- name: missing_rows
-- Owner only: what the swap finds without a new vector; index chunks_next_missing_idx.
SELECT id FROM lastro.chunks WHERE next_model IS NULL;

-- name: complete_switched
-- Owner only: documents of which every row has a new vector, or is one of blank.
UPDATE lastro.documents AS d SET state = 'complete'
WHERE d.state = 'incomplete' AND NOT EXISTS (
    SELECT FROM lastro.chunks AS c
    WHERE c.project_id = d.project_id AND c.document_id = d.id AND c.next_model IS NULL
        AND c.id <> ALL (%(blank)s::uuid[])
);

-- name: open_switched
-- Owner only: documents of which a row has none; index chunks_next_missing_idx.
UPDATE lastro.documents AS d SET state = 'incomplete'
FROM lastro.chunks AS c
WHERE c.next_model IS NULL AND c.id <> ALL (%(blank)s::uuid[])
    AND d.project_id = c.project_id AND d.id = c.document_id AND d.state = 'complete';

-- name: move_fingerprints
-- Owner only: documents are the same ones for the new embedder, and are not made again.
UPDATE lastro.documents SET fingerprint = %(new)s WHERE fingerprint = %(old)s;

-- name: forget_scales
-- Owner only: the scale of the old cosines says nothing of the new ones.
DELETE FROM lastro.vector_scale;

-- name: take_back_adoptions
-- Owner only: numbers that an index run adopted by itself, for what it found of the old vectors.
INSERT INTO lastro.profile_adoptions (project_id, name, step, version, by_itself)
SELECT a.project_id, a.name, a.step + 1, NULL, true
FROM lastro.profile_adoptions AS a
JOIN lastro.profiles AS p
    ON p.project_id = a.project_id AND p.name = a.name AND p.version = a.version
WHERE p.body ->> 'calibrated' = 'self' AND a.step = (
    SELECT max(b.step) FROM lastro.profile_adoptions AS b
    WHERE b.project_id = a.project_id AND b.name = a.name
);

-- name: lock_searches
-- Owner only. Whoever compares or writes vectors has read active_embedder in its transaction, then
-- the view, then its table: they are locked in that order.
LOCK TABLE lastro.active_embedder IN ACCESS EXCLUSIVE MODE;
LOCK TABLE lastro.searchable IN ACCESS EXCLUSIVE MODE;

-- name: swap_vectors
-- Owner only. The view is made again as it was, over the new columns; the old ones leave no trace
-- but their bytes in rows that nobody writes again. No text and no vector is touched.
DO $$
DECLARE
    definition text := pg_catalog.pg_get_viewdef('lastro.searchable'::regclass);
BEGIN
    DROP VIEW lastro.searchable;
    DROP INDEX lastro.chunks_next_missing_idx;
    ALTER TABLE lastro.chunks
        DROP COLUMN embedding, DROP COLUMN embedding_model, DROP COLUMN embedding_version;
    ALTER TABLE lastro.chunks RENAME COLUMN next_embedding TO embedding;
    ALTER TABLE lastro.chunks RENAME COLUMN next_model TO embedding_model;
    ALTER TABLE lastro.chunks RENAME COLUMN next_version TO embedding_version;
    ALTER TABLE lastro.chunks RENAME CONSTRAINT chunks_next_embedding TO chunks_embedding;
    ALTER TABLE lastro.chunks
        RENAME CONSTRAINT chunks_next_embedding_norm TO chunks_embedding_norm;
    ALTER INDEX lastro.chunks_next_embedding_idx RENAME TO chunks_embedding_idx;
    EXECUTE 'CREATE VIEW lastro.searchable AS ' || definition;
    GRANT SELECT ON lastro.searchable TO lastro_app;
    UPDATE lastro.active_embedder AS a
    SET id = s.id, version = s.version, dimension = s.dimension, fingerprint = s.fingerprint,
        since = now()
    FROM lastro.embedder_switch AS s;
    UPDATE lastro.embedder_switch SET phase = 'swapped';
END
$$;

-- name: vacuum_switched
-- Owner only, outside a transaction: the rows as they were before leave the table and its indexes.
VACUUM (ANALYZE) lastro.chunks;
