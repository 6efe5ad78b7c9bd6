-- The first schema. Runs in one transaction, under the migration lock, as the tables' owner.
-- Every key and foreign key begins with project_id, and there is no trigger: Citus stays possible.

-- The one extension. Where the role may not create it, nothing else has been created yet.
CREATE EXTENSION IF NOT EXISTS vector;

-- The application's role: owns nothing, bypasses nothing, shared by all databases of a server.
DO $$
BEGIN
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'lastro_app') THEN
            CREATE ROLE lastro_app NOLOGIN NOSUPERUSER NOBYPASSRLS;
        END IF;
    EXCEPTION
        -- another database of this server made it at the same moment
        WHEN duplicate_object OR unique_violation THEN NULL;
    END;
    -- From PostgreSQL 16 on, who makes a role may grant it, but does not yet act as it.
    IF NOT pg_has_role(
        current_user, 'lastro_app',
        CASE WHEN current_setting('server_version_num')::integer >= 160000
            THEN 'SET' ELSE 'MEMBER' END
    ) THEN
        GRANT lastro_app TO CURRENT_USER;
    END IF;
END
$$;

GRANT USAGE ON SCHEMA lastro TO lastro_app;

-- Projects: the tenants. Names are visible to the application (it looks them up before it knows
-- which project a request may see) and it makes new ones; what belongs to one is not visible, nor
-- may one be changed or deleted, with all its rows, unseen.
CREATE TABLE lastro.projects (
    id bigint GENERATED ALWAYS AS IDENTITY,
    slug text NOT NULL,
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT projects_pkey PRIMARY KEY (id),
    CONSTRAINT projects_slug_key UNIQUE (slug),
    CONSTRAINT projects_slug_form CHECK (slug <> '' AND length(slug) <= 200)
);

-- Where a project's files come from: a repository at a ref, or a folder. revision is the commit
-- that the index stands at; null for files read as they lie.
CREATE TABLE lastro.sources (
    project_id bigint NOT NULL,
    name text NOT NULL,
    root text NOT NULL,
    ref text,
    revision text,
    indexed_at timestamptz,
    -- set while a run works on the source, so that one that was interrupted is seen
    run_started_at timestamptz,
    skipped jsonb NOT NULL DEFAULT '[]',
    CONSTRAINT sources_pkey PRIMARY KEY (project_id, name),
    CONSTRAINT sources_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE
);

-- One indexed thing: a file of a source, a session, or a knowledge-base entry.
CREATE TABLE lastro.documents (
    project_id bigint NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL,
    scope text NOT NULL,
    source text,
    place text NOT NULL,
    title text,
    language text NOT NULL,
    revision text,
    content_hash text NOT NULL,
    fingerprint text NOT NULL,
    state text NOT NULL,
    adr_number integer,
    adr_status text,
    adr_date text,
    adr_superseded_by text,
    metadata jsonb NOT NULL DEFAULT '{}',
    indexed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT documents_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT documents_place_key UNIQUE NULLS NOT DISTINCT (project_id, kind, source, place),
    CONSTRAINT documents_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT documents_kind CHECK (kind IN ('file', 'session', 'entity')),
    CONSTRAINT documents_scope CHECK (
        CASE kind
            WHEN 'file' THEN scope IN ('docs', 'adr') AND source IS NOT NULL
            WHEN 'session' THEN scope = 'session' AND source IS NULL
            ELSE scope = 'entity' AND source IS NULL
        END
    ),
    CONSTRAINT documents_state CHECK (state IN ('complete', 'incomplete'))
);

-- Words to lexemes by ISO language code. A CASE over literals, since text::regconfig is not
-- immutable; in Chinese and Japanese only the latin words reach the stemmer. The body is parsed
-- here and now, so that no caller's search_path can put another to_tsvector in its place.
CREATE FUNCTION lastro.text_vector(language text, body text) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN
    CASE language
        WHEN 'en' THEN to_tsvector('pg_catalog.english'::regconfig, body)
        WHEN 'pt' THEN to_tsvector('pg_catalog.portuguese'::regconfig, body)
        WHEN 'zh' THEN to_tsvector('pg_catalog.english'::regconfig, body)
        WHEN 'ja' THEN to_tsvector('pg_catalog.english'::regconfig, body)
        WHEN 'ar' THEN to_tsvector('pg_catalog.arabic'::regconfig, body)
        WHEN 'ca' THEN to_tsvector('pg_catalog.catalan'::regconfig, body)
        WHEN 'da' THEN to_tsvector('pg_catalog.danish'::regconfig, body)
        WHEN 'de' THEN to_tsvector('pg_catalog.german'::regconfig, body)
        WHEN 'el' THEN to_tsvector('pg_catalog.greek'::regconfig, body)
        WHEN 'es' THEN to_tsvector('pg_catalog.spanish'::regconfig, body)
        WHEN 'eu' THEN to_tsvector('pg_catalog.basque'::regconfig, body)
        WHEN 'fi' THEN to_tsvector('pg_catalog.finnish'::regconfig, body)
        WHEN 'fr' THEN to_tsvector('pg_catalog.french'::regconfig, body)
        WHEN 'ga' THEN to_tsvector('pg_catalog.irish'::regconfig, body)
        WHEN 'hi' THEN to_tsvector('pg_catalog.hindi'::regconfig, body)
        WHEN 'hu' THEN to_tsvector('pg_catalog.hungarian'::regconfig, body)
        WHEN 'hy' THEN to_tsvector('pg_catalog.armenian'::regconfig, body)
        WHEN 'id' THEN to_tsvector('pg_catalog.indonesian'::regconfig, body)
        WHEN 'it' THEN to_tsvector('pg_catalog.italian'::regconfig, body)
        WHEN 'lt' THEN to_tsvector('pg_catalog.lithuanian'::regconfig, body)
        WHEN 'ne' THEN to_tsvector('pg_catalog.nepali'::regconfig, body)
        WHEN 'nl' THEN to_tsvector('pg_catalog.dutch'::regconfig, body)
        WHEN 'no' THEN to_tsvector('pg_catalog.norwegian'::regconfig, body)
        WHEN 'ro' THEN to_tsvector('pg_catalog.romanian'::regconfig, body)
        WHEN 'ru' THEN to_tsvector('pg_catalog.russian'::regconfig, body)
        WHEN 'sr' THEN to_tsvector('pg_catalog.serbian'::regconfig, body)
        WHEN 'sv' THEN to_tsvector('pg_catalog.swedish'::regconfig, body)
        WHEN 'ta' THEN to_tsvector('pg_catalog.tamil'::regconfig, body)
        WHEN 'tr' THEN to_tsvector('pg_catalog.turkish'::regconfig, body)
        WHEN 'yi' THEN to_tsvector('pg_catalog.yiddish'::regconfig, body)
        ELSE to_tsvector('pg_catalog.simple'::regconfig, body)
    END;

-- The one table: text, lexical vector, vector (its column comes with the first vector, when the
-- width is known: queries/vectors.sql), origin and filter columns in one row.
CREATE TABLE lastro.chunks (
    project_id bigint NOT NULL,
    id uuid NOT NULL,
    document_id uuid NOT NULL,
    ordinal integer NOT NULL,
    scope text NOT NULL,
    source_path text,
    session_id text,
    entity_key text,
    event_id text,
    heading_path text[],
    anchor text,
    line_start integer,
    line_end integer,
    char_start integer NOT NULL,
    char_end integer NOT NULL,
    title text NOT NULL DEFAULT '',
    heading_text text NOT NULL DEFAULT '',
    content text NOT NULL,
    context text NOT NULL DEFAULT '',
    heading_extra text NOT NULL DEFAULT '',
    lexical_extra text NOT NULL DEFAULT '',
    language text NOT NULL,
    status text NOT NULL DEFAULT 'published',
    entity_type text,
    attributes jsonb NOT NULL DEFAULT '{}',
    rule_weight real NOT NULL DEFAULT 0,
    effective_at timestamptz,
    embedding_model text,
    embedding_version text,
    -- length of the text for the lexical score, in tokens (lexical.token_count)
    token_count integer NOT NULL,
    -- array_to_string is not immutable: hence heading_text. A run of Chinese is one lexeme to the
    -- parser, and junk: it is blanked here, and its words are in the extras.
    search_vector tsvector GENERATED ALWAYS AS (
        setweight(
            lastro.text_vector(
                language,
                regexp_replace(
                    title || ' ' || heading_text, '[\u2E80-\u9FFF\uF900-\uFAFF]+', ' ', 'g'
                ) || ' ' || heading_extra
            ),
            'A'
        )
        || setweight(
            lastro.text_vector(
                language,
                regexp_replace(content, '[\u2E80-\u9FFF\uF900-\uFAFF]+', ' ', 'g')
                || ' ' || lexical_extra
            ),
            'D'
        )
    ) STORED,
    CONSTRAINT chunks_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT chunks_ordinal_key UNIQUE (project_id, document_id, ordinal),
    CONSTRAINT chunks_document_fkey FOREIGN KEY (project_id, document_id)
        REFERENCES lastro.documents (project_id, id) ON DELETE CASCADE,
    CONSTRAINT chunks_ordinal CHECK (ordinal >= 0),
    CONSTRAINT chunks_range CHECK (0 <= char_start AND char_start < char_end),
    CONSTRAINT chunks_language CHECK (language ~ '^[a-z]{2}$'),
    CONSTRAINT chunks_status CHECK (status IN ('draft', 'published', 'archived')),
    CONSTRAINT chunks_embedding CHECK ((embedding_model IS NULL) = (embedding_version IS NULL)),
    CONSTRAINT chunks_origin CHECK ((
        CASE scope
            WHEN 'session' THEN
                session_id <> '' AND event_id <> ''
                AND num_nonnulls(source_path, entity_key, entity_type, heading_path, anchor,
                    line_start, line_end) = 0
            WHEN 'entity' THEN
                entity_key <> '' AND entity_type <> ''
                AND num_nonnulls(source_path, session_id, event_id, heading_path, anchor,
                    line_start, line_end) = 0
            WHEN 'docs' THEN
                source_path <> '' AND heading_path IS NOT NULL
                AND 1 <= line_start AND line_start <= line_end
                AND num_nonnulls(session_id, event_id, entity_key, entity_type) = 0
            WHEN 'adr' THEN
                source_path <> '' AND heading_path IS NOT NULL
                AND 1 <= line_start AND line_start <= line_end
                AND num_nonnulls(session_id, event_id, entity_key, entity_type) = 0
        END
    ) IS TRUE)
);

-- Lexical candidates; fastupdate off, so that no search pays for a pending list.
CREATE INDEX chunks_search_vector_idx ON lastro.chunks USING gin (search_vector)
    WITH (fastupdate = off) WHERE status = 'published';
-- Counting and reading what a filter keeps, for the exact vector leg.
CREATE INDEX chunks_published_idx ON lastro.chunks (project_id, scope) WHERE status = 'published';
CREATE INDEX chunks_path_idx ON lastro.chunks (project_id, source_path text_pattern_ops)
    WHERE status = 'published';

-- Documents that still lack vectors: few or none.
CREATE INDEX documents_incomplete_idx ON lastro.documents (project_id)
    WHERE state = 'incomplete';

-- Document frequency of each lexeme among a project's published rows of a language, as of the last
-- refresh: by language, since the same letters may be a name in one and a chance in another.
CREATE TABLE lastro.lexeme_stats (
    project_id bigint NOT NULL,
    language text NOT NULL,
    lexeme text NOT NULL,
    df integer NOT NULL,
    CONSTRAINT lexeme_stats_pkey PRIMARY KEY (project_id, language, lexeme),
    CONSTRAINT lexeme_stats_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE
);

-- The rest of what the lexical score needs, by language, at the same refresh.
CREATE TABLE lastro.corpus_stats (
    project_id bigint NOT NULL,
    language text NOT NULL,
    chunk_count integer NOT NULL,
    mean_length double precision NOT NULL,
    mean_lexemes double precision NOT NULL,
    refreshed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT corpus_stats_pkey PRIMARY KEY (project_id, language),
    CONSTRAINT corpus_stats_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE
);

-- The one active embedder of this database, for all its projects.
CREATE TABLE lastro.active_embedder (
    singleton boolean NOT NULL DEFAULT true,
    id text NOT NULL,
    version text NOT NULL,
    dimension integer NOT NULL,
    fingerprint text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT active_embedder_pkey PRIMARY KEY (singleton),
    CONSTRAINT active_embedder_singleton CHECK (singleton)
);

-- Vectors already paid for: float32, little-endian, by what made them and the hash of the text.
CREATE TABLE lastro.embedding_cache (
    fingerprint text NOT NULL,
    text_hash bytea NOT NULL,
    embedding bytea NOT NULL,
    CONSTRAINT embedding_cache_pkey PRIMARY KEY (fingerprint, text_hash)
);

-- Second wall. An empty or unset setting means no rows.
ALTER TABLE lastro.projects ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.chunks ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.lexeme_stats ENABLE ROW LEVEL SECURITY;
ALTER TABLE lastro.corpus_stats ENABLE ROW LEVEL SECURITY;
CREATE POLICY projects_read ON lastro.projects FOR SELECT TO lastro_app USING (true);
CREATE POLICY projects_create ON lastro.projects FOR INSERT TO lastro_app WITH CHECK (true);
CREATE POLICY projects_update ON lastro.projects FOR UPDATE TO lastro_app
    USING (id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY projects_delete ON lastro.projects FOR DELETE TO lastro_app
    USING (id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY sources_project ON lastro.sources TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY documents_project ON lastro.documents TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY chunks_project ON lastro.chunks TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY lexeme_stats_project ON lastro.lexeme_stats TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
CREATE POLICY corpus_stats_project ON lastro.corpus_stats TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));

-- What the legs read. @@ is not leakproof, so under a policy PostgreSQL gives up the GIN index;
-- a plain view of the owner with the same membership test keeps it. Content is not in it.
CREATE VIEW lastro.searchable AS
SELECT
    project_id, id, document_id, ordinal, char_start, char_end, scope,
    coalesce(source_path, session_id, entity_key) COLLATE "C" AS place,
    source_path, session_id, entity_key, entity_type, attributes, rule_weight, effective_at,
    language, status, token_count, search_vector, embedding_model
FROM lastro.chunks
WHERE status = 'published'
    AND project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]);

GRANT SELECT, INSERT, UPDATE, DELETE ON
    lastro.projects, lastro.sources, lastro.documents, lastro.chunks, lastro.lexeme_stats,
    lastro.corpus_stats, lastro.embedding_cache
TO lastro_app;
GRANT SELECT ON lastro.searchable, lastro.active_embedder, lastro.migrations TO lastro_app;
