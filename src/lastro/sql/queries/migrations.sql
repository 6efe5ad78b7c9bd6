-- The schema's own ledger; called only by db/migrate.py.

-- name: migrations_exist
-- Whether this database was ever migrated. Not by to_regclass, which may answer from a cache
-- filled before this transaction waited for the lock.
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'lastro' AND c.relname = 'migrations'
);

-- name: applied_migrations
-- Steps applied, in order. The phase is read out of the row as it is: a ledger that was made
-- before phases were kept has no such column, and its steps were of the first release.
SELECT m.version, m.checksum, coalesce(to_jsonb(m) ->> 'phase', 'pre') AS phase
FROM lastro.migrations AS m
ORDER BY m.version;

-- name: record_migration
INSERT INTO lastro.migrations (version, name, checksum, phase)
VALUES (%(version)s, %(name)s, %(checksum)s, %(phase)s);

-- name: lock_schema
-- Until the transaction ends: one process at a time changes the schema.
SELECT pg_advisory_xact_lock(%(key)s);

-- name: rights
-- What the connected role may do here, before anything is created. Names are quoted where they
-- must be. Before PostgreSQL 16, who may create roles may grant any but a superuser's.
SELECT
    quote_ident(current_database()) AS database,
    quote_ident(current_user) AS role,
    getdatabaseencoding()::text AS encoding,
    has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
    r.rolcreaterole OR r.rolsuper AS may_create_roles,
    a.oid IS NOT NULL AS app_role_exists,
    coalesce(NOT (a.rolsuper OR a.rolbypassrls), false) AS app_role_is_held_back,
    coalesce(pg_has_role(current_user, a.oid, 'MEMBER WITH ADMIN OPTION'), false)
        OR (r.rolcreaterole AND current_setting('server_version_num')::integer < 160000)
        AS may_grant_app_role,
    coalesce(pg_has_role(current_user, a.oid, %(membership)s), false) AS may_act_as_app_role
FROM pg_catalog.pg_roles AS r
LEFT JOIN pg_catalog.pg_roles AS a ON a.rolname = 'lastro_app'
WHERE r.rolname = current_user;

-- name: vector_version
SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector';

-- name: create_extension
CREATE EXTENSION IF NOT EXISTS vector;

-- name: create_ledger
CREATE SCHEMA IF NOT EXISTS lastro;
CREATE TABLE lastro.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT migrations_pkey PRIMARY KEY (version)
);

-- name: add_phase
-- What a release that does not know a step must know of it: may it go on beside it?
ALTER TABLE lastro.migrations ADD COLUMN IF NOT EXISTS phase text NOT NULL DEFAULT 'pre'
    CONSTRAINT migrations_phase CHECK (phase IN ('pre', 'post'));
