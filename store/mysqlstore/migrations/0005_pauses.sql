-- For programs from version 3 on.
--
-- When jobs and groups were paused, as jobs.ParsePauses reads it: 36 bytes for each
-- pause, and 18 for one that goes on.
ALTER TABLE {job} ADD COLUMN pauses VARBINARY(4000) NOT NULL DEFAULT '', LOCK=NONE;
