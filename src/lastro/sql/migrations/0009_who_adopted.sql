-- Whether an index run adopted a version by itself: what a person chose is left alone.
ALTER TABLE lastro.profile_adoptions ADD COLUMN by_itself boolean NOT NULL DEFAULT false;
