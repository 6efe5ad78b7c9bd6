-- Stored profiles, which of them a project answers with, and the scale of its cosines; called only
-- by store/profiles.py.

-- name: ranking_numbers
-- The adopted version of a profile, if any, whether a person chose what answers, the scale of the
-- project's cosines, if measured, and whether its texts told how far the vectors of the active
-- embedder can be trusted; indexes profile_adoptions_pkey, profiles_pkey, vector_scale_pkey and
-- self_checks_pkey.
SELECT p.body, coalesce(NOT a.by_itself, false) AS chosen, s.mean, s.spread,
    c.project_id IS NOT NULL AS looked_at
FROM (VALUES (1)) AS one
LEFT JOIN (
    SELECT version, by_itself FROM lastro.profile_adoptions
    WHERE project_id = %(project_id)s AND name = %(name)s
    ORDER BY step DESC LIMIT 1
) AS a ON true
LEFT JOIN lastro.profiles AS p
    ON p.project_id = %(project_id)s AND p.name = %(name)s AND p.version = a.version
LEFT JOIN lastro.vector_scale AS s ON s.project_id = %(project_id)s
LEFT JOIN lastro.self_checks AS c
    ON c.project_id = %(project_id)s AND c.trust IS NOT NULL
    AND c.embedder = (SELECT fingerprint FROM lastro.active_embedder);

-- name: find_profile
-- One stored version; index profiles_pkey.
SELECT body FROM lastro.profiles
WHERE project_id = %(project_id)s AND name = %(name)s AND version = %(version)s;

-- name: stored_profiles
-- Every stored version, and whether it is the one that answers; index profiles_pkey.
SELECT
    p.body, p.created_at,
    p.version IS NOT DISTINCT FROM (
        SELECT a.version FROM lastro.profile_adoptions AS a
        WHERE a.project_id = p.project_id AND a.name = p.name
        ORDER BY a.step DESC LIMIT 1
    ) AS adopted
FROM lastro.profiles AS p
WHERE p.project_id = %(project_id)s
ORDER BY p.name, p.version;

-- name: save_profile
-- The next version of its name, after those stored and the one that it is based on.
INSERT INTO lastro.profiles (project_id, name, version, body)
SELECT
    %(project_id)s, %(name)s, n.version,
    %(body)s::jsonb || jsonb_build_object('version', n.version)
FROM (
    SELECT greatest(coalesce(max(version), 0), %(after)s::integer) + 1 AS version
    FROM lastro.profiles WHERE project_id = %(project_id)s AND name = %(name)s
) AS n
RETURNING version;

-- name: adopt_profile
-- Index profile_adoptions_pkey; a version that is not there breaks the foreign key.
INSERT INTO lastro.profile_adoptions (project_id, name, step, version, by_itself)
SELECT %(project_id)s, %(name)s, coalesce(max(step), 0) + 1, %(version)s, %(by_itself)s
FROM lastro.profile_adoptions WHERE project_id = %(project_id)s AND name = %(name)s;

-- name: roll_back_profile
-- Takes the last adoption away; index profile_adoptions_pkey.
DELETE FROM lastro.profile_adoptions AS a
WHERE a.project_id = %(project_id)s AND a.name = %(name)s AND a.step = (
    SELECT max(step) FROM lastro.profile_adoptions
    WHERE project_id = %(project_id)s AND name = %(name)s
)
RETURNING a.by_itself;

-- name: delete_vector_scale
DELETE FROM lastro.vector_scale WHERE project_id = %(project_id)s;

-- name: insert_vector_scale
-- Mean and spread of the cosines between the rows of smallest id: ids are hashes, so that is a
-- sample by chance which the same rows give again. Index chunks_pkey.
WITH sample AS MATERIALIZED (
    SELECT id, embedding
    FROM lastro.chunks
    WHERE project_id = %(project_id)s AND status = 'published' AND embedding IS NOT NULL
    ORDER BY id
    LIMIT %(sample_rows)s::integer
)
INSERT INTO lastro.vector_scale (project_id, row_count, mean, spread)
SELECT %(project_id)s, c.rows, c.mean, c.spread
FROM (
    SELECT
        (SELECT count(*) FROM sample) AS rows,
        avg(1 - (one.embedding <=> two.embedding)) AS mean,
        stddev_samp(1 - (one.embedding <=> two.embedding)) AS spread
    FROM sample AS one JOIN sample AS two ON one.id < two.id
) AS c
WHERE c.rows >= %(least_rows)s::integer AND c.spread > 0;
