-- The vector column, its index, the active embedder and the embedding cache; called only by
-- store/vectors.py.

-- name: vector_dimension
-- Width of chunks.embedding, or no row while there is none.
SELECT a.atttypmod
FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = 'lastro.chunks'::regclass AND a.attname = 'embedding' AND NOT a.attisdropped;

-- name: add_vector_column
-- Owner only, once: the width is known when the first vector is. {dimension} is an integer literal.
-- The index comes later, see add_vector_index. A search locks the view and then its table: so does
-- this, or they would wait for each other crosswise.
LOCK TABLE lastro.searchable IN ACCESS EXCLUSIVE MODE;
ALTER TABLE lastro.chunks
    ADD COLUMN embedding halfvec({dimension}),
    DROP CONSTRAINT chunks_embedding,
    ADD CONSTRAINT chunks_embedding CHECK (
        num_nulls(embedding, embedding_model, embedding_version) IN (0, 3)
    ),
    -- the cosine with a zero vector is NaN, which would sort first
    ADD CONSTRAINT chunks_embedding_norm CHECK (l2_norm(embedding) > 0);
-- The legs read the vector and never the content: keep it in the row, and let the content go out.
ALTER TABLE lastro.chunks ALTER COLUMN embedding SET STORAGE MAIN;
CREATE OR REPLACE VIEW lastro.searchable AS
SELECT
    project_id, id, document_id, ordinal, char_start, char_end, scope,
    coalesce(source_path, session_id, entity_key) COLLATE "C" AS place,
    source_path, session_id, entity_key, entity_type, attributes, rule_weight, effective_at,
    language, status, token_count, search_vector, embedding_model, embedding
FROM lastro.chunks
WHERE status = 'published' AND project_id = ANY (
    (SELECT nullif(current_setting('lastro.projects', true), '')::bigint[])::bigint[]
);

-- name: has_vector_index
SELECT to_regclass('lastro.chunks_embedding_idx') IS NOT NULL;

-- name: give_index_memory
-- For building the vector index over the rows that are there, until the transaction ends: a vector
-- of two bytes a dimension and about a kilobyte of neighbours each, from 64 MB to 1 GB. Only where
-- shared memory is a mapped file: a build over /dev/shm, 64 MB in a container, would fail.
SELECT set_config(
    'maintenance_work_mem',
    least(1048576, greatest(65536, c.rows * (2 * a.atttypmod + 1024) / 1024))::text || 'kB',
    true
)
FROM pg_catalog.pg_attribute AS a,
    (SELECT count(*) AS rows FROM lastro.chunks WHERE embedding_model IS NOT NULL) AS c
WHERE a.attrelid = 'lastro.chunks'::regclass AND a.attname = 'embedding' AND NOT a.attisdropped
    AND current_setting('dynamic_shared_memory_type') = 'mmap';

-- name: add_vector_index
-- Owner only. Over rows that are there it is built about four times as fast as it grows with them.
CREATE INDEX IF NOT EXISTS chunks_embedding_idx ON lastro.chunks
    USING hnsw (embedding halfvec_cosine_ops) WITH (ef_construction = {ef_construction})
    WHERE status = 'published';

-- name: analyze_chunks
-- Owner only. What autovacuum would do within a minute: right after a first index of 2,000 chunks a
-- search took 74 ms of a processor, and 20 ms after this.
ANALYZE lastro.chunks;

-- name: active_embedder
SELECT id, version, dimension, fingerprint FROM lastro.active_embedder;

-- name: set_active_embedder
-- Keeps the first one: a second process finds no row and reads what is there.
INSERT INTO lastro.active_embedder (id, version, dimension, fingerprint)
VALUES (%(id)s, %(version)s, %(dimension)s, %(fingerprint)s)
ON CONFLICT ON CONSTRAINT active_embedder_pkey DO NOTHING;

-- name: cached_embeddings
-- Index embedding_cache_pkey.
SELECT text_hash, embedding
FROM lastro.embedding_cache
WHERE fingerprint = %(fingerprint)s AND text_hash = ANY (%(hashes)b::bytea[]);

-- name: cache_embeddings
-- In one order, so that two writers never wait for each other crosswise. first_project is the
-- project whose text it is, 0 for a question, null for a text of no project.
INSERT INTO lastro.embedding_cache (fingerprint, text_hash, embedding, first_project)
SELECT %(fingerprint)s, h.text_hash, h.embedding, %(first_project)s::bigint
FROM unnest(%(hashes)b::bytea[], %(embeddings)b::bytea[]) AS h (text_hash, embedding)
ORDER BY h.text_hash
ON CONFLICT ON CONSTRAINT embedding_cache_pkey DO NOTHING;

-- name: chunks_without_vector
-- Of incomplete documents, behind a place, so that a row that has none to get holds up no other;
-- index documents_incomplete_idx.
SELECT c.id, c.document_id, c.ordinal, d.place, coalesce(c.line_start, 0) AS line_start,
    coalesce(c.line_end, 0) AS line_end, c.title, c.heading_text, c.context, c.content
FROM lastro.documents AS d
JOIN lastro.chunks AS c ON c.project_id = d.project_id AND c.document_id = d.id
WHERE d.project_id = %(project_id)s AND d.state = 'incomplete' AND c.embedding_model IS NULL
    AND (c.document_id, c.ordinal) > (%(after_document)s::uuid, %(after_ordinal)s::integer)
ORDER BY c.document_id, c.ordinal
LIMIT %(limit)s;

-- name: count_without_vector
-- Rows of incomplete documents that have none; index documents_incomplete_idx.
SELECT count(*)
FROM lastro.documents AS d
JOIN lastro.chunks AS c ON c.project_id = d.project_id AND c.document_id = d.id
WHERE d.project_id = %(project_id)s AND d.state = 'incomplete' AND c.embedding_model IS NULL;

-- name: set_embeddings
-- Index chunks_pkey.
UPDATE lastro.chunks AS c
SET embedding = v.embedding::halfvec, embedding_model = %(model)s, embedding_version = %(version)s
FROM unnest(%(ids)s::uuid[], %(embeddings)s::text[]) AS v (id, embedding)
WHERE c.project_id = %(project_id)s AND c.id = v.id;

-- name: complete_documents
-- Incomplete documents of which every chunk has a vector now; those of blank can have none.
UPDATE lastro.documents AS d SET state = 'complete'
WHERE d.project_id = %(project_id)s AND d.state = 'incomplete'
    AND NOT EXISTS (
        SELECT FROM lastro.chunks AS c
        WHERE c.project_id = d.project_id AND c.document_id = d.id AND c.embedding_model IS NULL
            AND c.id <> ALL (%(blank)s::uuid[])
    );
