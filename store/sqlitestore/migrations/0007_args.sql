-- For programs from version 3 on.
--
-- The arguments of a run, as JSON, and what its backfill has to do after it. Most runs
-- have neither.
ALTER TABLE cronlease_run ADD COLUMN args BLOB;
ALTER TABLE cronlease_run ADD COLUMN backfill TEXT;
