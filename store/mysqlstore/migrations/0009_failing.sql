-- For programs from version 3 on.
--
-- Whether the last run of a job that says whether the job works has failed. Programs of
-- earlier versions leave it as it is.
ALTER TABLE {job} ADD COLUMN failing BOOLEAN NOT NULL DEFAULT 0, LOCK=NONE;
