-- Sessions and their events; called only by store/sessions.py. Who adds events holds the locks of
-- their sessions' rows to the end, so that what is counted there is true and nobody else numbers.

-- name: stage_events
-- PostgreSQL refuses COPY into a table under row-level security: copy beside it, then insert.
CREATE TEMPORARY TABLE incoming_events (
    position integer, session_id text, id text, seq bigint, type text, actor text, content text,
    payload text, occurred_at timestamptz
) ON COMMIT DROP;

-- name: copy_events
COPY pg_temp.incoming_events (
    position, session_id, id, seq, type, actor, content, payload, occurred_at
) FROM STDIN (FORMAT BINARY);

-- name: drop_staged_events
DROP TABLE pg_temp.incoming_events;

-- name: ensure_sessions
-- In one order, so that two writers never wait for each other crosswise; index sessions_pkey.
INSERT INTO lastro.sessions (project_id, id)
SELECT DISTINCT %(project_id)s::bigint, session_id FROM pg_temp.incoming_events
ORDER BY session_id
ON CONFLICT ON CONSTRAINT sessions_pkey DO NOTHING;

-- name: lock_sessions
-- In one order; index sessions_pkey.
SELECT s.id
FROM lastro.sessions AS s
WHERE s.project_id = %(project_id)s::bigint
    AND s.id = ANY (%(sessions)s::text[])
ORDER BY s.id
FOR NO KEY UPDATE;

-- name: number_events
-- The next numbers of each session to the events that bring none and are not there yet; of one that
-- comes twice to the first. Indexes sessions_pkey and events_id_key.
UPDATE pg_temp.incoming_events AS i SET seq = n.seq
FROM (
    SELECT f.position, s.last_seq + row_number() OVER (PARTITION BY s.id ORDER BY f.position) AS seq
    FROM (
        SELECT session_id, id, min(position) AS position FROM pg_temp.incoming_events
        WHERE seq IS NULL GROUP BY session_id, id
    ) AS f
    JOIN lastro.sessions AS s ON s.project_id = %(project_id)s::bigint AND s.id = f.session_id
    WHERE NOT EXISTS (
        SELECT FROM lastro.events AS e
        WHERE e.project_id = s.project_id AND e.session_id = s.id AND e.id = f.id
    )
) AS n
WHERE n.position = i.position;

-- name: insert_events
-- In the order in which they came: of two that exclude each other the first goes in. What went in is
-- counted in the sessions' rows. Indexes events_pkey, events_id_key and sessions_pkey.
WITH added AS (
    INSERT INTO lastro.events (
        project_id, session_id, seq, id, type, actor, content, payload, occurred_at
    )
    SELECT
        %(project_id)s::bigint, session_id, seq, id, type, actor, content, payload::jsonb,
        occurred_at
    FROM pg_temp.incoming_events
    WHERE seq IS NOT NULL
    ORDER BY position
    ON CONFLICT DO NOTHING
    RETURNING session_id, seq, type, occurred_at,
        CASE WHEN type = %(title_type)s::text THEN
            nullif(left(btrim(regexp_replace(content, '\s+', ' ', 'g')), 200), '')
        END AS title
),
counted AS (
    SELECT
        session_id, count(*) AS event_count,
        count(*) FILTER (WHERE type = ANY (%(indexed_types)s::text[])) AS indexed_count,
        max(seq) AS last_seq, min(occurred_at) AS started_at,
        max(seq) FILTER (WHERE title IS NOT NULL) AS title_seq
    FROM added GROUP BY session_id
),
titles AS (
    SELECT c.session_id, c.title_seq, a.title
    FROM counted AS c JOIN added AS a ON a.session_id = c.session_id AND a.seq = c.title_seq
)
UPDATE lastro.sessions AS s SET
    event_count = s.event_count + c.event_count,
    indexed_count = s.indexed_count + c.indexed_count,
    last_seq = greatest(s.last_seq, c.last_seq),
    started_at = least(s.started_at, c.started_at),
    title = CASE WHEN t.title_seq > coalesce(s.title_seq, -1) THEN t.title ELSE s.title END,
    title_seq = greatest(s.title_seq, t.title_seq)
FROM counted AS c LEFT JOIN titles AS t ON t.session_id = c.session_id
WHERE s.project_id = %(project_id)s::bigint AND s.id = ANY (%(sessions)s::text[])
    AND s.id = c.session_id
RETURNING c.event_count;

-- name: refused_events
-- Staged events that are not in the log as they came: another one has their id or their number.
-- Indexes events_id_key and events_pkey, for each row.
SELECT i.position, e.seq, o.id AS taken_by
FROM pg_temp.incoming_events AS i
LEFT JOIN LATERAL (
    SELECT * FROM lastro.events AS e
    WHERE e.project_id = %(project_id)s::bigint AND e.session_id = i.session_id AND e.id = i.id
    LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
    SELECT o.id FROM lastro.events AS o
    WHERE e.id IS NULL
        AND o.project_id = %(project_id)s::bigint AND o.session_id = i.session_id AND o.seq = i.seq
    LIMIT 1
) AS o ON true
WHERE e.id IS NULL
    OR (i.seq, i.type, i.content) IS DISTINCT FROM
        (CASE WHEN i.seq IS NOT NULL THEN e.seq END, e.type, e.content)
    OR (i.actor, i.payload::jsonb, i.occurred_at) IS DISTINCT FROM (e.actor, e.payload, e.occurred_at)
ORDER BY i.position;

-- name: find_event
-- Index events_id_key.
SELECT session_id AS session, id, seq, type, actor, content, payload, occurred_at AS time
FROM lastro.events
WHERE project_id = %(project_id)s::bigint AND session_id = %(session)s::text
    AND id = %(id)s::text;

-- name: events_page
-- A session's events behind a number, in the order of their numbers, of the named types or of any:
-- so many at most, and none more once they have so many bytes, but one at least. A text tells its
-- size unread, and so does a payload that is not compressed. Index events_pkey.
SELECT session, id, seq, type, actor, content, payload, time
FROM (
    SELECT session, id, seq, type, actor, content, payload, time,
        sum(size_bytes) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) - size_bytes AS before_bytes
    FROM (
        SELECT session_id AS session, id, seq, type, actor, content, payload, occurred_at AS time,
            octet_length(content) + CASE
                WHEN payload IS NULL THEN 0
                WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                ELSE octet_length(payload::text)
            END AS size_bytes
        FROM lastro.events
        WHERE project_id = %(project_id)s::bigint AND session_id = %(session)s::text
            AND seq > %(after)s::bigint
            AND (%(types)s::text[] IS NULL OR type = ANY (%(types)s::text[]))
        ORDER BY seq
        LIMIT %(limit)s::bigint
    ) AS sized
) AS summed
WHERE before_bytes < %(max_bytes)s::bigint
ORDER BY seq;

-- name: count_events_until
-- Events of the named types up to a number; index events_pkey.
SELECT count(*)
FROM lastro.events
WHERE project_id = %(project_id)s::bigint AND session_id = %(session)s::text
    AND seq <= %(until)s::bigint AND type = ANY (%(types)s::text[]);

-- name: session_states
-- Sessions as the log has them beside what is indexed of them; all of a project where none is
-- named, those behind an id where one is given. Indexes sessions_pkey and documents_place_key.
SELECT
    s.id, s.title, s.event_count, s.indexed_count, s.last_seq, s.started_at, s.ended_at,
    d.id AS document_id, d.title AS document_title, d.language, d.content_hash, d.fingerprint,
    d.state, d.metadata
FROM lastro.sessions AS s
LEFT JOIN lastro.documents AS d
    ON d.project_id = s.project_id AND d.kind = 'session' AND d.source IS NULL AND d.place = s.id
WHERE s.project_id = %(project_id)s::bigint
    AND (%(sessions)s::text[] IS NULL OR s.id = ANY (%(sessions)s::text[]))
    AND (%(after)s::text IS NULL OR s.id > %(after)s::text)
ORDER BY s.id
LIMIT %(limit)s::bigint;

-- name: end_session
-- The first end stands; index sessions_pkey.
UPDATE lastro.sessions SET ended_at = coalesce(ended_at, now())
WHERE project_id = %(project_id)s::bigint AND id = %(session)s::text;

-- name: delete_sessions
-- With their events, by the foreign key; index sessions_pkey.
DELETE FROM lastro.sessions
WHERE project_id = %(project_id)s::bigint AND id = ANY (%(sessions)s::text[])
RETURNING id, event_count;
