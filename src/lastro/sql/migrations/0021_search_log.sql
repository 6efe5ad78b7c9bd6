-- phase: pre
-- The log of searches: a row for each that was answered, written some time after it and kept for
-- some days. See docs/adr/0044.
CREATE TABLE lastro.search_log (
    project_id bigint NOT NULL,
    -- by the clock of the process that answered
    at timestamptz NOT NULL,
    id uuid NOT NULL,
    -- as the setting log_queries says: without its secrets, or not at all
    query text,
    -- equal for equal questions of the project, by the key of search_log_keys
    query_hash bytea,
    k integer NOT NULL,
    -- null for all of them
    scopes text[],
    filtered boolean NOT NULL,
    next_page boolean NOT NULL,
    hit_count integer NOT NULL,
    abstained boolean NOT NULL,
    degraded text[] NOT NULL,
    profile_name text NOT NULL,
    profile_version integer NOT NULL,
    took_ms double precision NOT NULL,
    -- in this order it is the order of a list, and the oldest rows lie together
    CONSTRAINT search_log_pkey PRIMARY KEY (project_id, at, id),
    CONSTRAINT search_log_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT search_log_query CHECK (query IS NULL OR query_hash IS NOT NULL),
    CONSTRAINT search_log_hash CHECK (octet_length(query_hash) = 16),
    CONSTRAINT search_log_counts CHECK (k > 0 AND hit_count >= 0 AND took_ms >= 0)
);

-- What a project's questions are hashed with: random, made with its first row. In a table of its
-- own, so that a dump can leave it out, and who may read the log alone cannot try guesses.
CREATE TABLE lastro.search_log_keys (
    project_id bigint NOT NULL,
    key bytea NOT NULL,
    CONSTRAINT search_log_keys_pkey PRIMARY KEY (project_id),
    CONSTRAINT search_log_keys_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT search_log_keys_key CHECK (octet_length(key) = 32)
);

-- ANALYZE keeps no sample of what people asked; see migration 5.
ALTER TABLE lastro.search_log
    ALTER COLUMN query SET STATISTICS 0,
    ALTER COLUMN query_hash SET STATISTICS 0;
ALTER TABLE lastro.search_log_keys ALTER COLUMN key SET STATISTICS 0;

ALTER TABLE lastro.search_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.search_log_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY search_log_project ON lastro.search_log TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY search_log_keys_project ON lastro.search_log_keys TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.search_log, lastro.search_log_keys TO lastro_app;
