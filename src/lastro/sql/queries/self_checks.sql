-- What self-calibration asks of a project's own rows; called only by store/self_checks.py.

-- name: sample_rows
-- Published rows with a vector, by smallest id: ids are hashes, so that is a sample by chance which
-- the same rows give again. Index chunks_pkey.
SELECT id, content, embedding
FROM lastro.chunks
WHERE project_id = %(project_id)s AND status = 'published' AND embedding_model IS NOT NULL
ORDER BY id
LIMIT %(sample_rows)s::integer;

-- name: last_check
-- Index self_checks_pkey.
SELECT embedder, row_count, questions, agreement, lexical_mrr, trust
FROM lastro.self_checks WHERE project_id = %(project_id)s;

-- name: save_check
-- The last look replaces the one before; index self_checks_pkey.
INSERT INTO lastro.self_checks (
    project_id, embedder, row_count, questions, agreement, lexical_mrr, trust
)
VALUES (
    %(project_id)s, %(embedder)s, %(row_count)s, %(questions)s, %(agreement)s, %(lexical_mrr)s,
    %(trust)s
)
ON CONFLICT ON CONSTRAINT self_checks_pkey DO UPDATE SET
    embedder = excluded.embedder, row_count = excluded.row_count,
    questions = excluded.questions, agreement = excluded.agreement,
    lexical_mrr = excluded.lexical_mrr, trust = excluded.trust,
    checked_at = now();
