-- Runs of golden sets, numbered within their project. body is the whole run (lastro.runs): what
-- every question got, and all that is needed to repeat it; the columns are what lists need.
CREATE TABLE lastro.evaluation_runs (
    project_id bigint NOT NULL,
    number integer NOT NULL,
    golden_name text NOT NULL,
    golden_hash text NOT NULL,
    profile_name text NOT NULL,
    started_at timestamptz NOT NULL,
    body jsonb NOT NULL,
    CONSTRAINT evaluation_runs_pkey PRIMARY KEY (project_id, number),
    CONSTRAINT evaluation_runs_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT evaluation_runs_number CHECK (number >= 1),
    CONSTRAINT evaluation_runs_hash CHECK (golden_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT evaluation_runs_body CHECK (jsonb_typeof(body) = 'object')
);

ALTER TABLE lastro.evaluation_runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY evaluation_runs_project ON lastro.evaluation_runs TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.evaluation_runs TO lastro_app;
