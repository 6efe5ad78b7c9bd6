-- What embedding cost: a row for each call of an embedder, written with the vectors that it made.

-- tokens are those that the provider counted, cost is what the price of that moment makes of them;
-- null where nobody counted or no price was set.
CREATE TABLE lastro.embedding_usage (
    project_id bigint NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    embedder text NOT NULL,
    version text NOT NULL,
    role text NOT NULL,
    texts integer NOT NULL,
    characters bigint NOT NULL,
    tokens bigint,
    duration_ms double precision NOT NULL,
    cost numeric,
    CONSTRAINT embedding_usage_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT embedding_usage_role CHECK (role IN ('query', 'document')),
    CONSTRAINT embedding_usage_counts CHECK (texts > 0 AND characters >= 0 AND tokens >= 0),
    CONSTRAINT embedding_usage_cost CHECK (cost >= 0)
);
CREATE INDEX embedding_usage_recorded_idx ON lastro.embedding_usage (project_id, recorded_at);

-- What a project spent in a month (UTC), with what calls under way may cost at most: it is added
-- before a call and corrected after it, so that two processes cannot pass a budget together.
CREATE TABLE lastro.embedding_spend (
    project_id bigint NOT NULL,
    month date NOT NULL,
    spent numeric NOT NULL,
    CONSTRAINT embedding_spend_pkey PRIMARY KEY (project_id, month),
    CONSTRAINT embedding_spend_spent CHECK (spent >= 0),
    CONSTRAINT embedding_spend_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE
);

-- The same in sums, of no project: texts of retrieval sets, looks at an embedder, and projects that
-- were erased, whose part of a bill stays without their name. tokens and cost are those known.
CREATE TABLE lastro.other_usage (
    month date NOT NULL,
    embedder text NOT NULL,
    version text NOT NULL,
    role text NOT NULL,
    calls bigint NOT NULL,
    texts bigint NOT NULL,
    characters bigint NOT NULL,
    tokens bigint,
    duration_ms double precision NOT NULL,
    cost numeric,
    CONSTRAINT other_usage_pkey PRIMARY KEY (month, embedder, version, role)
);

ALTER TABLE lastro.embedding_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.embedding_spend ENABLE ROW LEVEL SECURITY;
CREATE POLICY embedding_usage_project ON lastro.embedding_usage TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY embedding_spend_project ON lastro.embedding_spend TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.embedding_usage, lastro.embedding_spend TO lastro_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.other_usage TO lastro_app;
