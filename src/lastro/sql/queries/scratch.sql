-- Databases for one piece of work; called only by db/scratch.py, as the tables' owner.

-- name: server_second
-- Part of a scratch database's name, so that the server can tell its age.
SELECT extract(epoch FROM now())::bigint;

-- name: abandoned_scratch
-- This user's scratch databases that nobody is connected to, though their makers have had 60
-- seconds to, several times what it may take.
SELECT d.datname
FROM pg_catalog.pg_database AS d
WHERE d.datname ~ '^lastro_scratch_[0-9]+_[0-9a-f]+$'
    AND pg_has_role(d.datdba, 'USAGE')
    AND split_part(d.datname, '_', 3)::bigint < extract(epoch FROM now()) - 60
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
-- What autovacuum would do in a minute: visibility and statistics, so that plans are the usual.
VACUUM (ANALYZE) lastro.chunks, lastro.documents, lastro.lexeme_stats, lastro.corpus_stats;
