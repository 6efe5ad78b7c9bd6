-- A project's golden sets: each import of a changed content is a version, and none is overwritten.
-- questions is the array of canonical lines (lastro.golden.question_json); content_hash is theirs.
CREATE TABLE lastro.golden_sets (
    project_id bigint NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    content_hash text NOT NULL,
    questions jsonb NOT NULL,
    imported_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT golden_sets_pkey PRIMARY KEY (project_id, name, version),
    CONSTRAINT golden_sets_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT golden_sets_version CHECK (version >= 1),
    CONSTRAINT golden_sets_hash CHECK (content_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT golden_sets_questions CHECK (jsonb_typeof(questions) = 'array')
);

ALTER TABLE lastro.golden_sets ENABLE ROW LEVEL SECURITY;
CREATE POLICY golden_sets_project ON lastro.golden_sets TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.golden_sets TO lastro_app;
