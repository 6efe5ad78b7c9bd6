-- Databases for one piece of work; called only by db/scratch.py, as the tables' owner.

-- name: lock_scratch
-- Held by the session: between a database's creation and its maker's first connection nobody looks.
SELECT pg_advisory_lock(%(key)s);

-- name: abandoned_scratch
-- Scratch databases of this user that nobody is connected to: their makers are gone.
SELECT d.datname
FROM pg_catalog.pg_database AS d
WHERE d.datname ~ '^lastro_scratch_[0-9a-f]+$'
    AND pg_has_role(d.datdba, 'USAGE')
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity AS a WHERE a.datid = d.oid)
ORDER BY d.datname;

-- name: create_scratch
CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8';

-- name: drop_abandoned
-- Fails while anybody is connected, which is wanted.
DROP DATABASE IF EXISTS {name};

-- name: drop_scratch
DROP DATABASE IF EXISTS {name} WITH (FORCE);

-- name: settle
-- What autovacuum would do in a minute: visibility and statistics, so that plans are the usual ones.
VACUUM (ANALYZE) lastro.chunks, lastro.documents, lastro.lexeme_stats, lastro.corpus_stats;
