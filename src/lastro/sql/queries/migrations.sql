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
-- Steps applied, in order.
SELECT version, checksum FROM lastro.migrations ORDER BY version;

-- name: record_migration
INSERT INTO lastro.migrations (version, name, checksum)
VALUES (%(version)s, %(name)s, %(checksum)s);

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
