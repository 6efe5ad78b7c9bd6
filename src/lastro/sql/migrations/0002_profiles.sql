-- Ranking profiles of a project and the scale of its cosines.

-- Cosines of random pairs of a project's published rows: mean and spread, at the last refresh.
CREATE TABLE lastro.vector_scale (
    project_id bigint NOT NULL,
    row_count integer NOT NULL,
    mean double precision NOT NULL,
    spread double precision NOT NULL,
    refreshed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT vector_scale_pkey PRIMARY KEY (project_id),
    CONSTRAINT vector_scale_spread CHECK (spread > 0),
    CONSTRAINT vector_scale_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE
);

-- How far the vectors know a project's own texts, at the last look (self_calibration.py).
CREATE TABLE lastro.self_checks (
    project_id bigint NOT NULL,
    embedder text NOT NULL,
    row_count integer NOT NULL,
    questions integer NOT NULL,
    agreement double precision,
    trust double precision,
    checked_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT self_checks_pkey PRIMARY KEY (project_id),
    CONSTRAINT self_checks_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE
);

-- Profiles that calibration made: never changed once they are there, a new one is a new version.
CREATE TABLE lastro.profiles (
    project_id bigint NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    body jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT profiles_pkey PRIMARY KEY (project_id, name, version),
    CONSTRAINT profiles_version CHECK (version > 0),
    CONSTRAINT profiles_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE
);

-- Which version a project answers with; the last one counts, and a roll-back takes it away. A null
-- version is the one that Lastro ships or the settings define.
CREATE TABLE lastro.profile_adoptions (
    project_id bigint NOT NULL,
    name text NOT NULL,
    step integer NOT NULL,
    version integer,
    adopted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT profile_adoptions_pkey PRIMARY KEY (project_id, name, step),
    CONSTRAINT profile_adoptions_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT profile_adoptions_profile_fkey FOREIGN KEY (project_id, name, version)
        REFERENCES lastro.profiles (project_id, name, version) ON DELETE CASCADE
);

ALTER TABLE lastro.vector_scale ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.self_checks ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.profiles ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.profile_adoptions ENABLE ROW LEVEL SECURITY;
CREATE POLICY vector_scale_project ON lastro.vector_scale TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY self_checks_project ON lastro.self_checks TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY profiles_project ON lastro.profiles TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY profile_adoptions_project ON lastro.profile_adoptions TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON
    lastro.vector_scale, lastro.self_checks, lastro.profiles, lastro.profile_adoptions
TO lastro_app;
