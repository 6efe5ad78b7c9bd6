-- Jobs of projects, and the queue's rows behind them; called only by store/jobs.py. The queue's
-- tables (schema lastro_jobs) are small and local; ids are theirs. How long a worker may be silent
-- before it counts as dead is %(lost_s)s, in seconds.

-- name: defer_job
-- A row of the queue, and what it is to do, as one; index procrastinate_jobs_queueing_lock_idx_v1
-- refuses a second one that waits under the same queueing lock.
WITH queued AS (
    SELECT unnest(lastro_jobs.procrastinate_defer_jobs_v1(ARRAY[ROW(
        %(queue)s::varchar, %(task)s::varchar, %(priority)s::integer, %(lock)s::text,
        %(queueing_lock)s::text, jsonb_build_object('project_id', %(project_id)s::bigint),
        now() + make_interval(secs => %(in_s)s::float8)
    )::lastro_jobs.procrastinate_job_to_defer_v1])) AS id
)
INSERT INTO lastro.jobs (project_id, id, kind, key, request)
SELECT %(project_id)s::bigint, q.id, %(kind)s::text, %(key)s::text, %(request)s::jsonb
FROM queued AS q
RETURNING id;

-- name: waiting_job
-- The job of a key that waits, held: no worker fetches it before the transaction ends; index
-- jobs_pkey, whose rows of the project are read whole.
SELECT j.id, j.request
FROM lastro.jobs AS j
JOIN lastro_jobs.procrastinate_jobs AS q ON q.id = j.id AND q.status = 'todo'
WHERE j.project_id = %(project_id)s::bigint AND j.key = %(key)s::text
ORDER BY j.id
LIMIT 1
FOR UPDATE OF q;

-- name: renew_job
-- A job that waits is asked for again; index jobs_pkey.
UPDATE lastro.jobs SET request = %(request)s::jsonb, failures = 0
WHERE project_id = %(project_id)s::bigint AND id = %(id)s::bigint;

-- name: hasten_job
-- It is due in %(in_s)s seconds (null: at once) where it was due later; index
-- procrastinate_jobs_pkey.
UPDATE lastro_jobs.procrastinate_jobs
SET scheduled_at = CASE
    WHEN %(in_s)s::float8 IS NOT NULL
    THEN least(scheduled_at, now() + make_interval(secs => %(in_s)s::float8))
END
WHERE id = %(id)s::bigint AND scheduled_at IS NOT NULL;

-- name: begin_job
-- What a fetched job is to do; nothing where its project was erased. Index jobs_pkey.
UPDATE lastro.jobs SET starts = starts + 1, done = NULL, total = NULL
WHERE project_id = %(project_id)s::bigint AND id = %(id)s::bigint
RETURNING kind, request, starts, failures;

-- name: open_queue
-- From here on another trigger is another job, and one that is tried again is in nobody's way;
-- index procrastinate_jobs_pkey.
UPDATE lastro_jobs.procrastinate_jobs SET queueing_lock = NULL WHERE id = %(id)s::bigint;

-- name: note_progress
-- Index jobs_pkey.
UPDATE lastro.jobs SET done = %(done)s::bigint, total = %(total)s::bigint
WHERE project_id = %(project_id)s::bigint AND id = %(id)s::bigint;

-- name: end_job
-- A start ended in order, whatever became of it; index jobs_pkey.
UPDATE lastro.jobs
SET starts = 0, failures = %(failures)s::integer, done = NULL, total = NULL,
    outcome = %(outcome)s::text,
    report = %(report)s::jsonb, error = %(error)s::jsonb
WHERE project_id = %(project_id)s::bigint AND id = %(id)s::bigint;

-- name: list_jobs
-- The newest first, before an id where one is given; each null asks for nothing. Where no state is
-- asked for, no more jobs are looked at than are told. Indexes jobs_pkey, procrastinate_jobs_pkey,
-- procrastinate_workers_pkey and procrastinate_events_job_id_fkey_v1.
WITH wanted AS (
    SELECT j.project_id, j.id
    FROM lastro.jobs AS j JOIN lastro_jobs.procrastinate_jobs AS q ON q.id = j.id
    WHERE j.project_id = ANY (%(projects)s::bigint[])
        AND (%(ids)s::bigint[] IS NULL OR j.id = ANY (%(ids)s::bigint[]))
        AND (%(before)s::bigint IS NULL OR j.id < %(before)s::bigint)
    ORDER BY j.id DESC
    LIMIT CASE WHEN %(states)s::text[] IS NULL THEN %(limit)s::bigint END
)
SELECT * FROM (
    SELECT
        j.project_id, j.id, j.kind, j.request, j.done, j.total, j.report, j.error, j.deferred_at,
        q.attempts, e.started_at, e.finished_at,
        CASE WHEN q.status = 'todo' AND q.scheduled_at > now() THEN q.scheduled_at
        END AS next_attempt_at,
        CASE q.status
            WHEN 'todo' THEN CASE WHEN q.scheduled_at > now() THEN 'waiting' ELSE 'queued' END
            WHEN 'doing' THEN CASE
                WHEN w.id IS NULL THEN 'stalled'
                WHEN q.abort_requested THEN 'stopping'
                ELSE 'running'
            END
            WHEN 'succeeded' THEN coalesce(j.outcome, 'done')
            WHEN 'failed' THEN 'failed'
            ELSE 'cancelled'
        END AS state
    FROM wanted
    JOIN lastro.jobs AS j ON j.project_id = wanted.project_id AND j.id = wanted.id
    JOIN lastro_jobs.procrastinate_jobs AS q ON q.id = j.id
    LEFT JOIN lastro_jobs.procrastinate_workers AS w ON w.id = q.worker_id
        AND w.last_heartbeat >= now() - make_interval(secs => %(lost_s)s::float8)
    LEFT JOIN LATERAL (
        SELECT
            max(v.at) FILTER (WHERE v.type = 'started') AS started_at,
            max(v.at) FILTER (
                WHERE v.type IN ('succeeded', 'failed', 'cancelled', 'aborted')
            ) AS finished_at
        FROM lastro_jobs.procrastinate_events AS v WHERE v.job_id = q.id
    ) AS e ON true
) AS known
WHERE %(states)s::text[] IS NULL OR state = ANY (%(states)s::text[])
ORDER BY id DESC
LIMIT %(limit)s::bigint;

-- name: cancel_job
-- One that waits is cancelled, one that runs is asked to stop; null where it is over. Index
-- jobs_pkey.
SELECT lastro_jobs.procrastinate_cancel_job_v1(id, true, false) FROM lastro.jobs
WHERE project_id = %(project_id)s::bigint AND id = %(id)s::bigint;

-- name: take_back
-- Jobs whose worker is gone wait again, in one statement, so that two who look do it once; one that
-- was asked to stop is stopped. Null takes every project's: it sees numbers alone.
UPDATE lastro_jobs.procrastinate_jobs AS q
SET
    status = CASE
        WHEN q.abort_requested THEN 'aborted' ELSE 'todo'
    END::lastro_jobs.procrastinate_job_status,
    abort_requested = false, queueing_lock = NULL, attempts = q.attempts + 1,
    scheduled_at = NULL, worker_id = NULL
WHERE q.status = 'doing' AND (%(id)s::bigint IS NULL OR q.id = %(id)s::bigint)
    AND NOT EXISTS (
        SELECT FROM lastro_jobs.procrastinate_workers AS w
        WHERE w.id = q.worker_id
            AND w.last_heartbeat >= now() - make_interval(secs => %(lost_s)s::float8)
    )
RETURNING q.id;

-- name: worker_facts
-- How many workers are alive, and when one was heard of last; few rows, read whole.
SELECT
    count(*) FILTER (
        WHERE last_heartbeat >= now() - make_interval(secs => %(lost_s)s::float8)
    ) AS live,
    max(last_heartbeat) AS last_seen
FROM lastro_jobs.procrastinate_workers;

-- name: forget_queue
-- Erasing a project: its rows in the queue, but for one that runs now, which ends by itself; index
-- jobs_pkey.
DELETE FROM lastro_jobs.procrastinate_jobs AS q
USING lastro.jobs AS j
WHERE j.project_id = %(project_id)s::bigint AND q.id = j.id AND q.status <> 'doing';

-- name: prune_queue
-- Jobs that have been over for so long; the queue is read whole.
DELETE FROM lastro_jobs.procrastinate_jobs AS q
WHERE q.status NOT IN ('todo', 'doing') AND (
    SELECT max(v.at) FROM lastro_jobs.procrastinate_events AS v WHERE v.job_id = q.id
) < now() - make_interval(secs => %(kept_s)s::float8);

-- name: prune_jobs
-- What the queue has forgotten; index jobs_pkey.
DELETE FROM lastro.jobs AS j
WHERE j.project_id = ANY (%(projects)s::bigint[]) AND NOT EXISTS (
    SELECT FROM lastro_jobs.procrastinate_jobs AS q WHERE q.id = j.id
);
