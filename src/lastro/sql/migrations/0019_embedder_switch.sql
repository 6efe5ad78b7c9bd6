-- The switch to another embedder that is under way, if any. While it fills, the table chunks has the
-- columns next_embedding, next_model and next_version (queries/switch.sql); once it has swapped they
-- are the vectors, and what remains is measured again.
CREATE TABLE lastro.embedder_switch (
    singleton boolean NOT NULL DEFAULT true,
    id text NOT NULL,
    version text NOT NULL,
    dimension integer NOT NULL,
    fingerprint text NOT NULL,
    phase text NOT NULL DEFAULT 'filling',
    started_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT embedder_switch_pkey PRIMARY KEY (singleton),
    CONSTRAINT embedder_switch_singleton CHECK (singleton),
    CONSTRAINT embedder_switch_phase CHECK (phase IN ('filling', 'swapped'))
);
GRANT SELECT ON lastro.embedder_switch TO lastro_app;
