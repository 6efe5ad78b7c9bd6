-- A project's rows out of the tables and into them; called only by store/archive.py.

-- name: table_fields
-- Columns that hold a table's own values, but the project and the vector, and vectors that a
-- switch to another embedder makes.
SELECT a.attname::text
FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = ('lastro.' || %(table)s::text)::regclass AND a.attnum > 0
    AND NOT a.attisdropped AND a.attgenerated = ''
    AND a.attname NOT IN (
        'project_id', 'embedding', 'next_embedding', 'next_model', 'next_version'
    )
ORDER BY a.attnum;

-- name: archived_rows
-- A project's rows of one table as lines of JSON; {fields} gives each column the name that it has
-- there, {order} is that of the table's key, whose index is read.
SELECT jsonb_build_object(%(kind)s::text, to_jsonb(r))::text
FROM (
    SELECT {fields} FROM {archived} WHERE project_id = %(project_id)s::bigint ORDER BY {order}
) AS r;

-- name: insert_archived
-- Rows of one table; {fields} are those that they have, the others get what is the default.
INSERT INTO {archived} (project_id, {fields})
SELECT %(project_id)s::bigint, {fields}
FROM jsonb_populate_recordset(NULL::{archived}, %(rows)s::jsonb);
