-- A look at a project's own texts keeps how well its words find their own passage: where they do
-- not, agreement with them says nothing (trust.py). Null for a look before this migration.
ALTER TABLE lastro.self_checks ADD COLUMN lexical_mrr double precision;
