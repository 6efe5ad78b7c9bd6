-- The event log. Events are written once and never changed: what is counted in their session's row,
-- under its lock, stays true, and so many events of a session are always the same ones.
CREATE TABLE lastro.sessions (
    project_id bigint NOT NULL,
    id text NOT NULL,
    -- what its event session.title of the highest seq says
    title text,
    title_seq bigint,
    event_count bigint NOT NULL DEFAULT 0,
    -- those of the types that a search may find (lastro.event.INDEXED_TYPES)
    indexed_count bigint NOT NULL DEFAULT 0,
    last_seq bigint NOT NULL DEFAULT 0,
    -- the earliest time that an event tells
    started_at timestamptz,
    ended_at timestamptz,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sessions_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT sessions_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT sessions_id CHECK (id <> '' AND octet_length(id) <= 1000),
    CONSTRAINT sessions_title CHECK ((title IS NULL) = (title_seq IS NULL))
);

-- An event, of any type. seq orders it; occurred_at is what it tells of itself.
CREATE TABLE lastro.events (
    project_id bigint NOT NULL,
    session_id text NOT NULL,
    seq bigint NOT NULL,
    id text NOT NULL,
    type text NOT NULL,
    actor text,
    content text NOT NULL,
    payload jsonb,
    occurred_at timestamptz,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT events_pkey PRIMARY KEY (project_id, session_id, seq),
    CONSTRAINT events_id_key UNIQUE (project_id, session_id, id),
    CONSTRAINT events_session_fkey FOREIGN KEY (project_id, session_id)
        REFERENCES lastro.sessions (project_id, id) ON DELETE CASCADE,
    CONSTRAINT events_id CHECK (id <> '' AND octet_length(id) <= 1000),
    CONSTRAINT events_seq CHECK (seq >= 0),
    CONSTRAINT events_type CHECK (type <> ''),
    CONSTRAINT events_payload CHECK (jsonb_typeof(payload) = 'object')
);

ALTER TABLE lastro.sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY sessions_project ON lastro.sessions TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY events_project ON lastro.events TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.sessions, lastro.events TO lastro_app;

-- ANALYZE keeps no sample of what people said; see migration 5.
ALTER TABLE lastro.sessions ALTER COLUMN title SET STATISTICS 0;
ALTER TABLE lastro.events
    ALTER COLUMN actor SET STATISTICS 0,
    ALTER COLUMN content SET STATISTICS 0,
    ALTER COLUMN payload SET STATISTICS 0;
