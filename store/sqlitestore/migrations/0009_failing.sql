-- For programs from version 3 on.
--
-- Whether the last run of a job that says whether the job works has failed: the move that
-- ends a run writes its verdict (1: the job works, 2: it fails) to the run, and the
-- trigger takes it from there. Programs of earlier versions write none.
ALTER TABLE cronlease_job ADD COLUMN failing INTEGER NOT NULL DEFAULT 0 CHECK (failing IN (0, 1));
ALTER TABLE cronlease_run ADD COLUMN verdict INTEGER;

DROP TRIGGER IF EXISTS cronlease_finished;
CREATE TRIGGER cronlease_finished AFTER UPDATE OF state ON cronlease_run
WHEN NEW.state > 2
BEGIN
  UPDATE cronlease_job
  SET finished_at = NEW.finished_at, started_at = max(coalesce(started_at, NEW.started_at), coalesce(NEW.started_at, started_at)),
    failing = CASE NEW.verdict WHEN 1 THEN 0 WHEN 2 THEN 1 ELSE failing END
  WHERE grp = NEW.grp AND name = NEW.job;
END;
