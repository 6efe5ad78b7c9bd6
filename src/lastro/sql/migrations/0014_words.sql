-- A project's own words, one term a row: what else it may be called, and whether it means itself
-- alone. key is the term as the words of a question are compared with it (lastro.words.key_of).
CREATE TABLE lastro.words (
    project_id bigint NOT NULL,
    key text NOT NULL,
    term text NOT NULL,
    means text[] NOT NULL DEFAULT '{}',
    protected boolean NOT NULL DEFAULT false,
    CONSTRAINT words_pkey PRIMARY KEY (project_id, key),
    CONSTRAINT words_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT words_term CHECK (key <> '' AND term <> '' AND length(key) <= 1000),
    CONSTRAINT words_means CHECK (protected OR cardinality(means) > 0)
);

ALTER TABLE lastro.words ENABLE ROW LEVEL SECURITY;
CREATE POLICY words_project ON lastro.words TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.words TO lastro_app;

-- ANALYZE keeps no sample of what a person wrote; see migration 5.
ALTER TABLE lastro.words
    ALTER COLUMN key SET STATISTICS 0,
    ALTER COLUMN term SET STATISTICS 0,
    ALTER COLUMN means SET STATISTICS 0;
