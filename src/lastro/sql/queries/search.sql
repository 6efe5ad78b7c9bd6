-- The two legs and what completes them; called only by store/search.py. {filter} is the compiled
-- hard filter over the view searchable, which itself keeps published rows of visible projects only.

-- name: project_statistics
-- N and mean length by language, at the last refresh; index corpus_stats_pkey.
SELECT language, chunk_count, mean_length, mean_lexemes
FROM lastro.corpus_stats
WHERE project_id = %(project_id)s
ORDER BY chunk_count DESC, language;

-- name: parse_query
-- Each spelling of each query word under each language, as lexemes, with their frequency.
-- Index lexeme_stats_pkey; a join would read the whole table while it has no statistics.
SELECT
    w.word_no, w.form_no, l.language, x.lexeme,
    coalesce(
        (
            SELECT s.df FROM lastro.lexeme_stats AS s
            WHERE s.project_id = %(project_id)s::bigint
                AND s.language = l.language AND s.lexeme = x.lexeme
        ),
        0
    )
FROM unnest(%(forms)s::text[], %(word_nos)s::integer[], %(form_nos)s::integer[])
    AS w (form, word_no, form_no)
CROSS JOIN unnest(%(languages)s::text[]) AS l (language)
CROSS JOIN LATERAL unnest(tsvector_to_array(lastro.text_vector(l.language, w.form))) AS x (lexeme);

-- name: count_up_to
-- How many rows the filter keeps, counted no further than the limit. Whether they have a vector is
-- not asked: without a filter the index chunks_published_idx answers alone.
SELECT count(*) FROM (
    SELECT FROM lastro.searchable
    WHERE {filter}
    LIMIT %(limit)s
) AS kept;

-- name: vector_leg_exact
-- Cosine with every row that the filter keeps; ties by place. No vector index, on purpose.
WITH kept AS MATERIALIZED (
    SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
        effective_at, embedding
    FROM lastro.searchable
    WHERE {filter} AND embedding_model IS NOT NULL
)
SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
    extract(epoch FROM now() - effective_at)::float8 / 86400 AS age_days,
    1 - (embedding <=> %(embedding)s::halfvec) AS score
FROM kept
ORDER BY embedding <=> %(embedding)s::halfvec, place, ordinal, id
LIMIT %(depth)s;

-- name: vector_leg_hnsw
-- Nearest rows through chunks_embedding_idx, scanned on until the filter has let enough through.
WITH nearest AS MATERIALIZED (
    SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
        effective_at, embedding <=> %(embedding)s::halfvec AS distance
    FROM lastro.searchable
    WHERE {filter}
    ORDER BY embedding <=> %(embedding)s::halfvec
    LIMIT %(depth)s
)
SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
    extract(epoch FROM now() - effective_at)::float8 / 86400 AS age_days,
    1 - distance AS score
FROM nearest
ORDER BY distance, place, ordinal, id;

-- name: lexical_leg
-- Rows that match a candidate term, through chunks_search_vector_idx, scored by every term and
-- read no further than the limit (matched tells whether it was reached); ties by place.
-- The concatenation fetches a long tsvector out of its TOAST table once, not once a term.
WITH gated AS MATERIALIZED (
    SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
        effective_at, token_count, search_vector || ''::tsvector AS search_vector
    FROM lastro.searchable
    WHERE {filter} AND {gate}
    LIMIT %(row_limit)s
),
scored AS MATERIALIZED (
    SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
        effective_at, {score} AS score
    FROM gated AS r
)
SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
    extract(epoch FROM now() - effective_at)::float8 / 86400 AS age_days, score,
    count(*) OVER () AS matched
FROM scored
ORDER BY score DESC, place, ordinal, id
LIMIT %(depth)s;

-- name: complete_scores
-- Both signals for candidates that one leg alone found; index chunks_pkey.
WITH named AS MATERIALIZED (
    SELECT id, language, token_count, search_vector || ''::tsvector AS search_vector,
        {cosine} AS vector_score
    FROM lastro.searchable
    WHERE project_id = %(project_id)s::bigint AND id = ANY (%(ids)s::uuid[])
)
SELECT id, vector_score, {lexical} AS lexical_score FROM named AS r;

-- name: lexical_parts
-- What the lexical score of named rows is made of, for calibration; index chunks_pkey.
WITH named AS MATERIALIZED (
    SELECT id, language, token_count, search_vector || ''::tsvector AS search_vector
    FROM lastro.searchable
    WHERE project_id = %(project_id)s::bigint AND id = ANY (%(ids)s::uuid[])
)
SELECT id, {coverage} AS coverage, {length_ratio} AS length_ratio FROM named AS r WHERE {match};

-- name: index_state
-- Documents that lack vectors, by documents_incomplete_idx, and sources that a run works on or was
-- interrupted at, by sources_pkey.
SELECT
    (
        SELECT count(*) FROM lastro.documents
        WHERE project_id = %(project_id)s AND state = 'incomplete'
    ),
    (
        SELECT count(*) FROM lastro.sources
        WHERE project_id = %(project_id)s AND run_started_at IS NOT NULL
    );

-- name: fetch_hits
-- Content and citation of the few hits, from the table, under the policy; index chunks_pkey.
SELECT
    c.id, c.scope, c.content, c.source_path, c.session_id, c.event_id, c.entity_key, c.entity_type,
    c.heading_path, c.anchor, c.line_start, c.line_end, d.title,
    d.source || coalesce('@' || s.ref, '') AS source, d.revision,
    d.adr_number, d.adr_status, d.adr_date, d.adr_superseded_by
FROM lastro.chunks AS c
JOIN lastro.documents AS d ON d.project_id = c.project_id AND d.id = c.document_id
LEFT JOIN lastro.sources AS s ON s.project_id = d.project_id AND s.name = d.source
WHERE c.project_id = %(project_id)s::bigint AND c.id = ANY (%(ids)s::uuid[])
    AND c.status = 'published';
