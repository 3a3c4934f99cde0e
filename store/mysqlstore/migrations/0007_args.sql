-- For programs from version 3 on.
--
-- The arguments of a run, as JSON, and what its backfill has to do after it. Most runs
-- have neither.
ALTER TABLE {run} ADD COLUMN args MEDIUMBLOB NULL, LOCK=NONE;
ALTER TABLE {run} ADD COLUMN backfill BLOB NULL, LOCK=NONE;
