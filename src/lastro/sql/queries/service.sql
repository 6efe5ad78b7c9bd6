-- What a service says of all projects at once; called only by store/service.py.

-- name: backlog
-- Of visible projects: seconds since the last index run ended, gaps that are open, and jobs that
-- wait, by kind. Indexes sources_pkey, gaps_pkey, jobs_pkey and procrastinate_jobs_pkey; the rows
-- of gaps are counted, the queue's are few.
SELECT
    (
        SELECT greatest(extract(epoch FROM now() - max(indexed_at)), 0)::float8
        FROM lastro.sources WHERE project_id = ANY (%(projects)s::bigint[])
    ) AS index_age_s,
    (
        SELECT count(*) FROM lastro.gaps
        WHERE project_id = ANY (%(projects)s::bigint[]) AND status = 'open'
    ) AS open_gaps,
    (
        SELECT coalesce(jsonb_object_agg(w.kind, w.jobs), jsonb_build_object())
        FROM (
            SELECT j.kind, count(*) AS jobs
            FROM lastro.jobs AS j
            JOIN lastro_jobs.procrastinate_jobs AS q ON q.id = j.id AND q.status = 'todo'
            WHERE j.project_id = ANY (%(projects)s::bigint[])
            GROUP BY j.kind
        ) AS w
    ) AS waiting_jobs;
