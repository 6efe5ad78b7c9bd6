-- What embedding cost; called only by store/usage.py. Months are those of UTC.

-- name: record_usage
-- One row a call.
INSERT INTO lastro.embedding_usage (
    project_id, embedder, version, role, texts, characters, tokens, duration_ms, cost
)
SELECT %(project_id)s::bigint, %(embedder)s, %(version)s, %(role)s, c.texts, c.characters,
    c.tokens, c.duration_ms, c.cost
FROM unnest(
    %(texts)s::integer[], %(characters)s::bigint[], %(tokens)s::bigint[],
    %(durations_ms)s::double precision[], %(costs)s::numeric[]
) AS c (texts, characters, tokens, duration_ms, cost);

-- name: record_other_usage
-- Calls of no project, added up; index other_usage_pkey.
INSERT INTO lastro.other_usage AS u (
    month, embedder, version, role, calls, texts, characters, tokens, duration_ms, cost
)
SELECT date_trunc('month', now() AT TIME ZONE 'UTC')::date, %(embedder)s, %(version)s, %(role)s,
    count(*), sum(c.texts), sum(c.characters), sum(c.tokens), sum(c.duration_ms), sum(c.cost)
FROM unnest(
    %(texts)s::integer[], %(characters)s::bigint[], %(tokens)s::bigint[],
    %(durations_ms)s::double precision[], %(costs)s::numeric[]
) AS c (texts, characters, tokens, duration_ms, cost)
ON CONFLICT ON CONSTRAINT other_usage_pkey DO UPDATE SET
    calls = u.calls + excluded.calls,
    texts = u.texts + excluded.texts,
    characters = u.characters + excluded.characters,
    tokens = coalesce(u.tokens + excluded.tokens, u.tokens, excluded.tokens),
    duration_ms = u.duration_ms + excluded.duration_ms,
    cost = coalesce(u.cost + excluded.cost, u.cost, excluded.cost);

-- name: keep_usage_of_erased
-- The sums of a project that is about to be erased; index embedding_usage_recorded_idx.
INSERT INTO lastro.other_usage AS u (
    month, embedder, version, role, calls, texts, characters, tokens, duration_ms, cost
)
SELECT date_trunc('month', recorded_at AT TIME ZONE 'UTC')::date AS month, embedder, version, role,
    count(*), sum(texts), sum(characters), sum(tokens), sum(duration_ms), sum(cost)
FROM lastro.embedding_usage
WHERE project_id = %(project_id)s::bigint
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
ON CONFLICT ON CONSTRAINT other_usage_pkey DO UPDATE SET
    calls = u.calls + excluded.calls,
    texts = u.texts + excluded.texts,
    characters = u.characters + excluded.characters,
    tokens = coalesce(u.tokens + excluded.tokens, u.tokens, excluded.tokens),
    duration_ms = u.duration_ms + excluded.duration_ms,
    cost = coalesce(u.cost + excluded.cost, u.cost, excluded.cost);

-- name: reserve_spend
-- Adds what a call may cost at most to the month's sum, unless that would pass the budget: then no
-- row. One statement, so that of two processes one waits for the other's sum; index
-- embedding_spend_pkey.
INSERT INTO lastro.embedding_spend AS s (project_id, month, spent)
SELECT %(project_id)s::bigint, date_trunc('month', now() AT TIME ZONE 'UTC')::date,
    %(most)s::numeric
WHERE %(most)s::numeric <= %(budget)s::numeric
ON CONFLICT ON CONSTRAINT embedding_spend_pkey DO UPDATE SET spent = s.spent + excluded.spent
WHERE s.spent + excluded.spent <= %(budget)s::numeric
RETURNING s.month;

-- name: settle_spend
-- What calls cost less than was reserved for them; index embedding_spend_pkey.
UPDATE lastro.embedding_spend
SET spent = greatest(spent + %(difference)s::numeric, 0)
WHERE project_id = %(project_id)s::bigint AND month = %(month)s::date;

-- name: this_transaction
-- The id of the transaction that asks, which never comes again; reads no table.
SELECT pg_current_xact_id()::text;

-- name: transaction_fate
-- Whether a transaction whose end was not heard of was committed; reads no table.
SELECT pg_xact_status(%(transaction)s::xid8);

-- name: spent_now
-- A project's name, the present month, and what is spent or reserved in it; indexes projects_pkey
-- and embedding_spend_pkey.
SELECT p.slug, to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM'), coalesce(s.spent, 0)
FROM lastro.projects AS p
LEFT JOIN lastro.embedding_spend AS s
    ON s.project_id = p.id AND s.month = date_trunc('month', now() AT TIME ZONE 'UTC')::date
WHERE p.id = %(project_id)s::bigint;

-- name: usage_sums
-- Calls of visible projects since a time, by project and embedder; index
-- embedding_usage_recorded_idx.
SELECT p.slug AS project, u.embedder, u.version, u.role, count(*) AS calls,
    sum(u.texts) AS texts, sum(u.characters)::bigint AS characters, sum(u.tokens)::bigint AS tokens,
    count(*) FILTER (WHERE u.tokens IS NULL) AS uncounted, sum(u.duration_ms) AS duration_ms,
    sum(u.cost) AS cost
FROM lastro.embedding_usage AS u
JOIN lastro.projects AS p ON p.id = u.project_id
WHERE u.project_id = ANY (%(projects)s::bigint[]) AND u.recorded_at >= %(since)s::timestamptz
GROUP BY p.slug, u.embedder, u.version, u.role
ORDER BY p.slug, u.embedder, u.version, u.role;

-- name: other_usage_sums
-- Calls of no project, and of erased ones, of months since a time; a row for each month and
-- embedder, read whole.
SELECT NULL::text AS project, embedder, version, role, sum(calls)::bigint AS calls,
    sum(texts)::bigint AS texts, sum(characters)::bigint AS characters,
    sum(tokens)::bigint AS tokens, NULL::bigint AS uncounted, sum(duration_ms) AS duration_ms,
    sum(cost) AS cost
FROM lastro.other_usage
WHERE month >= date_trunc('month', %(since)s::timestamptz AT TIME ZONE 'UTC')::date
GROUP BY embedder, version, role
ORDER BY embedder, version, role;

-- name: spends
-- What visible projects spent in the months since a time; index embedding_spend_pkey.
SELECT p.slug AS project, to_char(s.month, 'YYYY-MM') AS month, s.spent
FROM lastro.embedding_spend AS s
JOIN lastro.projects AS p ON p.id = s.project_id
WHERE s.project_id = ANY (%(projects)s::bigint[])
    AND s.month >= date_trunc('month', %(since)s::timestamptz AT TIME ZONE 'UTC')::date
ORDER BY p.slug, s.month;
