-- The schema's own ledger; called only by db/migrate.py.

-- name: migrations_exist
-- Whether this database was ever migrated.
SELECT to_regclass('lastro.migrations') IS NOT NULL;

-- name: applied_migrations
-- Steps applied, in order.
SELECT version, checksum FROM lastro.migrations ORDER BY version;

-- name: record_migration
INSERT INTO lastro.migrations (version, name, checksum)
VALUES (%(version)s, %(name)s, %(checksum)s);

-- name: missing_rights
-- What the connected role may do here, before anything is created.
SELECT
    current_database(),
    current_user::text,
    has_database_privilege(current_database(), 'CREATE'),
    (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector'),
    to_regrole('lastro_app') IS NOT NULL,
    (SELECT rolcreaterole OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user),
    coalesce(pg_has_role(current_user, to_regrole('lastro_app')::oid, 'MEMBER'), false);

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
