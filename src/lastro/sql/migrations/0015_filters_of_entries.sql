-- A filter reads the attributes of every entry that it might keep: they stay in the row. Outside of
-- it each cost three pages to read, and a filter over 100,000 entries half a second.
ALTER TABLE lastro.chunks ALTER COLUMN attributes SET STORAGE MAIN;

-- What a rare value or type keeps is found without reading the other entries.
CREATE INDEX chunks_attributes_idx ON lastro.chunks USING gin (attributes jsonb_path_ops)
    WITH (fastupdate = off) WHERE status = 'published' AND scope = 'entity';
CREATE INDEX chunks_entity_type_idx ON lastro.chunks (project_id, entity_type)
    WHERE status = 'published' AND scope = 'entity';
