-- The lexical leg reads every candidate's words: they stay in the row, and the texts, which only
-- hits need, go out of it. Rows that are there keep theirs outside until they are written again.
ALTER TABLE lastro.chunks ALTER COLUMN search_vector SET STORAGE MAIN;
