-- Questions that found nothing, counted. id is a hash of the normalised question and the canonical
-- filter (lastro.gap.gap_id), since texts may be too long for a key: the same question again meets
-- its row at gaps_pkey. query is as it was asked first.
-- nearest_chunk is the best row below the threshold at the last miss. No text of it is kept, and
-- no foreign key: it is shown only where a search with the same filter may still see that row.
CREATE TABLE lastro.gaps (
    project_id bigint NOT NULL,
    id uuid NOT NULL,
    query text NOT NULL,
    normalised text NOT NULL,
    filter jsonb NOT NULL,
    hit_count bigint NOT NULL DEFAULT 1,
    first_seen timestamptz NOT NULL DEFAULT now(),
    last_seen timestamptz NOT NULL DEFAULT now(),
    status text NOT NULL DEFAULT 'open',
    nearest_chunk uuid,
    nearest_score double precision,
    CONSTRAINT gaps_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT gaps_project_fkey FOREIGN KEY (project_id)
        REFERENCES lastro.projects (id) ON DELETE CASCADE,
    CONSTRAINT gaps_query CHECK (query <> '' AND normalised <> ''),
    CONSTRAINT gaps_filter CHECK (jsonb_typeof(filter) = 'object'),
    CONSTRAINT gaps_hit_count CHECK (hit_count >= 1),
    CONSTRAINT gaps_seen CHECK (first_seen <= last_seen),
    CONSTRAINT gaps_status CHECK (status IN ('open', 'dismissed', 'resolved', 'accepted')),
    CONSTRAINT gaps_nearest CHECK ((nearest_chunk IS NULL) = (nearest_score IS NULL))
);

-- ANALYZE keeps values of columns; no plan needs those of running text.
ALTER TABLE lastro.gaps
    ALTER COLUMN query SET STATISTICS 0,
    ALTER COLUMN normalised SET STATISTICS 0,
    ALTER COLUMN filter SET STATISTICS 0;

ALTER TABLE lastro.gaps ENABLE ROW LEVEL SECURITY;
CREATE POLICY gaps_project ON lastro.gaps TO lastro_app
    USING (project_id = ANY (nullif(current_setting('lastro.projects', true), '')::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON lastro.gaps TO lastro_app;
