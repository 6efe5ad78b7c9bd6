-- How a source is read, known from the moment a run begins: root is a folder, or the address of a
-- remote repository. Until now a folder read as its files lie was told by having no revision, which
-- a first run that was stopped does not have either.
ALTER TABLE lastro.sources
    ADD COLUMN kind text NOT NULL DEFAULT 'repository',
    ADD CONSTRAINT sources_kind CHECK (kind IN ('repository', 'worktree', 'remote'));
UPDATE lastro.sources SET kind = 'worktree' WHERE revision IS NULL AND indexed_at IS NOT NULL;
