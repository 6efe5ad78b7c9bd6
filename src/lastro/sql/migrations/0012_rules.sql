-- A project's rules, one a row: where a search asks for what "when" says and an entry is as "entry"
-- says, the weight counts. Both are objects of the filter language (docs/reference/rules.md); null
-- says nothing, and holds always.
CREATE TABLE lastro.rules (
    project_id bigint NOT NULL,
    name text NOT NULL,
    "when" jsonb,
    entry jsonb,
    weight double precision NOT NULL,
    reason text NOT NULL,
    CONSTRAINT rules_pkey PRIMARY KEY (project_id, name),
    CONSTRAINT rules_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT rules_name CHECK (length(name) BETWEEN 1 AND 200),
    CONSTRAINT rules_when CHECK (jsonb_typeof("when") = 'object'),
    CONSTRAINT rules_entry CHECK (jsonb_typeof(entry) = 'object'),
    CONSTRAINT rules_weight CHECK (weight BETWEEN -1000000 AND 1000000)
);

ALTER TABLE lastro.rules ENABLE ROW LEVEL SECURITY;
CREATE POLICY rules_project ON lastro.rules TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.rules TO lastro_app;

-- ANALYZE keeps no sample of what a person wrote; see migration 5.
ALTER TABLE lastro.rules
    ALTER COLUMN "when" SET STATISTICS 0,
    ALTER COLUMN entry SET STATISTICS 0,
    ALTER COLUMN reason SET STATISTICS 0;
