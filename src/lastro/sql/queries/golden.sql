-- Golden sets, and the chunks at judged places; called only by store/golden.py.

-- name: chunk_places
-- Where the chunks of the named files, sessions and entries lie, in the order of their text.
-- Indexes documents_place_key and chunks_ordinal_key.
SELECT
    c.id, c.source_path AS path, coalesce(c.heading_path, ARRAY[]::text[]) AS heading_path,
    c.anchor, c.line_start, c.line_end, c.session_id AS session, c.event_id AS event,
    c.entity_key AS entity
FROM lastro.documents AS d
JOIN lastro.chunks AS c ON c.project_id = d.project_id AND c.document_id = d.id
WHERE d.project_id = %(project_id)s::bigint AND d.place = ANY (%(places)s::text[])
    AND c.status = 'published'
ORDER BY d.place, d.source, c.ordinal, c.id;

-- name: golden_versions
-- Every version of a project's sets, or of the one that is named, the newest first.
-- Index golden_sets_pkey.
SELECT
    g.name, g.version, g.content_hash, g.imported_at,
    count(*) AS questions,
    count(*) FILTER (WHERE q.line ? 'unanswerable') AS unanswerable,
    count(*) FILTER (WHERE q.line ? 'derived') AS derived,
    array_agg(DISTINCT q.line ->> 'language' ORDER BY q.line ->> 'language') AS languages
FROM lastro.golden_sets AS g
CROSS JOIN LATERAL jsonb_array_elements(g.questions) AS q (line)
WHERE g.project_id = %(project_id)s::bigint
    AND (%(name)s::text IS NULL OR g.name = %(name)s::text)
GROUP BY g.project_id, g.name, g.version
ORDER BY g.name, g.version DESC;

-- name: golden_questions
-- The questions of one version; index golden_sets_pkey.
SELECT questions FROM lastro.golden_sets
WHERE project_id = %(project_id)s::bigint AND name = %(name)s::text AND version = %(version)s;

-- name: insert_golden_set
-- As the next version; two imports at once meet at golden_sets_pkey.
INSERT INTO lastro.golden_sets (project_id, name, version, content_hash, questions)
SELECT
    %(project_id)s::bigint, %(name)s::text, coalesce(max(version), 0) + 1,
    %(content_hash)s::text, %(questions)s::jsonb
FROM lastro.golden_sets
WHERE project_id = %(project_id)s::bigint AND name = %(name)s::text
RETURNING version;

-- name: delete_golden_set
-- With every version; index golden_sets_pkey.
DELETE FROM lastro.golden_sets
WHERE project_id = %(project_id)s::bigint AND name = %(name)s::text
RETURNING version;

-- name: passages
-- What drafts of questions are made from: headings of a project's files, texts with a link, and
-- titles of entries. Index documents_place_key; the chunks are read whole.
SELECT
    coalesce(c.source_path, '') AS path, c.entity_key AS entity, c.scope = 'adr' AS is_adr,
    coalesce(d.title, '') AS title, c.language,
    coalesce(c.heading_path, ARRAY[d.title]) AS heading_path, c.anchor,
    CASE WHEN d.kind = 'file' AND strpos(c.content, '](') > 0 THEN c.content END AS content
FROM lastro.documents AS d
JOIN lastro.chunks AS c ON c.project_id = d.project_id AND c.document_id = d.id
WHERE d.project_id = %(project_id)s::bigint AND c.status = 'published'
    AND (d.kind = 'file' OR d.kind = 'entity' AND c.ordinal = 0)
ORDER BY d.place, d.source, c.ordinal, c.id;
