-- A project's own words; called only by store/words.py.

-- name: stored_words
-- Every word by key, or those behind one; index words_pkey.
SELECT key, term, means, protected FROM lastro.words
WHERE project_id = %(project_id)s::bigint AND (%(after)s::text IS NULL OR key > %(after)s::text)
ORDER BY key
LIMIT %(limit)s::bigint;

-- name: words_at
-- Those that may stand in a query; a search of a project without words does not ask. Index
-- words_pkey.
SELECT term, means, protected FROM lastro.words
WHERE project_id = %(project_id)s::bigint AND key = ANY (%(keys)s::text[]);

-- name: save_words
-- Words over those of the same keys; index words_pkey.
INSERT INTO lastro.words (project_id, key, term, means, protected)
SELECT %(project_id)s::bigint, w.key, w.term, w.means, w.protected
FROM jsonb_to_recordset(%(rows)s::jsonb)
    AS w (key text, term text, means text[], protected boolean)
ON CONFLICT ON CONSTRAINT words_pkey DO UPDATE
SET term = excluded.term, means = excluded.means, protected = excluded.protected;

-- name: delete_words
-- Index words_pkey.
DELETE FROM lastro.words
WHERE project_id = %(project_id)s::bigint AND key = ANY (%(keys)s::text[]);
