-- Questions that found nothing; called only by store/gaps.py.

-- name: record_gap
-- One more miss of a question, whoever else counts at the same moment; index gaps_pkey. What was
-- resolved and is missed again is open again; what was dismissed or accepted stays, and counts on.
INSERT INTO lastro.gaps AS g (
    project_id, id, query, normalised, filter, nearest_chunk, nearest_score
)
VALUES (
    %(project_id)s::bigint, %(id)s::uuid, %(query)s::text, %(normalised)s::text,
    %(asked_in)s::jsonb, %(nearest_chunk)s::uuid, %(nearest_score)s::float8
)
ON CONFLICT ON CONSTRAINT gaps_pkey DO UPDATE SET
    hit_count = g.hit_count + 1,
    last_seen = greatest(g.last_seen, excluded.last_seen),
    status = CASE g.status WHEN 'resolved' THEN 'open' ELSE g.status END,
    nearest_chunk = excluded.nearest_chunk,
    nearest_score = excluded.nearest_score;

-- name: list_gaps
-- Those asked most often first, then the latest; each null asks for nothing. Index gaps_pkey, whose
-- rows of the project are read whole where no id is named: an index in this order would be written
-- by every search that finds nothing.
SELECT id, query, filter, hit_count, first_seen, last_seen, status, nearest_chunk, nearest_score
FROM lastro.gaps
WHERE project_id = %(project_id)s::bigint
    AND (%(ids)s::uuid[] IS NULL OR id = ANY (%(ids)s::uuid[]))
    AND (%(status)s::text IS NULL OR status = %(status)s::text)
    AND (%(since)s::timestamptz IS NULL OR last_seen >= %(since)s::timestamptz)
    AND (
        %(after)s::uuid IS NULL OR (hit_count, last_seen, id)
            < (%(after_count)s::bigint, %(after_seen)s::timestamptz, %(after)s::uuid)
    )
ORDER BY hit_count DESC, last_seen DESC, id DESC
LIMIT %(limit)s::bigint;

-- name: gaps_called
-- Gaps whose id begins with some hexadecimal digits; index gaps_pkey, a project's ids are read
-- whole.
SELECT w.digits, g.id
FROM unnest(%(digits)s::text[]) AS w (digits)
JOIN lastro.gaps AS g ON g.project_id = %(project_id)s::bigint
    AND starts_with(replace(g.id::text, '-', ''), w.digits)
ORDER BY w.digits, g.id;

-- name: set_gap_status
-- Index gaps_pkey.
UPDATE lastro.gaps SET status = %(status)s::text
WHERE project_id = %(project_id)s::bigint AND id = ANY (%(ids)s::uuid[]);

-- name: reopen_gaps
-- All but those that a golden set asks; index gaps_pkey.
UPDATE lastro.gaps SET status = 'open'
WHERE project_id = %(project_id)s::bigint AND id = ANY (%(ids)s::uuid[]) AND status <> 'accepted'
RETURNING id;

-- name: resolve_gap
-- Answered now, unless somebody missed or decided meanwhile; index gaps_pkey.
UPDATE lastro.gaps SET status = 'resolved'
WHERE project_id = %(project_id)s::bigint AND id = %(id)s::uuid
    AND hit_count = %(hit_count)s::bigint AND status IN ('open', 'resolved');

-- name: forget_lost_nearest
-- Nearest rows that are there no more, whose ids are hashes of their text; index chunks_pkey.
UPDATE lastro.gaps AS g SET nearest_chunk = NULL, nearest_score = NULL
WHERE g.project_id = %(project_id)s::bigint AND g.nearest_chunk IS NOT NULL AND NOT EXISTS (
    SELECT FROM lastro.chunks AS c WHERE c.project_id = g.project_id AND c.id = g.nearest_chunk
);

-- name: count_open_gaps
-- Index gaps_pkey.
SELECT count(*) FROM lastro.gaps
WHERE project_id = %(project_id)s::bigint AND status = 'open';
