-- Entries of a knowledge base; called only by store/entities.py. An entry is a document whose
-- metadata hold it as it was given.

-- name: entity_documents
-- What is stored of these keys; index documents_place_key.
SELECT id, place, scope, content_hash, fingerprint, state, revision
FROM lastro.documents
WHERE project_id = %(project_id)s::bigint AND kind = 'entity' AND source IS NULL
    AND place = ANY (%(keys)s::text[])
ORDER BY place;

-- name: entities_after
-- Entries behind a key, in the order of their keys; index documents_place_key.
SELECT metadata
FROM lastro.documents
WHERE project_id = %(project_id)s::bigint AND kind = 'entity' AND source IS NULL
    AND place > %(key)s::text
ORDER BY place
LIMIT %(limit)s::bigint;

-- name: find_entity
-- Index documents_place_key.
SELECT metadata
FROM lastro.documents
WHERE project_id = %(project_id)s::bigint AND kind = 'entity' AND source IS NULL
    AND place = %(key)s::text;

-- name: entity_summaries
-- Entries without their texts, with their chunks, by key; those behind one where it is given. With
-- the source, which is null in all of them, that is the order of the index. Indexes documents_place_key, chunks_ordinal_key.
SELECT d.place AS key, d.title, d.metadata ->> 'type' AS type, d.metadata ->> 'status' AS status,
    (
        SELECT count(*) FROM lastro.chunks AS c
        WHERE c.project_id = d.project_id AND c.document_id = d.id
    ) AS chunks,
    d.state = 'complete' AS complete, d.indexed_at AS updated_at
FROM lastro.documents AS d
WHERE d.project_id = %(project_id)s::bigint AND d.kind = 'entity' AND d.source IS NULL
    AND (%(type)s::text IS NULL OR d.metadata ->> 'type' = %(type)s::text)
    AND (%(status)s::text IS NULL OR d.metadata ->> 'status' = %(status)s::text)
    AND (%(after)s::text IS NULL OR d.place > %(after)s::text)
ORDER BY d.source, d.place
LIMIT %(limit)s::bigint;
