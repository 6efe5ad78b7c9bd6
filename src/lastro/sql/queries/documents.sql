-- Documents and their chunks; called only by store/documents.py.

-- name: source_documents
-- What the index holds of a source; index documents_place_key.
SELECT id, place, scope, content_hash, fingerprint, state, revision
FROM lastro.documents
WHERE project_id = %(project_id)s AND kind = 'file' AND source = %(source)s
ORDER BY place;

-- name: delete_documents
-- With their chunks, by the foreign key; index documents_pkey.
DELETE FROM lastro.documents
WHERE project_id = %(project_id)s AND id = ANY (%(ids)s::uuid[]);

-- name: move_revision
-- The ref moved; chunks are not touched. Index documents_place_key.
UPDATE lastro.documents SET revision = %(revision)s
WHERE project_id = %(project_id)s AND kind = 'file' AND source = %(source)s
    AND revision IS DISTINCT FROM %(revision)s;

-- name: stage_rows
-- PostgreSQL refuses COPY into a table under row-level security: copy beside it, then insert.
-- {into} is documents or chunks.
CREATE TEMPORARY TABLE incoming ON COMMIT DROP AS SELECT {columns} FROM {into} WITH NO DATA;

-- name: copy_rows
-- The columns are composed, since a chunk's embedding is there only once a vector is.
COPY pg_temp.incoming ({columns}) FROM STDIN (FORMAT BINARY);

-- name: insert_rows
-- In a fixed order, so that two writers never wait for each other crosswise.
INSERT INTO {into} ({columns}) SELECT {columns} FROM pg_temp.incoming ORDER BY {order};

-- name: drop_staged_rows
DROP TABLE pg_temp.incoming;

-- name: extend_document
-- More chunks come to a document; index documents_pkey.
UPDATE lastro.documents SET
    title = %(title)s::text,
    content_hash = %(content_hash)s::text,
    state = CASE WHEN state = 'incomplete' THEN state ELSE %(state)s::text END,
    metadata = %(metadata)s::jsonb,
    indexed_at = now()
WHERE project_id = %(project_id)s::bigint AND id = %(id)s::uuid;

-- name: index_words
-- The words of rows that were just written, which wait beside chunks_search_vector_idx.
SELECT lastro.index_words();

-- name: count_chunks
-- Index chunks_published_idx.
SELECT count(*) FROM lastro.chunks WHERE project_id = %(project_id)s AND status = 'published';

-- name: statistics_are_current
-- Whether the statistics were counted after every change of rows: a new document is younger than
-- they are, and a removal alone leaves fewer chunks. Index chunks_published_idx.
SELECT s.chunks = c.chunks AND (c.chunks = 0 OR d.newest < s.refreshed_at)
FROM
    (
        SELECT coalesce(sum(chunk_count), 0) AS chunks, min(refreshed_at) AS refreshed_at
        FROM lastro.corpus_stats WHERE project_id = %(project_id)s
    ) AS s,
    (
        SELECT count(*) AS chunks
        FROM lastro.chunks WHERE project_id = %(project_id)s AND status = 'published'
    ) AS c,
    (
        SELECT max(indexed_at) AS newest
        FROM lastro.documents WHERE project_id = %(project_id)s
    ) AS d;

-- name: delete_lexeme_stats
DELETE FROM lastro.lexeme_stats WHERE project_id = %(project_id)s;

-- name: insert_lexeme_stats
-- For each language of corpus_stats, which is refreshed before; ts_stat takes its query as text.
INSERT INTO lastro.lexeme_stats (project_id, language, lexeme, df)
SELECT c.project_id, c.language, s.word, s.ndoc
FROM lastro.corpus_stats AS c
CROSS JOIN LATERAL ts_stat(
    'SELECT search_vector FROM lastro.chunks WHERE status = ''published'' AND project_id = '
    || c.project_id || ' AND language = ' || quote_literal(c.language)
) AS s
WHERE c.project_id = %(project_id)s;

-- name: delete_corpus_stats
DELETE FROM lastro.corpus_stats WHERE project_id = %(project_id)s;

-- name: insert_corpus_stats
INSERT INTO lastro.corpus_stats (project_id, language, chunk_count, mean_length, mean_lexemes)
SELECT %(project_id)s, language, count(*), avg(token_count), avg(length(search_vector))
FROM lastro.chunks
WHERE project_id = %(project_id)s AND status = 'published'
GROUP BY language;
