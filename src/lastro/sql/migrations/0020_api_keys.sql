-- Keys of the HTTP service. A key names its project and its id in its own text, so it is looked up
-- by its primary key under row-level security like any other row; see docs/adr/0039. Of its secret
-- only the hash is here: SHA-256 is enough, since 256 random bits cannot be guessed, however fast
-- guesses are. A slow hash is for what people make up.
CREATE TABLE lastro.api_keys (
    project_id bigint NOT NULL,
    -- the prefix in the key's text by which it is looked up
    id text NOT NULL,
    role text NOT NULL,
    label text,
    secret_hash bytea NOT NULL,
    -- the secret before the last rotation, for as long as it is taken
    former_hash bytea,
    former_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    -- to the minute: written at most once in one, and some time after the use
    last_used_at timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT api_keys_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT api_keys_id CHECK (id ~ '^[0-9a-f]{12}$'),
    CONSTRAINT api_keys_role CHECK (role IN ('viewer', 'editor', 'maintainer', 'admin')),
    CONSTRAINT api_keys_label CHECK (length(label) BETWEEN 1 AND 200),
    CONSTRAINT api_keys_hash CHECK (octet_length(secret_hash) = 32),
    CONSTRAINT api_keys_former CHECK (
        (former_hash IS NULL) = (former_until IS NULL) AND octet_length(former_hash) = 32
    )
);

-- ANALYZE keeps values of columns; no plan needs those of these.
ALTER TABLE lastro.api_keys
    ALTER COLUMN label SET STATISTICS 0,
    ALTER COLUMN secret_hash SET STATISTICS 0,
    ALTER COLUMN former_hash SET STATISTICS 0;

ALTER TABLE lastro.api_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY api_keys_project ON lastro.api_keys TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.api_keys TO lastro_app;
