-- A project's rules, and what they ask of candidates; called only by store/rules.py.

-- name: stored_rules
-- Every rule by name; index rules_pkey.
SELECT name, "when"::text, entry::text, weight, reason
FROM lastro.rules
WHERE project_id = %(project_id)s::bigint
ORDER BY name;

-- name: save_rules
-- Rules over those of the same names; returns which were not there before or were others, and
-- whether they were there. The outer query sees the rows as they were; index rules_pkey.
WITH given AS MATERIALIZED (
    SELECT name, "when", entry, weight, reason
    FROM jsonb_populate_recordset(NULL::lastro.rules, %(rules)s::jsonb)
),
saved AS (
    INSERT INTO lastro.rules AS r (project_id, name, "when", entry, weight, reason)
    SELECT %(project_id)s::bigint, name, "when", entry, weight, reason FROM given ORDER BY name
    ON CONFLICT ON CONSTRAINT rules_pkey DO UPDATE
    SET "when" = excluded."when", entry = excluded.entry, weight = excluded.weight,
        reason = excluded.reason
    WHERE (r."when", r.entry, r.weight, r.reason)
        IS DISTINCT FROM (excluded."when", excluded.entry, excluded.weight, excluded.reason)
    RETURNING r.name
)
SELECT s.name, EXISTS (
    SELECT FROM lastro.rules AS r
    WHERE r.project_id = %(project_id)s::bigint AND r.name = s.name
) AS was_there
FROM saved AS s;

-- name: delete_rules
-- Index rules_pkey.
DELETE FROM lastro.rules
WHERE project_id = %(project_id)s::bigint AND name = ANY (%(names)s::text[])
RETURNING name;

-- name: rule_entries
-- What a rule may ask of those of the candidates that are entries; index chunks_pkey.
SELECT document_id, entity_key, entity_type, attributes, effective_at
FROM lastro.searchable
WHERE project_id = %(project_id)s::bigint AND id = ANY (%(ids)s::uuid[]) AND scope = 'entity';
