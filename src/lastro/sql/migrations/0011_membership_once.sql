-- Which projects are visible is read once a statement and not once a row. The vector column, where
-- there is one, stays in the view.
DO $$
BEGIN
    EXECUTE format(
        'CREATE OR REPLACE VIEW lastro.searchable AS
        SELECT
            project_id, id, document_id, ordinal, char_start, char_end, scope,
            coalesce(source_path, session_id, entity_key) COLLATE "C" AS place,
            source_path, session_id, entity_key, entity_type, attributes, rule_weight, effective_at,
            language, status, token_count, search_vector, embedding_model%s
        FROM lastro.chunks
        WHERE status = ''published'' AND project_id = ANY (
            (SELECT nullif(current_setting(''lastro.projects'', true), '''')::bigint[])::bigint[]
        )',
        (
            SELECT ', embedding' FROM pg_catalog.pg_attribute
            WHERE attrelid = 'lastro.chunks'::regclass AND attname = 'embedding'
                AND NOT attisdropped
        )
    );
END
$$;
