-- The two legs and what completes them; called only by store/search.py. {filter} is the compiled
-- hard filter over the view searchable, which itself keeps published rows of visible projects only.

-- name: opening
-- A project by its name, the active embedder and the width of the vectors, each null where there is
-- none; index projects_slug_key.
SELECT p.id, p.slug, p.name, e.id, e.version, e.dimension, e.fingerprint,
    (
        SELECT a.atttypmod FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = 'lastro.chunks'::regclass AND a.attname = 'embedding'
            AND NOT a.attisdropped
    )
FROM lastro.projects AS p
LEFT JOIN lastro.active_embedder AS e ON true
WHERE p.slug = %(slug)s;

-- name: corpus
-- By language, most rows first, rows and mean lengths at the last refresh (corpus_stats_pkey); rows
-- in the vector index by the server's last count, 0 before one, and how it was built, null for as
-- pgvector does by itself; published documents that lack
-- vectors (documents_incomplete_idx); sources that a run works on or was interrupted at
-- (sources_pkey); whether the project has words of its own (words_pkey); whose the vectors are, and
-- whether that is true of the view as it is now: it is made anew at each switch, which a snapshot
-- that was taken before does not see. Reading active_embedder holds a switch off until the
-- transaction ends (switch.sql, lock_searches).
SELECT s.languages, s.counts, s.lengths, s.lexemes,
    coalesce(greatest(i.reltuples, 0), 0)::bigint,
    (
        SELECT o.option_value::integer FROM pg_catalog.pg_options_to_table(i.reloptions) AS o
        WHERE o.option_name = 'ef_construction'
    ),
    (
        SELECT count(*) FROM lastro.documents
        WHERE project_id = %(project_id)s AND state = 'incomplete'
            AND (kind <> 'entity' OR metadata ->> 'status' = 'published')
    ),
    (
        SELECT count(*) FROM lastro.sources
        WHERE project_id = %(project_id)s AND run_started_at IS NOT NULL
    ),
    EXISTS (SELECT FROM lastro.words WHERE project_id = %(project_id)s),
    (SELECT fingerprint FROM lastro.active_embedder),
    to_regclass('lastro.searchable') = (
        SELECT c.oid FROM pg_catalog.pg_class AS c
        WHERE c.relname = 'searchable' AND c.relnamespace = 'lastro'::regnamespace
    )
FROM (
    SELECT
        array_agg(language ORDER BY chunk_count DESC, language) AS languages,
        array_agg(chunk_count ORDER BY chunk_count DESC, language) AS counts,
        array_agg(mean_length ORDER BY chunk_count DESC, language) AS lengths,
        array_agg(mean_lexemes ORDER BY chunk_count DESC, language) AS lexemes
    FROM lastro.corpus_stats
    WHERE project_id = %(project_id)s
) AS s
LEFT JOIN pg_catalog.pg_class AS i ON i.oid = to_regclass('lastro.chunks_embedding_idx');

-- name: parse_query
-- Each spelling of each query word under each language, as lexemes, with their frequency and,
-- where those are asked for, their first places in it.
-- Index lexeme_stats_pkey; a join would read the whole table while it has no statistics. The arrays
-- stand in subqueries so that their lengths are not seen: else it would be planned anew each time,
-- which takes as long as doing it.
SELECT
    w.word_no, w.form_no, l.language, x.lexeme,
    coalesce(
        (
            SELECT s.df FROM lastro.lexeme_stats AS s
            WHERE s.project_id = %(project_id)s::bigint
                AND s.language = l.language AND s.lexeme = x.lexeme
        ),
        0
    ),
    CASE WHEN (SELECT %(placed)s::boolean) THEN (
        SELECT p.positions[1] FROM unnest(lastro.text_vector(l.language, w.form)) AS p
        WHERE p.lexeme = x.lexeme
    ) ELSE 1 END
FROM unnest(
    (SELECT %(forms)s::text[]), (SELECT %(word_nos)s::integer[]), (SELECT %(form_nos)s::integer[])
) AS w (form, word_no, form_no)
CROSS JOIN unnest((SELECT %(languages)s::text[])) AS l (language)
CROSS JOIN LATERAL unnest(tsvector_to_array(lastro.text_vector(l.language, w.form))) AS x (lexeme);

-- name: count_up_to
-- How many rows the filter keeps, counted no further than the limit. Whether they have a vector is
-- not asked.
SELECT count(*) FROM (
    SELECT FROM lastro.searchable
    WHERE {filter}
    LIMIT %(limit)s
) AS kept;

-- name: kept_of_sample
-- How many of some rows the filter keeps, and of how many: the first ones by their ids, which are
-- hashes, so that no order in which rows were stored tells. Index chunks_pkey.
SELECT count(*) FILTER (WHERE {filter}), count(*) FROM (
    SELECT project_id, scope, source_path, entity_type, attributes
    FROM lastro.searchable
    WHERE project_id = %(project_id)s::bigint
    ORDER BY id
    LIMIT %(limit)s
) AS sample;

-- name: vector_leg_exact
-- Cosine with every row that the filter keeps, or with kept_limit of them, which matched counts;
-- ties by place. No vector index, on purpose. The words of those that are left are read by
-- chunks_pkey.
WITH kept AS MATERIALIZED (
    SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
        effective_at, embedding <=> %(embedding)s::halfvec AS distance
    FROM lastro.searchable
    WHERE {filter} AND embedding_model IS NOT NULL
    LIMIT %(kept_limit)s
),
nearest AS MATERIALIZED (
    SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
        effective_at, distance
    FROM kept
    ORDER BY distance, place, ordinal, id
    LIMIT %(depth)s
)
SELECT id, document_id, language, place, ordinal, char_start, char_end,
    rule_weight::numeric::float8 AS rule_weight,
    date_part('epoch', now() - effective_at) / 86400 AS age_days,
    1 - distance AS score, {lexical} AS other, (SELECT count(*) FROM kept) AS matched
FROM (
    SELECT n.id, n.document_id, n.language, n.place, n.ordinal, n.char_start, n.char_end,
        n.rule_weight, n.effective_at, n.distance, s.token_count,
        ts_delete(s.search_vector, ''::text) AS search_vector
    FROM nearest AS n
    JOIN lastro.searchable AS s ON s.project_id = %(project_id)s::bigint AND s.id = n.id
    OFFSET 0
) AS r
ORDER BY distance, place, ordinal, id;

-- name: vector_leg_hnsw
-- Nearest rows through chunks_embedding_idx, scanned on until the filter has let enough through.
-- Before there is that index every row is sorted, and those without a vector come last.
WITH nearest AS MATERIALIZED (
    SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
        effective_at, token_count, ts_delete(search_vector, ''::text) AS search_vector,
        embedding <=> %(embedding)s::halfvec AS distance
    FROM lastro.searchable
    WHERE {filter}
    ORDER BY embedding <=> %(embedding)s::halfvec
    LIMIT %(depth)s
)
SELECT id, document_id, language, place, ordinal, char_start, char_end,
    rule_weight::numeric::float8 AS rule_weight,
    date_part('epoch', now() - effective_at) / 86400 AS age_days,
    1 - distance AS score, {lexical} AS other, 0::bigint AS matched
FROM nearest AS r
WHERE distance IS NOT NULL
ORDER BY distance, place, ordinal, id;

-- name: lexical_leg
-- Rows that match a candidate term, through chunks_search_vector_idx, scored by every term and
-- read no further than the limit ({matched} tells whether it was reached); ties by place.
-- ts_delete of a lexeme that no row holds fetches a long tsvector out of its TOAST table once, not
-- once a term, and copies no other; the limit and the offset keep the steps apart without storing
-- their rows. The vectors of the best alone are fetched.
SELECT id, document_id, language, place, ordinal, char_start, char_end,
    rule_weight::numeric::float8 AS rule_weight,
    date_part('epoch', now() - effective_at) / 86400 AS age_days, score, {cosine} AS other, matched
FROM (
    SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
        effective_at, score, embedding, {matched} AS matched
    FROM (
        SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
            effective_at, {score} AS score, embedding
        FROM (
            SELECT id, document_id, language, place, ordinal, char_start, char_end, rule_weight,
                effective_at, token_count, ts_delete(search_vector, ''::text) AS search_vector,
                {embedding} AS embedding
            FROM lastro.searchable
            WHERE {filter} AND {gate}
            LIMIT %(row_limit)s
        ) AS r
        OFFSET 0
    ) AS scored
    ORDER BY score DESC, place, ordinal, id
    LIMIT %(depth)s
) AS best
ORDER BY score DESC, place, ordinal, id;

-- name: lexical_parts
-- What the lexical score of named rows is made of, for calibration; index chunks_pkey.
WITH named AS MATERIALIZED (
    SELECT id, language, token_count, ts_delete(search_vector, ''::text) AS search_vector
    FROM lastro.searchable
    WHERE project_id = %(project_id)s::bigint AND id = ANY (%(ids)s::uuid[])
)
SELECT id, {coverage} AS coverage, {length_ratio} AS length_ratio FROM named AS r WHERE {match};

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
