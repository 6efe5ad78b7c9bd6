-- The words of a batch go into their index at once, when it is stored, and not row by row: about
-- four times as fast. They wait in the index's pending list meanwhile, which is emptied in the same
-- transaction, so no search pays for it for longer than that.
ALTER INDEX lastro.chunks_search_vector_idx SET (fastupdate = on);

-- PostgreSQL lets the index's owner alone empty the list, and the application is not that.
CREATE FUNCTION lastro.index_words() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT gin_clean_pending_list(to_regclass('lastro.chunks_search_vector_idx')) $$;
REVOKE EXECUTE ON FUNCTION lastro.index_words() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lastro.index_words() TO lastro_app;
