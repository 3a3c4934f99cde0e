-- For programs from version 3 on.
--
-- When jobs and groups were paused, as jobs.ParsePauses reads it: 36 characters for
-- each pause, and 18 for one that goes on.
ALTER TABLE cronlease_job ADD COLUMN pauses TEXT NOT NULL DEFAULT '';
ALTER TABLE cronlease_group ADD COLUMN pauses TEXT NOT NULL DEFAULT '';
