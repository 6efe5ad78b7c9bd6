-- Erasing a text: its cached vectors are known by the project that it came from, and PostgreSQL
-- keeps no samples of it.

-- The project whose text this was first; null for texts of no project, such as retrieval sets, and
-- for rows of earlier releases. No foreign key: the cache stays beside the projects.
ALTER TABLE lastro.embedding_cache ADD COLUMN first_project bigint;
CREATE INDEX embedding_cache_first_project_idx ON lastro.embedding_cache (first_project)
    WHERE first_project IS NOT NULL;

-- ANALYZE keeps values of columns in pg_statistic, where no DELETE reaches them. No plan needs
-- those of these columns.
ALTER TABLE lastro.chunks
    ALTER COLUMN title SET STATISTICS 0,
    ALTER COLUMN heading_path SET STATISTICS 0,
    ALTER COLUMN heading_text SET STATISTICS 0,
    ALTER COLUMN anchor SET STATISTICS 0,
    ALTER COLUMN content SET STATISTICS 0,
    ALTER COLUMN context SET STATISTICS 0,
    ALTER COLUMN heading_extra SET STATISTICS 0,
    ALTER COLUMN lexical_extra SET STATISTICS 0;
ALTER TABLE lastro.documents
    ALTER COLUMN title SET STATISTICS 0,
    ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE lastro.golden_sets ALTER COLUMN questions SET STATISTICS 0;
ALTER TABLE lastro.evaluation_runs ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE lastro.embedding_cache ALTER COLUMN embedding SET STATISTICS 0;
