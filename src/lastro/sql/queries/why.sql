-- Where an expected passage stands in a search; called only by store/why.py. {filter} is compiled
-- as for the legs, and rows are ordered as there.

-- name: file_places
-- Every file that the index knows; index documents_place_key.
SELECT place FROM lastro.documents
WHERE project_id = %(project_id)s::bigint AND kind = 'file'
GROUP BY place
ORDER BY place;

-- name: expected_chunks
-- The chunks of the named files, sessions or entries, published or not, in the order of their text.
-- Indexes documents_place_key and chunks_ordinal_key.
SELECT
    c.id, d.source, c.source_path AS path,
    coalesce(c.heading_path, ARRAY[]::text[]) AS heading_path, c.anchor, c.line_start, c.line_end,
    c.session_id AS session, c.event_id AS event, c.entity_key AS entity, c.scope, c.status, c.embedding_model IS NOT NULL AS has_vector
FROM lastro.documents AS d
JOIN lastro.chunks AS c ON c.project_id = d.project_id AND c.document_id = d.id
WHERE d.project_id = %(project_id)s::bigint AND d.kind = %(kind)s::text
    AND d.place = ANY (%(places)s::text[])
ORDER BY d.place, d.source, c.ordinal, c.id;

-- name: kept_chunks
-- Which of the named rows a search may see; index chunks_pkey.
SELECT id FROM lastro.searchable WHERE {filter} AND id = ANY (%(ids)s::uuid[]);

-- name: vector_ranks
-- Cosine and rank of the named rows among all that the filter keeps. Reads each of those, on
-- purpose: the vector index tells no rank beyond its depth.
WITH kept AS MATERIALIZED (
    SELECT id, place, ordinal, embedding <=> %(embedding)s::halfvec AS distance
    FROM lastro.searchable
    WHERE {filter} AND embedding_model IS NOT NULL
),
placed AS (
    SELECT id, 1 - distance AS score,
        row_number() OVER (ORDER BY distance, place, ordinal, id) AS rank,
        count(*) OVER () AS total
    FROM kept
)
SELECT id, score, rank, total FROM placed WHERE id = ANY (%(ids)s::uuid[]);

-- name: lexical_ranks
-- Lexical score and rank of the named rows among all that hold any word of the query; index
-- chunks_search_vector_idx.
WITH kept AS MATERIALIZED (
    SELECT id, language, place, ordinal, token_count,
        ts_delete(search_vector, ''::text) AS search_vector
    FROM lastro.searchable
    WHERE {filter} AND {match}
),
scored AS MATERIALIZED (
    SELECT id, place, ordinal, {score} AS score FROM kept AS r
),
placed AS (
    SELECT id, score, row_number() OVER (ORDER BY score DESC, place, ordinal, id) AS rank,
        count(*) OVER () AS total
    FROM scored
)
SELECT id, score, rank, total FROM placed WHERE id = ANY (%(ids)s::uuid[]);

-- name: held_words
-- Of each word of the query, whether each of some rows holds it; index chunks_pkey.
SELECT id, ARRAY[{held}]::boolean[]
FROM lastro.searchable
WHERE project_id = %(project_id)s::bigint AND id = ANY (%(ids)s::uuid[]);
