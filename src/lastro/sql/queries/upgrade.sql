-- Copying the embedded server's databases to a newer one; called only by db/upgrade.py, as the
-- server's superuser.

-- name: databases
-- Everything but templates and scratch databases, and whose it is.
SELECT d.datname::text, d.datdba::regrole::text
FROM pg_catalog.pg_database AS d
WHERE NOT d.datistemplate AND d.datallowconn
    AND d.datname !~ '^lastro_scratch_[0-9]+_[0-9a-f]+$'
ORDER BY d.datname;

-- name: tables
-- Tables that hold rows of their own, outside PostgreSQL's own schemas.
SELECT n.nspname::text, c.relname::text
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence <> 't'
    AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY n.nspname, c.relname;

-- name: count_rows
SELECT count(*) FROM {table};

-- name: create_database
-- In the new server's own locale.
CREATE DATABASE {name} TEMPLATE template0;

-- name: own_database
ALTER DATABASE {name} OWNER TO {owner};

-- name: settle_database
-- Statistics and visibility are not copied.
VACUUM (ANALYZE);
